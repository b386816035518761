use std::path::Path;

use super::*;
use crate::config::{Environment, TOPIC_KEYS};

const SYSTEM: &str = "[system]
brokerId=3
numPartitions=2
unflushThreshold=0
unflushInterval=1000
maxSegmentSize=65536
maxTransferSize=1048576
dataPath=/d
";

fn parse(text: &str) -> ServerConfig {
    let environment = Environment { home: Some("/h".into()), cpus: 2 };
    ServerConfig::parse(text.as_bytes(), Some(Path::new("server.ini")), &environment).unwrap()
}

fn with_topics(topics: &str) -> ServerConfig {
    parse(&format!("{SYSTEM}[zookeeper]\nzk.zkRoot=/meta\n{topics}"))
}

#[test]
fn topics_come_from_the_file_and_inherit_from_the_running_system() {
    let running = with_topics("[topic=a]\n[topic=b]\nstat=true\n");
    let text =
        format!("{SYSTEM}numPartitions=9\n[zookeeper]\nzk.zkRoot=/other\n[topic=a]\n[topic=c]\nnumPartitions=4\n");
    let file = parse(&text);
    let after = running.reloaded(&file);
    let partitions = |name: &str| after.topics.configured(name).map(|topic| topic.settings.num_partitions);
    assert_eq!([partitions("a"), partitions("b"), partitions("c")], [Some(2), None, Some(4)]);
    assert_eq!((after.system, after.zookeeper, after.metaq), (running.system, running.zookeeper, running.metaq));
    assert_eq!(after.checksum, file.checksum);
}

#[test]
fn each_key_that_a_section_sets_is_taken_from_it() {
    let other = [
        ("numPartitions", "7"),
        ("stat", "true"),
        ("deletePolicy", "archive,3"),
        ("deleteWhen", "0 0 1 * * ?"),
        ("dataPath", "/other"),
        ("unflushInterval", "5"),
        ("unflushThreshold", "6"),
        ("acceptPublish", "false"),
        ("acceptSubscribe", "false"),
    ];
    assert_eq!(other.map(|(key, _)| key).as_slice(), {
        let mut keys = TOPIC_KEYS.to_vec();
        keys.sort_by_key(|key| other.iter().position(|(other, _)| other == key));
        keys
    });
    let running = with_topics("[topic=a]\n");
    for (key, value) in other {
        let file = with_topics(&format!("[topic=a]\n{key}={value}\n"));
        let changes = Changes::between(&running, &file);
        let [ChangedTopic { keys, .. }] = &changes.changed[..] else { panic!("{key}: {changes:?}") };
        let changed: Vec<_> = keys.iter().map(|key| (key.key.as_str(), key.new.to_string())).collect();
        assert_eq!(changed, [(key, value.to_owned())]);
        assert_eq!(running.reloaded(&file).topics[0].settings, file.topics[0].settings);
    }
}

#[test]
fn what_waits_for_a_restart_is_compared_with_what_runs_each_time() {
    let running = with_topics("[topic=a]\n");
    let file =
        parse(&format!("{SYSTEM}serverPort=8124\n[zookeeper]\nzk.zkSyncTimeMs=1\n[metaq]\nioThreads=3\n[topic=a]\n"));
    let once = running.reloaded(&file);
    for running in [&running, &once] {
        let changes = Changes::between(running, &file);
        assert!(changes.added.is_empty() && changes.changed.is_empty() && changes.removed.is_empty());
        assert_eq!(
            changes.to_string(),
            "after a restart: [system] serverPort 8123 -> 8124\n\
             after a restart: [zookeeper] zk.zkSyncTimeMs 5000 -> 1\n\
             after a restart: [metaq] ioThreads 0 -> 3\n"
        );
    }
}

#[test]
fn a_report_names_what_was_added_changed_and_removed() {
    let running = with_topics("[topic=a]\ngroup.g=x.Filter\n[topic=b]\n");
    let file = with_topics("[topic=a]\nnumPartitions=3\ndataPath=/e\n[topic=c]\n");
    assert_eq!(
        Changes::between(&running, &file).to_string(),
        "topic c: added, numPartitions 2\n\
         topic a: numPartitions 2 -> 3, dataPath /d -> /e (for new partitions; before the next restart, move the \
         directories of the topic's present ones there), group.g x.Filter -> (not set)\n\
         topic b: removed; it takes no more messages, and what it has can still be read\n"
    );
}

#[test]
fn an_equal_file_changes_nothing_whatever_its_comments_and_order() {
    let running = with_topics("[topic=a]\n[topic=b]\n");
    let file = with_topics("; a comment\n[topic=b]\nnumPartitions=2\n[topic=a]\n");
    assert!(Changes::between(&running, &file).is_empty());
}
