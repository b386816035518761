//! The directories and the configuration of a broker without ZooKeeper, which outlive its processes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use tempfile::TempDir;

use crate::common::http;
use crate::common::process::Process;
use crate::common::raw::Raw;

pub(crate) struct Site {
    dir: TempDir,
    data: PathBuf,
    journal: PathBuf,
    settings: Settings,
}

/// What a test wants of its broker; text in the form of `server.ini`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settings {
    /// Lines of `[system]` beyond those that a broker needs.
    pub(crate) system: &'static str,
    /// Lines of `[metaq]`.
    pub(crate) metaq: &'static str,
    /// Topic sections.
    pub(crate) topics: &'static str,
}

impl Site {
    pub(crate) fn new(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (data, journal) = (dir.path().join("data"), dir.path().join("journal"));
        Self { dir, data, journal, settings }
    }

    /// With another `dataPath`.
    pub(crate) fn with_data(self, data: PathBuf) -> Self {
        Self { data, ..self }
    }

    /// With another `dataLogPath`.
    pub(crate) fn with_journal(self, journal: PathBuf) -> Self {
        Self { journal, ..self }
    }

    /// Its `dataPath`.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Names of the files that a stopped or killed broker left besides the segments.
    pub(crate) fn state(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.journal.join("transactions")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Whether there are files of a commit log.
    pub(crate) fn has_log(&self) -> bool {
        self.state().iter().any(|name| name.starts_with("commitlog."))
    }

    /// The configuration file, written anew.
    pub(crate) fn ini(&self) -> PathBuf {
        let Settings { system, metaq, topics } = self.settings;
        let ini = format!(
            "[system]\nbrokerId=0\nhostName=127.0.0.1\nserverPort=0\ndashboardHttpPort=0\nnumPartitions=1\n\
             unflushThreshold=0\nunflushInterval=10000\nmaxSegmentSize=1048576\nmaxTransferSize=1048576\n\
             dataPath={}\ndataLogPath={}\n{system}\n[zookeeper]\nzk.zkEnable=false\n[metaq]\nbindAddress=127.0.0.1\nfreeSpaceWarningBytes=0\n{metaq}\n{topics}",
            self.data.display(),
            self.journal.display(),
        );
        let path = self.dir.path().join("server.ini");
        std::fs::write(&path, ini).unwrap();
        path
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        command.args(["broker", "-f"]).arg(self.ini()).env("RUST_LOG", "info");
        command
    }

    /// Starts a broker and waits until it serves.
    pub(crate) fn start(&self) -> Running {
        self.start_with(&[])
    }

    /// The same with variables in its environment.
    pub(crate) fn start_with(&self, environment: &[(&str, &Path)]) -> Running {
        let process = Process::start("the broker", self.command().envs(environment.iter().copied()), None);
        let ready = process.wait_for_line("READY ");
        let address = ready.rsplit('/').next().unwrap().parse().unwrap();
        Running { process, address }
    }

    /// Starts a broker and does not wait for anything.
    pub(crate) fn launch(&self) -> Process {
        Process::start("the broker", &mut self.command(), None)
    }

    /// Runs `metaq log`; returns its exit status and what it printed.
    pub(crate) fn log_command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        command.args(["log", arguments[0], "-f"]).arg(self.ini()).args(&arguments[1..]).env("RUST_LOG", "error");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    }
}

/// A broker that serves.
pub(crate) struct Running {
    process: Process,
    address: SocketAddr,
}

impl Running {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn connect(&self) -> Raw {
        Raw::connect(self.address).await
    }

    /// What its HTTP interface answers to a path: the status and the text.
    pub(crate) async fn look(&self, path: &str) -> (u16, String) {
        let line = self.process.wait_for_line("ADMIN http://");
        let answer = http::get(line.rsplit('/').next().unwrap().parse().unwrap(), path).await;
        (answer.status, answer.text().to_owned())
    }

    /// Asserts that the metrics have these lines.
    pub(crate) async fn assert_metrics(&self, lines: &[&str]) {
        let (_, text) = self.look("/metrics").await;
        for line in lines {
            assert!(text.lines().any(|told| told == *line), "{line} is not in {text}");
        }
    }

    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        self.process.wait_for_line(text)
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }

    /// Stops it cleanly.
    pub(crate) fn stop(mut self) {
        let status = self.terminate();
        assert!(status.success(), "the broker ended with {status}");
    }

    /// Asks it to stop; how it ended.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.process.terminate()
    }
}
