use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;

use jiff::civil::datetime;

use super::*;
use crate::store::{FileSystem, OsFileSystem};

const NAME: &str = "00000000000000000000.meta";
const MODIFIED_NS: i64 = 1_796_000_001_500_000_000;

/// Half of it repeats, half of it does not.
fn content(len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(len as u64);
    (0..len).map(|i| if (i >> 12) & 1 == 0 { b'x' } else { rng.u8(..) }).collect()
}

fn archive(dir: &Path, content: &[u8], zip64: bool) -> std::path::PathBuf {
    let (source, target) = (dir.join("source"), dir.join("archive.zip"));
    std::fs::write(&source, content).unwrap();
    let source = OsFileSystem.open(&source, crate::store::Access::Read).unwrap();
    let file = OsFileSystem.create(&target).unwrap();
    let entry = ZipEntry { name: NAME.into(), modified_ns: MODIFIED_NS, source: &*source, len: content.len() as u64 };
    let mut seen = 0;
    let mut pace = |written| {
        assert!(written >= seen);
        seen = written;
        Ok(())
    };
    let len = entry.write_as(zip64, &*file, &mut pace).unwrap();
    assert_eq!(len, target.metadata().unwrap().len());
    target
}

/// What a tool prints; `None`, and once a line that says so, where it is not installed.
fn tool(command: &mut Command) -> Option<Vec<u8>> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{command:?}: {}{text}", String::from_utf8_lossy(&output.stdout));
            Some(output.stdout)
        }
        Err(_) => {
            static SAY: Once = Once::new();
            SAY.call_once(|| println!("skipped: {} is not installed", command.get_program().display()));
            None
        }
    }
}

#[test]
fn the_usual_tools_open_archives_of_any_length_with_and_without_zip64() {
    const PYTHON: &str = "import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
assert archive.testzip() is None
[info] = archive.infolist()
assert info.compress_type == zipfile.ZIP_DEFLATED
print(info.filename, info.file_size, *info.date_time[:3])
sys.stdout.flush()
sys.stdout.buffer.write(archive.read(info))";
    for len in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3_000_000] {
        for zip64 in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let content = content(len);
            let path = archive(dir.path(), &content, zip64);
            tool(Command::new("unzip").arg("-t").arg(&path));
            if let Some(found) = tool(Command::new("unzip").arg("-p").arg(&path)) {
                assert!(found == content, "unzip: {len} bytes, zip64: {zip64}");
            }
            if let Some(found) = tool(Command::new("python3").args(["-c", PYTHON]).arg(&path)) {
                let head = format!("{NAME} {len} 2026 11 ");
                assert!(found.starts_with(head.as_bytes()), "{}", String::from_utf8_lossy(&found[..40]));
                assert!(found.ends_with(&content), "python: {len} bytes, zip64: {zip64}");
            }
        }
    }
}

#[test]
fn the_same_segment_always_gives_the_same_archive() {
    let [a, b] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let content = content(1_000_000);
    let read = |dir: &Path| std::fs::read(archive(dir, &content, false)).unwrap();
    assert!(read(a.path()) == read(b.path()));
}

#[test]
fn who_sets_the_pace_can_end_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("source"), content(1_000_000)).unwrap();
    let source = OsFileSystem.open(&dir.path().join("source"), crate::store::Access::Read).unwrap();
    let target = OsFileSystem.create(&dir.path().join("target")).unwrap();
    let entry = ZipEntry { name: NAME.into(), modified_ns: 0, source: &*source, len: 1_000_000 };
    let mut calls = 0;
    let mut pace = |_| {
        calls += 1;
        if calls == 2 { Err(ZipError::Stopped) } else { Ok(()) }
    };
    assert!(matches!(entry.write(&*target, &mut pace), Err(ZipError::Stopped)));
    assert_eq!(calls, 2);
    let longer = ZipEntry { len: 1_000_001, ..entry };
    assert!(matches!(longer.write(&*target, &mut |_| Ok(())), Err(ZipError::Read(_))));
}

#[test]
fn times_of_headers_are_those_of_dos() {
    let dos = |year, second| dos_time(datetime(year, 11, 30, 17, 31, second, 0));
    assert_eq!(dos(2026, 58), (17 << 11 | 31 << 5 | 29, 46 << 9 | 11 << 5 | 30));
    assert_eq!(dos(1970, 0).1 >> 9, 0);
    assert_eq!(dos(2200, 0).1 >> 9, 127);
}
