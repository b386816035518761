use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::Environment;

const FULL: &str = "[system]
brokerId=3
numPartitions=2
dataPath=C:\\\\meta\\u0001\\nx
unflushThreshold=0
unflushInterval=-1
maxSegmentSize=64*1024
maxTransferSize=1048576
deletePolicy=archive,90m,true
[zookeeper]
zk.zkRoot=/
[topic=\\u6d4b*]
numPartitions=7
group.a\\=b\\:c=com.x.Filter
[topic=plain]
[odd]
";

fn parse(text: &str) -> ServerConfig {
    let environment = Environment { home: Some("/h".into()), cpus: 2 };
    ServerConfig::parse(text.as_bytes(), Some(Path::new("server.ini")), &environment).unwrap()
}

#[test]
fn what_is_displayed_has_the_same_effect_when_read_again() {
    let config = parse(FULL);
    let again = parse(&config.effective().to_string());
    assert_eq!(again.system, config.system);
    assert_eq!(again.zookeeper, config.zookeeper);
    assert_eq!(again.metaq, config.metaq);
    assert_eq!(again.topics.defaults(), config.topics.defaults());
    assert_eq!(again.topics.patterns(), config.topics.patterns());
    assert_eq!(again.topics.len(), config.topics.len());
    for (again, config) in again.topics.iter().zip(config.topics.iter()) {
        assert_eq!((&again.name, &again.settings, &again.filters), (&config.name, &config.settings, &config.filters));
    }
    assert_eq!(again.effective().to_string(), config.effective().to_string());
}

#[test]
fn what_is_serialized_has_the_names_of_the_file() {
    let shown = serde_json::to_value(parse(FULL).effective()).unwrap();
    assert_eq!(shown["path"], "server.ini");
    assert_eq!(shown["checksum"], crc32fast::hash(FULL.as_bytes()));
    assert_eq!(shown["system"]["brokerId"], 3);
    assert_eq!(shown["system"]["hostName"], json!(null));
    assert_eq!(shown["system"]["dataPath"], "C:\\meta\u{1}\nx");
    assert_eq!(shown["system"]["deletePolicy"], "archive,90m,true");
    assert_eq!(shown["zookeeper"]["zk.zkRoot"], "/");
    assert_eq!(shown["metaq"]["maxConnections"], 10_000);
    assert_eq!(
        shown["topics"][0],
        json!({
            "topic": "测*",
            "numPartitions": 7,
            "stat": false,
            "deletePolicy": "archive,90m,true",
            "deleteWhen": "0 0 6,18 * * ?",
            "dataPath": "C:\\meta\u{1}\nx",
            "unflushInterval": -1,
            "unflushThreshold": 0,
            "acceptPublish": true,
            "acceptSubscribe": true,
            "group.a=b:c": "com.x.Filter",
            "explicit": ["numPartitions"],
        })
    );
    assert_eq!(shown["warnings"][1]["message"], "section [odd] is unknown and ignored");
    assert_eq!(shown["topics"].as_array().unwrap().len(), 2);
}

proptest! {
    #[test]
    fn any_text_survives_being_shown(
        path in any::<String>(),
        group in any::<String>(),
        filter in any::<String>(),
        topic in "[^/\\x00-\\x1f\\x7f-\\x9f\u{e000}-\u{f8ff}\u{fff0}-\u{ffff}]{1,20}",
    ) {
        let (path, filter, topic) = (escape(&path), escape(&filter), escape(&topic));
        let path = path.replace("\\u0000", "");
        let group = escape_key(&format!("group.{group}x"));
        let text =
            format!("{FULL}dataPath=x{path}\n[system]\ndeleteWhen=0 0 1 * * ?\n[topic={topic}]\n{group}={filter}\n");
        let text = text.replace("[odd]\n", "[topic=odd]\n");
        let environment = Environment { home: Some("/h".into()), cpus: 2 };
        let Ok(config) = ServerConfig::parse(text.as_bytes(), None, &environment) else {
            return Err(TestCaseError::reject(". or .. as topic name"));
        };
        prop_assert!(config.topics.configured("odd").is_some_and(|odd| odd.explicit == ["dataPath"]));
        let again = parse(&config.effective().to_string());
        prop_assert_eq!(&again.system, &config.system);
        for (again, config) in again.topics.iter().zip(config.topics.iter()) {
            prop_assert_eq!(&again.name, &config.name);
            prop_assert_eq!(&again.settings, &config.settings);
            prop_assert_eq!(&again.filters, &config.filters);
        }
    }
}
