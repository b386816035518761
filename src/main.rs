//! The `metaq` binary; all of it is in [`metaq::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    metaq::cli::main()
}
