//! Reading a file through a window that moves forward.

use std::io;

use crate::store::fs::{DataFile, read_exact_at};

/// Bytes read at once; more than the longest frame.
const WINDOW: usize = 2 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Window<'a> {
    file: &'a dyn DataFile,
    len: u64,
    bytes: Vec<u8>,
    start: u64,
}

impl<'a> Window<'a> {
    /// A window over the first `len` bytes of a file.
    pub(super) fn new(file: &'a dyn DataFile, len: u64) -> Self {
        Self { file, len, bytes: Vec::new(), start: 0 }
    }

    /// The bytes from a position on: at least `want`, unless the file ends before.
    pub(super) fn at(&mut self, position: u64, want: usize) -> io::Result<&[u8]> {
        let rest = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let want = want.min(rest);
        let within =
            |start: u64| position.checked_sub(start).and_then(|skip| usize::try_from(skip).ok()).unwrap_or(usize::MAX);
        if self.bytes.get(within(self.start)..).is_none_or(|bytes| bytes.len() < want) {
            self.bytes.resize(rest.min(WINDOW.max(want)), 0);
            self.start = position;
            read_exact_at(self.file, &mut self.bytes, position)?;
        }
        Ok(self.bytes.get(within(self.start)..).unwrap_or_default())
    }
}
