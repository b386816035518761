//! Starts in trouble: beside others, on full or closed disks, broken off.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::hanging_disk::HangingDisk;
use crate::common::small_volume::SmallVolume;
use crate::common::wait_until;
use crate::installation::{Installation, METAQ, outcome, run, signal};

#[test]
fn a_start_that_takes_long_is_told_of_and_can_be_stopped() {
    let Some(disk) = HangingDisk::new() else { return };
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    broker.produce("kept");
    signal("KILL", &broker.pid());
    wait_until("the kernel has taken it down", || broker.script(&["status"]).code == 1);
    disk.hang();
    let mut start = broker.command(&broker.file("bin/metaServer.sh"), &["start", "local"]);
    let starting = disk.under(&mut start).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = || fs::read_to_string(broker.file("logs/metaServer.out")).unwrap_or_default();
    wait_until("the broker has begun to start", || broker.pid_file().exists() && said().starts_with("ADMIN http://"));
    wait_until("it is known", || broker.script(&["status"]).text.contains("Meta broker is starting."));
    broker.script(&["status"]).is(0, "not listening yet");
    broker.script(&["start"]).is(1, "Broker is running.\n");
    broker.script(&["reload"]).is(1, "Meta broker is still starting");
    broker.script(&["stats"]).is(1, "Meta broker is still starting");
    broker.script(&["stop"]).is(0, "Stop meta broker successfully.");
    outcome(starting).is(1, "Meta broker did not start (exit status 0)");
    broker.script(&["start", "local"]).is(0, "Meta broker is running");
    assert_eq!(broker.consume(), "kept0\n");
}

#[test]
fn a_start_while_the_last_one_stops_is_refused() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    let pid = broker.pid();
    signal("STOP", &pid);
    let stop = broker.spawn(&["stop"]);
    broker.script(&["start", "local"]).is(1, "Broker is running.\n");
    signal("CONT", &pid);
    outcome(stop).is(0, "Stop meta broker successfully.");
    broker.script(&["start", "local"]).is(0, "");
}

#[test]
fn a_missing_configuration_is_named() {
    let broker = Installation::new(&[]);
    fs::remove_file(broker.file("conf/server.ini")).unwrap();
    broker.script(&["start", "local"]).is(1, "conf/server.ini is not exists");
    assert!(!broker.pid_file().exists());
    broker.script(&["restart"]).is(1, "Meta broker did not start");
}

#[test]
fn a_log_that_cannot_be_written_is_named() {
    let broker = Installation::new(&[]);
    fs::write(broker.file("logs"), "a file").unwrap();
    broker.script(&["start", "local"]).is(1, "set METAQ_LOG_DIR");
    fs::remove_file(broker.file("logs")).unwrap();
    fs::create_dir_all(broker.file("logs/metaServer.log")).unwrap();
    broker.script(&["start", "local"]).is(1, "set METAQ_LOG_DIR");
    assert!(!broker.file("data").exists(), "no broker was started");
}

#[test]
fn a_full_disk_under_the_logs_refuses_the_start_and_leaves_no_process() {
    let Some(volume) = SmallVolume::mount(64) else { return };
    let broker = Installation::new(&[]);
    let volume = volume.take(64);
    let start = || {
        let mut command = broker.command(&broker.file("bin/metaServer.sh"), &["start", "local"]);
        run(command.env("METAQ_LOG_DIR", volume.path()))
    };
    start().is(1, "is the disk full? Meta broker was not started.");
    volume.give_back();
    // A process left behind would hold the data.
    start().is(0, "Meta broker is running");
    let mut stop = broker.command(&broker.file("bin/metaServer.sh"), &["stop"]);
    run(stop.env("METAQ_LOG_DIR", volume.path())).is(0, "Stop meta broker successfully.");
}

#[test]
fn a_port_of_operators_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let broker = Installation::new(&[&format!("dashboardHttpPort={}", address.port())]);
    broker.script(&["start", "local"]).is(1, &format!("cannot listen on {address} for the HTTP interface"));
}

/// A directory with a stand-in for a program, which does something else first when it is run for the first time.
fn meddle(broker: &Installation, program: &str, first: &str) -> PathBuf {
    let dir = broker.file("meddling");
    fs::create_dir_all(&dir).unwrap();
    let (done, name) = (dir.join("done"), Path::new(program).file_name().unwrap());
    let script =
        format!("#!/bin/sh\nif mkdir '{}' 2>/dev/null; then {first}; fi\nexec '{program}' \"$@\"\n", done.display());
    fs::write(dir.join(name), script).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[test]
fn a_start_that_is_broken_off_leaves_no_broker_that_is_not_known() {
    for signal in ["INT", "TERM", "HUP"] {
        let broker = Installation::new(&[]);
        // The broker runs, and the files that tell of it are being written.
        let dir = meddle(&broker, "/bin/mv", &format!("kill -{signal} $PPID"));
        let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
        let mut start = broker.command(&broker.file("bin/metaServer.sh"), &["start", "local"]);
        run(start.env("PATH", path)).is(0, "Meta broker is running");
        assert!(dir.join("done").exists());
        broker.script(&["stop"]).is(0, "Stop meta broker successfully.");
    }
}

#[test]
fn a_broker_that_ends_while_a_restart_checks_its_file_is_started_again() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    let pid = broker.pid();
    let stop = format!("METAQ_BIN='{METAQ}' '{}' stop >/dev/null", broker.file("bin/metaServer.sh").display());
    let dir = meddle(&broker, METAQ, &stop);
    let mut restart = broker.command(&broker.file("bin/metaServer.sh"), &["restart"]);
    run(restart.env("METAQ_BIN", dir.join("metaq"))).is(0, "in local mode");
    assert!(dir.join("done").exists());
    assert_ne!(broker.pid(), pid);
}

#[test]
fn a_path_with_a_line_break_is_refused_before_anything_starts() {
    let broker = Installation::new(&[]);
    let odd = broker.file("conf/a\npid=1\nserver.ini");
    fs::copy(broker.file("conf/server.ini"), &odd).unwrap();
    let mut start = broker.command(&broker.file("bin/metaServer.sh"), &["start", "local"]);
    run(start.env("METAQ_CONFIG", odd)).is(1, "must not contain a line break");
    assert!(!broker.pid_file().exists());
}
