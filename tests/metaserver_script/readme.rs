//! The first command of README.md, as it stands there.

use std::env;
use std::fs;
use std::process::Command;

use crate::common::zookeeper::free_port;
use crate::installation::{Installation, cargo_stand_in, project, run};

/// The port of ZooKeeper in the shipped configuration, which somebody may use on this machine.
const ZOOKEEPER_PORT: &str = "2181";

#[test]
fn the_first_command_of_the_readme_works() {
    let readme = fs::read_to_string(project("README.md")).unwrap();
    let block = readme.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(block.contains("--zk localhost:2181") && block.contains("start local"), "{block}");
    let port = free_port().to_string();
    let broker = Installation::new(&[&format!("zk.zkConnect=localhost:{port}")]);
    fs::write(broker.file("README.md"), &readme).unwrap();
    let tools = tempfile::tempdir().unwrap();
    cargo_stand_in(tools.path());
    let path = format!("{}:{}", tools.path().display(), env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.args(["-c", &block.replace(ZOOKEEPER_PORT, &port)]).current_dir(&broker.base).env("PATH", path);
    for inherited in ["CARGO_TARGET_DIR", "METAQ_BIN", "METAQ_CONFIG", "METAQ_LOG_DIR", "METAQ_STOP_TIMEOUT"] {
        command.env_remove(inherited);
    }
    let shown = run(&mut command).is(0, "").text;
    let first_line = readme.lines().next().unwrap();
    let stopped = shown.find("Stop meta broker successfully.").unwrap();
    let seen: Vec<_> = shown.match_indices(first_line).map(|(at, _)| at).collect();
    assert!(matches!(seen[..], [first, second] if first < stopped && stopped < second), "{shown}");
    broker.script(&["status"]).is(1, "Meta broker was stopped.");
}

#[test]
fn a_missing_program_is_built_by_the_first_start() {
    let broker = Installation::new(&[]);
    let tools = tempfile::tempdir().unwrap();
    cargo_stand_in(tools.path());
    let path = format!("{}:{}", tools.path().display(), env::var("PATH").unwrap());
    let start = || {
        let mut start = broker.command(&broker.file("bin/metaServer.sh"), &["start", "local"]);
        run(start.env("PATH", &path).env_remove("METAQ_BIN").env_remove("CARGO_TARGET_DIR"))
    };
    start().is(1, "no source to build it from");
    fs::write(broker.file("Cargo.toml"), "").unwrap();
    start().is(0, "Building metaq...");
    broker.script(&["stop"]).is(0, "");
    assert!(!start().is(0, "").text.contains("Building"));
}
