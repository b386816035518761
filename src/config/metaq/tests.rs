use super::*;
use crate::config::IniFile;

fn read(options: &str) -> Result<MetaqConfig, Vec<String>> {
    let file = IniFile::parse(format!("[metaq]\n{options}").as_bytes()).unwrap();
    let mut problems = Problems::default();
    let config = MetaqConfig::read(file.section("metaq"), &mut problems);
    problems.finish().map(|_| config).map_err(|errors| errors.into_iter().map(|error| error.message).collect())
}

#[test]
fn the_section_may_be_absent_or_empty() {
    let mut problems = Problems::default();
    assert_eq!(MetaqConfig::read(None, &mut problems), MetaqConfig::default());
    assert!(problems.finish().is_ok());
    assert_eq!(read(""), Ok(MetaqConfig::default()));
}

#[test]
fn every_key_is_read() {
    let config = read(
        "bindAddress=[::1]\nmaxConnections=1\nmaxCommandLineBytes=2048\nmaxBodyBytes=4096\n\
         maxInFlightBytesPerConnection=8192\nmaxReceivingBytes=65536\nmaxUnsentBytes=1048576\n\
         maxWildcardTopics=0\nconnectionIdleTimeoutMs=0\nfreeSpaceWarningBytes=5\n\
         ioThreads=3\nadminBindAddress=0.0.0.0\nadminTokenFile=/etc/metaq/token\n\
         commitLogFileBytes=1048576\ncommitLogFiles=2\nlogFileBytes=4096\nlogFiles=1\n",
    );
    assert_eq!(
        config,
        Ok(MetaqConfig {
            bind_address: "::1".parse().unwrap(),
            max_connections: 1,
            max_command_line_bytes: 2048,
            max_body_bytes: 4096,
            max_in_flight_bytes_per_connection: 8192,
            max_receiving_bytes: 65536,
            max_unsent_bytes: 1_048_576,
            max_wildcard_topics: 0,
            connection_idle_timeout_ms: 0,
            free_space_warning_bytes: 5,
            io_threads: 3,
            admin_bind_address: "0.0.0.0".parse().unwrap(),
            admin_token_file: Some("/etc/metaq/token".into()),
            commit_log_file_bytes: 1_048_576,
            commit_log_files: 2,
            log_file_bytes: 4_096,
            log_files: 1,
        })
    );
}

#[test]
fn values_outside_their_range_are_refused() {
    for option in [
        "maxConnections=0",
        "maxConnections=1000001",
        "maxCommandLineBytes=1023",
        "maxCommandLineBytes=1048577",
        "maxBodyBytes=1023",
        "maxBodyBytes=2147483648",
        "maxInFlightBytesPerConnection=17179869185",
        "maxReceivingBytes=65535",
        "maxUnsentBytes=1048575",
        "maxWildcardTopics=-1",
        "connectionIdleTimeoutMs=86400001",
        "freeSpaceWarningBytes=-1",
        "ioThreads=65",
        "commitLogFileBytes=1048575",
        "commitLogFiles=1",
        "logFileBytes=4095",
        "logFiles=0",
        "logFiles=1001",
    ] {
        assert!(read(option).unwrap_err()[0].starts_with(&format!("{option} is out of range")), "{option}");
    }
    assert!(read("bindAddress=localhost").unwrap_err()[0].starts_with("bindAddress=localhost is not an IP address"));
    assert!(read("adminBindAddress=x").unwrap_err()[0].starts_with("adminBindAddress=x is not an IP address"));
}

#[test]
fn a_body_that_could_never_be_received_is_refused() {
    let errors = read("maxBodyBytes=67108865").unwrap_err();
    assert!(errors[0].starts_with("maxInFlightBytesPerConnection=67108864 is less than maxBodyBytes=67108865"));
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one() {
    assert_eq!(
        read("maxConnection=1").unwrap_err(),
        ["Invalid config key:maxConnection,do you mean 'maxConnections'?"]
    );
}

#[test]
fn the_listed_keys_are_exactly_the_shown_ones() {
    let shown: Vec<_> = MetaqConfig::default().entries().into_iter().map(|(key, _)| key).collect();
    assert_eq!(shown, METAQ_KEYS);
}
