//! Where the messages of `metaq produce` come from.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use tokio::sync::mpsc;

/// Messages that are read ahead of the network.
const READ_AHEAD: usize = 256;

/// Largest message that is read; brokers refuse larger ones unless they are told otherwise (`maxBodyBytes`).
const MAX_MESSAGE_BYTES: u64 = 64 << 20;

/// What to send.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArguments {
    /// Files whose lines are sent, one message each; "-" or none is standard input
    #[arg(value_name = "FILE", conflicts_with = "count")]
    files: Vec<PathBuf>,
    /// Send each file as one message instead
    #[arg(long, requires = "files")]
    whole: bool,
    /// Send this many generated messages instead, numbered from 0
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// What a generated message begins with; its number follows
    #[arg(long, value_name = "TEXT", default_value = "m-")]
    payload_prefix: String,
    /// Length of generated messages in bytes, padded with dots or cut
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
}

impl SourceArguments {
    /// How many messages there will be, if that is known.
    pub(super) fn len(&self) -> Option<u64> {
        self.count.or(self.whole.then_some(self.files.len() as u64))
    }

    /// The messages, read by a thread of their own. An error is the last item.
    pub(super) fn messages(self) -> mpsc::Receiver<anyhow::Result<Bytes>> {
        let (sender, receiver) = mpsc::channel(READ_AHEAD);
        thread::spawn(move || {
            let mut emit = |message| sender.blocking_send(Ok(message)).is_ok();
            if let Err(error) = self.produce(&mut emit) {
                let _ = sender.blocking_send(Err(error));
            }
        });
        receiver
    }

    /// Emits one message after the other until nobody wants more.
    fn produce(&self, emit: &mut impl FnMut(Bytes) -> bool) -> anyhow::Result<()> {
        if let Some(count) = self.count {
            for number in 0..count {
                if !emit(self.generate(number)) {
                    break;
                }
            }
            return Ok(());
        }
        if self.files.is_empty() {
            return lines(io::stdin().lock(), emit).context("standard input");
        }
        for file in &self.files {
            let context = || file.display().to_string();
            if self.whole {
                let content = if is_stdin(file) {
                    whole(io::stdin().lock())
                } else {
                    File::open(file).map_err(Into::into).and_then(whole)
                };
                emit(content.with_context(context)?);
            } else if is_stdin(file) {
                lines(io::stdin().lock(), emit).with_context(context)?;
            } else {
                lines(BufReader::new(File::open(file).with_context(context)?), emit).with_context(context)?;
            }
        }
        Ok(())
    }

    fn generate(&self, number: u64) -> Bytes {
        let mut payload = format!("{}{number}", self.payload_prefix).into_bytes();
        if let Some(size) = self.size {
            payload.resize(size, b'.');
        }
        payload.into()
    }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn whole(input: impl Read) -> anyhow::Result<Bytes> {
    let mut content = Vec::new();
    input.take(MAX_MESSAGE_BYTES + 1).read_to_end(&mut content)?;
    check_size(&content)?;
    Ok(content.into())
}

fn check_size(message: &[u8]) -> anyhow::Result<()> {
    if message.len() as u64 > MAX_MESSAGE_BYTES {
        bail!("a message has more than {MAX_MESSAGE_BYTES} bytes; is it meant to be one message?");
    }
    Ok(())
}

/// Lines without their end, be it LF or CRLF.
fn lines(mut input: impl BufRead, emit: &mut impl FnMut(Bytes) -> bool) -> anyhow::Result<()> {
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(MAX_MESSAGE_BYTES + 2).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        check_size(&line)?;
        if !emit(line.into()) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_their_end_and_nothing_else() {
        let mut seen = Vec::new();
        lines(&b"a\r\n\n b \nlast"[..], &mut |line| {
            seen.push(line);
            true
        })
        .unwrap();
        assert_eq!(seen, ["a", "", " b ", "last"]);
    }

    #[test]
    fn generated_messages_are_padded_or_cut_to_the_size() {
        let arguments = |size| SourceArguments {
            files: Vec::new(),
            whole: false,
            count: Some(1),
            payload_prefix: "msg-".to_owned(),
            size,
        };
        assert_eq!(arguments(None).generate(12), "msg-12");
        assert_eq!(arguments(Some(8)).generate(12), "msg-12..");
        assert_eq!(arguments(Some(3)).generate(12), "msg");
    }
}
