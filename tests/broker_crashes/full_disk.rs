//! A disk that is full refuses puts with the reason, and nothing else: what was acknowledged is served, and is there
//! after a stop or a kill; with space freed the broker takes messages again.

use std::time::Instant;

use crate::common::DEADLINE;
use crate::common::raw::{Raw, put_frame};
use crate::common::small_volume::SmallVolume;
use crate::ledger::Ledger;
use crate::load::{Acknowledged, Place, stored_at};
use crate::payload::Marker;
use crate::site::{Running, Settings, Site};

const SETTINGS: Settings = Settings {
    system: "",
    metaq: "commitLogFileBytes=1048576\ncommitLogFiles=4",
    topics: "[topic=synced]\nnumPartitions=2\n[topic=lazy]\nunflushThreshold=1000\n",
};

const PLACES: &[Place] = &[("synced", 0), ("synced", 1), ("lazy", 0)];

/// More than any of the file systems here, and the messages that wait in memory, can take.
const TOO_MANY: u64 = 10_000;

/// Puts to one partition after the other and notes what was acknowledged.
struct Client {
    connection: Raw,
    ledger: Ledger,
    sent: u64,
}

impl Client {
    async fn of(broker: &Running, ledger: Ledger, sent: u64) -> Self {
        Self { connection: broker.connect().await, ledger, sent }
    }

    /// Puts one message; the words of its refusal.
    async fn put(&mut self, size: u64) -> Result<(), String> {
        let place @ (topic, partition) = PLACES[usize::try_from(self.sent).unwrap() % PLACES.len()];
        let marker = Marker { client: 0, number: self.sent, size };
        self.sent += 1;
        self.connection.send(put_frame(topic, partition, &marker.payload(), 1)).await;
        let (id, offset) = stored_at(&self.connection.answer().await.expect("an answer"))?;
        self.ledger.acknowledge([Acknowledged { place, offset, id, marker: Some(marker) }]);
        Ok(())
    }

    /// Puts until the broker refuses; the words of the refusal.
    async fn put_until_refused(&mut self, size: u64) -> String {
        for _ in 0..TOO_MANY {
            if let Err(refusal) = self.put(size).await {
                return refusal;
            }
        }
        panic!("{TOO_MANY} messages fit");
    }

    /// Puts until the broker accepts a message for each partition.
    async fn put_until_accepted(&mut self) {
        let (started, mut accepted) = (Instant::now(), 0);
        while accepted < PLACES.len() {
            match self.put(100).await {
                Ok(()) => accepted += 1,
                Err(refusal) => {
                    accepted = 0;
                    assert!(started.elapsed() < DEADLINE, "still refused: {refusal}");
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            }
        }
    }

    async fn check(&mut self) {
        self.ledger.check(&mut self.connection, PLACES).await;
    }
}

/// Fills the disk, frees space, stops and starts.
async fn fill_and_free(site: &Site, volume: &SmallVolume, size: u64) {
    let broker = site.start();
    let mut client = Client::of(&broker, Ledger::default(), 0).await;
    let refusal = client.put_until_refused(size).await;
    assert!(refusal.contains("no space left on "), "{refusal}");
    assert!(refusal.contains(&*volume.path().to_string_lossy()), "{refusal}");
    assert!(refusal.ends_with("free space and the broker accepts puts again"), "{refusal}");
    client.check().await;
    // Space helps, a restart does not.
    assert_eq!(broker.look("/healthz").await.0, 200);
    broker.assert_metrics(&["metaq_live 1", "metaq_healthy 0"]).await;
    volume.give_back();
    client.put_until_accepted().await;
    client.check().await;
    broker.stop();
    assert!(!site.has_log(), "{:?}", site.state());
    let broker = site.start();
    let mut client = Client::of(&broker, client.ledger, client.sent).await;
    client.check().await;
    client.put_until_accepted().await;
    broker.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_data_path_refuses_puts_until_there_is_space() {
    for size in [1000, 40_000, 100_000] {
        let Some(volume) = SmallVolume::mount(3072) else { return };
        let volume = volume.take(1024);
        let site = Site::new(SETTINGS).with_data(volume.path().join("data"));
        fill_and_free(&site, &volume, size).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_data_log_path_refuses_puts_until_there_is_space() {
    let Some(volume) = SmallVolume::mount(3072) else { return };
    // One file of the commit log has room, a second one has not.
    let volume = volume.take(1536);
    let site = Site::new(SETTINGS).with_journal(volume.path().join("journal"));
    fill_and_free(&site, &volume, 4000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_log_that_cannot_grow_uses_its_files_again() {
    // Room for two of the four files that it may have.
    let Some(volume) = SmallVolume::mount(2560) else { return };
    let site = Site::new(SETTINGS).with_journal(volume.path().join("journal"));
    let broker = site.start();
    let mut client = Client::of(&broker, Ledger::default(), 0).await;
    for _ in 0..1000 {
        client.put(10_000).await.unwrap();
    }
    client.check().await;
    broker.kill();
    let broker = site.start();
    Client::of(&broker, client.ledger, client.sent).await.check().await;
    broker.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_under_both_paths_refuses_puts_until_there_is_space() {
    for size in [4000, 40_000] {
        let Some(volume) = SmallVolume::mount(5120) else { return };
        let volume = volume.take(1536);
        let site =
            Site::new(SETTINGS).with_data(volume.path().join("data")).with_journal(volume.path().join("journal"));
        fill_and_free(&site, &volume, size).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_on_a_full_disk_starts_when_there_is_space_and_has_everything() {
    let Some(volume) = SmallVolume::mount(3072) else { return };
    let volume = volume.take(1024);
    let site = Site::new(SETTINGS).with_data(volume.path().join("data"));
    let broker = site.start();
    let mut client = Client::of(&broker, Ledger::default(), 0).await;
    client.put_until_refused(10_000).await;
    client.check().await;
    broker.kill();

    let mut refused = site.launch();
    assert_eq!(refused.wait().code(), Some(1));
    let told = refused.wait_for_line("no space left for ");
    assert!(told.contains("free space on its file system (") && told.contains("start again"), "{told}");
    let (status, told) = site.log_command(&["recover"]);
    assert!(status == Some(1) && told.contains("free space on its file system ("), "{told}");

    volume.give_back();
    let broker = site.start();
    let mut client = Client::of(&broker, client.ledger, client.sent).await;
    client.check().await;
    client.put_until_accepted().await;
    broker.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_cannot_hold_the_commit_log_refuses_the_start_and_says_what_to_do() {
    let Some(volume) = SmallVolume::mount(1536) else { return };
    let volume = volume.take(1024);
    let site = Site::new(SETTINGS).with_journal(volume.path().join("journal"));
    let mut refused = site.launch();
    assert_eq!(refused.wait().code(), Some(1));
    let told = refused.wait_for_line("no space left for the commit log");
    assert!(told.contains("free space") && told.contains("commitLogFileBytes=1048576"), "{told}");
    assert!(!site.has_log(), "an unfinished file stays: {:?}", site.state());
    volume.give_back();
    let broker = site.start();
    let mut client = Client::of(&broker, Ledger::default(), 0).await;
    client.put_until_accepted().await;
    broker.stop();
}
