//! Every request about nodes, field by field.

use crate::raw::{Body, Fields, NO_NODE, Stat, body, create, path_and_watch};
use crate::server::Server;

const UNIMPLEMENTED: i32 = -6;
const BAD_ARGUMENTS: i32 = -8;
const BAD_VERSION: i32 = -103;
const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
const NODE_EXISTS: i32 = -110;
const NOT_EMPTY: i32 = -111;

fn delete(path: &str, version: i32) -> Body {
    body().text(path).int(version)
}

fn set(path: &str, data: &[u8], version: i32) -> Body {
    body().text(path).buffer(data).int(version)
}

#[test]
fn a_stat_tells_what_has_happened_to_a_node() {
    let server = Server::start();
    let mut client = server.client();
    let made = client.ask(1, &create("/a", b"12345", 0));
    assert_eq!(made.good().text(), "/a");
    let first = client.stat("/a").unwrap();
    let now = first.ctime;
    let expected = Stat {
        czxid: made.zxid,
        mzxid: made.zxid,
        ctime: now,
        mtime: now,
        version: 0,
        cversion: 0,
        aversion: 0,
        owner: 0,
        len: 5,
        children: 0,
        pzxid: made.zxid,
    };
    assert_eq!(first, expected);
    assert!(now > 1_600_000_000_000, "milliseconds since 1970: {now}");

    let changed = client.ask(5, &set("/a", b"123", 0));
    let told = changed.good().stat();
    assert_eq!(told, Stat { mzxid: changed.zxid, mtime: told.mtime, version: 1, len: 3, ..expected.clone() });

    let child = client.ask(15, &create("/a/b", b"", 1));
    let mut fields = child.good();
    assert_eq!((fields.text().as_str(), fields.stat().owner), ("/a/b", client.granted.session));
    assert_eq!(fields.0.len(), 0);
    let parent = client.stat("/a").unwrap();
    assert_eq!((parent.pzxid, parent.cversion, parent.children), (child.zxid, 1, 1));

    let removed = client.ask(2, &delete("/a/b", 0));
    assert!(removed.good().0.is_empty());
    let parent = client.stat("/a").unwrap();
    assert_eq!((parent.pzxid, parent.cversion, parent.children, parent.version), (removed.zxid, 2, 0, 1));

    let rights = body().text("/a").int(1).int(1).text("digest").text("x:y");
    let stat = client.ask(7, &rights.int(0)).good().stat();
    assert_eq!((stat.aversion, stat.version, stat.mzxid), (1, 1, changed.zxid));
    let answer = client.ask(6, &body().text("/a"));
    let mut fields = answer.good();
    assert_eq!((fields.int(), fields.int(), fields.text(), fields.text()), (1, 1, "digest".into(), "x:y".into()));
    assert_eq!(fields.stat(), stat);
    // It is not enforced.
    assert_eq!(client.ask(5, &set("/a", b"", -1)).error, 0);
}

#[test]
fn null_data_is_not_empty_data() {
    let server = Server::start();
    let mut client = server.client();
    client.ask(1, &body().text("/null").int(-1).acl().int(0)).good();
    client.create("/empty").good();
    let read = |client: &mut crate::raw::Client, path| {
        let answer = client.ask(4, &path_and_watch(path, false));
        let mut fields = answer.good();
        (fields.buffer(), fields.stat().len)
    };
    assert_eq!(read(&mut client, "/null"), (None, 0));
    assert_eq!(read(&mut client, "/empty"), (Some(vec![]), 0));
    client.ask(5, &body().text("/empty").int(-1).int(-1)).good();
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(read(&mut client, "/null"), (None, 0));
    assert_eq!(read(&mut client, "/empty"), (None, 0));
}

#[test]
fn refusals_have_zookeepers_numbers_and_no_body() {
    let server = Server::start();
    let mut client = server.client();
    client.create("/p").good();
    client.create("/p/c").good();
    client.ask(1, &create("/e", b"", 1)).good();
    let no_rights = body().text("/x").buffer(b"").int(0).int(0);
    for (code, request, error) in [
        (1, create("/p", b"", 0), NODE_EXISTS),
        (1, create("/none/x", b"", 0), NO_NODE),
        (1, create("/e/x", b"", 0), NO_CHILDREN_FOR_EPHEMERALS),
        (1, create("/", b"", 0), NODE_EXISTS),
        (1, create("x", b"", 0), BAD_ARGUMENTS),
        (1, create("/p/", b"", 0), BAD_ARGUMENTS),
        (1, create("/p//x", b"", 0), BAD_ARGUMENTS),
        (1, create("/p/../x", b"", 0), BAD_ARGUMENTS),
        (1, create("/x\0", b"", 0), BAD_ARGUMENTS),
        (1, create("/x", b"", 9), BAD_ARGUMENTS),
        (1, no_rights, -114),
        (15, create("/x", b"", 4), UNIMPLEMENTED),
        (19, create("/x", b"", 4), UNIMPLEMENTED),
        (21, create("/x", b"", 5).long(1_000), UNIMPLEMENTED),
        (2, delete("/p", -1), NOT_EMPTY),
        (2, delete("/p/c", 1), BAD_VERSION),
        (2, delete("/none", -1), NO_NODE),
        (2, delete("/", -1), BAD_ARGUMENTS),
        (3, path_and_watch("/none", false), NO_NODE),
        (4, path_and_watch("/none", false), NO_NODE),
        (4, path_and_watch("none", false), BAD_ARGUMENTS),
        (5, set("/p", b"", 1), BAD_VERSION),
        (5, set("/none", b"", 0), NO_NODE),
        (6, body().text("/none"), NO_NODE),
        (8, path_and_watch("/none", false), NO_NODE),
        (12, path_and_watch("/none", false), NO_NODE),
        (13, delete("/p", 1), BAD_VERSION),
        (17, body().text("/p").int(3), -121),
        (18, body().text("/p").int(9), BAD_ARGUMENTS),
        (106, body().text("/p").int(0), UNIMPLEMENTED),
        (12345, body(), UNIMPLEMENTED),
    ] {
        let answer = client.ask(code, &request);
        assert_eq!((answer.error, answer.body.len()), (error, 0), "request {code} {:?}", request.0);
    }
}

#[test]
fn children_are_listed_with_and_without_the_parents_state() {
    let server = Server::start();
    let mut client = server.client();
    for path in ["/p", "/p/b", "/p/a", "/p/a/x"] {
        client.create(path).good();
    }
    let names = |fields: &mut Fields<'_>| (0..fields.int()).map(|_| fields.text()).collect::<Vec<_>>();
    let plain = client.ask(8, &path_and_watch("/p", false));
    let mut fields = plain.good();
    assert_eq!((names(&mut fields), fields.0.len()), (vec!["a".to_owned(), "b".to_owned()], 0));
    let with_stat = client.ask(12, &path_and_watch("/p", false));
    let mut fields = with_stat.good();
    assert_eq!((names(&mut fields).len(), fields.stat().cversion), (2, 2));
    let root = client.ask(8, &path_and_watch("/", false));
    assert_eq!(names(&mut root.good()), ["p"]);
}

#[test]
fn sequential_nodes_are_numbered_and_the_answer_names_them() {
    let server = Server::start();
    let mut client = server.client();
    client.create("/q").good();
    for (path, flags, made) in
        [("/q/n-", 2, "/q/n-0000000000"), ("/q/n-", 3, "/q/n-0000000001"), ("/q/", 2, "/q/0000000002")]
    {
        assert_eq!(client.ask(1, &create(path, b"", flags)).good().text(), made);
    }
    assert_eq!(client.stat("/q/n-0000000001").unwrap().owner, client.granted.session);
    let server = server.restart();
    assert_eq!(server.client().ask(1, &create("/q/n-", b"", 2)).good().text(), "/q/n-0000000003");
}

#[test]
fn ping_auth_sync_and_check_are_answered() {
    let server = Server::start();
    let mut client = server.client();
    client.create("/p").good();
    client.send_as(-2, 11, &body());
    let ping = client.next().unwrap();
    assert_eq!((ping.xid, ping.error, ping.body.len()), (-2, 0, 0));
    client.send_as(-4, 100, &body().int(0).text("digest").buffer(b"me:secret"));
    let auth = client.next().unwrap();
    assert_eq!((auth.xid, auth.error, auth.body.len()), (-4, 0, 0));
    assert_eq!(client.ask(9, &body().text("/p")).good().text(), "/p");
    assert_eq!(client.ask(13, &delete("/p", 0)).good().stat(), client.stat("/p").unwrap());
}

/// One operation of a `multi`.
fn part(multi: Body, code: i32, operation: Body) -> Body {
    let mut multi = multi.int(code).bool(false).int(-1);
    multi.0.extend(operation.0);
    multi
}

fn end(multi: Body) -> Body {
    multi.int(-1).bool(true).int(-1)
}

#[test]
fn a_multi_does_all_or_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.create("/p").good();
    let before = client.stat("/p");

    let multi = part(body(), 1, create("/p/a", b"", 0));
    let multi = part(multi, 2, delete("/p/none", -1));
    let multi = part(multi, 5, set("/p", b"x", -1));
    let failed = client.ask(14, &end(multi));
    let mut fields = failed.good();
    for error in [0, NO_NODE, -2] {
        let header = (fields.int(), fields.0[0], Fields(&fields.0[1..]).int());
        assert_eq!(header, (-1, 0, error));
        fields.0 = &fields.0[5..];
        assert_eq!(fields.int(), error);
    }
    assert_eq!(fields.0, end(body()).0);
    assert_eq!((client.stat("/p"), client.stat("/p/a")), (before, None));

    let multi = part(body(), 13, delete("/p", 0));
    let multi = part(multi, 1, create("/p/s-", b"", 2));
    let multi = part(multi, 15, create("/p/b", b"", 0));
    let multi = part(multi, 5, set("/p", b"x", 0));
    let multi = part(multi, 2, delete("/p/b", -1));
    let done = client.ask(14, &end(multi));
    let mut fields = done.good();
    let header = |fields: &mut Fields<'_>, code: i32| {
        let expected = [&code.to_be_bytes()[..], &[0], &[0; 4]].concat();
        assert_eq!(fields.0[..9], expected);
        fields.0 = &fields.0[9..];
    };
    header(&mut fields, 13);
    header(&mut fields, 1);
    assert_eq!(fields.text(), "/p/s-0000000000");
    header(&mut fields, 15);
    assert_eq!((fields.text(), fields.stat().czxid), ("/p/b".to_owned(), done.zxid));
    header(&mut fields, 5);
    assert_eq!(fields.stat().version, 1);
    header(&mut fields, 2);
    assert_eq!(fields.0, end(body()).0);
    let parent = client.stat("/p").unwrap();
    assert_eq!((parent.children, parent.cversion, parent.pzxid), (1, 3, done.zxid));
    assert_eq!(client.ask(14, &end(body())).good().0, end(body()).0, "an empty one");
}
