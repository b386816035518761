//! Clients that break the rules, or stop playing: they are dropped, everybody else is served.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::common::DEADLINE;
use crate::raw::{Body, Client, body, connect, connect_request, create, frame, path_and_watch, read_frame};
use crate::server::Server;

/// The server has closed, or resets what is still sent to it.
#[track_caller]
fn expect_closed(mut stream: std::net::TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => assert_eq!(rest, [] as [u8; 0]),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
}

#[test]
fn malformed_input_closes_the_connection_and_no_other() {
    let server = Server::start();
    let mut bystander = server.client();
    let good = connect_request(6_000, 0, &[0; 16]);
    for first in [
        &b"GET / HTTP/1.1\r\n"[..],
        &(-1_i32).to_be_bytes(),
        &0x10_0000_i32.to_be_bytes(),
        &frame(b""),
        &frame(&good.0[..20]),
        &frame(&[&good.0[..], b"too much"].concat()),
        &frame(&body().int(0).long(0).int(0).long(0).int(-7).0),
    ] {
        let mut stream = connect(server.port());
        stream.write_all(first).unwrap();
        stream.shutdown(std::net::Shutdown::Write).ok();
        expect_closed(stream);
    }
    let request = |code: i32, body: Body| [&[0, 0, 0, 1][..], &code.to_be_bytes(), &body.0].concat();
    for request in [
        frame(b"\0\0\0\x01\0\0"),
        frame(&request(1, create("/x", b"", 0).bool(true))),
        frame(&request(1, body().text("/x").int(-2))),
        frame(&request(3, body().buffer(b"/\xff").bool(false))),
        frame(&request(101, body().long(0).int(i32::MAX).int(0).int(0))),
        frame(&request(14, body().int(99).bool(false).int(-1))),
        frame(&request(14, body().int(-1).bool(false).int(-1))),
        frame(&request(14, body())),
        0x7fff_ffff_i32.to_be_bytes().to_vec(),
    ] {
        let mut client = server.client();
        client.stream.write_all(&request).unwrap();
        expect_closed(client.stream);
    }
    assert_eq!(bystander.stat("/x"), None);
}

/// A request as large as may be, and one byte more.
#[test]
fn a_request_of_the_largest_size_is_served() {
    let server = Server::start();
    let mut client = server.client();
    let overhead = 8 + create("/large", b"", 0).0.len();
    let data = vec![b'x'; 0xf_ffff - overhead];
    client.ask(1, &create("/large", &data, 0)).good();
    assert_eq!(client.ask(4, &path_and_watch("/large", false)).good().buffer(), Some(data.clone()));
    // It need not even be taken to its end.
    let too_large = create("/large", &[&data[..], b"x"].concat(), 0);
    let _ = client.stream.write_all(&frame(&[&5_i32.to_be_bytes(), &1_i32.to_be_bytes(), &too_large.0[..]].concat()));
    expect_closed(client.stream);
}

/// Valid requests with bytes changed, cut, doubled and inserted, and plain noise.
#[test]
fn noise_never_takes_the_server_down() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let server = Server::start();
    let mut bystander = server.client();
    let valid: [(i32, Body); 9] = [
        (1, create("/n", b"data", 3)),
        (2, body().text("/n").int(-1)),
        (4, path_and_watch("/", true)),
        (7, body().text("/").acl().int(-1)),
        (12, path_and_watch("/", true)),
        (14, body().int(1).bool(false).int(-1).text("/m").buffer(b"").acl().int(0).int(-1).bool(true).int(-1)),
        (18, body().text("/").int(3)),
        (101, body().long(0).int(1).text("/").int(0).int(1).text("/n")),
        (-11, body()),
    ];
    for _ in 0..400 {
        let mut stream = connect(server.port());
        let mut bytes = frame(&connect_request(6_000, 0, &[0; 16]).0);
        for _ in 0..random.usize(1..5) {
            let (code, request) = &valid[random.usize(..valid.len())];
            bytes.extend(frame(&[&[0, 0, 0, 1], &code.to_be_bytes()[..], &request.0].concat()));
        }
        for _ in 0..random.usize(1..8) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, random.u8(..)),
                _ => bytes.extend_from_within(at..),
            }
        }
        // The server may have closed already.
        let _sent = stream.write_all(&bytes);
        let _sent = stream.shutdown(std::net::Shutdown::Write);
        while read_frame(&mut stream).is_some() {}
    }
    bystander.ask(9, &body().text("/")).good();
}

#[test]
fn who_does_not_say_what_he_wants_is_let_go() {
    let server = Server::start();
    let mut silent = connect(server.port());
    silent.write_all(&[0, 0, 0, 44, 0]).unwrap();
    expect_closed(silent);
}

/// Its requests are not read any more, so it is not heard of, so its session ends.
#[test]
fn who_does_not_take_his_answers_is_dropped_and_holds_nobody_up() {
    let server = Server::start();
    let mut observer = server.client();
    observer.ask(1, &create("/large", &vec![0; 1_000_000], 0)).good();
    let mut stuck = Client::with(server.port(), connect_request(2_000, 0, &[0; 16]));
    stuck.ask(1, &create("/stuck", b"", 1)).good();
    observer.ask(3, &path_and_watch("/stuck", true)).good();
    stuck.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let request = frame(&[&[0, 0, 0, 1, 0, 0, 0, 4][..], &path_and_watch("/large", false).0].concat());
    let requests = request.repeat(100);
    let started = Instant::now();
    while stuck.stream.write_all(&requests).is_ok() {
        assert!(started.elapsed() < DEADLINE, "it is read from without end");
    }
    assert_eq!(observer.next().unwrap().event(), (2, "/stuck".to_owned()));
}

#[test]
fn connections_beyond_the_limit_are_closed_and_places_come_free() {
    const LIMIT: usize = 1_000;
    // Both ends of them are in this process.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    if getrlimit(Resource::Nofile).current.is_some_and(|files| files < 3_000) {
        eprintln!("skipped: the system allows too few open files (ulimit -Hn)");
        return;
    }
    let server = Server::start();
    let mut clients: Vec<_> = (0..LIMIT).map(|_| server.client()).collect();
    expect_closed(connect(server.port()));
    clients.pop();
    let started = Instant::now();
    loop {
        let mut stream = connect(server.port());
        let _refused = stream.write_all(&frame(&connect_request(6_000, 0, &[0; 16]).0));
        if read_frame(&mut stream).is_some() {
            break;
        }
        assert!(started.elapsed() < DEADLINE, "no place comes free");
    }
}
