//! Regions of segment files on their way to a socket.
//!
//! What is cached and finds room in the socket leaves at once through memory that all connections of a thread share: one
//! read, one write, line and bytes together. That beats `sendfile`, which hands the data over in small pieces and wakes
//! the receiver for each. What the client does not take at once follows by `sendfile`, so that a slow client costs
//! neither memory nor copies that are made in vain. What the system would have to fetch from the disk first is read by a
//! thread that may wait, a chunk at a time.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem;
use std::num::NonZeroU64;

use bytes::BytesMut;
use rustix::fs::Advice;
use rustix::io::ReadWriteFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::outbound::{OutputError, write_all};
use crate::common::activity::Activity;
use crate::store::Region;

/// Regions up to this size join what is pending, so that many small answers leave in one write.
const JOIN_BYTES: usize = 16 << 10;

/// Bytes of a region that leave in one write: the usual `maxTransferSize`.
const PASSAGE_BYTES: usize = 1 << 20;

/// Bytes of pending answers that leave in the same write as a region behind them.
const HEAD_BYTES: usize = 4 << 10;

/// Bytes that are handed to `sendfile`, or read by a thread that may wait, at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Distance of the places at which a chunk is probed for being cached. The system reads ahead and forgets in pieces of
/// about this size; what the probes miss is waited for by the connection's own thread and is no more than a piece.
const PROBE_BYTES: u64 = 32 << 10;

/// Bytes that the system is told to fetch when a region turns out to be on the disk only.
const READ_AHEAD_BYTES: usize = 1 << 20;

thread_local! {
    /// What is in it never outlives the call that put it there.
    static PASSAGE: RefCell<Box<[u8]>> = RefCell::new(vec![0; HEAD_BYTES + PASSAGE_BYTES].into());
}

/// Sends a region behind what is pending. A small one may stay pending, for what comes next to leave with it.
pub(super) async fn send_region(
    socket: &TcpStream,
    pending: &mut BytesMut,
    region: &Region,
    activity: &Activity,
) -> Result<(), OutputError> {
    if region.len() <= JOIN_BYTES {
        return copy(pending, region, 0, region.len()).await;
    }
    if pending.len() > HEAD_BYTES {
        write_all(socket, pending, activity).await?;
    }
    let mut position = 0;
    let mut way = Way::Passage;
    while position < region.len() {
        let rest = region.len() - position;
        let from = region.position() + position as u64;
        match (way, region.as_file()) {
            (Way::Passage, Some(file)) => {
                socket.writable().await?;
                match pass(socket, pending, file, from, rest.min(PASSAGE_BYTES))? {
                    Passed::Cold => way = Way::Copy,
                    Passed::All(sent) => position += sent,
                    Passed::Part(sent) => {
                        position += sent;
                        way = Way::Sendfile;
                    }
                }
                activity.note();
            }
            (Way::Sendfile, Some(file)) => {
                write_all(socket, pending, activity).await?;
                match send_cached(socket, file, from, rest.min(CHUNK_BYTES), activity).await {
                    // The copy finds out whose fault it is, the file's or the socket's.
                    Ok(0) | Err(_) => way = Way::Copy,
                    Ok(sent) => position += sent,
                }
            }
            (Way::Copy, _) | (_, None) => {
                let chunk = rest.min(CHUNK_BYTES);
                copy(pending, region, position, chunk).await?;
                write_all(socket, pending, activity).await?;
                position += chunk;
                way = Way::Passage;
            }
        }
        // A client that keeps up is never waited for: let others have their turn.
        tokio::task::coop::consume_budget().await;
    }
    Ok(())
}

/// How the next bytes of a region travel.
#[derive(Debug, Clone, Copy)]
enum Way {
    Passage,
    Sendfile,
    Copy,
}

/// What one write through the shared memory achieved.
#[derive(Debug)]
enum Passed {
    /// Everything that was read.
    All(usize),
    /// The socket took so much of the region and is full.
    Part(usize),
    /// The bytes are not cached, or not there.
    Cold,
}

/// Sends what is pending and cached bytes of a file behind it, as far as both goes without waiting.
fn pass(socket: &TcpStream, pending: &mut BytesMut, file: &File, from: u64, len: usize) -> io::Result<Passed> {
    PASSAGE.with_borrow_mut(|passage| {
        let head = pending.len();
        let (before, place) = passage.split_at_mut(head);
        before.copy_from_slice(pending);
        let read = match read_cached(file, place.get_mut(..len).unwrap_or_default(), from) {
            Ok(0) | Err(_) => return Ok(Passed::Cold),
            Ok(read) => read,
        };
        let sent = match socket.try_write(passage.get(..head + read).unwrap_or_default()) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        let _sent = pending.split_to(sent.min(head));
        let sent = sent.saturating_sub(head);
        Ok(if sent == read { Passed::All(sent) } else { Passed::Part(sent) })
    })
}

/// Sends cached bytes of a file, fewer than asked for when the rest is not cached any more by the time that the client
/// takes it; none at the end of the file.
async fn send_cached(socket: &TcpStream, file: &File, from: u64, len: usize, activity: &Activity) -> io::Result<usize> {
    let mut sent = 0;
    while sent < len {
        socket.writable().await?;
        let mut offset = from + sent as u64;
        if !is_cached(file, offset, len - sent) {
            break;
        }
        let send = || Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), len - sent)?);
        match socket.try_io(Interest::WRITABLE, send) {
            Ok(0) => break,
            Ok(n) => {
                sent += n;
                activity.note();
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return if sent == 0 { Err(error) } else { Ok(sent) },
        }
    }
    Ok(sent)
}

/// Whether reading these bytes need not wait for the disk, by samples. A file system that cannot tell counts as cold.
fn is_cached(file: &File, from: u64, len: usize) -> bool {
    let probe = |position| read_cached(file, &mut [0], position).is_ok_and(|n| n > 0);
    let end = from + len as u64;
    let mut position = from;
    while position < end {
        if !probe(position) {
            return false;
        }
        position += PROBE_BYTES;
    }
    probe(end - 1)
}

/// Reads what is cached, once.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if nothing is.
fn read_cached(file: &File, buf: &mut [u8], position: u64) -> io::Result<usize> {
    Ok(rustix::io::preadv2(file, &mut [IoSliceMut::new(buf)], position, ReadWriteFlags::NOWAIT)?)
}

/// Appends bytes of a region to what is pending, without waiting for the disk on this thread.
async fn copy(pending: &mut BytesMut, region: &Region, position: usize, len: usize) -> Result<(), OutputError> {
    let failed = |source| OutputError::segment(region, position, len, source);
    let start = pending.len();
    pending.resize(start + len, 0);
    let Some(file) = region.as_file() else {
        return region.read_at(pending.get_mut(start..).unwrap_or_default(), position).map_err(failed);
    };
    let from = region.position() + position as u64;
    if read_cached(file, pending.get_mut(start..).unwrap_or_default(), from).is_ok_and(|n| n == len) {
        return Ok(());
    }
    let (mut buffer, cold) = (mem::take(pending), region.clone());
    let read = move || {
        if let Some(file) = cold.as_file() {
            let ahead = (cold.len() - position).min(READ_AHEAD_BYTES) as u64;
            // Advice only: the read below does without.
            let _ = rustix::fs::fadvise(file, from, NonZeroU64::new(ahead), Advice::WillNeed);
        }
        cold.read_at(buffer.get_mut(start..).unwrap_or_default(), position).map(|()| buffer)
    };
    let read = tokio::task::spawn_blocking(read).await;
    *pending = read.unwrap_or_else(|ended| Err(io::Error::other(ended))).map_err(failed)?;
    Ok(())
}
