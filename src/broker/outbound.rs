//! The way out of a connection: answers queue up here and one writer sends them in that order.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::counters::Counters;
use super::transfer::send_region;
use super::unsent::{UnsentBytes, UnsentOf};
use crate::common::activity::Activity;
use crate::store::Region;

/// Bytes of answers that are gathered into one write.
const WRITE_BYTES: usize = 64 << 10;

/// What a queued portion of answers takes beside its bytes: its entry and its buffer's spare room.
const ANSWERS_BYTES: usize = 512;

/// Answers to some commands of a connection, in the order in which they go out.
#[derive(Debug, Default)]
pub(super) struct Answers {
    regions: Vec<(BytesMut, Region)>,
    tail: BytesMut,
    /// What the commands and their answers count against the limit of the connection, given back once sent.
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// What they count against the limit over all connections.
    unsent: Option<UnsentBytes>,
    /// When it was decided what they are.
    pub(super) decided_at: Option<Instant>,
}

impl Answers {
    /// The buffer that the next answer is encoded into.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    /// Lets a region of a file follow what was encoded so far.
    pub(super) fn push_region(&mut self, region: Region) {
        self.regions.push((std::mem::take(&mut self.tail), region));
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.regions.is_empty() && self.tail.is_empty()
    }

    /// Bytes held in memory.
    pub(super) fn buffered(&self) -> usize {
        // A region of a disk that is full may hold its bytes.
        let held = |(before, region): &(BytesMut, Region)| before.len() + region.memory().map_or(0, bytes::Bytes::len);
        self.tail.len() + self.regions.iter().map(held).sum::<usize>()
    }
}

/// Why the answers of a connection cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    /// The connection, typically because the client is gone.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The disk. The line that announces the bytes may be on its way, so the connection has to end (01 §13.5).
    #[error("cannot read {} bytes at {position} of the segment {}: {source}; check the disk, and that nothing else changes the file", length, path.display())]
    Segment { path: PathBuf, position: u64, length: usize, source: io::Error },
}

impl OutputError {
    /// Reading these bytes of a region failed.
    pub(super) fn segment(region: &Region, from: usize, length: usize, source: io::Error) -> Self {
        let path = region.segment().path().to_path_buf();
        Self::Segment { path, position: region.position() + from as u64, length, source }
    }
}

/// Where answers are queued. The queue needs no bound of its own: what is in it counts against the connection's limit
/// of bytes in flight and the limit of unsent bytes over all, and reading pauses there.
#[derive(Debug, Clone)]
pub(super) struct AnswerSender {
    queue: mpsc::UnboundedSender<Answers>,
    unsent: Arc<UnsentOf>,
}

impl AnswerSender {
    /// The two ends of a connection's queue.
    pub(super) fn new(unsent: Arc<UnsentOf>) -> (Self, mpsc::UnboundedReceiver<Answers>) {
        let (queue, receiver) = mpsc::unbounded_channel();
        (Self { queue, unsent }, receiver)
    }

    /// Queues answers. Without a writer the connection is over, and nobody waits for them.
    pub(super) fn send(&self, mut answers: Answers) {
        answers.unsent = Some(self.unsent.count(answers.buffered() + ANSWERS_BYTES));
        let _ = self.queue.send(answers);
    }

    /// Waits until the connection may cause further answers.
    pub(super) async fn room(&self) {
        self.unsent.room().await;
    }
}

/// Sends answers until every sender is gone, then shuts the sending side down.
pub(super) async fn write_answers(
    socket: &mut WriteHalf<'_>,
    mut queue: mpsc::UnboundedReceiver<Answers>,
    activity: &Activity,
    counters: &Counters,
) -> Result<(), OutputError> {
    let mut pending = BytesMut::new();
    let mut sent_with_pending = Vec::new();
    let mut answered_gets = Vec::new();
    while let Some(first) = queue.recv().await {
        let mut next = Some(first);
        while let Some(answers) = next {
            if !answers.regions.is_empty() {
                let bytes: u64 = answers.regions.iter().map(|(_, region)| region.len() as u64).sum();
                answered_gets.push((answers.decided_at, answers.regions.len() as u64, bytes));
            }
            for (before, region) in answers.regions {
                append(&mut pending, before);
                send_region(socket.as_ref(), &mut pending, &region, activity).await?;
                if pending.len() >= WRITE_BYTES {
                    write_all(socket.as_ref(), &mut pending, activity).await?;
                }
            }
            append(&mut pending, answers.tail);
            sent_with_pending.push((answers.permit, answers.unsent));
            next = if pending.len() < WRITE_BYTES { queue.try_recv().ok() } else { None };
        }
        write_all(socket.as_ref(), &mut pending, activity).await?;
        sent_with_pending.clear();
        for (decided_at, count, bytes) in answered_gets.drain(..) {
            counters.count_answered_gets(decided_at.map(|at| at.elapsed()).unwrap_or_default(), count, bytes);
        }
    }
    Ok(socket.shutdown().await?)
}

fn append(pending: &mut BytesMut, bytes: BytesMut) {
    if pending.is_empty() {
        *pending = bytes;
    } else {
        pending.extend_from_slice(&bytes);
    }
}

/// Sends and empties the buffer, noting every progress.
pub(super) async fn write_all(socket: &TcpStream, buffer: &mut BytesMut, activity: &Activity) -> io::Result<()> {
    while !buffer.is_empty() {
        let written = match socket.try_write(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.writable().await?;
                continue;
            }
            written => written?,
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let _written = buffer.split_to(written);
        activity.note();
    }
    buffer.clear();
    Ok(())
}
