//! Our broker as a process: the real binary with a `server.ini` and directories of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::process::Process;
use super::zookeeper::free_port;

/// What a broker is made of: number, port, configuration file and directories. It stays when the process ends, so that
/// another one, of ours or of the reference, can take its place.
pub struct BrokerHome {
    id: u32,
    port: u16,
    directory: tempfile::TempDir,
}

impl BrokerHome {
    /// Writes the configuration for a broker that registers below `zk_root`. `system` are further lines of the
    /// section `[system]`; `topics` are the sections `[topic=…]`, each given as its name and its lines.
    pub fn new(id: u32, zk_connect: &str, zk_root: &str, system: &str, topics: &[(&str, &str)]) -> Self {
        let home = Self { id, port: free_port(), directory: tempfile::tempdir().unwrap() };
        let topics: String = topics.iter().map(|(name, lines)| format!("[topic={name}]\n{lines}\n")).collect();
        // The reference's broker loads all partitions only if its journal lies outside of dataPath.
        let ini = format!(
            "[system]\n\
             brokerId={id}\nhostName=127.0.0.1\nserverPort={port}\ndashboardHttpPort=0\n\
             dataPath={data}\ndataLogPath={journal}\n\
             numPartitions=1\nunflushThreshold=0\nunflushInterval=10000\nmaxSegmentSize=1048576\n\
             maxTransferSize=1114112\n{system}\n\
             [zookeeper]\n\
             zk.zkConnect={zk_connect}\nzk.zkRoot={zk_root}\n\
             zk.zkSessionTimeoutMs=6000\nzk.zkConnectionTimeoutMs=6000\nzk.zkSyncTimeMs=500\n\
             {topics}",
            port = home.port,
            data = home.data().display(),
            journal = home.directory.path().join("journal").display(),
        );
        std::fs::write(home.ini(), ini).unwrap();
        home
    }

    /// Its number in the cluster.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Where it serves, `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The same in the form that ZooKeeper holds.
    pub fn url(&self) -> String {
        format!("meta://{}", self.address())
    }

    /// Its configuration file.
    pub fn ini(&self) -> PathBuf {
        self.directory.path().join("server.ini")
    }

    /// Its `dataPath`.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A place for what the process writes elsewhere.
    pub fn scratch(&self) -> &Path {
        self.directory.path()
    }
}

/// A process of our broker.
pub struct MetaqBroker(Process);

impl MetaqBroker {
    /// Starts it and waits until it serves and is registered.
    pub fn start(home: &BrokerHome) -> Self {
        Self::launch(home, &[])
    }

    /// The same in local mode.
    pub fn start_local(home: &BrokerHome) -> Self {
        Self::launch(home, &["-l"])
    }

    fn launch(home: &BrokerHome, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        // The log tells when it is registered.
        command.arg("broker").args(options).arg("-f").arg(home.ini()).env("RUST_LOG", "info");
        let process = Process::start(&format!("our broker {}", home.id()), &mut command, None);
        process.wait_for_line("READY ");
        process.wait_for_line("nodes in zookeeper brought up to date");
        Self(process)
    }

    /// Stops it cleanly.
    pub fn stop(mut self) {
        let status: ExitStatus = self.0.terminate();
        assert!(status.success(), "our broker ended with {status}");
    }

    /// Ends it in the middle of whatever it does.
    pub fn kill(mut self) {
        self.0.kill();
    }

    /// Stops it in its tracks; its connections stay open.
    pub fn freeze(&self) {
        self.0.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.0.signal("CONT");
    }
}
