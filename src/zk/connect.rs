//! `zk.zkConnect`: the servers of an ensemble and an optional directory that everything lies below (04 §1).

use std::fmt;
use std::str::FromStr;

use super::paths::check_path;

/// Port of a server whose address names none.
pub const DEFAULT_PORT: u16 = 2181;

/// A checked and cleaned connect string: `host:port,host:port/directory`.
///
/// Blanks around each server, empty list items and a trailing slash, all of which the Java client forgives, are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectString {
    servers: Vec<String>,
    chroot: Option<String>,
}

/// A text that is not a connect string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("zk.zkConnect '{text}' is not of the form host:port,host:port/directory: {reason}")]
pub struct InvalidConnectString {
    text: String,
    reason: String,
}

impl ConnectString {
    /// The servers, each with its port, joined by `,`.
    pub fn servers(&self) -> String {
        self.servers.join(",")
    }

    /// The directory that every path is below, without a slash at its end.
    pub fn chroot(&self) -> Option<&str> {
        self.chroot.as_deref()
    }
}

impl FromStr for ConnectString {
    type Err = InvalidConnectString;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |reason: String| InvalidConnectString { text: text.to_owned(), reason };
        let trimmed = text.trim();
        let (list, directory) = trimmed.split_at(trimmed.find('/').unwrap_or(trimmed.len()));
        let servers = list
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(server)
            .collect::<Result<Vec<_>, _>>()
            .map_err(invalid)?;
        if servers.is_empty() {
            return Err(invalid("it names no server".to_owned()));
        }
        let directory = directory.strip_suffix('/').unwrap_or(directory);
        let chroot = if directory.is_empty() {
            None
        } else {
            check_path(directory).map_err(|reason| invalid(reason.to_owned()))?;
            Some(directory.to_owned())
        };
        Ok(Self { servers, chroot })
    }
}

fn server(text: &str) -> Result<String, String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, "")) => (text, None),
        Some((_, rest)) => (
            &text[..text.len() - rest.len()],
            Some(rest.strip_prefix(':').ok_or_else(|| format!("'{text}' is no address"))?),
        ),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() || host == "[]" || host.contains(char::is_whitespace) {
        return Err(format!("'{text}' names no host"));
    }
    match port {
        None => Ok(format!("{host}:{DEFAULT_PORT}")),
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number > 0 => Ok(format!("{host}:{number}")),
            _ => Err(format!("'{port}' is no port")),
        },
    }
}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.servers(), self.chroot.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_java_client_forgives_is_cleaned() {
        for (text, clean) in [
            ("localhost:2181", "localhost:2181"),
            (" 10.0.0.1:2181 , 10.0.0.2:2182 ", "10.0.0.1:2181,10.0.0.2:2182"),
            ("a:1,b:2,", "a:1,b:2"),
            ("a", "a:2181"),
            ("a:1/", "a:1"),
            ("a:1,b:2/x/y/", "a:1,b:2/x/y"),
            ("[::1]:2181/x", "[::1]:2181/x"),
            ("[::1]", "[::1]:2181"),
        ] {
            assert_eq!(text.parse::<ConnectString>().map(|c| c.to_string()), Ok(clean.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_wrong_connect_string_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "names no server"),
            (" , ", "names no server"),
            ("/meta", "names no server"),
            ("a:b", "'b' is no port"),
            ("a:0", "'0' is no port"),
            (":2181", "names no host"),
            ("tcp://a:1", "is no port"),
            ("a b:1", "names no host"),
            ("[::1]2181", "is no address"),
            ("a:1//x", "empty"),
            ("a:1/x/../y", "'.' or '..'"),
        ] {
            let error = text.parse::<ConnectString>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
