//! The token of those who may change something. It comes from the environment or a file of its own, never from
//! `server.ini`, and is never shown.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The environment variable that can hold the token.
pub const TOKEN_VARIABLE: &str = "METAQ_ADMIN_TOKEN";

/// Characters of a token: what is shorter can be guessed, what is longer is no token.
const MIN_CHARS: usize = 16;
const MAX_CHARS: usize = 1024;

/// Permissions that nobody but the owner may have of the file.
const OTHERS: u32 = 0o077;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken(Box<[u8]>);

/// Why there is no usable token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Both places have one.
    #[error(
        "both METAQ_ADMIN_TOKEN and adminTokenFile are set: unset one of them, so that it is clear which token counts"
    )]
    Two,
    /// The file cannot be read.
    #[error("adminTokenFile={}: {source}; correct the path or let the broker's user read the file", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the file.
    #[error(
        "adminTokenFile={}: others than its owner have permissions of it (mode {mode:03o}): run chmod 600 and choose another \
         token, for this one may be known",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// What is there is no token.
    #[error(
        "{place} holds no token: it must be {MIN_CHARS} to {MAX_CHARS} visible ASCII characters without blanks, for example \
         what `openssl rand -hex 32` prints"
    )]
    Invalid {
        /// The variable or the file.
        place: String,
    },
}

impl AdminToken {
    /// The token of this process: that of the environment or that of the file, if there is one.
    ///
    /// # Errors
    /// When one is asked for and there is none that can be used.
    pub fn find(file: Option<&Path>) -> Result<Option<Self>, TokenError> {
        Self::choose(std::env::var_os(TOKEN_VARIABLE), file)
    }

    fn choose(variable: Option<OsString>, file: Option<&Path>) -> Result<Option<Self>, TokenError> {
        match (variable, file) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(TokenError::Two),
            (Some(value), None) => Self::new(value.as_encoded_bytes(), || TOKEN_VARIABLE.to_owned()).map(Some),
            (None, Some(path)) => Self::read(path).map(Some),
        }
    }

    fn read(path: &Path) -> Result<Self, TokenError> {
        let unreadable = |source| TokenError::Unreadable { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(TokenError::Open { path: path.to_owned(), mode });
        }
        let mut content = Vec::new();
        // More than a token with the blanks around it is none.
        file.take(4 * MAX_CHARS as u64).read_to_end(&mut content).map_err(unreadable)?;
        Self::new(&content, || format!("adminTokenFile={}", path.display()))
    }

    fn new(text: &[u8], place: impl FnOnce() -> String) -> Result<Self, TokenError> {
        let token = text.trim_ascii();
        let fits = (MIN_CHARS..=MAX_CHARS).contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
        if fits { Ok(Self(token.into())) } else { Err(TokenError::Invalid { place: place() }) }
    }

    /// Whether it is what a client sent. The time that takes tells no more than the length.
    pub(super) fn is(&self, sent: &[u8]) -> bool {
        let differing = self.0.iter().zip(sent).fold(0, |differing, (a, b)| black_box(differing | (a ^ b)));
        self.0.len() == sent.len() && differing == 0
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(secret)")
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn token(text: &str) -> Result<AdminToken, String> {
        AdminToken::choose(Some(text.into()), None).map(Option::unwrap).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let token = token(&format!(" {TOKEN}\n")).unwrap();
        assert!(token.is(TOKEN.as_bytes()));
        for other in ["", "0123456789abcdeg", "1123456789abcdef", "0123456789abcde", "0123456789abcdef0"] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_without_being_quoted() {
        for text in ["", "  ", "0123456789abcde", "0123456789 abcdef", "0123456789abcdeé", &"x".repeat(1025)] {
            let error = token(text).unwrap_err();
            assert!(error.starts_with("METAQ_ADMIN_TOKEN holds no token"), "{error}");
            assert!(text.trim().is_empty() || !error.contains(text.trim()), "{error}");
        }
        assert!(token(&"x".repeat(1024)).is_ok());
        assert_eq!(format!("{:?}", token(TOKEN)), "Ok(AdminToken(secret))");
    }

    #[test]
    fn a_file_must_be_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let read = || AdminToken::choose(None, Some(&path)).map(Option::unwrap).map_err(|error| error.to_string());
        assert!(read().unwrap_err().contains("correct the path"));
        std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert!(read().unwrap_err().contains("chmod 600"), "{mode:o}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(read().unwrap().is(TOKEN.as_bytes()));
        std::fs::write(&path, "\n").unwrap();
        assert!(read().unwrap_err().contains("holds no token"));
        let both = AdminToken::choose(Some(TOKEN.into()), Some(&path)).unwrap_err();
        assert!(matches!(both, TokenError::Two));
        assert_eq!(AdminToken::choose(None, None).unwrap(), None);
    }
}
