use super::*;
use crate::zk::local::acl::Acl;
use crate::zk::local::code::Code;
use crate::zk::local::jute::Reader;
use crate::zk::local::requests::{CreateMode, Operation, Watched};

const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);

struct Kit {
    engine: Engine,
    now: Instant,
}

/// What a connection was told: the number of an answer and its error, or the type and path of an event.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Answer(ConnectionId, i32, i32),
    Event(ConnectionId, i32, String),
    End(ConnectionId),
}
use Told::{Answer, End, Event as Fired};

impl Kit {
    fn new() -> Self {
        let mut kit = Self { engine: Engine::new(State::default()), now: Instant::now() };
        kit.connect(A, 0);
        kit.connect(B, 0);
        kit
    }

    fn connect(&mut self, id: ConnectionId, session: i64) -> Vec<Output> {
        let password = Some(Password::new([9; 16]));
        let request = ConnectRequest { last_zxid: 0, timeout_ms: 4_000, session, password, has_read_only: false };
        self.engine.connect(id, &request, Password::new([9; 16]), 0, self.now);
        self.engine.take_outputs()
    }

    fn ask(&mut self, id: ConnectionId, request: Request) -> Vec<Told> {
        self.engine.handle(id, Numbered { xid: 5, request }, 0, self.now);
        self.told()
    }

    fn told(&mut self) -> Vec<Told> {
        let told = |Output { to, what }| match what {
            Outgoing::End => End(to),
            Outgoing::Answer(frame) | Outgoing::Event(frame) => {
                let mut r = Reader::new(&frame);
                let _length = r.int().unwrap();
                let (xid, _zxid, error) = (r.int().unwrap(), r.long().unwrap(), r.int().unwrap());
                if xid == -1 {
                    let (what, _state) = (r.int().unwrap(), r.int().unwrap());
                    Fired(to, what, r.text().unwrap().to_owned())
                } else {
                    Answer(to, xid, error)
                }
            }
        };
        self.engine.take_outputs().into_iter().map(told).collect()
    }
}

fn create(path: &str, ephemeral: bool) -> Operation {
    let mode = Ok(CreateMode { ephemeral, sequential: false });
    Operation::Create { path: path.to_owned(), data: None, acl: Ok(Acl::default()), mode, with_stat: false }
}

fn exists(path: &str) -> Request {
    Request::Exists { path: path.to_owned(), watch: true }
}

fn children(path: &str) -> Request {
    Request::GetChildren { path: path.to_owned(), watch: true, with_stat: false }
}

#[test]
fn an_event_comes_before_the_answer_of_its_change_and_once() {
    let mut kit = Kit::new();
    assert_eq!(kit.ask(A, exists("/a")), [Answer(A, 5, Code::NoNode.number())]);
    assert_eq!(kit.ask(B, children("/")), [Answer(B, 5, 0)]);
    let created = [Fired(A, 1, "/a".to_owned()), Fired(B, 4, "/".to_owned()), Answer(A, 5, 0)];
    assert_eq!(kit.ask(A, Request::Change(create("/a", false))), created);
    assert_eq!(kit.ask(A, Request::Change(create("/b", false))), [Answer(A, 5, 0)]);
}

#[test]
fn a_session_that_expires_takes_its_nodes_its_connection_and_tells_the_others() {
    let mut kit = Kit::new();
    kit.ask(A, Request::Change(create("/a", true)));
    kit.ask(B, exists("/a"));
    kit.now += Duration::from_millis(3_000);
    kit.ask(B, Request::Ping);
    kit.now += Duration::from_millis(1_000);
    kit.engine.expire(0, kit.now);
    assert_eq!(kit.told(), [Fired(B, 2, "/a".to_owned()), End(A)]);
    assert_eq!(kit.ask(A, Request::Ping), [], "it has no session any more");
    assert_eq!(kit.engine.state().tree.len(), 1);
    assert_eq!(kit.engine.state().sessions.len(), 1);
}

#[test]
fn a_session_taken_up_again_leaves_its_old_connection_and_its_watches() {
    let mut kit = Kit::new();
    let session = kit.engine.connections[&A];
    kit.ask(A, exists("/a"));
    let third = ConnectionId(3);
    let outputs = kit.connect(third, session);
    assert_eq!(outputs[0], Output { to: A, what: Outgoing::End });
    // The late end of the old connection changes nothing.
    kit.engine.disconnected(A);
    assert_eq!(kit.ask(B, Request::Change(create("/a", false))), [Answer(B, 5, 0)]);
    assert_eq!(kit.ask(third, Request::Ping), [Answer(third, 5, 0)]);
}

#[test]
fn watches_set_again_fire_for_what_was_missed() {
    let mut kit = Kit::new();
    for path in ["/changed", "/same", "/gone", "/parent", "/quiet"] {
        kit.ask(A, Request::Change(create(path, false)));
    }
    let since = kit.engine.state().zxid;
    kit.ask(A, Request::Change(Operation::SetData { path: "/changed".to_owned(), data: None, version: -1 }));
    kit.ask(A, Request::Change(Operation::Delete { path: "/gone".to_owned(), version: -1 }));
    kit.ask(A, Request::Change(create("/parent/child", false)));
    kit.ask(A, Request::Change(create("/born", false)));
    let texts = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect();
    let watched = Watched {
        since,
        data: texts(&["/changed", "/same", "/gone"]),
        absent: texts(&["/born", "/unborn"]),
        children: texts(&["/parent", "/quiet", "/gone"]),
    };
    let fired = |what, path: &str| Fired(B, what, path.to_owned());
    let expected = [fired(3, "/changed"), fired(2, "/gone"), fired(1, "/born"), fired(4, "/parent"), fired(2, "/gone")];
    let told = kit.ask(B, Request::SetWatches(watched));
    assert_eq!(told[..5], expected);
    assert_eq!(told[5..], [Answer(B, 5, 0)]);
    assert_eq!(kit.ask(A, Request::Change(create("/unborn", false)))[0], fired(1, "/unborn"));
    assert_eq!(kit.ask(A, Request::Change(create("/quiet/x", false)))[0], fired(4, "/quiet"));
    let same = Operation::SetData { path: "/same".to_owned(), data: None, version: -1 };
    assert_eq!(kit.ask(A, Request::Change(same))[0], fired(3, "/same"));
}

#[test]
fn a_multi_that_fails_changes_nothing_and_fires_nothing() {
    let mut kit = Kit::new();
    kit.ask(A, Request::Change(create("/x", false)));
    kit.ask(B, exists("/a"));
    let before = kit.engine.figures();
    kit.engine.take_unsaved();
    let delete = |path: &str| Operation::Delete { path: path.to_owned(), version: -1 };
    let again = [delete("/x"), create("/x", true), create("/a", true), delete("/none"), create("/c", false)];
    let told = kit.ask(A, Request::Multi(again.to_vec()));
    assert_eq!(told, [Answer(A, 5, 0)]);
    assert_eq!((kit.engine.figures(), kit.engine.unsaved()), (before, 0));
    let told = kit.ask(A, Request::Multi(vec![create("/a", true), create("/c", false)]));
    assert_eq!(told, [Fired(B, 1, "/a".to_owned()), Answer(A, 5, 0)]);
    assert_eq!(kit.engine.state().zxid, before.zxid + 1, "one transaction");
}

#[test]
fn numbers_of_transactions_ascend_over_runs_even_if_the_last_ones_were_lost() {
    let mut first = Kit::new();
    let known = first.engine.state().zxid;
    let state = State { zxid: known, ..State::default() };
    first.ask(A, Request::Change(create("/lost", false)));
    let second = Engine::new(state);
    assert!(second.next_zxid > first.engine.state().zxid);
    assert_eq!(second.next_zxid, (2 << COUNTER_BITS) + 1);
}

#[test]
fn sessions_have_a_limit() {
    let mut kit = Kit::new();
    for i in 2..MAX_SESSIONS as u64 {
        kit.connect(ConnectionId(i + 10), 0);
    }
    let refused = ConnectionId(1_000_000);
    assert_eq!(kit.connect(refused, 0), [Output { to: refused, what: Outgoing::End }]);
    kit.ask(A, Request::Close);
    assert!(matches!(kit.connect(refused, 0)[..], [Output { what: Outgoing::Answer(_), .. }]));
}
