//! What a client can ask once it has a session.

use super::acl::Acl;
use super::code::Code;
use super::jute::{Malformed, Reader};
use super::watches::Kind;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_ACL: i32 = 6;
const SET_ACL: i32 = 7;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const PING: i32 = 11;
const GET_CHILDREN_2: i32 = 12;
const CHECK: i32 = 13;
const MULTI: i32 = 14;
const CREATE_2: i32 = 15;
const CHECK_WATCHES: i32 = 17;
const REMOVE_WATCHES: i32 = 18;
const CREATE_CONTAINER: i32 = 19;
const CREATE_TTL: i32 = 21;
const AUTH: i32 = 100;
const SET_WATCHES: i32 = 101;
const CLOSE: i32 = -11;

/// A request with the number that its answer carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) xid: i32,
    pub(super) request: Request,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Ping,
    /// Who the client is: nobody asks.
    Auth,
    Close,
    Exists {
        path: String,
        watch: bool,
    },
    GetData {
        path: String,
        watch: bool,
    },
    GetAcl {
        path: String,
    },
    GetChildren {
        path: String,
        watch: bool,
        with_stat: bool,
    },
    Sync {
        path: String,
    },
    Change(Operation),
    Multi(Vec<Operation>),
    CheckWatches(WatchesOf),
    RemoveWatches(WatchesOf),
    SetWatches(Watched),
    /// Anything else.
    Unknown,
}

/// What can be part of a `multi`, and the change of a list of rights, which cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Create {
        path: String,
        data: Option<Box<[u8]>>,
        acl: Result<Acl, Code>,
        mode: Result<CreateMode, Code>,
        with_stat: bool,
    },
    Delete {
        path: String,
        version: i32,
    },
    SetData {
        path: String,
        data: Option<Box<[u8]>>,
        version: i32,
    },
    SetAcl {
        path: String,
        acl: Result<Acl, Code>,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
}

/// How a node is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CreateMode {
    pub(super) ephemeral: bool,
    pub(super) sequential: bool,
}

/// Watches of the asking connection on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WatchesOf {
    pub(super) path: String,
    /// Of these kinds; `Err` for a number that is none.
    pub(super) kinds: Result<&'static [Kind], Code>,
}

/// The watches that a client had on its last connection, and the last transaction that it knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) since: i64,
    pub(super) data: Vec<String>,
    /// Of nodes that were not there.
    pub(super) absent: Vec<String>,
    pub(super) children: Vec<String>,
}

impl Numbered {
    /// Reads the frame of a request, without its length.
    pub(super) fn read(frame: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(frame);
        let (xid, code) = (r.int()?, r.int()?);
        let request = Request::read(code, &mut r)?;
        if request != Request::Unknown {
            r.end()?;
        }
        Ok(Self { xid, request })
    }
}

impl Request {
    fn read(code: i32, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match code {
            PING => Self::Ping,
            CLOSE => Self::Close,
            AUTH => {
                let (_type, _scheme, _proof) = (r.int()?, r.text()?, r.buffer()?);
                Self::Auth
            }
            EXISTS => Self::Exists { path: path(r)?, watch: r.bool()? },
            GET_DATA => Self::GetData { path: path(r)?, watch: r.bool()? },
            GET_ACL => Self::GetAcl { path: path(r)? },
            GET_CHILDREN | GET_CHILDREN_2 => {
                Self::GetChildren { path: path(r)?, watch: r.bool()?, with_stat: code == GET_CHILDREN_2 }
            }
            SYNC => Self::Sync { path: path(r)? },
            CREATE | CREATE_2 | DELETE | SET_DATA | CHECK => Self::Change(Operation::read(code, r)?),
            SET_ACL => Self::Change(Operation::SetAcl { path: path(r)?, acl: Acl::read(r)?, version: r.int()? }),
            MULTI => Self::Multi(multi(r)?),
            CHECK_WATCHES => Self::CheckWatches(WatchesOf::read(r)?),
            REMOVE_WATCHES => Self::RemoveWatches(WatchesOf::read(r)?),
            SET_WATCHES => Self::SetWatches(Watched {
                since: r.long()?,
                data: r.list(path)?,
                absent: r.list(path)?,
                children: r.list(path)?,
            }),
            _ => Self::Unknown,
        })
    }
}

impl Operation {
    /// The operation's number on the wire, which the answer to a `multi` repeats.
    pub(super) fn code(&self) -> i32 {
        match self {
            Self::Create { with_stat: false, .. } => CREATE,
            Self::Create { with_stat: true, .. } => CREATE_2,
            Self::Delete { .. } => DELETE,
            Self::SetData { .. } => SET_DATA,
            Self::SetAcl { .. } => SET_ACL,
            Self::Check { .. } => CHECK,
        }
    }

    fn read(code: i32, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match code {
            CREATE | CREATE_2 | CREATE_CONTAINER | CREATE_TTL => {
                let (path, data, acl) = (path(r)?, r.buffer()?.map(Into::into), Acl::read(r)?);
                let mut mode = CreateMode::of(r.int()?);
                if code == CREATE_TTL {
                    r.long()?;
                }
                if matches!(code, CREATE_CONTAINER | CREATE_TTL) {
                    mode = Err(Code::Unimplemented);
                }
                Self::Create { path, data, acl, mode, with_stat: code != CREATE }
            }
            DELETE => Self::Delete { path: path(r)?, version: r.int()? },
            SET_DATA => Self::SetData { path: path(r)?, data: r.buffer()?.map(Into::into), version: r.int()? },
            CHECK => Self::Check { path: path(r)?, version: r.int()? },
            _ => return Err(Malformed::Number),
        })
    }
}

impl CreateMode {
    fn of(flags: i32) -> Result<Self, Code> {
        match flags {
            0..=3 => Ok(Self { ephemeral: flags & 1 != 0, sequential: flags & 2 != 0 }),
            // Containers, and nodes with a time to live.
            4..=6 => Err(Code::Unimplemented),
            _ => Err(Code::BadArguments),
        }
    }
}

impl WatchesOf {
    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let path = path(r)?;
        let kinds: Result<&[Kind], _> = match r.int()? {
            1 => Ok(&[Kind::Children]),
            2 => Ok(&[Kind::Data]),
            3 => Ok(&[Kind::Children, Kind::Data]),
            _ => Err(Code::BadArguments),
        };
        Ok(Self { path, kinds })
    }
}

fn path(r: &mut Reader<'_>) -> Result<String, Malformed> {
    r.text().map(str::to_owned)
}

/// Each operation has a header of number, end mark and error; a header with the end mark ends the list.
fn multi(r: &mut Reader<'_>) -> Result<Vec<Operation>, Malformed> {
    let mut operations = Vec::new();
    loop {
        let (code, is_end, _error) = (r.int()?, r.bool()?, r.int()?);
        if is_end {
            return Ok(operations);
        }
        operations.push(Operation::read(code, r)?);
    }
}

#[cfg(test)]
mod tests;
