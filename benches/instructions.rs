//! Fixed workloads whose instructions are counted, see `tests/instruction_counts.rs`: unlike times they hardly vary.
//!
//! The argument names the workload. It prints the number of messages that its function `measured_…` handles; what is done
//! before and on other threads is not counted.
// A workload fails by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use metaq::id::{MessageId, Offset, PartitionIndex};
use metaq::message::checksum;
use metaq::protocol::{Command, Decoder, Limits, Opaque, PlainPut, Put, Request, encode_put_answer};
use metaq::store::{AppendGroup, PartitionLog, Store};

use common::{BODY_LEN, GROUP_LEN, PERIODIC, Putter};

/// Groups before those that count, and these: together less than a partition keeps in memory before it is written to its
/// segment, so that no writing of that happens on the thread that is counted.
const WARM_UP: usize = 4;
const GROUPS: usize = 16;

/// Most attempts to store a group at once, a millisecond apart.
const REFUSALS_MAX: u32 = 10_000;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("codec") => codec(),
        Some("decoder") => decoder(),
        Some("put") => put(),
        _ => println!("counted by: cargo test --test instruction_counts"),
    }
}

/// A group of puts as a client sends them.
fn puts() -> BytesMut {
    let body = Bytes::from(vec![b'x'; BODY_LEN]);
    let mut buffer = BytesMut::new();
    for (opaque, partition) in (100_000..).zip((0..8).cycle()).take(GROUP_LEN) {
        let put = Put {
            topic: "bench-topic".into(),
            partition: PartitionIndex::new(partition),
            flag: 0,
            checksum: Some(checksum(&body)),
            transaction: None,
            opaque: Opaque::new(opaque),
            body: body.clone(),
        };
        Request::Put(put).encode(&mut buffer);
    }
    buffer
}

/// Puts in their usual spelling, and their answers.
fn codec() {
    let (buffer, mut out) = (puts(), BytesMut::with_capacity(GROUP_LEN * 128));
    for _ in 0..WARM_UP {
        decode_and_answer(&buffer, &mut out);
    }
    println!("{}", measured_codec(&buffer, &mut out));
}

#[inline(never)]
fn measured_codec(buffer: &[u8], out: &mut BytesMut) -> usize {
    (0..GROUPS).map(|_| decode_and_answer(buffer, out)).sum()
}

fn decode_and_answer(buffer: &[u8], out: &mut BytesMut) -> usize {
    let (mut rest, mut count) = (buffer, 0);
    out.clear();
    while let Some((put, len)) = PlainPut::decode(black_box(rest), Limits::default()) {
        let put = black_box(put);
        let (id, offset) = (MessageId::new(1_234_567_890_123_456_789), Offset::new(1_234_567_890));
        encode_put_answer(black_box(id), put.partition, black_box(offset), put.opaque, out);
        rest = &rest[len..];
        count += 1;
    }
    black_box(&out);
    count
}

/// The same puts through the decoder for everything.
fn decoder() {
    let mut buffers: Vec<BytesMut> = (0..WARM_UP + GROUPS).map(|_| puts()).collect();
    let mut decoder = Decoder::new(Limits::default());
    let (warm_up, rest) = buffers.split_at_mut(WARM_UP);
    warm_up.iter_mut().for_each(|buffer| {
        decode(&mut decoder, buffer);
    });
    println!("{}", measured_decoder(&mut decoder, rest));
}

#[inline(never)]
fn measured_decoder(decoder: &mut Decoder, buffers: &mut [BytesMut]) -> usize {
    buffers.iter_mut().map(|buffer| decode(decoder, buffer)).sum()
}

fn decode(decoder: &mut Decoder, buffer: &mut BytesMut) -> usize {
    let mut count = 0;
    while let Some(command) = decoder.decode(buffer).unwrap() {
        assert!(matches!(black_box(command), Command::Request(Request::Put(_))));
        count += 1;
    }
    count
}

/// From checked puts to messages that are written and have their results: checksums, group, offsets, frames, one write a
/// group, and no sync.
fn put() {
    let dir = common::directory();
    let store = common::open(dir.path());
    let partitions = common::partitions(&store, 8, &PERIODIC);
    // Makes the first segments, for which a group that is committed at once does not wait.
    Putter::new(partitions.clone()).put(&store, 1);
    let mut groups = vec![AppendGroup::default()];
    for _ in 0..WARM_UP {
        store_group(&store, &partitions, &mut groups);
    }
    println!("{}", measured_put(&store, &partitions, &mut groups));
    store.close().unwrap();
}

#[inline(never)]
fn measured_put(store: &Store, partitions: &[Arc<PartitionLog>], groups: &mut Vec<AppendGroup>) -> usize {
    (0..GROUPS).map(|_| store_group(store, partitions, groups)).sum()
}

fn store_group(store: &Store, partitions: &[Arc<PartitionLog>], groups: &mut Vec<AppendGroup>) -> usize {
    let body = [b'x'; BODY_LEN];
    for group in &mut *groups {
        group.clear();
        common::fill(group, partitions, 0, black_box(&body));
    }
    // Refused while one of the store's own threads is at work, which is soon over.
    let mut refused = 0;
    while !store.committer().commit_now(groups) {
        refused += 1;
        assert!(refused < REFUSALS_MAX, "the store never takes a group at once");
        thread::sleep(Duration::from_millis(1));
    }
    groups.iter().for_each(common::check);
    groups.iter().map(AppendGroup::len).sum()
}
