//! One size of group over one number of partitions.

use metaq::rebalance::{ConsistentHashStrategy, LoadBalanceStrategy, RangeStrategy};

use crate::common::group::{Run, Site, Topics};
use crate::faults::Fault;

/// All of the site.
pub(crate) const BROKERS: usize = 3;

const MEMBERS: [usize; 4] = [1, 2, 5, 12];
const PARTITIONS: [usize; 3] = [1, 7, 40];

/// Faults in one run, one after the other.
const FAULTS: usize = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    members: usize,
    partitions: usize,
}

/// The topics of each broker: one for each cell, whose partitions the brokers share.
pub(crate) fn topics() -> Vec<Topics> {
    let of = |broker: usize| {
        let share = |cell: &Cell| (cell.topic(), cell.share(broker));
        let there = Cell::all().iter().map(share).filter(|(_, share)| *share > 0).collect::<Vec<_>>();
        there.into_iter().map(|(topic, share)| (topic, format!("numPartitions={share}"))).collect()
    };
    (0..BROKERS).map(of).collect()
}

impl Cell {
    pub(crate) fn all() -> Vec<Self> {
        MEMBERS.iter().flat_map(|&members| PARTITIONS.map(|partitions| Self { members, partitions })).collect()
    }

    fn topic(self) -> String {
        format!("m{}-p{}", self.members, self.partitions)
    }

    /// Partitions that a broker has.
    pub(crate) fn share(self, broker: usize) -> usize {
        self.partitions / BROKERS + usize::from(broker < self.partitions % BROKERS)
    }

    pub(crate) fn partitions(self) -> usize {
        self.partitions
    }

    /// A group at work while things happen.
    pub(crate) fn run(self, site: &mut Site, random: &mut fastrand::Rng) {
        let (strategy, option): (Box<dyn LoadBalanceStrategy>, _) = if random.bool() {
            (Box::new(RangeStrategy), "default")
        } else {
            (Box::new(ConsistentHashStrategy), "consist")
        };
        let topic = self.topic();
        let mut run = Run::new(site.subject(&topic, &topic), strategy, &["--strategy", option]);
        let names: Vec<_> = (0..self.members).map(|number| format!("m{number}")).collect();
        run.members.join_all(names.iter().map(String::as_str));
        run.settle(self.partitions);
        let mut done = Vec::new();
        for number in 0..FAULTS {
            let fault = Fault::random(random, run.members.names().len());
            eprintln!("{topic} {option}: {fault:?}");
            fault.happens(self, &mut run, site, random, number);
            done.push(fault);
        }
        run.settle(self.partitions);
        run.end();
        eprintln!("{topic} {option}: survived {done:?}");
    }
}
