//! The format in which the reading of the reference was recorded:
//!
//! ```text
//! ## file.ini
//!   ["section"] x1
//!     "key" = "effective value"  all=[first, effective value]
//! ## other.ini
//!   ERR InvalidFileFormatException: text
//! ```

/// Sections by name, each with its options and their effective values.
pub(crate) type Sections = Vec<(String, Vec<(String, String)>)>;

/// What the reference made of a file.
pub(crate) enum Expected {
    Sections(Sections),
    Error(String),
}

/// Every recorded file with what was made of it.
pub(crate) fn expectations(text: &str) -> Vec<(String, Expected)> {
    let mut all: Vec<(String, Expected)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            all.push((name.to_owned(), Expected::Sections(Vec::new())));
            continue;
        }
        let (_, expected) = all.last_mut().expect("a file comes first");
        if let Some((_, text)) = line.split_once("  ERR ").and_then(|(_, error)| error.split_once(": ")) {
            *expected = Expected::Error(text.to_owned());
            continue;
        }
        let Expected::Sections(sections) = expected else {
            panic!("no section after an error: {line}");
        };
        if let Some(rest) = line.strip_prefix("  [") {
            let (name, rest) = quoted(rest);
            assert_eq!(rest, "] x1");
            sections.push((name, Vec::new()));
        } else {
            let (key, rest) = quoted(line.trim_start());
            let (value, _) = quoted(rest.strip_prefix(" = ").expect("an option"));
            sections.last_mut().expect("a section comes first").1.push((key, value));
        }
    }
    all
}

/// Takes a text in quotes, in which `\` shields the next character, off the front.
fn quoted(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut chars = text.strip_prefix('"').expect("a quote").chars();
    loop {
        match chars.next().expect("a closing quote") {
            '"' => return (out, chars.as_str()),
            '\\' => out.push(chars.next().expect("a shielded character")),
            c => out.push(c),
        }
    }
}
