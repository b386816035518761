//! `bin/metaServer.sh` with real brokers: what an operator types, sees and may rely on.

#![cfg(all(unix, feature = "broker"))]
// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "metaserver_script/installation.rs"]
mod installation;

#[path = "metaserver_script/asking.rs"]
mod asking;

#[path = "metaserver_script/hung.rs"]
mod hung;

#[path = "metaserver_script/readme.rs"]
mod readme;

#[path = "metaserver_script/stale.rs"]
mod stale;

#[path = "metaserver_script/starting.rs"]
mod starting;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;

use common::zookeeper::Ensemble;
use installation::{Installation, outcome, run};

/// Nobody listens there.
const NO_ZOOKEEPER: [&str; 2] = ["zk.zkConnect=127.0.0.1:1", "zk.zkConnectionTimeoutMs=1000"];

#[test]
fn messages_survive_a_stop_and_a_start() {
    let broker = Installation::new(&[]);
    broker.script(&["status"]).is(1, "Meta broker was stopped.");
    broker.script(&["start", "local"]).is(0, "Meta broker is running, in local mode");
    broker.script(&["status"]).is(0, &format!("pid {}, meta://127.0.0.1:", broker.pid()));
    broker.produce("kept");
    assert_eq!(broker.consume(), "kept0\n");
    broker.script(&["stop"]).is(0, "Stop meta broker successfully.");
    broker.script(&["status"]).is(1, "Meta broker was stopped.");
    assert!(!broker.pid_file().exists());
    broker.script(&["start", "local"]).is(0, "Meta broker is running");
    assert_eq!(broker.consume(), "kept0\n");
    assert!(broker.file("data/test-0").is_dir(), "a relative dataPath begins above bin");
    let log = fs::read_to_string(broker.file("logs/metaServer.log")).unwrap();
    assert_eq!(log.matches(" serving address=").count(), 2, "the log goes on where it was: {log}");
    let said = fs::read_to_string(broker.file("logs/metaServer.out")).unwrap();
    assert_eq!(said.matches("READY").count(), 1, "this is of the present broker only: {said}");
}

#[test]
fn a_second_start_is_refused_and_the_first_broker_stays() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    let pid = broker.pid();
    broker.script(&["start", "local"]).is(1, "Broker is running.\n");
    broker.script(&["start"]).is(1, "Broker is running.\n");
    assert_eq!(broker.pid(), pid);
    broker.script(&["status"]).is(0, &pid);
}

#[test]
fn of_two_starts_at_once_one_wins() {
    let broker = Installation::new(&[]);
    let both = [broker.spawn(&["start", "local"]), broker.spawn(&["start", "local"])];
    let mut codes = both.map(|child| outcome(child).code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 1]);
    broker.script(&["status"]).is(0, "");
}

#[test]
fn a_bad_configuration_is_shown_line_by_line_and_nothing_stays_behind() {
    let broker = Installation::new(&["serverPort=many"]);
    let shown = broker.script(&["start", "local"]).is(1, "server.ini:").text;
    assert!(shown.contains("serverPort") && shown.contains("Meta broker did not start"), "{shown}");
    assert!(!broker.pid_file().exists());
    broker.set("serverPort=0");
    broker.script(&["start", "local"]).is(0, "");
}

#[test]
fn a_port_in_use_is_named_and_nothing_stays_behind() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let broker = Installation::new(&[&format!("serverPort={}", taken.local_addr().unwrap().port())]);
    broker.script(&["start", "local"]).is(1, &format!("cannot listen on {}", taken.local_addr().unwrap()));
    assert!(!broker.pid_file().exists());
    broker.script(&["status"]).is(1, "Meta broker was stopped.");
    drop(taken);
    // a process left behind would still hold the data
    broker.script(&["start", "local"]).is(0, "");
}

#[test]
fn a_log_of_earlier_trouble_is_not_taken_for_todays() {
    let broker = Installation::new(&["serverPort=many"]);
    broker.script(&["start", "local"]).is(1, "many");
    broker.set("serverPort=0");
    broker.set("maxSegmentSize=little");
    let shown = broker.script(&["start", "local"]).is(1, "little").text;
    assert!(!shown.contains("many"), "{shown}");
}

#[test]
fn it_works_through_links_from_anywhere() {
    let broker = Installation::new(&[]);
    let elsewhere = tempfile::tempdir().unwrap();
    let absolute = elsewhere.path().join("absolute");
    symlink(broker.file("bin/metaServer.sh"), &absolute).unwrap();
    let relative = elsewhere.path().join("relative");
    symlink("absolute", &relative).unwrap();
    run(broker.command(&relative, &["start", "local"]).current_dir(elsewhere.path())).is(0, "Meta broker is running");
    broker.script(&["status"]).is(0, "");
    run(&mut broker.command(&absolute, &["stop"])).is(0, "Stop meta broker successfully.");
}

#[test]
fn files_can_lie_elsewhere_and_be_named_relative_to_the_caller() {
    let broker = Installation::new(&[]);
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(broker.file("conf/server.ini"), elsewhere.path().join("my.ini")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = broker.command(&broker.file("bin/metaServer.sh"), arguments);
        run(command.current_dir(elsewhere.path()).env("METAQ_CONFIG", "my.ini").env("METAQ_LOG_DIR", "my logs"))
    };
    run(&["start", "local"]).is(0, "my logs/metaServer.log");
    assert!(elsewhere.path().join("my logs/.run.pid").exists() && !broker.file("logs").exists());
    run(&["stop"]).is(0, "");
}

#[test]
fn a_restart_keeps_the_mode() {
    // Nobody but a broker in local mode listens at the address of the ZooKeeper.
    let broker = Installation::new(&["zk.zkConnectionTimeoutMs=1000"]);
    broker.script(&["start", "local"]).is(0, "in local mode, with a ZooKeeper of its own at 127.0.0.1:");
    let first = broker.pid();
    let shown = broker.script(&["restart"]).is(0, "Stop meta broker successfully.").text;
    assert!(shown.contains("in local mode"), "{shown}");
    assert_ne!(broker.pid(), first);
    broker.script(&["status"]).is(0, "mode           local");
    broker.script(&["stop"]).is(0, "");
    broker.script(&["start"]).is(0, "running, not registered: ");
    broker.script(&["status"]).is(0, "mode           cluster");
    broker.script(&["restart"]).is(0, "running, not registered: ");
}

#[test]
fn a_restart_with_a_bad_configuration_leaves_the_running_broker_alone() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    let pid = broker.pid();
    broker.set("numPartitions=none");
    let shown = broker.script(&["restart"]).is(1, "numPartitions").text;
    assert!(shown.contains("it runs on"), "{shown}");
    broker.script(&["status"]).is(0, &pid);
    // Nor does it end for a token that a start would refuse.
    broker.set("numPartitions=1");
    broker.set("adminTokenFile=conf/token");
    let shown = broker.script(&["restart"]).is(1, "adminTokenFile=conf/token: No such file").text;
    assert!(shown.contains("it runs on"), "{shown}");
    broker.script(&["status"]).is(0, &pid);
}

#[test]
fn an_unreachable_zookeeper_is_told_of_and_the_broker_serves() {
    let broker = Installation::new(&NO_ZOOKEEPER);
    let shown = broker.script(&["start"]).is(0, "running, not registered: ").text;
    assert!(shown.contains("no connection to ZooKeeper"), "{shown}");
    broker.produce("served");
    assert_eq!(broker.consume(), "served0\n");
}

#[test]
fn it_waits_for_the_registration_whatever_is_logged() {
    let Some(zookeeper) = Ensemble::single() else { return };
    let broker = Installation::new(&[&format!("zk.zkConnect={}", zookeeper.connect_string())]);
    broker.script(&["start"]).is(0, "Meta broker is running, registered in ZooKeeper");
    broker.script(&["status"]).is(0, "registered in ZooKeeper");
    broker.script(&["stop"]).is(0, "Stop meta broker successfully.");
    let mut start = broker.command(&broker.file("bin/metaServer.sh"), &["start"]);
    run(start.env("RUST_LOG", "error")).is(0, "Meta broker is running, registered in ZooKeeper");
}

#[test]
fn help_exits_0_and_what_is_unknown_or_not_there_yet_exits_1() {
    let broker = Installation::new(&[]);
    broker.script(&["help"]).is(0, "Usage: metaServer.sh");
    broker.script(&[]).is(1, "Usage: metaServer.sh");
    for (wrong, why) in [
        (&["strat"] as &[&str], "There is no command strat."),
        (&["start", "loacl"], "start does not know loacl."),
        (&["stop", "now"], "stop does not know now."),
        (&["stop", "--force", "now"], "stop takes less: --force now"),
        (&["reload", "now"], "reload does not know now."),
        (&["stats", "-item"], "-item takes one item"),
        (&["stats", "a", "b"], "stats takes one item"),
        (&["stats", "-x"], "stats does not know -x"),
        (&["close-partitions"], "The topic is missing: close-partitions -topic TOPIC -start FIRST -end LAST"),
        (&["close-partitions", "-topic"], "-topic has no value"),
        (&["close-partitions", "-topic", "t", "-start", "0"], "The first or the last partition is missing"),
        (&["close-partitions", "-topik", "t"], "close-partitions does not know -topik"),
        (&["open-partitions"], "The topic is missing: open-partitions -topic TOPIC"),
        (&["open-partitions", "-topic", "t", "-start", "0"], "All partitions of a topic are opened at once"),
    ] {
        let shown = broker.script(wrong).is(1, why).text;
        assert!(shown.ends_with("`metaServer.sh help` lists the commands.\n"), "{shown}");
    }
    for later in ["slave-status", "move-partitions", "delete-partitions", "query"] {
        broker.script(&[later, "-topic", "x"]).is(1, &format!("{later} is not available in this release."));
    }
    for later in ["slave", "samsa", "gregor"] {
        broker.script(&["start", later]).is(1, "not available in this release");
    }
    assert!(!broker.file("logs").exists(), "nothing of that leaves a trace");
}
