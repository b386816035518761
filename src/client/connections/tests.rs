use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};

use super::*;

const BACKOFF: Duration = Duration::from_secs(60);

fn connections(backoff: Duration) -> (Connections, tokio::sync::broadcast::Receiver<ClientEvent>) {
    let events = Events::new();
    let receiver = events.subscribe();
    (Connections::new(ConnectionOptions::default(), backoff, events), receiver)
}

/// Accepts and counts; each connection is held until the returned sender has another number.
async fn listener() -> (String, Arc<AtomicUsize>, watch::Sender<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let (hold, held) = watch::channel(0);
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let (stream, _): (TcpStream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let mut held = held.clone();
            held.mark_unchanged();
            tokio::spawn(async move {
                let _ = held.changed().await;
                drop(stream);
            });
        }
    });
    (address, count, hold)
}

async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test]
async fn all_who_need_a_broker_at_once_share_one_connection() {
    let (connections, mut events) = connections(BACKOFF);
    let (address, count, _hold) = listener().await;
    let (a, b, c) = tokio::join!(connections.get(&address), connections.get(&address), connections.get(&address));
    let first = a.unwrap();
    assert!([b.unwrap(), c.unwrap()].iter().all(|other| Arc::ptr_eq(&first, other)));
    assert!(Arc::ptr_eq(&first, &connections.present(&address).unwrap()));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(events.recv().await, Ok(ClientEvent::BrokerConnected { address }));
}

#[tokio::test]
async fn an_attempt_goes_on_when_the_one_who_began_it_gives_up() {
    let (connections, _events) = connections(BACKOFF);
    let (address, count, _hold) = listener().await;
    assert!(connections.ready(&address).is_none());
    connections.get(&address).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_failed_address_is_not_tried_again_within_the_back_off() {
    let (connections, mut events) = connections(BACKOFF);
    let address = nobody().await;
    for _ in 0..3 {
        assert!(matches!(connections.get(&address).await, Err(ClientError::Connect { .. })));
    }
    assert!(matches!(events.recv().await, Ok(ClientEvent::BrokerUnreachable { .. })));
    assert!(events.try_recv().is_err(), "there was one attempt");
}

#[tokio::test]
async fn a_lost_connection_is_told_of_and_replaced_at_the_next_use() {
    let (connections, mut events) = connections(Duration::ZERO);
    let (address, count, hold) = listener().await;
    let first = connections.get(&address).await.unwrap();
    assert!(matches!(events.recv().await, Ok(ClientEvent::BrokerConnected { .. })));
    hold.send(1).unwrap();
    let reason = "the broker closed it".to_owned();
    assert_eq!(events.recv().await, Ok(ClientEvent::BrokerLost { address: address.clone(), reason }));
    assert!(connections.present(&address).is_none());
    let second = connections.get(&address).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_peer_that_accepts_and_closes_is_not_hammered() {
    let (connections, mut events) = connections(BACKOFF);
    let (address, count, hold) = listener().await;
    connections.get(&address).await.unwrap();
    hold.send(1).unwrap();
    while !matches!(events.recv().await, Ok(ClientEvent::BrokerLost { .. })) {}
    let error = connections.get(&address).await.unwrap_err();
    assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_is_given_up_or_not_in_use_is_closed_when_its_last_user_is_done() {
    let (connections, mut events) = connections(Duration::ZERO);
    let (address, count, _hold) = listener().await;
    let client = connections.get(&address).await.unwrap();
    connections.give_up(&client);
    assert!(!client.is_lost(), "somebody may wait for an answer on it");
    let other = connections.get(&address).await.unwrap();
    assert!(!Arc::ptr_eq(&client, &other));
    connections.retain(&HashSet::new());
    assert!(connections.all_present().is_empty() && !other.is_lost());
    let ended = other.ended();
    drop((client, other));
    assert_eq!(ended.await, None);
    assert_eq!(count.load(Ordering::SeqCst), 2);
    while let Ok(event) = events.try_recv() {
        assert!(!matches!(event, ClientEvent::BrokerLost { .. }), "it was our own wish");
    }
    connections.close();
    assert!(matches!(connections.get(&address).await, Err(ClientError::Shutdown(_))));
}
