//! One connection of the long run.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use metaq::protocol::{Response, Status};

use crate::common::raw::{Raw, put_frame, text};

/// Longest pause between two requests of a client.
const PAUSE_MS: u64 = 200;

/// What clients were answered.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    answers: BTreeMap<(&'static str, i32), u64>,
    unexpected: Vec<String>,
}

impl Tally {
    fn count(&self, request: &'static str, response: Option<&Response>, expected: &[Status]) {
        let mut counts = self.0.lock().unwrap();
        let status = match response {
            Some(Response::Value(_)) => Status::SUCCESS,
            Some(Response::Result(result)) => result.status,
            None => return counts.unexpected.push(format!("{request}: the connection was closed")),
        };
        *counts.answers.entry((request, status.code())).or_default() += 1;
        if !expected.contains(&status) {
            let answer = response.map(text).unwrap_or_default();
            counts.unexpected.push(format!("{request}: {}", &answer[..answer.len().min(200)]));
        }
    }

    /// How often what was answered.
    pub(crate) fn line(&self) -> String {
        let counts = self.0.lock().unwrap();
        let each = counts.answers.iter().map(|((request, status), count)| format!("{request} {status}: {count}"));
        each.collect::<Vec<_>>().join(", ")
    }

    /// What should not have been answered.
    pub(crate) fn unexpected(&self) -> Vec<String> {
        self.0.lock().unwrap().unexpected.clone()
    }
}

/// Puts, gets and asks until the end.
pub(crate) async fn work(address: SocketAddr, seed: u64, end: Instant, tally: &Tally) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut client = Raw::connect(address).await;
    let topic = if random.bool() { "durable" } else { "periodic" };
    let partition = random.i32(0..8);
    let mut offset = 0;
    while Instant::now() < end {
        match random.u32(0..100) {
            0..50 => {
                let body = vec![random.alphanumeric() as u8; random.usize(1..2000)];
                client.send(put_frame(topic, partition, &body, 1)).await;
                tally.count("put", client.answer().await.as_ref(), &[Status::SUCCESS]);
            }
            50..92 => {
                let wait = if random.u32(0..10) == 0 { " wait=1000" } else { "" };
                client.send(format!("get {topic} g {partition} {offset} 65536 2{wait}\r\n")).await;
                let answer = client.answer().await;
                let expected = [Status::SUCCESS, Status::NOT_FOUND, Status::MOVED];
                tally.count("get", answer.as_ref(), &expected);
                match answer {
                    Some(Response::Value(value)) => offset += whole_records(&value.data),
                    Some(Response::Result(result)) if result.status == Status::MOVED => {
                        offset = String::from_utf8_lossy(&result.body).parse().unwrap();
                    }
                    _ => {}
                }
            }
            92..97 => {
                client.send(format!("offset {topic} g {partition} {offset} 3\r\n")).await;
                tally.count("offset", client.answer().await.as_ref(), &[Status::SUCCESS, Status::NOT_FOUND]);
            }
            97..99 => {
                client.send("stats offsets 4\r\n").await;
                tally.count("stats", client.answer().await.as_ref(), &[Status::SUCCESS]);
            }
            _ => {
                // Now and then one leaves and comes back.
                client = Raw::connect(address).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(random.u64(0..PAUSE_MS))).await;
    }
}

/// Bytes of the records that are there as a whole: an answer may be cut anywhere.
fn whole_records(data: &[u8]) -> i64 {
    let mut records = metaq::message::Records::new(BytesMut::from(data).freeze(), 1 << 20);
    records.by_ref().for_each(|record| {
        record.unwrap();
    });
    i64::try_from(records.consumed()).unwrap()
}
