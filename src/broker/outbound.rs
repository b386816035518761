//! The way out of a connection: answers queue up here and one writer sends them in that order.

use std::io;
use std::path::PathBuf;

use bytes::BytesMut;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::activity::Activity;
use crate::store::Region;

/// Bytes of answers that are gathered into one write.
const WRITE_BYTES: usize = 64 << 10;

/// Bytes of a region that are read from its file at a time.
const REGION_CHUNK_BYTES: usize = 256 << 10;

/// Answers to some commands of a connection, in the order in which they go out.
#[derive(Debug, Default)]
pub(super) struct Answers {
    regions: Vec<(BytesMut, Region)>,
    tail: BytesMut,
    /// What the commands and their answers count against the limit of the connection, given back once sent.
    pub(super) permit: Option<OwnedSemaphorePermit>,
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
        self.tail.len() + self.regions.iter().map(|(before, _)| before.len()).sum::<usize>()
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

/// Where answers are queued. The queue needs no bound of its own: what is in it counts against the connection's limit
/// of bytes in flight, and reading pauses there.
pub(super) type AnswerSender = mpsc::UnboundedSender<Answers>;

/// Sends answers until every sender is gone, then shuts the sending side down.
pub(super) async fn write_answers(
    socket: &mut (impl AsyncWrite + Unpin),
    mut queue: mpsc::UnboundedReceiver<Answers>,
    activity: &Activity,
) -> Result<(), OutputError> {
    let mut pending = BytesMut::new();
    let mut sent_with_pending = Vec::new();
    while let Some(first) = queue.recv().await {
        let mut next = Some(first);
        while let Some(answers) = next {
            for (before, region) in answers.regions {
                append(&mut pending, before);
                write_region(socket, &mut pending, &region, activity).await?;
            }
            append(&mut pending, answers.tail);
            sent_with_pending.extend(answers.permit);
            next = if pending.len() < WRITE_BYTES { queue.try_recv().ok() } else { None };
        }
        write_all(socket, &mut pending, activity).await?;
        sent_with_pending.clear();
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

/// Sends a region behind what is pending.
async fn write_region(
    socket: &mut (impl AsyncWrite + Unpin),
    pending: &mut BytesMut,
    region: &Region,
    activity: &Activity,
) -> Result<(), OutputError> {
    let mut position = 0;
    while position < region.len() {
        let start = pending.len();
        let chunk = (region.len() - position).min(REGION_CHUNK_BYTES);
        pending.resize(start + chunk, 0);
        let read = region.read_at(pending.get_mut(start..).unwrap_or_default(), position);
        read.map_err(|source| OutputError::Segment {
            path: region.segment().path().to_path_buf(),
            position: region.position() + position as u64,
            length: chunk,
            source,
        })?;
        position += chunk;
        write_all(socket, pending, activity).await?;
    }
    Ok(())
}

/// Sends and empties the buffer, noting every progress.
async fn write_all(
    socket: &mut (impl AsyncWrite + Unpin),
    buffer: &mut BytesMut,
    activity: &Activity,
) -> io::Result<()> {
    while !buffer.is_empty() {
        if socket.write_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        activity.note();
    }
    buffer.clear();
    Ok(())
}
