use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::zk::local::change::Transaction;
use crate::zk::local::engine::Engine;
use crate::zk::local::jute::Writer;
use crate::zk::local::sessions::{ConnectionId, Password};
use crate::zk::local::state::State;
use crate::zk::local::wire::ConnectRequest;

/// A valid request of each kind that has a body, with a path.
fn valid(path: &str, number: i32) -> Vec<Vec<u8>> {
    let request = |code: i32, build: &dyn Fn(&mut Writer)| {
        let mut w = Writer::default();
        w.int(1);
        w.int(code);
        build(&mut w);
        w.bytes().to_vec()
    };
    let creation = |w: &mut Writer| {
        w.text(path);
        w.buffer(Some(b"data"));
        Acl::default().write(w);
        w.int(number);
    };
    let path_and_bool = |w: &mut Writer| {
        w.text(path);
        w.bool(true);
    };
    let path_and_int = |w: &mut Writer| {
        w.text(path);
        w.int(number);
    };
    vec![
        request(CREATE, &creation),
        request(CREATE_2, &creation),
        request(DELETE, &path_and_int),
        request(EXISTS, &path_and_bool),
        request(GET_CHILDREN_2, &path_and_bool),
        request(CHECK, &path_and_int),
        request(REMOVE_WATCHES, &path_and_int),
        request(SET_DATA, &|w| {
            w.text(path);
            w.buffer(None);
            w.int(number);
        }),
        request(SET_ACL, &|w| {
            w.text(path);
            Acl::default().write(w);
            w.int(number);
        }),
        request(MULTI, &|w| {
            for code in [CREATE, CREATE_CONTAINER] {
                w.int(code);
                w.bool(false);
                w.int(-1);
                creation(w);
            }
            w.int(-1);
            w.bool(true);
            w.int(-1);
        }),
        request(SET_WATCHES, &|w| {
            w.long(0);
            w.texts([path].into_iter());
            w.int(0);
            w.texts([path].into_iter());
        }),
        request(CLOSE, &|_| {}),
    ]
}

#[test]
fn every_valid_request_is_read_and_every_cut_of_it_is_refused() {
    for request in valid("/a", 0) {
        assert!(Numbered::read(&request).is_ok_and(|numbered| numbered.xid == 1), "{request:?}");
        for end in 0..request.len() {
            assert!(Numbered::read(&request[..end]).is_err(), "{request:?} cut at {end}");
        }
        let longer = [&request[..], b"\0"].concat();
        assert_eq!(Numbered::read(&longer), Err(Malformed::Long));
    }
}

#[test]
fn null_and_empty_data_are_told_apart() {
    let data = |request: &[u8]| match Numbered::read(request).unwrap().request {
        Request::Change(Operation::Create { data, .. } | Operation::SetData { data, .. }) => data,
        other => panic!("{other:?}"),
    };
    let requests = valid("/a", 0);
    assert_eq!(data(&requests[0]), Some(Box::from(*b"data")));
    assert_eq!(data(&requests[7]), None);
}

proptest! {
    #[test]
    fn random_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), code in -12..25_i32) {
        let with_code = [&[0; 4], &code.to_be_bytes()[..], &bytes].concat();
        let _read = Numbered::read(&with_code);
        let _read = ConnectRequest::read(&bytes);
        let _read = Transaction::read(&mut Reader::new(&bytes));
        let _read = State::read(&bytes, Instant::now());
    }

    /// What the engine has done of it is what its journal says.
    #[test]
    fn mutated_requests_leave_the_engine_and_its_journal_agreeing(
        requests in proptest::collection::vec((0..12_usize, "(/[ab]){1,3}/?", -2..7_i32, any::<(u8, u8)>(), 0..4_u8), 1..40),
    ) {
        let now = Instant::now();
        let mut engine = Engine::new(State::default());
        let id = ConnectionId(1);
        let connect =
            ConnectRequest { last_zxid: 0, timeout_ms: 5_000, session: 0, password: None, has_read_only: false };
        engine.connect(id, &connect, Password::new([0; 16]), 0, now);
        for (which, path, number, (at, value), mutate) in requests {
            let mut request = valid(&path, number).swap_remove(which);
            if mutate == 0 {
                let at = usize::from(at) % request.len();
                request[at] = value;
            }
            if let Ok(numbered) = Numbered::read(&request) {
                engine.handle(id, numbered, 7, now);
            }
        }
        let mut replayed = State::default();
        let unsaved = engine.take_unsaved();
        let mut r = Reader::new(&unsaved);
        while !r.is_empty() {
            replayed.replay(&Transaction::read(&mut r).unwrap(), now).unwrap();
        }
        let state = engine.state();
        prop_assert_eq!(format!("{:?}", replayed.tree.sorted()), format!("{:?}", state.tree.sorted()));
        prop_assert_eq!((replayed.zxid, replayed.tree.bytes()), (state.zxid, state.tree.bytes()));
        prop_assert_eq!(replayed.sessions.len(), state.sessions.len());
    }
}
