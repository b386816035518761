//! Recorded TCP conversations (`tests/fixtures/wire`).

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;

/// One turn of a conversation.
#[derive(Deserialize, Debug)]
pub struct Turn {
    /// Number of the TCP connection.
    pub stream: u32,
    /// `client` or `broker`.
    pub from: String,
    hex: String,
}

impl Turn {
    /// The bytes that were sent.
    pub fn bytes(&self) -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&self.hex[at..at + 2], 16).expect("two hex digits");
        (0..self.hex.len()).step_by(2).map(byte).collect()
    }
}

/// All turns of a conversation; a gzipped file is unpacked.
pub fn conversation(name: &str) -> Vec<Turn> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wire").join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    if name.ends_with(".gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text)
    } else {
        std::io::BufReader::new(file).read_to_string(&mut text)
    }
    .unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
