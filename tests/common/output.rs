//! What a program printed and how it ended.

use std::process::Output;

use serde_json::Value;

/// Printed bytes as text.
pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The program has to have ended with a status; otherwise shows what it printed.
#[track_caller]
pub fn assert_status(output: &Output, status: i32) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "stdout: {out}\nstderr: {err}");
}

/// Each printed line as JSON.
pub fn json_lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
