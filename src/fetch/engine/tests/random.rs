//! Whatever happens: every message is handled in order, and no offset passes one that is not.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::broker::{Answer, Broker};
use super::listener::Act;
use super::rig::{Rig, all, options, rig_with};

const PARTITIONS: i32 = 4;
const MESSAGES: i64 = 60;
/// Runs of a usual test; `METAQ_FETCH_RUNS` asks for more, `METAQ_FETCH_SEED` for a certain one.
const RUNS: u64 = 40;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_message_is_handled_at_least_once_in_order_and_no_offset_passes_one_that_is_not() {
    let seeds = match variable("METAQ_FETCH_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = fastrand::u64(..1 << 32);
            first..first + variable("METAQ_FETCH_RUNS").unwrap_or(RUNS)
        }
    };
    println!("seeds {seeds:?}");
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(one_run(seed)));
        if let Err(panic) = std::panic::catch_unwind(run) {
            println!("METAQ_FETCH_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

async fn one_run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mood = std::sync::Mutex::new(fastrand::Rng::with_seed(seed ^ 1));
    let plan = move |_: &_| {
        let mut mood = mood.lock().unwrap();
        match mood.u32(..100) {
            0..8 => Act::Retry,
            8..12 => Act::Slowly(Duration::from_millis(mood.u64(..20_000))),
            12..14 => Act::Panic,
            14..40 => Act::Slowly(Duration::from_millis(mood.u64(..50))),
            _ => Act::Handle,
        }
    };
    // Nothing is rejected, so that everything must be handled.
    let options = crate::fetch::FetchOptions { max_fetch_retries: u32::MAX, fetched_bytes: 100_000, ..options() };
    let broker = Broker::new(random.bool()).slow(Duration::from_millis(random.u64(..5)));
    let rig = rig_with(broker, plan, options);
    let mut id = 0;
    while id < MESSAGES {
        for _ in 0..random.usize(..6) {
            rig.broker.put(random.i32(0..PARTITIONS), id, random.usize(..3000));
            id += 1;
        }
        disturb(&rig, &mut random).await;
        rig.pass(random.u64(..3000)).await;
        check(&rig);
    }
    rig.storage.fails.store(false, Ordering::SeqCst);
    rig.engine.fence(false);
    rig.add(0..PARTITIONS, 1024).await;
    rig.engine.resume(&all(0..PARTITIONS)).await.unwrap();
    all_read(&rig).await;
    rig.engine.stop().await;
    check(&rig);
    for index in 0..PARTITIONS {
        assert_eq!(rig.storage.offset(index).unwrap_or(0), rig.broker.end(index), "partition {index}");
        let handled = rig.listener.handled(index);
        assert!(rig.broker.ids(index).iter().all(|id| handled.contains(id)), "partition {index}");
        first_deliveries_are_in_order(&rig, index);
    }
}

/// Waits until every position is the end of its partition.
async fn all_read(rig: &Rig) {
    for _ in 0..10_000 {
        let states = rig.engine.states().await;
        let at_end = |index| {
            let state = states.iter().find(|state| state.of.partition.index.get() == index);
            let position = state.and_then(|state| state.position);
            position.is_some_and(|position| position.offset.get() == rig.broker.end(index))
        };
        if (0..PARTITIONS).all(at_end) {
            return;
        }
        rig.pass(500).await;
        check(rig);
    }
    panic!("not everything is read: {:#?}", rig.engine.states().await);
}

async fn disturb(rig: &Rig, random: &mut fastrand::Rng) {
    let index = random.i32(0..PARTITIONS);
    match random.u32(..13) {
        0 | 1 => rig.add([index], 1024).await,
        2 => rig.add(0..PARTITIONS, 512).await,
        3 => drop(rig.release([index]).await),
        4 => rig.lose([index]).await,
        5 => rig.broker.script(index, [Answer::Failure]),
        6 => rig.broker.script(index, [Answer::Silence]),
        7 => rig.broker.script(index, [Answer::Nothing, Answer::Failure]),
        8 => rig.storage.fails.store(random.bool(), Ordering::SeqCst),
        9 => rig.engine.fence(random.bool()),
        10 => rig.engine.pause(&all([index])).await.unwrap(),
        11 => rig.engine.resume(&all([index])).await.unwrap(),
        _ => rig.storage.bad_loads.store(random.usize(..3), Ordering::SeqCst),
    }
}

/// No stored offset is beyond a message that was not handled.
fn check(rig: &Rig) {
    for index in 0..PARTITIONS {
        let Some(stored) = rig.storage.offset(index) else { continue };
        let handled = rig.listener.handled(index);
        for (offset, id) in rig.broker.messages(index) {
            assert!(offset >= stored || handled.contains(&id), "partition {index}: {stored} passes message {id}");
        }
    }
}

/// A message is handled for the first time only after all before it were.
fn first_deliveries_are_in_order(rig: &Rig, index: i32) {
    let mut first = BTreeMap::new();
    for (place, id) in rig.listener.handled(index).into_iter().enumerate() {
        first.entry(id).or_insert(place);
    }
    let places: Vec<_> = rig.broker.ids(index).iter().map(|id| first[id]).collect();
    assert!(places.is_sorted(), "partition {index}: {places:?}");
}
