//! The transaction journal that a broker on the JVM left behind: recognised, never touched (02 §1).

use std::io;
use std::path::Path;

use super::fs::{FileSystem, Kind};

/// What the operator must do about a journal that holds something; `None` if there is nothing in it.
pub(super) fn journal_warning(fs: &dyn FileSystem, transactions: &Path) -> io::Result<Option<String>> {
    let mut journals = Vec::new();
    for entry in fs.list(transactions)? {
        let name = entry.name.to_string_lossy();
        if let Kind::File(len @ 1..) = entry.kind
            && name.starts_with("redo.")
        {
            journals.push(format!("{name} ({len} bytes)"));
        }
    }
    if journals.is_empty() {
        return Ok(None);
    }
    journals.sort();
    Ok(Some(format!(
        "{} holds the transaction journal {} of another broker, which is not replayed: transactions that were prepared \
         are not offered, and those committed just before a crash may be missing. Files are left as they are. To \
         settle them, start the previous broker on this directory once, finish its prepared transactions and stop it \
         cleanly; if it was stopped cleanly without prepared transactions, nothing is missing",
        transactions.display(),
        journals.join(", ")
    )))
}
