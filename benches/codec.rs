//! The wire protocol: puts in, answers out.
// A benchmark fails by panicking, as tests do.
#![allow(clippy::unwrap_used, missing_docs)]

use bytes::{Bytes, BytesMut};
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use metaq::id::{MessageId, Offset, PartitionIndex};
use metaq::message::checksum;
use metaq::protocol::{Command, Decoder, Get, Limits, Opaque, PlainPut, Put, Request, encode_put_answer};

/// Commands in a buffer: what one read of a busy connection brings.
const COMMANDS: usize = 64;

fn main() {
    divan::main();
}

fn put() -> Request {
    let body = Bytes::from(vec![b'x'; 256]);
    Request::Put(Put {
        topic: "bench-topic".into(),
        partition: PartitionIndex::new(7),
        flag: 0,
        checksum: Some(checksum(&body)),
        transaction: None,
        opaque: Opaque::new(123_456),
        body,
    })
}

fn get() -> Request {
    Request::Get(Get {
        topic: "bench-topic".into(),
        group: "bench-group".into(),
        partition: PartitionIndex::new(7),
        offset: Offset::new(1_234_567_890),
        max_size: 1 << 20,
        opaque: Opaque::new(123_456),
        surplus: "".into(),
    })
}

fn buffer(command: &Request) -> BytesMut {
    let mut buffer = BytesMut::new();
    (0..COMMANDS).for_each(|_| command.encode(&mut buffer));
    buffer
}

#[divan::bench]
fn decode_plain_puts(bencher: Bencher<'_, '_>) {
    let buffer = buffer(&put());
    bencher.counter(ItemsCount::new(COMMANDS)).counter(BytesCount::new(buffer.len())).bench(|| {
        let (mut rest, mut count) = (&buffer[..], 0);
        while let Some((put, len)) = PlainPut::decode(black_box(rest), Limits::default()) {
            black_box(put);
            (rest, count) = (&rest[len..], count + 1);
        }
        assert_eq!(count, COMMANDS);
    });
}

fn decode(bencher: Bencher<'_, '_>, command: &Request) {
    let buffer = buffer(command);
    let counters = (ItemsCount::new(COMMANDS), BytesCount::new(buffer.len()));
    bencher.counter(counters.0).counter(counters.1).with_inputs(|| buffer.clone()).bench_refs(|buffer| {
        let (mut decoder, mut count) = (Decoder::new(Limits::default()), 0);
        while let Some(command) = decoder.decode(black_box(buffer)).unwrap() {
            assert!(matches!(black_box(command), Command::Request(_)));
            count += 1;
        }
        assert_eq!(count, COMMANDS);
    });
}

#[divan::bench]
fn decode_puts(bencher: Bencher<'_, '_>) {
    decode(bencher, &put());
}

#[divan::bench]
fn decode_gets(bencher: Bencher<'_, '_>) {
    decode(bencher, &get());
}

#[divan::bench]
fn encode_put_answers(bencher: Bencher<'_, '_>) {
    let mut out = BytesMut::with_capacity(64 * COMMANDS);
    bencher.counter(ItemsCount::new(COMMANDS)).bench_local(|| {
        out.clear();
        for number in 0..64 {
            let (id, offset) = (MessageId::new(1_234_567_890_123_456_789), Offset::new(1_234_567_890 + number));
            encode_put_answer(black_box(id), PartitionIndex::new(7), offset, Opaque::new(123_456), &mut out);
        }
        black_box(out.len())
    });
}

#[divan::bench]
fn encode_puts(bencher: Bencher<'_, '_>) {
    let put = put();
    let mut out = BytesMut::with_capacity(512 * COMMANDS);
    bencher.counter(ItemsCount::new(COMMANDS)).bench_local(|| {
        out.clear();
        (0..COMMANDS).for_each(|_| black_box(&put).encode(&mut out));
        black_box(out.len())
    });
}
