//! A broker that answers what the test tells it to.

use std::net::SocketAddr;

use bytes::BytesMut;
use metaq::protocol::{Command, Decoder, Limits, Put, Request, Response, Status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::DEADLINE;

/// What a broker on the JVM answers to `version`.
pub const JAVA: &str = "1.4.6.2";
/// What ours answers.
pub const METAQ: &str = "1.4.6.2 metaq/0.1.0 wait";

/// Listens on the loopback address. It answers `version` by itself; everything else waits for the test.
pub struct ScriptedBroker {
    address: SocketAddr,
    asked: mpsc::UnboundedReceiver<Asked>,
    _task: AbortOnDropHandle<()>,
}

/// A request that waits for its answer.
pub struct Asked {
    /// Number of the connection, from 1.
    pub connection: usize,
    pub request: Request,
    /// An empty text closes the connection.
    out: mpsc::UnboundedSender<BytesMut>,
}

impl ScriptedBroker {
    pub async fn start(version: &'static str) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), version).await
    }

    /// The same on this address.
    pub async fn on(address: SocketAddr, version: &'static str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, asked) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 1.. {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, connection, version, sender.clone()));
            }
        });
        Self { address, asked, _task: AbortOnDropHandle::new(task) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request.
    pub async fn next(&mut self) -> Asked {
        tokio::time::timeout(DEADLINE, self.asked.recv()).await.expect("a request").unwrap()
    }

    /// Whether a request has arrived that was not taken.
    pub fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }
}

impl Asked {
    pub fn put(&self) -> &Put {
        match &self.request {
            Request::Put(put) => put,
            other => panic!("not a put: {other:?}"),
        }
    }

    /// The body of a put as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.put().body.to_vec()).unwrap()
    }

    pub fn answer(&self, status: Status, text: &str) {
        let mut frame = BytesMut::new();
        Response::result(status, text.to_owned(), self.request.opaque()).encode(&mut frame);
        // The client may be gone.
        let _ = self.out.send(frame);
    }

    /// Says that the message is stored where it was sent to.
    pub fn stored(&self, id: i64, offset: i64) {
        let partition = self.put().partition.get().max(0);
        self.answer(Status::SUCCESS, &format!("{id} {partition} {offset}"));
    }

    /// Whether the client has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.out.is_closed()
    }

    /// Closes the connection.
    pub fn close(&self) {
        let _ = self.out.send(BytesMut::new());
    }
}

async fn serve(stream: TcpStream, connection: usize, version: &str, asked: mpsc::UnboundedSender<Asked>) {
    let (mut read, mut write) = stream.into_split();
    let (out, mut answers) = mpsc::unbounded_channel::<BytesMut>();
    let writing = async {
        while let Some(answer) = answers.recv().await {
            if answer.is_empty() || write.write_all(&answer).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        let mut decoder = Decoder::new(Limits::default());
        let mut buffer = BytesMut::new();
        loop {
            while let Some(command) = decoder.decode(&mut buffer).unwrap() {
                let Command::Request(request) = command else { panic!("a client answers: {command:?}") };
                let asking = Asked { connection, request, out: out.clone() };
                match asking.request {
                    Request::Version(_) => asking.answer(Status::SUCCESS, version),
                    _ => _ = asked.send(asking),
                }
            }
            if read.read_buf(&mut buffer).await.is_ok_and(|n| n == 0) {
                return;
            }
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}
