use super::*;
use crate::fetch::testing::partition;
use crate::id::{MessageId, Offset};

fn group(name: &'static str) -> GroupName {
    GroupName::new(name).unwrap()
}

fn commit(index: i32, offset: i64) -> OffsetCommit {
    let offset = StoredOffset { offset: Offset::new(offset), message_id: Some(MessageId::new(99)) };
    OffsetCommit { of: TopicPartition::clone(&partition(index)), offset }
}

async fn load(storage: &FileOffsets, name: &'static str, index: i32) -> Result<Option<i64>, String> {
    let stored = storage.load(&group(name), &partition(index)).await.map_err(|error| error.to_string())?;
    Ok(stored.map(|stored| stored.offset.get()))
}

async fn store(storage: &FileOffsets, name: &'static str, index: i32, offset: i64) {
    let results = storage.commit(&group(name), &[commit(index, offset)]).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// As Jackson wrote it for the reference (05 §11), beside what older releases add.
const JAVA: &str = r#"{"g1":[{"topic":"test","partition":{"brokerId":0,"partition":1,"acked":true,"autoAck":true},"offset":1024,"messageId":99,"modified":true},{"topic":"test","partition":{"brokerId":0,"partition":2},"offset":"77","messageId":-1,"modified":false}]}"#;

#[tokio::test]
async fn what_a_java_consumer_has_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("offsets");
    fs::write(&path, JAVA).unwrap();
    let storage = FileOffsets::open(&path).await.unwrap();
    assert_eq!(load(&storage, "g1", 1).await, Ok(Some(1024)));
    assert_eq!(load(&storage, "g1", 2).await, Ok(Some(77)));
    assert_eq!(load(&storage, "g1", 3).await, Ok(None));
    assert_eq!(load(&storage, "g2", 1).await, Ok(None));
    let stored = storage.load(&group("g1"), &partition(1)).await.unwrap();
    assert_eq!(stored.and_then(|stored| stored.message_id), None, "as the reference has it");
}

#[tokio::test]
async fn what_is_written_has_the_members_that_a_java_consumer_reads_and_keeps_other_entries() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("offsets");
    fs::write(&path, JAVA).unwrap();
    let storage = FileOffsets::open(&path).await.unwrap();
    store(&storage, "g2", 5, 10).await;
    store(&storage, "g1", 1, 2048).await;
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let expected: serde_json::Value = serde_json::from_str(
        r#"{"g1":[
            {"topic":"test","partition":{"brokerId":0,"partition":1},"offset":2048,"messageId":99,"modified":true},
            {"topic":"test","partition":{"brokerId":0,"partition":2},"offset":"77","messageId":-1,"modified":false}],
        "g2":[{"topic":"test","partition":{"brokerId":0,"partition":5},"offset":10,"messageId":99,"modified":true}]}"#,
    )
    .unwrap();
    assert_eq!(json, expected);
    assert_eq!(names(directory.path()), ["offsets"], "no temporary file is left");
}

#[tokio::test]
async fn an_empty_or_missing_file_has_nothing_stored() {
    let directory = tempfile::tempdir().unwrap();
    for content in [None, Some(""), Some(" \n"), Some("{}")] {
        let path = directory.path().join(format!("{content:?}").len().to_string());
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let storage = FileOffsets::open(&path).await.unwrap();
        assert_eq!(load(&storage, "g", 0).await, Ok(None));
        store(&storage, "g", 0, 5).await;
        assert_eq!(load(&storage, "g", 0).await, Ok(Some(5)));
    }
}

#[tokio::test]
async fn a_damaged_file_is_kept_under_another_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("offsets");
    let damaged = ["{\"g\":[", "[]", "{\"g\":5}"];
    for content in damaged {
        fs::write(&path, content).unwrap();
        let storage = FileOffsets::open(&path).await.unwrap();
        assert_eq!(load(&storage, "g", 0).await, Ok(None));
        store(&storage, "g", 0, 5).await;
    }
    assert_eq!(names(directory.path()), ["offsets", "offsets.bad.1", "offsets.bad.2", "offsets.bad.3"]);
    let kept = (1..=3).map(|n| fs::read_to_string(directory.path().join(format!("offsets.bad.{n}"))).unwrap());
    assert_eq!(kept.collect::<Vec<_>>(), damaged);
}

#[tokio::test]
async fn an_entry_without_an_offset_is_an_error_and_never_zero() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("offsets");
    for offset in ["null", "\"x\"", "1.5"] {
        let entry = r#"{"topic":"test","partition":{"brokerId":0,"partition":0},"offset":"#;
        fs::write(&path, format!("{{\"g\":[{entry}{offset}}}]}}")).unwrap();
        let error = load(&FileOffsets::open(&path).await.unwrap(), "g", 0).await.unwrap_err();
        assert!(error.contains(offset) && error.contains("test 0-0"), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_an_error_and_not_empty() {
    let directory = tempfile::tempdir().unwrap();
    let storage = FileOffsets::open(directory.path()).await.unwrap();
    let error = load(&storage, "g", 0).await.unwrap_err();
    assert!(error.contains("cannot read"), "{error}");
    let results = storage.commit(&group("g"), &[commit(0, 1)]).await;
    assert!(matches!(results[..], [Err(CommitError::Failed(_))]));
    assert!(FileOffsets::open(directory.path().join("missing/offsets")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_of_one_process_do_not_overwrite_each_other_s_groups() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("offsets");
    let (one, other) = (FileOffsets::open(&path).await.unwrap(), FileOffsets::open(&path).await.unwrap());
    let writes = async |storage: FileOffsets, name: &'static str| {
        for index in 0..20 {
            store(&storage, name, index, i64::from(index)).await;
        }
    };
    let (one, other) = (tokio::spawn(writes(one, "a")), tokio::spawn(writes(other, "b")));
    one.await.unwrap();
    other.await.unwrap();
    let storage = FileOffsets::open(&path).await.unwrap();
    for index in 0..20 {
        assert_eq!(load(&storage, "a", index).await, Ok(Some(i64::from(index))));
        assert_eq!(load(&storage, "b", index).await, Ok(Some(i64::from(index))));
    }
}

#[tokio::test]
async fn what_another_process_has_written_meanwhile_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("offsets");
    let storage = FileOffsets::open(&path).await.unwrap();
    store(&storage, "mine", 0, 1).await;
    let theirs = r#"{"theirs":[{"topic":"test","partition":{"brokerId":0,"partition":0},"offset":7}]}"#;
    fs::write(directory.path().join("new"), theirs).unwrap();
    fs::rename(directory.path().join("new"), &path).unwrap();
    store(&storage, "mine", 0, 2).await;
    assert_eq!(load(&storage, "theirs", 0).await, Ok(Some(7)));
    assert_eq!(load(&storage, "mine", 0).await, Ok(Some(2)));
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_the_file_stays_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("offsets"), directory.path().join("link"));
    fs::write(&path, "{}").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    store(&FileOffsets::open(&link).await.unwrap(), "g", 0, 3).await;
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(load(&FileOffsets::open(&path).await.unwrap(), "g", 0).await, Ok(Some(3)));
}

#[tokio::test]
async fn a_commit_that_nobody_waits_for_is_carried_out_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("offsets");
    let storage = FileOffsets::open(&path).await.unwrap();
    let group = group("g");
    {
        let commits = [commit(0, 5)];
        let mut call = storage.commit(&group, &commits);
        // Polled once, then dropped.
        let once = std::future::poll_fn(|context| {
            let _pending = call.as_mut().poll(context);
            std::task::Poll::Ready(())
        });
        once.await;
    }
    assert_eq!(load(&storage, "g", 0).await, Ok(Some(5)));
}
