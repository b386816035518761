use std::path::Path;

use super::*;
use crate::config::IniFile;

const REQUIRED: &str =
    "brokerId=1\nnumPartitions=2\nunflushThreshold=0\nunflushInterval=10000\nmaxSegmentSize=64\nmaxTransferSize=32\n";

fn read(options: &str) -> Result<SystemConfig, Vec<String>> {
    let file = IniFile::parse(format!("[system]\n{options}").as_bytes()).unwrap();
    let environment = Environment { home: Some("/home/meta".into()), cpus: 4 };
    let mut problems = Problems::default();
    let config = SystemConfig::read(file.section("system"), &environment, &mut problems);
    problems.finish().map(|_| config).map_err(|errors| errors.into_iter().map(|error| error.message).collect())
}

fn with(options: &str) -> Result<SystemConfig, Vec<String>> {
    read(&format!("{REQUIRED}{options}"))
}

#[test]
fn defaults_are_those_of_the_reference() {
    let config = read(REQUIRED).unwrap();
    assert_eq!(config.host_name, None);
    assert_eq!((config.server_port, config.dashboard_http_port), (8123, 8120));
    assert_eq!(config.data_path, Path::new("/home/meta/meta"));
    assert_eq!(config.data_log_path, config.data_path);
    assert_eq!((config.get_process_thread_count, config.put_process_thread_count), (40, 40));
    assert_eq!(config.delete_policy, DeletePolicy::DEFAULT);
    assert_eq!(config.delete_when, "0 0 6,18 * * ?".parse().unwrap());
    assert_eq!((config.quartz_thread_count, config.max_checkpoints), (5, 3));
    assert_eq!(config.checkpoint_interval_ms, 3_600_000);
    assert_eq!((config.max_tx_timeout_timer_capacity, config.max_tx_timeout_in_seconds), (30_000, 60));
    assert_eq!(config.flush_tx_log_at_commit, 1);
    assert!(config.accept_publish && config.accept_subscribe);
    assert!(!config.stat && !config.update_consumer_offsets && !config.load_message_stores_in_parallel);
}

#[test]
fn the_journal_follows_the_data_unless_it_has_a_place_of_its_own() {
    assert_eq!(with("dataPath=/d\n").unwrap().data_log_path, Path::new("/d"));
    assert_eq!(with("dataPath=/d\ndataLogPath=/l\n").unwrap().data_log_path, Path::new("/l"));
}

#[test]
fn keys_without_a_default_are_required() {
    let keys =
        ["brokerId", "numPartitions", "unflushThreshold", "unflushInterval", "maxSegmentSize", "maxTransferSize"];
    let expected: Vec<_> = keys.iter().map(|key| format!("Blank value for {key}")).collect();
    let mut found = read("").unwrap_err();
    found.sort_by_key(|message| expected.iter().position(|text| text == message));
    assert_eq!(found, expected);
    assert_eq!(read(&REQUIRED.replace("brokerId=1", "brokerId=")).unwrap_err(), ["Blank value for brokerId"]);
}

#[test]
fn numbers_are_expressions_and_are_not_cut_to_32_bits() {
    assert_eq!(with("maxSegmentSize=1024 * 1024 * (1024 - 0x200)\n").unwrap().max_segment_size, 1 << 29);
    for value in ["4294967296", "2147483648", "0", "-1"] {
        let errors = with(&format!("maxSegmentSize={value}\n")).unwrap_err();
        assert_eq!(errors, [format!("maxSegmentSize={value} is out of range, the least is 1, the most 2147483647")]);
    }
    assert_eq!(
        with("unflushThreshold=ten\n").unwrap_err(),
        [
            "unflushThreshold=ten: has an unexpected 't' at column 1; write an integer, or integers with + - * / % and ( )"
        ]
    );
    assert_eq!(with("unflushThreshold=-1\nunflushInterval=-5\n").unwrap().unflush_threshold, -1);
}

#[test]
fn the_broker_id_has_ten_bits() {
    assert_eq!(with("brokerId=1023\n").unwrap().broker_id, BrokerId::MAX);
    for value in ["1024", "-1", "4294967296"] {
        let errors = with(&format!("brokerId={value}\n")).unwrap_err();
        assert_eq!(errors, [format!("worker Id can't be greater than 1023 or less than 0 (brokerId={value})")]);
    }
}

#[test]
fn flushing_the_transaction_log_has_three_modes() {
    assert_eq!(with("flushTxLogAtCommit=2\n").unwrap().flush_tx_log_at_commit, 2);
    assert_eq!(
        with("flushTxLogAtCommit=3\n").unwrap_err(),
        ["Invalid flushLogTxCommit,only supports 0,1 or 2 (flushTxLogAtCommit=3)"]
    );
    assert!(with("flushTxLogAtCommit=x\n").unwrap_err()[0].starts_with("flushTxLogAtCommit=x: "));
}

#[test]
fn a_host_name_on_which_java_clients_break_is_refused() {
    assert_eq!(with("hostName=10.0.0.1\n").unwrap().host_name.as_deref(), Some("10.0.0.1"));
    assert!(with("hostName=my_host\n").unwrap_err()[0].starts_with("hostName=my_host is not a legal host of a URI"));
}

#[test]
fn booleans_are_lower_case() {
    assert!(with("stat=true\n").unwrap().stat);
    for value in ["TRUE", "yes", "1"] {
        assert_eq!(with(&format!("stat={value}\n")).unwrap_err(), [format!("stat={value}: write true or false")]);
    }
}

#[test]
fn a_path_with_a_nul_is_refused() {
    assert_eq!(
        with("dataPath=/a\\u0000b\n").unwrap_err(),
        ["dataPath contains a NUL character, which no path can have"]
    );
}

#[test]
fn a_port_beyond_sixteen_bits_is_refused() {
    assert_eq!(
        with("serverPort=65536\n").unwrap_err(),
        ["serverPort=65536 is out of range, the least is 0, the most 65535"]
    );
}

#[test]
fn without_a_home_the_data_path_is_required() {
    let file = IniFile::parse(format!("[system]\n{REQUIRED}").as_bytes()).unwrap();
    let mut problems = Problems::default();
    SystemConfig::read(file.section("system"), &Environment { home: None, cpus: 1 }, &mut problems);
    assert_eq!(problems.finish().unwrap_err()[0].message, "Blank value for dataPath");
}

#[test]
fn the_listed_keys_are_exactly_the_shown_ones() {
    let shown: Vec<_> = read(REQUIRED).unwrap().entries().into_iter().map(|(key, _)| key).collect();
    assert_eq!(shown, SYSTEM_KEYS);
}
