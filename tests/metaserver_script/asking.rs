//! Commands to a running broker: with the options of the Java tools, and when there is none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::common::wait_until;
use crate::installation::{Installation, signal};

/// All that need a live broker.
pub(crate) const ASKING: [&[&str]; 6] = [
    &["stop"],
    &["stop", "--force"],
    &["reload"],
    &["stats", "-item", "topics"],
    &["close-partitions", "-topic", "test", "-start", "0", "-end", "1"],
    &["open-partitions", "-topic", "test"],
];

#[test]
fn commands_that_need_a_live_broker_say_that_there_is_none() {
    let broker = Installation::new(&[]);
    for command in ASKING {
        broker.script(command).is(1, "Broker is not running.\n");
    }
    broker.script(&["start", "local"]).is(0, "");
    signal("KILL", &broker.pid());
    wait_until("the kernel has taken it down", || broker.script(&["status"]).code == 1);
    assert!(broker.pid_file().exists());
    for command in ASKING {
        broker.script(command).is(1, "Broker is not running.\n");
    }
}

#[test]
fn statistics_are_told_in_the_words_of_the_protocol() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    broker.produce("counted");
    for all in [&["stats"] as &[&str], &["stats", ""]] {
        broker.script(all).is(0, "\ncmd_put 1\n");
    }
    for offsets in [&["stats", "offsets"] as &[&str], &["stats", "-item", "offsets"], &["stats", "--item", "offsets"]] {
        broker.script(offsets).is(0, "test part 0 min_offset 0 max_offset 28\n");
    }
}

#[test]
fn partitions_are_closed_and_opened_with_the_options_of_the_java_tools() {
    let broker = Installation::new(&["numPartitions=1"]);
    broker.script(&["start", "local"]).is(0, "");
    broker
        .script(&["close-partitions", "-topic", "test", "-start", "0", "-end", "0"])
        .is(0, "Partition 0 of test is closed");
    broker.script(&["status"]).is(0, "closed         test 0\n");
    broker.script(&["open-partitions", "-topic", "test"]).is(0, "All partitions of test are open.");
    broker.script(&["close-partitions", "--topic", "test", "--start", "0", "--end", "0"]).is(0, "closed");
    broker.script(&["open-partitions", "--topic", "test"]).is(0, "open");
    broker.produce("open again");
    broker.script(&["close-partitions", "-topic", "nope", "-start", "0", "-end", "0"]).is(1, "no topic 'nope'");
    broker.script(&["close-partitions", "-topic", "test", "-start", "1", "-end", "0"]).is(1, "not after the last");
    broker.script(&["close-partitions", "-topic", "test", "-start", "-1", "-end", "0"]).is(1, "at least 0");
    broker.script(&["close-partitions", "-topic", "test", "-start", "x", "-end", "0"]).is(1, "invalid value 'x'");
    let close = ["close-partitions", "-topic", "test", "-start", "0", "-end", "7"];
    broker
        .script(&close)
        .is(0, "Partitions 0 to 7 of test are closed")
        .is(0, "numPartitions of test is 1 on this broker");
}

#[test]
fn a_reload_tells_what_changed_or_why_nothing_did() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    let file = broker.file("conf/server.ini");
    let ini = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{ini}\n[topic=added]\n")).unwrap();
    let shown = broker.script(&["reload"]).is(0, "Reloading broker config...\nReload config successfully.\n").text;
    assert!(shown.contains("added"), "{shown}");
    broker.script(&["stats", "topics"]).is(0, "added *Empty*");
    fs::write(&file, format!("{ini}\n[topic=added]\nnumPartitions=x\n")).unwrap();
    broker.script(&["reload"]).is(1, "numPartitions");
    broker.script(&["status"]).is(0, "refused");
}

#[test]
fn the_token_of_the_configuration_is_used_whatever_its_file_is_called() {
    let token = r#"conf/a "token", {mine} é\n"#;
    let broker = Installation::new(&[r#"adminTokenFile=conf/a "token", {mine} é\\n"#]);
    broker.script(&["start", "local"]).is(1, &format!("adminTokenFile={token}"));
    fs::write(broker.file(token), "a-token-that-nobody-guesses\n").unwrap();
    fs::set_permissions(broker.file(token), fs::Permissions::from_mode(0o600)).unwrap();
    broker.script(&["start", "local"]).is(0, "");
    broker.script(&["reload"]).is(0, "Reload config successfully.");
    fs::remove_file(broker.file(token)).unwrap();
    broker.script(&["reload"]).is(1, &format!("cannot read the token file {token}"));
}
