//! A store whose power goes off at any operation, again and again, checked against a model of what was promised.
//!
//! A seed determines a run: the store has no threads here, so that everything happens in one order. 200 seeds are run;
//! `METAQ_SEED=n` repeats one of them, `METAQ_SEEDS=n` runs more.

mod model;
mod rig;

use fastrand::Rng;

use self::rig::Rig;

/// Times that the power goes off in a run.
const CUTS: usize = 4;

/// Tells which seed failed.
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("METAQ_SEED={} failed", self.0);
        }
    }
}

fn run(seed: u64) {
    let _running = Running(seed);
    // Log ids are drawn from the thread's generator.
    fastrand::seed(seed);
    let mut rng = Rng::with_seed(seed);
    let mut rig = Rig::new(seed, &mut rng);
    for _ in 0..CUTS {
        rig.work_until_the_power_is_off(&mut rng);
        rig.cut_power_and_recover(&mut rng);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn what_was_promised_survives_any_number_of_power_cuts_at_any_operation() {
    if let Some(seed) = number("METAQ_SEED") {
        return run(seed);
    }
    let seeds = number("METAQ_SEEDS").unwrap_or(200);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || (thread..seeds).step_by(usize::try_from(threads).unwrap()).for_each(run));
        }
    });
}
