//! A reload by HTTP.

use std::fs;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::admin::{AdminOptions, AdminServer};
use crate::broker::{Broker, BrokerOptions};
use crate::config::ServerConfig;

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
    let file = dir.path().join("server.ini");
    let ini = format!(
        "[system]\nbrokerId=0\nhostName=127.0.0.1\nserverPort=0\nnumPartitions=1\nunflushThreshold=0\nunflushInterval=1\n\
         maxSegmentSize=1000\nmaxTransferSize=1000\ndataPath={}\n[zookeeper]\nzk.zkEnable=false\n\
         [metaq]\nbindAddress=127.0.0.1\ncommitLogFileBytes=1048576\n[topic=test]\n",
        dir.path().join("data").display()
    );
    fs::write(&file, &ini).unwrap();
    let broker = Broker::start(ServerConfig::load(&file).unwrap(), BrokerOptions::default()).await.unwrap();
    let options = AdminOptions { address: SocketAddr::from(([127, 0, 0, 1], 0)), token: None };
    let server = AdminServer::start(options).await.unwrap();
    server.serve(broker.control());

    fs::write(&file, ini.clone() + "[topic=new]\n").unwrap();
    let answer = post(server.address(), "/reload").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert!(body["text"].as_str().unwrap().starts_with("Reload config successfully.\n"), "{body}");
    assert!(body["report"].to_string().contains("new"), "{body}");
    assert_is(&post(server.address(), "/reload-config").await, 200, "Reload config successfully.");

    fs::write(&file, ini + "[topic=new]\nnumPartitions=none\n").unwrap();
    let why = broker.reload().await.unwrap_err().to_string();
    assert!(why.contains("numPartitions"), "{why}");
    assert_is(&post(server.address(), "/reload").await, 409, &json!({ "error": why }).to_string());
    assert_is(&post(server.address(), "/reload-config").await, 409, &why);
    server.stop().await;
    broker.stop(CancellationToken::new()).await.unwrap();
}
