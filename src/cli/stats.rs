//! `metaq stats`: what a broker counts, asked by the wire protocol, so of Java brokers too (01 §10, 03 §12).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use serde_json::{Map, Value, json};

use super::admin::{configuration_of, reachable};
use super::output::{Format, Printer, finish};
use super::runtime;
use super::target::server_address;
use crate::client::{BrokerClient, ClientError, ConnectionOptions};
use crate::config::ServerConfig;

/// Where a broker with the default configuration listens.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8123";

/// Arguments of `metaq stats`.
#[derive(Debug, clap::Args)]
pub(super) struct StatsArguments {
    /// topics, offsets, realtime, config, help, reset, or the name of a topic. Without it: the broker itself
    #[arg(default_value = "", hide_default_value = true)]
    item: String,
    /// The broker, of any kind. Without it, and without -f: 127.0.0.1:8123
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "config")]
    server: Option<String>,
    /// The configuration file of a broker on this machine, which tells where it listens
    #[arg(short = 'f', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Longest wait for the connection, and for the answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
    /// The form of the output: as the broker words it, or as JSON
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(arguments: &StatsArguments) -> ExitCode {
    finish(show(arguments).map(|()| true), arguments.output)
}

fn show(arguments: &StatsArguments) -> anyhow::Result<()> {
    let address = match (&arguments.server, &arguments.config) {
        (Some(server), _) => server_address(server)?,
        (None, Some(file)) => configured(&configuration_of(file, "--server HOST:PORT")?)?,
        (None, None) => DEFAULT_ADDRESS.to_owned(),
    };
    let item = arguments.item.trim();
    let timeout = Duration::from_millis(arguments.timeout_ms);
    let text = runtime()?.block_on(async { anyhow::Ok(connect(&address, timeout).await?.stats(item).await?) })?;
    let mut printer = Printer::new();
    match arguments.output {
        Format::Text => text.lines().try_for_each(|line| printer.line(line))?,
        Format::Json => objects(item, &text).iter().try_for_each(|object| printer.json(object))?,
    }
    Ok(())
}

/// Connects to one broker.
pub(super) async fn connect(address: &str, timeout: Duration) -> Result<BrokerClient, ClientError> {
    let options =
        ConnectionOptions { connect_timeout: timeout, request_timeout: timeout, ..ConnectionOptions::default() };
    BrokerClient::connect(address, options).await
}

fn configured(config: &ServerConfig) -> anyhow::Result<String> {
    match config.system.server_port {
        0 => bail!("serverPort=0 lets the system choose a port: give --server with the address that the broker told"),
        port => Ok(reachable(config.metaq.bind_address, port)),
    }
}

/// The lines of a text as objects: one for each topic or partition of a list, one for everything else.
fn objects(item: &str, text: &str) -> Vec<Value> {
    if item == "config" {
        return vec![json!({ "config": text })];
    }
    let lines = lines(text).map(|line| line.split(' ').collect::<Vec<_>>());
    match item {
        "topics" | "offsets" => lines.map(|words| listed(&words)).collect(),
        _ => {
            let mut object = Map::new();
            for words in lines {
                match words.as_slice() {
                    [] => {}
                    [name] => drop(object.insert("topic".to_owned(), Value::from(*name))),
                    [name, value @ ..] => drop(object.insert((*name).to_owned(), value_of(&value.join(" ")))),
                }
            }
            vec![Value::Object(object)]
        }
    }
}

/// What stands between the first and the last line of an answer.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !matches!(*line, "STATS" | "END" | ""))
}

/// `<topic> <name> <value> …`, or `<topic> *Empty*`.
fn listed(words: &[&str]) -> Value {
    let (topic, rest) = words.split_first().map_or(("", words), |(topic, rest)| (*topic, rest));
    let pairs = rest.chunks_exact(2).filter_map(|pair| match pair {
        [name, value] => Some(((*name).to_owned(), value_of(value))),
        _ => None,
    });
    std::iter::once(("topic".to_owned(), Value::from(topic))).chain(pairs).collect::<Map<_, _>>().into()
}

fn value_of(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        _ => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broker_s_own_lines_are_one_object() {
        let text = "STATS\r\npid 7\r\nversion 1.4.6.2 metaq/0.1.0 wait\r\nslave false\r\nrealtime_put null\r\nEND\r\n";
        let expected = json!({"pid": 7, "version": "1.4.6.2 metaq/0.1.0 wait", "slave": false, "realtime_put": null});
        assert_eq!(objects("", text), [expected]);
    }

    #[test]
    fn lists_are_an_object_a_line() {
        let text = "STATS\r\nt partitions 2 accept_publish true\r\nempty *Empty*\r\nEND\r\n";
        let expected = [json!({"topic": "t", "partitions": 2, "accept_publish": true}), json!({"topic": "empty"})];
        assert_eq!(objects("topics", text), expected);
        assert_eq!(
            objects("test", "STATS\r\ntest\r\nresultCode 0\r\nEND\r\n"),
            [json!({"topic": "test", "resultCode": 0})]
        );
        assert_eq!(objects("config", "[system]\n"), [json!({"config": "[system]\n"})]);
    }
}
