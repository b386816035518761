//! Random operations against a model that knows nothing of caches.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

const DIRS: [&str; 3] = ["", "/x", "/y"];
const ROUNDS: usize = 12;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Model(BTreeMap<String, Vec<u8>>);

impl Model {
    fn of(disk: &SimDisk) -> Self {
        let files = tree(disk).into_iter().filter(|path| !path.ends_with('/'));
        Self(files.map(|path| (path.clone(), read(disk, &path).unwrap())).collect())
    }

    /// One random operation on both.
    fn act(&mut self, disk: &SimDisk, rng: &mut Rng) {
        let mut path = || format!("{}/{}", DIRS[rng.usize(0..DIRS.len())], rng.u8(0..3));
        let (path, other) = (path(), path());
        let Some(content) = self.0.get_mut(&path) else {
            create(disk, &path);
            self.0.insert(path, Vec::new());
            return;
        };
        let file = disk.open(Path::new(&path), Access::ReadWrite).unwrap();
        match rng.u32(0..10) {
            0 => {
                remove(disk, &path);
                self.0.remove(&path);
            }
            1 => {
                rename(disk, &path, &other);
                let content = self.0.remove(&path).unwrap();
                self.0.insert(other, content);
            }
            2 => {
                let len = rng.usize(0..4000);
                file.set_len(len as u64).unwrap();
                content.resize(len, 0);
            }
            3 => file.sync_data().unwrap(),
            4 => sync_dir(disk, Path::new(&path).parent().unwrap().to_str().unwrap()),
            5 => file.drop_cached().unwrap(),
            _ => {
                let position = rng.usize(0..=content.len() + 600);
                let new = vec![rng.u8(..3); rng.usize(0..1500)];
                write(&*file, &new, position as u64);
                if !new.is_empty() {
                    content.resize(content.len().max(position + new.len()), 0);
                    content[position..position + new.len()].copy_from_slice(&new);
                }
            }
        }
    }
}

fn sync_all(disk: &SimDisk) {
    for path in tree(disk).iter().filter(|path| !path.ends_with('/')) {
        disk.open(Path::new(path), Access::Read).unwrap().sync_data().unwrap();
    }
    ["/", "/x", "/y"].into_iter().for_each(|dir| sync_dir(disk, dir));
}

fn run(seed: u64) {
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let mut disk = SimDisk::new(rng.u64(..));
    DIRS[1..].iter().for_each(|dir| make_dir(&disk, dir));
    sync_dir(&disk, "/");
    let mut model = Model::default();
    for _ in 0..ROUNDS {
        for _ in 0..rng.usize(0..60) {
            model.act(&disk, &mut rng);
        }
        assert_eq!(Model::of(&disk), model, "{}", disk.dump());
        match rng.u32(0..4) {
            0 => disk = disk.kill(),
            1 => {
                disk = disk.power_cut(&mut rng);
                model = Model::of(&disk);
                assert!(disk.dump().ends_with("\n0 operations on names are not durable\n"));
            }
            _ => {
                sync_all(&disk);
                disk = disk.power_cut(&mut rng);
            }
        }
        assert_eq!(Model::of(&disk), model, "{}", disk.dump());
    }
}

#[test]
fn readers_see_the_last_write_and_power_cuts_leave_what_was_synced() {
    let base = std::env::var("METAQ_SEED").ok().and_then(|seed| seed.parse().ok());
    let base = base.unwrap_or_else(|| fastrand::u64(..u64::MAX / 2));
    (base..base + 60).for_each(run);
}
