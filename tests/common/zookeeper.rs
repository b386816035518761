//! Real ZooKeeper servers for tests: single or an ensemble, in a temporary directory, on free loopback ports, gone when
//! dropped.
//!
//! The class path is that of Debian's package; `METAQ_TEST_ZOOKEEPER_CLASSPATH` names another one, for example of an
//! older version.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use super::DEADLINE;

/// Of the servers; a session's time-out can be 2 to 20 of these.
pub const TICK: Duration = Duration::from_millis(500);

/// One or more servers that form an ensemble.
pub struct Ensemble {
    nodes: Vec<Server>,
    class_path: String,
    _directory: tempfile::TempDir,
}

struct Server {
    directory: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Ensemble {
    /// Makes `size` servers ready to start. `None`, and a line that says so, where ZooKeeper is not installed.
    pub fn prepare(size: usize) -> Option<Self> {
        let class_path = class_path()?;
        let directory = tempfile::tempdir().unwrap();
        let ports: Vec<[u16; 3]> = (0..size).map(|_| [free_port(), free_port(), free_port()]).collect();
        let peers: String = ports
            .iter()
            .enumerate()
            .filter(|_| size > 1)
            .map(|(i, [_, quorum, election])| format!("server.{i}=127.0.0.1:{quorum}:{election}\n"))
            .collect();
        let nodes = ports
            .iter()
            .enumerate()
            .map(|(i, &[port, _, _])| {
                let directory = directory.path().join(i.to_string());
                let data = directory.join("data");
                fs::create_dir_all(&data).unwrap();
                fs::write(data.join("myid"), i.to_string()).unwrap();
                let settings = format!(
                    "tickTime={}\ninitLimit=20\nsyncLimit=4\ndataDir={}\nclientPort={port}\n\
                     clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{peers}",
                    TICK.as_millis(),
                    data.display(),
                );
                fs::write(directory.join("zoo.cfg"), settings).unwrap();
                Server { directory, port, process: None }
            })
            .collect();
        Some(Self { nodes, class_path, _directory: directory })
    }

    /// One server that serves.
    pub fn single() -> Option<Self> {
        Self::started(1)
    }

    /// Three servers that serve.
    pub fn of_three() -> Option<Self> {
        Self::started(3)
    }

    fn started(size: usize) -> Option<Self> {
        let mut ensemble = Self::prepare(size)?;
        ensemble.start_all();
        Some(ensemble)
    }

    /// How clients reach all servers.
    pub fn connect_string(&self) -> String {
        let servers: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        servers.join(",")
    }

    /// Number of servers.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Starts every server that is not running and waits until all serve.
    pub fn start_all(&mut self) {
        for node in &mut self.nodes {
            node.start(&self.class_path);
        }
        for node in &self.nodes {
            node.wait_until_serving();
        }
    }

    /// Starts one server again and waits until it serves.
    pub fn start(&mut self, index: usize) {
        self.nodes[index].start(&self.class_path);
        self.nodes[index].wait_until_serving();
    }

    /// Ends one server without giving it a chance to say goodbye.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
    }

    /// Ends all servers likewise.
    pub fn kill_all(&mut self) {
        self.nodes.iter_mut().for_each(Server::kill);
    }

    /// Stops a server's process in its tracks; its connections stay open.
    pub fn freeze(&self, index: usize) {
        self.nodes[index].signal("STOP");
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self, index: usize) {
        self.nodes[index].signal("CONT");
    }

    /// The server that leads, among those that answer.
    pub fn leader(&self) -> usize {
        let started = Instant::now();
        while started.elapsed() < DEADLINE {
            let mut modes = self.nodes.iter().map(|node| node.mode().unwrap_or_default());
            if let Some(leader) = modes.position(|mode| mode == "leader" || mode == "standalone") {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no ZooKeeper server leads");
    }

    /// Ends a session as if it had expired: attaches a second connection to it and closes the session there. Its owner
    /// learns it when it next reaches a server.
    ///
    /// The owner, cut off by that, may attach again before the close is read, so this goes on until it is confirmed.
    pub fn expire(&self, session: i64) {
        let started = Instant::now();
        let mut attached = false;
        let mut last = String::new();
        while started.elapsed() < DEADLINE {
            for node in &self.nodes {
                match close_session(node.port, session) {
                    Ok(Closing::Confirmed) => return,
                    Ok(Closing::Refused) if attached => return,
                    Ok(outcome) => {
                        attached |= outcome == Closing::HungUp;
                        last = format!("{outcome:?}");
                    }
                    Err(error) => last = error.to_string(),
                }
            }
        }
        panic!("session {session:#x} could not be expired: {last}");
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        self.kill_all();
    }
}

impl Server {
    fn start(&mut self, class_path: &str) {
        if self.process.is_some() {
            return;
        }
        let log = File::create(self.directory.join("log")).unwrap();
        let process = Command::new("java")
            .args(["-Xmx96m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .args(["-Djava.net.preferIPv4Stack=true", "-Dzookeeper.jmx.log4j.disable=true"])
            .args(["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=256"])
            .args(["-cp", class_path, "org.apache.zookeeper.server.quorum.QuorumPeerMain"])
            .arg(self.directory.join("zoo.cfg"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    fn wait_until_serving(&self) {
        let started = Instant::now();
        while self.mode().is_none() {
            if started.elapsed() > DEADLINE {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                panic!("ZooKeeper on port {} does not serve; its output:\n{log}", self.port);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// `standalone`, `leader` or `follower` from a server that serves.
    fn mode(&self) -> Option<String> {
        let mut stream = connect(self.port).ok()?;
        stream.write_all(b"srvr").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn signal(&self, name: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap();
        assert!(status.success(), "signal {name} to {id}");
    }
}

/// The classes of ZooKeeper. `None`, and a line that says so, where they or Java are not installed.
pub fn class_path() -> Option<String> {
    let class_path = std::env::var("METAQ_TEST_ZOOKEEPER_CLASSPATH").unwrap_or("/usr/share/java/zookeeper.jar".into());
    let missing = if class_path == "/usr/share/java/zookeeper.jar" && !Path::new(&class_path).exists() {
        "ZooKeeper"
    } else if Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        "Java"
    } else {
        return Some(class_path);
    };
    eprintln!("skipped: {missing} is not installed (apt-get install zookeeper default-jre-headless)");
    None
}

/// A port below the range that the system gives to outgoing connections, so that no client takes the port of a server
/// that is down for the moment.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = u16::try_from(std::process::id() * 31 % 10_000).unwrap();
    for _ in 0..10_000 {
        let port = 20_000 + (base + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between 20000 and 32000");
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let limit = Duration::from_secs(1);
    let stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(stream)
}

/// What came of an attempt to close somebody else's session.
#[derive(Debug, PartialEq, Eq)]
enum Closing {
    /// The server has answered.
    Confirmed,
    /// We were attached, then the connection ended: the session is closed, or its owner has taken it back.
    HungUp,
    /// There is no such session, or the password is wrong.
    Refused,
}

fn close_session(port: u16, session: i64) -> io::Result<Closing> {
    let mut stream = connect(port)?;
    let mut request = Vec::new();
    request.extend(0_i32.to_be_bytes()); // protocol version
    request.extend(0_i64.to_be_bytes()); // last transaction seen
    request.extend(4_000_i32.to_be_bytes()); // time-out
    request.extend(session.to_be_bytes());
    request.extend(16_i32.to_be_bytes());
    request.extend(session_password(session));
    write_frame(&mut stream, &request)?;
    let answer = read_frame(&mut stream)?;
    if answer.get(8..16) != Some(&session.to_be_bytes()) {
        return Ok(Closing::Refused);
    }
    let close = [1_i32.to_be_bytes(), (-11_i32).to_be_bytes()].concat();
    if write_frame(&mut stream, &close).is_err() {
        return Ok(Closing::HungUp);
    }
    Ok(read_frame(&mut stream).map_or(Closing::HungUp, |_| Closing::Confirmed))
}

fn write_frame(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    let length = i32::try_from(body.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, body].concat())
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut body = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// A server derives a session's password from its id: sixteen bytes of `java.util.Random` seeded with the id and a
/// constant.
fn session_password(session: i64) -> [u8; 16] {
    const MASK: u64 = (1 << 48) - 1;
    let mut state = (session.cast_unsigned() ^ 0xB341_5C00 ^ 0x5_DEEC_E66D) & MASK;
    let mut password = [0; 16];
    for four in password.chunks_exact_mut(4) {
        state = state.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & MASK;
        four.copy_from_slice(&state.to_le_bytes()[2..6]);
    }
    password
}
