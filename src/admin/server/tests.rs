//! Limits of time, without waiting for them.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;

use super::*;
use crate::admin::routes::REQUEST_TIME;

/// A connection that holds so many bytes that nobody takes, and what serves it.
fn connect(bytes: usize) -> (DuplexStream, impl Future<Output = ()>) {
    let (client, server) = tokio::io::duplex(bytes);
    let app = App::new(Doors::new([127, 0, 0, 1].into(), None));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    (client, serve(server, peer, router(app), CancellationToken::new()))
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_takes_ends_the_connection() {
    let (mut client, serving) = connect(40);
    let started = Instant::now();
    let ask = async {
        client.write_all(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        // Takes a little and no more.
        client.read_exact(&mut [0; 10]).await.unwrap();
        client
    };
    let ((), _client) = tokio::join!(serving, ask);
    assert!((IDLE_TIME..IDLE_TIME * 2).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_waited_for_no_longer_than_a_request_takes() {
    let (mut client, serving) = connect(4096);
    let started = Instant::now();
    let ask = async {
        let head = "POST /api/v1/partitions/open HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        client.write_all(format!("{head}Content-Length: 20\r\n\r\n{{\"topic\"").as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let ((), answer) = tokio::join!(serving, ask);
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("not done within 30 s"), "{answer}");
    assert!((REQUEST_TIME..REQUEST_TIME * 2).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_header_has_its_time_and_so_has_the_next_one() {
    let (mut client, serving) = connect(4096);
    let started = Instant::now();
    let ask = async {
        tokio::time::sleep(HEADER_TIME / 2).await;
        client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answers = String::new();
        // It ends in the middle of the second one.
        client.write_all(b"GET /he").await.unwrap();
        let _ = client.read_to_string(&mut answers).await;
        answers
    };
    let ((), answers) = tokio::join!(serving, ask);
    assert!(answers.starts_with("HTTP/1.1 200 OK"), "{answers}");
    let took = started.elapsed();
    assert!((HEADER_TIME * 3 / 2..HEADER_TIME * 2).contains(&took), "{took:?}");
}
