//! A pid file that tells of no broker of ours.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use crate::common::{shim, wait_until};
use crate::installation::{Installation, outcome, run, signal};

#[test]
fn a_killed_broker_leaves_a_pid_file_that_does_no_harm() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    broker.produce("before the kill");
    signal("KILL", &broker.pid());
    wait_until("the kernel has taken it down", || broker.script(&["status"]).code == 1);
    assert!(broker.pid_file().exists());
    broker.script(&["stop"]).is(1, "Broker is not running.");
    broker.script(&["start", "local"]).is(0, "Meta broker is running");
    assert_eq!(broker.consume(), "before the kill0\n");
}

#[test]
fn a_running_broker_is_found_without_the_state_file() {
    let broker = Installation::new(&["adminTokenFile=conf/token"]);
    fs::write(broker.file("conf/token"), "a-token-that-nobody-guesses\n").unwrap();
    fs::set_permissions(broker.file("conf/token"), fs::Permissions::from_mode(0o600)).unwrap();
    broker.script(&["start", "local"]).is(0, "");
    let (state, pid) = (broker.file("logs/.run.state"), broker.pid());
    for damaged in [b"garbage" as &[u8], b"\0\x01=\nborn=", b""] {
        fs::write(&state, damaged).unwrap();
        broker.script(&["status"]).is(0, &format!("pid {pid}, "));
        broker.script(&["stats"]).is(0, "STATS");
        broker.script(&["start"]).is(1, "Broker is running.");
    }
    fs::remove_file(&state).unwrap();
    broker.script(&["reload"]).is(0, "Reload config successfully.");
    broker.script(&["restart"]).is(0, "Meta broker is running, in local mode");
    fs::remove_file(&state).unwrap();
    broker.script(&["stop"]).is(0, "Stop meta broker successfully.");
    broker.script(&["status"]).is(1, "Meta broker was stopped.");
}

#[test]
fn the_number_of_another_program_is_not_taken_for_the_broker() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    broker.script(&["stop"]).is(0, "");
    let mut other = Other::start();
    fs::write(broker.pid_file(), other.pid()).unwrap();
    broker.script(&["status"]).is(1, "Meta broker was stopped.");
    broker.script(&["stop"]).is(1, "Broker is not running.");
    broker.script(&["stop", "--force"]).is(1, "Broker is not running.");
    broker.script(&["start", "local"]).is(0, "Meta broker is running");
    broker.script(&["stop"]).is(0, "");
    assert!(other.is_alive());
}

#[test]
fn a_number_that_was_given_to_another_program_is_not_taken_for_the_broker() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    let state = broker.file("logs/.run.state");
    let (written, pid) = (fs::read_to_string(&state).unwrap(), broker.pid());
    broker.script(&["stop"]).is(0, "");
    // what a crash leaves behind, if the system has used the number again since
    let mut other = Other::start();
    fs::write(&state, written.replace(&format!("pid={pid}\n"), &format!("pid={}\n", other.pid()))).unwrap();
    fs::write(broker.pid_file(), other.pid()).unwrap();
    broker.script(&["status"]).is(1, "Meta broker was stopped.");
    broker.script(&["stop", "--force"]).is(1, "Broker is not running.");
    broker.script(&["start", "local"]).is(0, "Meta broker is running");
    assert!(other.is_alive());
}

#[test]
fn beside_a_java_broker_of_the_same_directory_nothing_is_started() {
    let broker = Installation::new(&[]);
    fs::create_dir(broker.file("logs")).unwrap();
    // `sh` keeps what stands behind the script as names of its arguments
    let script = "while read line; do :; done";
    let mut java = Other::of(Command::new("sh").args(["-c", script, "com.taobao.metamorphosis.ServerStartup"]));
    fs::write(broker.pid_file(), java.pid()).unwrap();
    broker.script(&["start", "local"]).is(1, "Broker is running.\nIt is a Java broker");
    assert!(java.is_alive() && !broker.file("data").exists());
    assert_eq!(fs::read_to_string(broker.pid_file()).unwrap(), java.pid());
}

#[test]
fn a_broker_has_ended_when_its_last_thread_has() {
    let broker = Installation::new(&[]);
    // The list of what is preloaded has blanks between its paths.
    let without_blanks = tempfile::tempdir().unwrap();
    let (library, trigger) = (without_blanks.path().join("lingering_thread.so"), broker.file("linger"));
    if !shim::compile("tests/metaserver_script/lingering_thread.c", &library) {
        return;
    }
    fs::write(&trigger, "").unwrap();
    let mut start = broker.command(&broker.file("bin/metaServer.sh"), &["start", "local"]);
    run(start.env("LD_PRELOAD", &library).env("METAQ_LINGER", &trigger)).is(0, "Meta broker is running");
    let stat = format!("/proc/{}/stat", broker.pid());
    let stop = broker.spawn(&["stop"]);
    wait_until("the first thread is through", || fs::read_to_string(&stat).unwrap().contains(") Z "));
    broker.script(&["status"]).is(1, "Meta broker does not answer");
    broker.script(&["start", "local"]).is(1, "Broker is running.");
    fs::remove_file(&trigger).unwrap();
    outcome(stop).is(0, "Stop meta broker successfully.");
    broker.script(&["start", "local"]).is(0, "Meta broker is running");
}

/// A process that has nothing to do with us and runs until it is dropped.
struct Other(Child);

impl Other {
    fn start() -> Self {
        Self::of(&mut Command::new("cat"))
    }

    fn of(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
