//! Access control lists: kept and given back as they came, never enforced (everything listens on the loopback address).

use super::code::Code;
use super::jute::{Malformed, Reader, Writer};

/// A list in the form of the wire; the usual one, everything for everybody, takes no memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Acl(Option<Box<[u8]>>);

impl Acl {
    /// Reads a list. An empty one is refused, as ZooKeeper does it.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Result<Self, Code>, Malformed> {
        let mut entries = 0;
        let bytes = r.span(|r| {
            let list = r.list(|r| {
                let (_permissions, _scheme, _id) = (r.int()?, r.text()?, r.text()?);
                Ok(())
            })?;
            entries = list.len();
            Ok(())
        })?;
        Ok(if entries == 0 {
            Err(Code::InvalidAcl)
        } else if bytes == open_to_all() {
            Ok(Self(None))
        } else {
            Ok(Self(Some(bytes.into())))
        })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        match &self.0 {
            Some(bytes) => w.raw(bytes),
            None => w.raw(&open_to_all()),
        }
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |bytes| bytes.len())
    }
}

/// One entry: all permissions, `world`, `anyone`.
fn open_to_all() -> Vec<u8> {
    let mut w = Writer::default();
    w.int(1);
    w.int(0x1f);
    w.text("world");
    w.text("anyone");
    w.into_bytes().to_vec()
}
