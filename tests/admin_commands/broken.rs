//! A broker that is not there, hangs, or is none.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::common::operated::Running;
use crate::common::output::{assert_status, json_lines};
use crate::{admin, failed, metaq};

/// Every command that asks the HTTP interface.
const COMMANDS: [&[&str]; 8] = [
    &["admin", "status"],
    &["admin", "reload"],
    &["admin", "stop"],
    &["topics", "list"],
    &["topics", "describe", "test"],
    &["partitions", "list"],
    &["partitions", "close", "--topic", "test", "--start", "0", "--end", "1"],
    &["partitions", "open", "--topic", "test"],
];

#[test]
fn a_broker_that_is_not_there_is_told_of_with_what_to_do() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for command in COMMANDS {
        let output = metaq(&[command, &["--admin", &nobody]].concat());
        let why = failed(&output);
        assert!(why.contains(&format!("no broker answers at http://{nobody}")), "{command:?}: {why}");
        assert!(why.contains("start it, or name"), "{command:?}: {why}");
        let output = metaq(&[command, &["--admin", &nobody, "--output", "json"]].concat());
        assert_status(&output, 1);
        assert!(json_lines(&output)[0]["fatal"].as_str().unwrap().contains("no broker answers"), "{command:?}");
        assert_status(&metaq(&[command, &["--admin", &nobody, "-f", "x"]].concat()), 2);
        assert_status(&metaq(&[command, &["--timeout-ms", "0"]].concat()), 2);
    }
    assert!(failed(&metaq(&["stats", "--server", &nobody])).contains(&format!("cannot connect to {nobody}")));
    assert!(failed(&metaq(&["topics", "list", "--server", &nobody])).contains("cannot connect"));
    assert!(failed(&metaq(&["admin", "status", "--admin", "nowhere"])).contains("--admin nowhere: give HOST:PORT"));
}

#[test]
fn a_broker_that_hangs_is_not_waited_for_longer_than_told() {
    let broker = Running::start();
    broker.process.signal("STOP");
    for command in COMMANDS {
        let output = admin(&broker, &[command, &["--timeout-ms", "200"]].concat());
        let why = failed(&output);
        assert!(why.contains("gives no answer within 200ms: it hangs or has too much to do"), "{command:?}: {why}");
    }
    let output = metaq(&["stats", "--server", &broker.broker.to_string(), "--timeout-ms", "200"]);
    assert!(failed(&output).contains("no answer from"));
    let output = metaq(&["topics", "list", "--server", &broker.broker.to_string(), "--timeout-ms", "200"]);
    assert!(failed(&output).contains("no answer from"));
}

#[test]
fn what_is_no_broker_is_not_taken_for_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    const ANSWERS: [&str; 4] = [
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhtml",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nhtml",
        "",
    ];
    let server = thread::spawn(move || {
        for answer in ANSWERS {
            let (mut stream, _) = listener.accept().unwrap();
            // A whole request fits into one segment.
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for answer in ANSWERS {
        let output = metaq(&["admin", "status", "--admin", &address]);
        let expected = if answer.is_empty() { "was lost before there was an answer" } else { "is no metaq broker" };
        assert!(failed(&output).contains(expected), "{answer:?}: {output:?}");
    }
    server.join().unwrap();
}
