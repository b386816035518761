//! The command line, run as a user runs it.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::in_process::{Setup, TestBroker};
use common::output::{assert_status, json_lines, text};

/// A broker for commands that run in processes of their own.
struct Server {
    runtime: tokio::runtime::Runtime,
    broker: TestBroker,
}

impl Server {
    fn start(setup: Setup) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let broker = runtime.block_on(TestBroker::with(setup));
        Self { runtime, broker }
    }

    fn one_partition() -> Self {
        Self::start(Setup { topics: "[topic=test]\nnumPartitions=1\n", ..Setup::default() })
    }

    fn produce(&self, arguments: &[&str]) -> Output {
        metaq(&[&["produce", "--topic", "test", "--server", &self.broker.address().to_string()], arguments].concat())
    }

    fn consume(&self, arguments: &[&str]) -> Output {
        metaq(&[&["consume", "--topic", "test", "--server", &self.broker.address().to_string()], arguments].concat())
    }
}

fn metaq(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(arguments).stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

fn with_input(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// The names of an object's members, in their order on the line.
fn names(line: &str) -> Vec<&str> {
    line.trim_matches(['{', '}'])
        .split(",\"")
        .map(|part| part.trim_start_matches('"').split('"').next().unwrap())
        .collect()
}

#[test]
fn lines_go_in_and_come_back() {
    let server = Server::one_partition();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lines.txt");
    std::fs::write(&file, "first\r\n\nthird ünïcode\nlast without end").unwrap();
    let sent = server.produce(&[file.to_str().unwrap()]);
    assert_status(&sent, 0);
    assert!(text(&sent.stdout).starts_with("4 messages sent to test in "), "{}", text(&sent.stdout));
    let read = server.consume(&[]);
    assert_status(&read, 0);
    assert_eq!(text(&read.stdout), "first\n\nthird ünïcode\nlast without end\n");
}

#[test]
fn many_lines_keep_their_order() {
    let server = Server::one_partition();
    let input: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    let address = server.broker.address().to_string();
    let sent = with_input(command(&["produce", "--topic", "test", "--server", &address]), input.as_bytes());
    assert_status(&sent, 0);
    let read = server.consume(&[]);
    assert_status(&read, 0);
    assert!(read.stdout == input.as_bytes(), "the lines differ");
}

#[test]
fn a_file_can_be_one_message_and_standard_input_too() {
    let server = Server::one_partition();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("whole");
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i % 253) as u8).collect();
    std::fs::write(&file, &content).unwrap();
    assert_status(&server.produce(&["--whole", file.to_str().unwrap()]), 0);
    let address = server.broker.address().to_string();
    let arguments = ["produce", "--topic", "test", "--server", &address, "--whole", "-"];
    assert_status(&with_input(command(&arguments), b"a\nb\n"), 0);
    // The first message is larger than what a get asks for at first, and than the broker sends at a time.
    let refused = server.consume(&[]);
    assert_status(&refused, 1);
    assert!(text(&refused.stderr).contains("maxTransferSize must be raised"), "{}", text(&refused.stderr));
    let read = server.consume(&["--offset", "3000020"]);
    assert_status(&read, 0);
    assert_eq!(text(&read.stdout), "a\nb\n\n");
}

#[test]
fn a_message_larger_than_the_requested_size_is_asked_for_with_more() {
    let server = Server::one_partition();
    assert_status(&server.produce(&["--count", "3", "--size", "100000"]), 0);
    let read = server.consume(&["--max-size", "1000", "--output", "json", "--payload", "none"]);
    assert_status(&read, 0);
    let sizes: Vec<_> = json_lines(&read).iter().filter_map(|line| line["size"].as_u64()).collect();
    assert_eq!(sizes, [100_000; 3]);
}

#[test]
fn json_lines_are_those_that_the_reference_client_s_driver_prints() {
    let server = Server::one_partition();
    let sent = server.produce(&["--count", "2", "--payload-prefix", "p-", "--attribute", "attr", "--output", "json"]);
    assert_status(&sent, 0);
    let lines: Vec<&str> = text(&sent.stdout).lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(names(lines[0]), ["i", "ok", "broker", "partition", "offset", "id", "error"]);
    assert_eq!(names(lines[2]), ["summary", "ok", "failed", "ms"]);
    let sent = json_lines(&sent);
    assert_eq!((&sent[1]["i"], &sent[1]["offset"], &sent[1]["broker"]), (&1.into(), &31.into(), &(-1).into()));

    let read = server.consume(&["--output", "json", "--group", "g"]);
    assert_status(&read, 0);
    let lines: Vec<&str> = text(&read.stdout).lines().collect();
    assert_eq!(lines[0], r#"{"ready":true,"group":"g"}"#);
    assert_eq!(names(lines[1]), ["ok", "broker", "partition", "offset", "id", "attribute", "size", "payload"]);
    assert_eq!(lines[3], r#"{"summary":true,"received":2,"deliveries":2,"reason":"end"}"#);
    let read = json_lines(&read);
    assert_eq!(read[1]["id"], sent[0]["id"]);
    assert_eq!(
        (&read[2]["offset"], &read[2]["attribute"], &read[2]["payload"]),
        (&31.into(), &"attr".into(), &"p-1".into())
    );
    let base64 = json_lines(&server.consume(&["--output", "json", "--payload", "base64"]));
    assert_eq!(base64[1]["payload"], "cC0w");
}

#[test]
fn reading_begins_where_it_is_told_and_ends_where_it_is_told() {
    let server = Server::one_partition();
    assert_status(&server.produce(&["--count", "10"]), 0);
    let lines =
        |arguments: &[&str]| text(&server.consume(arguments).stdout).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&["--max", "2"]), ["m-0", "m-1"]);
    assert_eq!(lines(&["--from", "207"]), ["m-9"]);
    assert_eq!(lines(&["--from", "end"]), [""; 0]);
    assert_eq!(lines(&["--from-max"]), [""; 0]);
    assert_eq!(lines(&["--partition", "0", "--max", "1"]), ["m-0"]);
    assert_eq!(lines(&["--idle-ms", "50", "--from", "207"]), ["m-9"]);
    assert_status(&server.consume(&["--max", "10"]), 0);
    assert_status(&server.consume(&["--max", "11"]), 1);
    assert!(text(&server.consume(&["--max", "11"]).stderr).contains("1 message fewer than --max asks for"));
    assert_status(&server.consume(&["--from", "nowhere"]), 2);
    let inside = server.consume(&["--from", "3"]);
    assert_status(&inside, 1);
}

#[test]
fn a_topic_without_messages_is_read_to_its_end_at_once() {
    let server = Server::one_partition();
    let read = server.consume(&[]);
    assert_status(&read, 0);
    assert!(text(&read.stderr).contains("holds no messages of topic test"), "{}", text(&read.stderr));
    assert_status(&server.consume(&["--max", "1"]), 1);
}

#[test]
fn a_producer_goes_on_when_its_broker_comes_back() {
    let (_dir, config, address) = restartable();
    let mut broker = broker_process(&config);
    let mut producer = command(&["produce", "--topic", "test", "--server", &address, "--output", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = std::io::BufRead::lines(std::io::BufReader::new(producer.stdout.take().unwrap()));
    let mut input = producer.stdin.take().unwrap();
    let mut send = |line: &str| {
        input.write_all(line.as_bytes()).unwrap();
        answers.next().unwrap().unwrap()
    };
    assert!(send("before\n").contains(r#""ok":true"#));
    broker.kill().unwrap();
    broker.wait().unwrap();
    let mut broker = broker_process(&config);
    // The loss of the connection may be noticed by this message only.
    send("in between\n");
    assert!(send("after\n").contains(r#""ok":true"#));
    drop(input);
    producer.wait().unwrap();
    broker.kill().unwrap();
    broker.wait().unwrap();
}

#[test]
fn a_reader_with_blocked_output_ends_at_a_signal() {
    let server = Server::one_partition();
    assert_status(&server.produce(&["--count", "5000", "--size", "1000"]), 0);
    let address = server.broker.address().to_string();
    let mut reader =
        command(&["consume", "--topic", "test", "--server", &address]).stdout(Stdio::piped()).spawn().unwrap();
    // Something came, and then the pipe fills up.
    std::io::Read::read_exact(reader.stdout.as_mut().unwrap(), &mut [0; 100]).unwrap();
    let killed = Command::new("kill").args(["-TERM", &reader.id().to_string()]).status().unwrap();
    assert!(killed.success());
    // With 0 if the signal came before the pipe was full, with 1 if it had to be cut off; but it ends.
    assert!(reader.wait().unwrap().code().is_some(), "it was not ended by the signal itself");
}

#[test]
fn a_follower_sees_what_comes_and_outlives_a_broker_that_restarts() {
    let (_dir, config, address) = restartable();
    let mut broker = broker_process(&config);
    let mut follower = command(&["consume", "--topic", "test", "--server", &address, "--follow", "--max", "4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let produce =
        |count| assert_status(&metaq(&["produce", "--topic", "test", "--server", &address, "--count", count]), 0);
    produce("2");
    // One that has not begun yet when the broker goes away would not begin at all.
    let mut seen = [0; 8];
    std::io::Read::read_exact(follower.stdout.as_mut().unwrap(), &mut seen).unwrap();
    assert_eq!(&seen, b"m-0\nm-1\n");
    broker.kill().unwrap();
    broker.wait().unwrap();
    let mut broker = broker_process(&config);
    produce("2");
    let output = follower.wait_with_output().unwrap();
    broker.kill().unwrap();
    broker.wait().unwrap();
    assert_status(&output, 0);
    assert_eq!(text(&output.stdout), "m-0\nm-1\n");
}

/// A directory with the configuration of a broker whose port stays the same over a restart, and its address.
fn restartable() -> (tempfile::TempDir, std::path::PathBuf, String) {
    let dir = tempfile::tempdir().unwrap();
    let port = common::zookeeper::free_port();
    let config = dir.path().join("server.ini");
    std::fs::write(&config, server_ini(dir.path(), port, "")).unwrap();
    (dir, config, format!("127.0.0.1:{port}"))
}

fn server_ini(dir: &Path, port: u16, more: &str) -> String {
    format!(
        "[system]\nbrokerId=0\nhostName=127.0.0.1\nserverPort={port}\ndashboardHttpPort=0\nnumPartitions=1\nunflushThreshold=0\n\
         unflushInterval=1000\nmaxSegmentSize=1048576\nmaxTransferSize=1048576\ndataPath={}\n{more}\n\
         [zookeeper]\nzk.zkEnable=false\n[topic=test]\n",
        dir.join("data").display()
    )
}

/// A broker in a process of its own that can be connected to.
fn broker_process(config: &Path) -> std::process::Child {
    use std::io::BufRead as _;

    let mut child = command(&["broker", "-f", config.to_str().unwrap()]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let mut log = String::new();
    for line in lines.by_ref() {
        let line = line.unwrap();
        if line.starts_with("READY meta://127.0.0.1:") {
            // Goes on reading, so that the broker never waits for us.
            std::thread::spawn(move || lines.for_each(drop));
            return child;
        }
        log.push_str(&line);
    }
    panic!("the broker did not start and ended with {:?}: {log}", child.wait());
}

#[test]
fn what_cannot_be_done_is_told_with_a_failing_exit_status() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for command in ["produce", "consume"] {
        let output = metaq(&[command, "--topic", "test", "--server", &nobody]);
        assert_status(&output, 1);
        assert!(text(&output.stderr).contains(&format!("cannot connect to {nobody}")), "{}", text(&output.stderr));
        let output = metaq(&[command, "--topic", "test", "--server", &nobody, "--output", "json"]);
        assert_status(&output, 1);
        assert!(json_lines(&output)[0]["fatal"].as_str().unwrap().contains("cannot connect"));
        assert_status(&metaq(&[command, "--topic", "test"]), 2);
        assert_status(&metaq(&[command, "--topic", "a/b", "--server", &nobody]), 2);
        let causes = text(&metaq(&[command, "--topic", "test", "--server", &nobody]).stderr).matches("refused").count();
        assert_eq!(causes, 1, "the cause is told once");
        assert_status(&metaq(&[command, "--topic", "test", "--server", "x:y"]), 1);
    }
    let server = Server::one_partition();
    let address = server.broker.address().to_string();
    let refused = metaq(&["produce", "--topic", "nope", "--server", &address, "--count", "2"]);
    assert_status(&refused, 1);
    assert!(text(&refused.stderr).contains("The server do not accept topic nope"), "{}", text(&refused.stderr));
    let refused = metaq(&["produce", "--topic", "nope", "--server", &address, "--count", "1", "--output", "json"]);
    assert_eq!(json_lines(&refused)[0]["ok"], false);
    let missing = server.produce(&["/nonexistent/file"]);
    assert_status(&missing, 1);
    assert!(text(&missing.stderr).contains("/nonexistent/file"));
    assert_status(&server.consume(&["--partition", "7"]), 0);
    let blank = metaq(&["consume", "--topic", "a b", "--server", &address, "--partition", "0"]);
    assert_status(&blank, 1);
    assert!(text(&blank.stderr).contains("cannot be sent"), "{}", text(&blank.stderr));
    drop(server.runtime);
}

#[test]
fn a_configuration_is_checked_with_every_error_and_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good.ini");
    std::fs::write(&good, server_ini(dir.path(), 0, "")).unwrap();
    let output = metaq(&["config", "check", good.to_str().unwrap()]);
    assert_status(&output, 0);

    let bad = dir.path().join("bad.ini");
    std::fs::write(
        &bad,
        "[system]\nbrokerId=abc\nserverPort=1\nnumPartition=3\n[zookeeper]\nzk.zkEnable=maybe\n\
        [topic=t]\ndeleteWhen=0 0 24 * * ?\n",
    )
    .unwrap();
    let output = metaq(&["config", "check", bad.to_str().unwrap()]);
    assert_status(&output, 1);
    let errors = text(&output.stderr);
    for expected in [
        "bad.ini:2: ",
        "bad.ini:4: Invalid config key:numPartition,do you mean 'numPartitions'?",
        "bad.ini:6: ",
        "bad.ini:8: deleteWhen=0 0 24 * * ?: Hour values must be between 0 and 23 (in the field hour, '24')",
    ] {
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
    let token = dir.path().join("token");
    let ini = server_ini(dir.path(), 0, "")
        .replace("[topic", &format!("[metaq]\nadminTokenFile={}\n[topic", token.display()));
    std::fs::write(&good, ini).unwrap();
    assert_status(&metaq(&["config", "check", good.to_str().unwrap()]), 0);
    let output = metaq(&["config", "check", "--start", good.to_str().unwrap()]);
    assert_status(&output, 1);
    assert!(text(&output.stderr).starts_with("metaq: adminTokenFile="), "{output:?}");

    assert_status(&metaq(&["config", "check", "/nonexistent"]), 1);
    assert_status(&metaq(&["config", "check", dir.path().to_str().unwrap()]), 1);
}

#[test]
fn the_values_in_force_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.ini");
    std::fs::write(&file, server_ini(dir.path(), 8123, "unflushThreshold=500 * 2")).unwrap();
    let output = metaq(&["config", "show", file.to_str().unwrap(), "--output", "json"]);
    assert_status(&output, 0);
    let shown = &json_lines(&output)[0];
    assert_eq!(shown["system"]["unflushThreshold"], 1000);
    assert_eq!(shown["system"]["deletePolicy"], "delete,168");
    assert_eq!(shown["zookeeper"]["zk.zkEnable"], false);
    let output = metaq(&["config", "show", file.to_str().unwrap()]);
    assert_status(&output, 0);
    std::fs::write(&file, &output.stdout).unwrap();
    assert_status(&metaq(&["config", "check", file.to_str().unwrap()]), 0);
}

#[test]
fn the_next_runs_of_an_expression_are_shown_in_local_time() {
    let next_runs = |zone: &str, arguments: &[&str]| {
        let arguments = [&["config", "next-runs"], arguments].concat();
        command(&arguments).env("TZ", zone).output().unwrap()
    };
    // A rule needs no files of the system: New York, where clocks are changed on 14 March 2027.
    let zone = "EST5EDT,M3.2.0,M11.1.0";
    let after = ["--after", "2027-03-12T12:00:00"];
    let output = next_runs(zone, &[&["0 30 2 * * ?", "-n", "3", "--output", "json"], &after[..]].concat());
    assert_status(&output, 0);
    let lines = json_lines(&output);
    let times: Vec<_> = lines.iter().map(|line| line["time"].as_str().unwrap()).collect();
    assert_eq!(times, ["2027-03-13T02:30:00-05:00", "2027-03-15T02:30:00-04:00", "2027-03-16T02:30:00-04:00"]);
    assert_eq!(lines[0]["time_zone"], zone);
    assert_eq!(lines[0]["timestamp_ms"], 1_804_923_000_000_i64);
    assert!(lines[1]["in_seconds"].as_i64() > lines[0]["in_seconds"].as_i64());

    let output = next_runs("UTC", &["0 0 6,18 * * ?", "--after", "2026-11-30T17:30:00+00:00"]);
    assert_status(&output, 0);
    let lines: Vec<_> = text(&output.stdout).lines().collect();
    assert_eq!((lines.len(), lines[0]), (6, "time zone UTC"));
    assert!(lines[1].starts_with("2026-11-30T18:00:00+00:00  "), "{}", lines[1]);
    let output = next_runs("UTC", &["0 0 0 1 1 ? 2299", "--after", "2026-11-30T17:30:00"]);
    assert_status(&output, 0);
    assert!(text(&output.stdout).contains("2299-01-01T00:00:00+00:00  in "));
    assert!(text(&output.stderr).contains("no run after that"), "{}", text(&output.stderr));

    assert_status(&next_runs("UTC", &["0 0 0 31 4 ?"]), 1);
    for (arguments, expected) in [
        (&["0 6 * * *"][..], "Unexpected end of expression."),
        (&["0 0 24 * * ?"], "Hour values must be between 0 and 23 (in the field hour, '24')"),
        (&["0 0 6 * * ?", "--after", "soon"], "2026-11-30T17:30:00"),
        (&["0 0 6 * * ?", "-n", "0"], "1..=10000"),
        (&[], "<EXPR>"),
    ] {
        let output = next_runs("UTC", arguments);
        assert_status(&output, 2);
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_broker_that_cannot_start_says_why_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.ini");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(&file, server_ini(dir.path(), taken.local_addr().unwrap().port(), "")).unwrap();
    let path = file.to_str().unwrap();
    let bad = dir.path().join("bad.ini");
    std::fs::write(&bad, "[system]\nbrokerId=0\nbroken line\n").unwrap();
    let when = dir.path().join("when.ini");
    std::fs::write(&when, server_ini(dir.path(), 0, "deleteWhen=0 0 6 * * *")).unwrap();
    for (arguments, expected) in [
        (vec!["broker", "-f", path], "start remoting server failed"),
        (vec!["broker", "-f", "/nonexistent"], "File /nonexistent is not exists"),
        (vec!["broker", "-f", bad.to_str().unwrap()], "bad.ini:3: parse error (at line: 3): broken line"),
        (vec!["broker", "-f", when.to_str().unwrap()], "deleteWhen=0 0 6 * * *: Support for specifying both"),
        (vec!["broker", "-f", path, "-Fnope=x"], "unknown broker plugin:nope"),
        (vec!["broker", "-f", path, "-Fmetaslave=x"], "not available in this release"),
    ] {
        let output = metaq(&arguments);
        assert_status(&output, 1);
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_status(&metaq(&["broker"]), 2);
    assert_status(&metaq(&["broker", "-f", ""]), 2);
}

#[test]
fn a_bare_file_name_is_found_in_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("server.ini"), "[system]\nbrokerId=5000\n").unwrap();
    let output = command(&["broker", "-f", "server.ini"]).current_dir(dir.path()).output().unwrap();
    assert_status(&output, 1);
    assert!(text(&output.stderr).contains("worker Id can't be greater than 1023 or less than 0"));
}

#[test]
fn the_version_is_told() {
    let output = metaq(&["--version"]);
    assert_status(&output, 0);
    assert_eq!(text(&output.stdout), format!("metaq {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let server = Server::one_partition();
    assert_status(&server.produce(&["--count", "20000"]), 0);
    let address = server.broker.address().to_string();
    let mut child = command(&["consume", "--topic", "test", "--server", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 4];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn whoever_names_no_broker_is_told_of_both_ways() {
    for command in [&["produce", "--topic", "t"] as &[&str], &["consume", "--topic", "t"]] {
        let output = metaq(command);
        assert_status(&output, 2);
        assert!(text(&output.stderr).contains("<--zk <HOST:PORT>|--server <HOST:PORT>>"), "{output:?}");
        let both = metaq(&[command, &["--zk", "h:1", "--server", "h:1"]].concat());
        assert_status(&both, 2);
    }
}
