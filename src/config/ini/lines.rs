//! Physical lines to logical ones: blanks, comments, continuations.

/// A line as the grammar sees it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogicalLine {
    /// Number of its first physical line, from 1.
    pub(super) number: usize,
    /// Never empty, without blanks around it.
    pub(super) text: String,
    /// False if the file ends where a continuation was announced. The reference drops such a line without a word.
    pub(super) complete: bool,
}

/// Takes away what the reference takes for blank: everything up to and including the space character.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// All lines but empty ones and comments, continued ones joined.
pub(super) fn logical_lines(text: &str) -> impl Iterator<Item = LogicalLine> {
    let mut physical = physical_lines(text).map(trim).zip(1..);
    std::iter::from_fn(move || {
        let mut open: Option<LogicalLine> = None;
        for (line, number) in physical.by_ref() {
            // an open continuation without any text so far does not shield a comment, as in the reference
            let shielded = open.as_ref().is_some_and(|open| !open.text.is_empty());
            if line.is_empty() || (line.starts_with([';', '#']) && !shielded) {
                continue;
            }
            let logical = open.get_or_insert(LogicalLine { number, text: String::new(), complete: true });
            match continued(line) {
                Some(line) => logical.text.push_str(line),
                None => {
                    logical.text.push_str(line);
                    return open;
                }
            }
        }
        open.map(|mut open| {
            open.text.push('\\');
            LogicalLine { complete: false, ..open }
        })
    })
}

/// The line without its last backslash if an odd number of them ends it.
fn continued(line: &str) -> Option<&str> {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    if backslashes % 2 == 1 { line.strip_suffix('\\') } else { None }
}

/// Lines that end in LF, CR LF or CR.
fn physical_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r']) else {
            rest = None;
            return Some(text);
        };
        let (line, tail) = text.split_at(end);
        rest = tail.strip_prefix("\r\n").or_else(|| tail.get(1..));
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(usize, String)> {
        logical_lines(text).map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn every_line_end_counts_once() {
        assert_eq!(lines("a\r\nb\rc\n\nd"), [(1, "a".into()), (2, "b".into()), (3, "c".into()), (5, "d".into())]);
    }

    #[test]
    fn a_continuation_keeps_the_number_of_its_first_line() {
        assert_eq!(lines("x\n a=1 \\\n   2\\\n 3\nb=2"), [(1, "x".into()), (2, "a=1 23".into()), (5, "b=2".into())]);
        assert_eq!(lines("a=1\\\\\nb"), [(1, "a=1\\\\".into()), (2, "b".into())]);
    }

    #[test]
    fn a_comment_sign_is_text_within_a_continuation() {
        assert_eq!(lines("a=1\\\n;2"), [(1, "a=1;2".into())]);
        assert_eq!(lines("\\\n;2\na=1"), [(1, "a=1".into())]);
    }

    #[test]
    fn a_continuation_that_the_file_cuts_off_is_incomplete() {
        let all: Vec<_> = logical_lines("a=1\nb=2\\\n").collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], LogicalLine { number: 2, text: "b=2\\".into(), complete: false });
    }
}
