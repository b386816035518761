//! The address under which others know this machine when the configuration names none (04 §3).

use std::net::IpAddr;

/// The first IPv4 address of an interface other than loopback, else the last such IPv6 address, else the loopback
/// address.
pub(crate) fn default_host() -> String {
    let addresses = if_addrs::get_if_addrs().unwrap_or_default();
    choose(addresses.iter().map(if_addrs::Interface::ip))
}

fn choose(addresses: impl Iterator<Item = IpAddr>) -> String {
    let mut last_ipv6 = None;
    for address in addresses.filter(|address| !address.is_loopback()) {
        match address {
            IpAddr::V4(_) => return address.to_string(),
            IpAddr::V6(_) => last_ipv6 = Some(address),
        }
    }
    last_ipv6.map_or_else(|| "127.0.0.1".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ipv4_address_wins_over_every_ipv6_address() {
        let choose = |addresses: &[&str]| choose(addresses.iter().map(|a| a.parse().unwrap()));
        assert_eq!(choose(&["127.0.0.1", "fe80::1", "10.0.0.1", "10.0.0.2"]), "10.0.0.1");
        assert_eq!(choose(&["::1", "fe80::1", "fe80::2"]), "fe80::2");
        assert_eq!(choose(&["127.0.0.1", "::1"]), "127.0.0.1");
    }
}
