//! A broker that lives and does not answer.

use std::fs;
use std::net::TcpListener;

use crate::asking::ASKING;
use crate::installation::{Installation, run, signal};

#[test]
fn a_suspended_broker_is_told_of_and_only_force_kills_it() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    broker.produce("kept");
    let pid = broker.pid();
    signal("STOP", &pid);
    broker.script(&["status"]).is(1, &format!("Meta broker does not answer: pid {pid}, meta://127.0.0.1:"));
    broker.script(&["status"]).is(1, &format!("`kill -CONT {pid}` lets it go on"));
    broker.script(&["start"]).is(1, &format!("Broker is running.\nIt is suspended: `kill -CONT {pid}`"));
    for asking in ASKING.into_iter().filter(|command| command[0] != "stop") {
        broker.script(asking).is(1, &format!("it is suspended: `kill -CONT {pid}` lets it go on"));
    }
    let mut stop = broker.command(&broker.file("bin/metaServer.sh"), &["stop"]);
    let shown = run(stop.env("METAQ_STOP_TIMEOUT", "1")).is(1, "still stopping after 1 s").text;
    assert!(shown.contains("It is suspended and cannot stop") && shown.contains("stop --force"), "{shown}");
    broker.script(&["stop", "--force"]).is(0, "It had to be killed");
    broker.script(&["status"]).is(1, "Meta broker was stopped.");
    broker.script(&["start", "local"]).is(0, "");
    assert_eq!(broker.consume(), "kept0\n");
}

#[test]
fn a_suspended_broker_that_goes_on_stops_as_it_was_asked_to() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    let pid = broker.pid();
    signal("STOP", &pid);
    let stop = broker.spawn(&["stop"]);
    signal("CONT", &pid);
    crate::outcome(stop).is(0, "Stop meta broker successfully.");
}

#[test]
fn a_broker_that_gives_no_answer_is_not_called_a_running_one() {
    let broker = Installation::new(&[]);
    broker.script(&["start", "local"]).is(0, "");
    // In its place one that takes connections and never says a word: nobody but the script notices.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let state = broker.file("logs/.run.state");
    let written = fs::read_to_string(&state).unwrap();
    let admin = |address: &str| {
        let line = |line: &str| if line.starts_with("admin=") { format!("admin={address}") } else { line.to_owned() };
        fs::write(&state, written.lines().map(line).collect::<Vec<_>>().join("\n") + "\n").unwrap();
    };
    admin(&silent.local_addr().unwrap().to_string());
    let shown = broker.script(&["status"]).is(1, "Meta broker does not answer: pid ").text;
    assert!(shown.contains("gives no answer within 5s") && shown.contains("`stop --force` kills it"), "{shown}");
    // Statistics come by another port.
    broker.script(&["stats"]).is(0, "STATS");
    drop(silent);
    broker.script(&["status"]).is(1, "Connection refused");
    broker.script(&["reload"]).is(1, "no broker answers at");
    broker.script(&["stop"]).is(0, "Stop meta broker successfully.");
}
