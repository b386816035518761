//! A broker that is killed again and again in the middle of its work loses nothing that it acknowledged.
// Seeds and times are for whoever reads the output of a failed or a long run.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use crate::ledger::Ledger;
use crate::load::{Load, Place};
use crate::site::{Settings, Site};

/// Kills of one test. More with the environment variable `METAQ_KILLS`.
const KILLS: u64 = 5;

/// Kills of a broker on one directory.
const KILLS_OF_A_DIRECTORY: u64 = 10;

/// Clients at a time.
const CLIENTS: u64 = 4;

/// Messages acknowledged before a kill are fewer than 2 to this power.
const LARGEST_LOAD: u32 = 13;

const TOPICS: &str = "[topic=synced]\nnumPartitions=3\n[topic=lazy]\nnumPartitions=2\nunflushThreshold=1000\n\
                      [topic=timed]\nunflushThreshold=1000000\nunflushInterval=20\n\
                      [topic=quiet]\n";

const PLACES: &[Place] =
    &[("synced", 0), ("synced", 1), ("synced", 2), ("lazy", 0), ("lazy", 1), ("timed", 0), ("quiet", 0)];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_by_kills() {
    kill_again_and_again(Settings { topics: TOPICS, ..Settings::default() }).await;
}

/// The files of the log are used again and again here.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_by_kills_with_a_small_commit_log() {
    let metaq = "commitLogFileBytes=1048576\ncommitLogFiles=2";
    kill_again_and_again(Settings { topics: TOPICS, metaq, ..Settings::default() }).await;
}

async fn kill_again_and_again(settings: Settings) {
    let kills = std::env::var("METAQ_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let seed = std::env::var("METAQ_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("METAQ_SEED={seed} METAQ_KILLS={kills}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut starts = Vec::new();
    for first in (0..kills).step_by(usize::try_from(KILLS_OF_A_DIRECTORY).unwrap()) {
        let site = Site::new(settings);
        let mut ledger = Ledger::default();
        for kill in first..kills.min(first + KILLS_OF_A_DIRECTORY) {
            starts.push(live_and_die(&site, &mut ledger, kill, &mut random).await);
        }
        assert!(site.has_log(), "what a kill leaves: {:?}", site.state());
        for stopped_cleanly in [false, true] {
            assert_ne!(site.has_log(), stopped_cleanly, "{:?}", site.state());
            let broker = site.start();
            ledger.check(&mut broker.connect().await, PLACES).await;
            broker.stop();
        }
    }
    starts.sort();
    println!("from start to serving: median {:?}, longest {:?}", starts[starts.len() / 2], starts[starts.len() - 1]);
}

/// A broker starts, has everything, takes more and is killed. Returns how long its start took.
async fn live_and_die(site: &Site, ledger: &mut Ledger, kill: u64, random: &mut fastrand::Rng) -> Duration {
    // Some do not even come to serve.
    for _ in 0..random.u32(..3) {
        let mut process = site.launch();
        tokio::time::sleep(Duration::from_micros(random.u64(..60_000))).await;
        process.kill();
    }
    let launched = Instant::now();
    let broker = site.start();
    let took = launched.elapsed();
    ledger.check(&mut broker.connect().await, PLACES).await;
    let first_client = kill * CLIENTS;
    let load = Load::start(broker.address(), first_client..first_client + CLIENTS, PLACES, random.u64(..));
    let magnitude = random.u32(..LARGEST_LOAD);
    load.acknowledged(random.u64(1..2 << magnitude)).await;
    broker.kill();
    ledger.acknowledge(load.end().await);
    println!("kill {kill}: {} messages acknowledged; the start before took {took:?}", ledger.len());
    took
}
