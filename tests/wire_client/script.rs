//! What a recorded broker was asked for and what it answered.

use std::collections::{BTreeMap, HashMap};

use bytes::BytesMut;
use metaq::protocol::{Command, Decoder, Get, Limits, Opaque, Request, Response, Status};

use crate::common::wire::{Turn, conversation};

/// What a broker on the JVM answers to `version`: it cannot hold answers back.
const VERSION: &str = "1.4.6.2";

/// The answer to each get, by topic, partition and offset: the same one however often it is asked.
#[derive(Debug, Default)]
pub(crate) struct Script(HashMap<(String, i32, i64), (Get, Response)>);

impl Script {
    pub(crate) fn of(recording: &str) -> Self {
        let turns = conversation(recording);
        let mut answers: BTreeMap<Opaque, Response> = BTreeMap::new();
        for command in commands(&turns, "broker") {
            let Command::Response(response) = command else { panic!("a broker asked {command:?}") };
            answers.insert(response.opaque(), response);
        }
        let mut script = Self::default();
        for command in commands(&turns, "client") {
            let Command::Request(Request::Get(get)) = command else { panic!("no get: {command:?}") };
            // The recording may end before an answer.
            if let Some(response) = answers.remove(&get.opaque) {
                script.0.insert(key(&get), (get, response));
            }
        }
        assert!(answers.is_empty(), "answers to nothing: {answers:?}");
        script
    }

    /// The recorded answer with the opaque of the request; `None` to what the reference did not send. How much is asked
    /// for is the client's choice.
    pub(crate) fn reply(&self, request: &Request) -> Option<Response> {
        match request {
            Request::Version(opaque) => Some(Response::result(Status::SUCCESS, VERSION, *opaque)),
            Request::Get(get) => {
                let (recorded, response) = self.0.get(&key(get))?;
                let Get { opaque, max_size, .. } = *recorded;
                let is_same = Get { opaque, max_size, ..get.clone() } == *recorded;
                is_same.then(|| with_opaque(response.clone(), get.opaque))
            }
            _ => None,
        }
    }
}

fn key(get: &Get) -> (String, i32, i64) {
    (get.topic.to_string(), get.partition.get(), get.offset.get())
}

fn with_opaque(mut response: Response, opaque: Opaque) -> Response {
    match &mut response {
        Response::Result(result) => result.opaque = opaque,
        Response::Value(value) => value.opaque = opaque,
    }
    response
}

/// Everything that one side sent on the recorded connection.
fn commands(turns: &[Turn], side: &str) -> Vec<Command> {
    let mut buffer = BytesMut::new();
    for turn in turns.iter().filter(|turn| turn.from == side) {
        assert_eq!(turn.stream, 0, "one connection");
        buffer.extend_from_slice(&turn.bytes());
    }
    let mut decoder = Decoder::new(Limits::default());
    std::iter::from_fn(|| decoder.decode(&mut buffer).unwrap()).collect()
}
