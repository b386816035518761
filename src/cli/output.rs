//! Printing: results to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// Prints results. Once nobody reads them any more, printing fails and the command ends.
#[derive(Debug)]
pub(super) struct Printer {
    out: io::StdoutLock<'static>,
}

impl Printer {
    pub(super) fn new() -> Self {
        Self { out: io::stdout().lock() }
    }

    /// A line of text.
    pub(super) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// Whole lines, as they are.
    pub(super) fn raw(&mut self, lines: &[u8]) -> io::Result<()> {
        self.out.write_all(lines)
    }

    /// A JSON object on a line of its own.
    pub(super) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")?;
        // Whoever reads lines acts on them at once.
        self.out.flush()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Tells of something on standard error. That nobody can be told is no reason to end.
pub(super) fn tell(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Reports how a command ended and chooses its exit status: whether it did everything, or why it gave up.
pub(super) fn finish(result: anyhow::Result<bool>, format: Format) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            match format {
                Format::Text => tell(format_args!("metaq: {}", with_causes(&error))),
                Format::Json => {
                    // A line that cannot be printed cannot be reported either.
                    let _ = Printer::new().json(&serde_json::json!({ "fatal": with_causes(&error) }));
                }
            }
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes, without those that an error further up quotes already.
pub(super) fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match &*text {
        "" => cause,
        text if text.contains(&cause) => text.to_owned(),
        text => format!("{text}: {cause}"),
    })
}

/// The reader of our output left, as `head` does; that is its right.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is = |io: &io::Error| io.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(is)
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|e| e.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
    })
}
