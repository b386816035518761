//! A client that speaks bytes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use metaq::protocol::{Command, Decoder, Limits, Response, Status};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Longest wait for an answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// The sending side of a connection.
pub struct Writer(OwnedWriteHalf);

impl Writer {
    /// Sends; false when the broker takes no more.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok()
    }
}

/// One connection, or the receiving side of one.
pub struct Raw<S = TcpStream> {
    stream: S,
    decoder: Decoder,
    buffer: BytesMut,
}

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        let limits = Limits { line_bytes: 1 << 20, body_bytes: 1 << 30 };
        let stream = TcpStream::connect(address).await.unwrap();
        Self { stream, decoder: Decoder::new(limits), buffer: BytesMut::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The two directions, to be used side by side.
    pub fn into_halves(self) -> (Raw<OwnedReadHalf>, Writer) {
        let (read, write) = self.stream.into_split();
        (Raw { stream: read, decoder: self.decoder, buffer: self.buffer }, Writer(write))
    }

    /// Ends the sending side.
    pub async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Sends a command and gives its answer as it stands on the wire.
    pub async fn ask(&mut self, command: impl AsRef<[u8]>) -> String {
        self.send(command).await;
        text(&self.answer().await.expect("an answer, not the end"))
    }

    /// Puts a message and gives the offset at which it was stored.
    pub async fn put(&mut self, topic: &str, partition: i32, body: &[u8]) -> i64 {
        self.send(put_frame(topic, partition, body, 1)).await;
        let Some(Response::Result(result)) = self.answer().await else { panic!("a result") };
        let text = String::from_utf8(result.body.to_vec()).unwrap();
        assert_eq!(result.status, Status::SUCCESS, "{text}");
        text.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Gets what is at an offset; `None` for every refusal.
    pub async fn get(&mut self, topic: &str, partition: i32, offset: i64) -> Option<Bytes> {
        self.send(format!("get {topic} g {partition} {offset} 1048576 2\r\n")).await;
        match self.answer().await.expect("an answer") {
            Response::Value(value) => Some(value.data),
            Response::Result(_) => None,
        }
    }
}

impl<S: AsyncRead + Unpin> Raw<S> {
    /// The next answer; `None` when the broker has closed the connection.
    pub async fn answer(&mut self) -> Option<Response> {
        tokio::time::timeout(DEADLINE, self.next()).await.expect("no answer and no end")
    }

    async fn next(&mut self) -> Option<Response> {
        loop {
            match self.decoder.decode(&mut self.buffer).expect("an answer") {
                Some(Command::Response(response)) => return Some(response),
                Some(Command::Request(request)) => panic!("the broker asked: {request:?}"),
                None => {}
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(self.buffer.is_empty(), "cut in the middle of an answer: {:?}", self.buffer);
        None
    }

    /// Takes the next answer; false at the end of the connection, be it in the middle of one.
    pub async fn answer_or_cut(&mut self) -> bool {
        self.answer_before_cut().await.is_some()
    }

    /// The next answer; `None` at the end of the connection, be it in the middle of one.
    pub async fn answer_before_cut(&mut self) -> Option<Response> {
        let more = async {
            loop {
                match self.decoder.decode(&mut self.buffer).expect("an answer") {
                    Some(Command::Response(response)) => return Some(response),
                    Some(Command::Request(request)) => panic!("the broker asked: {request:?}"),
                    None if self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 => return None,
                    None => {}
                }
            }
        };
        tokio::time::timeout(DEADLINE, more).await.expect("no answer and no end")
    }

    /// Asserts that the broker closes the connection without a further answer.
    pub async fn expect_end(&mut self) {
        assert_eq!(self.answer().await, None);
    }
}

/// A put without checksum.
pub fn put_frame(topic: &str, partition: i32, body: &[u8], opaque: i32) -> Vec<u8> {
    let mut frame = format!("put {topic} {partition} {} 0 -1 {opaque}\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body);
    frame
}

/// An answer as it stands on the wire.
pub fn text(response: &Response) -> String {
    let mut out = BytesMut::new();
    response.encode(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}
