//! `metaq completions` and `metaq man`: what shells and `man` know of the command line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use super::Arguments;
use super::output::{Format, finish};

/// Arguments of `metaq completions`.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Arguments of `metaq man`.
#[derive(Debug, clap::Args)]
pub(super) struct ManArguments {
    /// Write a page for each command into this directory instead
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn completions(arguments: &CompletionsArguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "metaq", &mut script);
    finish(print(&script).map(|()| true), Format::Text)
}

pub(super) fn man(arguments: &ManArguments) -> ExitCode {
    let done = match &arguments.out {
        Some(directory) => write_pages(directory),
        None => page(),
    };
    finish(done.map(|()| true), Format::Text)
}

fn page() -> anyhow::Result<()> {
    let mut page = Vec::new();
    Man::new(Arguments::command()).render(&mut page)?;
    print(&page)
}

fn write_pages(directory: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write pages to {}", directory.display());
    fs::create_dir_all(directory).with_context(cannot)?;
    clap_mangen::generate_to(Arguments::command(), directory).with_context(cannot)
}

fn print(text: &[u8]) -> anyhow::Result<()> {
    Ok(io::Write::write_all(&mut io::stdout().lock(), text)?)
}
