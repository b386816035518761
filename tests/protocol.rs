//! The grammar of the wire protocol, case by case (01 §2.6, §3, §15).

// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use bytes::BytesMut;
use metaq::protocol::{Command, DecodeError, Decoder, Limits, Opaque, Request, Response};

/// Every command of an input, and the error that ended it, if one did.
fn decode(input: &[u8]) -> (Vec<Command>, Option<DecodeError>) {
    let mut decoder = Decoder::new(Limits::default());
    let mut buffer = BytesMut::from(input);
    let mut commands = Vec::new();
    loop {
        match decoder.decode(&mut buffer) {
            Ok(Some(command)) => commands.push(command),
            Ok(None) => return (commands, None),
            Err(error) => return (commands, Some(error)),
        }
    }
}

fn decode_one(input: &[u8]) -> Command {
    let (mut commands, error) = decode(input);
    assert_eq!((commands.len(), error), (1, None), "{}", String::from_utf8_lossy(input));
    commands.remove(0)
}

fn encode(command: &Command) -> String {
    let mut out = BytesMut::new();
    command.encode(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn what_the_reference_encodes_is_decoded_and_encoded_to_the_same_bytes() {
    for frame in [
        "result 404 9 99\r\nnot found",
        "result 404 0 99\r\n",
        "value 5 99\r\nhello",
        "get test boyan-group 1 1000 1048576 -3\r\n",
        "offset test boyan-test 1 1000 -1\r\n",
        "put test 1 5 0 -1 TX:test:1 0\r\nhello",
        "put test 1 5 0 -1 0\r\nhello",
        "put test 1 5 0 0\r\nhello",
        "put test 1 5 0 TX:test:1 0\r\nhello",
        "put test -1 0 1 2147483647 -2147483648\r\n",
        "sync test 1 5 0 9999 777 0\r\nhello",
        "sync test 0 5 0 100 2\r\nhello",
        "stats  -1000\r\n",
        "stats topics -1000\r\n",
        "version 999\r\n",
        "quit\r\n",
        "transaction TX:sessionId:99 sessionId BEGIN 3 unique-qualifier 100\r\n",
        "transaction null s1 RECOVER XAMessageProducer-host 8\r\n",
        "transaction TX:s1:1 s1 BEGIN 10\r\n",
        "transaction TX:s1:1 s1 BEGIN 30 10\r\n",
        "transaction XID:100:ff0007:01ab:uq s1 COMMIT_TWO_PHASE uq 33\r\n",
        "get t g 0 0 1024 5 wait=200 more\r\n",
    ] {
        assert_eq!(encode(&decode_one(frame.as_bytes())), frame);
    }
}

#[test]
fn accepted_variants_mean_what_they_mean_to_the_reference() {
    for (input, same_as) in [
        ("version\r\n", "version 2147483647\r\n"),
        ("stats\r\n", "stats  2147483647\r\n"),
        ("stats 5\r\n", "stats 5 2147483647\r\n"),
        ("stats  5\r\n", "stats  5\r\n"),
        ("stats x 5 surplus\r\n", "stats x 5\r\n"),
        ("version 7 surplus\r\n", "version 7\r\n"),
        ("offset t g 0 0 5 surplus\r\n", "offset t g 0 0 5\r\n"),
        ("result 200 2 5 surplus\r\nok", "result 200 2 5\r\nok"),
        ("value 2 5 surplus\r\nok", "value 2 5\r\nok"),
        ("get t g 0 0 1024 5   \r\n", "get t g 0 0 1024 5\r\n"),
        ("get t g +0 00 +1024 -05\r\n", "get t g 0 0 1024 -5\r\n"),
        ("quit now 5\r\n", "quit\r\n"),
        ("get a\nb\rc g 0 0 1 5\r\n", "get a\nb\rc g 0 0 1 5\r\n"),
        ("put t 0 0 0 1\r\n", "put t 0 0 0 1\r\n"),
    ] {
        assert_eq!(encode(&decode_one(input.as_bytes())), same_as);
    }
}

#[test]
fn malformed_lines_are_errors() {
    for input in [
        "\r\n",
        " \r\n",
        "   \r\n",
        " get t g 0 0 1024 5\r\n",
        "GET t g 0 0 1024 5\r\n",
        "getx t g 0 0 1024 5\r\n",
        "res 200 0 1\r\n",
        "resultx 200 0 1\r\n",
        "values 3 5\r\n",
        "stat 5\r\n",
        "t k s BEGIN 5\r\n",
        "s\r\n",
        "fetch t\r\n",
        "get t g 0 0 1024\r\n",
        "get  t g 0 0 1024 5\r\n",
        "get t g 0 0 1024 x\r\n",
        "get t g 4294967296 0 1024 5\r\n",
        "get t g 0 9223372036854775808 1024 5\r\n",
        "put t 0\r\n",
        "put t 0 5\r\n",
        "put t 0 0 0\r\n",
        "put t 0 0 0 1 TX:a:1 2 3 4\r\n",
        "put t 0 x 0 1\r\n",
        "put t 0 -1 0 1\r\n",
        "put t 0 0 0 x 1\r\n",
        "put t 0 0 0 99999999999 1\r\n",
        "put t 0 0 0 -1 bad-key 1\r\n",
        "sync t 0 0 0\r\n",
        "sync t 0 0 0 1 2 3 4\r\n",
        "result 200 -1 5\r\n",
        "result 200 0\r\n",
        "value 0\r\n",
        "offset t g 0 0\r\n",
        "stats   5\r\n",
        "stats x y\r\n",
        "version x\r\n",
        "transaction TX:s:1 s BEGIN\r\n",
        "transaction TX:s:1 s begin 5\r\n",
        "transaction TX:s:1 s BEGIN 1 2 3 4\r\n",
        "transaction what s BEGIN 5\r\n",
        "transaction TX:s:1 s BEGIN  5\r\n",
        "GET / HTTP/1.1\r\n",
    ] {
        let (commands, error) = decode(input.as_bytes());
        assert!(commands.is_empty() && error.is_some(), "{input:?}: {commands:?}, {error:?}");
    }
    assert!(decode(b"\xfe\xff \r\n").1.is_some());
}

#[test]
fn an_end_of_line_is_cr_and_lf_together() {
    assert_eq!(decode(b"version 1\n"), (vec![], None));
    assert_eq!(decode(b"version 1\r"), (vec![], None));
    let (commands, error) = decode(b"version 1\r\nversion 2\r\nbad\r\nversion 3\r\n");
    assert_eq!(commands.iter().map(encode).collect::<String>(), "version 1\r\nversion 2\r\n");
    assert!(matches!(error, Some(DecodeError::UnknownCommand(word)) if word == "bad"));
}

#[test]
fn bodies_are_counted_in_bytes_and_may_hold_anything() {
    let Command::Request(Request::Put(put)) = decode_one(b"put t 0 9 1 5\r\n\r\nquit\r\n\0") else { panic!("a put") };
    assert_eq!(&put.body[..], b"\r\nquit\r\n\0");
    assert_eq!((put.flag, put.checksum, put.transaction), (1, None, None));
}

#[test]
fn malformed_text_is_replaced_and_numbers_stay_bytes() {
    let Command::Request(Request::Get(get)) = decode_one(b"get a\xffb g 0 0 1 5\r\n") else { panic!("a get") };
    assert_eq!(&*get.topic, "a\u{fffd}b");
}

#[test]
fn a_line_beyond_the_limit_is_refused_before_it_is_complete() {
    let limits = Limits { line_bytes: 32, body_bytes: 100 };
    let mut decoder = Decoder::new(limits);
    let fits = format!("stats {}\r\n", "x".repeat(26));
    assert!(matches!(decoder.decode(&mut BytesMut::from(&fits[..])), Ok(Some(_))));
    for input in [format!("stats {}\r\n", "x".repeat(27)), format!("stats {}", "x".repeat(28))] {
        let error = Decoder::new(limits).decode(&mut BytesMut::from(&input[..]));
        assert_eq!(error, Err(DecodeError::LineTooLong { limit: 32 }), "{input}");
    }
}

#[test]
fn a_body_beyond_the_limit_is_refused_before_it_arrives() {
    let limits = Limits { line_bytes: 100, body_bytes: 100 };
    for line in ["put t 0 101 0 1\r\n", "sync t 0 101 0 1 1\r\n", "result 200 101 1\r\n", "value 101 1\r\n"] {
        let error = Decoder::new(limits).decode(&mut BytesMut::from(line));
        assert_eq!(error, Err(DecodeError::BodyTooLong { length: 101, limit: 100 }), "{line}");
    }
    assert_eq!(Decoder::new(limits).decode(&mut BytesMut::from("put t 0 100 0 1\r\n")), Ok(None));
}

#[test]
fn a_decoder_knows_whether_the_stream_may_end_here() {
    let mut decoder = Decoder::new(Limits::default());
    let mut buffer = BytesMut::from("version 1\r\nput t 0 5 0 1\r\nhe");
    assert!(matches!(decoder.decode(&mut buffer), Ok(Some(_))));
    assert_eq!(decoder.decode(&mut buffer), Ok(None));
    assert!(!decoder.is_at_boundary(&buffer));
    assert_eq!(decoder.missing(&buffer), 3);
    buffer.extend_from_slice(b"llo");
    assert!(matches!(decoder.decode(&mut buffer), Ok(Some(_))));
    assert!(decoder.is_at_boundary(&buffer));
}

#[test]
fn every_command_names_its_opaque() {
    for (frame, opaque) in [("get t g 0 0 1 -3\r\n", -3), ("version\r\n", i32::MAX), ("quit\r\n", i32::MAX)] {
        let Command::Request(request) = decode_one(frame.as_bytes()) else { panic!("a request") };
        assert_eq!(request.opaque(), Opaque::new(opaque));
    }
    let Command::Response(Response::Value(value)) = decode_one(b"value 0 9\r\n") else { panic!("a value") };
    assert_eq!(value.opaque, Opaque::new(9));
}
