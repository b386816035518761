//! Where the broker's HTTP interface is, and the token that it wants.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use axum::http::HeaderValue;

use super::http::AdminClient;
use crate::admin::TOKEN_VARIABLE;
use crate::cli::output::Format;
use crate::config::ServerConfig;

/// Where a broker with the default configuration has it.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8120";

/// The longest file that may hold a token.
const MAX_TOKEN_FILE_BYTES: usize = 4096;

/// How to reach the HTTP interface of a broker.
#[derive(Debug, Clone, clap::Args)]
pub(in crate::cli) struct AdminArguments {
    /// The broker's HTTP interface. Without it, and without -f: 127.0.0.1:8120
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "config")]
    admin: Option<String>,
    /// The broker's configuration file, which tells where its HTTP interface is (dashboardHttpPort, adminBindAddress) and
    /// where the token (adminTokenFile)
    #[arg(short = 'f', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File with the token that the broker wants for changes. Without it METAQ_ADMIN_TOKEN holds the token, if there is one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Longest wait for the connection, and for the answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

impl AdminArguments {
    pub(in crate::cli) fn output(&self) -> Format {
        self.output
    }

    pub(in crate::cli) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// What the configuration file says, if one is named.
    pub(in crate::cli) fn config(&self) -> anyhow::Result<Option<ServerConfig>> {
        let load = |file| configuration_of(file, "--admin HOST:PORT");
        self.config.as_deref().map(load).transpose()
    }

    /// Finds the interface; does not connect yet.
    pub(in crate::cli) fn client(&self) -> anyhow::Result<AdminClient> {
        let config = self.config()?;
        let address = match (&self.admin, &config) {
            (Some(address), _) => given(address)?,
            (None, Some(config)) => configured(config)?,
            (None, None) => DEFAULT_ADDRESS.to_owned(),
        };
        let configured_file = config.as_ref().and_then(|config| config.metaq.admin_token_file.as_deref());
        let variable = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.trim().is_empty());
        let token = match (&self.token_file, variable, configured_file) {
            (Some(file), ..) => Some(read_token(file)?),
            (None, Some(token), _) => Some(token),
            (None, None, Some(file)) => Some(read_token(file)?),
            (None, None, None) => None,
        };
        let authorization = token.map(|token| authorization(token.trim())).transpose()?;
        Ok(AdminClient::new(address, authorization, self.timeout()))
    }
}

/// `HOST:PORT`, also as the broker tells it at its start.
fn given(text: &str) -> anyhow::Result<String> {
    let address = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    ensure!(matches!(port, Some(Ok(1..))), "--admin {text}: give HOST:PORT");
    Ok(match address.parse::<SocketAddr>() {
        Ok(address) => reachable(address.ip(), address.port()),
        Err(_) => address.to_owned(),
    })
}

fn configured(config: &ServerConfig) -> anyhow::Result<String> {
    match config.system.dashboard_http_port {
        0 => bail!(
            "dashboardHttpPort=0 lets the system choose a port: give --admin with the address that the broker told at its \
             start (ADMIN http://HOST:PORT)"
        ),
        port => Ok(reachable(config.metaq.admin_bind_address, port)),
    }
}

/// The configuration of a broker that is to be asked. A running one goes on with what it read before, so whoever looks
/// after it must learn that a wrong file is no answer of it; `option` names it without the file.
///
/// # Errors
/// When the file cannot be read, or is wrong.
pub(in crate::cli) fn configuration_of(file: &Path, option: &str) -> anyhow::Result<ServerConfig> {
    ServerConfig::load(file).with_context(|| {
        let name = file.display();
        format!("nothing was asked, for {name} does not tell where the broker is: correct it, or give {option} instead")
    })
}

/// Where something that listens on this address of this machine is reached.
pub(in crate::cli) fn reachable(bound: IpAddr, port: u16) -> String {
    let ip = match bound {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(ip, port).to_string()
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let content = fs::read(file).with_context(|| {
        let name = file.display();
        if file.is_relative() {
            format!("cannot read the token file {name}, whose path starts from the working directory")
        } else {
            format!("cannot read the token file {name}")
        }
    })?;
    let text = String::from_utf8(content).ok().filter(|text| text.len() <= MAX_TOKEN_FILE_BYTES);
    text.filter(|text| !text.trim().is_empty()).with_context(|| format!("{} holds no token", file.display()))
}

fn authorization(token: &str) -> anyhow::Result<HeaderValue> {
    // The text of the error must not tell the token.
    let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}")) else {
        bail!("the token holds characters that no token can have")
    };
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_as_the_broker_tells_it() {
        assert_eq!(given("http://127.0.0.1:8120").unwrap(), "127.0.0.1:8120");
        assert_eq!(given("http://0.0.0.0:8120/").unwrap(), "127.0.0.1:8120");
        assert_eq!(given("[::]:8120").unwrap(), "[::1]:8120");
        assert_eq!(given("broker.example:8120").unwrap(), "broker.example:8120");
        for wrong in ["", "localhost", ":8120", "localhost:0", "localhost:http", "localhost:70000"] {
            assert!(given(wrong).unwrap_err().to_string().contains("give HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_never_told() {
        let error = authorization("sec\nret").unwrap_err().to_string();
        assert!(!error.contains("sec"), "{error}");
        assert!(!format!("{:?}", authorization("secret-token").unwrap()).contains("secret"));
    }
}
