//! What happens to the ensemble.

use crate::run::FaultRun;
use crate::site::{self, BROKERS};

#[test]
fn a_group_goes_on_when_the_leader_of_the_ensemble_is_killed() {
    let Some(site) = site::shared() else { return };
    let mut run = FaultRun::begin(&site, "leader-killed", &["m1", "m2", "m3"]);
    let before = run.observer.ownership().unwrap().members;
    let leader = run.site.ensemble.leader();
    run.site.ensemble.kill(leader);
    // Sessions outlive it, and with them everything that belongs to them.
    let after = run.settle(BROKERS).members;
    assert_eq!(before, after, "sessions of the members");
    run.site.ensemble.start(leader);
    run.members.join("m4");
    run.settle(BROKERS);
    run.end();
}
