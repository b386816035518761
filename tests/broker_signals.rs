//! TERM, more than once and at any time: when the process ends, and that nothing is lost that was acknowledged.

#![cfg(all(unix, feature = "broker"))]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::net::TcpListener;

use common::hanging_disk::HangingDisk;
use common::operated::{Home, Running, Setup};
use common::process::Process;
use common::raw::Raw;
use common::zookeeper::Ensemble;

/// Acknowledged messages, each so many bytes.
const MESSAGES: i64 = 64;
const BODY: &[u8] = &[b'x'; 60_000];

async fn put(client: &mut Raw) {
    for number in 0..MESSAGES {
        assert_eq!(client.put("test", 0, BODY).await, number * (BODY.len() as i64 + 20));
    }
}

/// Starts another broker on the directory and asks for the end of the partition.
async fn assert_all_there(home: Home) {
    let command = home.command(Setup::default(), "");
    let broker = Running::of(home, command);
    let offsets = broker.client().await.ask("stats offsets 1\r\n").await;
    let expected = format!("test part 0 min_offset 0 max_offset {}\r\n", MESSAGES * (BODY.len() as i64 + 20));
    assert!(offsets.contains(&expected), "{offsets}");
}

#[tokio::test]
async fn a_second_term_does_not_wait_for_a_client_that_takes_no_answers() {
    let mut broker = Running::start();
    let mut client = broker.client().await;
    put(&mut client).await;
    // More answers than any socket holds, and nobody reads one.
    let gets = b"get test g 0 0 1048576 1\r\n".repeat(200);
    client.send(&gets).await;
    // Those commands were read before the stop begins.
    let mut observer = broker.client().await;
    while observer.ask("stats 1\r\n").await.contains("\ncmd_get 0\r") {
        tokio::task::yield_now().await;
    }
    broker.process.signal("TERM");
    broker.process.wait_for_line(" stopping signal=\"TERM\"");
    broker.process.signal("TERM");
    let status = broker.process.wait();
    let printed = broker.process.printed().join("\n");
    assert!(status.success(), "{printed}");
    assert!(printed.contains("stopping without waiting for clients"), "{printed}");
    assert!(!printed.contains("dropping connections that do not take their answers"), "it waited: {printed}");
    assert_all_there(broker.home).await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_zookeeper_that_never_said_a_word() {
    // Takes connections and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let zookeeper: &'static str =
        Box::leak(format!("zk.zkConnect={}\nzk.zkSyncTimeMs=600000", silent.local_addr().unwrap()).into_boxed_str());
    let mut broker = Running::with(Setup { zookeeper, ..Setup::default() });
    put(&mut broker.client().await).await;
    assert!(broker.process.terminate().success());
    assert_all_there(broker.home).await;
}

#[tokio::test]
async fn a_second_term_does_not_wait_for_a_zookeeper_that_hangs_nor_for_clients_to_leave() {
    let Some(ensemble) = Ensemble::single() else { return };
    let zookeeper: &'static str =
        Box::leak(format!("zk.zkConnect={}\nzk.zkSyncTimeMs=600000", ensemble.connect_string()).into_boxed_str());
    let mut broker = Running::with(Setup { zookeeper, ..Setup::default() });
    put(&mut broker.client().await).await;
    broker.process.wait_for_line("nodes in zookeeper brought up to date");
    ensemble.freeze(0);
    broker.process.signal("TERM");
    broker.process.wait_for_line(" stopping signal=\"TERM\"");
    broker.process.signal("TERM");
    let status = broker.process.wait();
    let printed = broker.process.printed().join("\n");
    assert!(status.success(), "{printed}");
    assert!(printed.contains("left to the end of the session: the nodes in zookeeper"), "it waited: {printed}");
    assert_all_there(broker.home).await;
}

#[tokio::test]
async fn a_term_during_the_start_ends_it_and_the_next_start_finds_everything() {
    let Some(disk) = HangingDisk::new() else { return };
    let home = Home::new();
    let command = home.command(Setup::default(), "");
    let mut broker = Running::of(home, command);
    put(&mut broker.client().await).await;
    // The start has a log to read, and to sync what was in it.
    broker.process.kill();
    disk.hang();
    let mut starting = Process::start("the broker", disk.under(&mut broker.home.command(Setup::default(), "")), None);
    starting.wait_for_line("ADMIN http://");
    starting.signal("TERM");
    let status = starting.wait();
    let printed = starting.printed().join("\n");
    assert!(status.success() && printed.contains("stopping before the start is done"), "{status}: {printed}");
    assert!(!printed.contains("READY"), "{printed}");
    assert_all_there(broker.home).await;
}

#[tokio::test]
async fn a_third_term_ends_a_broker_whose_disk_hangs() {
    let Some(disk) = HangingDisk::new() else { return };
    let home = Home::new();
    let mut command = home.command(Setup::default(), "");
    disk.under(&mut command);
    let mut broker = Running::of(home, command);
    put(&mut broker.client().await).await;
    disk.hang();
    for line in [" stopping signal=\"TERM\"", "stopping without waiting for clients", "ending before everything is in"]
    {
        broker.process.signal("TERM");
        broker.process.wait_for_line(line);
    }
    assert_eq!(broker.process.wait().code(), Some(1));
    assert_all_there(broker.home).await;
}
