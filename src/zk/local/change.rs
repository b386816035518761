//! Transactions: what a request has changed, in the form in which it is stored and done again at the next start.

use super::acl::Acl;
use super::jute::{Malformed, Reader, Writer, length};
use super::sessions::{PASSWORD_BYTES, Password};

/// One change that is certain to be possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A node is made; `owner` 0 for a persistent one.
    Create { path: String, data: Option<Box<[u8]>>, acl: Acl, owner: i64 },
    /// A node goes.
    Delete { path: String },
    /// A node gets other data.
    SetData { path: String, data: Option<Box<[u8]>> },
    /// A node gets another list of rights.
    SetAcl { path: String, acl: Acl },
    /// A session begins.
    OpenSession { id: i64, password: Password, timeout_ms: i32 },
    /// A session ends; its ephemeral nodes go by changes of their own.
    CloseSession { id: i64 },
}

/// Changes that happen together, with their number and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) zxid: i64,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    pub(super) changes: Vec<Change>,
}

const CREATE: u8 = 1;
const DELETE: u8 = 2;
const SET_DATA: u8 = 3;
const SET_ACL: u8 = 4;
const OPEN_SESSION: u8 = 5;
const CLOSE_SESSION: u8 = 6;

impl Change {
    fn write(&self, w: &mut Writer) {
        match self {
            Self::Create { path, data, acl, owner } => {
                w.byte(CREATE);
                w.text(path);
                w.buffer(data.as_deref());
                acl.write(w);
                w.long(*owner);
            }
            Self::Delete { path } => {
                w.byte(DELETE);
                w.text(path);
            }
            Self::SetData { path, data } => {
                w.byte(SET_DATA);
                w.text(path);
                w.buffer(data.as_deref());
            }
            Self::SetAcl { path, acl } => {
                w.byte(SET_ACL);
                w.text(path);
                acl.write(w);
            }
            Self::OpenSession { id, password, timeout_ms } => {
                w.byte(OPEN_SESSION);
                w.long(*id);
                w.raw(password.bytes());
                w.int(*timeout_ms);
            }
            Self::CloseSession { id } => {
                w.byte(CLOSE_SESSION);
                w.long(*id);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let acl = |r: &mut Reader<'_>| Acl::read(r)?.map_err(|_| Malformed::Number);
        Ok(match r.byte()? {
            CREATE => Self::Create {
                path: r.text()?.to_owned(),
                data: r.buffer()?.map(Into::into),
                acl: acl(r)?,
                owner: r.long()?,
            },
            DELETE => Self::Delete { path: r.text()?.to_owned() },
            SET_DATA => Self::SetData { path: r.text()?.to_owned(), data: r.buffer()?.map(Into::into) },
            SET_ACL => Self::SetAcl { path: r.text()?.to_owned(), acl: acl(r)? },
            OPEN_SESSION => Self::OpenSession {
                id: r.long()?,
                password: Password::from_bytes(r.take(PASSWORD_BYTES)?).ok_or(Malformed::Short)?,
                timeout_ms: r.int()?,
            },
            CLOSE_SESSION => Self::CloseSession { id: r.long()? },
            _ => return Err(Malformed::Number),
        })
    }
}

impl Transaction {
    pub(super) fn write(&self, w: &mut Writer) {
        w.long(self.zxid);
        w.long(self.time);
        w.int(length(self.changes.len()));
        self.changes.iter().for_each(|change| change.write(w));
    }

    /// Reads what [`write`](Self::write) wrote.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { zxid: r.long()?, time: r.long()?, changes: r.list(Change::read)? })
    }
}
