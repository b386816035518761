//! Whoever waits for messages is woken, and has unflushed ones flushed early.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::super::{PartitionLog, Waiter};
use super::kit::*;
use crate::id::Offset;

/// Counts how often it is woken and tells of each time.
struct Bell {
    rung: AtomicUsize,
    sender: Mutex<Sender<()>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        let _nobody_listens = self.sender.lock().unwrap().send(());
    }
}

fn bell() -> (Arc<Bell>, Waker, Receiver<()>) {
    let (sender, receiver) = channel();
    let bell = Arc::new(Bell { rung: AtomicUsize::new(0), sender: Mutex::new(sender) });
    (Arc::clone(&bell), Waker::from(bell), receiver)
}

fn rung(bell: &Bell) -> usize {
    bell.rung.load(Ordering::SeqCst)
}

fn wait_for(log: &Arc<PartitionLog>, waker: &Waker) -> Waiter {
    Waiter::new(Arc::clone(log), waker.clone())
}

#[test]
fn everyone_who_waits_is_woken_once_when_the_mark_moves() {
    let bench = Bench::new(|_| {});
    let (log, other) = (bench.partition("t", 0, &GROUP_COMMIT), bench.partition("t", 1, &GROUP_COMMIT));
    let (bell, waker, _receiver) = bell();
    let mut waiters: Vec<_> = (0..3).map(|_| wait_for(&log, &waker)).collect();
    put(&bench.store, &other, b"elsewhere").unwrap();
    assert_eq!(rung(&bell), 0);
    assert!(waiters.iter().all(|waiter| !waiter.is_spent()));
    put(&bench.store, &log, b"here").unwrap();
    assert_eq!(rung(&bell), 3);
    assert!(waiters.iter().all(Waiter::is_spent));
    put(&bench.store, &log, b"again").unwrap();
    assert_eq!(rung(&bell), 3, "who was woken is not woken again");
    waiters[1].renew(waker);
    assert!(!waiters[1].is_spent());
    put(&bench.store, &log, b"again").unwrap();
    assert_eq!(rung(&bell), 4);
}

#[test]
fn who_gives_up_waiting_leaves_nothing_behind() {
    let bench = Bench::new(|_| {});
    let log = bench.partition("t", 0, &GROUP_COMMIT);
    let (bell, waker, _receiver) = bell();
    let [mut first, second] = [wait_for(&log, &waker), wait_for(&log, &waker)];
    first.renew(waker.clone());
    assert_eq!(log.waiter_count(), 2);
    drop(second);
    assert_eq!(log.waiter_count(), 1);
    put(&bench.store, &log, b"x").unwrap();
    assert_eq!((rung(&bell), log.waiter_count()), (1, 0));
    // A place of a later round is not given up with a spent one.
    let third = wait_for(&log, &waker);
    drop(first);
    assert_eq!(log.waiter_count(), 1);
    drop(third);
    assert_eq!(log.waiter_count(), 0);
    put(&bench.store, &log, b"x").unwrap();
    assert_eq!(rung(&bell), 1);
}

#[test]
fn who_begins_to_wait_while_the_mark_moves_sees_it_or_is_woken() {
    let bench = Bench::new(|_| {});
    let log = bench.partition("t", 0, &GROUP_COMMIT);
    let barrier = Barrier::new(2);
    let rounds = 1..=2000_u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in rounds.clone() {
                barrier.wait();
                log.mark_visible(round);
            }
        });
        for round in rounds.clone() {
            let (_bell, waker, receiver) = bell();
            barrier.wait();
            let _waiter = wait_for(&log, &waker);
            if log.max_offset() < Offset::new(round.cast_signed()) {
                receiver.recv_timeout(DEADLINE).expect("neither seen nor woken");
            }
            assert_eq!(log.max_offset(), Offset::new(round.cast_signed()));
        }
    });
}

#[test]
fn closing_partitions_wakes_who_waits_for_them() {
    let bench = Bench::new(|_| {});
    let logs = [0, 1, 2].map(|index| bench.partition("t", index, &GROUP_COMMIT));
    let (bell, waker, _receiver) = bell();
    let waiters = logs.each_ref().map(|log| wait_for(log, &waker));
    bench.store.close_partitions(&topic("t"), 1, 7).unwrap();
    assert_eq!(rung(&bell), 2);
    assert_eq!(waiters.map(|waiter| waiter.is_spent()), [false, true, true]);
}

#[test]
fn a_message_that_a_reader_waits_for_is_flushed_early_with_all_before_it() {
    let bench = Bench::new(|_| {});
    let [asked, awaited, other] = [0, 1, 2].map(|index| bench.partition("t", index, &PERIODIC));
    put(&bench.store, &other, b"hello").unwrap();
    put(&bench.store, &asked, b"hello").unwrap();
    assert!(bench.store.flush_soon(&asked));
    wait_until("it is flushed", || asked.max_offset() == Offset::new(25));
    assert_eq!(other.max_offset(), Offset::new(25), "one sync of the log is for all");
    put(&bench.store, &other, b"hello").unwrap();
    assert!(!bench.store.flush_soon(&asked), "nothing is unflushed");

    let (_bell, waker, receiver) = bell();
    let _waiter = wait_for(&awaited, &waker);
    put(&bench.store, &awaited, b"hello").unwrap();
    receiver.recv_timeout(DEADLINE).expect("woken by the early flush");
    assert_eq!(awaited.max_offset(), Offset::new(25));
}

#[test]
fn early_flushes_serve_all_who_ask_and_keep_their_distance() {
    let bench = Bench::new(|_| {});
    let log = bench.partition("t", 0, &PERIODIC);
    put(&bench.store, &log, b"hello").unwrap();
    bench.store.flush();
    // Those of making and beginning files of the log do not count.
    let before = bench.faults.log_syncs.load(Ordering::SeqCst);
    let started = Instant::now();
    for round in 1..=20 {
        for _ in 0..5 {
            put(&bench.store, &log, b"hello").unwrap();
        }
        (0..50).for_each(|_| {
            bench.store.flush_soon(&log);
        });
        wait_until("it is flushed", || log.max_offset() == Offset::new(25 + round * 125));
    }
    let syncs = bench.faults.log_syncs.load(Ordering::SeqCst) - before;
    let most = started.elapsed().as_millis() / 5 + 1;
    assert!(syncs as u128 <= most, "{syncs} syncs in {:?}", started.elapsed());
}

#[test]
fn nothing_is_flushed_early_in_group_commit_nor_on_a_poisoned_partition() {
    let bench = Bench::new(|_| {});
    let (group_commit, poisoned) = (bench.partition("g", 0, &GROUP_COMMIT), bench.partition("p", 0, &PERIODIC));
    bench.faults.hold_log_syncs(true);
    let answered = submit(&bench.store, vec![(&group_commit, bytes::Bytes::from_static(b"x"))]);
    wait_until("it is written", || group_commit.written_offset() == Offset::new(21));
    assert!(!bench.store.flush_soon(&group_commit), "its answer waits for a sync anyway");
    bench.faults.hold_log_syncs(false);
    assert!(answer(&answered)[0].is_ok());

    put(&bench.store, &poisoned, b"x").unwrap();
    bench.faults.fail_log_sync.store(true, Ordering::SeqCst);
    assert!(bench.store.flush_soon(&poisoned));
    wait_until("the sync has failed", || poisoned.poison().is_some());
    assert!(!bench.store.flush_soon(&poisoned));
    let syncs = bench.faults.log_syncs.load(Ordering::SeqCst);
    assert!(started_to_wait_in_vain(&poisoned));
    assert_eq!(bench.faults.log_syncs.load(Ordering::SeqCst), syncs, "a failed sync is never tried again");
}

/// Whether a waiter is left alone for a moment in which the flusher could have done something.
fn started_to_wait_in_vain(log: &Arc<PartitionLog>) -> bool {
    let (_bell, waker, receiver) = bell();
    let _waiter = wait_for(log, &waker);
    receiver.recv_timeout(Duration::from_millis(30)).is_err()
}
