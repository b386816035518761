use super::*;
use crate::config::{ConfigProblem, IniFile};

fn read(options: &str) -> Result<(ZooKeeperConfig, Vec<ConfigProblem>), Vec<ConfigProblem>> {
    let file = IniFile::parse(format!("[zookeeper]\n{options}").as_bytes()).unwrap();
    let mut problems = Problems::default();
    let config = ZooKeeperConfig::read(file.section("zookeeper"), &mut problems);
    problems.finish().map(|warnings| (config, warnings))
}

fn error(options: &str) -> String {
    read(options).unwrap_err().remove(0).message
}

#[test]
fn defaults_are_those_of_the_reference() {
    let (config, _) = read("zk.zkEnable=true\n").unwrap();
    assert_eq!(
        config,
        ZooKeeperConfig {
            connect: "localhost:2181".into(),
            root: "/meta".into(),
            enable: true,
            session_timeout_ms: 30_000,
            connection_timeout_ms: 30_000,
            sync_time_ms: 5_000,
        }
    );
}

#[test]
fn a_section_without_any_value_is_refused() {
    assert_eq!(error(""), "Null zookeeper config");
    assert_eq!(error("zk.zkConnect=\nbrokerId=1\n"), "Null zookeeper config");
}

#[test]
fn connect_strings_lose_their_blanks_and_empty_elements() {
    for (given, taken) in [
        ("a:2181 , b:2181,", "a:2181,b:2181"),
        ("a,b", "a,b"),
        ("a:2181/chroot/x/", "a:2181/chroot/x"),
        ("[::1]:2181", "[::1]:2181"),
        ("10.0.0.1:2181/", "10.0.0.1:2181"),
    ] {
        assert_eq!(read(&format!("zk.zkConnect={given}\n")).unwrap().0.connect, taken);
    }
}

#[test]
fn connect_strings_that_name_no_server_are_refused() {
    assert_eq!(error("zk.zkConnect= , ,\n"), "Empty zookeeper servers");
    assert_eq!(error("zk.zkConnect=/chroot\n"), "Empty zookeeper servers");
    for given in ["a:port", "a:0", "a:65536", ":2181", "a b:2181", "[::1", "::1:2181", "a:", "a:1/b//c"] {
        assert!(error(&format!("zk.zkConnect={given}\n")).starts_with("zk.zkConnect: "), "{given}");
    }
}

#[test]
fn a_blank_connect_string_means_the_default_and_is_warned_of() {
    let (config, warnings) = read("zk.zkConnect=\nzk.zkRoot=/x\n").unwrap();
    assert_eq!(config.connect, "localhost:2181");
    assert_eq!(warnings[0].message, "zk.zkConnect is blank, localhost:2181 is used");
}

#[test]
fn roots_are_normalised_as_the_reference_does() {
    for (given, taken) in [("meta", "/meta"), ("/a/b/", "/a/b"), ("/", ""), ("a", "/a")] {
        assert_eq!(normalize_root(given).as_deref(), Ok(taken));
    }
    assert_eq!(normalize_root(""), Err(InvalidRoot::Empty));
    for given in ["//", "/a//", "/a//b", "/a/./b", "..", "/a\tb"] {
        assert_eq!(normalize_root(given), Err(InvalidRoot::Path(given.into())));
    }
}

#[test]
fn names_of_system_are_ignored_and_others_refused() {
    let (_, warnings) = read("zk.zkRoot=/m\nserverPort=1\n").unwrap();
    assert_eq!(warnings[0].message, "serverPort is accepted and ignored");
    assert_eq!(error("zk.zkRoot=/m\nzk.zkConect=a\n"), "Invalid config key:zk.zkConect,do you mean 'zk.zkConnect'?");
}

#[test]
fn time_outs_must_be_positive() {
    assert!(error("zk.zkSessionTimeoutMs=0\n").starts_with("zk.zkSessionTimeoutMs=0 is out of range"));
    assert_eq!(read("zk.zkSyncTimeMs=0\n").unwrap().0.sync_time_ms, 0);
}

#[test]
fn the_listed_keys_are_exactly_the_shown_ones() {
    let shown: Vec<_> = read("zk.zkRoot=/\n").unwrap().0.entries();
    assert_eq!(shown.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ZOOKEEPER_KEYS);
    assert_eq!(shown[1].1, Value::from("/"));
}
