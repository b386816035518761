//! The operators' commands against real brokers: what works, and what an operator reads when it does not.

#![cfg(all(unix, feature = "broker"))]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "admin_commands/broken.rs"]
mod broken;

#[path = "admin_commands/manual.rs"]
mod manual;

#[path = "admin_commands/token.rs"]
mod token;

#[path = "admin_commands/topics.rs"]
mod topics;

use std::fs;
use std::process::{Command, Output, Stdio};

use common::operated::{Running, Setup};
use common::output::{assert_status, json_lines, text};
use common::raw::{put_frame, text as answer_text};

fn metaq(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(arguments).stdin(Stdio::null()).env_remove("METAQ_ADMIN_TOKEN");
    command
}

/// Runs a command of the HTTP interface of a broker.
fn admin(broker: &Running, arguments: &[&str]) -> Output {
    metaq(&[arguments, &["--admin", &broker.admin.to_string()]].concat())
}

/// What a command printed that had to succeed.
#[track_caller]
fn done(output: &Output) -> &str {
    assert_status(output, 0);
    text(&output.stdout)
}

/// What a command told that had to fail.
#[track_caller]
fn failed(output: &Output) -> &str {
    assert_status(output, 1);
    text(&output.stderr)
}

#[test]
fn the_status_is_told_to_people_and_programs() {
    let broker = Running::start();
    let output = admin(&broker, &["admin", "status"]);
    let shown = done(&output);
    let first = shown.lines().next().unwrap();
    assert!(first.starts_with("pid ") && first.contains(&format!("meta://{}, up 0 d 00:", broker.broker)), "{first}");
    let lines: Vec<_> = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        format!("listening {}, http://{}", broker.broker, broker.admin),
        "mode cluster".to_owned(),
        "zookeeper none".to_owned(),
        "registration this broker keeps away from ZooKeeper".to_owned(),
        "ready yes".to_owned(),
        "health good".to_owned(),
        "last reload none".to_owned(),
    ] {
        assert!(lines.contains(&expected), "no line '{expected}' in\n{shown}");
    }
    let retention = lines.iter().find(|line| line.starts_with("retention ")).unwrap();
    assert!(retention.starts_with("retention has not run yet, next in 0 d "), "{retention}");
    assert!(!retention.contains(';'), "{retention}");
    let output = admin(&broker, &["admin", "status", "--output", "json"]);
    assert_status(&output, 0);
    let status = &json_lines(&output)[0];
    assert_eq!((&status["broker_id"], &status["local"]), (&7.into(), &false.into()));
}

#[test]
fn a_reload_tells_what_changed_or_why_nothing_did() {
    let broker = Running::start();
    let ini = fs::read_to_string(broker.home.ini()).unwrap();
    assert!(done(&admin(&broker, &["admin", "reload"])).contains("what was in force already"));

    fs::write(broker.home.ini(), format!("{ini}\n[topic=added]\n")).unwrap();
    let output = admin(&broker, &["admin", "reload"]);
    let shown = done(&output);
    assert!(shown.starts_with("Reload config successfully.\n") && shown.contains("added"), "{shown}");
    assert!(done(&admin(&broker, &["topics", "list"])).contains("added"));
    assert!(done(&admin(&broker, &["admin", "status"])).contains("done 0 d 00:"));

    fs::write(broker.home.ini(), format!("{ini}\n[topic=more]\nnumPartition=2\n")).unwrap();
    let output = admin(&broker, &["admin", "reload"]);
    let why = failed(&output);
    assert!(why.contains("server.ini:") && why.contains("do you mean 'numPartitions'?"), "{why}");
    let output = admin(&broker, &["admin", "status"]);
    assert!(done(&output).contains("refused 0 d 00:") && done(&output).contains("numPartitions"));
    let output = admin(&broker, &["admin", "reload", "--output", "json"]);
    assert_status(&output, 1);
    assert!(json_lines(&output)[0]["fatal"].as_str().unwrap().contains("numPartitions"));

    fs::write(broker.home.ini(), format!("{ini}\n[topic=added]\nnumPartitions=9\n")).unwrap();
    let output = admin(&broker, &["admin", "reload", "--output", "json"]);
    assert_status(&output, 0);
    assert!(json_lines(&output)[0].to_string().contains("added"));
}

#[test]
fn a_broker_is_found_by_its_configuration_file() {
    let port = common::zookeeper::free_port();
    let system: &'static str = Box::leak(format!("dashboardHttpPort={port}").into_boxed_str());
    let broker = Running::with(Setup { system, ..Setup::default() });
    let file = broker.home.ini();
    assert!(done(&metaq(&["admin", "status", "-f", file.to_str().unwrap()])).contains("ready"));

    let chosen = Running::start();
    let output = metaq(&["admin", "status", "-f", chosen.home.ini().to_str().unwrap()]);
    assert!(failed(&output).contains("dashboardHttpPort=0 lets the system choose a port: give --admin"));
    let output = metaq(&["stats", "-f", chosen.home.ini().to_str().unwrap()]);
    assert!(failed(&output).contains("serverPort=0 lets the system choose a port: give --server"));
    assert!(failed(&metaq(&["admin", "status", "-f", "/nonexistent"])).contains("/nonexistent"));

    // The broker goes on with what it read; whoever looks after it must learn that it was not asked, and how to ask.
    let ini = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{ini}\n[topic=a/b]\n")).unwrap();
    for (command, option) in
        [(&["admin", "reload"] as &[&str], "--admin"), (&["topics", "list"], "--admin"), (&["stats"], "--server")]
    {
        let output = metaq(&[command, &["-f", file.to_str().unwrap()]].concat());
        let why = failed(&output);
        assert!(why.contains("nothing was asked") && why.contains(&format!("or give {option} HOST:PORT")), "{why}");
        assert!(why.contains("a topic name must not contain"), "{why}");
    }
}

#[test]
fn a_broker_stops_when_it_is_asked_to() {
    let mut broker = Running::start();
    assert_eq!(done(&admin(&broker, &["admin", "stop"])), "The broker is stopping.\n");
    assert!(broker.process.wait().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_partitions_take_nothing_until_they_are_opened() {
    let broker = Running::start();
    assert_eq!(done(&admin(&broker, &["partitions", "list"])), "no partition is closed\n");
    let close = ["partitions", "close", "--topic", "test", "--start", "0", "--end", "1"];
    assert!(done(&admin(&broker, &close)).starts_with("Partitions 0 to 1 of test are closed"));
    let mut client = broker.client().await;
    client.send(put_frame("test", 1, b"x", 1)).await;
    let refused = answer_text(&client.answer().await.unwrap());
    assert!(refused.contains("closed"), "{refused}");
    let listed = metaq(&["partitions", "list", "--admin", &broker.admin.to_string()]);
    assert_eq!(done(&listed).lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(), ["test", "0", "1"]);
    let listed = json_lines(&admin(&broker, &["partitions", "list", "--output", "json"]));
    assert_eq!((&listed[0]["topic"], &listed[0]["end"]), (&"test".into(), &1.into()));

    let close = ["partitions", "close", "--topic", "test", "--start", "0", "--end", "70000"];
    let output = admin(&broker, &close);
    assert!(done(&output).contains("numPartitions of test is "), "{output:?}");
    let close = ["partitions", "close", "--topic", "test", "--start", "1", "--end", "1"];
    let closed = "Partition 1 of test is closed for put and get, until it is opened or the broker is restarted.\n";
    assert_eq!(done(&admin(&broker, &close)), closed);

    assert_eq!(done(&admin(&broker, &["partitions", "open", "--topic", "test"])), "All partitions of test are open.\n");
    assert_eq!(client.put("test", 1, b"x").await, 0);
    let again = admin(&broker, &["partitions", "open", "--topic", "test"]);
    assert_eq!(done(&again), "No partition of test was closed.\n");
    let json = json_lines(&admin(&broker, &["partitions", "open", "--topic", "test", "--output", "json"]));
    assert_eq!(json[0]["opened"], false);

    let unknown = admin(&broker, &["partitions", "close", "--topic", "w-1", "--start", "0", "--end", "0"]);
    assert!(failed(&unknown).contains("no topic 'w-1' is configured"), "{unknown:?}");
    assert!(failed(&admin(&broker, &["partitions", "open", "--topic", "nope"])).contains("no topic 'nope'"));
    for (start, end) in [("-1", "0"), ("2", "1")] {
        let output = admin(&broker, &["partitions", "close", "--topic", "test", "--start", start, "--end", end]);
        failed(&output);
    }
    assert_status(&metaq(&["partitions", "close", "--topic", "test"]), 2);
    assert_status(&metaq(&["partitions", "close", "--topic", "a/b", "--start", "0", "--end", "0"]), 2);
}
