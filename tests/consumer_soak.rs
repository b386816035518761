//! Groups of 1, 2, 5 and 12 members over 1, 7 and 40 partitions of three brokers, with random faults of members, brokers
//! and ensemble, on real processes, for as long as one likes:
//! `METAQ_SOAK_SECONDS=1800 cargo test --release --locked --test consumer_soak -- --ignored --nocapture`. Each row says
//! what happened, what was acknowledged and what came twice. `METAQ_SOAK_SEED` repeats the choice of faults.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do; the rows are for who watches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod common;

#[path = "consumer_soak/cell.rs"]
mod cell;

#[path = "consumer_soak/faults.rs"]
mod faults;

use std::time::{Duration, Instant};

use cell::{BROKERS, Cell};
use common::group::Site;

#[test]
#[ignore = "takes as long as METAQ_SOAK_SECONDS says (600)"]
fn groups_of_every_size_keep_their_promises_whatever_happens() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let duration = Duration::from_secs(number("METAQ_SOAK_SECONDS").unwrap_or(600));
    let seed = number("METAQ_SOAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("METAQ_SOAK_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let end = Instant::now() + duration;
    let mut runs = 0;
    while Instant::now() < end {
        // Topics are used once.
        let Some(mut site) = Site::start(&cell::topics(), BROKERS) else { return };
        let mut cells = Cell::all();
        random.shuffle(&mut cells);
        for cell in cells.into_iter().take_while(|_| Instant::now() < end) {
            cell.run(&mut site, &mut random);
            runs += 1;
        }
    }
    eprintln!("{runs} runs");
}
