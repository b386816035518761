use super::*;
use crate::zk::local::acl::Acl;

const SESSION: i64 = 7;

fn create(path: &str, mode: CreateMode) -> Operation {
    let (data, acl) = (Some(Box::from(*b"x")), Ok(Acl::default()));
    Operation::Create { path: path.to_owned(), data, acl, mode: Ok(mode), with_stat: false }
}

fn persistent(path: &str) -> Operation {
    create(path, CreateMode::default())
}

fn delete(path: &str) -> Operation {
    Operation::Delete { path: path.to_owned(), version: -1 }
}

fn set(path: &str, version: i32) -> Operation {
    Operation::SetData { path: path.to_owned(), data: None, version }
}

/// Prepares and applies; the path of what was changed.
fn execute(tree: &mut Tree, operation: Operation, zxid: i64) -> Result<(String, Undo), Code> {
    let change = tree.prepare(operation, SESSION)?.unwrap();
    let undo = tree.apply(&change, (zxid, zxid * 10)).unwrap().unwrap();
    let (Change::Create { path, .. } | Change::Delete { path } | Change::SetData { path, .. }) = change else {
        panic!("{change:?}")
    };
    Ok((path, undo))
}

#[track_caller]
fn refused(tree: &mut Tree, operation: Operation) -> Code {
    execute(tree, operation, 99).map(|(path, _)| path).unwrap_err()
}

#[test]
fn what_cannot_be_done_is_refused_with_zookeepers_codes() {
    let mut tree = Tree::default();
    execute(&mut tree, persistent("/a"), 1).unwrap();
    execute(&mut tree, persistent("/a/b"), 2).unwrap();
    execute(&mut tree, create("/a/e", CreateMode { ephemeral: true, sequential: false }), 3).unwrap();
    assert_eq!(refused(&mut tree, persistent("/a")), Code::NodeExists);
    assert_eq!(refused(&mut tree, persistent("/")), Code::NodeExists);
    assert_eq!(refused(&mut tree, persistent("/x/y")), Code::NoNode);
    assert_eq!(refused(&mut tree, persistent("/a/e/f")), Code::NoChildrenForEphemerals);
    assert_eq!(refused(&mut tree, persistent("/a/")), Code::BadArguments);
    assert_eq!(refused(&mut tree, persistent("a")), Code::BadArguments);
    assert_eq!(refused(&mut tree, delete("/a")), Code::NotEmpty);
    assert_eq!(refused(&mut tree, delete("/none")), Code::NoNode);
    assert_eq!(refused(&mut tree, delete("/")), Code::BadArguments);
    assert_eq!(refused(&mut tree, set("/a", 1)), Code::BadVersion);
    assert_eq!(refused(&mut tree, set("/none", 0)), Code::NoNode);
    let no_rights = Operation::SetAcl { path: "/a".to_owned(), acl: Err(Code::InvalidAcl), version: -1 };
    assert_eq!(refused(&mut tree, no_rights), Code::InvalidAcl);
}

#[test]
fn sequential_nodes_count_the_children_ever_made() {
    let mut tree = Tree::default();
    let mode = CreateMode { ephemeral: false, sequential: true };
    assert_eq!(execute(&mut tree, create("/s-", mode), 1).unwrap().0, "/s-0000000000");
    execute(&mut tree, delete("/s-0000000000"), 2).unwrap();
    assert_eq!(execute(&mut tree, create("/s-", mode), 3).unwrap().0, "/s-0000000001");
    assert_eq!(execute(&mut tree, create("/", mode), 4).unwrap().0, "/0000000002");
}

#[test]
fn a_full_tree_refuses_more_and_takes_less() {
    let mut tree = Tree::default();
    execute(&mut tree, persistent("/a"), 1).unwrap();
    let before = tree.bytes();
    tree.bytes = MAX_TREE_BYTES - 10;
    assert_eq!(refused(&mut tree, persistent("/b")), Code::BadArguments);
    let large = Operation::SetData { path: "/a".to_owned(), data: Some(vec![0; 12].into()), version: -1 };
    assert_eq!(refused(&mut tree, large), Code::BadArguments);
    execute(&mut tree, set("/a", -1), 2).unwrap();
    tree.bytes = before - 1;
    execute(&mut tree, delete("/a"), 3).unwrap();
    assert_eq!(tree.bytes(), Tree::default().bytes(), "what goes is not counted any more");
}

fn shown(tree: &Tree) -> String {
    format!("{:?} {:?} {}", tree.sorted(), tree.ephemerals, tree.bytes)
}

/// Random operations of which every second run is taken back, as a failed `multi` is.
#[test]
fn what_is_taken_back_leaves_no_trace() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tree = Tree::default();
    let mut done = 0;
    for zxid in 1..400 {
        let before = shown(&tree);
        let mut undos = Vec::new();
        for _ in 0..random.usize(1..6) {
            let path: String = (0..random.usize(1..4)).map(|_| format!("/{}", random.u8(b'a'..b'd') as char)).collect();
            let operation = match random.u8(..3) {
                0 => create(&path, CreateMode { ephemeral: random.bool(), sequential: random.u8(..4) == 0 }),
                1 => delete(&path),
                _ => set(&path, -1),
            };
            undos.extend(execute(&mut tree, operation, zxid).ok().map(|(_, undo)| undo));
        }
        done += undos.len();
        if random.bool() {
            undos.into_iter().rev().for_each(|undo| tree.undo(undo));
            assert_eq!(shown(&tree), before);
        }
    }
    assert!(done > 100, "{done}");
}
