//! A broker that wants to know who asks.

use std::fs;

use crate::common::operated::{Home, Running, Setup, TOKEN};
use crate::common::zookeeper::free_port;
use crate::{admin, command, done, failed};

#[test]
fn changes_need_the_token_and_looking_does_not() {
    let broker = Running::with(Setup { token: Some(TOKEN), ..Setup::default() });
    let why = failed(&admin(&broker, &["admin", "reload"])).to_owned();
    assert!(why.contains("set METAQ_ADMIN_TOKEN here too, or give --token-file"), "{why}");
    done(&admin(&broker, &["admin", "status"]));
    done(&admin(&broker, &["topics", "list"]));

    let address = broker.admin.to_string();
    let reload = || command(&["admin", "reload", "--admin", &address]);
    done(&reload().env("METAQ_ADMIN_TOKEN", TOKEN).output().unwrap());
    let other = reload().env("METAQ_ADMIN_TOKEN", "not-the-broker's-token").output().unwrap();
    assert!(!failed(&other).contains("not-the-broker's-token"));

    let file = broker.home.token_file(0o600, &format!("{TOKEN}\n"));
    let file = file.to_str().unwrap();
    done(&admin(&broker, &["admin", "reload", "--token-file", file]));
    // What was named counts more than what is lying about.
    done(&reload().args(["--token-file", file]).env("METAQ_ADMIN_TOKEN", "another").output().unwrap());
    fs::write(file, "\n").unwrap();
    assert!(failed(&admin(&broker, &["admin", "reload", "--token-file", file])).contains("holds no token"));
    fs::remove_file(file).unwrap();
    assert!(failed(&admin(&broker, &["admin", "reload", "--token-file", file])).contains("cannot read the token file"));
    let broken = reload().env("METAQ_ADMIN_TOKEN", "two\nlines").output().unwrap();
    assert!(failed(&broken).contains("characters that no token can have") && !failed(&broken).contains("two"));
}

#[test]
fn the_configuration_file_tells_where_the_token_is() {
    let home = Home::new();
    let token = home.token_file(0o600, TOKEN);
    let system: &'static str = Box::leak(format!("dashboardHttpPort={}", free_port()).into_boxed_str());
    let setup = Setup { system, ..Setup::default() };
    let start = home.command(setup, &format!("adminTokenFile={}", token.display()));
    let broker = Running::of(home, start);
    failed(&admin(&broker, &["admin", "reload"]));
    done(&command(&["admin", "reload", "-f", broker.home.ini().to_str().unwrap()]).output().unwrap());
}
