//! A broker as a process, with its two ports.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::http::{self, Answer};
use super::process::Process;
use super::raw::Raw;

pub const TOKEN: &str = "a-token-that-nobody-guesses";

/// What a test wants of its broker; text in the form of `server.ini`.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub system: &'static str,
    pub zookeeper: &'static str,
    pub metaq: &'static str,
    pub topics: &'static str,
    /// Value of `METAQ_ADMIN_TOKEN`.
    pub token: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            system: "",
            zookeeper: "zk.zkEnable=false",
            metaq: "",
            topics: "[topic=test]\nnumPartitions=3\n[topic=idle]\n[topic=w-*]\n",
            token: None,
        }
    }
}

/// Where a broker lives.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn ini(&self) -> PathBuf {
        self.0.path().join("server.ini")
    }

    pub fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// A file with the token, of a mode.
    pub fn token_file(&self, mode: u32, content: &str) -> PathBuf {
        let path = self.0.path().join("token");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    /// The command that starts a broker; `metaq` are further lines of that section.
    pub fn command(&self, setup: Setup, metaq: &str) -> Command {
        let text = format!(
            "[system]\nbrokerId=7\nhostName=127.0.0.1\nserverPort=0\nnumPartitions=1\nunflushThreshold=0\n\
             unflushInterval=10000\nmaxSegmentSize=1048576\nmaxTransferSize=1048576\ndataPath={}\n{}\n[zookeeper]\n{}\n\
             [metaq]\nbindAddress=127.0.0.1\n{}\n{metaq}\n{}",
            self.data().display(),
            if setup.system.contains("dashboardHttpPort") {
                setup.system.to_owned()
            } else {
                format!("dashboardHttpPort=0\n{}", setup.system)
            },
            setup.zookeeper,
            setup.metaq,
            setup.topics,
        );
        std::fs::write(self.ini(), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        command.args(["broker", "-f"]).arg(self.ini()).env("RUST_LOG", "info").env_remove("METAQ_ADMIN_TOKEN");
        if let Some(token) = setup.token {
            command.env("METAQ_ADMIN_TOKEN", token);
        }
        command
    }
}

/// A broker that serves.
pub struct Running {
    pub process: Process,
    pub home: Home,
    /// Of clients.
    pub broker: SocketAddr,
    /// Of operators, on the loopback interface.
    pub admin: SocketAddr,
}

impl Running {
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Self {
        let home = Home::new();
        let command = home.command(setup, "");
        Self::of(home, command)
    }

    pub fn of(home: Home, mut command: Command) -> Self {
        let process = Process::start("the broker", &mut command, None);
        let ready = process.wait_for_line("READY meta://");
        let broker = ready.rsplit('/').next().unwrap().parse().unwrap();
        let admin = admin_address(&process);
        Self { process, home, broker, admin }
    }

    pub async fn client(&self) -> Raw {
        Raw::connect(self.broker).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        http::get(self.admin, path).await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        http::post(self.admin, path, body).await
    }

    /// Ends it and gives everything that it printed.
    pub fn stop(mut self) -> Vec<String> {
        let status = self.process.terminate();
        assert!(status.success(), "the broker ended with {status}");
        self.process.printed()
    }
}

/// Where a process that has told it serves operators; a wildcard address is replaced by loopback.
pub fn admin_address(process: &Process) -> SocketAddr {
    let line = process.wait_for_line("ADMIN http://");
    let mut address: SocketAddr = line.strip_prefix("ADMIN http://").unwrap().parse().unwrap();
    if address.ip().is_unspecified() {
        address.set_ip([127, 0, 0, 1].into());
    }
    address
}

/// A file of the project.
pub fn project(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
