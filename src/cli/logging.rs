//! Logs of the broker.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use super::output::tell;

/// Sends logs to standard error: level info unless `RUST_LOG` says otherwise, in colours on a terminal.
pub(super) fn start() {
    // The ZooKeeper client tells of every attempt to connect; the broker's own lines say what matters of it.
    let default = EnvFilter::new("info,zookeeper_client=error");
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(directives) => EnvFilter::try_new(&directives).unwrap_or_else(|error| {
            tell(format_args!("metaq: RUST_LOG={directives}: {error}; logging at level info"));
            default
        }),
        Err(_) => default,
    };
    let ansi = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(ansi).with_target(false).init();
}
