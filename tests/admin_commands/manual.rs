//! Completions and the manual.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::output::text;
use crate::{done, failed, metaq};

/// Whether a program accepts a file; `true` where it is not installed.
fn accepts(program: &str, arguments: &[&str], file: &std::path::Path) -> bool {
    let mut command = Command::new(program);
    match command.args(arguments).arg(file).env("MANWIDTH", "80").stdin(Stdio::null()).output() {
        Ok(output) => output.status.success() && output.stderr.is_empty(),
        Err(_) => true,
    }
}

#[test]
fn shells_can_read_their_completions() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, check) in [("bash", true), ("zsh", true), ("fish", true), ("elvish", false), ("powershell", false)] {
        let output = metaq(&["completions", shell]);
        assert!(done(&output).contains("close"), "{shell} learns of partitions close");
        let file = dir.path().join(shell);
        fs::write(&file, &output.stdout).unwrap();
        assert!(!check || accepts(shell, &["-n"], &file), "{shell} cannot read its completions");
    }
    let broken = dir.path().join("broken");
    fs::write(&broken, "if then").unwrap();
    assert!(!accepts("bash", &["-n"], &broken), "the check finds errors");
}

#[test]
fn bash_completes_commands_and_options() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("metaq.bash");
    fs::write(&file, &metaq(&["completions", "bash"]).stdout).unwrap();
    let complete = |words: &str| {
        let script = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _metaq metaq \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
        text(&output.stdout).trim().to_owned()
    };
    assert_eq!(complete("metaq partit"), "partitions");
    assert_eq!(complete("metaq admin rel"), "reload");
    assert_eq!(complete("metaq partitions close --st"), "--start");
}

#[test]
fn the_manual_can_be_rendered() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("metaq.1");
    fs::write(&page, done(&metaq(&["man"]))).unwrap();
    let written = dir.path().join("pages");
    done(&metaq(&["man", "--out", written.to_str().unwrap()]));
    for path in [page, written.join("metaq.1")] {
        assert!(fs::read_to_string(&path).unwrap().contains(r"metaq\-partitions(1)"), "{}", path.display());
        assert!(accepts("man", &["--warnings", "-l"], &path), "man cannot render {}", path.display());
    }
    for name in ["metaq-broker.1", "metaq-admin-reload.1", "metaq-partitions-close.1"] {
        let path = written.join(name);
        assert!(fs::read_to_string(&path).unwrap().contains(".SH OPTIONS"), "{name}");
        assert!(accepts("man", &["--warnings", "-l"], &path), "man cannot render {name}");
        assert!(accepts("mandoc", &["-Tlint", "-Werror"], &path), "mandoc cannot render {name}");
    }
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(failed(&metaq(&["man", "--out", file.to_str().unwrap()])).contains("cannot write pages to"));
}
