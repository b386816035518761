//! A broker that knows nothing but a script.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::BytesMut;
use metaq::protocol::{Command, Decoder, Limits, Request, Response, Status};

use crate::script::Script;

/// Serves until the test ends.
pub(crate) struct ScriptedBroker {
    address: SocketAddr,
    stage: Arc<Mutex<Stage>>,
}

struct Stage {
    script: Script,
    answered: usize,
    unexpected: Vec<Request>,
}

impl ScriptedBroker {
    pub(crate) fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stage = Arc::new(Mutex::new(Stage { script, answered: 0, unexpected: Vec::new() }));
        let served = Arc::clone(&stage);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let stage = Arc::clone(&served);
                thread::spawn(move || serve(stream, &stage));
            }
        });
        Self { address, stage }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests were answered.
    pub(crate) fn answered(&self) -> usize {
        self.stage.lock().unwrap().answered
    }

    /// Requests that are not in the script.
    pub(crate) fn unexpected(&self) -> Vec<Request> {
        self.stage.lock().unwrap().unexpected.clone()
    }
}

/// Answers one connection until its client leaves.
fn serve(mut stream: TcpStream, stage: &Mutex<Stage>) {
    let mut decoder = Decoder::new(Limits::default());
    let mut buffer = BytesMut::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        buffer.extend_from_slice(&chunk[..length]);
        let mut out = BytesMut::new();
        while let Some(command) = decoder.decode(&mut buffer).unwrap() {
            let Command::Request(request) = command else { panic!("a client answered {command:?}") };
            if matches!(request, Request::Quit) {
                return;
            }
            let mut stage = stage.lock().unwrap();
            let response = stage.script.reply(&request).unwrap_or_else(|| {
                // It goes on, and the test tells.
                let refusal = Response::result(Status::NOT_FOUND, "not in the recording", request.opaque());
                stage.unexpected.push(request);
                refusal
            });
            stage.answered += 1;
            response.encode(&mut out);
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}
