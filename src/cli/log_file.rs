//! A log file that is put aside when it is large.
//!
//! A line is with the operating system when the call returns: a crash loses none, and nothing is thrown away because a
//! queue is full. Whatever goes wrong with the file is told on standard error once and never reaches the caller.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::output::tell;
use crate::common::guard::lock;

/// How much of a log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogLimits {
    /// Bytes beyond which the file is put aside. A longer line has a file of its own.
    pub(super) file_bytes: u64,
    /// How many files are kept beside the present one, at least 1.
    pub(super) files: usize,
}

/// `FILE`, with the earlier ones as `FILE.1`, the latest, to `FILE.<files>`.
#[derive(Debug)]
pub(super) struct LogFile(Mutex<State>);

#[derive(Debug)]
struct State {
    path: PathBuf,
    limits: LogLimits,
    file: File,
    /// Its length.
    bytes: u64,
    /// The length beyond which it is put aside: after a failure it grows by another [`LogLimits::file_bytes`] first.
    rotate_beyond: u64,
    /// Lines that could not be written since the last one that could.
    lost: u64,
    /// Whether trouble was told on standard error.
    told: bool,
}

impl LogFile {
    /// Opens the file, to write behind what is there.
    ///
    /// # Errors
    /// When it cannot be opened for writing.
    pub(super) fn open(path: &Path, limits: LogLimits) -> io::Result<Self> {
        let (file, bytes) = open(path)?;
        Ok(Self(Mutex::new(State {
            path: path.to_owned(),
            limits,
            file,
            bytes,
            rotate_beyond: limits.file_bytes,
            lost: 0,
            told: false,
        })))
    }

    /// Writes one line, which brings its own end.
    pub(super) fn line(&self, line: &[u8]) {
        // Standard error may be slow; nobody else waits for it.
        let trouble = lock(&self.0).line(line);
        if let Some(trouble) = trouble {
            tell(format_args!("metaq: {trouble}; told once, the broker goes on"));
        }
    }
}

impl State {
    /// Writes a line. Returns what is to be told of the file.
    fn line(&mut self, line: &[u8]) -> Option<String> {
        let mut trouble = None;
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.rotate_beyond {
            match self.rotated() {
                Ok((file, bytes)) => {
                    (self.file, self.bytes, self.rotate_beyond) = (file, bytes, self.limits.file_bytes)
                }
                Err(error) => {
                    self.rotate_beyond = self.bytes + self.limits.file_bytes;
                    trouble = Some(format!("cannot put the log {} aside: {error}", self.path.display()));
                }
            }
        }
        if let Err(error) = self.write(line) {
            self.lost += 1;
            trouble = Some(format!("cannot write to the log {}: {error}", self.path.display()));
        }
        trouble.filter(|_| !std::mem::replace(&mut self.told, true))
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.lost > 0 {
            // The last attempt may have left a part of its line.
            let note = format!("\n{} lines of the log before this one could not be written\n", self.lost);
            self.append(note.as_bytes())?;
            self.lost = 0;
        }
        self.append(line)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Puts the file aside and begins the next one. Whatever fails, no line is lost: earlier files move before later ones
    /// take their names.
    fn rotated(&self) -> io::Result<(File, u64)> {
        if self.is_in_place()? {
            for number in (1..self.limits.files).rev() {
                ignoring_absence(fs::rename(self.earlier(number), self.earlier(number + 1)))?;
            }
            fs::rename(&self.path, self.earlier(1))?;
            self.remove_surplus();
        }
        open(&self.path)
    }

    /// Whether the name still leads to the file, and the file is one that can be put aside. Otherwise somebody else, such
    /// as another process with the same log, has put it aside already.
    fn is_in_place(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok(named.is_file() && (named.dev(), named.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Files from a time when more were kept.
    fn remove_surplus(&self) {
        let mut number = self.limits.files + 1;
        while fs::remove_file(self.earlier(number)).is_ok() {
            number += 1;
        }
    }

    fn earlier(&self, number: usize) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

/// A file to append to, and its length.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn ignoring_absence(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
