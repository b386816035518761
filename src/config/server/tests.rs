use std::fs;

use proptest::prelude::*;

use super::*;

const MINIMAL: &str = "[system]
brokerId=3
numPartitions=2
unflushThreshold=0
unflushInterval=10000
maxSegmentSize=1073741824
maxTransferSize=1048576
[zookeeper]
zk.zkConnect=localhost:2181
[topic=test]
";

#[test]
fn a_file_is_loaded_with_its_checksum() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.ini");
    fs::write(&path, MINIMAL).unwrap();
    let config = ServerConfig::load(&path).unwrap();
    assert_eq!(config.path.as_deref(), Some(&*path));
    assert_eq!(config.checksum, crc32fast::hash(MINIMAL.as_bytes()));
    assert_eq!(config.system.broker_id.get(), 3);
    assert_eq!(config.topics.len(), 1);
    assert!(config.warnings.is_empty());
}

#[test]
fn the_checksum_has_all_32_bits_and_is_absent_without_a_file() {
    let parse = |text: &str, path| ServerConfig::parse(text.as_bytes(), path, &Environment::detect()).unwrap();
    let checksums = (0..64).map(|i| parse(&format!("{MINIMAL};{i}"), Some(Path::new("server.ini"))).checksum);
    assert!(checksums.max().unwrap() > u32::MAX / 2, "the highest bit was masked");
    assert_eq!(parse(MINIMAL, None).checksum, 0);
}

#[test]
fn a_file_that_is_not_there_or_no_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent.ini");
    assert_eq!(
        ServerConfig::load(&absent).unwrap_err().to_string(),
        format!("File {} is not exists", absent.display())
    );
    assert_eq!(ServerConfig::load("").unwrap_err().to_string(), "Blank file path");
    let text = ServerConfig::load(directory.path()).unwrap_err().to_string();
    assert!(text.starts_with("Parse configuration failed,path="), "{text}");
    assert!(text.contains("is a directory"), "{text}");
}

#[test]
fn an_enormous_file_is_refused_without_being_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.ini");
    fs::File::create(&path).unwrap().set_len(MAX_FILE_BYTES * 1024).unwrap();
    assert!(matches!(ServerConfig::load(&path), Err(ConfigError::TooLarge(_))));
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let text = "[system]\nbrokerId=1024\nserverport=1\n[zookeeper]\nzk.zkEnable=maybe\n[metaq]\nmaxConnection=1\n[topic=a/b]\n";
    let errors = ServerConfig::parse(text.as_bytes(), Some(Path::new("s.ini")), &Environment::detect()).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "s.ini:1: Blank value for numPartitions\n\
         s.ini:1: Blank value for unflushThreshold\n\
         s.ini:1: Blank value for unflushInterval\n\
         s.ini:1: Blank value for maxSegmentSize\n\
         s.ini:1: Blank value for maxTransferSize\n\
         s.ini:2: worker Id can't be greater than 1023 or less than 0 (brokerId=1024)\n\
         s.ini:3: Invalid config key:serverport,do you mean 'serverPort'?\n\
         s.ini:5: zk.zkEnable=maybe: write true or false\n\
         s.ini:7: Invalid config key:maxConnection,do you mean 'maxConnections'?\n\
         s.ini:8: a topic name must not contain the character '/'"
    );
}

#[test]
fn missing_sections_are_named() {
    let errors = ServerConfig::parse(b"", None, &Environment::detect()).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "configuration: there is no section [system]; brokerId and others must be set in it\n\
         configuration: there is no section [zookeeper]; zk.zkConnect must be set in it\n\
         configuration: Empty topics list"
    );
}

#[test]
fn unreadable_lines_do_not_make_their_keys_missing() {
    let text = MINIMAL.replace("brokerId=3", "brokerId 3").replace("[topic=test]", "[topic=test");
    let errors = ServerConfig::parse(text.as_bytes(), None, &Environment::detect()).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "configuration:2: parse error (at line: 2): brokerId 3\n\
         configuration:10: parse error (at line: 10): [topic=test"
    );
}

#[test]
fn fields_of_the_java_class_are_ignored_with_a_warning() {
    let text = MINIMAL.replace("[system]\n", "[system]\nslaveConfig=x\n");
    let config = ServerConfig::parse(text.as_bytes(), None, &Environment::detect()).unwrap();
    assert_eq!(config.warnings.len(), 1);
    assert_eq!(config.warnings[0].line, Some(2));
    assert_eq!(config.warnings[0].section.as_deref(), Some("system"));
    assert_eq!(config.warnings[0].message, "slaveConfig is accepted and ignored");
}

#[test]
fn equal_content_is_equal_whatever_its_comments() {
    let environment = Environment::detect();
    let one = ServerConfig::parse(MINIMAL.as_bytes(), None, &environment).unwrap();
    let commented = format!("; a comment\n{MINIMAL}");
    assert_eq!(one, ServerConfig::parse(commented.as_bytes(), None, &environment).unwrap());
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ServerConfig::parse(&bytes, None, &Environment { home: None, cpus: 1 });
    }

    #[test]
    fn no_value_makes_reading_panic(key in prop::sample::select(crate::config::SYSTEM_KEYS), value in any::<String>()) {
        let text = format!("{MINIMAL}[system]\n{key}={value}\n");
        let _ = ServerConfig::parse(text.as_bytes(), None, &Environment { home: None, cpus: 1 });
    }
}
