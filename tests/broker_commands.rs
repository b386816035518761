//! Every command of a plain broker, with the exact answers of the reference (01 §8, §10, §15).

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::in_process::{Setup, TestBroker};
use common::raw::{Raw, put_frame};
use metaq::message::{HEADER_LEN, Records};
use metaq::protocol::{Response, Status};

fn failed(place: &str, detail: &str, address: impl std::fmt::Display, opaque: i32) -> String {
    let text = format!("Put message to [broker 'meta://{address}'] [partition '{place}'] failed.Detail:{detail}");
    format!("result 500 {} {opaque}\r\n{text}", text.len())
}

/// The three numbers of a put's answer.
fn put_result(answer: &str) -> (i64, i32, i64) {
    let (head, body) = answer.split_once("\r\n").unwrap();
    assert!(head.starts_with("result 200 "), "{answer}");
    let numbers: Vec<i64> = body.split(' ').map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers.len(), 3, "{answer}");
    (numbers[0], i32::try_from(numbers[1]).unwrap(), numbers[2])
}

#[tokio::test]
async fn messages_are_stored_one_behind_the_other_and_read_back_to_the_byte() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    let hello = put_result(&client.ask("put test 0 5 0 907060870 -2147483648\r\nhello").await);
    let attribute = put_result(&client.ask("put test 0 13 1 1264772380 5\r\n\0\0\0\x04attrhello").await);
    assert_eq!((hello.1, hello.2), (0, 0));
    assert_eq!((attribute.1, attribute.2), (0, 25));
    assert!(hello.0 > 0 && attribute.0 > hello.0, "ids ascend");

    client.send("get test g 0 0 1024 6\r\n").await;
    let Some(Response::Value(value)) = client.answer().await else { panic!("a value") };
    assert_eq!(value.data.len(), 58);
    assert_eq!(value.data[..8], [0, 0, 0, 5, 0x36, 0x10, 0xa6, 0x86]);
    assert_eq!(value.data[8..16], hello.0.to_be_bytes());
    assert_eq!(value.data[16..25], *b"\0\0\0\0hello");
    assert_eq!(value.data[25..33], [0, 0, 0, 0x0d, 0x4b, 0x62, 0xe5, 0x1c]);
    assert_eq!(value.data[33..41], attribute.0.to_be_bytes());
    assert_eq!(value.data[41..58], *b"\0\0\0\x01\0\0\0\x04attrhello");
}

#[tokio::test]
async fn gets_are_answered_by_the_first_rule_that_fits() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    client.put("test", 0, b"hello").await;
    client.put("test", 0, b"attribute+hello").await;
    for (command, answer) in [
        ("get test g 0 60 1024 7\r\n", "result 404 37 7\r\nCould not find message at position 60"),
        ("get test g 0 61 1024 7\r\n", "result 404 37 7\r\nCould not find message at position 61"),
        ("get test g 0 9223372036854775807 1024 8\r\n", "result 301 2 8\r\n60"),
        ("get test g 0 -1 1024 9\r\n", "result 301 1 9\r\n0"),
        ("get test g 1 0 1024 11\r\n", "result 404 47 11\r\nThe topic `test` in partition `1` is not exists"),
        ("get nope g 0 0 1024 11\r\n", "result 404 47 11\r\nThe topic `nope` in partition `0` is not exists"),
        ("get test g 0 0 0 10\r\n", "result 400 30 10\r\nBad request,invalid max size:0"),
        ("get test g 0 0 -5 10\r\n", "result 400 31 10\r\nBad request,invalid max size:-5"),
    ] {
        assert_eq!(client.ask(command).await, answer);
    }
    for (offset, max_size, length) in [(0, 30, 30), (0, 1, 1), (25, 1 << 30, 35), (3, 10, 10), (59, 1024, 1)] {
        client.send(format!("get test g 0 {offset} {max_size} 6 surplus\r\n")).await;
        let Some(Response::Value(value)) = client.answer().await else { panic!("a value") };
        assert_eq!(value.data.len(), length, "offset {offset}, size {max_size}");
    }
}

#[tokio::test]
async fn offsets_beyond_the_end_are_moved_when_the_operator_says_so() {
    let setup = Setup { system: "updateConsumerOffsets=true", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("test", 0, b"hello").await;
    assert_eq!(client.ask("get test g 0 1000 1024 1\r\n").await, "result 301 2 1\r\n25");
    assert!(client.ask("get test g 0 25 1024 1\r\n").await.starts_with("result 404 "));
}

#[tokio::test]
async fn an_answer_never_has_more_than_the_transfer_limit() {
    let setup = Setup { system: "maxTransferSize=100", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("test", 0, &[b'x'; 300]).await;
    assert_eq!(client.get("test", 0, 0).await.unwrap().len(), 100);
}

#[tokio::test]
async fn puts_that_cannot_be_stored_say_why() {
    let broker = TestBroker::start().await;
    let address = broker.address();
    let mut client = broker.connect().await;
    for (command, place, detail) in [
        (
            "put test 0 5 0 1 13\r\nhello",
            "test-0",
            "Checksum failure,message may be corrupted when transfering on networking.",
        ),
        ("put test 7 5 0 -1 13\r\nhello", "test-7", "wrong partition 7"),
        ("put test 2 5 0 -1 13\r\nhello", "test-2", "wrong partition 2"),
        ("put test -2 5 0 -1 13\r\nhello", "test--2", "wrong partition -2"),
        ("put nope 0 5 0 -1 13\r\nhello", "nope-0", "The server do not accept topic nope"),
        ("put tes 0 5 0 -1 13\r\nhello", "tes-0", "The server do not accept topic tes"),
    ] {
        assert_eq!(client.ask(command).await, failed(place, detail, address, 13));
    }
    assert!(client.ask("stats  1\r\n").await.contains("\r\nput_failed 6\r\n"));
    assert_eq!(client.get("test", 0, 0).await, None, "nothing was stored");
}

#[tokio::test]
async fn every_form_of_put_is_taken() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    assert_eq!(put_result(&client.ask("put test 0 5 0 17\r\nhello").await).2, 0);
    assert_eq!(put_result(&client.ask("put test 0 5 -7 907060870 16\r\nhello").await).2, 25);
    assert_eq!(put_result(&client.ask("put test 0 0 0 18\r\n").await).2, 50);
    assert_eq!(put_result(&client.ask("put test 0 1 0 -1 18\r\nx").await).2, 70);
    let mut records = Records::new(client.get("test", 0, 0).await.unwrap(), 100);
    let flags: Vec<i32> = records.by_ref().map(|record| record.unwrap().header.flag).collect();
    assert_eq!(flags, [0, -7, 0, 0], "flags are kept as sent");
}

#[tokio::test]
async fn the_broker_chooses_a_partition_for_minus_one_and_uses_them_all() {
    let setup = Setup { topics: "[topic=test]\nnumPartitions=3\n", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    let mut used = std::collections::BTreeMap::<i32, u32>::new();
    for _ in 0..300 {
        *used.entry(put_result(&client.ask("put test -1 1 0 -1 16\r\nx").await).1).or_default() += 1;
    }
    // The chance that an even choice misses 50 of 300 is below one in 10^9.
    assert!(used.len() == 3 && used.values().all(|&count| count > 50), "{used:?}");
}

#[tokio::test]
async fn offset_queries_answer_the_start_of_the_segment() {
    let setup = Setup { system: "maxSegmentSize=100", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    for _ in 0..3 {
        client.put("test", 0, &[b'x'; 60]).await;
    }
    // Records of 80 bytes: the first segment ends at 160.
    for (offset, nearest) in [(-100, 0), (0, 0), (30, 0), (159, 0), (160, 160), (200, 160), (240, 240), (1000, 240)] {
        let text = nearest.to_string();
        let answer = format!("result 200 {} 12\r\n{text}", text.len());
        assert_eq!(client.ask(format!("offset test g 0 {offset} 12\r\n")).await, answer, "offset {offset}");
    }
    let answer = client.ask("offset test g 1 0 12\r\n").await;
    assert_eq!(answer, "result 404 47 12\r\nThe topic `test` in partition `1` is not exists");
}

#[tokio::test]
async fn what_a_plain_broker_does_not_do_it_refuses_clearly() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    let answer = client.ask("sync test 0 5 0 99 7 1\r\nhello").await;
    assert_eq!(
        answer,
        "result 503 92 1\r\n未注册请求处理器，请求处理器类为com.taobao.metamorphosis.network.SyncCommand"
    );
    for command in [
        "transaction TX:s1:1 s1 BEGIN 30 10\r\n",
        "transaction null s1 RECOVER 10\r\n",
        "put test 0 5 0 -1 TX:s1:1 10\r\nhello",
        "put test 0 5 0 TX:s1:1 10\r\nhello",
    ] {
        let answer = client.ask(command).await;
        assert!(answer.starts_with("result 500 ") && answer.contains("does not support transactions"), "{answer}");
    }
    // END is never answered; the version behind it is.
    let answer = client.ask("transaction TX:s1:1 s1 END 19\r\nversion 20\r\n").await;
    assert!(answer.starts_with("result 200 ") && answer.contains(" 20\r\n"), "{answer}");
    assert_eq!(client.get("test", 0, 0).await, None, "nothing was stored");
}

#[tokio::test]
async fn the_version_names_the_reference_and_us() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    let text = format!("1.4.6.2 metaq/{} wait", env!("CARGO_PKG_VERSION"));
    assert_eq!(client.ask("version -7\r\n").await, format!("result 200 {} -7\r\n{text}", text.len()));
    assert!(client.ask("version\r\n").await.contains(" 2147483647\r\n"));
}

/// The lines of a statistics item, without the frame of the text.
async fn stats(client: &mut Raw, item: &str) -> Vec<String> {
    client.send(format!("stats {item} 1\r\n")).await;
    let Some(Response::Result(result)) = client.answer().await else { panic!("a result") };
    assert_eq!(result.status, Status::SUCCESS);
    let text = String::from_utf8(result.body.to_vec()).unwrap();
    let lines = text.strip_prefix("STATS\r\n").and_then(|text| text.strip_suffix("END\r\n")).expect("the frame");
    lines.split_terminator("\r\n").map(str::to_owned).collect()
}

#[tokio::test]
async fn statistics_have_the_lines_of_the_reference_in_its_order() {
    let setup = Setup {
        topics: "[topic=test]\nnumPartitions=2\nstat=true\n[topic=empty]\nacceptPublish=false\n[topic=wild*]\nstat=true\n",
        ..Setup::default()
    };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    assert!(stats(&mut client, "realtime").await.iter().all(|line| line.ends_with(" null")));
    client.put("test", 0, b"hello").await;
    client.put("test", 1, b"hello").await;
    client.put("wilder", 0, b"hello world").await;
    client.get("test", 0, 0).await;
    client.get("test", 0, 25).await;
    client.ask("put test 9 5 0 -1 1\r\nhello").await;
    client.ask("offset test g 0 0 1\r\n").await;

    let lines = stats(&mut client, "").await;
    let keys: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(
        keys.join(" "),
        "pid broker_id port uptime version slave curr_connections threads cmd_put cmd_get cmd_offset tx_begin \
         tx_xa_begin tx_commit tx_rollback get_miss put_failed total_messages topics config_checksum"
    );
    for line in [
        "broker_id 0",
        "slave false",
        "curr_connections 1",
        "cmd_put 4",
        "cmd_get 2",
        "cmd_offset 1",
        "get_miss 1",
        "put_failed 1",
        "total_messages 3",
        "topics 4",
        "config_checksum 0",
    ] {
        assert!(lines.iter().any(|l| l == line), "{line} is not among {lines:#?}");
    }

    let mut lines = stats(&mut client, "topics").await;
    lines.sort();
    assert_eq!(
        lines,
        [
            "empty *Empty*",
            "test partitions 2 message_count 2 message_bytes 50 accept_publish true accept_subscribe true",
            "wild* *Empty*",
            "wilder partitions 1 message_count 1 message_bytes 31 accept_publish true accept_subscribe true",
        ]
    );
    let mut lines = stats(&mut client, "offsets").await;
    lines.sort();
    assert_eq!(
        lines,
        [
            "test part 0 min_offset 0 max_offset 25",
            "test part 1 min_offset 0 max_offset 25",
            "wilder part 0 min_offset 0 max_offset 31",
        ]
    );

    let lines = stats(&mut client, "realtime").await;
    let starts = [
        "realtime_put Count=4,Value=4,Value/Count=1,",
        "realtime_get Count=2,Value=2,",
        "realtime_offset Count=1,",
        "realtime_get_miss Count=1,",
        "realtime_put_failed Count=1,",
        "realtime_message_size Count=4,Value=26,Value/Count=6.5,",
    ];
    assert_eq!(lines.len(), starts.len());
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{lines:#?}");

    let lines = stats(&mut client, "test").await;
    assert_eq!(lines[..5], ["test", "resultCode 0", "partitions 2", "message_count 2", "bytes 50"]);
    assert!(lines[5].starts_with("topic_realtime_put Count=3,"), "{lines:#?}");
    assert_eq!(lines.len(), 11);
    assert_eq!(stats(&mut client, "empty").await[1], "resultCode 2");
    let unknown = stats(&mut client, "unknown").await;
    assert_eq!(unknown[1], "resultCode 1");
    assert_eq!(unknown[5], "topic_realtime_put Invalid keyTwo:unknown");

    assert_eq!(stats(&mut client, "help").await.len(), 6);
    assert_eq!(stats(&mut client, "reset").await, ["reset ok"]);
    assert!(stats(&mut client, "realtime").await[0].starts_with("realtime_put Count=0,Value=0,Value/Count=invalid,"));
}

#[tokio::test]
async fn what_clients_merely_ask_for_leaves_no_statistics() {
    let setup = Setup { topics: "[topic=w*]\nstat=true\n", metaq: "maxWildcardTopics=1", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("w-born", 0, b"x").await;
    for name in ["w-1", "w-2"] {
        client.ask(format!("get {name} g 0 0 100 1\r\n")).await;
        client.ask(format!("offset {name} g 0 0 1\r\n")).await;
        client.ask(put_frame(name, 0, b"x", 1)).await;
        assert!(stats(&mut client, name).await[5..].iter().all(|line| !line.contains("Count=")), "{name}");
    }
    assert!(stats(&mut client, "w-born").await[5].starts_with("topic_realtime_put Count=1,"));
}

#[tokio::test]
async fn messages_of_a_wildcard_topic_are_kept_under_their_own_name() {
    let setup = Setup { topics: "[topic=order-*]\nnumPartitions=5\n", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let address = broker.address();
    let mut client = broker.connect().await;
    assert_eq!(client.put("order-eu", 0, b"hello").await, 0);
    // The pattern's own options do not hold for the topics that it admits: [system] says one partition.
    let answer = client.ask("put order-eu 1 5 0 -1 2\r\nhello").await;
    assert_eq!(answer, failed("order-eu-1", "wrong partition 1", address, 2));
    assert!(broker.data_path().join("order-eu-0").is_dir());
    let broker = broker.restart().await;
    assert!(broker.connect().await.get("order-eu", 0, 0).await.is_some());
}

#[tokio::test]
async fn names_that_could_leave_the_data_directory_are_unknown_topics() {
    let setup = Setup { topics: "[topic=*]\n", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let address = broker.address();
    let mut client = broker.connect().await;
    let long = "x".repeat(201);
    for name in ["../evil", "/etc/passwd", "..", ".", "a/b", "a\tb", "a\0b", "nul\u{7f}", &long, "\u{fffd}"] {
        let detail = format!("The server do not accept topic {name}");
        let answer = client.ask(put_frame(name, 0, b"x", 3)).await;
        assert_eq!(answer, failed(&format!("{name}-0"), &detail, address, 3));
        assert!(client.ask(format!("get {name} g 0 0 100 4\r\n")).await.starts_with("result 404 "));
    }
    let bytes = client.ask(b"put a\xff 0 1 0 -1 3\r\nx").await;
    assert!(bytes.starts_with("result 500 "), "{bytes}");
    assert_eq!(client.put(&"x".repeat(200), 0, b"fits").await, 0);
    let entries: Vec<_> = std::fs::read_dir(broker.data_path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(entries.len() <= 2, "only the long topic and transactions: {entries:?}");
}

#[tokio::test]
async fn no_more_topics_are_born_from_patterns_than_the_limit_says() {
    let setup = Setup { topics: "[topic=t*]\n[topic=own]\n", metaq: "maxWildcardTopics=2", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("t1", 0, b"x").await;
    client.put("t2", 0, b"x").await;
    let answer = client.ask(put_frame("t3", 0, b"x", 3)).await;
    assert!(answer.starts_with("result 500 ") && answer.contains("maxWildcardTopics"), "{answer}");
    client.put("t1", 0, b"x").await;
    client.put("own", 0, b"x").await;
    let broker = broker.restart().await;
    let answer = broker.connect().await.ask(put_frame("t3", 0, b"x", 3)).await;
    assert!(answer.contains("maxWildcardTopics"), "topics found on disk count: {answer}");
}

#[tokio::test]
async fn messages_up_to_the_limit_are_stored_whole() {
    let broker = TestBroker::with(Setup { metaq: "maxBodyBytes=5000000", ..Setup::default() }).await;
    let mut client = broker.connect().await;
    let body: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
    assert_eq!(client.put("test", 0, &body).await, 0);
    assert_eq!(client.put("test", 0, b"next").await, (HEADER_LEN + body.len()) as i64);
    let file = std::fs::read(broker.data_path().join("test-0/00000000000000000000.meta")).unwrap();
    assert!(file[HEADER_LEN..].starts_with(&body));
}
