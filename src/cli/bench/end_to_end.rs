//! From a producer to a consumer: what the broker and one hand-over in each direction take.
//!
//! The producer sends at a given rate, whatever the broker does. A message is stamped with the time at which it was due
//! if the producer could not send it then: a broker that stands still is seen by all messages that wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

use super::exchange::{Exchange, Receiver, Sender};
use super::load::Load;
use super::puts::{letters, plain_put};
use super::report::{Mode, Report};
use super::schedule::Schedule;
use super::stamp::{STAMP_LEN, Stamp};
use super::subscription::Subscription;
use crate::protocol::{Opaque, Request, Response, Status};

/// Smallest payload: it carries its time.
pub(super) const SIZE_MIN: usize = STAMP_LEN;

/// How long a message may take to be seen after the last one: more than a broker's usual flush interval.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// Longest sleep of the producer, so that it sees an interruption.
const NAP: Duration = Duration::from_millis(20);

/// What the producer does.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndToEnd {
    /// Bytes of a payload, [`SIZE_MIN`] at least.
    pub(super) size: usize,
    /// Messages a second.
    pub(super) rate: u32,
}

/// How far a run is.
#[derive(Debug, Default)]
struct Progress {
    sent: AtomicU64,
    accepted: AtomicU64,
    all_sent: AtomicBool,
    all_answered: AtomicBool,
    /// A thread has failed: the others end.
    failed: AtomicBool,
}

/// Ends the other threads when its own fails.
struct Guard<'a>(&'a Progress);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.failed.store(true, Ordering::Release);
    }
}

impl Progress {
    fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn guarded<T>(&self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let guard = Guard(self);
        let result = work()?;
        std::mem::forget(guard);
        Ok(result)
    }
}

impl EndToEnd {
    /// Runs one producer and one consumer. `subscription` begins where the partitions end.
    pub(super) fn run(self, load: &Load, mut subscription: Subscription) -> anyhow::Result<Report> {
        let producer = Exchange::connect(&load.address)?;
        let consumer = Exchange::connect(&load.address)?;
        let schedule = load.length.begin(load.interrupt.clone());
        let progress = &Progress::default();
        let run = fastrand::u64(..);
        let (mut seen, answered) = thread::scope(|scope| {
            let (schedule, mut answers) = (&schedule, producer.receiver);
            let consuming = scope.spawn(move || {
                progress.guarded(|| consume(consumer, &mut subscription, run, load, schedule, progress))
            });
            let answering = scope.spawn(move || progress.guarded(|| take_answers(&mut answers, schedule, progress)));
            let produced = progress.guarded(|| self.produce(producer.sender, run, load, schedule, progress));
            let join_error = |_| anyhow!("a thread panicked");
            let (seen, answered) = (consuming.join().map_err(join_error)?, answering.join().map_err(join_error)?);
            // The first in the chain of causes tells most: without answers the consumer fails too.
            produced?;
            let answered = answered?;
            anyhow::Ok((seen?, answered))
        })?;
        seen.add(&answered)?;
        Ok(seen)
    }

    fn produce(
        self,
        mut sender: Sender,
        run: u64,
        load: &Load,
        schedule: &Schedule,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let mut payload = letters(self.size);
        let nanos_each = 1_000_000_000 / u128::from(self.rate).max(1);
        let (mut sent, mut measured, mut slept) = (0_u64, 0, true);
        loop {
            let now = Instant::now();
            let left = schedule.left(now, measured);
            if left == 0 || progress.is_failed() {
                break;
            }
            let since = now.saturating_duration_since(schedule.begun).as_nanos();
            let due = u64::try_from(since * u128::from(self.rate) / 1_000_000_000)?;
            let batch = due.saturating_sub(sent).min(left);
            if batch == 0 {
                let next = schedule.begun + nanos(u128::from(sent + 1) * nanos_each);
                thread::sleep(next.saturating_duration_since(now).clamp(Duration::from_micros(1), NAP));
                slept = true;
                continue;
            }
            for _ in 0..batch {
                // That a sleep took too long is not the broker's doing.
                let at = if slept { now } else { schedule.begun + nanos(u128::from(sent + 1) * nanos_each) };
                measured += u64::from(schedule.is_measured(at));
                Stamp { run, at }.write(&mut payload, schedule.begun);
                let mut put = plain_put(&load.topic, payload.clone().into());
                put.partition = load.partition(u32::try_from(sent % u64::from(load.partitions))?);
                put.opaque = Opaque::new(i32::try_from(sent & 0x7fff_ffff)?);
                sent += 1;
                sender.queue(&Request::Put(put));
            }
            progress.sent.store(sent, Ordering::Release);
            sender.send()?;
            slept = false;
        }
        progress.all_sent.store(true, Ordering::Release);
        Ok(())
    }
}

fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Takes the answers to the puts; the report has what was refused.
fn take_answers(receiver: &mut Receiver, schedule: &Schedule, progress: &Progress) -> anyhow::Result<Report> {
    let mut report = Report::new(Mode::EndToEnd)?;
    let mut answered = 0_u64;
    let mut patience = schedule.patience();
    loop {
        // Whether all are sent is looked at first: after that the number does not grow.
        let all_sent = progress.all_sent.load(Ordering::Acquire);
        if answered >= progress.sent.load(Ordering::Acquire) {
            if all_sent {
                break;
            }
            receiver.listen_anew();
        }
        if patience.is_over() || progress.is_failed() {
            break;
        }
        receiver.receive(|response| {
            answered += 1;
            match response {
                Response::Result(result) if result.status == Status::SUCCESS => {
                    progress.accepted.fetch_add(1, Ordering::Release);
                }
                Response::Result(result) => report.refused(&result),
                Response::Value(_) => bail!("the broker answered a put with data"),
            }
            Ok(())
        })?;
    }
    progress.all_answered.store(true, Ordering::Release);
    Ok(report)
}

/// Reads until everything that was accepted is seen.
fn consume(
    exchange: Exchange,
    subscription: &mut Subscription,
    run: u64,
    load: &Load,
    schedule: &Schedule,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let mut report = Report::new(Mode::EndToEnd)?;
    report.long_poll = Some(subscription.long_poll);
    let Exchange { mut sender, mut receiver } = exchange;
    let (mut seen, mut last_seen) = (0_u64, None);
    let mut last_news = Instant::now();
    let mut patience = schedule.patience();
    loop {
        let all_answered = progress.all_answered.load(Ordering::Acquire);
        let accepted = progress.accepted.load(Ordering::Acquire);
        if seen >= accepted && !all_answered {
            last_news = Instant::now();
        }
        let is_over = last_news.elapsed() > LAST_WAIT || patience.is_over() || progress.is_failed();
        if (all_answered && seen >= accepted) || is_over {
            break;
        }
        subscription.poll(&load.topic, &mut sender, &mut receiver, |body| {
            let now = Instant::now();
            // Others may use the topic too.
            if let Some(stamp) = Stamp::read(body, schedule.begun).filter(|stamp| stamp.run == run) {
                seen += 1;
                (last_news, last_seen) = (now, Some(now));
                if schedule.is_measured(stamp.at) {
                    report.count(1, body.len(), now.saturating_duration_since(stamp.at))?;
                }
            }
            Ok(())
        })?;
    }
    // The wait for what never came is no part of the rate.
    let ended = last_seen.unwrap_or_else(Instant::now);
    report.finish(ended.saturating_duration_since(schedule.measured_from), schedule.is_interrupted());
    report.missing = Some(progress.accepted.load(Ordering::Acquire).saturating_sub(seen));
    Ok(report)
}
