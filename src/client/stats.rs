//! Statistics of brokers (07 §13).

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::NoAnswer;
use super::{BrokerClient, ClientError};

/// Longest wait for a broker's statistics.
pub(super) const STATS_TIMEOUT: Duration = Duration::from_secs(3);

/// Value of a line that has none.
const NO_VALUE: &str = "NO VALUE";

/// What a broker counts: keys and values as they come, both text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerStats(BTreeMap<String, String>);

impl BrokerStats {
    /// Splits lines at their first blank. A line without one, such as `STATS` and `END`, has the value `NO VALUE`; of
    /// several lines with one key the last counts.
    fn parse(text: &str) -> Self {
        let lines = text.split("\r\n").filter(|line| !line.is_empty());
        let split = |line: &str| {
            let (key, value) = line.split_once(' ').unwrap_or((line, NO_VALUE));
            (key.to_owned(), value.to_owned())
        };
        Self(lines.map(split).collect())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// All keys with their values, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Asks one broker; `None` if it refuses. Cancellation-safe.
pub(super) async fn ask(
    client: &BrokerClient,
    item: &str,
    timeout: Duration,
) -> Result<Option<BrokerStats>, ClientError> {
    match tokio::time::timeout(timeout, client.stats(item)).await {
        Ok(Ok(text)) => Ok(Some(BrokerStats::parse(&text))),
        Ok(Err(ClientError::Refused { .. })) => Ok(None),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(NoAnswer::Timeout { address: client.address().to_owned(), timeout }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_the_reference_splits_them() {
        let stats = BrokerStats::parse("STATS\r\npid 42\r\ncmd_put 1\r\ncmd_put 2\r\na b c\r\nEND\r\n");
        let all: Vec<_> = stats.iter().collect();
        let expected = [("END", NO_VALUE), ("STATS", NO_VALUE), ("a", "b c"), ("cmd_put", "2"), ("pid", "42")];
        assert_eq!(all, expected);
        assert_eq!((stats.get("pid"), stats.get("x")), (Some("42"), None));
    }
}
