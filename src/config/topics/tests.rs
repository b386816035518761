use std::path::Path;

use super::*;
use crate::config::{Environment, ServerConfig};

const BASE: &str = "[system]
brokerId=0
dataPath=/d
numPartitions=2
unflushThreshold=0
unflushInterval=10000
maxSegmentSize=1024*1024
maxTransferSize=1048576
[zookeeper]
zk.zkConnect=localhost:2181
";

fn parse(topics: &str) -> Result<ServerConfig, Vec<(usize, String)>> {
    let text = format!("{BASE}{topics}");
    let environment = Environment { home: None, cpus: 1 };
    ServerConfig::parse(text.as_bytes(), None, &environment).map_err(|errors| {
        let first = BASE.lines().count();
        errors.errors.into_iter().map(|e| (e.line.map_or(0, |line| line - first), e.message)).collect()
    })
}

#[test]
fn a_topic_takes_what_it_does_not_set_from_system() {
    let config = parse("[topic=a]\nnumPartitions=7\nstat=TRUE\nunflushInterval=\n[topic=b]\n").unwrap();
    let a = &config.topics[0];
    assert_eq!(a.name.as_str(), "a");
    assert_eq!(a.settings.num_partitions, 7);
    assert_eq!(a.settings.unflush_interval, 10_000);
    assert_eq!(a.settings.data_path, Path::new("/d"));
    assert!(a.settings.stat);
    assert_eq!(a.explicit, ["numPartitions", "stat"]);
    assert_eq!(config.topics[1].settings, *config.topics.defaults());
}

#[test]
fn every_topic_key_is_read() {
    let config = parse(
        "[topic=a]\nnumPartitions=3\nstat=true\ndeletePolicy=archive,5m,true\ndeleteWhen=0 0 1 * * ?\ndataPath=/x\n\
         unflushInterval=-1\nunflushThreshold=1\nacceptPublish=false\nacceptSubscribe=false\ngroup.g=com.x.Filter\n\
         group.h=\n",
    )
    .unwrap();
    let topic = &config.topics[0];
    assert_eq!(
        topic.settings,
        TopicSettings {
            num_partitions: 3,
            unflush_threshold: 1,
            unflush_interval: -1,
            data_path: "/x".into(),
            delete_policy: DeletePolicy::Archive { max_age_ms: 300_000, compress: true },
            delete_when: "0 0 1 * * ?".parse().unwrap(),
            accept_publish: false,
            accept_subscribe: false,
            stat: true,
        }
    );
    assert_eq!(topic.explicit, TOPIC_KEYS);
    assert_eq!(topic.filters, BTreeMap::from([("g".into(), "com.x.Filter".into())]));
}

#[test]
fn wrong_values_of_a_topic_are_refused_with_their_lines() {
    let errors = parse(
        "[topic=a]\nnumPartition=1\nnumPartitions=0\nunflushThreshold=4294967296\nacceptPublish=TRUE\n\
         deletePolicy=gzip\ngroup.=x\ndeleteWhen=0 0 24 * * ?\n",
    )
    .unwrap_err();
    assert_eq!(errors.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(errors[0].1, "Invalid config key:numPartition,do you mean 'numPartitions'?");
    assert_eq!(errors[1].1, "numPartitions=0 is out of range, the least is 1, the most 65536");
    assert!(errors[2].1.starts_with("unflushThreshold=4294967296 is out of range"));
    assert_eq!(errors[3].1, "acceptPublish=TRUE: write true or false");
    assert!(errors[4].1.starts_with("deletePolicy=gzip: gzip: unknown delete policy"), "{}", errors[4].1);
    assert_eq!(errors[6].1, "deleteWhen=0 0 24 * * ?: Hour values must be between 0 and 23 (in the field hour, '24')");
}

#[test]
fn names_that_cannot_be_a_topic_are_refused() {
    let errors = parse("[topic=a/b]\n[topic=]\n[topic=ok]\n").unwrap_err();
    assert_eq!(
        errors,
        [(1, "a topic name must not contain the character '/'".into()), (2, "a topic name must not be empty".into()),]
    );
    assert_eq!(parse("").unwrap_err(), [(0, "Empty topics list".into())]);
}

#[test]
fn a_wrong_name_hides_nothing_else_of_its_section() {
    let errors = parse("[topic=a/b]\nnumPartition=1\nunflushThreshold=x\ndeletePolicy=delete,1d\n").unwrap_err();
    assert_eq!(errors.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(errors[3].1.starts_with("deletePolicy=delete,1d: New delete policy `delete` failed"), "{}", errors[3].1);
}

#[test]
fn harmless_oddities_are_warned_of() {
    let config = parse("[topic=a b]\nstat=yes\ntopic=x\nfilterClassNames=y\n[slave]\nx=1\n").unwrap();
    let messages: Vec<_> = config.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "no command can name the topic 'a b', because it contains a blank",
            "stat=yes counts as false; write true or false",
            "topic is accepted and ignored",
            "filterClassNames is accepted and ignored",
            "section [slave] is unknown and ignored",
        ]
    );
    assert!(!config.topics[0].settings.stat);
}

#[test]
fn a_pattern_admits_with_the_values_of_system_and_is_a_topic_itself() {
    let config = parse("[topic=it-*]\nnumPartitions=9\n[topic=it-x]\nnumPartitions=3\n").unwrap();
    let partitions = |name| config.topic(name).map(|settings| settings.num_partitions);
    assert_eq!(partitions("it-x"), Some(3));
    assert_eq!(partitions("it-*"), Some(9));
    assert_eq!(partitions("it-other"), Some(2));
    assert_eq!(partitions("other"), None);
    assert_eq!(partitions("it-a/b"), None);
    assert_eq!(partitions(&format!("it-{}", "x".repeat(198))), None);
    assert!(matches!(config.topics.admission("it-other"),
        Some(Admission::Wildcard { pattern, .. }) if pattern.name().as_str() == "it-*"));
    assert!(
        matches!(config.topics.admission("it-x"), Some(Admission::Configured(topic)) if topic.name.as_str() == "it-x")
    );
}

#[test]
fn a_change_of_one_topic_leaves_the_others_equal() {
    let before = parse("[topic=a]\n[topic=b]\nstat=true\n").unwrap();
    let after = parse("; moved by a comment\n[topic=b]\nstat=false\n[topic=a]\n").unwrap();
    assert_eq!(before.system, after.system);
    assert_eq!(before.topics.configured("a"), after.topics.configured("a"));
    assert_ne!(before.topics.configured("b"), after.topics.configured("b"));
}
