//! A client that knows nothing but bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use crate::common::DEADLINE;

pub(crate) const NO_NODE: i32 = -101;

/// Builds the body of a request.
#[derive(Clone, Default)]
pub(crate) struct Body(pub(crate) Vec<u8>);

impl Body {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub(crate) fn buffer(mut self, bytes: &[u8]) -> Self {
        self = self.int(i32::try_from(bytes.len()).unwrap());
        self.0.extend(bytes);
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.buffer(text.as_bytes())
    }

    pub(crate) fn acl(self) -> Self {
        self.int(1).int(31).text("world").text("anyone")
    }
}

pub(crate) fn body() -> Body {
    Body::default()
}

pub(crate) fn path_and_watch(path: &str, watch: bool) -> Body {
    body().text(path).bool(watch)
}

pub(crate) fn create(path: &str, data: &[u8], flags: i32) -> Body {
    body().text(path).buffer(data).acl().int(flags)
}

/// Takes an answer apart.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn int(&mut self) -> i32 {
        let (value, rest) = self.0.split_first_chunk().expect("four more bytes");
        self.0 = rest;
        i32::from_be_bytes(*value)
    }

    pub(crate) fn long(&mut self) -> i64 {
        let (value, rest) = self.0.split_first_chunk().expect("eight more bytes");
        self.0 = rest;
        i64::from_be_bytes(*value)
    }

    pub(crate) fn buffer(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.int()).ok()?;
        let (value, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(value.to_vec())
    }

    pub(crate) fn text(&mut self) -> String {
        String::from_utf8(self.buffer().unwrap()).unwrap()
    }

    pub(crate) fn stat(&mut self) -> Stat {
        Stat {
            czxid: self.long(),
            mzxid: self.long(),
            ctime: self.long(),
            mtime: self.long(),
            version: self.int(),
            cversion: self.int(),
            aversion: self.int(),
            owner: self.long(),
            len: self.int(),
            children: self.int(),
            pzxid: self.long(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: i64,
    pub(crate) len: i32,
    pub(crate) children: i32,
    pub(crate) pzxid: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) error: i32,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub(crate) fn good(&self) -> Fields<'_> {
        assert_eq!(self.error, 0, "{self:?}");
        Fields(&self.body)
    }

    /// Type and path of an event.
    #[track_caller]
    pub(crate) fn event(&self) -> (i32, String) {
        assert_eq!((self.xid, self.error), (-1, 0), "{self:?}");
        let mut fields = Fields(&self.body);
        let (what, state, path) = (fields.int(), fields.int(), fields.text());
        assert_eq!((state, fields.0.len()), (3, 0));
        (what, path)
    }
}

/// What a server grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
    /// Whether the answer ends with the byte of read-only servers.
    pub(crate) has_read_only: bool,
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) granted: Granted,
    xid: i32,
}

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub(crate) fn frame(body: &[u8]) -> Vec<u8> {
    Body::default().buffer(body).0
}

/// `None` when the server closes.
pub(crate) fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

pub(crate) fn connect_request(timeout: i32, session: i64, password: &[u8]) -> Body {
    body().int(0).long(0).int(timeout).long(session).buffer(password)
}

impl Client {
    pub(crate) fn open(port: u16) -> Self {
        Self::with(port, connect_request(6_000, 0, &[0; 16]).bool(false))
    }

    /// Takes a session up again.
    pub(crate) fn again(port: u16, granted: &Granted) -> Self {
        Self::with(port, connect_request(6_000, granted.session, &granted.password).bool(false))
    }

    pub(crate) fn with(port: u16, request: Body) -> Self {
        let mut stream = connect(port);
        stream.write_all(&frame(&request.0)).unwrap();
        let answer = read_frame(&mut stream).expect("an answer");
        let mut fields = Fields(&answer);
        assert_eq!(fields.int(), 0);
        let (timeout, session, password) = (fields.int(), fields.long(), fields.buffer().unwrap());
        let has_read_only = match fields.0 {
            [] => false,
            [0] => true,
            other => panic!("{other:?}"),
        };
        Self { stream, granted: Granted { timeout, session, password, has_read_only }, xid: 0 }
    }

    /// Sends a request without waiting for the answer.
    pub(crate) fn send(&mut self, code: i32, body: &Body) -> i32 {
        self.xid += 1;
        self.send_as(self.xid, code, body);
        self.xid
    }

    pub(crate) fn send_as(&mut self, xid: i32, code: i32, body: &Body) {
        let request = [&xid.to_be_bytes()[..], &code.to_be_bytes(), &body.0].concat();
        self.stream.write_all(&frame(&request)).unwrap();
    }

    /// The next answer or event; `None` when the server closes.
    pub(crate) fn next(&mut self) -> Option<Answer> {
        let frame = read_frame(&mut self.stream)?;
        let mut fields = Fields(&frame);
        let (xid, zxid, error) = (fields.int(), fields.long(), fields.int());
        Some(Answer { xid, zxid, error, body: fields.0.to_vec() })
    }

    /// Asks and returns the answer, which must come next.
    #[track_caller]
    pub(crate) fn ask(&mut self, code: i32, body: &Body) -> Answer {
        let xid = self.send(code, body);
        let answer = self.next().expect("an answer");
        assert_eq!(answer.xid, xid, "{answer:?}");
        answer
    }

    pub(crate) fn create(&mut self, path: &str) -> Answer {
        self.ask(1, &create(path, b"", 0))
    }

    /// The state of a node, `None` if it is not there.
    pub(crate) fn stat(&mut self, path: &str) -> Option<Stat> {
        let answer = self.ask(3, &path_and_watch(path, false));
        if answer.error == NO_NODE {
            return None;
        }
        let mut fields = answer.good();
        let stat = fields.stat();
        assert!(fields.0.is_empty());
        Some(stat)
    }

    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.next(), None);
    }
}
