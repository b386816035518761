//! The load: one thread and one blocking connection each, a window of commands under way.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use super::report::Report;
use crate::id::{Offset, PartitionIndex, TopicName};
use crate::message::checksum;
use crate::protocol::{Command, Decoder, Get, Limits, Opaque, Put, Request, Response, Status};

/// Bytes that are read from a socket at a time.
const READ_BYTES: usize = 256 << 10;

/// Longest silence of the broker.
const SILENCE: Duration = Duration::from_secs(30);

/// What every connection does.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Put { window: usize, size: usize, count: Option<u64> },
    Get { max_size: i32 },
}

/// A load on one broker.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) address: String,
    pub(super) topic: TopicName,
    pub(super) partitions: u32,
    pub(super) work: Work,
    /// `None` for as long as it takes.
    pub(super) time: Option<Duration>,
}

impl Load {
    /// Runs the load over some connections and adds up what they saw.
    pub(super) fn run(&self, connections: u32) -> anyhow::Result<Report> {
        let sockets = (0..connections).map(|_| self.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        let started = Instant::now();
        let threads: Vec<_> = (0..connections)
            .zip(sockets)
            .map(|(number, socket)| {
                let load = self.clone();
                thread::spawn(move || match load.work {
                    Work::Put { window, size, count } => load.puts(socket, number, window, size, count, started),
                    Work::Get { max_size } => load.gets(socket, number, connections, max_size, started),
                })
            })
            .collect();
        let mut report = Report::new(matches!(self.work, Work::Put { .. }))?;
        for thread in threads {
            report.add(&thread.join().map_err(|_| anyhow!("a connection's thread panicked"))??)?;
        }
        report.finish(started.elapsed());
        Ok(report)
    }

    fn connect(&self) -> anyhow::Result<TcpStream> {
        let context = || format!("cannot connect to {}", self.address);
        let socket = TcpStream::connect(&self.address).with_context(context)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        Ok(socket)
    }

    fn is_over(&self, started: Instant) -> bool {
        self.time.is_some_and(|time| started.elapsed() >= time)
    }

    fn partition(&self, turn: u32) -> PartitionIndex {
        PartitionIndex::new(i32::try_from(turn % self.partitions).unwrap_or(i32::MAX))
    }

    fn puts(
        &self,
        socket: TcpStream,
        number: u32,
        window: usize,
        size: usize,
        count: Option<u64>,
        started: Instant,
    ) -> anyhow::Result<Report> {
        let mut report = Report::new(true)?;
        let mut exchange = Exchange::new(socket);
        let body: Bytes = (b'a'..=b'z').cycle().take(size).collect();
        let mut put = Put {
            topic: self.topic.as_str().into(),
            partition: PartitionIndex::new(0),
            flag: 0,
            checksum: Some(checksum(&body)),
            transaction: None,
            opaque: Opaque::new(0),
            body,
        };
        // The opaque of a put is its place in the window, free again with the answer.
        let mut sent_at = vec![started; window];
        let mut free: Vec<usize> = (0..window).collect();
        let mut turn = number;
        let mut left = count.unwrap_or(u64::MAX);
        loop {
            if left > 0 && !self.is_over(started) {
                let now = Instant::now();
                while left > 0
                    && let Some(slot) = free.pop()
                {
                    put.opaque = Opaque::new(i32::try_from(slot)?);
                    put.partition = self.partition(turn);
                    turn = turn.wrapping_add(1);
                    left -= 1;
                    if let Some(at) = sent_at.get_mut(slot) {
                        *at = now;
                    }
                    exchange.queue(&Request::Put(put.clone()));
                }
            }
            if free.len() == window {
                return Ok(report);
            }
            exchange.send()?;
            exchange.receive(|response| {
                let slot = usize::try_from(response.opaque().get())?;
                let at = sent_at.get(slot).context("the broker answered what nobody asked")?;
                match response {
                    Response::Result(result) if result.status == Status::SUCCESS => report.count(size, at.elapsed())?,
                    Response::Result(result) => report.refused(&result),
                    Response::Value(_) => bail!("the broker answered a put with data"),
                }
                free.push(slot);
                Ok(())
            })?;
        }
    }

    fn gets(
        &self,
        socket: TcpStream,
        number: u32,
        connections: u32,
        max_size: i32,
        started: Instant,
    ) -> anyhow::Result<Report> {
        let mut report = Report::new(false)?;
        let mut exchange = Exchange::new(socket);
        let mut turn = number;
        let mut offset = Offset::ZERO;
        while !self.is_over(started) {
            let get = Get {
                topic: self.topic.as_str().into(),
                group: ByteString::from_static("metaq-bench"),
                partition: self.partition(turn),
                offset,
                max_size,
                opaque: Opaque::new(1),
                surplus: ByteString::new(),
            };
            exchange.queue(&Request::Get(get));
            exchange.send()?;
            let at = Instant::now();
            let mut answered = false;
            while !answered {
                exchange.receive(|response| {
                    answered = true;
                    match response {
                        Response::Value(value) => {
                            report.count(value.data.len(), at.elapsed())?;
                            offset = offset.checked_add(value.data.len() as u64).unwrap_or(Offset::ZERO);
                        }
                        Response::Result(result) if result.status == Status::MOVED => {
                            offset = String::from_utf8_lossy(&result.body).parse()?;
                        }
                        // The end of this partition, or none such.
                        Response::Result(result) if result.status == Status::NOT_FOUND => {
                            if offset == Offset::ZERO && self.partitions <= connections {
                                bail!("nothing to read: put messages into the topic first");
                            }
                            turn = turn.wrapping_add(connections);
                            offset = Offset::ZERO;
                        }
                        Response::Result(result) => bail!(
                            "the broker refused a get with status {}: {}",
                            result.status,
                            String::from_utf8_lossy(&result.body)
                        ),
                    }
                    Ok(())
                })?;
            }
        }
        Ok(report)
    }
}

/// One connection: commands are gathered, sent together, and their answers taken as they come.
struct Exchange {
    socket: TcpStream,
    decoder: Decoder,
    input: BytesMut,
    output: BytesMut,
}

impl Exchange {
    fn new(socket: TcpStream) -> Self {
        let limits = Limits { body_bytes: i32::MAX.cast_unsigned() as usize, ..Limits::default() };
        Self { socket, decoder: Decoder::new(limits), input: BytesMut::new(), output: BytesMut::new() }
    }

    fn queue(&mut self, request: &Request) {
        request.encode(&mut self.output);
    }

    fn send(&mut self) -> anyhow::Result<()> {
        self.socket.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Reads once and takes every whole answer.
    fn receive(&mut self, mut take: impl FnMut(Response) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let read = self.socket.read(self.input.get_mut(start..).unwrap_or_default());
        self.input.truncate(start + read.as_ref().map_or(0, |&read| read));
        if read.context("no answer")? == 0 {
            bail!("the broker closed the connection");
        }
        while let Some(command) = self.decoder.decode(&mut self.input)? {
            if let Command::Response(response) = command {
                take(response)?;
            }
        }
        Ok(())
    }
}
