//! What an application can see: events and the hook for metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metaq::client::{Action, ClientConfig, ClientEvent, ClientMetrics, MessageSessionFactory, SeekTo};
use metaq::id::{GroupName, Offset, TopicPartition};
use metaq::protocol::Status;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::common::DEADLINE;
use crate::common::scripted::{METAQ, ScriptedBroker};
use crate::rig::{Record, Rig, config, consume, group, t, text_of, texts, until};

/// The next event that is meant.
async fn next<T>(events: &mut broadcast::Receiver<ClientEvent>, mut meant: impl FnMut(&ClientEvent) -> Option<T>) -> T {
    let search = async {
        loop {
            if let Some(found) = meant(&events.recv().await.unwrap()) {
                return found;
            }
        }
    };
    timeout(DEADLINE, search).await.expect("no such event")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rebalances_failures_rejections_and_moved_offsets_are_events() {
    let rig = Rig::start(2).await;
    let mut events = rig.factory.events();
    let sent = rig.send(0, ["bad"]).await;
    let record = Record::default();
    let listener = record.answering(|message| match text_of(message).as_str() {
        "bad" => Action::Retry("it is bad".to_owned()),
        _ => Action::Ack,
    });
    let consumer = rig.consume(config("g").max_fetch_retries(1), listener).await;
    let owned = next(&mut events, |event| match event {
        ClientEvent::Rebalanced { group: of, owned } if *of == group("g") => Some(owned.clone()),
        _ => None,
    })
    .await;
    assert_eq!(owned, [t(0), t(1)]);
    for expected in 1..=2 {
        let (from, offset, times, reason) = next(&mut events, |event| match event {
            ClientEvent::ListenerFailed { from, offset, times, reason } => {
                Some((from.clone(), *offset, *times, reason.clone()))
            }
            _ => None,
        })
        .await;
        assert_eq!((from, offset, times, reason.as_str()), (t(0), Offset::ZERO, expected, "it is bad"));
    }
    let rejected = next(&mut events, |event| match event {
        ClientEvent::MessageRejected { from, offset, id, .. } => Some((from.clone(), *offset, *id)),
        _ => None,
    })
    .await;
    assert_eq!(rejected, (t(0), Offset::ZERO, sent[0].id));
    consumer.seek(&t(0), SeekTo::Latest).await.unwrap();
    let moved = next(&mut events, |event| match event {
        ClientEvent::OffsetMoved { of, from, to } => Some((of.clone(), *from, *to)),
        _ => None,
    })
    .await;
    assert_eq!(moved, (t(0), Offset::LATEST, Offset::new(23)));
    consumer.shutdown().await.unwrap();
}

/// Sums.
#[derive(Debug, Default)]
struct Sums(Mutex<BTreeMap<&'static str, u64>>);

impl Sums {
    fn add(&self, what: &'static str, amount: usize) {
        *self.0.lock().unwrap().entry(what).or_default() += u64::try_from(amount).unwrap();
    }

    fn of(&self, what: &'static str) -> u64 {
        self.0.lock().unwrap().get(what).copied().unwrap_or(0)
    }
}

impl ClientMetrics for Sums {
    fn received(&self, _: &TopicPartition, messages: usize, bytes: usize) {
        self.add("messages", messages);
        self.add("bytes", bytes);
    }

    fn retried(&self, _: &TopicPartition) {
        self.add("retried", 1);
    }

    fn rejected(&self, _: &TopicPartition) {
        self.add("rejected", 1);
    }

    fn committed(&self, of_group: &GroupName, from: &TopicPartition, offset: Offset) {
        assert_eq!((of_group.as_str(), from), ("g", &t(0)));
        self.add("committed", usize::try_from(offset.get()).unwrap());
    }

    fn rebalanced(&self, _: &GroupName, owned: usize) {
        self.add("owned", owned);
    }

    fn lag(&self, _: &TopicPartition, bytes: u64) {
        self.add("lag", usize::try_from(bytes).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hook_for_metrics_counts_what_happens() {
    let rig = Rig::start(1).await;
    let sums = Arc::new(Sums::default());
    let factory = MessageSessionFactory::connect(rig.broker.client_config().metrics(sums.clone())).await.unwrap();
    let record = Record::default();
    let listener = record.answering(|message| match (text_of(message).as_str(), message.redeliveries) {
        ("m1", 0) => Action::Retry("once".to_owned()),
        ("m2", _) => Action::Reject("bad".to_owned()),
        _ => Action::Ack,
    });
    let consumer = consume(&factory, config("g"), listener).await;
    until("the partition is owned", || sums.of("owned") == 1).await;
    rig.send(0, texts("m", 3)).await;
    until("the rejection", || sums.of("rejected") == 1).await;
    assert_eq!(sums.of("retried"), 1);
    // Bytes are those of whole records, also of those that are read once more.
    assert!(sums.of("messages") >= 3 && sums.of("bytes") == 22 * sums.of("messages"), "{sums:?}");
    consumer.commit().await.unwrap();
    assert_eq!(sums.of("committed"), 66);
    consumer.pause(&[t(0)]).await.unwrap();
    rig.send(0, ["more"]).await;
    consumer.lag(&t(0)).await.unwrap();
    assert_eq!(sums.of("lag"), 24);
    factory.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_outage_of_a_partition_is_one_event_and_its_end_another() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let target = ClientConfig::server(&broker.address().to_string()).unwrap();
    let factory = MessageSessionFactory::connect(target).await.unwrap();
    let mut events = factory.events();
    let config = config("g").partition("0-0".parse().unwrap());
    let _consumer = consume(&factory, config, Record::default().listener()).await;
    for _ in 0..3 {
        broker.next().await.answer(Status::ERROR, "no disk");
    }
    broker.next().await.answer(Status::NOT_FOUND, "");
    let mut told = Vec::new();
    next(&mut events, |event| {
        match event {
            ClientEvent::PartitionFailing { of, error } => told.push((of.clone(), error.clone())),
            ClientEvent::PartitionRecovered { of } => {
                assert_eq!(*of, t(0));
                return Some(());
            }
            _ => {}
        }
        None
    })
    .await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].0 == t(0) && told[0].1.contains("no disk"), "{told:?}");
    factory.shutdown().await.unwrap();
}
