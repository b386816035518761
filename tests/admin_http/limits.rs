//! What clients cannot take from the broker.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::common::http::{exchange, send};
use crate::common::{DEADLINE, eventually};
use crate::rig::Running;

/// Connections to the port at a time.
const MAX_CONNECTIONS: usize = 64;

/// The largest body.
const MAX_BODY: usize = 1 << 20;

async fn ends(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
    // A reset is an end as well.
    let _ = read.expect("the server closes the connection");
    rest
}

#[tokio::test]
async fn a_header_that_takes_too_long_and_a_silent_connection_are_closed() {
    let broker = Running::start();
    let mut slow = TcpStream::connect(broker.admin).await.unwrap();
    let mut silent = TcpStream::connect(broker.admin).await.unwrap();
    let mut kept = TcpStream::connect(broker.admin).await.unwrap();
    kept.write_all(format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", broker.admin).as_bytes()).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    let (mut reading, mut writing) = slow.split();
    let started = Instant::now();
    let drip = async {
        // One byte after the other, for as long as they are taken.
        while started.elapsed() < DEADLINE && writing.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let mut rest = Vec::new();
    tokio::select! {
        () = drip => panic!("a header may take for ever"),
        read = reading.read_to_end(&mut rest) => drop(read),
    }
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    assert_eq!(ends(&mut silent).await, b"");
    let answer = String::from_utf8(ends(&mut kept).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"), "{answer}");
    assert_eq!(broker.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_cost_clients_nothing() {
    let broker = Running::start();
    let mut held = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        held.push(TcpStream::connect(broker.admin).await.unwrap());
    }
    // All of them have been accepted when one more is refused.
    let mut more = TcpStream::connect(broker.admin).await.unwrap();
    assert_eq!(ends(&mut more).await, b"");
    assert!(exchange(broker.admin, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.is_none());
    broker.client().await.put("test", 0, b"hello").await;
    broker.process.wait_for_line("closing a connection to the http port beyond its limit");
    held.pop();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", broker.admin);
    eventually("a place is free again", || async {
        match exchange(broker.admin, request.as_bytes()).await {
            Some(answer) if answer.status == 200 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_however_it_is_sent() {
    let broker = Running::start();
    let json = "Content-Type: application/json";
    let body = r#"{"topic":"test"}"#;
    let fits = format!("{body}{}", " ".repeat(MAX_BODY - body.len()));
    let answer = send(broker.admin, "POST", "/api/v1/partitions/open", &[json], &fits).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // Declared, on every path, before a byte of it is there.
    for path in ["/api/v1/partitions/open", "/reload", "/api/v1/status", "/nothing"] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{json}\r\nContent-Length: {}\r\n\r\n",
            MAX_BODY + 1
        );
        let answer = exchange(broker.admin, request.as_bytes()).await.unwrap();
        assert_eq!(answer.status, 413, "{path}: {answer:?}");
        assert!(answer.error().contains("1048576"));
    }
    // In chunks, without telling how many there will be.
    let mut request = format!(
        "POST /api/v1/partitions/open HTTP/1.1\r\nHost: localhost\r\n{json}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for _ in 0..32 {
        request.extend_from_slice(b"10000\r\n");
        request.extend_from_slice(&[b' '; 0x10000]);
        request.extend_from_slice(b"\r\n");
    }
    // The server closes without having read everything, which may take its answer back.
    if let Some(answer) = exchange(broker.admin, &request).await {
        assert_eq!(answer.status, 413, "{answer:?}");
    }
    assert_eq!(broker.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_header_beyond_the_limit_is_refused() {
    let broker = Running::start();
    let long = "x".repeat(64 << 10);
    let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n");
    if let Some(answer) = exchange(broker.admin, request.as_bytes()).await {
        assert_eq!(answer.status, 431, "{answer:?}");
    }
    let request = format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if let Some(answer) = exchange(broker.admin, request.as_bytes()).await {
        assert!([414, 431].contains(&answer.status), "{answer:?}");
    }
    assert_eq!(broker.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn many_requests_at_once_are_all_answered() {
    let broker = Running::start();
    let ask = |path: &'static str| {
        let admin = broker.admin;
        tokio::spawn(async move { crate::common::http::get(admin, path).await.status })
    };
    let asked: Vec<_> = (0..MAX_CONNECTIONS / 2).map(|i| ask(["/metrics", "/api/v1/topics"][i % 2])).collect();
    for answer in asked {
        assert_eq!(answer.await.unwrap(), 200);
    }
}
