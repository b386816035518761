//! `metaq consume --group`, the real binary.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::output::{assert_status, json_lines, text};
use crate::common::process::Process;
use crate::common::wait_until;
use crate::rig::{Rig, texts};

fn command(rig: &Rig, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["consume", "--topic", "t", "--zk", &rig.broker.zookeeper_address(), "--zk-session-ms", "2000"]);
    command.args(arguments).stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// Runs it to its end beside the broker.
async fn consume(rig: &Rig, arguments: &[&str]) -> Output {
    let mut command = command(rig, arguments);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn payloads(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter(|line| line["ok"] == true).map(|line| line["payload"].as_str().unwrap()).collect()
}

const JSON: [&str; 6] = ["--group", "g", "--output", "json", "--commit-ms", "50"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_lines_are_those_of_the_reference_client_s_driver_and_the_group_goes_on_where_it_stopped() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let read = consume(&rig, &[&JSON[..], &["--max", "2", "--consumer-id", "me"]].concat()).await;
    assert_status(&read, 0);
    let lines: Vec<_> = text(&read.stdout).lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0], r#"{"ready":true,"group":"g"}"#);
    let first = &json_lines(&read)[1];
    let shown = ["ok", "broker", "partition", "offset", "attribute", "size", "payload"].map(|name| first[name].clone());
    assert_eq!(shown, [true.into(), 0.into(), 0.into(), 0.into(), Value::Null, 2.into(), "m0".into()]);
    assert_eq!(lines[3], r#"{"summary":true,"received":2,"deliveries":2,"reason":"max"}"#);
    assert!(rig.tree.members("g").await.is_empty() && rig.tree.owners("g").await.is_empty());

    let rest = consume(&rig, &[&JSON[..], &["--idle-ms", "300"]].concat()).await;
    assert_status(&rest, 0);
    let lines = json_lines(&rest);
    assert_eq!((payloads(&lines), &lines[2]["reason"]), (vec!["m2"], &"idle".into()));
    // Fewer than asked for.
    let none = consume(&rig, &[&JSON[..], &["--idle-ms", "100", "--max", "1"]].concat()).await;
    assert_status(&none, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_payloads_alone() {
    let rig = Rig::start(1).await;
    rig.send(0, ["one", "", "three"]).await;
    let read = consume(&rig, &["--group", "g", "--max", "3"]).await;
    assert_status(&read, 0);
    assert_eq!((text(&read.stdout), text(&read.stderr)), ("one\n\nthree\n", ""));
    let fewer = consume(&rig, &["--group", "g", "--max", "2", "--idle-ms", "100"]).await;
    assert_status(&fewer, 1);
    assert!(text(&fewer.stderr).contains("2 messages fewer than --max asks for (idle)"), "{}", text(&fewer.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_that_fail_on_purpose_come_again_before_anything_behind_them() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 4)).await;
    let arguments = ["--fail-every", "2", "--max", "4", "--max-delay-ms", "50", "--no-id-cache"];
    let read = consume(&rig, &[&JSON[..], &arguments].concat()).await;
    assert_status(&read, 0);
    let lines = json_lines(&read);
    let shown: Vec<_> = lines.iter().filter(|line| line["payload"].is_string()).collect();
    let shown: Vec<_> = shown.iter().map(|line| (line["payload"].as_str().unwrap(), line["ok"] == true)).collect();
    let expected =
        [("m0", true), ("m1", false), ("m1", true), ("m2", false), ("m2", true), ("m3", false), ("m3", true)];
    assert_eq!(shown, expected);
    assert_eq!((&lines[8]["received"], &lines[8]["deliveries"]), (&4.into(), &7.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_the_partitions_and_term_leaves_cleanly() {
    let rig = Rig::start(10).await;
    let start = |id: &str| {
        let arguments = [&JSON[..], &["--strategy", "consist", "--consumer-id", id]].concat();
        let process = Process::start(id, &mut command(&rig, &arguments), None);
        process.wait_for_line("\"ready\":true");
        process
    };
    let (mut a, mut b) = tokio::task::block_in_place(|| (start("a"), start("b")));
    let owned_by_a = async || rig.tree.owners("g").await.values().filter(|owner| *owner == "g_a").count();
    crate::common::eventually("the shares of consistent hashing", async || {
        match (owned_by_a().await, rig.tree.owners("g").await.len()) {
            (5, 10) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Partition 0-1 is a's, 0-0 is b's (05 §7, case C2).
    rig.send(1, ["for a"]).await;
    rig.send(0, ["for b"]).await;
    tokio::task::block_in_place(|| {
        a.wait_for_line("for a");
        b.wait_for_line("for b");
        assert!(a.terminate().success());
    });
    crate::common::eventually("b has everything", async || match rig.tree.owners("g").await {
        owners if owners.len() == 10 && owners.values().all(|owner| owner == "g_b") => Ok(()),
        owners => Err(format!("{owners:?}")),
    })
    .await;
    rig.send(1, ["now for b"]).await;
    tokio::task::block_in_place(|| {
        b.wait_for_line("now for b");
        assert!(b.terminate().success());
    });
    let summary: Value = serde_json::from_str(b.printed().last().unwrap()).unwrap();
    // Nothing was repeated at the hand-over.
    assert_eq!((&summary["received"], &summary["reason"]), (&2.into(), &"stopped".into()));
    assert!(rig.tree.members("g").await.is_empty() && rig.tree.owners("g").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_can_begin_at_the_end() {
    let rig = Rig::start(1).await;
    rig.send(0, ["old"]).await;
    let mut process = tokio::task::block_in_place(|| {
        let process = Process::start("consumer", &mut command(&rig, &[&JSON[..], &["--from-max"]].concat()), None);
        process.wait_for_line("\"ready\":true");
        process
    });
    crate::common::eventually("the end is known", async || match rig.tree.offset("g", 0).await {
        Some(offset) if offset.get() == 23 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    rig.send(0, ["new"]).await;
    tokio::task::block_in_place(|| {
        process.wait_for_line("\"new\"");
        assert!(process.terminate().success());
    });
    assert!(!process.printed().iter().any(|line| line.contains("\"old\"")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_can_be_kept_in_a_file() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("offsets");
    let in_file = ["--offset-storage", "file", "--offset-file", file.to_str().unwrap()];
    let first = consume(&rig, &[&JSON[..], &in_file, &["--max", "2"]].concat()).await;
    assert_status(&first, 0);
    assert_eq!(payloads(&json_lines(&first)), ["m0", "m1"]);
    assert_eq!(rig.tree.offset("g", 0).await, None);
    let stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&stored["g"][0]["topic"], &stored["g"][0]["offset"]), (&"t".into(), &44.into()));
    let second = consume(&rig, &[&JSON[..], &in_file, &["--max", "1"]].concat()).await;
    assert_status(&second, 0);
    assert_eq!(payloads(&json_lines(&second)), ["m2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_use_is_refused_and_says_what_is_right() {
    let rig = Rig::start(1).await;
    for (arguments, said) in [
        (&["--group", "g", "--partition", "0-0"][..], "--partition is for reading without --group"),
        (&["--group", "g", "--follow"], "--follow is for reading without --group"),
        (&["--group", "g", "--offset-file", "x"], "--offset-file needs --offset-storage file"),
        (&["--group", "a b"], "Group name has invalid character"),
        (&["--group", "g", "--strategy", "fair"], "possible values: default, consist"),
        (&["--group", "g", "--fail-every", "0"], "--fail-every"),
        (&["--group", "g", "--from-max", "--from", "end"], "cannot be used with"),
        (&["--group", "g", "--consumer-id", "a/b"], "cannot be part of a ZooKeeper path"),
        (&["--fail-every", "2"], "--group"),
    ] {
        let refused = consume(&rig, arguments).await;
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(text(&refused.stderr).contains(said), "{arguments:?}: {}", text(&refused.stderr));
    }
    // Nothing was begun by any of them.
    assert!(rig.tree.members("g").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_output_nobody_takes_any_more_leaves_its_group() {
    let rig = Rig::start(1).await;
    rig.send(0, ["taken"]).await;
    let mut process = command(&rig, &["--group", "g"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let first = tokio::task::block_in_place(|| {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    });
    assert_eq!(first, "taken\n");
    drop(output);
    rig.send(0, ["not taken"]).await;
    tokio::task::block_in_place(|| wait_until("it ends", || process.try_wait().unwrap().is_some()));
    assert!(rig.tree.members("g").await.is_empty() && rig.tree.owners("g").await.is_empty());
    // What was not printed is the next member's.
    assert_eq!(rig.tree.offset("g", 0).await.map(metaq::id::Offset::get), Some(25));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_pauses_between_messages_ends_in_good_order_when_it_is_told_to() {
    let rig = Rig::start(1).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["produce", "--topic", "t", "--zk", &rig.broker.zookeeper_address(), "--zk-session-ms", "2000"]);
    command.args(["--count", "2", "--interval-ms", "3600000", "--output", "json"]).env_remove("RUST_LOG");
    tokio::task::block_in_place(|| {
        let mut process = Process::start("producer", &mut command, None);
        process.wait_for_line("\"ok\":true");
        assert!(process.terminate().success());
        assert!(process.printed().iter().any(|line| line.contains("\"summary\":true")), "{:?}", process.printed());
    });
}

/// Standard error is where a person looks when nothing comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_cannot_be_read_on_is_told_of() {
    let rig = Rig::start(1).await;
    rig.send(0, ["first".to_owned(), "x".repeat(3 << 20), "last".to_owned()]).await;
    let read = consume(&rig, &["--group", "g", "--max-delay-ms", "50", "--idle-ms", "1500"]).await;
    assert_status(&read, 0);
    assert_eq!(text(&read.stdout), "first\n");
    let told = text(&read.stderr);
    let lines = told.lines().filter(|line| line.contains("the partition cannot be read on from here"));
    assert_eq!(lines.count(), 1, "{told}");
}
