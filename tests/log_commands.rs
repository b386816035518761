//! `metaq log`, run as a user runs it, on commit logs that are written here byte by byte (08 §1–2).

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use common::in_process::{Setup, TestBroker};
use common::output::{assert_status, json_lines, text};
use metaq::id::MessageId;
use metaq::message::{RecordHeader, checksum};
use serde_json::{Value, json};
use tempfile::TempDir;

const LOG_ID: u64 = 0xabc;

fn record(id: i64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let length = i32::try_from(body.len()).unwrap();
    RecordHeader { length, checksum: checksum(body), id: MessageId::new(id), flag: 0 }.encode(&mut out);
    out.extend_from_slice(body);
    out
}

/// A log file of topic `test`, partition 0: each frame is offset and records, in segment 0.
fn log_file(number: u64, first_sequence: u64, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let header = [LOG_ID, number, first_sequence].map(u64::to_be_bytes).concat();
    let mut file = [&b"MQCL\0\0\0\x01"[..], &header].concat();
    file.resize(4092, 0);
    file.extend(crc32fast::hash(&file).to_be_bytes());
    for ((offset, records), sequence) in frames.iter().zip(first_sequence..) {
        let body = [&b"\x04test\0\0\0\0"[..], &0_u64.to_be_bytes(), &offset.to_be_bytes(), records].concat();
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        let content = [&len[..], &sequence.to_be_bytes(), &(sequence - 1).to_be_bytes(), b"\x01", &body].concat();
        let seed = [LOG_ID.to_be_bytes(), number.to_be_bytes()].concat();
        file.extend(crc32fast::hash(&[&seed[..], &content].concat()).to_be_bytes());
        file.extend(content);
    }
    file
}

/// A broker's directory with a configuration.
struct Stopped {
    dir: TempDir,
}

impl Stopped {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("data/transactions")).unwrap();
        let ini = format!(
            "[system]\nbrokerId=0\nhostName=127.0.0.1\nserverPort=0\ndashboardHttpPort=0\nnumPartitions=1\nunflushThreshold=0\n\
             unflushInterval=10000\nmaxSegmentSize=1048576\nmaxTransferSize=1048576\ndataPath={}\n[zookeeper]\n\
             zk.zkEnable=false\n[topic=test]\n",
            dir.path().join("data").display()
        );
        fs::write(dir.path().join("server.ini"), ini).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    fn segment(&self) -> PathBuf {
        self.path("test-0/00000000000000000000.meta")
    }

    /// With messages of another broker in the place of those in the log.
    fn in_quarantine() -> Self {
        let stopped = Self::new();
        fs::create_dir(stopped.path("test-0")).unwrap();
        fs::write(stopped.segment(), [record(1, b"ours"), record(900, b"theirs")].concat()).unwrap();
        let frames = [(0, record(1, b"ours")), (24, record(2, b"second")), (50, record(3, b"third"))];
        fs::write(stopped.path("transactions/commitlog.7"), log_file(7, 5, &frames)).unwrap();
        let output = stopped.run(&["recover"]);
        assert_status(&output, 1);
        assert!(text(&output.stdout).contains("test-0: in quarantine, 0 bytes written, 24 bytes were there"));
        stopped
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let ini = self.dir.path().join("server.ini");
        let arguments = [&["log", arguments[0], "-f", ini.to_str().unwrap()], &arguments[1..]].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        command.args(arguments).stdin(Stdio::null()).env("RUST_LOG", "error").output().unwrap()
    }

    /// Names of the files of our own.
    fn state(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(self.path("transactions")).unwrap().map(name).collect();
        names.sort();
        names
    }

    async fn start(self) -> TestBroker {
        TestBroker::in_dir(self.dir, Setup::default()).await.unwrap()
    }
}

#[test]
fn recover_leaves_a_directory_as_a_clean_stop_does() {
    let stopped = Stopped::new();
    let frames = [(0, record(1, b"first")), (25, record(2, b"second"))];
    fs::write(stopped.path("transactions/commitlog.7"), log_file(7, 5, &frames)).unwrap();
    let output = stopped.run(&["recover", "--output", "json"]);
    assert_status(&output, 0);
    let partition = json!({
        "topic": "test", "partition": 0, "outcome": "applied", "written_bytes": 51, "present_bytes": 0,
        "removed_bytes": 0, "reason": null,
    });
    let expected = json!({ "clean_stop": false, "log_files": 1, "frames": 2, "partitions": [partition] });
    assert_eq!(json_lines(&output), [expected]);
    assert_eq!(fs::read(stopped.segment()).unwrap(), [record(1, b"first"), record(2, b"second")].concat());
    assert_eq!(stopped.state(), ["clean.stop"]);
    let output = stopped.run(&["recover"]);
    assert_status(&output, 0);
    assert_eq!(text(&output.stdout), "nothing to do: the broker was stopped cleanly\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_while_a_broker_runs() {
    let stopped = Stopped::new();
    let ini = stopped.dir.path().join("server.ini");
    let _broker = stopped.start().await;
    for arguments in [&["recover"][..], &["resolve", "test", "0", "--append"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        command.arg("log").arg(arguments[0]).arg("-f").arg(&ini).args(&arguments[1..]);
        let output = command.output().unwrap();
        assert_status(&output, 1);
        let error = text(&output.stderr);
        assert!(error.contains("is in use by another broker") && error.contains("stop that one"), "{error}");
    }
}

#[test]
fn dump_shows_files_frames_and_the_end_and_changes_nothing() {
    let stopped = Stopped::new();
    assert_eq!(text(&stopped.run(&["dump"]).stdout), "there is no commit log\n");
    let frames = [(0, record(1, b"first")), (25, record(2, b"second"))];
    let log = stopped.path("transactions/commitlog.7");
    fs::write(&log, [log_file(7, 5, &frames), vec![0; 500]].concat()).unwrap();
    fs::write(stopped.path("transactions/commitlog.8"), [0; 5000]).unwrap();
    let output = stopped.run(&["dump", "--frames"]);
    assert_status(&output, 0);
    let frame_len = 25 + 5 + 4 + 16 + 25;
    let expected = format!(
        "file {log}: number 7 of log 0000000000000abc, from frame 5, 0 checkpoints, {} bytes\n\
         file {}: spare, 5000 bytes\n\
         frame 5 at byte 4096 of commitlog.7, {frame_len} bytes, durable up to 4: test-0 at offset 0 in segment 0, 25 bytes \
         of messages\n\
         frame 6 at byte {} of commitlog.7, {} bytes, durable up to 5: test-0 at offset 25 in segment 0, 26 bytes of \
         messages\n\
         end after 2 frames: no frame 7 at byte {} of {log}\n\
         nothing shows that more was durable: a torn end, or the end\n",
        4096 + 2 * frame_len + 1 + 500,
        stopped.path("transactions/commitlog.8").display(),
        4096 + frame_len,
        frame_len + 1,
        4096 + 2 * frame_len + 1,
        log = log.display(),
    );
    assert_eq!(text(&output.stdout), expected);
    let json = json_lines(&stopped.run(&["dump", "--output", "json"]));
    let types: Vec<_> = json.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["file", "blank_file", "end"]);
    assert_eq!((&json[2]["next_sequence"], &json[2]["damage"]), (&json!(7), &Value::Null));
    assert_eq!(stopped.state(), ["commitlog.7", "commitlog.8"]);
}

#[test]
fn dump_tells_damage_and_a_start_is_refused_with_the_same_words() {
    let stopped = Stopped::new();
    let frames = [(0, record(1, b"first")), (25, record(2, b"second")), (51, record(3, b"third"))];
    let mut log = log_file(7, 5, &frames);
    log[4096 + 40] ^= 1;
    fs::write(stopped.path("transactions/commitlog.7"), &log).unwrap();
    fs::write(stopped.path("transactions/quarantine.test-0"), b"junk").unwrap();
    let output = stopped.run(&["dump"]);
    assert_status(&output, 1);
    let shown = text(&output.stdout);
    for expected in [
        "end after 0 frames: no frame 5 at byte 4096",
        "the commit log is damaged: frame 5 is missing at byte 4096",
        "problem: ",
        "quarantine.test-0 is damaged at byte 0",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let output = stopped.run(&["recover"]);
    assert_status(&output, 1);
    assert!(text(&output.stderr).contains("the commit log is damaged: frame 5 is missing at byte 4096"));
    assert_eq!(stopped.state(), ["commitlog.7", "quarantine.test-0"]);
    let other = log_file(8, 5, &frames);
    let other = [&other[..8], &[1], &other[9..4092]].concat();
    let other = [&other[..], &crc32fast::hash(&other).to_be_bytes()].concat();
    fs::write(stopped.path("transactions/commitlog.8"), other).unwrap();
    let output = stopped.run(&["dump"]);
    assert_status(&output, 1);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("belong to two different commit logs") && shown.matches("end after").count() == 2,
        "{shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_in_quarantine_are_appended_when_the_operator_says_so() {
    let stopped = Stopped::in_quarantine();
    assert_eq!(stopped.state(), ["clean.stop", "quarantine.test-0"]);
    let output = stopped.run(&["resolve", "test", "0", "--append", "--output", "json"]);
    assert_status(&output, 0);
    let [resolved] = &json_lines(&output)[..] else { panic!() };
    assert_eq!((&resolved["messages"], &resolved["bytes"]), (&json!(2), &json!(51)));
    assert_eq!((&resolved["old_offset"], &resolved["new_offset"]), (&json!(24), &json!(50)));
    let all = [record(1, b"ours"), record(900, b"theirs"), record(2, b"second"), record(3, b"third")].concat();
    assert_eq!(fs::read(stopped.segment()).unwrap(), all);
    assert_eq!(stopped.state(), ["clean.stop", "quarantine.test-0.resolved"]);
    let broker = stopped.start().await;
    let mut client = broker.connect().await;
    assert_eq!(client.get("test", 0, 0).await.unwrap(), all);
    client.put("test", 0, b"and more").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_stays_closed_until_the_operator_keeps_its_segment_and_that_can_be_undone() {
    let stopped = Stopped::in_quarantine();
    let ini = fs::read(stopped.dir.path().join("server.ini")).unwrap();
    let broker = stopped.start().await;
    let mut client = broker.connect().await;
    let refused = client.ask("put test 0 1 0 -1 5\r\nx").await;
    assert!(
        refused.starts_with("result 500 ")
            && refused.contains("takes no more messages: messages of it are set aside in ")
            && refused.contains("metaq log resolve -f server.ini test 0"),
        "{refused}"
    );
    assert_eq!(client.get("test", 0, 0).await.unwrap().len(), 50, "what is there is served");
    drop(client);
    let stopped = Stopped { dir: broker.stop().await };
    fs::write(stopped.dir.path().join("server.ini"), ini).unwrap();

    let resolved = stopped.path("transactions/quarantine.test-0.resolved");
    for _ in 0..2 {
        let output = stopped.run(&["resolve", "test", "0", "--keep-segment"]);
        assert_status(&output, 0);
        let shown = text(&output.stdout);
        assert!(shown.contains("2 messages (51 bytes), which began at offset 24, were not brought in"), "{shown}");
        assert!(shown.contains(&format!("kept in {}", resolved.display())), "{shown}");
        fs::rename(&resolved, stopped.path("transactions/quarantine.test-0")).unwrap();
    }
    assert_status(&stopped.run(&["resolve", "test", "0", "--keep-segment"]), 0);
    let broker = stopped.start().await;
    let mut client = broker.connect().await;
    client.put("test", 0, b"x").await;
    assert_eq!(client.get("test", 0, 0).await.unwrap().len(), 71);
}

#[test]
fn a_decision_needs_something_to_decide_and_is_never_guessed() {
    let stopped = Stopped::new();
    let output = stopped.run(&["resolve", "test", "0", "--append"]);
    assert_status(&output, 1);
    assert!(text(&output.stderr).contains("no messages of this partition are in quarantine"));
    assert_status(&stopped.run(&["resolve", "test", "0"]), 2);
    assert_status(&stopped.run(&["resolve", "test", "0", "--append", "--keep-segment"]), 2);
}
