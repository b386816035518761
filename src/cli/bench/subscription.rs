//! A consumer of several partitions over one connection: one get under way for each.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::exchange::{Receiver, Sender, TICK};
use super::gets::plain_get;
use super::records::walk;
use crate::id::{Offset, PartitionIndex, TopicName};
use crate::protocol::{Get, Opaque, Request, Response, Status};

/// How long a get may be held back.
const WAIT: Duration = Duration::from_secs(5);

/// Pause after a get that brought nothing.
const POLL_PAUSE: Duration = Duration::from_millis(1);

/// Where a consumer is.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Whether the broker holds gets back until there is a message.
    pub(super) long_poll: bool,
    max_size: i32,
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    partition: PartitionIndex,
    offset: Offset,
    /// When to ask again; `None` while a get is under way.
    due: Option<Instant>,
}

impl Subscription {
    /// Begins at these offsets.
    pub(super) fn new(
        long_poll: bool,
        max_size: i32,
        partitions: impl IntoIterator<Item = (PartitionIndex, Offset)>,
    ) -> Self {
        let now = Instant::now();
        let place = |(partition, offset)| Place { partition, offset, due: Some(now) };
        Self { long_poll, max_size, places: partitions.into_iter().map(place).collect() }
    }

    /// Asks for what is due, waits for answers for a while, and shows the body of each message.
    pub(super) fn poll(
        &mut self,
        topic: &TopicName,
        sender: &mut Sender,
        receiver: &mut Receiver,
        mut each: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let now = Instant::now();
        for (place, number) in self.places.iter_mut().zip(0..) {
            if place.due.is_some_and(|due| due <= now) {
                let mut get = plain_get(topic, place.partition, place.offset, self.max_size);
                get.opaque = Opaque::new(number);
                if self.long_poll {
                    get.surplus = Get::surplus_for_wait(WAIT);
                }
                sender.queue(&Request::Get(get));
                place.due = None;
            }
        }
        sender.send()?;
        let next = self.places.iter().filter_map(|place| place.due).min();
        let pause = next.map(|due| due.saturating_duration_since(now).max(Duration::from_micros(1)));
        if self.places.iter().all(|place| place.due.is_some()) {
            thread::sleep(pause.unwrap_or(TICK));
            receiver.listen_anew();
            return Ok(());
        }
        receiver.receive_within(pause.unwrap_or(TICK), |response| self.take(response, &mut each))
    }

    fn take(&mut self, response: Response, each: &mut impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let number = usize::try_from(response.opaque().get())?;
        let place = self.places.get_mut(number).context("the broker answered what nobody asked")?;
        let now = Instant::now();
        place.due = Some(now);
        match response {
            Response::Value(value) => {
                let mut result = Ok(());
                let consumed = walk(&value.data, self.max_size, |body| {
                    if result.is_ok() {
                        result = each(body);
                    }
                })?;
                result?;
                place.offset = place.offset.checked_add(consumed as u64).context("the offsets end")?;
            }
            Response::Result(result) if result.status == Status::NOT_FOUND => place.due = Some(now + POLL_PAUSE),
            Response::Result(result) if result.status == Status::MOVED => {
                place.offset = String::from_utf8_lossy(&result.body).parse()?;
            }
            Response::Result(result) => bail!(
                "the broker refused a get with status {}: {}",
                result.status,
                String::from_utf8_lossy(&result.body)
            ),
        }
        Ok(())
    }
}
