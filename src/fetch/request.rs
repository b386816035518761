//! What is to be asked of one partition, and how long after the last answer: the state behind its gets, without IO and
//! without a clock (05 §10, §13).
//!
//! Two counters are kept where the reference has one: [`retries`](FetchRequest::retries) counts deliveries without
//! progress and leads to a rejection, `short_answers` counts answers without a whole message and leads to a larger size.
//! A message that only needs a larger size is therefore delivered rather than rejected.

use std::time::Duration;

use crate::id::{MessageId, Offset};
use crate::message::HEADER_LEN;
use crate::zk::format::StoredOffset;

/// Bytes asked at most while nothing tells that there is more. Such a get may be held by the broker, and holds none of the
/// budget.
pub(super) const IDLE_SIZE: i32 = 64 << 10;

/// An answer of so many bytes counts as cut by the broker, whatever was asked: its usual `maxTransferSize` (05 §13).
const FULL_ANSWER: usize = 1 << 20;

/// What the reference divides the longest delay by (05 §10).
const STEPS: u32 = 10;

/// A broker may name another offset so often in a row; beyond that it has no message to offer.
pub(super) const SENT_ON: u32 = 5;

/// Bounds of delays, retries and sizes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLimits {
    /// The longest delay; a step is a tenth of it, in whole milliseconds, one at least.
    pub(super) max_delay: Duration,
    /// Failed deliveries tolerated before a message is rejected.
    pub(super) max_retries: u32,
    /// Answers without a whole message tolerated before the size doubles.
    pub(super) max_increase: u32,
    /// The size beyond which it does not double any more.
    pub(super) max_read_buffer: usize,
}

impl RequestLimits {
    /// By how much a delay grows.
    pub(super) fn step(&self) -> Duration {
        let ms = u64::try_from(self.max_delay.as_millis() / u128::from(STEPS)).unwrap_or(u64::MAX);
        Duration::from_millis(ms.max(1))
    }

    /// The delay after one more failure.
    pub(super) fn grow(&self, delay: Duration) -> Duration {
        delay.saturating_add(self.step()).min(self.longest())
    }

    fn longest(&self) -> Duration {
        self.max_delay.max(self.step())
    }
}

/// What to do about bytes that are no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    /// Ask the broker for an offset at which a record begins.
    Ask,
    /// That was done and led to the same place: try again after the longest delay.
    Stuck,
}

/// The state of one partition's gets.
#[derive(Debug)]
pub(super) struct FetchRequest {
    limits: RequestLimits,
    position: StoredOffset,
    /// What is to be committed, `None` if that was done.
    unsaved: Option<StoredOffset>,
    original_size: i32,
    size: i32,
    retries: u32,
    short_answers: u32,
    delay: Duration,
    expects_data: bool,
    /// The message that failed last, and how often in a row.
    failed: Option<(Offset, u32)>,
    /// The message that is to be rejected rather than delivered, and why.
    rejecting: Option<(Offset, String)>,
    /// Where bytes that are no record were met last.
    invalid: Option<Offset>,
    /// The broker has named an offset since.
    realigned: bool,
    /// How often in a row the broker named another offset, without a message or an idle end between.
    sent_on: u32,
    /// It went to another offset without a pause, and has not met an end since.
    hurried: bool,
    stuck: Option<String>,
}

impl FetchRequest {
    /// A request that begins at `position`; `size` is the one subscribed, in bytes.
    pub(super) fn new(position: StoredOffset, size: i32, limits: RequestLimits) -> Self {
        Self {
            limits,
            position,
            unsaved: None,
            original_size: size,
            size,
            retries: 0,
            short_answers: 0,
            delay: Duration::ZERO,
            expects_data: false,
            failed: None,
            rejecting: None,
            invalid: None,
            realigned: false,
            sent_on: 0,
            hurried: false,
            stuck: None,
        }
    }

    /// Where the next get begins, and the message before it.
    pub(super) fn position(&self) -> StoredOffset {
        self.position
    }

    /// How long to wait before the next get.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// Deliveries without progress, in a row.
    pub(super) fn retries(&self) -> u32 {
        self.retries
    }

    /// The present size, in bytes.
    pub(super) fn size(&self) -> i32 {
        self.size
    }

    /// What keeps the partition where it is.
    pub(super) fn stuck(&self) -> Option<&str> {
        self.stuck.as_deref()
    }

    /// Bytes to ask for.
    pub(super) fn ask(&self) -> i32 {
        if self.expects_data { self.size } else { self.size.min(IDLE_SIZE) }
    }

    /// Whether there is probably more to read: the last answer was a full one.
    pub(super) fn expects_data(&self) -> bool {
        self.expects_data
    }

    /// Takes what is to be committed.
    pub(super) fn take_unsaved(&mut self) -> Option<StoredOffset> {
        self.unsaved.take()
    }

    /// Whether something is to be committed.
    pub(super) fn is_unsaved(&self) -> bool {
        self.unsaved.is_some()
    }

    /// A commit has failed: the same is to be committed again unless there is news.
    pub(super) fn not_saved(&mut self, offset: StoredOffset) {
        self.unsaved.get_or_insert(offset);
    }

    /// "Nothing": the delay grows. A broker that has held the answer back is asked again at once.
    pub(super) fn nothing(&mut self, waited: bool) {
        self.sent_on = 0;
        self.hurried = false;
        self.expects_data = false;
        self.delay = if waited { Duration::ZERO } else { self.limits.grow(self.delay) };
    }

    /// No answer, or one that says so. What a broker that does not answer is asked next must hold none of the budget, which
    /// the partitions of others wait for.
    pub(super) fn failed(&mut self) {
        self.expects_data = false;
        self.delay = self.limits.grow(self.delay);
    }

    /// The broker sent us elsewhere. The first get there waits one step, as the reference's does. If the broker holds gets,
    /// it goes out at once instead, so that a group that begins at the end hears of the next message when it comes. A chain
    /// of such answers slows down, also if messages come between them. Returns how many there were in a row.
    pub(super) fn moved(&mut self, to: Offset, holds_gets: bool) -> u32 {
        self.sent_on = self.sent_on.saturating_add(1);
        self.go_to(StoredOffset { offset: to, message_id: self.position.message_id });
        self.retries = 0;
        self.expects_data = false;
        let at_once = holds_gets && self.sent_on == 1 && !self.hurried;
        self.hurried |= at_once;
        self.delay = if at_once { Duration::ZERO } else { self.limits.grow(self.delay) };
        self.sent_on
    }

    /// An answer of `length` bytes with at least one whole message.
    pub(super) fn answered(&mut self, asked: i32, length: usize) {
        self.sent_on = 0;
        self.note_length(asked, length);
        self.short_answers = 0;
    }

    /// An answer of `length` bytes without a whole message; `needed` is the length of its first record if that can be
    /// told.
    ///
    /// Returns whether the partition is stuck since now: the size cannot grow, or would not help.
    pub(super) fn short_answer(&mut self, asked: i32, length: usize, needed: Option<usize>) -> bool {
        if asked < self.size && length > 0 {
            // Only the caution of an idle partition was too small.
            self.expects_data = true;
            self.delay = Duration::ZERO;
            return false;
        }
        self.note_length(asked, length);
        self.retries = 0;
        let mut stuck = false;
        if self.short_answers > self.limits.max_increase && length > 0 {
            let asked = usize::try_from(asked).unwrap_or(0);
            if let Some(needed) = needed.filter(|&needed| asked >= needed) {
                stuck = self.set_stuck(format!(
                    "the message has {needed} bytes, of which the broker sends {length} at most: raise its maxTransferSize"
                ));
            }
            if usize::try_from(self.size).is_ok_and(|size| size > self.limits.max_read_buffer) {
                stuck |= self.set_stuck(format!(
                    "the message does not fit into {} bytes, and more than twice max_read_buffer_size ({}) is not asked for",
                    self.size, self.limits.max_read_buffer
                ));
            } else {
                self.size = self.size.saturating_mul(2);
            }
        }
        self.short_answers = self.short_answers.saturating_add(1);
        self.delay = self.limits.grow(self.delay);
        stuck
    }

    fn note_length(&mut self, asked: i32, length: usize) {
        let asked = usize::try_from(asked).unwrap_or(0);
        if length < asked / 2 && self.size != self.original_size {
            self.size = (self.size / 2).max(self.original_size);
        }
        self.expects_data = length >= asked.min(FULL_ANSWER);
    }

    /// How often the message at this offset was delivered before.
    pub(super) fn redeliveries(&self, of: Offset) -> u32 {
        self.failed.filter(|(at, _)| *at == of).map_or(0, |(_, times)| times)
    }

    /// Why the first message is to be rejected instead of delivered, if it is.
    pub(super) fn rejection(&self) -> Option<String> {
        if let Some((_, reason)) = self.rejecting.as_ref().filter(|(at, _)| *at == self.position.offset) {
            return Some(reason.clone());
        }
        let times = self.failed.map_or(self.retries, |(_, times)| times);
        (self.retries > self.limits.max_retries).then(|| format!("it was delivered {times} times without success"))
    }

    /// A message was handled, the next one begins at `next`.
    pub(super) fn handled(&mut self, id: MessageId, next: Offset) {
        self.go_to(StoredOffset { offset: next, message_id: Some(id) });
    }

    /// A batch came to its end, with all its messages handled.
    pub(super) fn delivered(&mut self) {
        self.retries = 0;
        self.delay = Duration::ZERO;
    }

    /// A batch came to its end before all its messages were handled. Progress resets the count. Returns how often the
    /// message has failed in a row.
    pub(super) fn delivery_failed(&mut self, progress: bool) -> u32 {
        let at = self.position.offset;
        let times = self.redeliveries(at).saturating_add(1);
        self.failed = Some((at, times));
        self.retries = if progress { 0 } else { self.retries.saturating_add(1) };
        let longest = self.limits.longest();
        self.delay = self.limits.step().checked_mul(self.retries).map_or(longest, |delay| delay.min(longest));
        times
    }

    /// The message at the position could not be rejected: it is offered again after a pause. Returns whether that is news.
    pub(super) fn reject_failed(&mut self, reason: String) -> bool {
        let at = self.position.offset;
        let before = self.rejecting.replace((at, reason));
        self.delay = self.limits.grow(self.delay);
        before.is_none_or(|(offset, _)| offset != at)
    }

    /// The bytes at the position are no record. Also tells whether that is news.
    pub(super) fn invalid(&mut self, reason: &str) -> (Invalid, bool) {
        self.retries = 0;
        let is_new = self.invalid.replace(self.position.offset) != Some(self.position.offset);
        if is_new {
            self.realigned = false;
        }
        let goes_on = self.sent_on <= SENT_ON;
        if !self.realigned && goes_on {
            return (Invalid::Ask, is_new);
        }
        self.delay = self.limits.longest();
        let tried = if goes_on { "the nearest offset" } else { "each offset that the broker named" };
        (Invalid::Stuck, self.set_stuck(format!("{reason}, again after reading from {tried}")))
    }

    /// The broker named an offset at which a record begins, to be read from at once; a chain of such answers slows down.
    pub(super) fn realigned(&mut self, to: Offset) {
        self.sent_on = self.sent_on.saturating_add(1);
        if to != self.position.offset {
            self.go_to(StoredOffset { offset: to, message_id: self.position.message_id });
        }
        self.retries = 0;
        self.realigned = true;
        self.expects_data = true;
        self.delay = if self.sent_on > 1 { self.limits.grow(self.delay) } else { Duration::ZERO };
    }

    /// The user wants to go on elsewhere. [`Offset::LATEST`] is committed only when the broker has said where that is.
    pub(super) fn seek(&mut self, to: Offset) {
        let unsaved = self.unsaved;
        self.go_to(StoredOffset { offset: to, message_id: None });
        if to == Offset::LATEST {
            self.unsaved = unsaved;
        }
        self.start_over();
        self.invalid = None;
        self.sent_on = 0;
        self.hurried = false;
        self.expects_data = false;
        self.delay = Duration::ZERO;
    }

    /// Whatever counts attempts at the old position ends with it.
    fn go_to(&mut self, to: StoredOffset) {
        if self.invalid.is_some_and(|at| to.offset > at) {
            self.invalid = None;
        }
        if to.offset != self.position.offset {
            self.start_over();
        }
        self.position = to;
        self.unsaved = Some(to);
    }

    fn start_over(&mut self) {
        self.retries = 0;
        self.failed = None;
        self.rejecting = None;
        self.short_answers = 0;
        self.stuck = None;
    }

    fn set_stuck(&mut self, reason: String) -> bool {
        let is_new = self.stuck.is_none();
        self.stuck = Some(reason);
        is_new
    }
}

/// The length of the record that `data` begins with, header included, if so much is there.
pub(super) fn needed(data: &[u8]) -> Option<usize> {
    let header = crate::message::RecordHeader::decode(data.first_chunk::<HEADER_LEN>()?);
    header.record_len().and_then(|length| usize::try_from(length).ok())
}

#[cfg(test)]
mod tests;
