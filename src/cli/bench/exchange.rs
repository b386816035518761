//! One blocking connection: commands are gathered, sent together, and their answers taken as they come.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::BytesMut;

use crate::protocol::{Command, Decoder, Limits, Request, Response};

/// Bytes that are read from a socket at a time.
const READ_BYTES: usize = 256 << 10;

/// Longest silence of the broker while it owes an answer.
const SILENCE: Duration = Duration::from_secs(30);

/// How long one read waits, so that whoever reads sees that the run is over.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// A connection to a broker.
pub(super) struct Exchange {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
}

/// Its sending side.
pub(super) struct Sender {
    socket: TcpStream,
    output: BytesMut,
}

/// Its receiving side.
pub(super) struct Receiver {
    socket: TcpStream,
    decoder: Decoder,
    input: BytesMut,
    timeout: Duration,
    heard: Instant,
}

impl Exchange {
    pub(super) fn connect(address: &str) -> anyhow::Result<Self> {
        let context = || format!("cannot connect to {address}: is the broker running there?");
        let socket = TcpStream::connect(address).with_context(context)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TICK))?;
        socket.set_write_timeout(Some(SILENCE))?;
        let limits = Limits { body_bytes: i32::MAX.cast_unsigned() as usize, ..Limits::default() };
        let sender = Sender { socket: socket.try_clone()?, output: BytesMut::new() };
        let receiver = Receiver {
            socket,
            decoder: Decoder::new(limits),
            input: BytesMut::new(),
            timeout: TICK,
            heard: Instant::now(),
        };
        Ok(Self { sender, receiver })
    }
}

impl Sender {
    pub(super) fn queue(&mut self, request: &Request) {
        request.encode(&mut self.output);
    }

    /// Sends what is queued.
    pub(super) fn send(&mut self) -> anyhow::Result<()> {
        self.socket.write_all(&self.output).context("the broker takes nothing any more")?;
        self.output.clear();
        Ok(())
    }
}

impl Receiver {
    /// Reads once, for a tick at most, and takes every whole answer. Call it only while answers are owed.
    pub(super) fn receive(&mut self, take: impl FnMut(Response) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.receive_within(TICK, take)
    }

    /// The same, but waits for `timeout` at most, which must not be zero.
    pub(super) fn receive_within(
        &mut self,
        timeout: Duration,
        mut take: impl FnMut(Response) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.timeout != timeout {
            self.socket.set_read_timeout(Some(timeout))?;
            self.timeout = timeout;
        }
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let read = self.socket.read(self.input.get_mut(start..).unwrap_or_default());
        self.input.truncate(start + read.as_ref().map_or(0, |&read| read));
        match read {
            Ok(0) => bail!("the broker closed the connection"),
            Ok(_) => self.heard = Instant::now(),
            Err(error) if is_timeout(&error) && self.heard.elapsed() < SILENCE => return Ok(()),
            Err(error) if is_timeout(&error) => bail!("no answer for {} s", SILENCE.as_secs()),
            Err(error) => return Err(error).context("the connection broke"),
        }
        while let Some(command) = self.decoder.decode(&mut self.input)? {
            if let Command::Response(response) = command {
                take(response)?;
            }
        }
        Ok(())
    }

    /// Forgets a silence in which nothing was owed.
    pub(super) fn listen_anew(&mut self) {
        self.heard = Instant::now();
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
