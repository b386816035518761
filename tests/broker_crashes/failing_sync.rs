//! A disk that fails to sync: what was answered as durable is served and survives, nothing else is promised.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::common::raw::{Raw, put_frame};
use crate::common::shim;
use crate::ledger::{Ledger, read_log};
use crate::load::{Acknowledged, Place, stored_at};
use crate::payload::Marker;
use crate::site::{Running, Settings, Site};

const SETTINGS: Settings = Settings {
    system: "",
    metaq: "commitLogFileBytes=1048576",
    topics: "[topic=synced]\nnumPartitions=2\n[topic=lazy]\nunflushThreshold=1000\nunflushInterval=3600000\n",
};

const FIRST: Place = ("synced", 0);
const SECOND: Place = ("synced", 1);
const LAZY: Place = ("lazy", 0);
const PLACES: &[Place] = &[FIRST, SECOND, LAZY];

/// Fails syncs of a broker that it is preloaded into (`failing_sync.c`).
struct Shim {
    dir: TempDir,
}

impl Shim {
    /// `None`, and a line that says so, where there is no C compiler.
    fn build() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        shim::compile("tests/broker_crashes/failing_sync.c", &dir.path().join("shim.so")).then_some(Self { dir })
    }

    fn trigger(&self) -> PathBuf {
        self.dir.path().join("trigger")
    }

    fn start(&self, site: &Site) -> Running {
        let library = self.dir.path().join("shim.so");
        site.start_with(&[("LD_PRELOAD", &library), ("METAQ_FAILING_SYNC", &self.trigger())])
    }

    /// The next sync of a file with this in its path fails.
    fn fail_next(&self, part: &str) {
        let prepared = self.dir.path().join("prepared");
        fs::write(&prepared, part).unwrap();
        fs::rename(prepared, self.trigger()).unwrap();
    }

    fn assert_has_failed(&self) {
        assert!(!self.trigger().exists(), "no sync was asked to fail");
    }
}

/// Puts one message after the other.
struct Client {
    connection: Raw,
    ledger: Ledger,
    sent: u64,
}

impl Client {
    async fn of(broker: &Running) -> Self {
        Self { connection: broker.connect().await, ledger: Ledger::default(), sent: 0 }
    }

    async fn put(&mut self, place: Place, size: u64) -> Result<(), String> {
        let marker = Marker { client: 0, number: self.sent, size };
        self.sent += 1;
        self.connection.send(put_frame(place.0, place.1, &marker.payload(), 1)).await;
        let (id, offset) = stored_at(&self.connection.answer().await.expect("an answer"))?;
        self.ledger.acknowledge([Acknowledged { place, offset, id, marker: Some(marker) }]);
        Ok(())
    }
}

/// A broker of which the log has failed, and what it had acknowledged as durable.
async fn with_failed_log(site: &Site, shim: &Shim) -> (Running, Client) {
    let broker = shim.start(site);
    let mut client = Client::of(&broker).await;
    for _ in 0..10 {
        // The sync of what comes later in one log covers what came before.
        for place in [LAZY, FIRST, SECOND] {
            client.put(place, 100).await.unwrap();
        }
    }
    shim.fail_next("/commitlog.");
    for place in [FIRST, SECOND, LAZY] {
        let refusal = client.put(place, 100).await.unwrap_err();
        let expected = "no more messages until the broker is restarted: sync of the commit log ";
        assert!(refusal.contains(expected), "{place:?}: {refusal}");
    }
    shim.assert_has_failed();
    broker.wait_for_line("the commit log failed: all partitions serve what is durable");
    for path in ["/healthz", "/readyz"] {
        let (status, text) = broker.look(path).await;
        assert!(status == 503 && text.contains("the commit log failed"), "{path}: {status} {text}");
    }
    let (_, status) = broker.look("/api/v1/status").await;
    assert!(status.contains("\"healthy\":false,\"commit_log_failure\":\"sync of the commit log "), "{status}");
    broker.assert_metrics(&["metaq_live 0", "metaq_ready 0", "metaq_healthy 0", "metaq_commit_log_failed 1"]).await;
    // Not the lazy one, in which readers see what was flushed; this it was.
    client.ledger.check(&mut client.connection, PLACES).await;
    (broker, client)
}

/// The broker that follows has what was acknowledged, maybe what was refused behind it, and takes messages.
async fn assert_recovered(site: &Site, mut client: Client) {
    let broker = site.start();
    client.connection = broker.connect().await;
    client.ledger.check(&mut client.connection, PLACES).await;
    for &place in PLACES {
        let count = read_log(&mut client.connection, place).await.len();
        assert!((10..=11).contains(&count), "{place:?}: {count} messages");
        client.put(place, 100).await.unwrap();
    }
    client.ledger.check(&mut client.connection, PLACES).await;
    broker.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_of_the_log_ends_puts_until_a_restart_and_costs_nothing_durable() {
    let Some(shim) = Shim::build() else { return };
    let site = Site::new(SETTINGS);
    let (broker, client) = with_failed_log(&site, &shim).await;
    broker.kill();
    assert_recovered(&site, client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_after_a_failed_sync_of_the_log_says_so_and_keeps_the_log() {
    let Some(shim) = Shim::build() else { return };
    let site = Site::new(SETTINGS);
    let (mut broker, client) = with_failed_log(&site, &shim).await;
    assert_eq!(broker.terminate().code(), Some(1));
    broker.wait_for_line("its files are kept, and the next start finds out what the disk really holds");
    assert!(site.has_log(), "{:?}", site.state());
    assert_recovered(&site, client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_of_a_segment_ends_puts_to_its_partition_only() {
    let Some(shim) = Shim::build() else { return };
    let site = Site::new(SETTINGS);
    let mut broker = shim.start(&site);
    let mut client = Client::of(&broker).await;
    for place in PLACES.iter().cycle().take(30) {
        client.put(*place, 100).await.unwrap();
    }
    shim.fail_next("/synced-0/");
    // A large message is synced in its segment.
    let expected = "partition synced-0 takes no more messages until the broker is restarted: sync of ";
    for size in [100_000, 100, 100_000] {
        let refusal = client.put(FIRST, size).await.unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
        shim.assert_has_failed();
        for place in [SECOND, LAZY] {
            client.put(place, size).await.unwrap();
        }
    }
    client.ledger.check(&mut client.connection, PLACES).await;
    // The others are served: no reason to restart the broker at once, but for an operator to look.
    assert_eq!((broker.look("/healthz").await.0, broker.look("/readyz").await.0), (200, 200));
    broker.assert_metrics(&["metaq_live 1", "metaq_healthy 0", "metaq_partitions_poisoned 1"]).await;
    let (_, status) = broker.look("/api/v1/status").await;
    assert!(status.contains("\"poisoned\":[{\"topic\":\"synced\",\"partition\":0,\"reason\":\"sync of "), "{status}");

    assert_eq!(broker.terminate().code(), Some(1));
    broker.wait_for_line("messages of these poisoned partitions were not made durable and may be lost: synced-0");
    assert!(site.has_log(), "{:?}", site.state());
    let broker = site.start();
    client.connection = broker.connect().await;
    client.ledger.check(&mut client.connection, PLACES).await;
    client.put(FIRST, 100).await.unwrap();
    client.ledger.check(&mut client.connection, PLACES).await;
    broker.stop();
}
