//! Instructions for one message on the busy paths, counted by valgrind: a gate for speed that does not depend on how busy
//! the machine is.
//!
//! `benches/instructions.rs` has the workloads, `benches/instructions.toml` what is recorded for them.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Percent above what is recorded at which the test fails.
const TOLERANCE: u64 = 10;

/// Writes what is counted into the file instead of comparing it.
const RECORD: &str = "METAQ_RECORD_INSTRUCTIONS";

const RECORDED: &str = "benches/instructions.toml";

#[test]
fn no_message_takes_more_instructions_than_recorded() {
    // The counts hold for one instruction set; which one is seldom of interest to what is changed here.
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return println!("skipped: instructions are recorded for Linux on x86-64 only");
    }
    if !has_valgrind() {
        return println!("skipped: valgrind is not installed (apt-get install valgrind)");
    }
    let workloads = build();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDED);
    let mut text = fs::read_to_string(&path).unwrap();
    let mut above = Vec::new();
    for (name, recorded) in entries(&text) {
        let counted = count(&workloads, &name);
        println!("{name}: {counted} instructions for a message, {recorded} recorded");
        text = text.replace(&format!("\n{name} = {recorded}\n"), &format!("\n{name} = {counted}\n"));
        if counted > recorded + recorded * TOLERANCE / 100 {
            above.push(format!("{name}: {counted} instead of {recorded}"));
        } else if counted < recorded - recorded * TOLERANCE / 100 {
            println!("{name}: so much less is worth recording: {RECORD}=1 cargo test --test instruction_counts");
        }
    }
    if std::env::var_os(RECORD).is_some() {
        return fs::write(&path, text).unwrap();
    }
    assert!(
        above.is_empty(),
        "more instructions for a message than {RECORDED} has, by more than {TOLERANCE} %: {}\n\
         Find out where with callgrind_annotate {}/callgrind.<name>.out. If it is worth it, record it with\n\
         {RECORD}=1 cargo test --test instruction_counts",
        above.join(", "),
        env!("CARGO_TARGET_TMPDIR"),
    );
}

fn has_valgrind() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Lines `name = number`.
fn entries(text: &str) -> Vec<(String, u64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let entries: Vec<_> = lines
        .map(|line| {
            let (name, number) = line.split_once(" = ").unwrap_or_else(|| panic!("{RECORDED}: {line}"));
            (name.to_owned(), number.parse().unwrap_or_else(|_| panic!("{RECORDED}: {line}")))
        })
        .collect();
    assert!(!entries.is_empty(), "{RECORDED} has no entries");
    entries
}

/// Builds the workloads as a release is built; cargo's lock is free while tests run.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
    command.args(["build", "--release", "--locked", "--bench", "instructions", "--message-format", "json"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let artifacts = String::from_utf8(output.stdout).unwrap();
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "instructions").then(|| message["executable"].as_str().map(PathBuf::from))?
    };
    artifacts.lines().find_map(executable).expect("cargo names no program")
}

/// Instructions that a workload takes for one message.
fn count(workloads: &Path, name: &str) -> u64 {
    let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("callgrind.{name}.out"));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", &format!("--toggle-collect=*measured_{name}*")]);
    command.arg(format!("--callgrind-out-file={}", profile.display())).arg(workloads).arg(name);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {out}{err}");
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|&number| number > 0);
    let messages = number(&out).unwrap_or_else(|| panic!("{name} tells no number of messages: {out}{err}"));
    let collected = err.lines().find_map(|line| line.split_once("Collected :")).and_then(|(_, n)| number(n));
    collected.unwrap_or_else(|| panic!("{name}: nothing was collected: {err}")) / messages
}
