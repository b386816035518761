//! `metaq broker`: the flags of the reference's `ServerStartup` (03 §8).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::log_file::LogLimits;
use super::logging;
use super::output::{Format, finish, tell, with_causes};
use super::signals::StopSignals;
use crate::admin::{AdminOptions, AdminServer};
use crate::broker::{Broker, BrokerOptions};
use crate::config::{ConfigError, ServerConfig};

/// The plug-ins of the reference. Each is a feature of its own here, and none is there yet.
const PLUGINS: [(&str, &str); 4] = [
    ("metaslave", "asynchronous replication"),
    ("samsa", "synchronous replication, as the master"),
    ("gregor", "synchronous replication, as the slave"),
    ("jettyBroker", "messages over HTTP"),
];

/// Arguments of `metaq broker`.
#[derive(Debug, clap::Args)]
pub(super) struct BrokerArguments {
    /// The configuration file
    #[arg(short = 'f', value_name = "FILE")]
    file: PathBuf,
    /// Local mode: serve this machine only, with a ZooKeeper of its own at the address of zk.zkConnect
    #[arg(short = 'l')]
    local: bool,
    /// Log to this file instead of standard error. When it has grown to logFileBytes it becomes FILE.1, the earlier one
    /// FILE.2, up to logFiles of them (section [metaq])
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Start a plug-in with its property file; none is available in this release
    #[arg(short = 'F', value_name = "NAME=FILE")]
    plugins: Vec<String>,
}

pub(super) fn run(arguments: &BrokerArguments) -> ExitCode {
    let Some(log_file) = &arguments.log_file else {
        logging::start();
        let result = start_and_serve(arguments, |_| Ok(()));
        if let Err(error) = &result {
            // In the log: it is what an operator reads of a broker that runs in the background.
            error!("{}", with_causes(error));
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    };
    let log = logging::start_for_file();
    let result = start_and_serve(arguments, |config| {
        let limits = LogLimits { file_bytes: config.metaq.log_file_bytes, files: config.metaq.log_files };
        log.go_to(log_file, limits).with_context(|| format!("cannot write the log {}", log_file.display()))
    });
    if let Err(error) = &result
        && log.is_file()
    {
        error!("{}", with_causes(error));
    }
    // On standard error too: whoever starts the broker looks there.
    finish(result.map(|()| true), Format::Text)
}

/// `log_to_file` is called as soon as the configuration is known.
fn start_and_serve(
    arguments: &BrokerArguments,
    log_to_file: impl FnOnce(&ServerConfig) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    refuse_plugins(&arguments.plugins)?;
    let config = read(&arguments.file)?;
    log_to_file(&config)?;
    warn_of(&config, &arguments.file);
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let served = runtime.block_on(serve(config, BrokerOptions { local: arguments.local }));
    // Not to be waited for: a start that was broken off may still be reading, which can be ended anywhere.
    runtime.shutdown_background();
    served
}

fn refuse_plugins(plugins: &[String]) -> anyhow::Result<()> {
    let Some(plugin) = plugins.first() else { return Ok(()) };
    let name = plugin.split('=').next().unwrap_or_default();
    match PLUGINS.iter().find(|(known, _)| *known == name) {
        Some((_, feature)) => {
            bail!("the plug-in {name} ({feature}) is not available in this release: start without -F{name}")
        }
        None => bail!("unknown broker plugin:{name}"),
    }
}

/// Reads a configuration file and logs what is hardly meant in it.
pub(super) fn load(file: &Path) -> anyhow::Result<ServerConfig> {
    let config = read(file)?;
    warn_of(&config, file);
    Ok(config)
}

fn read(file: &Path) -> anyhow::Result<ServerConfig> {
    match ServerConfig::load(file) {
        Ok(config) => Ok(config),
        Err(ConfigError::Invalid(errors)) => bail!("Parse configuration failed,path={}\n{errors}", file.display()),
        Err(error) => Err(error.into()),
    }
}

fn warn_of(config: &ServerConfig, file: &Path) {
    for warning in &config.warnings {
        warn!("{}", warning.located(Some(file)));
    }
}

async fn serve(config: ServerConfig, options: BrokerOptions) -> anyhow::Result<()> {
    let mut signals = StopSignals::new().context("cannot handle signals")?;
    let mut reloads = signal(SignalKind::hangup()).context("cannot handle signals")?;
    if options.local {
        info!(zookeeper = %config.zookeeper.connect, "local mode: for this machine only, with a zookeeper of its own");
    }
    // First of all: whoever watches the process can ask while it still starts.
    let admin = AdminServer::start(AdminOptions::of(&config)?).await?;
    // Before the line that scripts wait for.
    tell(format_args!("ADMIN http://{}", admin.address()));
    let broker = tokio::select! {
        started = Broker::start(config, options) => started?,
        // Nothing has been answered yet, and what a start does to the disk can be broken off anywhere.
        signal = signals.next() => {
            info!(signal, "stopping before the start is done");
            return Ok(());
        }
    };
    let control = broker.control();
    admin.serve(control.clone());
    tell(format_args!("READY {}", broker.url()));
    let conflict = tokio::select! {
        () = control.stop_requested() => {
            info!("stopping, as asked for by http");
            None
        }
        signal = signals.next() => {
            info!(signal, "stopping");
            None
        }
        conflict = conflict(&broker) => Some(conflict),
        never = reload_when_asked(&broker, &mut reloads) => never,
    };
    let hurry = CancellationToken::new();
    if conflict.is_some() {
        hurry.cancel();
    }
    let stop = broker.stop(hurry.clone());
    tokio::pin!(stop);
    let stopped = tokio::select! {
        stopped = &mut stop => stopped,
        signal = signals.next() => {
            info!(signal, "stopping without waiting for clients");
            hurry.cancel();
            tokio::select! {
                stopped = &mut stop => stopped,
                signal = signals.next() => end_here(signal),
            }
        }
    };
    admin.stop().await;
    stopped?;
    match conflict {
        Some(conflict) => Err(anyhow::Error::new(conflict).context("Register broker to zk failed")),
        None => Ok(()),
    }
}

/// Ends the process without waiting for the disk. Nothing that was answered is lost: it is in the commit log.
fn end_here(signal: &str) -> ! {
    warn!(signal, "ending before everything is in its segment: the next start reads the commit log");
    std::process::exit(1);
}

/// Returns when another broker has this one's id, and only then.
async fn conflict(broker: &Broker) -> crate::zk::IdConflict {
    match broker.registered().await {
        Err(conflict) => conflict,
        Ok(()) => std::future::pending().await,
    }
}

/// Reloads the configuration at each HUP. The log says what came of it.
async fn reload_when_asked<T>(broker: &Broker, reloads: &mut Signal) -> T {
    while reloads.recv().await.is_some() {
        info!(signal = "HUP", "reloading the configuration");
        // Logged where it happens.
        let _ = broker.control().reload().await;
    }
    std::future::pending().await
}

/// Each connection and each segment takes a descriptor; the usual limit of 1 024 is for other kinds of programs.
pub(super) fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        warn!(%error, "cannot raise the limit of open files");
    }
}
