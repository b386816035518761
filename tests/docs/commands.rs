//! Commands in the pages: their sub-commands and options exist.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;

use crate::pages::{pages, project};
use crate::texts::HEAD;

/// The help of `metaq` and its sub-commands, asked once for each.
#[derive(Default)]
struct Help(HashMap<Vec<String>, String>);

impl Help {
    fn of(&mut self, path: &[String]) -> &str {
        self.0.entry(path.to_vec()).or_insert_with(|| {
            let output = Command::new(env!("CARGO_BIN_EXE_metaq")).args(path).arg("--help").output().unwrap();
            assert!(output.status.success(), "metaq {path:?} --help: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
    }

    /// Whether the help has a line of a section that begins with this word.
    fn lists(&mut self, path: &[String], section: &str, word: &str) -> bool {
        let lines = self.of(path).lines().skip_while(|line| *line != section).skip(1);
        // Entries stand further left than what explains them, commands with it in one line.
        let mut entries = lines.filter(|line| line.starts_with("  ") && !line.starts_with("         "));
        entries.any(|line| {
            let names = line.trim_start().split("  ").next().unwrap_or_default();
            names.split([' ', ',']).any(|found| found == word)
        })
    }

    /// What is wrong with the arguments.
    fn check(&mut self, arguments: &[&str]) -> Result<(), String> {
        let mut path = Vec::new();
        let mut rest = arguments.iter();
        while self.of(&path).contains("\nCommands:\n") {
            let Some(word) = rest.next() else { break };
            if word.starts_with('-') {
                return if matches!(*word, "--help" | "--version") { Ok(()) } else { Err(format!("no option {word}")) };
            }
            if !self.lists(&path, "Commands:", word) {
                return Err(format!("no command {word}"));
            }
            path.push((*word).to_owned());
        }
        for word in rest.filter(|word| word.starts_with('-') && word.len() > 1) {
            let option = word.split('=').next().unwrap_or(word);
            // -Fname=file and the like.
            let short = option.get(..2).filter(|_| !option.starts_with("--"));
            if !self.lists(&path, "Options:", short.unwrap_or(option)) {
                return Err(format!("no option {option} of metaq {}", path.join(" ")));
            }
        }
        Ok(())
    }
}

/// What the script's usage lists: for each command the words and options in its line.
fn script_usage() -> HashMap<String, BTreeSet<String>> {
    let script = std::fs::read_to_string(project("bin/metaServer.sh")).unwrap();
    let usage = script.split("<<'TEXT'\n").nth(1).and_then(|rest| rest.split("TEXT").next()).unwrap();
    let mut commands = HashMap::<String, BTreeSet<String>>::new();
    for line in
        usage.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| line.starts_with(char::is_lowercase))
    {
        let words: Vec<_> =
            line.split(|c: char| !c.is_alphanumeric() && c != '-').filter(|word| !word.is_empty()).collect();
        commands.entry(words[0].to_owned()).or_default().extend(words[1..].iter().map(|&word| word.to_owned()));
    }
    commands
}

/// The commands of a line of shell, each as its words; what is behind `#` is none.
fn commands(line: &str) -> Vec<Vec<&str>> {
    let line = line.split(" #").next().unwrap_or(line).trim_start_matches("ExecStart=");
    let parts = line.split(['|', ';', '<', '>']).flat_map(|part| part.split("&&"));
    parts.map(|part| part.split_whitespace().collect()).collect()
}

#[test]
fn commands_exist() {
    let mut help = Help::default();
    let script = script_usage();
    assert!(script.contains_key("close-partitions") && script["stop"].contains("--force"), "{script:?}");
    let mut wrong = Vec::new();
    let (mut programs, mut scripts) = (0, 0);
    for page in pages() {
        let texts = page.first_column(HEAD);
        let spans = page.spans.iter().filter(|span| !texts.contains(span));
        for line in page.blocks.iter().flat_map(|block| &block.lines).chain(spans) {
            for words in commands(line) {
                // Before it there may be variables.
                let first = words.iter().position(|word| !word.contains('='));
                let Some((&name, arguments)) = first.and_then(|at| words[at..].split_first()) else { continue };
                let checked = match name.rsplit('/').next() {
                    Some("metaq" | "$metaq") if !arguments.is_empty() => {
                        programs += 1;
                        help.check(arguments)
                    }
                    Some("metaServer.sh") if !arguments.is_empty() => {
                        scripts += 1;
                        check_script(&script, arguments)
                    }
                    _ => Ok(()),
                };
                if let Err(why) = checked {
                    wrong.push(format!("{}: {line}: {why}", page.path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "commands that do not exist:\n{}", wrong.join("\n"));
    assert!(programs > 20 && scripts > 10, "{programs} of metaq, {scripts} of the script");
}

fn check_script(usage: &HashMap<String, BTreeSet<String>>, arguments: &[&str]) -> Result<(), String> {
    let [command, arguments @ ..] = arguments else { return Ok(()) };
    let known = usage.get(*command).ok_or_else(|| format!("the script has no command {command}"))?;
    let options = arguments.iter().filter(|word| word.starts_with('-'));
    match options.into_iter().find(|option| !known.contains(**option)) {
        Some(option) => Err(format!("no option {option} of {command}")),
        None => Ok(()),
    }
}

#[test]
fn wrong_commands_are_found() {
    let mut help = Help::default();
    let mut check = |line: &str| help.check(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(check("consume --zk h:1 --topic t -f --max 3"), Ok(()));
    assert_eq!(check("log resolve -f server.ini --append test 0"), Ok(()));
    assert_eq!(check("broker -f conf/server.ini -l"), Ok(()));
    assert!(check("consume --whole").is_err());
    assert!(check("log mend").is_err());
    assert!(check("reload").is_err());
    assert!(check_script(&script_usage(), &["stop", "--hard"]).is_err());
    assert_eq!(check_script(&script_usage(), &["close-partitions", "-topic", "t", "-start", "0", "-end", "1"]), Ok(()));
    assert_eq!(commands("A=1 metaq x --y | grep z && metaq q # metaq r").len(), 3);
}
