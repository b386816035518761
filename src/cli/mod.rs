//! The `metaq` command line: argument parsing and output.
