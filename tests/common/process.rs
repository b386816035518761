//! A child process: what it prints is collected as it comes, it never outlives its handle, and when a test fails its
//! output is shown.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::DEADLINE;

/// Lines shown of a process when a test fails.
const LINES_SHOWN: usize = 60;

/// A running or ended child.
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Output>,
}

#[derive(Default)]
struct Output {
    state: Mutex<OutputState>,
    changed: Condvar,
}

#[derive(Default)]
struct OutputState {
    lines: Vec<String>,
    ended: bool,
}

impl Process {
    /// Starts the command. Its standard error is collected; standard output goes to `on_line` if that is given, and is
    /// collected too if not.
    pub fn start(name: &str, command: &mut Command, on_line: Option<Box<dyn FnMut(String) + Send>>) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let output = Arc::<Output>::default();
        read_lines(child.stderr.take().unwrap(), output.collector(), {
            let output = Arc::clone(&output);
            move || output.end()
        });
        read_lines(child.stdout.take().unwrap(), on_line.unwrap_or_else(|| output.collector()), || {});
        Self { name: name.to_owned(), child, output }
    }

    /// The way to its standard input. Dropping it ends the input.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Waits until a line that contains the text has been printed, and returns it.
    pub fn wait_for_line(&self, text: &str) -> String {
        self.line_or_end(text).unwrap_or_else(|| panic!("{} did not print '{text}'", self.name))
    }

    /// The same; `None` if it ended without having printed such a line.
    pub fn line_or_end(&self, text: &str) -> Option<String> {
        let mut state = self.output.state.lock().unwrap();
        let started = Instant::now();
        loop {
            if let Some(line) = state.lines.iter().find(|line| line.contains(text)) {
                return Some(line.clone());
            }
            if state.ended {
                return None;
            }
            let left = DEADLINE.saturating_sub(started.elapsed());
            if left.is_zero() {
                drop(state);
                panic!("{} did not print '{text}'", self.name);
            }
            state = self.output.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Everything that it has printed so far and that is collected; all of it once it has ended and its output is read.
    pub fn printed(&self) -> Vec<String> {
        let started = Instant::now();
        loop {
            let state = self.output.state.lock().unwrap();
            if state.ended || started.elapsed() > DEADLINE {
                return state.lines.clone();
            }
            drop(self.output.changed.wait_timeout(state, Duration::from_millis(20)).unwrap());
        }
    }

    /// Asks it to end (TERM) and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    /// Ends it without giving it a chance to do anything (KILL).
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < DEADLINE, "{} does not end", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, by name.
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap();
        assert!(status.success(), "signal {signal} to {}", self.name);
    }

    fn show_output(&self) {
        // The test has failed, maybe while this was locked.
        let state = self.output.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let from = state.lines.len().saturating_sub(LINES_SHOWN);
        eprintln!("--- the last lines of {}:\n{}\n---", self.name, state.lines[from..].join("\n"));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            self.show_output();
        }
    }
}

impl Output {
    fn collector(self: &Arc<Self>) -> Box<dyn FnMut(String) + Send> {
        let output = Arc::clone(self);
        Box::new(move |line| {
            output.state.lock().unwrap().lines.push(line);
            output.changed.notify_all();
        })
    }

    fn end(&self) {
        self.state.lock().unwrap().ended = true;
        self.changed.notify_all();
    }
}

fn read_lines(
    from: impl Read + Send + 'static,
    mut on_line: impl FnMut(String) + Send + 'static,
    at_end: impl FnOnce() + Send + 'static,
) {
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { break };
            on_line(String::from_utf8_lossy(&line).into_owned());
        }
        at_end();
    });
}
