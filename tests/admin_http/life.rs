//! Start, readiness and stop.

use std::net::{SocketAddr, TcpListener};

use metaq::admin::{AdminOptions, AdminServer};

use crate::common::eventually;
use crate::common::http::{get, post};
use crate::common::process::Process;
use crate::common::zookeeper::{Ensemble, free_port};
use crate::exposition::Exposition;
use crate::rig::{Home, Running, Setup};

#[test]
fn the_address_is_told_before_the_broker_is_ready() {
    let lines = Running::start().stop();
    let place = |what: &str| lines.iter().position(|line| line.starts_with(what)).unwrap();
    assert!(place("ADMIN http://127.0.0.1:") < place("READY meta://127.0.0.1:"), "{lines:?}");
}

#[test]
fn a_port_in_use_refuses_the_start_and_says_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let home = Home::new();
    let mut command = home.command(Setup::default(), "");
    let ini = std::fs::read_to_string(home.ini()).unwrap();
    std::fs::write(home.ini(), ini.replace("dashboardHttpPort=0", &format!("dashboardHttpPort={port}"))).unwrap();
    let mut process = Process::start("the broker", &mut command, None);
    assert_eq!(process.wait().code(), Some(1));
    let printed = process.printed().join("\n");
    assert!(printed.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{printed}");
    assert!(printed.contains("dashboardHttpPort") && printed.contains("adminBindAddress"), "{printed}");
    assert!(!printed.contains("READY"), "{printed}");
}

#[tokio::test]
async fn a_broker_that_starts_is_alive_and_not_ready() {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = AdminServer::start(AdminOptions { address, token: None }).await.unwrap();
    assert_eq!(get(server.address(), "/healthz").await.status, 200);
    for path in ["/readyz", "/metrics", "/api/v1/status", "/api/v1/partitions/closed"] {
        let answer = get(server.address(), path).await;
        assert_eq!(answer.status, 503, "{path}");
        assert!(answer.error().contains("starting"), "{path}: {answer:?}");
    }
    assert_eq!(post(server.address(), "/api/v1/stop", "").await.status, 503);
    let address = server.address();
    server.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_broker_without_its_zookeeper_is_alive_and_not_ready() {
    let zookeeper = format!("zk.zkConnect=127.0.0.1:{}", free_port());
    let broker = Running::with(Setup { zookeeper: Box::leak(zookeeper.into_boxed_str()), ..Setup::default() });
    assert_eq!(broker.get("/healthz").await.status, 200);
    let answer = broker.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(answer.error().contains("no connection to ZooKeeper"), "{answer:?}");
    let metrics = Exposition::parse(broker.get("/metrics").await.text());
    assert_eq!((metrics.value("metaq_live"), metrics.value("metaq_ready")), (1.0, 0.0));
    assert_eq!(metrics.value(r#"metaq_registration_state{state="connecting"}"#), 1.0);
    assert_eq!(metrics.value(r#"metaq_registration_state{state="registered"}"#), 0.0);
    broker.client().await.put("test", 0, b"served all the same").await;
}

#[tokio::test]
async fn a_broker_is_ready_when_registered_and_until_it_stops() {
    let Some(ensemble) = Ensemble::single() else { return };
    // Long enough to be asked during the stop.
    let zookeeper = format!("zk.zkConnect={}\nzk.zkSyncTimeMs=30000", ensemble.connect_string());
    let mut broker = Running::with(Setup { zookeeper: Box::leak(zookeeper.into_boxed_str()), ..Setup::default() });
    let ready = || async {
        match broker.get("/readyz").await {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer.error()),
        }
    };
    eventually("registered", ready).await;
    let metrics = Exposition::parse(broker.get("/metrics").await.text());
    assert_eq!(metrics.value(r#"metaq_registration_state{state="registered"}"#), 1.0);
    assert_eq!(broker.get("/api/v1/status").await.json()["registration"]["state"], "registered");
    assert_eq!(broker.post("/api/v1/stop", "").await.status, 202);
    let leaving = || async {
        match broker.get("/readyz").await {
            answer if answer.status == 503 && answer.error().contains("the broker is stopping") => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    };
    eventually("not ready any more", leaving).await;
    assert_eq!(broker.get("/healthz").await.status, 200, "it stops, it does not hang");
    broker.client().await.put("test", 0, b"served until clients have left").await;
    // A signal on top of it: no more waiting.
    assert!(broker.process.terminate().success());
}
