//! The recorded INI files of the reference's parser, and the shipped configuration file.
#![cfg(feature = "broker")]
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod ini_expectation;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ini_expectation::{Expected, expectations};
use metaq::config::{
    ConfigError, Environment, IniFile, METAQ_KEYS, SYSTEM_KEYS, ServerConfig, TOPIC_KEYS, ZOOKEEPER_KEYS,
};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn vector(name: &str) -> Vec<u8> {
    fs::read(project("tests/fixtures/ini").join(name)).unwrap()
}

/// Sections and options in the form of the expectations.
fn sections(file: &IniFile) -> Vec<(String, Vec<(String, String)>)> {
    let options = |section: &metaq::config::Section| {
        section.options().iter().map(|option| (option.key.clone(), option.value.clone())).collect()
    };
    file.sections().iter().map(|section| (section.name().to_owned(), options(section))).collect()
}

#[test]
fn every_recorded_file_is_read_as_ini4j_reads_it() {
    let expected = expectations(&fs::read_to_string(project("tests/fixtures/ini/expected-ini4j.txt")).unwrap());
    assert_eq!(expected.len(), 30);
    for (name, expected) in &expected {
        let found = IniFile::parse(&vector(name));
        match expected {
            Expected::Error(text) => assert_eq!(found.unwrap_err()[0].to_string(), *text, "{name}"),
            Expected::Sections(expected) => {
                let mut expected = expected.clone();
                if name == "28_slash_section.ini" {
                    // ini4j keeps sections in a tree and makes up the parent of `topic=a/b`, which no line names
                    assert_eq!(expected.remove(0), ("topic=a".to_owned(), vec![]));
                }
                assert_eq!(sections(&found.unwrap()), expected, "{name}");
            }
        }
    }
}

#[test]
fn every_recorded_file_has_an_expectation() {
    let expected = expectations(&fs::read_to_string(project("tests/fixtures/ini/expected-ini4j.txt")).unwrap());
    let expected: BTreeSet<_> = expected.into_iter().map(|(name, _)| name).collect();
    let entries = fs::read_dir(project("tests/fixtures/ini")).unwrap();
    let mut files: BTreeSet<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.retain(|name| name.ends_with(".ini"));
    assert!(files.remove("gbk-comments.ini"));
    assert_eq!(files, expected);
}

#[test]
fn comments_in_another_encoding_harm_nothing() {
    let file = IniFile::parse(&vector("gbk-comments.ini")).unwrap();
    let value = |section: &str, key| file.section(section).and_then(|section| section.get(key)).unwrap();
    assert_eq!(value("system", "brokerId").value, "7");
    assert_eq!(value("system", "numPartitions").value, "3");
    assert_eq!(value("zookeeper", "zk.zkConnect").value, "localhost:2181");
    assert_eq!(value("topic=gbk-test", "stat").value, "true");
    assert_eq!(value("topic=gbk-test", "stat").line, 15);
}

#[test]
fn keys_without_default_are_required_whatever_the_encoding() {
    let path = project("tests/fixtures/ini/gbk-comments.ini");
    let Err(ConfigError::Invalid(errors)) = ServerConfig::load(&path) else {
        panic!("the file lacks required keys");
    };
    let shown = path.display();
    let missing = ["unflushThreshold", "unflushInterval", "maxSegmentSize", "maxTransferSize"];
    let expected = missing.map(|key| format!("{shown}:2: Blank value for {key}"));
    assert_eq!(errors.to_string(), expected.join("\n"));
}

#[test]
fn a_file_in_another_encoding_loads_once_it_has_the_required_keys() {
    let mut bytes = vector("gbk-comments.ini");
    bytes.extend_from_slice(
        b"\n[system]\nunflushThreshold=0\nunflushInterval=10000\nmaxSegmentSize=1073741824\nmaxTransferSize=1048576\n",
    );
    let config = ServerConfig::parse(&bytes, None, &Environment::detect()).unwrap();
    assert_eq!(config.system.broker_id.get(), 7);
    assert_eq!(config.topics.len(), 1);
    let topic = config.topic("gbk-test").unwrap();
    assert_eq!(topic.num_partitions, 3);
    assert!(topic.stat);
}

#[test]
fn errors_name_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.ini");
    fs::write(&path, "[system]\nbrokerId=0\nnumPartitons=1\n\n  stray line  \n").unwrap();
    let shown = path.display();
    assert_eq!(
        ServerConfig::load(&path).unwrap_err().to_string(),
        format!(
            "{shown}:3: Invalid config key:numPartitons,do you mean 'numPartitions'?\n\
             {shown}:5: parse error (at line: 5): stray line"
        )
    );
}

#[test]
fn the_shipped_file_loads_without_a_warning() {
    let config = ServerConfig::load(project("conf/server.ini")).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    assert_eq!(config.system.broker_id.get(), 0);
    assert_eq!(config.system.server_port, 8123);
    assert_eq!(config.system.unflush_threshold, 0);
    assert_eq!(config.zookeeper.connect, "localhost:2181");
    assert_eq!(config.topics.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["test"]);
}

#[test]
fn the_shipped_file_mentions_every_key_in_its_section() {
    let text = fs::read_to_string(project("conf/server.ini")).unwrap();
    let mut section = String::new();
    let mut mentioned = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        }
        if let Some((key, _)) = line.trim_start_matches(';').split_once('=') {
            mentioned.insert((section.clone(), key.to_owned()));
        }
    }
    for (section, keys) in [("system", SYSTEM_KEYS), ("zookeeper", ZOOKEEPER_KEYS), ("metaq", METAQ_KEYS)] {
        for key in keys {
            assert!(mentioned.contains(&(section.to_owned(), (*key).to_owned())), "[{section}] {key} is not explained");
        }
    }
    let topics = text.split_once("; Topics, one section each").unwrap().1;
    let words: BTreeSet<&str> = topics.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    assert!(TOPIC_KEYS.iter().chain(&["group"]).all(|key| words.contains(key)));
}

#[test]
fn what_the_shipped_file_calls_a_default_is_one() {
    let text = fs::read_to_string(project("conf/server.ini")).unwrap();
    let environment = Environment { home: Some("/home/admin".into()), cpus: 4 };
    let shipped = ServerConfig::parse(text.as_bytes(), None, &environment).unwrap();
    // these have no default that could be written down
    let found_out = [";hostName=", ";appClassPath=", ";adminTokenFile="];
    let is_commented_option = |line: &str| {
        line.strip_prefix(';').is_some_and(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
            && !found_out.iter().any(|key| line.starts_with(key))
    };
    let uncommented: Vec<&str> =
        text.lines().map(|line| if is_commented_option(line) { &line[1..] } else { line }).collect();
    assert!(uncommented.iter().filter(|line| line.contains('=') && !line.starts_with(';')).count() > 35);
    let explicit = ServerConfig::parse(uncommented.join("\n").as_bytes(), None, &environment).unwrap();
    assert_eq!(explicit, shipped);
}
