//! What can happen.

use crate::cell::{BROKERS, Cell};
use crate::common::group::{Run, Site};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    MemberJoins,
    MemberLeaves,
    MemberIsKilled,
    MemberIsFrozen,
    /// All at once, each with another name.
    MembersAreReplaced,
    BrokerIsStopped,
    BrokerIsKilled,
    BrokerIsFrozen,
    LeaderIsKilled,
    FollowerIsKilled,
}

impl Fault {
    const ALL: [Self; 10] = [
        Self::MemberJoins,
        Self::MemberLeaves,
        Self::MemberIsKilled,
        Self::MemberIsFrozen,
        Self::MembersAreReplaced,
        Self::BrokerIsStopped,
        Self::BrokerIsKilled,
        Self::BrokerIsFrozen,
        Self::LeaderIsKilled,
        Self::FollowerIsKilled,
    ];

    /// One that leaves somebody to work, of a group of so many.
    pub(crate) fn random(random: &mut fastrand::Rng, members: usize) -> Self {
        loop {
            let fault = Self::ALL[random.usize(..Self::ALL.len())];
            let takes_one = matches!(fault, Self::MemberLeaves | Self::MemberIsKilled | Self::MemberIsFrozen);
            if members > 1 || !takes_one {
                return fault;
            }
        }
    }

    /// Happens, and the group comes to rest meanwhile and afterwards.
    pub(crate) fn happens(self, cell: Cell, run: &mut Run, site: &mut Site, random: &mut fastrand::Rng, number: usize) {
        let all = cell.partitions();
        let names = run.members.names();
        let name = &names[random.usize(..names.len())];
        let broker = random.usize(..BROKERS);
        let others = all - cell.share(broker);
        match self {
            Self::MemberJoins => run.members.join(&format!("j{number}")),
            Self::MemberLeaves => _ = run.members.leave(name),
            Self::MemberIsKilled => run.kill(name),
            Self::MemberIsFrozen => {
                run.freeze(name);
                run.settle_without(name, all);
                run.thaw(name);
            }
            Self::MembersAreReplaced => {
                let new: Vec<_> = names.iter().map(|name| format!("{name}r{number}")).collect();
                run.members.join_all(new.iter().map(String::as_str));
                for name in &names {
                    run.members.leave(name);
                }
            }
            Self::BrokerIsStopped => {
                site.stop_broker(broker);
                rest(run, others);
                site.start_broker(broker);
            }
            Self::BrokerIsKilled => {
                site.kill_broker(broker);
                rest(run, others);
                site.start_broker(broker);
            }
            Self::BrokerIsFrozen => {
                site.broker(broker).freeze();
                rest(run, others);
                site.broker(broker).thaw();
            }
            Self::LeaderIsKilled | Self::FollowerIsKilled => {
                let leader = site.ensemble.leader();
                let follower = (leader + 1) % site.ensemble.size();
                let server = if matches!(self, Self::LeaderIsKilled) { leader } else { follower };
                site.ensemble.kill(server);
                rest(run, all);
                site.ensemble.start(server);
            }
        }
        run.settle(all);
    }
}

/// Waits until the group is at rest with what is left, if anything is.
fn rest(run: &Run, partitions: usize) {
    if partitions > 0 {
        run.settle(partitions);
    }
}
