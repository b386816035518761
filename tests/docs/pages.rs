//! What stands in the pages.

use std::fs;
use std::path::{Path, PathBuf};

/// A path of this project.
pub(crate) fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A fenced block.
pub(crate) struct Block {
    /// What stands behind the fence.
    pub(crate) language: String,
    /// Its lines; one that ends in `\` or `&&` has the next one with it.
    pub(crate) lines: Vec<String>,
}

/// A page in Markdown.
pub(crate) struct Page {
    pub(crate) path: PathBuf,
    /// The lines outside of blocks.
    pub(crate) prose: Vec<String>,
    /// Code between backticks, blanks collapsed.
    pub(crate) spans: Vec<String>,
    pub(crate) blocks: Vec<Block>,
}

/// README and everything below docs, and what stands beside them.
pub(crate) fn pages() -> Vec<Page> {
    let docs = fs::read_dir(project("docs")).unwrap().map(|entry| entry.unwrap().path());
    let beside = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(project);
    let mut all: Vec<_> = docs.filter(|path| path.extension().is_some_and(|ext| ext == "md")).chain(beside).collect();
    all.sort();
    assert!(all.len() > 8, "{all:?}");
    all.iter().map(|path| Page::read(path)).collect()
}

impl Page {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let (mut prose, mut blocks) = (Vec::new(), Vec::<Block>::new());
        let (mut in_block, mut goes_on) = (false, false);
        for line in text.lines() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                in_block = !in_block;
                goes_on = false;
                if in_block {
                    blocks.push(Block { language: language.to_owned(), lines: Vec::new() });
                }
            } else if !in_block {
                prose.push(line.to_owned());
            } else if let Some(block) = blocks.last_mut() {
                match block.lines.last_mut() {
                    Some(last) if goes_on => *last = format!("{} {}", last.trim_end_matches('\\'), line.trim()),
                    _ => block.lines.push(line.to_owned()),
                }
                goes_on = line.ends_with('\\') || line.ends_with("&&");
            }
        }
        assert!(!in_block, "{} has an open block", path.display());
        let spans = prose.split(|line| line.is_empty()).flat_map(|paragraph| spans(&paragraph.join("\n"))).collect();
        Self { path: path.to_owned(), prose, spans, blocks }
    }

    /// The first column of tables whose head begins with this word.
    pub(crate) fn first_column(&self, head: &str) -> Vec<String> {
        let mut cells = Vec::new();
        let mut wanted = false;
        let mut before = "";
        for line in &self.prose {
            let Some(row) = line.strip_prefix('|') else {
                (wanted, before) = (false, "");
                continue;
            };
            if before.is_empty() {
                wanted = row.trim_start().starts_with(head);
            } else if wanted {
                // A bar within code separates nothing.
                cells.extend(spans(row.split(" | ").next().unwrap_or(row)));
            }
            before = line;
        }
        cells
    }

    /// Targets of links.
    pub(crate) fn links(&self) -> impl Iterator<Item = &str> {
        self.prose.iter().flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next())
    }

    /// Whether a heading leads to this anchor.
    pub(crate) fn has_anchor(&self, anchor: &str) -> bool {
        self.prose.iter().filter(|line| line.starts_with('#')).any(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>() == anchor
        })
    }

    /// Everything in it, a word at a time.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        let lines = self.prose.iter().chain(self.blocks.iter().flat_map(|block| &block.lines));
        lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')')))
    }
}

/// What stands between backticks: as many close as opened.
fn spans(text: &str) -> Vec<String> {
    let mut spans = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        rest = &rest[start..];
        let fence = &rest[..rest.len() - rest.trim_start_matches('`').len()];
        rest = &rest[fence.len()..];
        let Some(end) = closing(rest, fence.len()) else { continue };
        spans.push(rest[..end].split_whitespace().collect::<Vec<_>>().join(" "));
        rest = &rest[end + fence.len()..];
    }
    spans
}

/// Where a run of exactly so many backticks begins.
fn closing(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == length {
            return Some(start);
        }
        at = start + run;
    }
    None
}
