//! Paths of nodes, by ZooKeeper's rules.

use super::code::Code;
use super::limits::MAX_PATH_BYTES;

/// Checks a complete path: absolute, no empty element, no slash at its end, no `.` or `..`, no character that ZooKeeper
/// refuses; and not too long.
pub(super) fn check(path: &str) -> Result<(), Code> {
    if path.len() > MAX_PATH_BYTES {
        return Err(Code::BadArguments);
    }
    let elements = match path.strip_prefix('/') {
        Some("") => return Ok(()),
        Some(elements) => elements,
        None => return Err(Code::BadArguments),
    };
    let is_element = |element: &str| !matches!(element, "" | "." | "..") && !element.contains(is_refused);
    if elements.split('/').all(is_element) { Ok(()) } else { Err(Code::BadArguments) }
}

/// NUL, control characters, private use and what stands outside of texts.
fn is_refused(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{f000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
}

/// Directory and name of a node other than the root.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    match path.rsplit_once('/')? {
        (_, "") => None,
        ("", name) => Some(("/", name)),
        (parent, name) => Some((parent, name)),
    }
}

/// The directory that a new node goes to. Its name may still be empty, if a sequence number is to follow.
pub(super) fn parent_of_new(path: &str) -> Result<&str, Code> {
    match path.rsplit_once('/') {
        Some(("", _)) => Ok("/"),
        Some((parent, _)) => check(parent).map(|()| parent),
        None => Err(Code::BadArguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zookeepers_rules_hold() {
        for path in ["/", "/a", "/a/b", "/a b/ä.b/...", "/zookeeper"] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
        for path in ["", "a", "a/b", "//", "/a/", "/a//b", "/a/./b", "/..", "/a\0", "/a\u{1}", "/\u{7f}", "/\u{f8ff}"] {
            assert_eq!(check(path), Err(Code::BadArguments), "{path:?}");
        }
        let longest = format!("/{}", "a".repeat(MAX_PATH_BYTES - 1));
        assert_eq!((check(&longest), check(&format!("{longest}a"))), (Ok(()), Err(Code::BadArguments)));
    }

    #[test]
    fn the_root_has_no_parent_and_its_children_have_it() {
        assert_eq!(split("/"), None);
        assert_eq!(split("/a"), Some(("/", "a")));
        assert_eq!(split("/a/b"), Some(("/a", "b")));
        assert_eq!(parent_of_new("/a/"), Ok("/a"));
        assert_eq!(parent_of_new("/"), Ok("/"));
        assert_eq!(parent_of_new("/a//b"), Err(Code::BadArguments));
        assert_eq!(parent_of_new("a"), Err(Code::BadArguments));
    }
}
