//! Who may do what.

use crate::common::http::{get, send};
use crate::common::process::Process;
use crate::rig::{Home, Running, Setup, TOKEN, admin_address};

const CLOSE: &str = r#"{"topic":"test","start":0,"end":0}"#;
const JSON: &str = "Content-Type: application/json";

/// Requests that change something, with bodies that do.
const CHANGING: [(&str, &str); 6] = [
    ("/api/v1/partitions/close", CLOSE),
    ("/api/v1/partitions/open", r#"{"topic":"test"}"#),
    ("/api/v1/stats/reset", ""),
    ("/reload", ""),
    ("/reload-config", ""),
    ("/api/v1/stop", ""),
];

#[tokio::test]
async fn with_a_token_nothing_is_changed_without_it() {
    let broker = Running::with(Setup { token: Some(TOKEN), ..Setup::default() });
    for (path, body) in CHANGING {
        for authorization in [
            "X: y",
            "Authorization: Bearer",
            "Authorization: Bearer a-token-that-nobody-guesseS",
            &format!("Authorization: {TOKEN}"),
        ] {
            let answer = send(broker.admin, "POST", path, &[JSON, authorization], body).await;
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{path}: {answer:?}");
            assert!(answer.error().contains("METAQ_ADMIN_TOKEN") && answer.error().contains("adminTokenFile"));
        }
    }
    assert_eq!(
        send(broker.admin, "POST", "/nothing", &[], "").await.status,
        401,
        "what is not there is not told either"
    );
    assert_eq!(broker.get("/api/v1/partitions/closed").await.json(), serde_json::json!([]));
    let authorization = format!("Authorization: Bearer {TOKEN}");
    let answer = send(broker.admin, "POST", "/api/v1/partitions/close", &[JSON, &authorization], CLOSE).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let metrics = crate::exposition::Exposition::parse(broker.get("/metrics").await.text());
    assert_eq!(metrics.value(r#"metaq_admin_requests_refused_total{reason="token"}"#), 25.0);
    let refused = broker.stop().iter().filter(|line| line.contains("refusing a request to the http port")).count();
    assert_eq!(refused, 1, "a flood is logged once");
}

#[tokio::test]
async fn a_port_for_others_is_closed_to_changes_without_a_token_and_open_to_looks() {
    let broker = Running::with(Setup { metaq: "adminBindAddress=0.0.0.0", ..Setup::default() });
    for (path, body) in CHANGING {
        let answer = send(broker.admin, "POST", path, &[JSON, "Host: metaq.example:8120"], body).await;
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
        assert!(answer.error().contains("METAQ_ADMIN_TOKEN") && answer.error().contains("adminTokenFile"));
    }
    let answer = send(broker.admin, "GET", "/api/v1/status", &["Host: metaq.example:8120"], "").await;
    assert_eq!(answer.status, 200);
    if let Some(own) = own_address() {
        let mut address = broker.admin;
        address.set_ip(own);
        assert_eq!(get(address, "/healthz").await.status, 200);
        assert_eq!(send(address, "POST", "/api/v1/stop", &[], "").await.status, 403);
    }
}

#[tokio::test]
async fn a_token_of_a_file_opens_a_port_for_others() {
    let home = Home::new();
    let file = home.token_file(0o600, &format!("{TOKEN}\n"));
    let metaq = format!("adminBindAddress=0.0.0.0\nadminTokenFile={}", file.display());
    let command = home.command(Setup::default(), &metaq);
    let broker = Running::of(home, command);
    let authorization = format!("Authorization: bearer {TOKEN}");
    let answer = send(broker.admin, "POST", "/api/v1/partitions/close", &[JSON, &authorization], CLOSE).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(send(broker.admin, "POST", "/api/v1/partitions/close", &[JSON], CLOSE).await.status, 401);
}

/// An address of this machine that is not loopback.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // Sends nothing: it only finds out which interface would be used.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().unwrap().ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[tokio::test]
async fn a_port_of_this_machine_cannot_be_reached_from_another_address() {
    let broker = Running::start();
    assert!(broker.admin.ip().is_loopback());
    for other in [Some([127, 0, 0, 2].into()), own_address()].into_iter().flatten() {
        let mut address = broker.admin;
        address.set_ip(other);
        assert!(tokio::net::TcpStream::connect(address).await.is_err(), "{address}");
    }
    let elsewhere = Running::with(Setup { metaq: "adminBindAddress=127.0.0.2", ..Setup::default() });
    assert_eq!(elsewhere.admin.ip().to_string(), "127.0.0.2");
    assert_eq!(elsewhere.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn pages_in_a_browser_reach_nothing() {
    let broker = Running::start();
    // A name of the attacker's that points to this machine.
    for path in ["/metrics", "/api/v1/config", "/nothing"] {
        let answer = send(broker.admin, "GET", path, &["Host: evil.example:8120"], "").await;
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.error().contains("adminBindAddress"));
    }
    let absolute = send(broker.admin, "GET", "http://evil.example/metrics", &[], "").await;
    assert_eq!(absolute.status, 403);
    assert_eq!(send(broker.admin, "GET", "/healthz", &["Host: evil.example"], "").await.status, 200);
    assert_eq!(send(broker.admin, "GET", "/readyz", &["Host: 10.1.2.3:8120"], "").await.status, 200);
    // A page of the attacker's that sends a form or a script's request here.
    for header in
        ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"]
    {
        for (path, body) in CHANGING {
            let answer = send(broker.admin, "POST", path, &[JSON, header], body).await;
            assert_eq!(answer.status, 403, "{header} {path}: {answer:?}");
        }
    }
    let own = format!("Origin: http://{}", broker.admin);
    let answer = send(broker.admin, "POST", "/api/v1/stats/reset", &[&own, "Sec-Fetch-Site: same-origin"], "").await;
    assert_eq!(answer.status, 200, "a page of this port's own");
    let metrics = crate::exposition::Exposition::parse(broker.get("/metrics").await.text());
    assert_eq!(metrics.value(r#"metaq_admin_requests_refused_total{reason="host"}"#), 4.0);
    assert_eq!(metrics.value(r#"metaq_admin_requests_refused_total{reason="origin"}"#), 24.0);
}

/// The process has to end by itself without having printed the secret; what it printed.
fn refused_start(mut command: std::process::Command, secret: &str) -> String {
    let mut process = Process::start("the broker", &mut command, None);
    assert_eq!(process.wait().code(), Some(1));
    let printed = process.printed().join("\n");
    assert!(secret.is_empty() || !printed.contains(secret), "{printed}");
    assert!(!printed.contains("READY"), "{printed}");
    printed
}

#[test]
fn a_token_that_is_none_refuses_the_start() {
    for (mode, content, says) in
        [(0o644, TOKEN, "chmod 600"), (0o600, "", "holds no token"), (0o600, "too-short", "holds no token")]
    {
        let home = Home::new();
        let file = home.token_file(mode, content);
        let metaq = format!("adminTokenFile={}", file.display());
        let printed = refused_start(home.command(Setup::default(), &metaq), content);
        assert!(printed.contains(says) && printed.contains("adminTokenFile="), "{printed}");
    }
    let home = Home::new();
    let printed = refused_start(home.command(Setup::default(), "adminTokenFile=/nonexistent/token"), "");
    assert!(printed.contains("adminTokenFile=/nonexistent/token: "), "{printed}");
    let printed = refused_start(home.command(Setup { token: Some(""), ..Setup::default() }, ""), "");
    assert!(printed.contains("METAQ_ADMIN_TOKEN holds no token"), "{printed}");
    let file = home.token_file(0o600, TOKEN);
    let both = Setup { token: Some(TOKEN), ..Setup::default() };
    let printed = refused_start(home.command(both, &format!("adminTokenFile={}", file.display())), TOKEN);
    assert!(printed.contains("unset one of them"), "{printed}");
}

#[tokio::test]
async fn the_token_is_shown_nowhere() {
    let home = Home::new();
    let file = home.token_file(0o600, TOKEN);
    let mut command = home.command(Setup::default(), &format!("adminTokenFile={}", file.display()));
    command.env("RUST_LOG", "trace");
    let show = std::process::Command::new(env!("CARGO_BIN_EXE_metaq"))
        .args(["config", "show", "--output", "json"])
        .arg(home.ini())
        .output()
        .unwrap();
    assert!(show.status.success());
    let show = String::from_utf8(show.stdout).unwrap();
    assert!(show.contains("adminTokenFile") && !show.contains(TOKEN), "{show}");
    let broker = Running::of(home, command);
    assert_eq!(admin_address(&broker.process), broker.admin);
    let right = format!("Authorization: Bearer {TOKEN}");
    let almost = format!("Authorization: Bearer {TOKEN}x");
    let mut shown = Vec::new();
    for path in
        ["/metrics", "/api/v1/status", "/api/v1/config", "/api/v1/stats", "/api/v1/topics", "/readyz", "/nothing"]
    {
        shown.push(send(broker.admin, "GET", path, &[&right], "").await);
    }
    for (path, body) in CHANGING.iter().filter(|(path, _)| !path.ends_with("/stop")) {
        shown.push(send(broker.admin, "POST", path, &[JSON, &right], body).await);
        shown.push(send(broker.admin, "POST", path, &[JSON, &almost], body).await);
    }
    let topic = format!(r#"{{"topic":"{TOKEN}"}}"#);
    assert_eq!(send(broker.admin, "POST", "/api/v1/partitions/open", &[JSON, &almost], &topic).await.status, 401);
    for answer in shown {
        assert!(!format!("{answer:?} {}", String::from_utf8_lossy(&answer.body)).contains(TOKEN), "{answer:?}");
    }
    let printed = broker.stop().join("\n");
    assert!(printed.contains("DEBUG") && printed.contains("refusing a request"), "{printed}");
    assert!(!printed.contains(TOKEN));
}
