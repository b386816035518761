//! One-shot watches as they arrive.

use crate::raw::{NO_NODE, body, create, path_and_watch};
use crate::server::Server;

#[test]
fn each_change_fires_the_watches_that_it_concerns_before_its_answer() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(client.ask(3, &path_and_watch("/a", true)).error, NO_NODE);
    client.ask(8, &path_and_watch("/", true)).good();

    let xid = client.send(1, &create("/a", b"", 0));
    assert_eq!(client.next().unwrap().event(), (1, "/a".to_owned()));
    assert_eq!(client.next().unwrap().event(), (4, "/".to_owned()));
    assert_eq!(client.next().unwrap().xid, xid);

    client.ask(4, &path_and_watch("/a", true)).good();
    other.ask(5, &body().text("/a").buffer(b"1").int(-1)).good();
    other.ask(5, &body().text("/a").buffer(b"2").int(-1)).good();
    assert_eq!(client.next().unwrap().event(), (3, "/a".to_owned()));

    // Both kinds on one node: its end is told once.
    client.ask(3, &path_and_watch("/a", true)).good();
    client.ask(12, &path_and_watch("/a", true)).good();
    client.ask(8, &path_and_watch("/", true)).good();
    other.ask(2, &body().text("/a").int(-1)).good();
    assert_eq!(client.next().unwrap().event(), (2, "/a".to_owned()));
    assert_eq!(client.next().unwrap().event(), (4, "/".to_owned()));
    client.ask(9, &body().text("/")).good();

    // What is not there cannot be watched by reading it.
    assert_eq!(client.ask(4, &path_and_watch("/b", true)).error, NO_NODE);
    assert_eq!(client.ask(8, &path_and_watch("/b", true)).error, NO_NODE);
    client.create("/b").good();
}

#[test]
fn what_is_seen_of_another_client_comes_in_the_order_of_its_changes() {
    let server = Server::start();
    let (mut writer, mut watcher) = (server.client(), server.client());
    for i in 0..50 {
        watcher.ask(3, &path_and_watch(&format!("/{i}"), true));
    }
    for i in 0..50 {
        writer.send(1, &create(&format!("/{i}"), b"", 0));
    }
    let (mut events, mut reads) = (0, 0);
    while (events, reads) != (50, 50) {
        let told = watcher.next().unwrap();
        if told.xid == -1 {
            let path = format!("/{events}");
            assert_eq!(told.event(), (1, path.clone()));
            // A read behind the event sees what it tells of.
            watcher.send(3, &path_and_watch(&path, false));
            events += 1;
        } else {
            assert_eq!(told.error, 0);
            reads += 1;
        }
    }
}

#[test]
fn watches_can_be_removed_and_are_gone_with_their_connection() {
    let server = Server::start();
    let mut client = server.client();
    client.create("/a").good();
    client.ask(4, &path_and_watch("/a", true)).good();
    client.ask(17, &body().text("/a").int(2)).good();
    assert_eq!(client.ask(17, &body().text("/a").int(1)).error, -121);
    client.ask(18, &body().text("/a").int(3)).good();
    assert_eq!(client.ask(18, &body().text("/a").int(3)).error, -121);

    client.ask(4, &path_and_watch("/a", true)).good();
    let mut again = crate::raw::Client::again(server.port(), &client.granted);
    // No event comes before this answer.
    again.ask(5, &body().text("/a").buffer(b"").int(-1)).good();
}

#[test]
fn watches_set_again_fire_for_what_was_missed() {
    let server = Server::start();
    let mut client = server.client();
    client.create("/a").good();
    let since = client.create("/b").zxid;
    client.ask(5, &body().text("/a").buffer(b"").int(-1)).good();
    let mut again = crate::raw::Client::again(server.port(), &client.granted);
    let list = |b: crate::raw::Body, paths: &[&str]| {
        paths.iter().fold(b.int(i32::try_from(paths.len()).unwrap()), |b, path| b.text(path))
    };
    let watches = list(list(list(body().long(since), &["/a", "/b"]), &["/c"]), &["/"]);
    again.send_as(-8, 101, &watches);
    assert_eq!(again.next().unwrap().event(), (3, "/a".to_owned()));
    let answer = again.next().unwrap();
    assert_eq!((answer.xid, answer.error), (-8, 0));
    again.send(1, &create("/c", b"", 0));
    assert_eq!(again.next().unwrap().event(), (1, "/c".to_owned()));
    assert_eq!(again.next().unwrap().event(), (4, "/".to_owned()));
}
