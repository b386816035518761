//! What can be looked at.

use serde_json::{Value, json};

use crate::common::http::{exchange, send};
use crate::common::raw::put_frame;
use crate::rig::{Running, Setup};

#[tokio::test]
async fn a_broker_without_zookeeper_is_alive_and_ready() {
    let broker = Running::start();
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let answer = broker.get(path).await;
        assert_eq!((answer.status, answer.text()), (200, body));
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}

#[tokio::test]
async fn the_status_tells_who_the_broker_is_and_how_it_is() {
    let broker = Running::start();
    let mut client = broker.client().await;
    client.put("test", 1, b"hello").await;
    let status = broker.get("/api/v1/status").await.json();
    assert_eq!(status["broker_id"], 7);
    assert_eq!(status["url"], format!("meta://{}", broker.broker));
    assert_eq!(status["address"], broker.broker.to_string());
    assert_eq!(status["registration"]["state"], "off");
    assert_eq!(status["not_ready"], json!([]));
    assert_eq!(status["health"]["healthy"], true);
    assert_eq!((&status["topics"], &status["partitions"], &status["bytes"]), (&json!(3), &json!(1), &json!(25)));
    assert_eq!((&status["connections"], &status["stopping"]), (&json!(1), &json!(false)));
    assert_eq!(status["config_path"], broker.home.ini().display().to_string());
    let shown = client.ask("version 1\r\n").await;
    assert!(shown.contains(status["version"].as_str().unwrap()), "{shown} {status}");
}

#[tokio::test]
async fn topics_show_their_settings_and_partitions() {
    let broker = Running::start();
    let mut client = broker.client().await;
    client.put("test", 1, b"hello").await;
    client.put("w-born", 0, b"x").await;
    let topics = broker.get("/api/v1/topics").await.json();
    let names: Vec<_> = topics.as_array().unwrap().iter().map(|topic| &topic["topic"]).collect();
    assert_eq!(names, ["idle", "test", "w-*", "w-born"]);
    let test = broker.get("/api/v1/topics/test").await.json();
    assert_eq!(test, topics[1]);
    assert_eq!((&test["configured"], &test["bytes"], &test["messages"]), (&json!(true), &json!(25), &json!(1)));
    assert_eq!(test["settings"]["numPartitions"], 3);
    assert_eq!(test["settings"]["deletePolicy"], "delete,168");
    assert_eq!(test["settings"]["dataPath"], broker.home.data().display().to_string());
    let partition = json!({
        "partition": 1, "min_offset": 0, "max_offset": 25, "written_offset": 25, "bytes": 25, "segments": 1,
        "messages": 1, "closed": false, "poisoned": null, "full": false,
    });
    assert_eq!(test["partitions"], json!([partition]));
    assert_eq!(topics[3]["configured"], false);
    assert_eq!(broker.get("/api/v1/topics/idle").await.json()["partitions"], json!([]));
    // A name may be written with escapes.
    assert_eq!(broker.get("/api/v1/topics/w-%2A").await.json()["topic"], "w-*");
}

#[tokio::test]
async fn statistics_are_those_of_the_command() {
    let setup = Setup { system: "stat=true", ..Setup::default() };
    let broker = Running::with(setup);
    let mut client = broker.client().await;
    client.put("test", 0, b"hello").await;
    // What is asked on the wire counts no seconds that differ from those a moment later.
    for (item, path) in [("topics", "/topics"), ("offsets", "/offsets"), ("help", "/help"), ("config", "/config")] {
        let wire = client.ask(format!("stats {item} 1\r\n")).await;
        let (_, wire) = wire.split_once("\r\n").unwrap();
        let answer = broker.get(&format!("/api/v1/stats{path}")).await;
        assert_eq!((answer.status, answer.text()), (200, wire), "{item}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    let plain = broker.get("/api/v1/stats").await;
    assert!(plain.text().starts_with("STATS\r\npid ") && plain.text().contains("\r\ncmd_put 1\r\n"), "{plain:?}");
    let topic = broker.get("/api/v1/stats/test").await;
    assert!(topic.text().contains("test\r\nresultCode 0\r\npartitions 1\r\nmessage_count 1\r\nbytes 25\r\n"));
    assert!(topic.text().contains("topic_realtime_put Count=1,"), "{topic:?}");
    assert!(broker.get("/api/v1/stats/nobody").await.text().contains("resultCode 1\r\n"));
}

#[tokio::test]
async fn looking_never_resets_statistics_however_the_item_is_written() {
    let setup = Setup { system: "stat=true", ..Setup::default() };
    let broker = Running::with(setup);
    let mut client = broker.client().await;
    client.put("test", 0, b"hello").await;
    for path in ["/api/v1/stats/reset", "/api/v1/stats/%72eset", "/api/v1/stats/%20reset", "/api/v1/stats/reset%0a"] {
        let answer = broker.get(path).await;
        assert!(!answer.text().contains("reset ok"), "{path}: {answer:?}");
    }
    assert!(broker.get("/api/v1/stats/realtime").await.text().contains("realtime_put Count=1,"));
    assert_eq!(broker.post("/api/v1/stats/reset", "").await.json(), json!({ "reset": true }));
    assert!(broker.get("/api/v1/stats/realtime").await.text().contains("realtime_put Count=0,"));
}

#[tokio::test]
async fn the_configuration_is_told_as_the_file_is_now() {
    let broker = Running::start();
    let answer = broker.get("/api/v1/config").await;
    assert_eq!((answer.status, answer.body), (200, std::fs::read(broker.home.ini()).unwrap()));
    std::fs::remove_file(broker.home.ini()).unwrap();
    let answer = broker.get("/api/v1/config").await;
    assert_eq!(answer.status, 500);
    assert!(answer.error().starts_with("Config file not found:"), "{answer:?}");
    assert_eq!(broker.get("/api/v1/stats/config").await.error(), answer.error());
}

#[tokio::test]
async fn errors_have_one_form() {
    let broker = Running::start();
    for path in [
        "/",
        "/nothing",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/status/",
        "//healthz",
        "/healthz/",
        "/HEALTHZ",
        "/api/v1/topics/",
        "/api/v1/topics/a/b",
        "/api/v1/topics/../status",
        "/api/v1/topics/%2e%2e",
        "/api/v1/topics/a%2Fb",
        "/api/v1/topics/nobody",
        "/%68ealthz",
        "/api/v1/partitions",
    ] {
        let answer = broker.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(!answer.error().is_empty());
    }
    assert_eq!(broker.get("/api/v1/topics/%FF").await.status, 400, "no UTF-8");
    assert!(!broker.get("/api/v1/topics/%FF").await.error().is_empty());
    for (method, path, allowed) in [
        ("POST", "/healthz", "GET,HEAD"),
        ("DELETE", "/api/v1/topics/test", "GET,HEAD"),
        ("GET", "/reload", "POST"),
        ("GET", "/reload-config", "POST"),
        ("GET", "/api/v1/stats/reset", "POST"),
        ("PUT", "/api/v1/partitions/close", "POST"),
    ] {
        let answer = send(broker.admin, method, path, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)), "{method} {path}: {answer:?}");
        assert!(!answer.error().is_empty());
    }
    let nonsense = exchange(broker.admin, b"hello\r\n\r\n").await.unwrap();
    assert_eq!(nonsense.status, 400);
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let broker = Running::start();
    for path in
        ["/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/topics", "/api/v1/stats", "/api/v1/config"]
    {
        let (head, get) = (send(broker.admin, "HEAD", path, &[], "").await, broker.get(path).await);
        assert_eq!((head.status, &*head.body), (200, &b""[..]), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert!(!get.body.is_empty());
    }
    assert_eq!(send(broker.admin, "HEAD", "/nothing", &[], "").await.status, 404);
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let broker = Running::start();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n", broker.admin);
    let three = format!("{request}\r\n{request}\r\n{request}Connection: close\r\n\r\n");
    let answer = exchange(broker.admin, three.as_bytes()).await.unwrap();
    assert_eq!(String::from_utf8(answer.body).unwrap().matches("HTTP/1.1 200 OK").count(), 2, "behind the first");
}

#[tokio::test]
async fn a_reload_is_answered_with_what_changed_or_why_it_was_refused() {
    let broker = Running::start();
    let text = std::fs::read_to_string(broker.home.ini()).unwrap();
    let status: Value = broker.get("/api/v1/status").await.json();
    assert_eq!(status["last_reload"], Value::Null);

    std::fs::write(broker.home.ini(), format!("{text}[topic=new]\nnumPartitions=2\n")).unwrap();
    let answer: Value = broker.post("/reload", "").await.json();
    assert_eq!(answer["report"]["added"], json!([{ "topic": "new", "num_partitions": 2 }]));
    assert_eq!(answer["text"], "Reload config successfully.\ntopic new: added, numPartitions 2\n");
    let topic: Value = broker.get("/api/v1/topics/new").await.json();
    assert_eq!(topic["configured"], true);
    let answer = broker.post("/reload-config", "").await;
    assert_eq!((answer.status, answer.text()), (200, "Reload config successfully."));

    std::fs::write(broker.home.ini(), format!("{text}[topic=new]\nnumPartitons=2\n")).unwrap();
    let answer = broker.post("/reload", "").await;
    assert_eq!(answer.status, 409);
    assert!(answer.error().contains("do you mean 'numPartitions'"), "{}", answer.error());
    let answer = broker.post("/reload-config", "").await;
    assert_eq!((answer.status, answer.header("content-type")), (409, Some("text/plain; charset=utf-8")));
    assert!(answer.text().contains("do you mean 'numPartitions'"), "{}", answer.text());
    let status: Value = broker.get("/api/v1/status").await.json();
    let refused = status["last_reload"]["refused"].as_str().unwrap().to_owned();
    assert!(refused.contains("do you mean 'numPartitions'"), "{refused}");
    let metrics = broker.get("/metrics").await;
    assert!(metrics.text().contains("\nmetaq_config_reload_refused 1\n"));
}

#[tokio::test]
async fn names_from_outside_come_back_as_json_text() {
    let broker = Running::with(Setup { topics: "[topic=*]\n", ..Setup::default() });
    let mut client = broker.client().await;
    let odd = r#"a"<b>\{}é"#;
    client.send(put_frame(odd, 0, b"x", 1)).await;
    client.answer().await.unwrap();
    let topics: Value = broker.get("/api/v1/topics").await.json();
    assert_eq!(topics[1]["topic"], odd);
    let metrics = crate::exposition::Exposition::parse(broker.get("/metrics").await.text());
    assert_eq!(metrics.value(r#"metaq_partition_messages{topic="a\"<b>\\{}é",partition="0"}"#), 1.0);
}
