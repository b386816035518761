//! Backslash sequences in section names, keys and values.

/// Decodes `\\ \t \n \f \b \r \uXXXX`; any other character stands for itself.
///
/// None for a sequence that is cut off or names no character; the reference fails on those, too. Two `\u` that form a
/// surrogate pair are one character.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next()? {
            't' => '\t',
            'n' => '\n',
            'f' => '\u{c}',
            'b' => '\u{8}',
            'r' => '\r',
            'u' => unicode(&mut chars)?,
            other => other,
        });
    }
    Some(out)
}

fn unicode(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let first = hex4(chars)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    let pair = [u16::try_from(first).ok()?, {
        let rest = chars.as_str().strip_prefix("\\u")?;
        *chars = rest.chars();
        u16::try_from(hex4(chars)?).ok()?
    }];
    char::decode_utf16(pair).next()?.ok()
}

fn hex4(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |value, _| Some(value * 16 + chars.next()?.to_digit(16)?))
}

/// The text that [`unescape`] turns back; one line, without blanks at its end.
pub(in super::super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\u{8}' => out.push_str("\\b"),
            '\r' => out.push_str("\\r"),
            // blanks that the reference and the crate do not agree on, too
            c if c < ' ' || (c != ' ' && c.is_whitespace()) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    if out.ends_with(' ') {
        out.pop();
        out.push_str("\\u0020");
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_sequences_are_decoded_and_others_stand_for_themselves() {
        assert_eq!(unescape(r"C:\\meta\t\x\=\u6d4b\ud83d\ude00").unwrap(), "C:\\meta\tx=测😀");
    }

    #[test]
    fn broken_sequences_are_refused() {
        for text in [r"a\", r"\u12", r"\u12g4", r"\u+123", r"\ud83d", r"\ud83dx", r"\ud83d\u0041", r"\ude00"] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn escaping_is_undone(text in any::<String>()) {
            prop_assert_eq!(unescape(&escape(&text)), Some(text));
        }
    }
}
