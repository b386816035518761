use super::*;

struct Log {
    dir: tempfile::TempDir,
    file: LogFile,
}

impl Log {
    fn new(file_bytes: u64, files: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = LogFile::open(&dir.path().join("log"), LogLimits { file_bytes, files }).unwrap();
        Self { dir, file }
    }

    /// The content of the file with this ending, if there is one.
    fn content(&self, ending: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join(format!("log{ending}"))).ok()
    }

    fn was_told(&self) -> bool {
        self.file.0.lock().unwrap().told
    }
}

#[test]
fn earlier_files_are_numbered_from_the_latest_on_and_the_oldest_goes() {
    let log = Log::new(8, 2);
    for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
        log.file.line(line.as_bytes());
    }
    assert_eq!(log.content("").unwrap(), "five\n");
    assert_eq!(log.content(".1").unwrap(), "four\n");
    assert_eq!(log.content(".2").unwrap(), "three\n");
    assert_eq!(log.content(".3"), None, "what had one and two");
}

#[test]
fn what_is_there_counts_and_a_long_line_has_a_file_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, "from before\n").unwrap();
    let file = LogFile::open(&path, LogLimits { file_bytes: 16, files: 3 }).unwrap();
    file.line(b"abc\n");
    file.line(b"much longer than a file may become\n");
    file.line(b"next\n");
    let read = |ending| fs::read_to_string(dir.path().join(ending)).unwrap();
    assert_eq!(read("log.2"), "from before\nabc\n");
    assert_eq!(read("log.1"), "much longer than a file may become\n");
    assert_eq!(read("log"), "next\n");
}

#[test]
fn files_beyond_a_lowered_number_are_removed() {
    let log = Log::new(4, 1);
    for number in 1..=4 {
        fs::write(log.dir.path().join(format!("log.{number}")), "old").unwrap();
    }
    log.file.line(b"one\n");
    log.file.line(b"two\n");
    assert_eq!(log.content(".1").unwrap(), "one\n");
    assert!((2..=4).all(|number| log.content(&format!(".{number}")).is_none()));
}

#[test]
fn a_file_that_cannot_be_put_aside_goes_on() {
    let log = Log::new(8, 1);
    // A file cannot take the name of a directory.
    fs::create_dir(log.dir.path().join("log.1")).unwrap();
    for line in ["one\n", "two\n", "six\n"] {
        log.file.line(line.as_bytes());
    }
    assert_eq!(log.content("").unwrap(), "one\ntwo\nsix\n");
    assert!(log.was_told());
    fs::remove_dir(log.dir.path().join("log.1")).unwrap();
    log.file.line(b"ten\n");
    assert_eq!(log.content(".1"), None, "not tried again with each line");
    log.file.line(b"five\n");
    assert_eq!(
        (log.content("").unwrap(), log.content(".1").unwrap()),
        ("five\n".into(), "one\ntwo\nsix\nten\n".into())
    );
}

#[test]
fn a_file_that_somebody_else_put_aside_is_left_alone() {
    let log = Log::new(8, 2);
    log.file.line(b"one\n");
    fs::rename(log.dir.path().join("log"), log.dir.path().join("elsewhere")).unwrap();
    fs::write(log.dir.path().join("log"), "theirs\n").unwrap();
    log.file.line(b"two\n");
    log.file.line(b"three\n");
    assert_eq!(log.content("").unwrap(), "theirs\nthree\n");
    assert_eq!(log.content(".1"), None);
    assert!(!log.was_told());
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_the_count_is_written_later() {
    let log = Log::new(1 << 20, 1);
    let usable = std::mem::replace(&mut log.file.0.lock().unwrap().file, File::open("/dev/null").unwrap());
    log.file.line(b"lost\n");
    log.file.line(b"lost\n");
    assert!(log.was_told());
    log.file.0.lock().unwrap().file = usable;
    log.file.line(b"back\n");
    assert_eq!(log.content("").unwrap(), "\n2 lines of the log before this one could not be written\nback\n");
}
