//! The names that each section knows (03 §2–4), and the nearest one to a name it does not know.

/// Keys of `[system]`.
pub const SYSTEM_KEYS: &[&str] = &[
    "brokerId",
    "hostName",
    "serverPort",
    "dashboardHttpPort",
    "numPartitions",
    "dataPath",
    "dataLogPath",
    "appClassPath",
    "unflushThreshold",
    "unflushInterval",
    "maxSegmentSize",
    "maxTransferSize",
    "getProcessThreadCount",
    "putProcessThreadCount",
    "deletePolicy",
    "deleteWhen",
    "quartzThreadCount",
    "maxCheckpoints",
    "checkpointInterval",
    "maxTxTimeoutTimerCapacity",
    "maxTxTimeoutInSeconds",
    "flushTxLogAtCommit",
    "acceptPublish",
    "acceptSubscribe",
    "stat",
    "updateConsumerOffsets",
    "loadMessageStoresInParallel",
];

/// Names that the reference takes in `[system]` only because its class has fields of that name; they mean nothing.
pub(super) const SYSTEM_IGNORED: &[&str] = &[
    "topics",
    "slaveConfig",
    "zkConfig",
    "topicConfigMap",
    "propertyChangeSupport",
    "lastModified",
    "path",
    "configFileChecksum",
    "closedPartitionMap",
    "serialVersionUID",
    "log",
];

/// Keys of `[zookeeper]`.
pub const ZOOKEEPER_KEYS: &[&str] = &[
    "zk.zkConnect",
    "zk.zkRoot",
    "zk.zkEnable",
    "zk.zkSessionTimeoutMs",
    "zk.zkConnectionTimeoutMs",
    "zk.zkSyncTimeMs",
];

/// Keys of `[topic=…]`, beside those that begin with `group.`.
pub const TOPIC_KEYS: &[&str] = &[
    "numPartitions",
    "stat",
    "deletePolicy",
    "deleteWhen",
    "dataPath",
    "unflushInterval",
    "unflushThreshold",
    "acceptPublish",
    "acceptSubscribe",
];

/// Names that the reference takes in `[topic=…]` without any meaning.
pub(super) const TOPIC_IGNORED: &[&str] = &["topic", "filterClassNames"];

/// What a key of a topic begins with that names the message filter of a consumer group.
pub(super) const FILTER_PREFIX: &str = "group.";

/// Keys of `[metaq]`, the section that only this broker reads.
pub const METAQ_KEYS: &[&str] = &[
    "bindAddress",
    "maxConnections",
    "maxCommandLineBytes",
    "maxBodyBytes",
    "maxInFlightBytesPerConnection",
    "maxReceivingBytes",
    "maxUnsentBytes",
    "maxWildcardTopics",
    "connectionIdleTimeoutMs",
    "freeSpaceWarningBytes",
    "ioThreads",
    "adminBindAddress",
    "adminTokenFile",
    "commitLogFileBytes",
    "commitLogFiles",
    "logFileBytes",
    "logFiles",
];

/// Only so many characters of an unknown name are compared; no key is nearly that long.
const MAX_COMPARED_CHARS: usize = 100;

/// The candidate with the smallest edit distance, the first of several.
pub(super) fn nearest<'k>(name: &str, candidates: impl IntoIterator<Item = &'k str>) -> &'k str {
    let name: Vec<char> = name.chars().take(MAX_COMPARED_CHARS).collect();
    candidates.into_iter().min_by_key(|candidate| distance(&name, candidate)).unwrap_or_default()
}

/// Levenshtein distance, one row of the matrix at a time.
fn distance(left: &[char], right: &str) -> usize {
    let mut row: Vec<usize> = (0..=left.len()).collect();
    for (above, r) in right.chars().enumerate() {
        let mut diagonal = above;
        let mut before = above + 1;
        if let Some(first) = row.first_mut() {
            *first = before;
        }
        for (cell, &l) in row.iter_mut().skip(1).zip(left) {
            let substituted = diagonal + usize::from(l != r);
            diagonal = *cell;
            *cell = substituted.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances_are_those_of_the_textbook() {
        let d = |a: &str, b| distance(&a.chars().collect::<Vec<_>>(), b);
        assert_eq!(d("", ""), 0);
        assert_eq!(d("abc", ""), 3);
        assert_eq!(d("", "abc"), 3);
        assert_eq!(d("kitten", "sitting"), 3);
        assert_eq!(d("flaw", "lawn"), 2);
    }

    #[test]
    fn a_misspelt_key_finds_the_one_that_was_meant() {
        let system = || SYSTEM_KEYS.iter().copied();
        assert_eq!(nearest("brokerID", system()), "brokerId");
        assert_eq!(nearest("numPartition", system()), "numPartitions");
        assert_eq!(nearest("zkConnect", ZOOKEEPER_KEYS.iter().copied()), "zk.zkConnect");
        assert!(SYSTEM_KEYS.contains(&nearest(&"x".repeat(1 << 20), system())));
    }
}
