//! Whoever waits for a partition to hold more.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::partition::PartitionLog;
use crate::common::guard::lock;

/// The waiters of one partition.
///
/// Whoever moves the visible mark pays one load while nobody waits. Nobody is missed: a waiter enters itself and looks
/// at the mark afterwards, the mark is moved before this is looked at, and all four are in one order.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Whether the list holds anyone.
    any: AtomicBool,
    /// How often the list was emptied by waking.
    rounds: AtomicU64,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiters {
    /// Whether anyone waits, as far as is known here.
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// Wakes everyone who waits, once; who wants to wait on enters itself again.
    pub(super) fn wake(&self) {
        if !self.any() {
            return;
        }
        let woken = {
            let mut list = lock(&self.list);
            self.any.store(false, Ordering::SeqCst);
            self.rounds.fetch_add(1, Ordering::Relaxed);
            mem::take(&mut list.wakers)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// The number of the entry, and the round in which it was made.
    fn enter(&self, waker: Waker) -> (u64, u64) {
        let mut list = lock(&self.list);
        let number = list.next;
        list.next += 1;
        list.wakers.insert(number, waker);
        self.any.store(true, Ordering::SeqCst);
        let round = self.rounds.load(Ordering::Relaxed);
        drop(list);
        fence(Ordering::SeqCst);
        (number, round)
    }

    fn leave(&self, number: u64) {
        let mut list = lock(&self.list);
        let waker = list.wakers.remove(&number);
        if list.wakers.is_empty() {
            self.any.store(false, Ordering::SeqCst);
        }
        drop(list);
        drop(waker);
    }
}

#[cfg(test)]
impl PartitionLog {
    /// Places that are taken among the waiters.
    pub(crate) fn waiter_count(&self) -> usize {
        lock(&self.waiters.list).wakers.len()
    }
}

/// A place among those who wait for a partition's visible mark to move, given up when dropped.
pub struct Waiter {
    log: Arc<PartitionLog>,
    number: u64,
    round: u64,
}

impl Waiter {
    /// Enters the list. What became visible before is told to nobody: look at the mark afterwards.
    pub fn new(log: Arc<PartitionLog>, waker: Waker) -> Self {
        let (number, round) = log.waiters.enter(waker);
        Self { log, number, round }
    }

    /// The partition.
    pub fn log(&self) -> &Arc<PartitionLog> {
        &self.log
    }

    /// Whether it was woken and no further wake-up will come.
    pub fn is_spent(&self) -> bool {
        self.log.waiters.rounds.load(Ordering::Acquire) != self.round
    }

    /// Enters the list again after it was woken.
    pub fn renew(&mut self, waker: Waker) {
        self.log.waiters.leave(self.number);
        (self.number, self.round) = self.log.waiters.enter(waker);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.is_spent() {
            self.log.waiters.leave(self.number);
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("log", &self.log.name()).field("number", &self.number).finish_non_exhaustive()
    }
}
