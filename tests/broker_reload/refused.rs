//! Files that are refused as a whole, while everything goes on as before.

use std::path::Path;
use std::time::Duration;

use metaq::config::ServerConfig;

use crate::common::raw::put_frame;
use crate::site::Site;

/// Topic sections that are wrong, and what the refusal must say; the first line of the sections is line 17.
const WRONG: [(&str, &[&str]); 8] = [
    ("[topic=test]\n[topic=new]\nnumPartitons=3\n", &["ini:19:", "numPartitons", "numPartitions"]),
    ("[topic=test]\n[topic=new]\nnumPartitions=zero\n", &["ini:19:", "numPartitions=zero"]),
    ("[topic=test]\n[topic=new]\nnumPartitions=0\n", &["ini:19:", "numPartitions"]),
    ("[topic=test]\n[topic=new]\ndeletePolicy=burn\n", &["ini:19:", "burn"]),
    ("[topic=test]\n[topic=a/b]\n", &["ini:18:", "'/'"]),
    ("[topic=test]\n[topic=new\n", &["ini:18:", "[topic=new"]),
    ("[topic=test]\nnonsense\n", &["ini:18:", "nonsense"]),
    ("", &["Empty topics list"]),
];

#[tokio::test]
async fn a_file_with_an_error_is_refused_with_its_line_and_changes_nothing() {
    let site = Site::start("[topic=test]\n").await;
    let mut client = site.connect().await;
    let before = client.ask("stats  1\r\n").await;
    let checksum = before.lines().find(|line| line.starts_with("config_checksum")).unwrap();
    for (topics, expected) in WRONG {
        let error = site.reload(topics).await.unwrap_err().to_string();
        assert!(error.starts_with("Reload config failed, everything goes on as before"), "{error}");
        assert!(expected.iter().all(|part| error.contains(part)), "{topics}: {error}");
        let refused = site.broker().control().last_reload().unwrap().refused;
        assert_eq!(refused.as_ref(), Some(&error));
        assert!(client.ask(put_frame("new", 0, b"m", 1)).await.contains("The server do not accept topic new"));
        client.put("test", 0, b"m").await;
        assert!(client.ask("stats  1\r\n").await.contains(checksum), "{topics}");
    }
    // The very same file that was refused is looked at again once it is right.
    site.reload("[topic=test]\n[topic=new]\n").await.unwrap();
    assert_eq!(site.broker().control().last_reload().unwrap().refused, None);
    assert_eq!(client.put("new", 0, b"m").await, 0);
}

#[tokio::test]
async fn every_recorded_file_is_taken_over_or_refused_as_at_a_start() {
    let site = Site::start("[topic=test]\n").await;
    let mut client = site.connect().await;
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ini");
    let mut refused = 0;
    for entry in std::fs::read_dir(vectors).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ini") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let at_start = ServerConfig::load(&path).map_err(|error| error.to_string());
        match (site.reload_text(&bytes).await, at_start) {
            (Err(error), Err(at_start)) => {
                refused += 1;
                let at_start = at_start.replace(&*path.to_string_lossy(), &site.ini().to_string_lossy());
                assert!(error.to_string().ends_with(&at_start), "{error}\nat a start {at_start}");
                assert!(client.ask(put_frame("no", 0, b"m", 1)).await.contains("do not accept"));
            }
            (Ok(_), Ok(_)) => {
                site.reload("[topic=test]\n").await.unwrap();
            }
            (reload, start) => panic!("{}: {reload:?}, at a start {start:?}", path.display()),
        }
        client.put("test", 0, b"m").await;
    }
    assert!(refused > 20, "{refused}");
}

#[tokio::test]
async fn a_file_that_is_gone_or_no_file_is_refused() {
    let site = Site::start("[topic=test]\n").await;
    std::fs::remove_file(site.ini()).unwrap();
    let error = site.broker().control().reload().await.unwrap_err().to_string();
    assert!(error.contains("is not exists"), "{error}");
    std::fs::create_dir(site.ini()).unwrap();
    let error = site.broker().control().reload().await.unwrap_err().to_string();
    assert!(error.contains("directory"), "{error}");
    std::fs::remove_dir(site.ini()).unwrap();
    std::os::unix::fs::symlink("/dev/zero", site.ini()).unwrap();
    let error = site.broker().control().reload().await.unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
    assert_eq!(site.connect().await.put("test", 0, b"m").await, 0);
}

#[tokio::test]
async fn a_data_path_that_cannot_be_used_refuses_the_whole_file() {
    let site = Site::start("[topic=test]\n").await;
    let file = site.dir().join("file");
    std::fs::write(&file, "no directory").unwrap();
    for path in [file.join("below"), site.dir().join("missing/parent"), file] {
        let topics = format!("[topic=test]\nnumPartitions=2\n[topic=new]\ndataPath={}\n", path.display());
        let error = site.reload(&topics).await.unwrap_err().to_string();
        assert!(error.contains("dataPath of topic new: "), "{error}");
        let mut client = site.connect().await;
        assert!(client.ask(put_frame("test", 1, b"m", 1)).await.contains("wrong partition 1"));
        client.put("test", 0, b"m").await;
    }
}

#[tokio::test]
async fn a_pipe_in_the_place_of_the_file_is_refused_instead_of_waited_for() {
    let site = Site::start("[topic=test]\n").await;
    let text = site.file();
    std::fs::remove_file(site.ini()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(site.ini()).status().unwrap();
    assert!(made.success());
    let control = site.broker().control();
    let reload = tokio::time::timeout(Duration::from_secs(20), control.reload());
    let error = reload.await.expect("it waits for somebody to write").unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
    std::fs::remove_file(site.ini()).unwrap();
    site.reload_text(text).await.unwrap();
}

#[tokio::test]
async fn a_refused_file_leaves_no_data_path_behind_that_was_good() {
    let site = Site::start("[topic=test]\n").await;
    let [good, other] = ["good", "other"].map(|name| site.dir().join(name));
    for dir in [good.join("early-0"), other.join("early-0")] {
        std::fs::create_dir_all(dir).unwrap();
    }
    let file = site.dir().join("file");
    std::fs::write(&file, "no directory").unwrap();
    // The second cannot be used, or has a partition that the first has.
    for bad in [&file, &other] {
        let topics =
            format!("[topic=test]\n[topic=a]\ndataPath={}\n[topic=b]\ndataPath={}\n", good.display(), bad.display());
        let error = site.reload(&topics).await.unwrap_err().to_string();
        assert!(error.contains("dataPath of topic b: "), "{error}");
        let stats = site.connect().await.ask("stats offsets 5\r\n").await;
        assert!(!stats.contains("early"), "{stats}");
        for dir in [&good, &other] {
            let opened = std::fs::File::open(dir).unwrap();
            opened.try_lock().expect("another broker may have the directory");
        }
    }
    site.reload(&format!("[topic=test]\n[topic=a]\ndataPath={}\n", good.display())).await.unwrap();
    assert!(site.connect().await.ask("stats offsets 5\r\n").await.contains("early"));
}
