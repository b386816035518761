//! `metaq config`: checking and showing a configuration file, and what is in it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::next_runs::{self, NextRunsArguments};
use super::output::{Format, Printer, finish, tell};
use crate::admin::AdminToken;
use crate::config::ServerConfig;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check a configuration file: prints every error with its line; the exit status is 1 if there is one
    Check {
        /// The configuration file
        file: PathBuf,
        /// Check the token of operators, too, as a broker that is started here and now with this file would
        #[arg(long)]
        start: bool,
    },
    /// Show the values in force, defaults included
    Show {
        /// The configuration file
        file: PathBuf,
        /// The form of the output
        #[arg(long, value_enum, default_value_t)]
        output: Format,
    },
    /// Show the next times of a cron expression, as deleteWhen takes it, in the local time zone; the exit status is 1 if
    /// there is none
    NextRuns(NextRunsArguments),
}

pub(super) fn run(command: &Command) -> ExitCode {
    match command {
        Command::Check { file, start } => finish(check(file, *start), Format::Text),
        Command::NextRuns(arguments) => next_runs::run(arguments),
        Command::Show { file, output } => finish(show(file, *output), *output),
    }
}

fn check(file: &Path, start: bool) -> anyhow::Result<bool> {
    match ServerConfig::load(file) {
        Ok(config) => {
            for warning in &config.warnings {
                tell(format_args!("warning: {}", warning.located(Some(file))));
            }
            if start {
                AdminToken::find(config.metaq.admin_token_file.as_deref())?;
            }
            Printer::new().line(format_args!("{}: ok", file.display()))?;
            Ok(true)
        }
        Err(errors) => {
            tell(errors);
            Ok(false)
        }
    }
}

fn show(file: &Path, format: Format) -> anyhow::Result<bool> {
    let config = ServerConfig::load(file)?;
    let effective = config.effective();
    match format {
        Format::Text => Printer::new().line(effective)?,
        Format::Json => Printer::new().json(&effective)?,
    }
    Ok(true)
}
