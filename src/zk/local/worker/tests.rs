use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::store::sim_disk::{Failing, SimDisk};
use crate::zk::local::acl::Acl;
use crate::zk::local::limits::MAX_UNSENT_BYTES;
use crate::zk::local::outbox::{Parcels, outbox};
use crate::zk::local::requests::{CreateMode, Operation, Request};

fn worker(disk: &SimDisk) -> Worker {
    let opened = Journal::open(Arc::new(disk.clone()), Path::new("/zookeeper"), 5, Instant::now());
    let (journal, state) = opened.unwrap();
    Worker::new(Engine::new(state), journal)
}

/// A client that has connected; what it is told.
fn connect(to: &Sender<Command>, number: u64) -> (Parcels, CancellationToken) {
    let abort = CancellationToken::new();
    let (outbox, parcels) = outbox(([127, 0, 0, 1], 1).into(), abort.clone());
    let request = ConnectRequest { last_zxid: 0, timeout_ms: 5_000, session: 0, password: None, has_read_only: true };
    let password = Password::new([1; 16]);
    to.send(Command::Connect { id: ConnectionId(number), request, password, outbox }).unwrap();
    (parcels, abort)
}

fn create(to: &Sender<Command>, number: u64, places: &Arc<Semaphore>) {
    let (path, mode) = (format!("/{number}"), Ok(CreateMode::default()));
    let operation = Operation::Create { path, data: None, acl: Ok(Acl::default()), mode, with_stat: false };
    let request = Numbered { xid: 1, request: Request::Change(operation) };
    let place = || Arc::clone(places).try_acquire_owned().unwrap();
    to.send(Command::Request { id: ConnectionId(number), request, place: place(), room: place() }).unwrap();
}

fn told(parcels: &mut Parcels) -> usize {
    std::iter::from_fn(|| parcels.ready()).count()
}

#[test]
fn what_waits_shares_one_sync_and_each_is_answered() {
    let disk = SimDisk::new(1);
    let worker = worker(&disk);
    let (sender, receiver) = channel();
    let places = Arc::new(Semaphore::new(200));
    let mut clients: Vec<_> = (0..100).map(|number| connect(&sender, number).0).collect();
    (0..100).for_each(|number| create(&sender, number, &places));
    drop(sender);
    let before = disk.operations();
    worker.run(&receiver);
    assert_eq!(disk.operations() - before, 2, "one write and one sync");
    assert!(clients.iter_mut().all(|parcels| told(parcels) == 2));
    assert_eq!(places.available_permits(), 200, "places are free again when answers are taken");
}

#[test]
fn nothing_that_is_not_durable_is_answered_and_nothing_is_answered_any_more() {
    for failing in [Failing::Write, Failing::Sync, Failing::PartialSync] {
        let disk = SimDisk::new(1);
        let worker = worker(&disk);
        disk.fail_once(failing, |path| path.ends_with("log"));
        let (sender, receiver) = channel();
        let places = Arc::new(Semaphore::new(10));
        let (mut parcels, abort) = connect(&sender, 1);
        create(&sender, 1, &places);
        drop(sender);
        worker.run(&receiver);
        assert_eq!(told(&mut parcels), 0, "{failing:?}");
        assert!(abort.is_cancelled());
    }
}

/// A client that makes a node of 1 MB and then asks for it again and again, between changes of another one: how many
/// frames it is told, whether it is dropped, and the writes and syncs of all that.
fn reads_and_changes(count: usize) -> (usize, bool, u64) {
    let disk = SimDisk::new(1);
    let worker = worker(&disk);
    let (sender, receiver) = channel();
    let places = Arc::new(Semaphore::new(1_000));
    let (mut parcels, abort) = connect(&sender, 1);
    let send = |request| {
        let place = || Arc::clone(&places).try_acquire_owned().unwrap();
        let request = Numbered { xid: 1, request };
        sender.send(Command::Request { id: ConnectionId(1), request, place: place(), room: place() }).unwrap();
    };
    let set = |data: Option<Box<[u8]>>| Operation::SetData { path: "/1".to_owned(), data, version: -1 };
    create(&sender, 1, &places);
    send(Request::Change(set(Some(vec![0; DATA_BYTES].into()))));
    for _ in 0..count {
        send(Request::GetData { path: "/1".to_owned(), watch: false });
        send(Request::Change(Operation::SetAcl { path: "/".to_owned(), acl: Ok(Acl::default()), version: -1 }));
    }
    drop(sender);
    let before = disk.operations();
    worker.run(&receiver);
    let told = told(&mut parcels);
    assert_eq!(places.available_permits(), 1_000, "places are free again when answers are taken");
    (told, abort.is_cancelled(), disk.operations() - before)
}

const DATA_BYTES: usize = 1_000_000;

#[test]
fn large_answers_do_not_wait_for_many_others() {
    let (told, dropped, operations) = reads_and_changes(30);
    assert_eq!((told, dropped), (3 + 60, false));
    assert!(operations >= 12, "{operations}: one write and one sync for some megabytes, not for all");
}

#[test]
fn nothing_more_is_kept_for_a_client_that_takes_nothing() {
    let (told, dropped, _) = reads_and_changes(150);
    let fitting = MAX_UNSENT_BYTES / DATA_BYTES;
    assert_eq!((told, dropped), (3 + 2 * fitting + 1, true), "the one that is too much is the last");
}

#[test]
fn a_long_log_is_folded_into_a_snapshot_and_nothing_is_lost() {
    let disk = SimDisk::new(1);
    let worker = worker(&disk);
    let (sender, receiver) = channel();
    let places = Arc::new(Semaphore::new(40));
    let _parcels = connect(&sender, 1);
    for number in 0..20 {
        let path = format!("/{number}");
        let data = Some(vec![0; 1_000_000].into());
        let (acl, mode) = (Ok(Acl::default()), Ok(CreateMode::default()));
        let operation = Operation::Create { path, data, acl, mode, with_stat: false };
        let request = Numbered { xid: 1, request: Request::Change(operation) };
        let place = || Arc::clone(&places).try_acquire_owned().unwrap();
        sender.send(Command::Request { id: ConnectionId(1), request, place: place(), room: place() }).unwrap();
    }
    drop(sender);
    worker.run(&receiver);
    let (_, state) = Journal::open(Arc::new(disk.clone()), Path::new("/zookeeper"), 5, Instant::now()).unwrap();
    assert_eq!(state.tree.len(), 21);
    use crate::store::FileSystem as _;
    assert!(disk.kind(Path::new("/zookeeper/snapshot")).unwrap().is_some());
}

fn get(to: &Sender<Command>, number: u64, path: &str, places: &Arc<Semaphore>) {
    let request = Numbered { xid: 1, request: Request::GetData { path: path.to_owned(), watch: false } };
    let place = || Arc::clone(places).try_acquire_owned().unwrap();
    to.send(Command::Request { id: ConnectionId(number), request, place: place(), room: place() }).unwrap();
}

#[test]
fn answers_that_wait_for_a_sync_are_limited_in_bytes() {
    let disk = SimDisk::new(1);
    let mut worker = worker(&disk);
    let (sender, receiver) = channel();
    let places = Arc::new(Semaphore::new(200));
    let (_parcels, _) = connect(&sender, 1);
    let data = Some(vec![0; 1_000_000].into());
    let (path, acl, mode) = ("/big".to_owned(), Ok(Acl::default()), Ok(CreateMode::default()));
    let operation = Operation::Create { path, data, acl, mode, with_stat: false };
    let request = Numbered { xid: 1, request: Request::Change(operation) };
    let place = || Arc::clone(&places).try_acquire_owned().unwrap();
    sender.send(Command::Request { id: ConnectionId(1), request, place: place(), room: place() }).unwrap();
    (0..50).for_each(|_| get(&sender, 1, "/big", &places));
    let mut rounds = 0;
    while !worker.take_batch(receiver.try_recv().ok(), &receiver) {
        assert!(worker.held_bytes < MAX_BATCH_BYTES + 1_100_000, "{}", worker.held_bytes);
        worker.settle().unwrap();
        rounds += 1;
    }
    assert!(rounds >= 10, "{rounds}");
}

#[test]
fn what_waits_for_all_clients_is_limited_and_those_with_most_are_dropped() {
    let disk = SimDisk::new(1);
    let mut worker = worker(&disk);
    let frame = Bytes::from(vec![0; 60 << 20]);
    // 42, 44 to 60 MiB, which are 510 MiB; the frames share their memory.
    let client = |number: usize| {
        let abort = CancellationToken::new();
        let (outbox, parcels) = outbox(([127, 0, 0, 1], 1).into(), abort.clone());
        assert!(outbox.send(frame.slice(..(42 + 2 * number) << 20), None));
        worker.outboxes.insert(ConnectionId(number as u64), outbox);
        (parcels, abort)
    };
    let clients: Vec<_> = (0..10).map(client).collect();
    worker.settle().unwrap();
    let dropped: Vec<_> = clients.iter().map(|(_, abort)| abort.is_cancelled()).collect();
    assert_eq!(dropped, [false, false, false, false, false, true, true, true, true, true]);
    assert_eq!(worker.outboxes.values().map(Outbox::unsent).sum::<usize>(), (42 + 44 + 46 + 48 + 50) << 20);
}

#[test]
fn after_a_time_without_hearing_there_is_time_to_hear_what_was_sent() {
    let disk = SimDisk::new(1);
    let mut worker = worker(&disk);
    let (sender, receiver) = channel();
    let _client = connect(&sender, 1);
    assert!(worker.take_batch(receiver.try_recv().ok(), &receiver));
    let (over, deaf) = (Instant::now() + Duration::from_secs(5), Duration::from_secs(10));
    worker.forgive(DEAF_TIME);
    worker.forgive(deaf);
    worker.engine.expire(0, over + deaf + CATCH_UP_TIME / 2);
    assert_eq!(worker.engine.figures().sessions, 1, "it was not heard, which is not its fault");
    worker.engine.expire(0, over + deaf + CATCH_UP_TIME);
    assert_eq!(worker.engine.figures().sessions, 0);
}
