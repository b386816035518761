//! What happens to brokers.

use crate::run::FaultRun;
use crate::site::{self, BROKERS};

#[test]
fn a_broker_that_is_killed_does_not_stop_the_others_and_is_read_on_when_it_is_back() {
    let Some(site) = site::shared() else { return };
    let mut run = FaultRun::begin(&site, "broker-killed", &["m1", "m2"]);
    run.site.kill_broker(1);
    // It is still registered.
    run.flow();
    run.settle(BROKERS - 1);
    run.site.start_broker(1);
    run.settle(BROKERS);
    // Back before its session is over: the group does not change, its connections do.
    run.site.kill_broker(1);
    run.site.start_broker(1);
    run.settle(BROKERS);
    run.end();
}

#[test]
fn a_broker_that_is_frozen_does_not_stop_the_others_and_is_read_on_when_it_goes_on() {
    let Some(site) = site::shared() else { return };
    let run = FaultRun::begin(&site, "broker-frozen", &["m1", "m2"]);
    run.site.broker(2).freeze();
    run.flow();
    run.settle(BROKERS - 1);
    run.site.broker(2).thaw();
    run.settle(BROKERS);
    run.end();
}

#[test]
fn a_broker_that_is_added_is_read_and_one_that_is_taken_away_is_missed_by_nobody() {
    let Some(site) = site::shared() else { return };
    let mut run = FaultRun::begin(&site, "broker-added", &["m1", "m2"]);
    run.site.start_broker(BROKERS);
    run.settle(BROKERS + 1);
    run.site.stop_broker(BROKERS);
    run.settle(BROKERS);
    // What is left in it is delivered when it is back.
    run.site.start_broker(BROKERS);
    run.settle(BROKERS + 1);
    run.end();
}
