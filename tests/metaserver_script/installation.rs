//! A copy of the script and the configuration in a temporary directory, as an operator would install them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::common::zookeeper::free_port;

pub(crate) const METAQ: &str = env!("CARGO_BIN_EXE_metaq");

/// What a program printed, on both channels, and its exit status.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl Outcome {
    fn of(output: &Output) -> Self {
        let text = [output.stdout.as_slice(), &output.stderr].concat();
        Self { code: output.status.code().unwrap_or(-1), text: String::from_utf8_lossy(&text).into_owned() }
    }

    /// Panics unless the exit status and a part of the text are as expected.
    #[track_caller]
    pub(crate) fn is(self, code: i32, part: &str) -> Self {
        assert!(self.code == code && self.text.contains(part), "expected status {code} and {part:?}: {self:?}");
        self
    }
}

/// An installed broker; killed when dropped, if it still runs.
pub(crate) struct Installation {
    pub(crate) base: PathBuf,
    _directory: tempfile::TempDir,
}

impl Installation {
    /// With the shipped configuration, but for `settings` in place of the lines of the same keys: on free ports, on the
    /// loopback interface, without a pause at the stop.
    pub(crate) fn new(settings: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a path with blanks");
        fs::create_dir_all(base.join("bin")).unwrap();
        fs::create_dir_all(base.join("conf")).unwrap();
        fs::copy(project("bin/metaServer.sh"), base.join("bin/metaServer.sh")).unwrap();
        fs::copy(project("conf/server.ini"), base.join("conf/server.ini")).unwrap();
        let this = Self { base, _directory: directory };
        let tame = ["dashboardHttpPort=0", "hostName=127.0.0.1", "bindAddress=127.0.0.1", "zk.zkSyncTimeMs=0"];
        let server_port = format!("serverPort={}", free_port());
        let zookeeper = format!("zk.zkConnect=127.0.0.1:{}", free_port());
        let tame = tame.into_iter().chain([&*server_port, &*zookeeper]);
        tame.chain(settings.iter().copied()).for_each(|setting| this.set(setting));
        this
    }

    /// Puts `key=value` in the place of the key's only line, commented out or not.
    pub(crate) fn set(&self, setting: &str) {
        let (key, _) = setting.split_once('=').unwrap();
        let is_of_key = |line: &&str| line.trim_start_matches(';').split('=').next() == Some(key);
        let path = self.base.join("conf/server.ini");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(is_of_key).count(), 1, "lines of {key}");
        let lines: Vec<_> = text.lines().map(|line| if is_of_key(&line) { setting } else { line }).collect();
        fs::write(path, lines.join("\n")).unwrap();
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.file("logs/.run.pid")
    }

    pub(crate) fn pid(&self) -> String {
        fs::read_to_string(self.pid_file()).unwrap().trim().to_owned()
    }

    pub(crate) fn command(&self, script: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(script);
        command.args(arguments).current_dir("/").env("METAQ_BIN", METAQ);
        for inherited in
            ["METAQ_CONFIG", "METAQ_LOG_DIR", "METAQ_STOP_TIMEOUT", "METAQ_ADMIN_TOKEN", "RUST_LOG", "CDPATH"]
        {
            command.env_remove(inherited);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs the script to its end; a broker that kept our pipes open would make this wait for ever.
    pub(crate) fn script(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(&self.command(&self.file("bin/metaServer.sh"), arguments).output().unwrap())
    }

    /// Runs the script to its end beside others.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(&self.file("bin/metaServer.sh"), arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// `host:port` of the running broker as `status` tells it.
    pub(crate) fn server(&self) -> String {
        let status = self.script(&["status"]).is(0, "Meta broker is running.").text;
        let address = status.split("meta://").nth(1).and_then(|rest| rest.split(',').next());
        address.unwrap_or_else(|| panic!("no address in {status}")).to_owned()
    }

    /// Sends one message to the topic of the shipped configuration.
    pub(crate) fn produce(&self, message: &str) {
        let server = self.server();
        let mut command = Command::new(METAQ);
        command.args(["produce", "--topic", "test", "--server", &server, "--count", "1", "--payload-prefix", message]);
        Outcome::of(&command.output().unwrap()).is(0, "");
    }

    /// All messages of that topic.
    pub(crate) fn consume(&self) -> String {
        let server = self.server();
        let output = Command::new(METAQ).args(["consume", "--topic", "test", "--server", &server]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        // Also if it hangs; and not a program that has got the number of one that ended.
        let state = fs::read_to_string(self.file("logs/.run.state")).unwrap_or_default();
        if !state.is_empty() && !self.script(&["status"]).text.contains("was stopped") {
            signal("KILL", &self.pid());
        }
    }
}

pub(crate) fn outcome(child: Child) -> Outcome {
    Outcome::of(&child.wait_with_output().unwrap())
}

pub(crate) fn run(command: &mut Command) -> Outcome {
    Outcome::of(&command.output().unwrap())
}

pub(crate) fn signal(name: &str, pid: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap();
    assert!(status.success(), "signal {name} to {pid}");
}

/// A file of this project.
pub(crate) fn project(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A stand-in for cargo that makes what it is asked to build, provided that it is asked for a release build of the
/// locked dependencies: a link to the program under test.
pub(crate) fn cargo_stand_in(directory: &Path) {
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in 'build --release --locked'*) ;; *) echo \"cargo $*\" >&2; exit 1 ;; esac\n\
         mkdir -p target/release && ln -sf '{METAQ}' target/release/metaq\n"
    );
    fs::create_dir_all(directory).unwrap();
    let path = directory.join("cargo");
    fs::write(&path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
