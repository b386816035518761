//! String literals of the source, and in which calls they stand.

use std::fs;
use std::path::{Path, PathBuf};

/// A literal with what encloses it.
pub(crate) struct Literal {
    pub(crate) text: String,
    /// Names before the open parentheses, brackets and braces, the outermost first: `warn!`, `.context`; `#` and `error` for
    /// an attribute.
    pub(crate) within: Vec<String>,
}

/// All source files of the program, without tests.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// The literals of one file, those of its tests excepted, which stand at its end.
pub(crate) fn literals(file: &Path) -> Vec<Literal> {
    let text = fs::read_to_string(file).unwrap();
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let chars: Vec<char> = text[..end].chars().collect();
    let mut found = Vec::new();
    let (mut within, mut name) = (Vec::new(), String::new());
    let mut at = 0;
    while at < chars.len() {
        match chars[at..] {
            ['/', '/', ..] => at += chars[at..].iter().take_while(|&&c| c != '\n').count(),
            ['"', ..] => {
                let length = chars[at + 1..].iter().scan(false, |escaped, &c| {
                    let ends = c == '"' && !*escaped;
                    *escaped = c == '\\' && !*escaped;
                    (!ends).then_some(())
                });
                let length = length.count();
                let text = unescaped(&chars[at + 1..at + 1 + length]);
                found.push(Literal { text, within: within.clone() });
                at += length + 2;
            }
            ['r', '#', '"', ..] => {
                let rest: String = chars[at + 3..].iter().collect();
                let text = rest.split("\"#").next().unwrap_or_default().to_owned();
                at += text.chars().count() + 5;
                found.push(Literal { text, within: within.clone() });
            }
            // A character, as opposed to a lifetime.
            ['\'', '\\', _, '\'', ..] => at += 4,
            ['\'', _, '\'', ..] => at += 3,
            ['(' | '[' | '{', ..] => {
                within.push(std::mem::take(&mut name));
                at += 1;
            }
            [')' | ']' | '}', ..] => {
                within.pop();
                name.clear();
                at += 1;
            }
            [c, ..] => {
                if c.is_alphanumeric() || matches!(c, '_' | '!' | ':' | '.' | '#') {
                    name.push(c);
                } else {
                    name.clear();
                }
                at += 1;
            }
            [] => break,
        }
    }
    found
}

/// The text of a literal; a `\` at the end of a line continues it without the blanks that follow.
fn unescaped(chars: &[char]) -> String {
    let mut text = String::new();
    let mut chars = chars.iter().copied().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\n')) => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            ('\\', Some('n')) => {
                chars.next();
                text.push('\n');
            }
            ('\\', Some(_)) => text.extend(chars.next()),
            _ => text.push(c),
        }
    }
    text
}
