use proptest::prelude::*;

use super::*;

#[test]
fn integers_and_what_is_made_of_them_are_computed() {
    for (text, value) in [
        ("0", 0),
        (" 8123 ", 8123),
        ("1024*1024*1024", 1 << 30),
        ("512 * 1024", 524_288),
        ("0x10", 16),
        ("0XfF+1", 256),
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("10-3-2", 5),
        ("100/7/2", 7),
        ("-7/2", -3),
        ("-7%3", -1),
        ("2--1", 3),
        ("-(1+2)", -3),
        ("007", 7),
        ("9223372036854775807", i64::MAX),
    ] {
        assert_eq!(evaluate(text), Ok(value), "{text}");
    }
}

#[test]
fn what_is_no_integer_is_refused_with_its_reason() {
    for (text, error) in [
        ("", ExprError::UnexpectedEnd),
        ("1+", ExprError::UnexpectedEnd),
        ("(1", ExprError::UnexpectedEnd),
        ("0x", ExprError::UnexpectedEnd),
        ("abc", ExprError::Unexpected { found: 'a', column: 1 }),
        ("0xg", ExprError::Unexpected { found: 'g', column: 3 }),
        ("1 2", ExprError::Unexpected { found: '2', column: 3 }),
        ("1)", ExprError::Unexpected { found: ')', column: 2 }),
        ("10m", ExprError::Unexpected { found: 'm', column: 3 }),
        ("1>0", ExprError::Unexpected { found: '>', column: 2 }),
        ("1.5", ExprError::DecimalPoint),
        ("1/0", ExprError::DivisionByZero),
        ("1%(2-2)", ExprError::DivisionByZero),
        ("9223372036854775808", ExprError::Overflow),
        ("9223372036854775807+1", ExprError::Overflow),
        ("4294967296*4294967296", ExprError::Overflow),
        ("(-9223372036854775807-1)/-1", ExprError::Overflow),
        ("-(-9223372036854775807-1)", ExprError::Overflow),
    ] {
        assert_eq!(evaluate(text), Err(error), "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_instead_of_overflowing_the_stack() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(evaluate(&nested(MAX_NESTING - 1)), Ok(1));
    assert_eq!(evaluate(&nested(MAX_NESTING)), Err(ExprError::TooDeep));
    assert_eq!(evaluate(&"(".repeat(1_000_000)), Err(ExprError::TooDeep));
    assert_eq!(evaluate(&"-".repeat(1_000_000)), Err(ExprError::TooDeep));
    assert_eq!(evaluate(&format!("1{}", "+1".repeat(100_000))), Ok(100_001));
}

#[test]
fn only_true_and_false_in_lower_case_are_boolean() {
    assert_eq!(boolean("true"), Some(true));
    assert_eq!(boolean("false"), Some(false));
    for text in ["TRUE", "yes", "1", "on", ""] {
        assert_eq!(boolean(text), None, "{text}");
    }
}

#[derive(Debug, Clone)]
enum Tree {
    Number(i64, bool),
    Negative(Box<Tree>),
    Binary(char, Box<Tree>, Box<Tree>),
}

impl Tree {
    fn value(&self) -> Option<i64> {
        match self {
            Self::Number(value, _) => Some(*value),
            Self::Negative(inner) => inner.value()?.checked_neg(),
            Self::Binary(sign, left, right) => {
                let (left, right) = (left.value()?, right.value()?);
                match sign {
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    '/' => left.checked_div(right),
                    _ => left.checked_rem(right),
                }
            }
        }
    }

    /// With no more parentheses than precedence and order demand.
    fn text(&self) -> String {
        let level = |tree: &Tree| match tree {
            Self::Binary('+' | '-', ..) => 0,
            Self::Binary(..) => 1,
            _ => 2,
        };
        let within = |tree: &Tree, least| {
            if level(tree) < least { format!("( {})", tree.text()) } else { tree.text() }
        };
        match self {
            Self::Number(value, false) => value.to_string(),
            Self::Number(value, true) => format!("0x{value:x}"),
            Self::Negative(inner) => format!("-{}", within(inner, 2)),
            Self::Binary(sign, left, right) => {
                let own = level(self);
                format!("{}{sign} {}", within(left, own), within(right, own + 1))
            }
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let number = prop_oneof![0..20i64, 0..=i64::MAX];
    let leaf = (number, any::<bool>()).prop_map(|(value, hexadecimal)| Tree::Number(value, hexadecimal));
    leaf.prop_recursive(6, 48, 2, |inner| {
        let sign = prop::sample::select(vec!['+', '-', '*', '/', '%']);
        prop_oneof![
            1 => inner.clone().prop_map(|tree| Tree::Negative(Box::new(tree))),
            5 => (sign, inner.clone(), inner)
                .prop_map(|(sign, left, right)| Tree::Binary(sign, Box::new(left), Box::new(right))),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = evaluate(&text);
    }

    #[test]
    fn no_text_of_its_own_signs_makes_it_panic(text in "[0-9x()+*/% a.-]{0,60}") {
        let _ = evaluate(&text);
    }

    #[test]
    fn it_agrees_with_the_tree_it_was_written_from(tree in tree()) {
        prop_assert_eq!(evaluate(&tree.text()).ok(), tree.value(), "{}", tree.text());
    }
}
