use proptest::prelude::*;

use super::*;

fn file(text: &str) -> IniFile {
    IniFile::parse(text.as_bytes()).unwrap()
}

fn value(file: &IniFile, section: &str, key: &str) -> (String, usize) {
    let option = file.section(section).and_then(|section| section.get(key)).unwrap();
    (option.value.clone(), option.line)
}

#[test]
fn sections_are_merged_and_the_last_value_counts_with_its_line() {
    let file = file("[a]\nx=1\ny=2\n[b]\n[a]\nx=9\n");
    assert_eq!(file.sections().iter().map(Section::name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(value(&file, "a", "x"), ("9".into(), 6));
    assert_eq!(value(&file, "a", "y"), ("2".into(), 3));
    assert_eq!(file.section("a").unwrap().line(), 1);
}

#[test]
fn an_indented_comment_is_a_comment() {
    let file = file("[a]\n  ; no\n\t# no\n  x = 1\n");
    assert_eq!(file.section("a").unwrap().options().len(), 1);
    assert_eq!(value(&file, "a", "x").0, "1");
}

#[test]
fn all_unreadable_lines_are_reported() {
    let errors = IniFile::parse(b"early=1\n[a]\nflag\nx=1\n=2\n[b\nhidden=1\n[c]\ny=\\u12\nz=1\\").unwrap_err();
    let lines: Vec<_> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [1, 3, 5, 6, 9, 10]);
    assert_eq!(errors[1].to_string(), "parse error (at line: 3): flag");
}

#[test]
fn what_is_readable_beside_an_error_is_kept() {
    let (file, errors) = IniFile::parse_readable(b"[a]\nflag\nx=1\n[b\ny=1\n");
    assert_eq!(errors.len(), 2);
    assert_eq!(file.sections().len(), 1);
    assert_eq!(value(&file, "a", "x"), ("1".into(), 3));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let file = IniFile::parse(b"\xef\xbb\xbf[a]\nx=1").unwrap();
    assert_eq!(value(&file, "a", "x").0, "1");
}

#[test]
fn escapes_are_decoded_in_names_and_values() {
    let file = file("[topic=\\u6d4b]\nk\\=x = C:\\\\meta\n");
    assert_eq!(value(&file, "topic=测", "k=x").0, "C:\\meta");
}

#[test]
fn a_section_header_takes_nothing_after_its_bracket() {
    for text in ["[a] ; x", "[]", "[ ]", "[a", "[a]]x"] {
        assert!(IniFile::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_very_long_line_is_quoted_shortened() {
    let errors = IniFile::parse("x".repeat(10_000).as_bytes()).unwrap_err();
    assert_eq!(errors[0].text.chars().count(), MAX_QUOTED_CHARS + 1);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (file, errors) = IniFile::parse_readable(&bytes);
        prop_assert_eq!(IniFile::parse(&bytes).is_ok(), errors.is_empty());
        for section in file.sections() {
            prop_assert!(!section.name().is_empty());
            prop_assert!(section.options().iter().all(|option| !option.key.is_empty()));
        }
    }

    #[test]
    fn no_text_of_the_grammars_signs_makes_the_parser_panic(text in "[\\[\\]=:;#\\\\ \\t\\r\\nabu0'\"\u{3000}]{0,200}") {
        let (file, _) = IniFile::parse_readable(text.as_bytes());
        for section in file.sections() {
            for option in section.options() {
                prop_assert_eq!(section.get(&option.key), Some(option));
            }
        }
    }
}
