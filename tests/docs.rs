//! The pages say what is so: texts of errors, commands, keys, paths and links in them are those that exist.

#![cfg(all(unix, feature = "broker"))]
// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "docs/commands.rs"]
mod commands;
#[path = "docs/pages.rs"]
mod pages;
#[path = "docs/source.rs"]
mod source;
#[path = "docs/texts.rs"]
mod texts;

use std::collections::{BTreeSet, HashSet};

use metaq::config::{METAQ_KEYS, SYSTEM_KEYS, TOPIC_KEYS, ZOOKEEPER_KEYS};
use pages::{Page, pages, project};

const ROUTES: &str = "src/admin/routes.rs";

/// What looks like a key in a page and is none of `server.ini`.
const NO_KEYS: [&str; 1] = [
    // A token of the command `get`.
    "wait",
];

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        for link in page.links().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { page.path.clone() } else { page.path.parent().unwrap().join(file) };
            let is_there = target.exists() && anchor.is_none_or(|anchor| Page::read(&target).has_anchor(anchor));
            if !is_there {
                broken.push(format!("{}: {link}", page.path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn keys_exist() {
    let sections = [SYSTEM_KEYS, ZOOKEEPER_KEYS, TOPIC_KEYS, METAQ_KEYS];
    let known: HashSet<_> = sections.into_iter().flatten().copied().collect();
    let mut unknown = BTreeSet::new();
    let mut seen = 0;
    for page in pages() {
        let named = page.spans.iter().chain(page.blocks.iter().filter(|b| b.language == "ini").flat_map(|b| &b.lines));
        for key in named.filter_map(|text| key_of(text)) {
            seen += 1;
            if !known.contains(key) && !NO_KEYS.contains(&key) {
                unknown.insert(format!("{}: {key}", page.path.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "keys that the broker does not know: {unknown:#?}");
    assert!(seen > 10, "the pages name keys");
}

/// The key of `key=value`. What begins with a capital is a variable of the environment.
fn key_of(text: &str) -> Option<&str> {
    let (key, _) = text.split_once('=')?;
    let is_key =
        key.starts_with(|c: char| c.is_ascii_lowercase()) && key.chars().all(|c| c.is_alphanumeric() || c == '.');
    (is_key && !key.starts_with("group.")).then_some(key)
}

#[test]
fn paths_of_the_http_interface_exist() {
    let routes = std::fs::read_to_string(project(ROUTES)).unwrap();
    let routes: Vec<_> = routes.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(routes.contains(&"/api/v1/status"));
    let mut named = BTreeSet::new();
    let mut unknown = Vec::new();
    for page in pages() {
        for path in page.words().filter_map(|word| word.find("/api/").map(|at| &word[at..])) {
            let path = path.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '}' && c != '>');
            named.insert(path.to_owned());
            if !routes.iter().any(|route| is_of_route(path, route)) {
                unknown.push(format!("{}: {path}", page.path.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "paths that {ROUTES} does not know: {unknown:#?}");
    let missing: Vec<_> = routes
        .iter()
        .filter(|route| route.starts_with("/api/") && !named.iter().any(|p| is_of_route(p, route)))
        .collect();
    assert!(missing.is_empty(), "paths that no page names: {missing:#?}");
}

fn is_of_route(path: &str, route: &str) -> bool {
    let (path, route): (Vec<_>, Vec<_>) = (path.split('/').collect(), route.split('/').collect());
    path.len() == route.len() && path.iter().zip(&route).all(|(given, known)| given == known || known.starts_with('{'))
}
