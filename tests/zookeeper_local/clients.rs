//! Real clients: this project's, and ZooKeeper's own command line.

use std::io::{Read as _, Seek as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use metaq::zk::{Coordinator, CoordinatorError, NodeKind, SessionState, WatchEvent};
use tokio::time::timeout;

use crate::common::DEADLINE;
use crate::common::zookeeper::class_path;
use crate::rig::{Broker, session_of, zookeeper};
use crate::server::{Server, open};

const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs a test's future beside a server that has threads of its own.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(future)
}

#[test]
fn our_client_does_what_its_seam_says_below_a_directory_that_it_makes() {
    let server = Server::start();
    block_on(async {
        let zk = zookeeper(&format!("{}/a/b", server.connect_string()), SESSION_TIMEOUT);
        let top = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
        let session = session_of(&*zk).await;
        assert_eq!(session.timeout, SESSION_TIMEOUT);
        zk.create("/x/y", b"1", NodeKind::Ephemeral).await.unwrap();
        let node = zk.get("/x/y").await.unwrap();
        assert_eq!((node.data.as_slice(), node.stat.ephemeral_owner), (&b"1"[..], Some(session.id)));
        session_of(&*top).await;
        assert_eq!(top.get("/a/b/x/y").await.unwrap(), node);

        type E = CoordinatorError;
        let path = || "/x/y".to_owned();
        assert_eq!(zk.create("/x/y", b"", NodeKind::Persistent).await, Err(E::NodeExists(path())));
        assert_eq!(
            zk.create("/x/y/z", b"", NodeKind::Persistent).await,
            Err(E::NoChildrenForEphemerals("/x/y/z".into()))
        );
        assert_eq!(zk.delete("/x", None).await, Err(E::NotEmpty("/x".into())));
        assert_eq!(zk.get("/none").await, Err(E::NoNode("/none".into())));
        assert_eq!(zk.set("/x/y", b"2", Some(7)).await, Err(E::BadVersion(path())));
        assert_eq!(zk.set("/x/y", b"2", Some(0)).await.map(|stat| stat.version), Ok(1));

        let (_, data) = zk.watch_data("/x/y").await.unwrap();
        let (children, child) = zk.watch_children("/x").await.unwrap();
        let (absent, creation) = zk.watch_exists("/w").await.unwrap();
        assert_eq!((children, absent), (vec!["y".to_owned()], None));
        top.delete("/a/b/x/y", None).await.unwrap();
        top.create("/a/b/w", b"", NodeKind::Persistent).await.unwrap();
        for watch in [data, child, creation] {
            assert_eq!(timeout(DEADLINE, watch).await.unwrap(), WatchEvent::Changed);
        }
        zk.create("/mine", b"", NodeKind::Ephemeral).await.unwrap();
        zk.close().await;
        assert_eq!(top.exists("/a/b/mine").await, Ok(None));
    });
}

#[test]
fn our_client_keeps_its_session_nodes_and_watches_over_a_restart() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (zk, session, watch) = runtime.block_on(async {
        let zk = zookeeper(&server.connect_string(), Duration::from_secs(20));
        let session = session_of(&*zk).await;
        zk.create("/mine", b"", NodeKind::Ephemeral).await.unwrap();
        let (_, watch) = zk.watch_exists("/born").await.unwrap();
        (zk, session, watch)
    });
    let server = server.restart();
    let mut raw = server.client();
    runtime.block_on(async {
        let back = |state: &SessionState| state.connected().is_some_and(|now| now == session);
        timeout(DEADLINE, zk.session().wait_for(back)).await.expect("the same session").unwrap();
        raw.create("/born").good();
        assert_eq!(timeout(DEADLINE, watch).await.unwrap(), WatchEvent::Changed);
        assert_eq!(zk.exists("/mine").await.unwrap().unwrap().ephemeral_owner, Some(session.id));
    });
}

#[test]
fn a_broker_registers_and_repairs_its_nodes_as_with_any_zookeeper() {
    let server = Server::start();
    block_on(async {
        let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
        session_of(&*observer).await;
        let broker = Broker::start(&server.connect_string(), 8_200);
        let session = broker.settles(&*observer).await;
        observer.delete("/meta/brokers/ids/0/master", None).await.unwrap();
        assert_eq!(broker.settles(&*observer).await, session);
    });
}

#[test]
fn a_port_in_use_is_named_with_the_ways_out() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let error = block_on(open(dir.path(), &server.connect_string())).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot listen on {}", server.connect_string())), "{error}");
    assert!(error.contains("set zk.zkConnect to a free port, or start without -l"), "{error}");
}

#[test]
fn localhost_is_served_on_each_of_its_addresses() {
    let port = crate::common::zookeeper::free_port();
    let dir = tempfile::tempdir().unwrap();
    let has_ipv6 = std::net::TcpListener::bind(("::1", 0)).is_ok();
    block_on(async {
        let server = open(dir.path(), &format!("localhost:{port}")).await.unwrap();
        for host in ["127.0.0.1", "::1"].into_iter().filter(|&host| host == "127.0.0.1" || has_ipv6) {
            tokio::net::TcpStream::connect((host, port)).await.unwrap();
        }
        let taken = std::net::TcpListener::bind(("127.0.0.1", port));
        assert!(taken.is_err());
        server.stop().await;
        std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    });
}

/// Feeds ZooKeeper's own shell with commands and returns what it prints, answers and refusals in their order.
fn shell(class_path: &str, server: &str, commands: &str) -> String {
    let mut output = tempfile::tempfile().unwrap();
    let mut shell = Command::new("java")
        .args(["-Xmx96m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args(["-cp", class_path, "org.apache.zookeeper.ZooKeeperMain", "-server", server])
        .stdin(Stdio::piped())
        .stdout(output.try_clone().unwrap())
        .stderr(output.try_clone().unwrap())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn zookeepers_own_command_line_works() {
    let Some(class_path) = class_path() else { return };
    let server = Server::start();
    let shown = shell(
        &class_path,
        &server.connect_string(),
        "create -e -s /e- data\ncreate /cli null\ncreate /cli/child one\nls -w /cli\ncreate /cli/second two\n\
         get -s /cli/child\nset -s /cli/child changed\nget -w /cli/child\nset /cli/child again\nstat /cli\n\
         setAcl /cli/child world:anyone:r\ngetAcl /cli/child\nsync /cli\ndelete -v 9 /cli/second\n\
         delete /cli/second\ndelete /cli\ncreate -c /container\nrmr /cli/child\ndeleteall /cli\nls /\nquit\n",
    );
    let mut rest = shown.as_str();
    for part in [
        "Created /e-0000000000\n",
        "Created /cli\n",
        "Created /cli/child\n",
        "[child]\n",
        "type:NodeChildrenChanged path:/cli\n",
        "Created /cli/second\n",
        "one\n",
        "dataVersion = 0\n",
        "dataLength = 3\n",
        "dataVersion = 1\n",
        "dataLength = 7\n",
        "changed\n",
        "type:NodeDataChanged path:/cli/child\n",
        "numChildren = 2\n",
        "'world,'anyone\n: r\n",
        "Sync is OK\n",
        "[e-0000000000]\n",
    ] {
        let Some(at) = rest.find(part) else { panic!("no {part:?} in its place:\n{shown}") };
        rest = &rest[at + part.len()..];
    }
    for part in ["version No is not valid : /cli/second", "Node not empty: /cli", "Unimplemented for /container"] {
        assert!(shown.contains(part), "no {part:?}:\n{shown}");
    }
    let mut client = server.client();
    assert_eq!((client.stat("/cli"), client.stat("/e-0000000000")), (None, None));
}
