//! One value in force, whatever its type.

use std::fmt;
use std::path::PathBuf;

use super::ini::escape;

/// One value in force.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum Value {
    /// An integer.
    Int(i128),
    /// A boolean.
    Bool(bool),
    /// A text.
    Text(String),
    /// No value: the key is absent and its default is found out only when the broker runs.
    Unset,
}

macro_rules! from_integer {
    ($($integer:ty)*) => {$(
        impl From<$integer> for Value {
            fn from(value: $integer) -> Self {
                Self::Int(value as i128)
            }
        }
    )*};
}

from_integer!(u8 u16 u32 u64 usize i32);

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&PathBuf> for Value {
    fn from(value: &PathBuf) -> Self {
        Self::Text(value.to_string_lossy().into_owned())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unset, Into::into)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Text(value) => f.write_str(&escape(value)),
            Self::Unset => Ok(()),
        }
    }
}
