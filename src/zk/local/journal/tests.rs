use std::sync::Arc;

use super::*;
use crate::store::OsFileSystem;
use crate::store::sim_disk::{Failing, SimDisk};
use crate::zk::local::acl::Acl;
use crate::zk::local::change::Change;
use crate::zk::local::jute::Writer;
use crate::zk::local::sessions::Password;

fn dir() -> &'static Path {
    Path::new("/zookeeper")
}

fn open(disk: &SimDisk) -> Result<(Journal, State), JournalError> {
    Journal::open(Arc::new(disk.clone()), dir(), 0x0123_4567_89ab_cdef, Instant::now())
}

fn text_of(disk: &SimDisk) -> String {
    open(disk).map(|(_, state)| shown(&state)).unwrap_err().to_string()
}

fn shown(state: &State) -> String {
    let mut sessions: Vec<_> = state.sessions.iter().map(|(id, s)| (id, s.password, s.timeout_ms)).collect();
    sessions.sort_unstable_by_key(|session| session.0);
    format!("{:#x} {sessions:?} {:?} {}", state.zxid, state.tree.sorted(), state.tree.bytes())
}

fn transaction(number: i64) -> Transaction {
    let path = format!("/{number}");
    let data = Some(vec![b'x'; usize::try_from(number % 700).unwrap()].into());
    let password = Password::new([u8::try_from(number % 256).unwrap(); 16]);
    let create = Change::Create { path: path.clone(), data, acl: Acl::default(), owner: number };
    let changes = match number % 4 {
        0 => vec![Change::OpenSession { id: number, password, timeout_ms: 5_000 }, create],
        1 => vec![create, Change::SetData { path, data: None }],
        2 => vec![create, Change::Delete { path }],
        _ => vec![create],
    };
    Transaction { zxid: number, time: number, changes }
}

/// A journal beside the state that it should hold.
struct Kit {
    journal: Journal,
    state: State,
}

impl Kit {
    fn open(disk: &SimDisk) -> Result<Self, JournalError> {
        let (journal, state) = open(disk)?;
        Ok(Self { journal, state })
    }

    /// Stores the next transactions with one sync.
    fn store(&mut self, count: i64) -> Result<(), JournalError> {
        let mut w = Writer::default();
        for _ in 0..count {
            let transaction = transaction(self.state.zxid + 1);
            transaction.write(&mut w);
            self.state.replay(&transaction, Instant::now()).unwrap();
        }
        self.journal.append(w.bytes())
    }
}

fn bytes_of(disk: &SimDisk, name: &str) -> Vec<u8> {
    read_file(disk, &dir().join(name)).unwrap().unwrap()
}

fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let path = dir().join(name);
    write_file(disk, &path, bytes).unwrap();
}

#[test]
fn the_state_is_read_back_over_snapshots_and_logs() {
    let disk = SimDisk::new(1);
    let mut expected = shown(&State::default());
    for round in 0..6 {
        let mut kit = Kit::open(&disk).unwrap();
        assert_eq!(shown(&kit.state), expected, "round {round}");
        kit.store(3).unwrap();
        kit.store(4).unwrap();
        if round % 2 == 1 {
            kit.journal.fold(&kit.state).unwrap();
            kit.store(i64::from(round % 3)).ok();
        }
        expected = shown(&kit.state);
    }
}

#[test]
fn a_torn_last_frame_is_cut_wherever_it_ends() {
    let disk = SimDisk::new(1);
    let mut kit = Kit::open(&disk).unwrap();
    kit.store(2).unwrap();
    let (before, good) = (shown(&kit.state), bytes_of(&disk, LOG).len());
    kit.store(2).unwrap();
    let whole = bytes_of(&disk, LOG);
    drop(kit);
    for end in good..whole.len() {
        for tail in [&[][..], &[0; 40]] {
            put(&disk, LOG, &[&whole[..end], tail].concat());
            assert_eq!(shown(&Kit::open(&disk).unwrap().state), before, "cut at {end}");
            assert_eq!(bytes_of(&disk, LOG).len(), good);
        }
    }
}

#[test]
fn damage_elsewhere_refuses_the_start_and_names_the_file_and_the_way_out() {
    let disk = SimDisk::new(1);
    let mut kit = Kit::open(&disk).unwrap();
    kit.store(2).unwrap();
    kit.journal.fold(&kit.state).unwrap();
    kit.store(2).unwrap();
    let last = bytes_of(&disk, LOG).len();
    kit.store(2).unwrap();
    drop(kit);
    for name in [SNAPSHOT, LOG] {
        let whole = bytes_of(&disk, name);
        let end = if name == LOG { last } else { whole.len() };
        for at in 0..end {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            put(&disk, name, &bytes);
            let text = text_of(&disk);
            assert!(text.contains(&format!("/zookeeper/{name} is damaged")), "byte {at}: {text}");
            assert!(text.contains("put the whole directory back from a copy"), "{text}");
        }
        put(&disk, name, &whole);
    }
    // A log whose snapshot is gone or older, and the other way round.
    disk.remove_file(&dir().join(SNAPSHOT)).unwrap();
    assert!(text_of(&disk).contains("which snapshot does not reach"));
    put(&disk, SNAPSHOT, &format::write_snapshot(&State { zxid: 2, ..State::default() }));
    disk.remove_file(&dir().join(LOG)).unwrap();
    assert!(text_of(&disk).contains("it is missing beside its snapshot"));
}

#[test]
fn a_file_of_impossible_length_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Journal::open(Arc::new(OsFileSystem), dir.path(), 5, Instant::now());
    for name in [LOG, SNAPSHOT] {
        open().unwrap();
        let path = dir.path().join(name);
        // Sparse: it takes no room, but would take memory.
        std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap().set_len(1 << 42).unwrap();
        let text = open().unwrap_err().to_string();
        assert!(text.contains(&format!("{} is damaged: it has 4398046511104 bytes", path.display())), "{text}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_snapshot_that_cannot_be_written_leaves_the_log_going_on() {
    let disk = SimDisk::new(1);
    let mut kit = Kit::open(&disk).unwrap();
    kit.store(2).unwrap();
    disk.fail_once(Failing::Write, |path| path.ends_with("snapshot.new"));
    kit.journal.fold(&kit.state).unwrap();
    assert_eq!(disk.faults_left(), 0);
    assert!(!kit.journal.is_long());
    let unfinished = disk.kind(&temporary(dir(), SNAPSHOT)).unwrap();
    assert!(unfinished.is_none(), "it takes room that the log needs");
    kit.store(2).unwrap();
    let expected = shown(&kit.state);
    drop(kit);
    assert_eq!(shown(&Kit::open(&disk).unwrap().state), expected);
}

#[test]
fn a_new_log_that_finds_no_room_leaves_the_old_one_going_on() {
    for failing in [Failing::Create, Failing::Write, Failing::Sync] {
        let disk = SimDisk::new(1);
        let mut kit = Kit::open(&disk).unwrap();
        kit.store(2).unwrap();
        disk.fail_once(failing, |path| path.ends_with("log.new"));
        kit.journal.fold(&kit.state).unwrap();
        assert_eq!(disk.faults_left(), 0, "{failing:?}");
        assert!(!kit.journal.is_long());
        kit.store(2).unwrap();
        // What is left of the attempt is in the way of neither the next one nor a start.
        kit.journal.fold(&kit.state).unwrap();
        assert!(kit.journal.end < 100);
        kit.store(1).unwrap();
        let expected = shown(&kit.state);
        drop(kit);
        assert_eq!(shown(&Kit::open(&disk).unwrap().state), expected, "{failing:?}");
    }
}

#[test]
fn failures_of_the_log_are_told() {
    for failing in [Failing::Write, Failing::Sync] {
        let disk = SimDisk::new(1);
        let mut kit = Kit::open(&disk).unwrap();
        disk.fail_once(failing, |path| path.ends_with(LOG));
        let error = kit.store(1).unwrap_err().to_string();
        assert!(error.contains("/zookeeper/log: "), "{error}");
    }
    let disk = SimDisk::new(1);
    let mut kit = Kit::open(&disk).unwrap();
    kit.store(1).unwrap();
    disk.fail_once(Failing::Rename, |path| path.ends_with("log.new"));
    assert!(kit.journal.fold(&kit.state).is_err());
}

/// A run that stores and folds, until the power goes off. The states after each transaction that was promised to be
/// durable, and after the one that was not.
fn run(disk: &SimDisk) -> (String, String) {
    let mut promised = shown(&State::default());
    let mut tried = promised.clone();
    let mut round = || -> Result<(), JournalError> {
        let mut kit = Kit::open(disk)?;
        for step in 0..12 {
            promised = shown(&kit.state);
            let stored = kit.store(1 + step % 3);
            tried = shown(&kit.state);
            stored?;
            promised.clone_from(&tried);
            if step % 4 == 3 {
                kit.journal.fold(&kit.state)?;
            }
        }
        Ok(())
    };
    let _off = round();
    (promised, tried)
}

#[test]
fn a_power_cut_at_any_moment_takes_nothing_that_was_promised() {
    let whole = SimDisk::new(7);
    run(&whole);
    let operations = whole.operations();
    assert!(operations > 40, "{operations}");
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for cut in 0..operations {
        let disk = SimDisk::new(seed);
        disk.power_off_after(cut);
        let (promised, tried) = run(&disk);
        assert!(disk.is_off(), "{cut}");
        for _ in 0..10 {
            let left = disk.power_cut(&mut rng);
            let state = Kit::open(&left).unwrap_or_else(|error| panic!("cut at {cut}: {error}\n{}", left.dump())).state;
            let state = shown(&state);
            assert!(state == promised || state == tried, "cut at {cut}: {state}\n not {promised}\n nor {tried}");
        }
    }
}
