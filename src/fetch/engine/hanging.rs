//! The name of a storage that does not answer, for the log.

use std::fmt::{self, Write};

use crate::common::panics::caught;
use crate::fetch::OffsetStorage;

/// Bytes of a name at most.
const NAME_BYTES: usize = 100;

/// Takes what its `Debug` text begins with up to the first character that belongs to no name: the type, as a rule.
#[derive(Default)]
struct Name(String);

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if !(character.is_alphanumeric() || matches!(character, '_' | ':')) || self.0.len() >= NAME_BYTES {
                // Nothing behind it is wanted, and it may be long.
                return Err(fmt::Error);
            }
            self.0.push(character);
        }
        Ok(())
    }
}

/// What a storage calls itself.
pub(super) fn name_of(storage: &dyn OffsetStorage) -> String {
    let mut name = Name::default();
    let written = caught(|| write!(name, "{storage:?}"));
    match written {
        Ok(_stopped_behind_the_name) if !name.0.is_empty() => name.0,
        _ => "without a name".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::NoStorage;

    #[test]
    fn a_storage_is_called_by_its_type() {
        assert_eq!(name_of(&NoStorage), "NoStorage");
        let mut name = Name::default();
        assert!(write!(name, "{:?}", Some("secret")).is_err());
        assert_eq!(name.0, "Some");
    }
}
