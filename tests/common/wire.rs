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
        let digit = |b: u8| (b as char).to_digit(16).expect("a hex digit") as u8;
        self.hex.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
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
