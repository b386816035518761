//! Which brokers a command talks to: one given by its address, or those that ZooKeeper knows.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::ArgGroup;

use crate::client::{ClientConfig, ClientError, MessageSessionFactory};
use crate::id::{BrokerId, BrokerUrl, Partition, PartitionIndex};

/// How to reach the brokers.
#[derive(Debug, Clone, clap::Args)]
#[command(group(ArgGroup::new("brokers").args(["zk", "server"]).required(true)))]
pub(super) struct TargetArguments {
    /// ZooKeeper that knows the brokers, HOST:PORT or several joined by commas, with a directory at the end if need be
    #[arg(long, value_name = "HOST:PORT")]
    zk: Option<String>,
    /// Directory of the cluster's nodes in ZooKeeper
    #[arg(long, value_name = "PATH", default_value = "/meta")]
    zk_root: String,
    /// Session time-out to ask ZooKeeper for, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 6000)]
    zk_session_ms: u32,
    /// One broker by its address, without ZooKeeper
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
}

impl TargetArguments {
    /// The settings of a session factory for these brokers.
    pub(super) fn client_config(&self) -> anyhow::Result<ClientConfig> {
        match (&self.server, &self.zk) {
            (Some(server), _) => Ok(ClientConfig::server(&server_address(server)?)?),
            (None, Some(zk)) => {
                let session_timeout = Duration::from_millis(self.zk_session_ms.into());
                Ok(ClientConfig::zookeeper(zk)?
                    .zk_root(&self.zk_root)?
                    .zk_session_timeout(session_timeout)
                    .zk_connection_timeout(session_timeout))
            }
            (None, None) => bail!("name a ZooKeeper (--zk) or a broker (--server)"),
        }
    }

    /// Whether ZooKeeper knows the brokers.
    pub(super) fn is_cluster(&self) -> bool {
        self.server.is_none()
    }

    /// Connects.
    pub(super) async fn connect(&self, config: ClientConfig) -> anyhow::Result<MessageSessionFactory> {
        let connecting = MessageSessionFactory::connect(config).await;
        match (connecting, &self.zk) {
            (Err(error @ ClientError::NotConnected(_)), Some(zk)) => {
                Err(error).with_context(|| format!("no connection to ZooKeeper at {zk}"))
            }
            (connected, _) => Ok(connected?),
        }
    }

    /// One partition, given as `BROKER-NUMBER` or, with a broker's address, as its number alone.
    pub(super) fn partition(&self, text: &str) -> anyhow::Result<(Option<Partition>, PartitionIndex)> {
        match (parse_partition(text)?, &self.server) {
            ((_, index), Some(_)) => Ok((None, index)),
            ((Some(broker), index), None) => Ok((Some(Partition { broker, index }), index)),
            ((None, _), None) => Err(without_broker(text)),
        }
    }
}

/// `BROKER-NUMBER`, or the number alone.
fn parse_partition(text: &str) -> anyhow::Result<(Option<BrokerId>, PartitionIndex)> {
    let number = |text: &str| text.parse().with_context(|| format!("'{text}' is not a partition number"));
    let text = text.trim();
    // A leading dash is a sign, not the end of a broker's number.
    let split = text.get(1..).and_then(|rest| rest.find('-')).and_then(|dash| text.split_at_checked(dash + 1));
    let Some((broker, index)) = split else { return Ok((None, number(text)?)) };
    let id = broker.parse().ok().and_then(BrokerId::new);
    Ok((
        Some(id.with_context(|| format!("'{broker}' is not a broker number"))?),
        number(index.trim_start_matches('-'))?,
    ))
}

fn without_broker(text: &str) -> anyhow::Error {
    anyhow!("name the partition as BROKER-NUMBER, for example 0-{}", text.trim())
}

/// `HOST:PORT`, also out of a `meta://` address.
pub(super) fn server_address(text: &str) -> anyhow::Result<String> {
    let url = if text.starts_with("meta://") { text.to_owned() } else { format!("meta://{text}") };
    let url: BrokerUrl = url.parse().with_context(|| format!("--server {text}: give HOST:PORT"))?;
    Ok(url.authority())
}
