//! The checks that the runs rely on notice what they are for.

use std::time::{Duration, Instant};

use crate::common::group::{Delivery, Log, Place, Sent, check};

/// Bytes of each message of these tests in its partition: header and payload.
const EACH: i64 = 20 + 2;

fn place(number: i64) -> Place {
    Place { broker: 0, partition: 1, offset: number * EACH }
}

fn payload(number: i64) -> Vec<u8> {
    format!("m{number}").into_bytes()
}

fn sent(numbers: impl IntoIterator<Item = i64>) -> Vec<Sent> {
    numbers.into_iter().map(|n| Sent { place: place(n), id: 100 + n, payload: payload(n) }).collect()
}

/// Message numbers, at the time at which each was delivered.
fn log(member: &str, began: Instant, deliveries: &[(u64, i64)]) -> Log {
    let delivery = |&(second, n): &(u64, i64)| Delivery {
        at: began + Duration::from_secs(second),
        place: place(n),
        id: 100 + n,
        attribute: None,
        payload: payload(n),
    };
    Log { member: member.to_owned(), deliveries: deliveries.iter().map(delivery).collect() }
}

#[test]
fn a_hand_over_in_order_is_all_right() {
    let began = Instant::now();
    let logs = [log("a", began, &[(0, 0), (1, 1), (4, 4)]), log("b", began, &[(2, 2), (3, 3)])];
    let outcome = check(&sent(0..5), &logs).unwrap();
    assert_eq!((outcome.acknowledged, outcome.delivered, outcome.steps_back), (5, 5, 0));
    assert!(outcome.duplicates.is_empty(), "{:?}", outcome.duplicates);
    assert_eq!(outcome.ends[&(0, 1)], 5 * EACH);
}

#[test]
fn a_lost_message_is_noticed() {
    let logs = [log("a", Instant::now(), &[(0, 0), (1, 1)])];
    let wrong = check(&sent(0..3), &logs).unwrap_err();
    assert!(wrong.starts_with("lost: "), "{wrong}");
}

#[test]
fn a_message_that_comes_again_is_counted_with_who_had_it_first() {
    let began = Instant::now();
    let logs = [log("a", began, &[(0, 0), (1, 1)]), log("b", began, &[(5, 1), (6, 2)])];
    let outcome = check(&sent(0..3), &logs).unwrap();
    let [one] = &outcome.duplicates[..] else { panic!("{:?}", outcome.duplicates) };
    assert_eq!((one.place, &*one.first.0, &*one.again.0), (place(1), "a", "b"));
    assert_eq!(outcome.steps_back, 0);
}

#[test]
fn a_member_that_goes_back_is_noticed() {
    let logs = [log("a", Instant::now(), &[(0, 0), (1, 1), (2, 0), (3, 1), (4, 2)])];
    let outcome = check(&sent(0..3), &logs).unwrap();
    assert_eq!((outcome.steps_back, outcome.duplicates.len()), (1, 2));
}

#[test]
fn a_message_that_was_passed_over_is_noticed_though_it_comes_later() {
    let began = Instant::now();
    let logs = [log("a", began, &[(0, 0), (1, 2), (20, 1)])];
    let wrong = check(&sent(0..3), &logs).unwrap_err();
    assert!(wrong.contains("passed over"), "{wrong}");
    // Also when another member gets it afterwards, and when it was never acknowledged.
    let logs = [log("a", began, &[(0, 0), (1, 2)]), log("b", began, &[(20, 1)])];
    assert!(check(&sent([0, 2]), &logs).is_err());
}

#[test]
fn a_message_that_is_not_what_was_sent_is_noticed() {
    let mut logs = [log("a", Instant::now(), &[(0, 0), (1, 1)])];
    logs[0].deliveries[1].payload = b"mx".to_vec();
    let wrong = check(&sent(0..2), &logs).unwrap_err();
    assert!(wrong.contains("instead of"), "{wrong}");
}
