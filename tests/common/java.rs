//! The reference's client and broker, unmodified, as processes: `tests/interop` built by Maven and started here.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::DEADLINE;
use super::broker::BrokerHome;
use super::group::Inbox;
use super::process::Process;

/// The built programs.
#[derive(Clone)]
pub struct Java {
    target: PathBuf,
}

impl Java {
    /// Builds `tests/interop` if its sources have changed; test programs that run at the same time wait for each other.
    /// `None`, and a line that says so, where Java or Maven is not installed.
    pub fn build() -> Option<Self> {
        let installed = |program: &str, argument: &str| {
            let mut command = Command::new(program);
            command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let missing = if !installed("javac", "-version") {
            "a Java development kit"
        } else if !installed("mvn", "-version") {
            "Maven"
        } else {
            return Some(Self { target: build() });
        };
        static SAY: Once = Once::new();
        // Past the capture of the test harness: a skipped test must not look like one that has passed.
        SAY.call_once(|| {
            let line = format!("skipped: {missing} is not installed (apt-get install default-jdk-headless maven)\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        });
        None
    }

    /// A JVM whose home and temporary files are in `state`.
    fn command(&self, main: &str, state: &Path) -> Command {
        fs::create_dir_all(state).unwrap();
        let property = |name: &str, value: &Path| format!("-D{name}={}", value.display());
        let mut command = Command::new("java");
        command
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
            .args(["-Dfile.encoding=UTF-8", "-Djava.net.preferIPv4Stack=true", "-Dzookeeper.jmx.log4j.disable=true"])
            .arg(property("user.home", state))
            .arg(property("java.io.tmpdir", state))
            .arg("-cp")
            .arg(format!("{0}/interop.jar:{0}/lib/*", self.target.display()))
            .arg(main)
            .current_dir(state);
        command
    }
}

/// Where Maven builds to.
fn build() -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    // Cargo makes `tmp` for tests in its target directory.
    let beside = || Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("interop");
    let place = std::env::var_os("METAQ_INTEROP_TARGET").map_or_else(beside, PathBuf::from);
    fs::create_dir_all(&place).unwrap();
    let lock = File::create(place.join("lock")).unwrap();
    lock.lock().unwrap();
    let target = place.join("build");
    let stamp = place.join("built-from");
    let sources = digest(&project);
    if fs::read_to_string(&stamp).is_ok_and(|built| built == sources) && target.join("interop.jar").exists() {
        return target;
    }
    if target.exists() {
        fs::remove_dir_all(&target).unwrap();
    }
    let log = place.join("build.log");
    let maven = |offline: &[&str]| {
        let output = File::create(&log).unwrap();
        let mut command = Command::new("mvn");
        command.args(["-q", "-B", "package", "-f"]).arg(project.join("pom.xml")).args(offline);
        command.arg(format!("-Dinterop.target={}", target.display()));
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output).status().unwrap().success()
    };
    // What is in the local repository need not be asked for.
    if !maven(&["-o"]) && !maven(&[]) {
        let log = fs::read_to_string(&log).unwrap_or_default();
        panic!("{} cannot be built; the first time, Maven needs a registry:\n{log}", project.display());
    }
    fs::write(&stamp, sources).unwrap();
    target
}

/// Changes whenever a file of the project does.
fn digest(project: &Path) -> String {
    let mut files = vec![project.join("pom.xml")];
    let mut directories = vec![project.join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        (&file, fs::read(&file).unwrap()).hash(&mut hasher);
    }
    format!("{:016x}\n", hasher.finish())
}

/// A process of the reference's broker.
pub struct JavaBroker(Process);

impl JavaBroker {
    /// Starts it and waits until it serves and is registered.
    ///
    /// After [`kill`](Self::kill) it refuses to start until its old ZooKeeper session has expired.
    pub fn start(java: &Java, home: &BrokerHome) -> Self {
        let process = Self::launch(java, home);
        process.wait_for_line("READY ");
        Self(process)
    }

    /// Starts it where a broker was killed: again and again until the killed one's ZooKeeper session has expired.
    pub fn start_after_kill(java: &Java, home: &BrokerHome) -> Self {
        let started = Instant::now();
        loop {
            let process = Self::launch(java, home);
            if process.line_or_end("READY ").is_some() {
                return Self(process);
            }
            assert!(started.elapsed() < DEADLINE, "the Java broker does not start");
            // Its output names another reason.
            process.wait_for_line("NodeExists");
        }
    }

    fn launch(java: &Java, home: &BrokerHome) -> Process {
        let mut command = java.command("interop.Broker", &home.scratch().join("jvm"));
        command.arg(home.ini());
        Process::start(&format!("Java broker {}", home.id()), &mut command, None)
    }

    /// Stops it cleanly.
    pub fn stop(mut self) {
        let status = self.0.terminate();
        assert_eq!(status.code(), Some(143), "the end of a JVM by TERM");
    }

    /// Ends it in the middle of whatever it does.
    pub fn kill(mut self) {
        self.0.kill();
    }
}

/// A process with the reference's client that runs commands side by side (`tests/interop`, `Driver.java`).
pub struct JavaClient {
    stdin: Mutex<ChildStdin>,
    commands: Arc<Mutex<Commands>>,
    process: Process,
    _state: tempfile::TempDir,
}

#[derive(Default)]
struct Commands {
    started: u64,
    running: HashMap<u64, Sender<Value>>,
}

impl JavaClient {
    /// Starts it; the JVM comes up while the caller does something else.
    pub fn start(java: &Java) -> Self {
        let state = tempfile::tempdir().unwrap();
        let commands = Arc::<Mutex<Commands>>::default();
        let lines = Arc::clone(&commands);
        let on_line = Box::new(move |line: String| {
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("'{line}': {error}"));
            let id = line["id"].as_u64().unwrap();
            let mut commands = lines.lock().unwrap();
            // Nobody may be interested any more.
            commands.running.get(&id).map(|command| command.send(line.clone()));
            if !line["exit"].is_null() {
                commands.running.remove(&id);
            }
        });
        let mut process =
            Process::start("the Java client", &mut java.command("interop.Driver", state.path()), Some(on_line));
        Self { stdin: Mutex::new(process.take_stdin()), commands, process, _state: state }
    }

    /// Starts a command; `options` is what `Driver.java` and its neighbours say.
    pub fn command(&self, name: &str, mut options: Value) -> JavaCommand<'_> {
        let (sender, lines) = channel();
        let id = {
            let mut commands = self.commands.lock().unwrap();
            commands.started += 1;
            let id = commands.started;
            commands.running.insert(id, sender);
            id
        };
        options["id"] = id.into();
        options["command"] = name.into();
        self.send(&options).expect("the Java client has ended");
        JavaCommand { client: self, id, name: format!("{name} {id}"), lines, ended: false }
    }

    /// Stops it in its tracks, with all that it does; its connections stay open.
    pub fn freeze(&self) {
        self.process.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.process.signal("CONT");
    }

    /// Ends it in the middle of whatever it does.
    pub fn kill(&self) {
        self.process.signal("KILL");
    }

    fn send(&self, request: &Value) -> std::io::Result<()> {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(stdin, "{request}")?;
        stdin.flush()
    }
}

/// A command that runs in the Java client. Dropping it asks it to end.
pub struct JavaCommand<'a> {
    client: &'a JavaClient,
    id: u64,
    name: String,
    lines: Receiver<Value>,
    ended: bool,
}

impl JavaCommand<'_> {
    /// The next line; `None` when the command has done what it was asked.
    ///
    /// # Panics
    ///
    /// If the command failed, or nothing came within the deadline.
    pub fn next(&mut self) -> Option<Value> {
        self.next_before(Instant::now() + DEADLINE).unwrap_or_else(|| panic!("no further line of Java's {}", self.name))
    }

    /// As [`next`](Self::next), with `None` if nothing came in time.
    pub fn next_before(&mut self, deadline: Instant) -> Option<Option<Value>> {
        if self.ended {
            return Some(None);
        }
        let line = match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => panic!("the Java client has ended during {}", self.name),
        };
        match line["exit"].as_bool() {
            None => Some(Some(line)),
            Some(true) => {
                self.ended = true;
                Some(None)
            }
            Some(false) => panic!("Java's {} failed: {}", self.name, line["error"]),
        }
    }

    /// Waits for the end and returns all lines that had not been taken yet.
    pub fn finish(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Hands all further lines to the inbox as they come. What is left to do with the command is to stop it.
    pub fn feed(&mut self, inbox: Arc<Inbox>) {
        let lines = std::mem::replace(&mut self.lines, channel().1);
        std::thread::spawn(move || {
            for line in lines {
                inbox.take(&line);
                if !line["exit"].is_null() {
                    break;
                }
            }
            inbox.end();
        });
    }

    /// Asks it to end; [`finish`](Self::finish) waits for that.
    pub fn stop(&self) {
        // If the client has ended, the next line taken tells.
        let _ = self.client.send(&json!({ "id": self.id, "stop": true }));
    }
}

impl Drop for JavaCommand<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.stop();
        }
    }
}
