//! What changes something.

use serde_json::json;

use crate::common::http::send;
use crate::rig::Running;

#[tokio::test]
async fn closed_partitions_refuse_clients_until_they_are_opened() {
    let broker = Running::start();
    let mut client = broker.client().await;
    client.put("test", 1, b"hello").await;
    assert_eq!(broker.get("/api/v1/partitions/closed").await.json(), json!([]));
    // A partition that does not exist may be in the range.
    let closed = json!([{ "topic": "test", "start": 1, "end": 70 }]);
    let answer = broker.post("/api/v1/partitions/close", r#"{"topic":"test","start":1,"end":70}"#).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "closed": closed, "numPartitions": 3 })));
    assert_eq!(broker.get("/api/v1/partitions/closed").await.json(), closed);
    assert_eq!(broker.get("/api/v1/status").await.json()["closed_partitions"], closed);
    assert_eq!(broker.get("/api/v1/topics/test").await.json()["partitions"][0]["closed"], true);
    assert!(client.ask("put test 1 1 0 -1 1\r\nx").await.starts_with("result 403 "));
    assert!(client.ask("get test g 1 0 100 2\r\n").await.starts_with("result 403 "));
    client.put("test", 0, b"other").await;
    let answer = broker.post("/api/v1/partitions/open", r#"{"topic":"test"}"#).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "opened": true, "closed": [] })));
    client.put("test", 1, b"hello").await;
    let again = broker.post("/api/v1/partitions/open", r#"{"topic":"test"}"#).await;
    assert_eq!((again.status, again.json()["opened"].clone()), (200, json!(false)));
    broker.process.wait_for_line("an operator closed partitions");
}

#[tokio::test]
async fn only_topics_of_the_configuration_can_be_closed_by_their_exact_name() {
    let broker = Running::start();
    let mut client = broker.client().await;
    client.put("w-born", 0, b"x").await;
    for topic in ["nobody", "w-born", "Test", "test ", ""] {
        let close = json!({ "topic": topic, "start": 0, "end": 0 }).to_string();
        let open = json!({ "topic": topic }).to_string();
        for answer in
            [broker.post("/api/v1/partitions/close", &close).await, broker.post("/api/v1/partitions/open", &open).await]
        {
            assert_eq!(answer.status, 404, "{topic}");
            let expected = format!("no topic '{topic}' is configured");
            assert!(answer.error().starts_with(&expected), "{}", answer.error());
        }
    }
    let pattern = broker.post("/api/v1/partitions/close", r#"{"topic":"w-*","start":0,"end":0}"#).await;
    assert_eq!(pattern.status, 200, "a pattern is a topic of that very name, too");
}

#[tokio::test]
async fn a_body_that_cannot_be_used_says_what_to_send() {
    let broker = Running::start();
    for (body, status) in [
        (r#"{"topic":"test","start":-1,"end":0}"#, 400),
        (r#"{"topic":"test","start":2,"end":1}"#, 400),
        (r#"{"topic":"test","start":0}"#, 422),
        (r#"{"topic":"test","start":0,"end":0,"force":true}"#, 422),
        (r#"{"topic":"test","start":0,"end":2147483648}"#, 422),
        (r#"{"topic":"test","start":"0","end":0}"#, 422),
        (r#"{"topic":7,"start":0,"end":0}"#, 422),
        ("{", 400),
        ("[]", 422),
        ("\u{0}", 400),
        ("", 400),
    ] {
        let answer = broker.post("/api/v1/partitions/close", body).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        let says = answer.error();
        assert!(says.contains("must be at least 0") || says.starts_with(r#"send {"topic""#), "{body}: {says}");
    }
    let good = r#"{"topic":"test","start":0,"end":0}"#;
    let untyped = send(broker.admin, "POST", "/api/v1/partitions/close", &[], good).await;
    assert_eq!(untyped.status, 415, "{untyped:?}");
    let deep = "[".repeat(100_000);
    assert_eq!(broker.post("/api/v1/partitions/close", &deep).await.status, 422, "nesting does no harm");
    assert_eq!(broker.get("/api/v1/partitions/closed").await.json(), json!([]));
}

#[tokio::test]
async fn a_broker_can_be_asked_to_stop() {
    let mut broker = Running::start();
    let mut client = broker.client().await;
    client.put("test", 0, b"hello").await;
    let answer = broker.post("/api/v1/stop", "").await;
    assert_eq!((answer.status, answer.json()), (202, json!({ "stopping": true })));
    assert!(broker.process.wait().success());
    let printed = broker.process.printed().join("\n");
    assert!(printed.contains("an operator asks for a stop") && printed.contains("message store closed"), "{printed}");
}
