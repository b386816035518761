//! Logs of the broker.

use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::log_file::{LogFile, LogLimits};
use super::output::tell;

/// What a broker logs unless `RUST_LOG` says otherwise. The ZooKeeper client tells of every attempt to connect; our own
/// lines say what matters of it.
const BROKER: &str = "info,zookeeper_client=error";

/// The same of a command.
const COMMAND: &str = "warn,zookeeper_client=error";

/// Where the logs of this process go: to standard error until there is a file. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<OnceLock<LogFile>>);

/// Sends logs to standard error: level info unless `RUST_LOG` says otherwise, in colours on a terminal.
pub(super) fn start() {
    install(Log::default(), io::stderr().is_terminal(), BROKER);
}

/// The same for a command whose output is what counts: warnings and errors, unless `RUST_LOG` says otherwise.
pub(super) fn start_for_command() {
    install(Log::default(), io::stderr().is_terminal(), COMMAND);
}

/// The same without colours, until the returned log is told of its [file](Log::go_to).
pub(super) fn start_for_file() -> Log {
    let log = Log::default();
    install(log.clone(), false, BROKER);
    log
}

fn install(log: Log, colours: bool, default: &str) {
    let default = EnvFilter::new(default);
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(directives) => EnvFilter::try_new(&directives).unwrap_or_else(|error| {
            tell(format_args!("metaq: RUST_LOG={directives}: {error}; logging as if it were not set"));
            default
        }),
        Err(_) => default,
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(log).with_ansi(colours).with_target(false).init();
}

impl Log {
    /// Sends logs to a file from now on, panics too; those are told on standard error as well.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn go_to(&self, path: &Path, limits: LogLimits) -> io::Result<()> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::create_dir_all(directory)?;
        }
        let file = LogFile::open(path, limits)?;
        if self.0.set(file).is_ok() {
            let on_standard_error = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                error!("{panic}");
                on_standard_error(panic);
            }));
        }
        Ok(())
    }

    /// Whether they go to a file.
    pub(super) fn is_file(&self) -> bool {
        self.0.get().is_some()
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LogWriter<'a>;

    fn make_writer(&'a self) -> LogWriter<'a> {
        self.0.get().map_or(LogWriter::StandardError, LogWriter::File)
    }
}

/// Where one line goes. Never fails: that the log cannot be written is no reason to stop anything.
#[derive(Debug)]
pub(super) enum LogWriter<'a> {
    StandardError,
    File(&'a LogFile),
}

impl Write for LogWriter<'_> {
    /// A whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self {
            Self::StandardError => {
                let _ = io::stderr().write_all(line);
            }
            Self::File(file) => file.line(line),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
