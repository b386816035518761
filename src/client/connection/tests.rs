use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::net::TcpListener;

use super::*;
use crate::protocol::Status;

/// A peer that reads until it has seen `requests` whole lines, then writes `answer` and closes.
async fn peer(requests: usize, answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while seen.iter().filter(|&&b| b == b'\n').count() < requests {
            assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
        }
        stream.write_all(answer).await.unwrap();
    });
    address
}

fn options() -> ConnectionOptions {
    ConnectionOptions { request_timeout: Duration::from_secs(20), ..ConnectionOptions::default() }
}

#[tokio::test]
async fn answers_find_their_request_in_any_order() {
    let address = peer(2, b"result 200 1 -2147483647\r\nBresult 404 1 -2147483648\r\nA").await;
    let connection = Connection::connect(&address, options()).await.unwrap();
    let (first, second) = (connection.next_opaque(), connection.next_opaque());
    let (first_request, second_request) = (Request::Version(first), Request::Version(second));
    let (a, b) = tokio::join!(connection.request(&first_request), connection.request(&second_request));
    assert_eq!(a.unwrap(), Response::result(Status::NOT_FOUND, Bytes::from_static(b"A"), first));
    assert_eq!(b.unwrap(), Response::result(Status::SUCCESS, Bytes::from_static(b"B"), second));
}

#[tokio::test]
async fn a_lost_connection_ends_every_request_and_refuses_new_ones() {
    let address = peer(1, b"").await;
    let connection = Connection::connect(&address, options()).await.unwrap();
    let request = Request::Version(connection.next_opaque());
    assert!(matches!(connection.request(&request).await, Err(ClientError::Unknown(NoAnswer::Lost { .. }))));
    let error = connection.request(&request).await.unwrap_err();
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
    assert_eq!(connection.ended().await.as_deref(), Some("the broker closed it"));
}

#[tokio::test]
async fn garbage_from_the_broker_ends_the_connection() {
    let address = peer(1, b"HTTP/1.1 400 Bad Request\r\n").await;
    let connection = Connection::connect(&address, options()).await.unwrap();
    let request = Request::Version(connection.next_opaque());
    let error = connection.request(&request).await.unwrap_err().to_string();
    assert!(error.contains("unknown command 'HTTP/1.1'"), "{error}");
}

#[tokio::test]
async fn a_dropped_connection_ends_its_requests_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let connection = Connection::connect(&address, options()).await.unwrap();
    let pending = connection.send(&Request::Version(connection.next_opaque())).await.unwrap();
    drop(connection);
    assert!(matches!(pending.wait().await, Err(ClientError::Unknown(NoAnswer::Lost { .. }))));
}

#[tokio::test]
async fn names_that_would_break_the_line_are_not_sent() {
    let address = peer(1, b"").await;
    let connection = Connection::connect(&address, options()).await.unwrap();
    for item in ["two words", "line\r\nquit", " "] {
        let stats = crate::protocol::Stats { item: item.into(), opaque: connection.next_opaque() };
        let error = connection.request(&Request::Stats(stats)).await.unwrap_err();
        assert!(matches!(error, ClientError::Unsendable(_)), "{item:?}: {error}");
    }
}

#[tokio::test]
async fn silence_ends_in_a_timeout_and_a_late_answer_is_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let short = ConnectionOptions { request_timeout: Duration::from_millis(20), ..options() };
    let connection = Connection::connect(&address, short).await.unwrap();
    let request = Request::Version(connection.next_opaque());
    assert!(matches!(connection.request(&request).await, Err(ClientError::Unknown(NoAnswer::Timeout { .. }))));
    assert!(connection.wire.pending.lock().waiting.is_empty());
}

/// A peer that answers line after line with these statuses, round and round, if with anything. It counts the lines.
async fn answering(statuses: &'static [Option<u16>]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while stream.read_buf(&mut seen).await.is_ok_and(|n| n > 0) {
            while let Some(end) = seen.iter().position(|&b| b == b'\n') {
                let line = String::from_utf8(seen.drain(..=end).collect()).unwrap();
                let opaque = line.trim_end().rsplit(' ').next().unwrap();
                if let Some(status) = statuses[counter.fetch_add(1, Ordering::SeqCst) % statuses.len()] {
                    stream.write_all(format!("result {status} 0 {opaque}\r\n").as_bytes()).await.unwrap();
                }
            }
        }
    });
    (address, count)
}

#[tokio::test]
async fn the_third_unanswered_heartbeat_closes_the_connection() {
    let (address, _) = answering(&[None]).await;
    let options = ConnectionOptions { heartbeat: Some(Heartbeat::default()), ..options() };
    let connection = Connection::connect(&address, options).await.unwrap();
    tokio::time::pause();
    let start = Instant::now();
    let reason = connection.ended().await;
    assert_eq!(reason.as_deref(), Some("the broker left 3 heartbeats in a row without a good answer"));
    assert_eq!(start.elapsed().as_secs(), 35, "heartbeats at 10, 20 and 30 s");
    let error = connection.request(&Request::Version(connection.next_opaque())).await.unwrap_err();
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
}

fn quick_heartbeat() -> ConnectionOptions {
    let heartbeat = Heartbeat { idle: Duration::from_millis(5), ..Heartbeat::default() };
    ConnectionOptions { heartbeat: Some(heartbeat), ..options() }
}

#[tokio::test]
async fn failures_that_do_not_come_in_a_row_keep_the_connection() {
    let (address, count) = answering(&[Some(500), Some(500), Some(200)]).await;
    let connection = Connection::connect(&address, quick_heartbeat()).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while count.load(Ordering::SeqCst) < 10 {
        assert!(Instant::now() < deadline, "heartbeats go on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!connection.is_lost());
}

#[tokio::test]
async fn three_bad_answers_in_a_row_close_the_connection() {
    let (address, count) = answering(&[Some(500)]).await;
    let connection = Connection::connect(&address, quick_heartbeat()).await.unwrap();
    assert!(connection.ended().await.unwrap().contains("3 heartbeats"));
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn nobody_listening_is_told_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    assert!(matches!(Connection::connect(&address, options()).await, Err(ClientError::Connect { .. })));
}
