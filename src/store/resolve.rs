//! An operator's decision about messages in quarantine (08 §5).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tracing::info;

use super::error::StoreError;
use super::format::directory_name;
use super::fs::{Access, FileSystem, read_exact_at};
use super::message_store::{Store, TRANSACTIONS_DIR};
use super::options::StoreOptions;
use super::replay::record_end;
use super::set_aside::{self, Kind};
use crate::id::{Offset, PartitionIndex, TopicName};

/// What becomes of messages in quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// What the segments hold stays as it is; the messages in quarantine are not brought in.
    KeepSegment,
    /// They are appended at the end of the partition, with the ids that they have and with new offsets.
    Append,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Where the messages that were in quarantine are kept. Renaming the file back undoes
    /// [`Resolution::KeepSegment`].
    pub kept: PathBuf,
    /// Messages in it.
    pub records: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The offset that the first one had.
    pub old_offset: Option<Offset>,
    /// Its new offset, if they were appended.
    pub new_offset: Option<Offset>,
}

/// Ends the quarantine of a partition. Must run without a broker; brings in what the commit log holds first, as a start
/// does, and leaves the store cleanly stopped.
///
/// A crash while messages are being appended may leave the quarantine in place though they are: done again, they are
/// appended twice.
///
/// # Errors
/// When a broker runs, there is nothing in quarantine, or messages of the partition are pending.
pub fn resolve_quarantine(
    options: StoreOptions,
    fs: Arc<dyn FileSystem>,
    topic: &TopicName,
    partition: PartitionIndex,
    resolution: Resolution,
) -> Result<Resolved, StoreError> {
    let store = Store::open(options.clone(), Arc::clone(&fs))?;
    let resolved = resolve(&store, &options, &*fs, topic, partition, resolution);
    // Also after an error: nothing was put, so this only frees the directories.
    let closed = store.close();
    let resolved = resolved?;
    closed?;
    if resolution == Resolution::Append {
        // What was handed over as pending is brought in by an ordinary start.
        Store::open(options, fs)?.close()?;
    }
    info!(partition = directory_name(topic, partition), kept = %resolved.kept.display(), "quarantine ended");
    Ok(resolved)
}

fn resolve(
    store: &Store,
    options: &StoreOptions,
    fs: &dyn FileSystem,
    topic: &TopicName,
    index: PartitionIndex,
    resolution: Resolution,
) -> Result<Resolved, StoreError> {
    let dir = options.data_log_path.join(TRANSACTIONS_DIR);
    let path = set_aside::path(&dir, Kind::Quarantine, topic, index);
    let pending = set_aside::path(&dir, Kind::Pending, topic, index);
    let unreadable = |path: &Path| {
        let path = path.to_path_buf();
        move |source| StoreError::Unreadable { path, source }
    };
    if fs.kind(&pending).map_err(unreadable(&pending))?.is_some() {
        return Err(StoreError::StillPending(pending));
    }
    let (mut records, mut bytes, mut old_offset) = (0, 0, None);
    let mut places = Vec::new();
    let found = set_aside::read(fs, &path, &mut |frame| {
        let mut at = 0;
        while at < frame.records.len() {
            at = record_end(frame.records, at);
            records += 1;
        }
        places.push((frame.position, frame.records.len()));
        bytes += frame.records.len() as u64;
        old_offset.get_or_insert(super::partition::offset(frame.offset));
        Ok(())
    });
    if !found.map_err(unreadable(&path))? {
        return Err(StoreError::NothingInQuarantine(path));
    }
    let mut new_offset = None;
    if resolution == Resolution::Append {
        let opened = store.get(topic.as_str(), index);
        let end = opened.as_ref().map_or(0, |opened| opened.written_offset().get().cast_unsigned());
        let last = opened.and_then(|opened| opened.segments().last().map(|last| last.start_position()));
        new_offset = Some(super::partition::offset(end));
        let file = fs.open(&path, Access::Read).map_err(unreadable(&path))?;
        let (mut segment, mut end) = (last.unwrap_or(end), end);
        let mut frames = places.into_iter().map(|(position, len)| {
            let mut records = vec![0; len];
            read_exact_at(&*file, &mut records, position)?;
            if end - segment >= options.max_segment_size.max(1) {
                segment = end;
            }
            let offset = end;
            end += len as u64;
            Ok((segment, offset, Bytes::from(records)))
        });
        set_aside::append(fs, &dir, Kind::Pending, topic, index, &mut frames).map_err(|source| StoreError::Io {
            action: "write",
            path: pending.clone(),
            source,
        })?;
    }
    let kept = free_name(fs, &path).map_err(unreadable(&dir))?;
    fs.rename(&path, &kept).and_then(|()| fs.sync_dir(&dir)).map_err(|source| StoreError::Io {
        action: "rename",
        path: path.clone(),
        source,
    })?;
    Ok(Resolved { kept, records, bytes, old_offset, new_offset })
}

/// `<path>.resolved`, or with a number behind it if that is taken.
fn free_name(fs: &dyn FileSystem, path: &Path) -> std::io::Result<PathBuf> {
    let mut number = 1_u64;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 1 { ".resolved".to_owned() } else { format!(".resolved.{number}") });
        let name = PathBuf::from(name);
        if fs.kind(&name)?.is_none() {
            return Ok(name);
        }
        number += 1;
    }
}
