//! Where the server of local mode listens: on the loopback address that `zk.zkConnect` names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::zk::ConnectString;

/// A `zk.zkConnect` that local mode cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotLocal {
    /// Several servers.
    #[error(
        "local mode has one ZooKeeper of its own, but zk.zkConnect={0} names several: name one, or start without -l"
    )]
    Several(String),
    /// A server that is not this machine, or may not be.
    #[error(
        "local mode serves this machine only, but zk.zkConnect names {0}: set it to localhost, 127.0.0.1 or [::1] with a \
         port, or start without -l"
    )]
    Elsewhere(String),
}

/// One address, or for `localhost` both: a client may try either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAddresses {
    pub(super) addresses: Vec<SocketAddr>,
}

impl LocalAddresses {
    /// The addresses that a connect string stands for. Its directory is the clients' affair.
    ///
    /// # Errors
    /// [`NotLocal`] if that is not one server on the loopback interface.
    pub fn of(connect: &ConnectString) -> Result<Self, NotLocal> {
        let servers = connect.servers();
        if servers.contains(',') {
            return Err(NotLocal::Several(servers));
        }
        let elsewhere = || NotLocal::Elsewhere(servers.clone());
        let (host, port) = servers.rsplit_once(':').ok_or_else(elsewhere)?;
        let port: u16 = port.parse().map_err(|_| elsewhere())?;
        let hosts: Vec<IpAddr> = if host.eq_ignore_ascii_case("localhost") {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        } else {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let host: IpAddr = bare.parse().map_err(|_| elsewhere())?;
            vec![if host.is_loopback() { host } else { return Err(elsewhere()) }]
        };
        Ok(Self { addresses: hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(connect: &str) -> Result<Vec<String>, NotLocal> {
        let addresses = LocalAddresses::of(&connect.parse().unwrap())?.addresses;
        Ok(addresses.iter().map(SocketAddr::to_string).collect())
    }

    #[test]
    fn loopback_addresses_are_taken() {
        let both = vec!["127.0.0.1:2181".to_owned(), "[::1]:2181".to_owned()];
        assert_eq!(of("localhost:2181"), Ok(both.clone()));
        assert_eq!(of("LOCALHOST/metaq"), Ok(both));
        assert_eq!(of("127.0.0.1:99/a/b"), Ok(vec!["127.0.0.1:99".to_owned()]));
        assert_eq!(of("[::1]:99"), Ok(vec!["[::1]:99".to_owned()]));
    }

    #[test]
    fn several_servers_and_other_machines_are_refused_and_named() {
        for (connect, named) in [
            ("localhost:1,localhost:2", "localhost:1,localhost:2"),
            ("10.0.0.1:2181", "10.0.0.1:2181"),
            ("0.0.0.0:2181", "0.0.0.0:2181"),
            ("zk.example.com", "zk.example.com:2181"),
            ("[fe80::1]:2181", "[fe80::1]:2181"),
        ] {
            let error = of(connect).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("start without -l"), "{error}");
        }
    }
}
