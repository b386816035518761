//! A long run with everything that happens to a broker in an ordinary week: `METAQ_SOAK_SECONDS=900 cargo test --release
//! --locked --test soak -- --ignored --nocapture`. It prints what the process takes as it goes, and fails if memory grows
//! or anybody is answered something else than expected.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do; the table is for who watches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod common;

#[path = "soak/client.rs"]
mod client;
#[path = "soak/usage.rs"]
mod usage;

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Tally, work};
use common::broker::BrokerHome;
use common::process::Process;
use common::zookeeper::Ensemble;
use rustix::process::{Resource, getrlimit, setrlimit};
use usage::Usage;

const RELOAD_PERIOD: Duration = Duration::from_secs(5);
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// Old segments are removed every few seconds: the disk does not fill, and readers are told to move on.
const SYSTEM: &str = "deletePolicy=delete,20s\ndeleteWhen=*/10 * * * * ?\n";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "takes as long as METAQ_SOAK_SECONDS says (60)"]
async fn memory_stays_flat_and_every_answer_is_expected() {
    let duration = Duration::from_secs(number("METAQ_SOAK_SECONDS", 60));
    let connections = number("METAQ_SOAK_CONNECTIONS", 2000);
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let Some(mut ensemble) = Ensemble::single() else { return };
    let topics = [
        ("durable", "numPartitions=8"),
        ("periodic", "numPartitions=8\nunflushThreshold=1000\nunflushInterval=1000"),
        ("sometimes", "numPartitions=1"),
    ];
    let home = BrokerHome::new(0, &ensemble.connect_string(), "/meta", SYSTEM, &topics);
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["broker", "-f"]).arg(home.ini()).env("RUST_LOG", "info");
    let mut broker = Process::start("the broker", &mut command, None);
    broker.wait_for_line("READY ");
    broker.wait_for_line("nodes in zookeeper brought up to date");

    let tally = Arc::<Tally>::default();
    let (started, end) = (Instant::now(), Instant::now() + duration);
    let address = home.address().parse().unwrap();
    let clients: Vec<_> = (0..connections)
        .map(|seed| {
            // They come one after another, as clients do.
            let tally = Arc::clone(&tally);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(seed)).await;
                work(address, seed, end, &tally).await;
            })
        })
        .collect();

    let with = fs::read_to_string(home.ini()).unwrap();
    let without = with.replace("[topic=sometimes]\nnumPartitions=1\n", "");
    assert_ne!(with, without);
    let (mut reloads, mut next_report, mut restarted) = (0, started, false);
    let mut usages = Vec::new();
    while Instant::now() < end {
        reloads += 1;
        fs::write(home.ini(), if reloads % 2 == 0 { &with } else { &without }).unwrap();
        broker.signal("HUP");
        if !restarted && started.elapsed() > duration / 2 {
            println!("ZooKeeper is killed and comes back");
            ensemble.kill_all();
            tokio::time::sleep(RELOAD_PERIOD).await;
            ensemble.start_all();
            restarted = true;
        }
        if Instant::now() >= next_report {
            let usage = Usage::of(broker.id());
            println!("{:>5} s  {usage}  {}", started.elapsed().as_secs(), tally.line());
            usages.push(usage);
            next_report += REPORT_PERIOD;
        }
        tokio::time::sleep(RELOAD_PERIOD.min(end.saturating_duration_since(Instant::now()))).await;
    }
    for client in clients {
        client.await.unwrap();
    }
    println!("{reloads} reloads, {}", tally.line());
    assert_eq!(tally.unexpected(), Vec::<String>::new());
    // The beginning is for buffers that are made once, and clients come one after another.
    let settled = usages.split_off(usages.len() / 5 + 1);
    let (early, late) = settled.split_at(settled.len() / 2);
    let peak = |usages: &[Usage]| usages.iter().map(|usage| usage.anonymous_kb).max().unwrap_or(0);
    let (early, late) = (peak(early), peak(late));
    println!("anonymous memory: at most {early} kB in the first half, {late} kB in the second");
    assert!(settled.len() < 4 || late <= early + early / 10 + 4096, "memory grows");
    assert!(broker.terminate().success());
}
