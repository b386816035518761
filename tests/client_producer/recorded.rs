//! The broker's side of recorded conversations, replayed to our producer: it sends what the Java client sent, byte for
//! byte but for the opaque, and has the results that the Java program printed.

use std::collections::VecDeque;
use std::path::Path;

use bytes::BytesMut;
use metaq::client::Message;
use metaq::protocol::{Command, Decoder, Limits, Opaque, Put, Request, Response, ResultResponse};

use crate::common::scripted::{JAVA, ScriptedBroker};
use crate::common::wire::conversation;
use crate::rig::{Tree, soon, topic};

/// A recorded put and its answer.
struct Exchange {
    put: Put,
    answer: ResultResponse,
}

fn exchanges(name: &str) -> VecDeque<Exchange> {
    let turns = conversation(name);
    let commands = |from: &str| {
        let mut decoder = Decoder::new(Limits::default());
        let mut buffer = BytesMut::new();
        // Every recording has one connection that carries puts; what the others say decodes the same.
        turns.iter().filter(|turn| turn.from == from).for_each(|turn| buffer.extend_from_slice(&turn.bytes()));
        std::iter::from_fn(|| decoder.decode(&mut buffer).unwrap()).collect::<Vec<_>>()
    };
    let answers = commands("broker");
    let answer_to = |opaque: Opaque| {
        let fits = |command: &&Command| matches!(command, Command::Response(response) if response.opaque() == opaque);
        match answers.iter().find(fits) {
            Some(Command::Response(Response::Result(result))) => result.clone(),
            other => panic!("no answer to {opaque}: {other:?}"),
        }
    };
    let puts = commands("client").into_iter().filter_map(|command| match command {
        Command::Request(Request::Put(put)) => Some(put),
        _ => None,
    });
    puts.map(|put| Exchange { answer: answer_to(put.opaque), put }).collect()
}

async fn replay(name: &str, topic_name: &str, partitions: u32) {
    let mut broker = ScriptedBroker::start(JAVA).await;
    let tree = Tree::start().await;
    tree.set("ids/0/master", &format!("meta://{}", broker.address())).await;
    let offer = format!(r#"{{"numParts":{partitions},"broker":"0-m"}}"#);
    tree.set(&format!("topics-pub/{topic_name}/0-m"), &offer).await;
    let factory = tree.factory().await;
    let producer = factory.create_producer().unwrap();
    producer.publish(&topic(topic_name)).await.unwrap();
    let mut exchanges = exchanges(&format!("{name}.jsonl"));
    assert!(!exchanges.is_empty());
    let mut printed = Vec::new();
    let recorded: Vec<_> = exchanges.iter().map(|exchange| exchange.put.clone()).collect();
    for (number, put) in recorded.iter().enumerate() {
        let body = metaq::message::Body::decode(put.flag, put.body.clone()).unwrap();
        let mut message = Message::new(topic(&put.topic), body.payload);
        if let Some(attribute) = body.attribute {
            message = message.with_attribute(attribute);
        }
        let sending = producer.start_send(message).await.unwrap();
        let asked = broker.next().await;
        let Request::Put(sent) = &asked.request else { panic!("{:?}", asked.request) };
        let same = |exchange: &Exchange| exchange.put.topic == sent.topic && exchange.put.partition == sent.partition;
        let place = exchanges.iter().position(same).unwrap_or_else(|| panic!("nobody asked for {sent:?}"));
        let exchange = exchanges.remove(place).unwrap();
        assert_eq!(Put { opaque: exchange.put.opaque, ..sent.clone() }, exchange.put);
        asked.answer(exchange.answer.status, std::str::from_utf8(&exchange.answer.body).unwrap());
        let result = soon("a result", sending).await.unwrap();
        printed.push(format!("SEND {number} success=true {result} error=null"));
    }
    printed.push(format!("DONE sent={} failed=0", recorded.len()));
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wire").join(format!("{name}.log"));
    assert_eq!(printed, std::fs::read_to_string(log).unwrap().lines().collect::<Vec<_>>());
}

#[tokio::test]
async fn ten_messages_over_ten_partitions() {
    replay("01-send-10", "test", 10).await;
}

#[tokio::test]
async fn messages_with_attributes() {
    let recorded = exchanges("02-send-attribute.jsonl");
    let name = recorded[0].put.topic.to_string();
    replay("02-send-attribute", &name, 4).await;
}
