//! Clients that put all the time, and what they were answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metaq::protocol::{Response, Status};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::common::DEADLINE;
use crate::common::raw::{Raw, put_frame};
use crate::payload::{Marker, random_size};

/// A partition by its topic and number.
pub(crate) type Place = (&'static str, i32);

/// Puts that a client has on their way at most.
const WINDOW: usize = 16;

/// One of so many messages is for the last partition.
const QUIET: u32 = 100;

/// A message that a broker said it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledged {
    pub(crate) place: Place,
    pub(crate) offset: i64,
    pub(crate) id: i64,
    /// `None` for an empty one.
    pub(crate) marker: Option<Marker>,
}

/// Clients at work.
pub(crate) struct Load {
    clients: Vec<JoinHandle<Vec<Acknowledged>>>,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    acknowledged: AtomicU64,
    changed: Notify,
}

impl Load {
    /// Starts clients with numbers that nobody else must have; each puts to all partitions at random.
    pub(crate) fn start(
        address: SocketAddr,
        numbers: impl Iterator<Item = u64>,
        places: &'static [Place],
        seed: u64,
    ) -> Self {
        let progress = Arc::<Progress>::default();
        let client = |number: u64| {
            let random = fastrand::Rng::with_seed(seed ^ number);
            tokio::spawn(put_until_the_end(address, number, places, random, Arc::clone(&progress)))
        };
        Self { clients: numbers.map(client).collect(), progress }
    }

    /// Waits until so many messages were acknowledged.
    pub(crate) async fn acknowledged(&self, count: u64) {
        let reached = async {
            while self.progress.acknowledged.load(Ordering::Relaxed) < count {
                self.progress.changed.notified().await;
            }
        };
        tokio::time::timeout(DEADLINE, reached).await.expect("the broker takes no more messages");
    }

    /// Waits until the broker is gone and returns all that it acknowledged.
    pub(crate) async fn end(self) -> Vec<Acknowledged> {
        let mut acknowledged = Vec::new();
        for client in self.clients {
            acknowledged.extend(client.await.unwrap());
        }
        acknowledged
    }
}

async fn put_until_the_end(
    address: SocketAddr,
    client: u64,
    places: &'static [Place],
    mut random: fastrand::Rng,
    progress: Arc<Progress>,
) -> Vec<Acknowledged> {
    let (mut answers, mut puts) = Raw::connect(address).await.into_halves();
    let mut acknowledged = Vec::new();
    for first in (0..).step_by(WINDOW) {
        let sent: Vec<_> = (first..first + WINDOW as u64)
            .map(|number| {
                (random_place(places, &mut random), Marker { client, number, size: random_size(&mut random) })
            })
            .collect();
        for (opaque, ((topic, partition), marker)) in (0..).zip(&sent) {
            if !puts.send(&put_frame(topic, *partition, &marker.payload(), opaque)).await {
                break;
            }
        }
        // Also of a window that the broker did not read to its end.
        for _ in 0..WINDOW {
            let Some(answer) = answers.answer_before_cut().await else { return acknowledged };
            let (place, marker) = sent[opaque_of(&answer)];
            let (id, offset) = stored_at(&answer).unwrap_or_else(|refusal| panic!("{place:?}: {refusal}"));
            let marker = (marker.size > 0).then_some(marker);
            acknowledged.push(Acknowledged { place, offset, id, marker });
            progress.acknowledged.fetch_add(1, Ordering::Relaxed);
            progress.changed.notify_one();
        }
    }
    unreachable!("the windows do not end");
}

/// The last partition gets a message now and then: its newest ones stay in memory while the commit log goes on.
fn random_place(places: &[Place], random: &mut fastrand::Rng) -> Place {
    let last = places.len() - 1;
    if random.u32(..QUIET) == 0 { places[last] } else { places[random.usize(..last)] }
}

fn opaque_of(answer: &Response) -> usize {
    let Response::Result(result) = answer else { panic!("a result, not {answer:?}") };
    usize::try_from(result.opaque.get()).unwrap()
}

/// Id and offset from the answer to a put, or the words of its refusal.
pub(crate) fn stored_at(answer: &Response) -> Result<(i64, i64), String> {
    let Response::Result(result) = answer else { panic!("a result, not {answer:?}") };
    let text = String::from_utf8(result.body.to_vec()).unwrap();
    if result.status != Status::SUCCESS {
        assert_eq!(result.status, Status::ERROR, "{text}");
        return Err(text);
    }
    let numbers: Vec<i64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
    let [id, _partition, offset] = numbers[..] else { panic!("{text}") };
    Ok((id, offset))
}
