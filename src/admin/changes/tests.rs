//! A reload, by a broker that can.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::admin::{AdminOptions, AdminServer};
use crate::broker::{Broker, BrokerOptions, Reload, Reloaded};
use crate::config::{Environment, ServerConfig};

async fn post(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Whether an answer has a status and a body.
#[track_caller]
fn assert_is(answer: &str, status: u16, body: &str) {
    let (head, actual) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")) && actual == body, "{answer}");
}

#[tokio::test]
async fn a_reload_is_answered_as_json_and_in_the_words_of_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let ini = format!(
        "[system]\nbrokerId=0\nhostName=127.0.0.1\nserverPort=0\nnumPartitions=1\nunflushThreshold=0\nunflushInterval=1\n\
         maxSegmentSize=1000\nmaxTransferSize=1000\ndataPath={}\n[zookeeper]\nzk.zkEnable=false\n\
         [metaq]\nbindAddress=127.0.0.1\ncommitLogFileBytes=1048576\n[topic=test]\n",
        dir.path().join("data").display()
    );
    let config = ServerConfig::parse(ini.as_bytes(), None, &Environment::detect()).unwrap();
    let broker = Broker::start(config, BrokerOptions::default()).await.unwrap();
    let reloaded = || Reloaded { text: "1 topic added".to_owned(), report: json!({ "added": ["new"] }) };
    let refused = || "server.ini:3: Invalid config key".to_owned();
    let works: Reload = Arc::new(move || Box::pin(async move { Ok(reloaded()) }));
    let fails: Reload = Arc::new(move || Box::pin(async move { Err(refused()) }));
    let panics: Reload = Arc::new(|| Box::pin(async { panic!("a fault") }));
    let ask = async |reload: Reload, path| {
        let options = AdminOptions { address: SocketAddr::from(([127, 0, 0, 1], 0)), token: None };
        let server = AdminServer::start(options).await.unwrap();
        server.serve(broker.control().with_reload(reload));
        let answer = post(server.address(), path).await;
        server.stop().await;
        answer
    };
    let json = json!({ "text": "1 topic added", "report": { "added": ["new"] } }).to_string();
    assert_is(&ask(works.clone(), "/reload").await, 200, &json);
    assert_is(&ask(works, "/reload-config").await, 200, "Reload config successfully.");
    assert_is(&ask(fails.clone(), "/reload").await, 409, &json!({ "error": refused() }).to_string());
    assert_is(&ask(fails, "/reload-config").await, 409, &refused());
    let answer = ask(panics, "/reload").await;
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("see its log"), "{answer}");
    broker.stop(CancellationToken::new()).await.unwrap();
}
