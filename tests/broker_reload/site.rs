//! A broker in the test's own process with a configuration file that can be changed.

use std::path::{Path, PathBuf};

use metaq::broker::{Broker, BrokerOptions, ReloadError, ReloadReport};
use metaq::config::ServerConfig;
use tempfile::TempDir;

use crate::common::raw::Raw;

pub(crate) struct Site {
    broker: Broker,
    dir: TempDir,
    system: String,
}

impl Site {
    /// Starts it; `topics` are its topic sections.
    pub(crate) async fn start(topics: &str) -> Self {
        Self::start_with("", topics).await
    }

    /// The same, with further lines of `[system]`.
    pub(crate) async fn start_with(system: &str, topics: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ini = dir.path().join("server.ini");
        std::fs::write(&ini, text(dir.path(), system, topics)).unwrap();
        let broker = Broker::start(ServerConfig::load(&ini).unwrap(), BrokerOptions::default()).await.unwrap();
        Self { broker, dir, system: system.to_owned() }
    }

    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn ini(&self) -> PathBuf {
        self.dir.path().join("server.ini")
    }

    /// The bytes of its configuration file.
    pub(crate) fn file(&self) -> Vec<u8> {
        std::fs::read(self.ini()).unwrap()
    }

    /// A configuration with these topic sections.
    pub(crate) fn text(&self, topics: &str) -> String {
        text(self.dir.path(), &self.system, topics)
    }

    /// Changes the topic sections and reloads.
    pub(crate) async fn reload(&self, topics: &str) -> Result<ReloadReport, ReloadError> {
        self.reload_text(self.text(topics)).await
    }

    /// Changes the whole file and reloads.
    pub(crate) async fn reload_text(&self, text: impl AsRef<[u8]>) -> Result<ReloadReport, ReloadError> {
        std::fs::write(self.ini(), text).unwrap();
        self.broker.control().reload().await
    }

    pub(crate) async fn connect(&self) -> Raw {
        Raw::connect(self.broker.address()).await
    }
}

fn text(dir: &Path, system: &str, topics: &str) -> String {
    format!(
        "[system]\nbrokerId=0\nhostName=127.0.0.1\nserverPort=0\ndashboardHttpPort=0\nunflushThreshold=0\n\
         numPartitions=1\nunflushInterval=10000\nmaxSegmentSize=1048576\nmaxTransferSize=1048576\ndataPath={}\n{system}\n\
         [zookeeper]\nzk.zkEnable=false\n[metaq]\nbindAddress=127.0.0.1\n{topics}",
        dir.join("data").display()
    )
}
