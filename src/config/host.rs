//! Host names that every client can read from `meta://host:port` (04 §3).

use std::net::{Ipv4Addr, Ipv6Addr};

/// A host name on which Java clients break.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "hostName={0} is not a legal host of a URI, Java clients could not connect to it; use an IP address or a name of \
     letters, digits, '-' and '.' whose last part begins with a letter"
)]
pub struct InvalidHost(String);

/// Checks that a host is an IP address (IPv6 with or without brackets) or a name that `java.net.URI` takes as host.
pub fn check_host(host: &str) -> Result<(), InvalidHost> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let legal = host.parse::<Ipv4Addr>().is_ok() || bare.parse::<Ipv6Addr>().is_ok() || is_uri_host_name(host);
    if legal { Ok(()) } else { Err(InvalidHost(super::reader::shortened(host))) }
}

fn is_uri_host_name(host: &str) -> bool {
    let labels: Vec<&str> = host.strip_suffix('.').unwrap_or(host).split('.').collect();
    let last_begins_with_letter =
        labels.last().is_some_and(|label| label.starts_with(|c: char| c.is_ascii_alphabetic()));
    labels.iter().all(|label| is_label(label)) && (labels.len() == 1 || last_begins_with_letter)
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_uri_names_are_taken() {
        for host in ["10.0.0.1", "::1", "[0:0:0:0:0:0:0:1]", "localhost", "my-host.example.com", "a.b.", "7broker"] {
            assert_eq!(check_host(host), Ok(()), "{host}");
        }
    }

    #[test]
    fn names_on_which_java_clients_break_are_refused() {
        for host in [
            "host_name",
            "10.0.0.256",
            "a..b",
            "-a",
            "a-",
            "a.7b",
            "[::1",
            "[10.0.0.1]",
            "h:1",
            "h/x",
            "测试",
            "a b",
            ".",
        ] {
            assert!(check_host(host).is_err(), "{host}");
        }
        assert!(check_host("host_name").unwrap_err().to_string().starts_with("hostName=host_name is not a legal host"));
    }
}
