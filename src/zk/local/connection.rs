//! One connection: frames in, frames out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::jute::Malformed;
use super::limits::{CONNECT_TIME, LINGER_TIME, MAX_FRAME_BYTES, MAX_IN_FLIGHT, WRITE_BYTES, WRITE_TIME};
use super::outbox::{Parcels, outbox};
use super::random::Random;
use super::requests::{Numbered, Request};
use super::sessions::{ConnectionId, Password};
use super::wire::{ConnectRequest, frame_length};
use super::words::Word;
use super::worker::Command;

/// What a connection works with.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) peer: SocketAddr,
    pub(super) worker: Sender<Command>,
    pub(super) random: Random,
    /// For bytes of requests, of all connections.
    pub(super) room: Arc<Semaphore>,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a request is malformed: {0}")]
    Malformed(#[from] Malformed),
    #[error("the length of a frame is negative or more than {MAX_FRAME_BYTES} bytes")]
    Length,
    #[error("it did not say what it wants within {CONNECT_TIME:?}")]
    Silent,
    /// The client has closed it, the server is done with it, or the server ends.
    #[error("closed")]
    Closed,
}

impl Connection {
    /// Serves it to its end.
    pub(super) async fn serve(self, stream: TcpStream, abort: CancellationToken) {
        let served = abort.clone().run_until_cancelled_owned(self.run(stream, abort)).await;
        let _over = self.worker.send(Command::Gone { id: self.id });
        match served {
            None | Some(End::Closed) => debug!(peer = %self.peer, "zookeeper connection closed"),
            Some(End::Io(error)) => debug!(peer = %self.peer, %error, "zookeeper connection lost"),
            Some(end) => warn!(peer = %self.peer, reason = %end, "closing a zookeeper connection"),
        }
    }

    async fn run(&self, stream: TcpStream, abort: CancellationToken) -> End {
        let (read, write) = stream.into_split();
        let mut read = BufReader::new(read);
        let first = match timeout(CONNECT_TIME, first(&mut read)).await {
            Ok(Ok(first)) => first,
            Ok(Err(end)) => return end,
            Err(_) => return End::Silent,
        };
        let result = match first {
            First::Word(word) => self.answer_word(word, write).await,
            First::Connect(request) => self.converse(request, read, write, abort).await,
        };
        result.err().unwrap_or(End::Closed)
    }

    async fn answer_word(&self, word: Word, mut write: OwnedWriteHalf) -> Result<(), End> {
        let (to, figures) = oneshot::channel();
        self.worker.send(Command::Figures { to }).map_err(|_| End::Closed)?;
        let figures = figures.await.map_err(|_| End::Closed)?;
        write_in_time(&mut write, word.answer(&figures).as_bytes()).await
    }

    async fn converse(
        &self,
        request: ConnectRequest,
        mut read: impl AsyncRead + Unpin,
        write: OwnedWriteHalf,
        abort: CancellationToken,
    ) -> Result<(), End> {
        let (outbox, parcels) = outbox(self.peer, abort);
        let password = Password::new(self.random.bytes()?);
        self.worker.send(Command::Connect { id: self.id, request, password, outbox }).map_err(|_| End::Closed)?;
        tokio::select! {
            ended = self.read(&mut read) => ended?,
            ended = send(parcels, write) => ended?,
        }
        // To close over unread input would reset the connection and take back answers that are on their way.
        let _silent = timeout(LINGER_TIME, tokio::io::copy(&mut read, &mut tokio::io::sink())).await;
        Ok(())
    }

    /// Hands requests over as they come, a limited number at a time.
    async fn read(&self, mut read: impl AsyncRead + Unpin) -> Result<(), End> {
        let places = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.map_err(|_| End::Closed)?;
            let Some(frame) = frame(&mut read).await? else { return Ok(()) };
            let request = Numbered::read(&frame)?;
            let bytes = u32::try_from(frame.len()).map_err(|_| End::Length)?;
            drop(frame);
            let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.map_err(|_| End::Closed)?;
            let is_last = request.request == Request::Close;
            self.worker.send(Command::Request { id: self.id, request, place, room }).map_err(|_| End::Closed)?;
            if is_last {
                // The server ends the connection behind its answer.
                return std::future::pending().await;
            }
        }
    }
}

/// What a connection begins with.
enum First {
    Word(Word),
    Connect(ConnectRequest),
}

async fn first(read: &mut (impl AsyncRead + Unpin)) -> Result<First, End> {
    let mut head = [0; 4];
    read.read_exact(&mut head).await?;
    if let Some(word) = Word::of(head) {
        return Ok(First::Word(word));
    }
    let frame = body(read, frame_length(head, MAX_FRAME_BYTES).ok_or(End::Length)?).await?;
    Ok(First::Connect(ConnectRequest::read(&frame)?))
}

/// The next frame without its length; `None` at the end of the input.
async fn frame(read: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, End> {
    let mut head = [0; 4];
    match read.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    };
    body(read, frame_length(head, MAX_FRAME_BYTES).ok_or(End::Length)?).await.map(Some)
}

/// Memory grows with what arrives, not with what is announced.
async fn body(read: &mut (impl AsyncRead + Unpin), len: usize) -> Result<Vec<u8>, End> {
    let mut body = Vec::new();
    read.take(len as u64).read_to_end(&mut body).await?;
    if body.len() == len { Ok(body) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) }
}

/// Sends what comes until the server is done with the connection.
async fn send(mut parcels: Parcels, mut write: OwnedWriteHalf) -> Result<(), End> {
    let mut joined = BytesMut::new();
    while let Some((frame, place)) = parcels.next().await {
        let mut places = vec![place];
        let mut is_end = false;
        joined.extend_from_slice(&frame);
        while joined.len() < WRITE_BYTES {
            match parcels.ready() {
                Some(Some((frame, place))) => {
                    joined.extend_from_slice(&frame);
                    places.push(place);
                }
                Some(None) => {
                    is_end = true;
                    break;
                }
                None => break,
            }
        }
        write_in_time(&mut write, &joined).await?;
        parcels.sent(joined.len());
        joined = BytesMut::new();
        if is_end {
            break;
        }
    }
    Ok(write.shutdown().await?)
}

async fn write_in_time(write: &mut OwnedWriteHalf, bytes: &[u8]) -> Result<(), End> {
    match timeout(WRITE_TIME, write.write_all(bytes)).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}
