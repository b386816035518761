//! `docs/troubleshooting.md` has each text that tells somebody of trouble, and no other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use crate::pages::{Page, project};
use crate::source::{Literal, files, literals};

const PAGE: &str = "docs/troubleshooting.md";

/// What the tables of the page begin with.
pub(crate) const HEAD: &str = "text";

/// Calls whose texts somebody sees. (`info!` tells of no trouble, `debug!` is off.)
const CALLS: [&str; 9] =
    ["warn!", "error!", "bail!", "anyhow!", "ensure!", ".context", ".with_context", "Failure::new", "Refusal::Stats"];

/// Files in which whole sentences are texts that somebody sees, wherever they stand.
const SPEAKING: [&str; 24] = [
    "src/admin/doors.rs",
    "src/broker/control.rs",
    "src/broker/processor/put.rs",
    "src/broker/refusal.rs",
    "src/cli/consume/group.rs",
    "src/cli/consume/plain.rs",
    "src/cli/log_file.rs",
    "src/config/metaq.rs",
    "src/config/reader.rs",
    "src/config/server.rs",
    "src/config/system.rs",
    "src/config/topics.rs",
    "src/config/zookeeper.rs",
    "src/store/commit_log/syncs.rs",
    "src/store/commit_log/writer.rs",
    "src/store/journal.rs",
    "src/store/replay/partition.rs",
    "src/store/replay/mod.rs",
    "src/zk/connect.rs",
    "src/zk/format.rs",
    "src/zk/local/connection.rs",
    "src/zk/local/journal/format.rs",
    "src/zk/registration/state.rs",
    "src/zk/registration/task.rs",
];

/// Texts that no user sees, and why.
const UNSEEN: [(&str, &str); 10] = [
    ("a connection's thread panicked", "the panic itself has been told"),
    ("a thread panicked", "the panic itself has been told"),
    ("an absurd latency", "a latency of more than 2^64 microseconds"),
    ("the offsets end", "an offset beyond 2^64"),
    ("not shown", "what is behind the end of `metaq consume --group`, which counts as no failure"),
    ("nobody consumes", "end to end always has a consumer"),
    ("closed", "the end of a connection, logged at level debug"),
    ("set messages aside in", "part of `could not … …: …`"),
    ("id …, … bytes, checksum …", "part of `at offset … … holds another message (…) …`"),
    ("… (… bytes)", "part of `… holds the transaction journal … …`"),
];

/// A text with `…` for what differs from case to case, blanks collapsed.
fn pattern(text: &str) -> String {
    let mut pattern = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' if chars.next_if_eq(&c).is_some() => pattern.push(c),
            '{' => {
                // Placeholders do not nest.
                chars.by_ref().find(|&c| c == '}');
                pattern.push('…');
            }
            _ => pattern.push(c),
        }
    }
    pattern.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn says_something(pattern: &str) -> bool {
    pattern.chars().any(char::is_alphabetic)
}

fn is_seen(literal: &Literal, speaks: bool) -> bool {
    let is_call = |name: &String| CALLS.iter().any(|call| name.ends_with(call));
    let is_error = literal.within.windows(2).any(|pair| pair[0] == "#" && pair[1] == "error");
    let is_other_log = literal.within.iter().any(|name| matches!(name.as_str(), "info!" | "debug!"));
    let is_attribute = literal.within.iter().any(|name| name == "#");
    is_error
        || literal.within.iter().any(is_call)
        || (speaks && !is_other_log && !is_attribute && literal.text.trim().contains(' '))
}

/// Each text with the file that it is from.
fn texts() -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for path in files(&project("src")) {
        let file = path.strip_prefix(project("")).unwrap().display().to_string();
        let speaks = SPEAKING.contains(&file.as_str());
        let seen = literals(&path).into_iter().filter(|literal| is_seen(literal, speaks));
        let patterns = seen.map(|literal| pattern(&literal.text)).filter(|pattern| says_something(pattern));
        texts.extend(patterns.map(|pattern| (pattern, file.clone())));
    }
    for file in SPEAKING {
        assert!(texts.values().any(|from| from == file), "{file} says nothing, or is gone");
    }
    texts.extend(script_texts().into_iter().map(|text| (text, SCRIPT.to_owned())));
    texts
}

const SCRIPT: &str = "bin/metaServer.sh";

/// What the script says before it exits with 1.
fn script_texts() -> BTreeSet<String> {
    let script = fs::read_to_string(project(SCRIPT)).unwrap();
    let mut texts = BTreeSet::new();
    for line in script.lines().filter(|line| !line.trim_start().starts_with('#')) {
        for command in ["fail \"", "refuse \"", "wrong_use \""] {
            if let Some((_, said)) = line.split_once(command) {
                // One that is not closed in this line has more arguments.
                texts.extend(said.split('"').step_by(2).map(shell_pattern).filter(|text| text.contains(' ')));
            }
        }
    }
    assert!(texts.contains("Broker is not running."), "{texts:?}");
    texts
}

/// As [`pattern`], with the shell's placeholders.
fn shell_pattern(text: &str) -> String {
    let mut pattern = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        pattern.push_str(&rest[..at]);
        pattern.push('…');
        rest = &rest[at + 1..];
        rest = match rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}').map_or("", |(_, behind)| behind),
            None => rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
        };
    }
    pattern.push_str(rest);
    pattern.replace("\\`", "`").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_text_of_trouble_is_explained() {
    let page = Page::read(&project(PAGE));
    let explained: HashSet<_> = page.first_column(HEAD).into_iter().collect();
    let unseen: HashSet<_> = UNSEEN.iter().map(|(text, _)| *text).collect();
    let texts = texts();
    let missing: Vec<_> = texts
        .iter()
        .filter(|(text, _)| !explained.contains(*text) && !unseen.contains(text.as_str()))
        .map(|(text, file)| format!("{file}: {text}"))
        .collect();
    assert!(missing.is_empty(), "{} texts that {PAGE} does not explain:\n{}", missing.len(), missing.join("\n"));
    for text in unseen {
        assert!(texts.contains_key(text), "nobody says this any more: {text}");
        assert!(!explained.contains(text), "this is explained, so somebody sees it: {text}");
    }
}

#[test]
fn each_text_that_is_explained_is_said() {
    let mut said = script_texts();
    for path in files(&project("src")) {
        said.extend(literals(&path).into_iter().map(|literal| pattern(&literal.text)));
    }
    let explained = Page::read(&project(PAGE)).first_column(HEAD);
    assert!(explained.len() > 200, "{PAGE} has tables of texts: {explained:?}");
    let gone: Vec<_> = explained.into_iter().filter(|text| !said.contains(text)).collect();
    assert!(gone.is_empty(), "texts in {PAGE} that nothing says: {gone:#?}");
}

#[test]
fn texts_are_found_in_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let file = Path::new(dir.path()).join("one.rs");
    fs::write(
        &file,
        "// warn!(\"a comment\")\n#[error(\"an \\\"error\\\" {0:?},\\\n    {source}\", .0)]\nstruct A<'a>(char);\n\
         fn f() { warn!(x = '\"', %y, \"{} careful\", 1); info!(\"well\"); Err(e).with_context(|| format!(\"while {x}\")) }\n\
         const R: &str = r#\"raw \"text\"\"#; #[doc = \"{{a}} b\"] fn g() { Self { a: \"plain text\" } }\n\
         #[cfg(test)]\nmod tests { warn!(\"a test\") }\n",
    )
    .unwrap();
    let found = literals(&file);
    let seen = |speaks| -> Vec<_> { found.iter().filter(|l| is_seen(l, speaks)).map(|l| pattern(&l.text)).collect() };
    assert_eq!(seen(false), ["an \"error\" …,…", "… careful", "while …"]);
    assert_eq!(seen(true), ["an \"error\" …,…", "… careful", "while …", "raw \"text\"", "plain text"]);
    assert_eq!(shell_pattern("no ${a:-x} at $b, \\`c\\`"), "no … at …, `c`");
}
