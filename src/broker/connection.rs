//! One client: commands in, answers out, each direction at its own pace (01 §1, §13).

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::batch::Batch;
use super::counters::Cut;
use super::held::HeldGets;
use super::outbound::{AnswerSender, OutputError, write_answers};
use super::processor::Processor;
use super::reactor::{InFlight, Reactor};
use super::room::Room;
use super::routes::Route;
use crate::common::activity::Activity;
use crate::protocol::{Command, DecodeError, Decoder, Limits, PlainPut, Request};

/// Bytes that are read from a socket at a time.
const READ_BYTES: usize = 64 << 10;

/// After the last answer a connection is read, and what comes thrown away, until the client closes it: closing over
/// unread input would reset the connection and take back answers that the client has not read yet. It ends when the
/// client falls silent for this time,
const LINGER_QUIET: Duration = Duration::from_millis(300);

/// or after this time. A broker that stops has patience with clients that did nothing wrong.
const LINGER_AFTER_FAULT: Duration = Duration::from_secs(1);
const LINGER_AT_STOP: Duration = Duration::from_secs(5);

/// Limits of each connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    pub(super) frames: Limits,
    /// Bytes of commands that are not answered yet and of answers that are not sent yet; reading pauses beyond.
    pub(super) in_flight_bytes: usize,
    /// A connection without a byte in either direction for this long is closed; zero for never.
    pub(super) idle_timeout: Duration,
}

/// Longest time that a large body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(300);

/// While others wait for the room that it keeps, it has this long and a second more for each so many bytes.
const BODY_GRACE: Duration = Duration::from_secs(10);
const BODY_BYTES_PER_SECOND: u64 = 64 << 10;

/// How the input of a connection ended.
#[derive(Debug)]
enum InputEnd {
    /// The client closed its sending side, or the whole connection.
    Eof { in_a_command: bool },
    /// The client sent `quit`.
    Quit,
    /// The client sent something that is no command.
    Malformed(DecodeError),
    /// A large body took too long to arrive.
    Late,
    /// The broker stops.
    Stopped,
}

/// Serves a client until it leaves, misbehaves or falls silent, or until the broker stops. Whatever was accepted before
/// is carried out, and answered as long as the client reads.
pub(super) async fn serve(
    mut stream: TcpStream,
    peer: SocketAddr,
    reactor: Arc<Reactor>,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let unsent = Arc::new(reactor.processor().unsent().join());
    let activity = unsent.activity();
    let (answers, queue) = AnswerSender::new(Arc::clone(&unsent));
    let (mut read, mut write) = stream.split();
    let held = HeldGets::new(limits.in_flight_bytes);
    let input = Input {
        processor: reactor.processor(),
        reactor: &reactor,
        budget: Room::new(limits.in_flight_bytes),
        limits,
        activity,
        stop: &stop,
        held: &held,
    };
    let counters = reactor.processor().counters();
    let waiting = held.run(reactor.processor(), answers.clone());
    let all = async {
        // The input gives up its end of the queue when it is done; the output ends when the last put is answered.
        let input = async {
            let end = input.run(&mut read, answers).await.map_err(OutputError::Socket);
            held.close();
            end
        };
        let waiting = async {
            waiting.await;
            Ok(())
        };
        tokio::try_join!(input, waiting, write_answers(&mut write, queue, activity, counters))
    };
    let end = tokio::select! {
        result = all => result.map(|(end, (), ())| end),
        () = activity.idle_for(limits.idle_timeout) => {
            counters.cut(Cut::Silent);
            info!(%peer, timeout = ?limits.idle_timeout, "closing a silent connection");
            return;
        }
        bytes = unsent.cut() => {
            counters.cut(Cut::Unsent);
            warn!(%peer, bytes, "closing a client that does not take its answers: maxUnsentBytes is used up, and others wait");
            return;
        }
    };
    match end {
        Ok(InputEnd::Eof { in_a_command: false }) => {}
        Ok(InputEnd::Eof { in_a_command: true }) => info!(%peer, "the client left in the middle of a command"),
        Ok(InputEnd::Stopped) => linger(&mut read, LINGER_AT_STOP).await,
        Ok(InputEnd::Quit) => linger(&mut read, LINGER_AFTER_FAULT).await,
        Ok(InputEnd::Late) => {
            counters.cut(Cut::Late);
            info!(%peer, "closing a connection whose large command takes too long to arrive");
            linger(&mut read, LINGER_AFTER_FAULT).await;
        }
        Ok(InputEnd::Malformed(error)) => {
            counters.cut(Cut::Malformed);
            info!(%peer, %error, "closing a connection that sent something malformed");
            linger(&mut read, LINGER_AFTER_FAULT).await;
        }
        // A peer that hangs up is everyday life (01 §1, linger 0 of Java clients).
        Err(OutputError::Socket(error)) => debug!(%peer, %error, "connection lost"),
        Err(error @ OutputError::Segment { .. }) => {
            counters.cut(Cut::Disk);
            error!(%peer, %error, "closing a connection in the middle of an answer");
        }
    }
}

/// Reads what the client still sends until it closes, falls silent, or the time is over.
async fn linger(read: &mut ReadHalf<'_>, at_most: Duration) {
    let drain = async {
        let mut scratch = BytesMut::new();
        loop {
            scratch.clear();
            scratch.reserve(READ_BYTES);
            match tokio::time::timeout(LINGER_QUIET, read.read_buf(&mut scratch)).await {
                Ok(Ok(0) | Err(_)) | Err(_) => break,
                Ok(Ok(_)) => {}
            }
        }
    };
    let _ = tokio::time::timeout(at_most, drain).await;
}

/// A large body on its way.
struct Arrival {
    _room: Option<OwnedSemaphorePermit>,
    since: Instant,
    /// How much of it was missing then.
    missing: usize,
}

impl Arrival {
    /// Returns when it has taken too long, given how much is missing by now.
    async fn late(&self, missing: usize, room: &Room) {
        let arrived = self.missing.saturating_sub(missing) as u64;
        let slow = self.since + BODY_GRACE + Duration::from_secs(arrived / BODY_BYTES_PER_SECOND);
        let given_way = async {
            tokio::time::sleep_until(slow).await;
            room.contended().await;
        };
        tokio::select! {
            () = given_way => {}
            () = tokio::time::sleep_until(self.since + BODY_TIME) => {}
        }
    }
}

/// The reading side of a connection.
struct Input<'a> {
    processor: &'a Arc<Processor>,
    reactor: &'a Arc<Reactor>,
    budget: Room,
    limits: ConnectionLimits,
    activity: &'a Activity,
    stop: &'a CancellationToken,
    held: &'a HeldGets,
}

impl Input<'_> {
    async fn run(&self, read: &mut ReadHalf<'_>, answers: AnswerSender) -> io::Result<InputEnd> {
        let mut decoder = Decoder::new(self.limits.frames);
        let mut buffer = BytesMut::new();
        let mut plain = PlainPuts { reactor: self.reactor, limits: self.limits.frames, route: None };
        let mut batch = Batch::default();
        let mut arrival: Option<Arrival> = None;
        loop {
            if let Some(end) = self.carry_out(&mut decoder, &mut buffer, &mut plain, &mut batch, &answers).await {
                return Ok(end);
            }
            let missing = decoder.missing(&buffer);
            if missing == 0 {
                arrival = None;
            } else if missing > READ_BYTES && arrival.is_none() {
                let room = tokio::select! {
                    biased;
                    () = self.stop.cancelled() => return Ok(InputEnd::Stopped),
                    room = self.processor.receive_room().take(buffer.len() + missing) => room,
                };
                arrival = Some(Arrival { _room: room, since: Instant::now(), missing });
            }
            let late = async {
                match &arrival {
                    Some(arrival) => arrival.late(missing, self.processor.receive_room()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(InputEnd::Stopped),
                () = late => return Ok(InputEnd::Late),
                read = fill(read, &decoder, &mut buffer, &mut plain, &mut batch) => match read? {
                    0 => return Ok(InputEnd::Eof { in_a_command: !decoder.is_at_boundary(&buffer) }),
                    _ => self.activity.note(),
                },
            }
        }
    }

    /// Carries out every whole command in the buffer, in batches whose cost fits the budget.
    async fn carry_out(
        &self,
        decoder: &mut Decoder,
        buffer: &mut BytesMut,
        plain: &mut PlainPuts<'_>,
        batch: &mut Batch,
        answers: &AnswerSender,
    ) -> Option<InputEnd> {
        let end = loop {
            if decoder.is_idle() {
                let taken = plain.take(buffer, batch);
                buffer.advance(taken);
            }
            if !batch.is_full() {
                match decoder.decode(buffer) {
                    Ok(Some(Command::Request(Request::Quit))) => break Some(InputEnd::Quit),
                    Ok(Some(Command::Request(request))) => self.processor.process(request, batch),
                    // Nobody was asked, so nobody waits for it (01 §13.6).
                    Ok(Some(Command::Response(_))) => {}
                    Ok(None) => break None,
                    Err(error) => break Some(InputEnd::Malformed(error)),
                }
            }
            if batch.is_full() {
                self.submit(batch, answers).await;
                // A flood is worked off without waiting for anything: let the others have their turn.
                tokio::task::yield_now().await;
            }
        };
        self.submit(batch, answers).await;
        end
    }

    /// Waits until there is room for the batch, then sends its answers and hands its puts over.
    async fn submit(&self, batch: &mut Batch, answers: &AnswerSender) {
        if batch.is_empty() {
            return;
        }
        let read_at = Instant::now();
        answers.room().await;
        let mut batch = std::mem::take(batch);
        self.held.hold(&mut batch, self.processor);
        let (answers_cost, puts_cost) = (batch.answers_cost(), batch.puts_cost());
        let Batch { answers: mut ready, puts, .. } = batch;
        if !ready.is_empty() {
            ready.decided_at = Some(read_at);
            ready.permit = self.budget.take(answers_cost).await;
            answers.send(ready);
        }
        if puts.is_empty() {
            return;
        }
        let permit = self.budget.take(puts_cost).await;
        let room = self.processor.committer_room().take(puts_cost).await;
        self.reactor.submit(puts, InFlight { answers: answers.clone(), permit, room, read_at });
    }
}

/// Takes puts of the usual kind straight from where they were read.
struct PlainPuts<'a> {
    reactor: &'a Reactor,
    limits: Limits,
    /// Of the last topic.
    route: Option<Arc<Route>>,
}

impl PlainPuts<'_> {
    /// Takes as many as there are at the start of the input: how many bytes those were. Stops when the batch is full.
    fn take(&mut self, input: &[u8], batch: &mut Batch) -> usize {
        let (mut taken, mut count, mut bytes) = (0, 0, 0);
        let era = self.reactor.processor().routes().era();
        self.route.take_if(|route| route.era() != era);
        while let Some((put, len)) = PlainPut::decode(input.get(taken..).unwrap_or_default(), self.limits) {
            if batch.is_full() {
                break;
            }
            if batch.puts.capacity() == 0 {
                // Only now: silent connections hold on to none.
                batch.puts = self.reactor.new_group();
            }
            if self.route.as_ref().is_none_or(|route| route.topic() != put.topic) {
                self.count(count, bytes);
                (count, bytes) = (0, 0);
                self.route = self.reactor.processor().routes().find(put.topic);
            }
            let Some(route) = &self.route else { break };
            if !self.reactor.processor().plain_put(&put, route, batch) {
                // Perhaps only because the route is out of date.
                let known = self.reactor.processor().routes().find(put.topic);
                if known.as_ref().is_none_or(|known| Arc::ptr_eq(known, route)) {
                    break;
                }
                self.count(count, bytes);
                (count, bytes) = (0, 0);
                self.route = known;
                continue;
            }
            taken += len;
            count += 1;
            bytes += put.body.len() as u64;
        }
        self.count(count, bytes);
        taken
    }

    fn count(&self, count: u64, bytes: u64) {
        if let Some(route) = self.route.as_ref().filter(|_| count > 0) {
            self.reactor.processor().count_plain_puts(route, count, bytes);
        }
    }
}

thread_local! {
    /// Where a read lands before its size is known.
    static LANDING: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Reads what is there. It lands in a place that is shared by all connections of a thread, and takes memory of its own
/// only in the size it has: a small command that waits long does not hold on to the space of a large read, and silent
/// connections cost next to nothing. The rest of a large body goes straight into its place.
async fn fill(
    read: &mut ReadHalf<'_>,
    decoder: &Decoder,
    buffer: &mut BytesMut,
    plain: &mut PlainPuts<'_>,
    batch: &mut Batch,
) -> io::Result<usize> {
    if buffer.is_empty() {
        *buffer = BytesMut::new();
    }
    let missing = decoder.missing(buffer);
    if missing > READ_BYTES {
        buffer.reserve(missing.min(READ_BYTES * 16));
        return read.read_buf(buffer).await;
    }
    poll_fn(|context| {
        LANDING.with_borrow_mut(|landing| {
            let mut landed = ReadBuf::new(landing);
            ready!(Pin::new(&mut *read).poll_read(context, &mut landed))?;
            let mut input = landed.filled();
            let n = input.len();
            if buffer.is_empty() && decoder.is_idle() {
                input = input.get(plain.take(input, batch)..).unwrap_or_default();
            }
            buffer.extend_from_slice(input);
            Poll::Ready(Ok(n))
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_has_its_time_and_no_more_however_much_of_it_has_arrived() {
        let room = Room::new(1 << 20);
        for arrived in [0, 1 << 20, 64 << 20] {
            let arrival = Arrival { _room: None, since: Instant::now(), missing: 64 << 20 };
            arrival.late((64 << 20) - arrived, &room).await;
            assert_eq!(arrival.since.elapsed().as_secs(), BODY_TIME.as_secs(), "{arrived}");
        }
    }
}
