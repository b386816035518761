//! The `metaq` command line: argument parsing and output.

mod bench;
mod broker;
mod config;
mod consume;
mod log;
mod logging;
mod next_runs;
mod output;
mod produce;
mod reader;
mod signals;
mod source;
mod target;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A message broker that speaks MetaQ, and what one needs to use any of its kind from a shell.
#[derive(Debug, Parser)]
#[command(name = "metaq", version, arg_required_else_help = true, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a broker in the foreground; it logs to standard error (RUST_LOG sets the level, default info)
    Broker(broker::BrokerArguments),
    /// Send messages: the lines of files or of standard input, whole files, or generated ones
    Produce(produce::ProduceArguments),
    /// Read messages of a topic directly from its brokers, without a consumer group
    Consume(consume::ConsumeArguments),
    /// Measure a broker: throughput of puts and gets, latency of single puts and from producer to consumer
    #[command(subcommand)]
    Bench(bench::Command),
    /// Check or show a configuration file, or when its cron expressions are due
    #[command(subcommand)]
    Config(config::Command),
    /// Look after the commit log of a broker that does not run
    #[command(subcommand)]
    Log(log::Command),
}

/// Runs the command line of this process.
///
/// The exit status is 0 when everything was done, 1 when something failed, 2 for wrong use.
pub fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    match command {
        Command::Broker(arguments) => broker::run(&arguments),
        Command::Produce(arguments) => produce::run(arguments),
        Command::Consume(arguments) => consume::run(arguments),
        Command::Bench(command) => bench::run(command),
        Command::Config(command) => config::run(&command),
        Command::Log(command) => log::run(&command),
    }
}

/// What the commands of a client run on.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Arguments::command().debug_assert();
    }
}
