//! Reloads while messages come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::raw::Raw;
use crate::site::Site;

const RELOADS: usize = 60;

/// Puts one message after another until told to stop, each of which must be stored right behind the one before it.
async fn put_until(mut client: Raw, partition: i32, stop: Arc<AtomicBool>, stored: Arc<AtomicU64>) -> i64 {
    let mut expected = 0;
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(client.put("test", partition, b"0123456789").await, expected);
        expected += 30;
        stored.fetch_add(1, Ordering::Relaxed);
    }
    expected
}

/// Reads until it has seen the end that is announced in the end.
async fn read_until(mut client: Raw, partition: i32, end: tokio::sync::oneshot::Receiver<i64>) {
    let (mut offset, mut end, mut known) = (0, end, None);
    while known != Some(offset) {
        match client.get("test", partition, offset).await {
            Some(data) => offset += i64::try_from(data.len()).unwrap(),
            None => tokio::task::yield_now().await,
        }
        known = known.or_else(|| end.try_recv().ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_lose_refuse_and_reorder_nothing_of_topics_that_stay() {
    let sections = |round: usize| {
        // Everything about the topic changes but that it takes messages for its four partitions.
        let (threshold, partitions, stat) = (round % 3, 4 + round % 5, round.is_multiple_of(2));
        let other = if round.is_multiple_of(2) { "[topic=other]\n" } else { "" };
        format!(
            "[topic=test]\nnumPartitions={partitions}\nunflushThreshold={threshold}\nunflushInterval=5\nstat={stat}\n{other}"
        )
    };
    let site = Site::start(&sections(0)).await;
    let (stop, stored) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut writers = Vec::new();
    let mut readers = Vec::new();
    for partition in 0..4 {
        writers.push(tokio::spawn(put_until(site.connect().await, partition, Arc::clone(&stop), Arc::clone(&stored))));
        let (end, announced) = tokio::sync::oneshot::channel();
        readers.push((end, tokio::spawn(read_until(site.connect().await, partition, announced))));
    }
    for round in 1..=RELOADS {
        // Each reload falls among puts.
        let before = stored.load(Ordering::Relaxed);
        while stored.load(Ordering::Relaxed) < before + 20 {
            assert!(writers.iter().all(|writer| !writer.is_finished()), "a writer was refused");
            tokio::task::yield_now().await;
        }
        site.reload(&sections(round)).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for (writer, (end, reader)) in writers.into_iter().zip(readers) {
        end.send(writer.await.unwrap()).unwrap();
        reader.await.unwrap();
    }
}
