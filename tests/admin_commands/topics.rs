//! Topics and statistics, by HTTP and by the wire protocol.

use crate::common::operated::{Running, Setup};
use crate::common::output::{assert_status, json_lines};
use crate::common::raw::put_frame;
use crate::{admin, done, failed, metaq};

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A broker with three messages in a partition of `test`.
async fn broker() -> Running {
    let broker = Running::with(Setup { topics: "[topic=test]\nnumPartitions=3\n[topic=*]\n", ..Setup::default() });
    let mut client = broker.client().await;
    for _ in 0..3 {
        client.put("test", 1, b"hello").await;
    }
    broker
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_listed_and_described() {
    let broker = broker().await;
    let listed = admin(&broker, &["topics", "list"]);
    let lines: Vec<_> = done(&listed).lines().map(words).collect();
    assert_eq!(
        lines[0],
        ["TOPIC", "PARTITIONS", "WITH", "DATA", "MESSAGES", "SIZE", "PUBLISH", "SUBSCRIBE", "REMARKS"]
    );
    assert!(lines.contains(&vec!["test", "3", "1", "3", "75", "B", "yes", "yes"]), "{lines:?}");
    let json = json_lines(&admin(&broker, &["topics", "list", "--output", "json"]));
    assert!(json.iter().any(|topic| topic["topic"] == "test" && topic["messages"] == 3), "{json:?}");

    let described = admin(&broker, &["topics", "describe", "test"]);
    let lines: Vec<_> = done(&described).lines().map(words).collect();
    assert!(lines.contains(&vec!["numPartitions", "3"]) && lines.contains(&vec!["unflushThreshold", "0"]), "{lines:?}");
    assert_eq!(lines.last().unwrap(), &["1", "0", "75", "3", "75", "B", "1"]);
    let json = json_lines(&admin(&broker, &["topics", "describe", "test", "--output", "json"]));
    assert_eq!(json[0]["partitions"][0]["max_offset"], 75);

    let close = ["partitions", "close", "--topic", "test", "--start", "1", "--end", "1"];
    done(&admin(&broker, &close));
    assert!(done(&admin(&broker, &["topics", "list"])).contains("1 closed"));
    assert!(done(&admin(&broker, &["topics", "describe", "test"])).trim_end().ends_with("closed"));
    let unknown = admin(&broker, &["topics", "describe", "nope"]);
    assert!(failed(&unknown).contains("no topic nope is configured or has data; metaq topics list"));
}

#[tokio::test(flavor = "multi_thread")]
async fn any_name_can_be_asked_for() {
    let broker = broker().await;
    let mut client = broker.client().await;
    for odd in ["100%", "a?b#c", "größe"] {
        client.send(put_frame(odd, 0, b"x", 1)).await;
        client.answer().await.unwrap();
        let described = admin(&broker, &["topics", "describe", odd]);
        assert_eq!(words(done(&described).lines().next().unwrap()), ["topic", odd]);
        let described = metaq(&["topics", "describe", odd, "--server", &broker.broker.to_string()]);
        assert!(done(&described).ends_with("0           0          21  21 B\n"), "{described:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wire_protocol_tells_of_topics_too() {
    let broker = broker().await;
    let server = broker.broker.to_string();
    let listed = metaq(&["topics", "list", "--server", &server]);
    assert!(
        done(&listed).lines().map(words).any(|line| line == ["test", "1", "3", "75", "B", "yes", "yes"]),
        "{listed:?}"
    );
    let json = json_lines(&metaq(&["topics", "list", "--server", &server, "--output", "json"]));
    assert!(json.iter().any(|topic| topic["topic"] == "test" && topic["bytes"] == 75), "{json:?}");
    let json = json_lines(&metaq(&["topics", "describe", "test", "--server", &server, "--output", "json"]));
    assert_eq!((json.len(), &json[0]["partition"], &json[0]["max_offset"]), (1, &1.into(), &75.into()));
    let unknown = metaq(&["topics", "describe", "nope", "--server", &server]);
    assert!(failed(&unknown).contains("has no data of topic nope"));
    assert_status(&metaq(&["topics", "list", "--server", &server, "--admin", "x:1"]), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_come_in_the_broker_s_words_or_as_json() {
    let broker = broker().await;
    let server = broker.broker.to_string();
    let stats = |arguments: &[&str]| metaq(&[&["stats", "--server", &server], arguments].concat());
    let own = stats(&[]);
    assert!(done(&own).starts_with("STATS\npid ") && done(&own).ends_with("\nEND\n"), "{own:?}");
    assert!(done(&stats(&["offsets"])).contains("\ntest part 1 min_offset 0 max_offset 75\n"));
    assert_eq!(json_lines(&stats(&["--output", "json"]))[0]["cmd_put"], 3);
    let offsets = &json_lines(&stats(&["offsets", "--output", "json"]))[0];
    assert_eq!((&offsets["topic"], &offsets["part"], &offsets["max_offset"]), (&"test".into(), &1.into(), &75.into()));
    assert_eq!(json_lines(&stats(&["test", "--output", "json"]))[0]["message_count"], 3);
    let file = std::fs::read_to_string(broker.home.ini()).unwrap();
    assert_eq!(done(&stats(&["config"])).trim_end(), file.trim_end());
    assert_eq!(json_lines(&stats(&["config", "--output", "json"]))[0]["config"], file);
    assert!(done(&stats(&["reset"])).contains("reset ok"));
    assert!(failed(&stats(&["two words"])).contains("cannot be sent"));
}
