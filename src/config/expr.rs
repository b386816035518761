//! Integer expressions, the way the reference reads every number (03 §1).

use std::iter::Peekable;
use std::str::CharIndices;

/// How deep parentheses and signs may be nested; bounds the stack.
pub(super) const MAX_NESTING: usize = 64;

/// Why a text is not an integer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// Ends where a number or `(` must follow, or before a `)`.
    #[error("ends too early, a number or ')' is missing")]
    UnexpectedEnd,
    /// A character that cannot stand there.
    #[error("has an unexpected {found:?} at column {column}; write an integer, or integers with + - * / % and ( )")]
    Unexpected {
        /// The character.
        found: char,
        /// Its position in the text, from 1, in characters.
        column: usize,
    },
    /// A number with a decimal point.
    #[error("has a decimal point, only integers are allowed")]
    DecimalPoint,
    /// Beyond 64 bits, a number or an intermediate result.
    #[error("is beyond 64 bits")]
    Overflow,
    /// `/ 0` or `% 0`.
    #[error("divides by zero")]
    DivisionByZero,
    /// Deeper than 64 parentheses and signs.
    #[error("nests more than {MAX_NESTING} parentheses")]
    TooDeep,
}

/// Computes integers, decimal or `0x…`, with `+ - * / %`, sign and parentheses, in 64 bits without wrapping.
///
/// Division truncates and a remainder has the sign of the dividend, as in Java.
pub fn evaluate(text: &str) -> Result<i64, ExprError> {
    let mut parser = Parser { text, chars: text.char_indices().peekable(), depth: 0 };
    let value = parser.sum()?;
    match parser.next_sign() {
        None => Ok(value),
        Some(found) => Err(parser.unexpected(found)),
    }
}

/// Only `true` and `false`, in lower case.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

struct Parser<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    depth: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<i64, ExprError> {
        let mut value = self.product()?;
        while let Some(sign @ ('+' | '-')) = self.next_sign() {
            self.chars.next();
            let right = self.product()?;
            let result = if sign == '+' { value.checked_add(right) } else { value.checked_sub(right) };
            value = result.ok_or(ExprError::Overflow)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<i64, ExprError> {
        let mut value = self.signed()?;
        while let Some(sign @ ('*' | '/' | '%')) = self.next_sign() {
            self.chars.next();
            let right = self.signed()?;
            let result = match sign {
                '*' => value.checked_mul(right),
                _ if right == 0 => return Err(ExprError::DivisionByZero),
                '/' => value.checked_div(right),
                _ => value.checked_rem(right),
            };
            value = result.ok_or(ExprError::Overflow)?;
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<i64, ExprError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(ExprError::TooDeep);
        }
        let value = match self.next_sign().ok_or(ExprError::UnexpectedEnd)? {
            '-' => {
                self.chars.next();
                self.signed()?.checked_neg().ok_or(ExprError::Overflow)?
            }
            '(' => {
                self.chars.next();
                let value = self.sum()?;
                match self.next_sign().ok_or(ExprError::UnexpectedEnd)? {
                    ')' => self.chars.next(),
                    found => return Err(self.unexpected(found)),
                };
                value
            }
            '0'..='9' => self.number()?,
            found => return Err(self.unexpected(found)),
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<i64, ExprError> {
        let start = self.position();
        let hexadecimal = self.text.get(start..).is_some_and(|rest| rest.starts_with("0x") || rest.starts_with("0X"));
        let radix = if hexadecimal { 16 } else { 10 };
        if hexadecimal {
            self.chars.next();
            self.chars.next();
        }
        let first = self.position();
        let mut value: i64 = 0;
        while let Some(digit) = self.chars.peek().and_then(|&(_, c)| c.to_digit(radix)) {
            self.chars.next();
            value = value
                .checked_mul(i64::from(radix))
                .and_then(|value| value.checked_add(i64::from(digit)))
                .ok_or(ExprError::Overflow)?;
        }
        match self.chars.peek().copied() {
            None if self.position() == first => Err(ExprError::UnexpectedEnd),
            Some((at, found)) if at == first => Err(self.unexpected(found)),
            Some((_, '.')) => Err(ExprError::DecimalPoint),
            _ => Ok(value),
        }
    }

    /// The next character that is not blank, not taken.
    fn next_sign(&mut self) -> Option<char> {
        while self.chars.next_if(|&(_, c)| c.is_whitespace()).is_some() {}
        self.chars.peek().map(|&(_, c)| c)
    }

    fn position(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |&(at, _)| at)
    }

    fn unexpected(&mut self, found: char) -> ExprError {
        let at = self.position();
        let column = self.text.get(..at).map_or(0, |before| before.chars().count()) + 1;
        ExprError::Unexpected { found, column }
    }
}

#[cfg(test)]
mod tests;
