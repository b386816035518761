//! The life of a session: granted, taken up again, expired, closed, kept over restarts.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::common::DEADLINE;
use crate::raw::{Client, Granted, body, connect, connect_request, create, path_and_watch};
use crate::server::Server;

#[test]
fn a_session_is_granted_with_a_time_out_within_bounds_and_in_the_form_that_was_asked() {
    let server = Server::start();
    for (asked, granted) in [(-5, 2_000), (1_999, 2_000), (5_000, 5_000), (100_000, 60_000)] {
        let with = Client::with(server.port(), connect_request(asked, 0, &[0; 16]).bool(true)).granted;
        assert_eq!((with.timeout, with.has_read_only, with.password.len()), (granted, true, 16));
        let without = Client::with(server.port(), connect_request(asked, 0, &[0; 16])).granted;
        assert_eq!((without.timeout, without.has_read_only), (granted, false));
        assert_ne!(with.session, without.session);
        assert_ne!(with.password, without.password);
    }
}

#[test]
fn only_the_password_takes_a_session_up_again() {
    let server = Server::start();
    let mut first = server.client();
    first.ask(1, &create("/mine", b"", 1)).good();
    let granted = first.granted.clone();
    for (session, password) in [
        (granted.session, vec![0; 16]),
        (granted.session, granted.password[..15].to_vec()),
        (granted.session + 1, granted.password.clone()),
    ] {
        let mut wrong = Client::with(server.port(), connect_request(6_000, session, &password).bool(false));
        let nothing = Granted { timeout: 0, session: 0, password: vec![0; 16], has_read_only: true };
        assert_eq!(wrong.granted, nothing);
        wrong.expect_end();
    }
    let mut second = Client::again(server.port(), &granted);
    assert_eq!((second.granted.session, &second.granted.password), (granted.session, &granted.password));
    first.expect_end();
    assert_eq!(second.stat("/mine").unwrap().owner, granted.session);
}

#[test]
fn who_knows_of_later_transactions_than_there_are_begins_anew() {
    let server = Server::start();
    let granted = server.client().granted;
    let late = body().int(0).long(i64::MAX).int(6_000).long(granted.session).buffer(&granted.password);
    assert_eq!(Client::with(server.port(), late).granted.timeout, 0);
}

#[test]
fn a_closed_session_is_answered_and_gone_with_its_nodes() {
    let server = Server::start();
    let (mut leaving, mut observer) = (server.client(), server.client());
    leaving.ask(1, &create("/mine", b"", 1)).good();
    observer.ask(3, &path_and_watch("/mine", true)).good();
    let closed = leaving.ask(-11, &body());
    assert!(closed.good().0.is_empty());
    leaving.expect_end();
    assert_eq!(observer.next().unwrap().event(), (2, "/mine".to_owned()));
    assert_eq!(Client::again(server.port(), &leaving.granted).granted.timeout, 0);
}

#[test]
fn a_silent_session_expires_and_one_that_pings_does_not() {
    let server = Server::start();
    let mut silent = Client::with(server.port(), connect_request(1, 0, &[0; 16]));
    let mut pinging = Client::with(server.port(), connect_request(1, 0, &[0; 16]));
    silent.ask(1, &create("/silent", b"", 1)).good();
    pinging.ask(1, &create("/pinging", b"", 1)).good();
    let mut observer = server.client();
    let started = Instant::now();
    while observer.stat("/silent").is_some() {
        pinging.send_as(-2, 11, &body());
        assert_eq!(pinging.next().unwrap().xid, -2);
        assert!(started.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(observer.stat("/pinging").is_some());
    silent.expect_end();
}

#[test]
fn sessions_and_nodes_are_there_after_a_restart_and_numbers_go_on() {
    let server = Server::start();
    let mut client = server.client();
    client.ask(1, &create("/parent", b"data", 0)).good();
    client.ask(1, &create("/parent/mine", b"", 1)).good();
    let before = [client.stat("/"), client.stat("/parent"), client.stat("/parent/mine")];
    let last = client.create("/last").zxid;
    let server = server.restart();
    client.expect_end();
    let other = server.client();
    let mut again = Client::again(server.port(), &client.granted);
    assert_eq!(again.granted.session, client.granted.session);
    assert_ne!(other.granted.session, again.granted.session);
    assert_eq!([again.stat("/parent"), again.stat("/parent/mine")], [before[1].clone(), before[2].clone()]);
    let made = again.create("/after");
    assert!(made.error == 0 && made.zxid >> 32 > last >> 32, "a later run: {:#x} after {last:#x}", made.zxid);
    // It still ends as any other.
    again.ask(-11, &body()).good();
    let mut other = other;
    assert_eq!(other.stat("/parent/mine"), None);
}

#[test]
fn a_session_that_nobody_takes_up_after_a_restart_expires() {
    let server = Server::start();
    let mut client = Client::with(server.port(), connect_request(1, 0, &[0; 16]));
    client.ask(1, &create("/mine", b"", 1)).good();
    let server = server.restart();
    let mut observer = server.client();
    observer.ask(3, &path_and_watch("/mine", true)).good();
    assert_eq!(observer.next().unwrap().event(), (2, "/mine".to_owned()));
}

#[test]
fn the_operators_words_are_answered() {
    let server = Server::start();
    let _client = server.client();
    for (word, parts) in [
        ("ruok", &["imok"][..]),
        ("srvr", &["Zookeeper version: ", "\nMode: standalone\n", "\nConnections: 1\n", "\nNode count: 1\n"]),
        ("stat", &["Zxid: 0x100000001\n"]),
        ("mntr", &["zk_server_state\tstandalone\n", "zk_znode_count\t1\n", "zk_num_alive_connections\t1\n"]),
        ("conf", &["minSessionTimeout=2000\n", "maxSessionTimeout=60000\n"]),
        ("isro", &["rw"]),
    ] {
        let mut stream = connect(server.port());
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(parts.iter().all(|part| answer.contains(part)), "{word}: {answer}");
    }
}
