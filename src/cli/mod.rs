//! The `metaq` command line: argument parsing and output.

mod admin;
mod bench;
mod broker;
mod config;
mod consume;
mod log;
mod log_file;
mod logging;
mod manual;
mod next_runs;
mod output;
mod partitions;
mod produce;
mod signals;
mod source;
mod stats;
mod table;
mod target;
mod topics;

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
    /// Run a broker in the foreground; it logs to standard error or a file (RUST_LOG sets the level, default info)
    Broker(broker::BrokerArguments),
    /// Send messages: the lines of files or of standard input, whole files, or generated ones
    Produce(produce::ProduceArguments),
    /// Read messages of a topic, as a member of a consumer group or without
    Consume(consume::ConsumeArguments),
    /// Measure a broker: throughput of puts and gets, latency of single puts and from producer to consumer
    #[command(subcommand)]
    Bench(bench::Command),
    /// Show the topics of a broker
    #[command(subcommand)]
    Topics(topics::Command),
    /// Close partitions of a running broker for put and get, and open them again
    #[command(subcommand)]
    Partitions(partitions::Command),
    /// Show what a broker of any kind counts
    Stats(stats::StatsArguments),
    /// Look at a running broker, reload its configuration, stop it
    #[command(subcommand)]
    Admin(admin::Command),
    /// Check or show a configuration file, or when its cron expressions are due
    #[command(subcommand)]
    Config(config::Command),
    /// Look after the commit log of a broker that does not run
    #[command(subcommand)]
    Log(log::Command),
    /// Print what makes a shell complete the arguments of metaq
    Completions(manual::CompletionsArguments),
    /// Print the manual page
    Man(manual::ManArguments),
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
        Command::Topics(command) => topics::run(&command),
        Command::Partitions(command) => partitions::run(&command),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Admin(command) => admin::run(&command),
        Command::Log(command) => log::run(&command),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
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
