//! Bytes that nobody can guess, from the operating system.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

/// The system's source, kept open so that it cannot fail for lack of descriptors.
#[derive(Debug, Clone)]
pub(super) struct Random(Arc<File>);

impl Random {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self(Arc::new(File::open("/dev/urandom")?)))
    }

    pub(super) fn bytes<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        (&*self.0).read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
