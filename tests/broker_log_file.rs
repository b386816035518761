//! The log of a broker in a file: what is in it, when it is put aside, and that trouble with it troubles nobody else.

#![cfg(all(unix, feature = "broker"))]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::operated::{Home, Running, Setup};
use common::output::{assert_status, text};
use common::small_volume::SmallVolume;

const SMALL: &str = "logFileBytes=4096\nlogFiles=2";

/// The command that starts a broker with its log in a file.
fn logging_to(home: &Home, metaq: &str, file: &Path) -> Command {
    let mut command = home.command(Setup::default(), metaq);
    command.arg("--log-file").arg(file);
    command
}

fn earlier(log: &Path, number: usize) -> PathBuf {
    PathBuf::from(format!("{}.{number}", log.display()))
}

/// Has it write some lines that are all different: the checksum of the configuration is among them, and returned.
async fn write_lines(broker: &Running, times: std::ops::Range<u32>) -> Vec<String> {
    let mut checksums = Vec::new();
    let ini = fs::read_to_string(broker.home.ini()).unwrap();
    for number in times {
        fs::write(broker.home.ini(), format!("{ini}\n; {number}\n")).unwrap();
        let answer = broker.post("/reload", "").await;
        assert_eq!(answer.status, 200);
        checksums.push(answer.json()["report"]["checksum"].to_string());
    }
    fs::write(broker.home.ini(), ini).unwrap();
    checksums
}

#[tokio::test]
async fn a_large_log_is_put_aside_and_the_oldest_ones_go() {
    let home = Home::new();
    let log = home.ini().with_file_name("logs").join("broker.log");
    let command = logging_to(&home, SMALL, &log);
    let mut broker = Running::of(home, command);
    let checksums = write_lines(&broker, 0..100).await;
    let files = [earlier(&log, 2), earlier(&log, 1), log.clone()].map(|path| fs::read_to_string(path).unwrap());
    assert!(!earlier(&log, 3).exists());
    for file in &files {
        assert!(file.len() <= 4096 && file.ends_with('\n'), "{} bytes", file.len());
    }
    assert!(files[1].len() > 3500, "put aside when it is full, not before");
    let all = files.concat();
    let logged: Vec<_> = all.lines().filter_map(|line| line.split("configuration reloaded checksum=").nth(1)).collect();
    assert!(logged.len() >= 10, "{logged:?}");
    assert_eq!(logged, checksums[checksums.len() - logged.len()..], "no line is missing between the files");
    assert!(broker.process.terminate().success());
    let printed = broker.process.printed();
    let words: Vec<_> = printed.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(words, ["ADMIN", "READY"], "the log is in the file only: {printed:?}");
    assert!(fs::read_to_string(&log).unwrap().contains(" stopped"));
}

#[test]
fn what_keeps_a_broker_from_starting_is_told_on_standard_error() {
    let home = Home::new();
    let log = home.data().join("broker.log");
    let fails = |metaq: &str, log: &Path| {
        let output = logging_to(&home, metaq, log).output().unwrap();
        assert_status(&output, 1);
        text(&output.stderr).to_owned()
    };
    assert!(fails("logFiles=none", &log).contains("logFiles"));
    assert!(!log.exists(), "it is not known yet how it is to be kept");
    fs::create_dir_all(home.data()).unwrap();
    let told = fails("", &home.data());
    assert!(told.contains(&format!("cannot write the log {}", home.data().display())), "{told}");
    // And what comes later in both.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = logging_to(&home, "", &log);
    let ini = fs::read_to_string(home.ini()).unwrap();
    fs::write(home.ini(), ini.replace("serverPort=0", &format!("serverPort={}", taken.local_addr().unwrap().port())))
        .unwrap();
    let output = command.output().unwrap();
    assert_status(&output, 1);
    for told in [text(&output.stderr), &fs::read_to_string(&log).unwrap()] {
        assert!(told.contains("start remoting server failed: cannot listen on"), "{told}");
    }
}

#[tokio::test]
async fn a_log_on_a_full_disk_loses_lines_and_nothing_else() {
    let Some(volume) = SmallVolume::mount(64) else { return };
    let home = Home::new();
    let log = volume.path().join("broker.log");
    let command = logging_to(&home, "", &log);
    let broker = Running::of(home, command);
    let room = 64 * 1024 - usize::try_from(fs::metadata(&log).unwrap().len()).unwrap().next_multiple_of(4096);
    let volume = volume.take(room / 1024);
    write_lines(&broker, 0..50).await;
    assert_eq!(broker.client().await.put("test", 0, b"stored").await, 0);
    volume.give_back();
    write_lines(&broker, 50..51).await;
    let written = fs::read_to_string(&log).unwrap();
    assert!(written.contains(" lines of the log before this one could not be written\n"), "{written}");
    let told: Vec<_> = broker.stop().into_iter().filter(|line| line.contains("cannot write to the log")).collect();
    assert_eq!(told.len(), 1, "told once: {told:?}");
}
