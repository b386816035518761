//! The server inside the test's own process, on a free port, and its directory.

use std::path::Path;
use std::sync::Arc;

use metaq::store::OsFileSystem;
use metaq::zk::local::{LocalAddresses, LocalServer, LocalServerError, MAX_CONNECTIONS};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::common::zookeeper::free_port;
use crate::raw::Client;

/// A server that serves; raw clients block the test's thread, not its.
pub(crate) struct Server {
    runtime: Runtime,
    server: LocalServer,
    port: u16,
    dir: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), free_port())
    }

    fn in_dir(dir: TempDir, port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(open(dir.path(), &format!("127.0.0.1:{port}"))).unwrap();
        Self { runtime, server, port, dir }
    }

    /// Stops it and starts it again on the same directory and port.
    pub(crate) fn restart(self) -> Self {
        self.runtime.block_on(self.server.stop());
        drop(self.runtime);
        Self::in_dir(self.dir, self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A client with a new session.
    pub(crate) fn client(&self) -> Client {
        Client::open(self.port)
    }
}

pub(crate) async fn open(dir: &Path, connect: &str) -> Result<LocalServer, LocalServerError> {
    let addresses = LocalAddresses::of(&connect.parse().unwrap()).unwrap();
    LocalServer::start(&addresses, &dir.join("zookeeper"), Arc::new(OsFileSystem), MAX_CONNECTIONS).await
}
