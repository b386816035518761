//! What a recorded broker was asked and what it answered.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::{Buf as _, BytesMut};
use metaq::protocol::{Command, Decoder, Get, Limits, Opaque, Put, Request, Response, Status};

use crate::common::wire::{Turn, conversation};

/// Flag of a message with an attribute (01 §6).
const HAS_ATTRIBUTE: i32 = 1;

/// Requests match by verb, topic, partition and offset.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Put(String, i32),
    Get(String, i32, i64),
}

/// The answers that are left.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Recorded puts in the order sent.
    puts: Vec<Put>,
    answers: HashMap<Key, VecDeque<(Request, Response)>>,
}

/// What comes of a request.
pub(crate) enum Reply {
    Scripted(Response),
    /// The reference did not send this; it is answered so that the client goes on.
    Unexpected(Response),
}

impl Script {
    pub(crate) fn of(recording: &str) -> Self {
        let mut script = Self::default();
        let turns = conversation(recording);
        let mut recorded: BTreeMap<(u32, Opaque), Response> = BTreeMap::new();
        for (stream, command) in commands(&turns, "broker") {
            let Command::Response(response) = command else { panic!("a broker asked {command:?}") };
            recorded.insert((stream, response.opaque()), response);
        }
        for (stream, command) in commands(&turns, "client") {
            let Command::Request(request) = command else { panic!("a client answered {command:?}") };
            let Some(response) = recorded.remove(&(stream, request.opaque())) else { continue };
            if let Request::Put(put) = &request {
                script.puts.push(put.clone());
            }
            let key = key(&request).unwrap_or_else(|| panic!("neither put nor get: {request:?}"));
            script.answers.entry(key).or_default().push_back((request, response));
        }
        assert!(recorded.is_empty(), "answers to nothing: {recorded:?}");
        script
    }

    /// The payloads of the recorded puts.
    pub(crate) fn payloads(&self) -> Vec<String> {
        let payload = |put: &Put| {
            let mut body = put.body.clone();
            if put.flag == HAS_ATTRIBUTE {
                let length = usize::try_from(body.get_i32()).unwrap();
                body.advance(length);
            }
            String::from_utf8(body.to_vec()).unwrap()
        };
        self.puts.iter().map(payload).collect()
    }

    /// The recorded answer, with the opaque of the request. A get may be sent again and again.
    pub(crate) fn reply(&mut self, request: &Request) -> Reply {
        let opaque = request.opaque();
        if matches!(request, Request::Version(_)) {
            return Reply::Scripted(Response::result(Status::SUCCESS, "1.4.6.2", opaque));
        }
        let answers = key(request).and_then(|key| self.answers.get_mut(&key));
        let again = matches!(request, Request::Get(_));
        let answer = answers.and_then(|answers| if again { answers.front().cloned() } else { answers.pop_front() });
        match answer {
            Some((recorded, response)) if is_same(request, &recorded) => Reply::Scripted(with_opaque(response, opaque)),
            _ => Reply::Unexpected(Response::result(Status::NOT_FOUND, "not in the recording", opaque)),
        }
    }
}

/// Puts are the same to the byte, gets but for how much they ask for; this broker cannot hold answers back, so nobody
/// asks it to.
fn is_same(request: &Request, recorded: &Request) -> bool {
    match (request, recorded) {
        (Request::Put(put), Request::Put(recorded)) => Put { opaque: recorded.opaque, ..put.clone() } == *recorded,
        (Request::Get(get), Request::Get(recorded)) => {
            let Get { opaque, max_size, .. } = *recorded;
            Get { opaque, max_size, ..get.clone() } == *recorded
        }
        _ => false,
    }
}

fn with_opaque(mut response: Response, opaque: Opaque) -> Response {
    match &mut response {
        Response::Result(result) => result.opaque = opaque,
        Response::Value(value) => value.opaque = opaque,
    }
    response
}

fn key(request: &Request) -> Option<Key> {
    match request {
        Request::Put(put) => Some(Key::Put(put.topic.to_string(), put.partition.get())),
        Request::Get(get) => Some(Key::Get(get.topic.to_string(), get.partition.get(), get.offset.get())),
        _ => None,
    }
}

/// Everything that one side sent, with the number of its connection.
fn commands(turns: &[Turn], side: &str) -> Vec<(u32, Command)> {
    let mut buffers = BTreeMap::<u32, BytesMut>::new();
    for turn in turns.iter().filter(|turn| turn.from == side) {
        buffers.entry(turn.stream).or_default().extend_from_slice(&turn.bytes());
    }
    let mut commands = Vec::new();
    for (stream, mut buffer) in buffers {
        let mut decoder = Decoder::new(Limits::default());
        commands.extend(std::iter::from_fn(|| decoder.decode(&mut buffer).unwrap()).map(|command| (stream, command)));
    }
    commands
}
