//! An HTTP client that sends what it is told, right or wrong.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::DEADLINE;

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head, body: bytes[end + 4..].to_vec() })
    }

    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let of_name = |line: &&str| line.split_once(": ").is_some_and(|(n, _)| n.eq_ignore_ascii_case(name));
        self.head.lines().skip(1).find(of_name).and_then(|line| line.split_once(": ")).map(|(_, value)| value)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        assert!(self.body.ends_with(b"\n"), "a line ends: {self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The text of an error, which has the same form everywhere.
    #[track_caller]
    pub fn error(&self) -> String {
        let json = self.json();
        assert_eq!(json.as_object().map(serde_json::Map::len), Some(1), "{json}");
        json["error"].as_str().unwrap_or_else(|| panic!("{json}")).to_owned()
    }
}

/// Sends bytes and reads until the server closes; `None` if it closed without an answer.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> Option<Answer> {
    let talk = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may have answered and closed before it has read everything.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}"),
        }
        Answer::parse(&bytes)
    };
    tokio::time::timeout(DEADLINE, talk).await.expect("no answer and no end")
}

/// Sends a request of a method and further header lines, and gives its answer.
pub async fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|line| line.starts_with("Host:")) {
        request += &format!("Host: {address}\r\n");
    }
    headers.iter().for_each(|line| request += &format!("{line}\r\n"));
    if !body.is_empty() {
        request += &format!("Content-Length: {}\r\n", body.len());
    }
    request += "\r\n";
    request += body;
    exchange(address, request.as_bytes()).await.expect("an answer")
}

/// Gets a path.
pub async fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, "GET", path, &[], "").await
}

/// Posts JSON.
pub async fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    send(address, "POST", path, &["Content-Type: application/json"], body).await
}
