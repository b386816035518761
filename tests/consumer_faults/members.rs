//! What happens to members.

use crate::common::group::Ownership;
use crate::run::FaultRun;
use crate::site::{self, BROKERS};

#[test]
fn a_member_that_joins_takes_its_share_and_nothing_comes_twice() {
    let Some(site) = site::shared() else { return };
    let mut run = FaultRun::begin(&site, "joins", &["m1", "m2"]);
    run.members.join("m3");
    run.settle(BROKERS);
    // One that sorts before all others moves everybody's share.
    run.members.join("a0");
    run.settle(BROKERS);
    run.end();
}

#[test]
fn a_member_that_leaves_hands_its_share_over_and_nothing_comes_twice() {
    let Some(site) = site::shared() else { return };
    let mut run = FaultRun::begin(&site, "leaves", &["m1", "m2", "m3"]);
    let summary = run.members.leave("m1");
    assert_eq!(summary["reason"], "stopped", "{summary}");
    run.settle(BROKERS);
    run.members.leave("m3");
    run.settle(BROKERS);
    run.end();
}

#[test]
fn what_a_killed_member_had_is_taken_over_where_it_had_committed() {
    let Some(site) = site::shared() else { return };
    let mut run = FaultRun::begin(&site, "killed", &["m1", "m2", "m3"]);
    run.kill("m2");
    run.settle(BROKERS);
    // Its successor has another name.
    run.members.join("m4");
    run.settle(BROKERS);
    run.end();
}

#[test]
fn a_member_that_is_frozen_beyond_its_session_loses_its_share_and_comes_back_as_a_new_one() {
    let Some(site) = site::shared() else { return };
    let mut run = FaultRun::begin(&site, "frozen", &["m1", "m2", "m3"]);
    let before = run.observer.ownership().unwrap();
    run.freeze("m2");
    run.settle_without("m2");
    run.thaw("m2");
    let after = run.settle(BROKERS);
    let session = |ownership: &Ownership| ownership.members["group-frozen_m2"];
    assert_ne!(session(&before), session(&after), "its session");
    run.end();
}
