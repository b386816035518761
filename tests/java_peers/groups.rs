//! Groups of Java and Rust members over Java and Rust brokers. What Java members deliver late is counted (standard error).

use std::sync::Arc;
use std::time::Instant;

use metaq::rebalance::RangeStrategy;

use crate::common::broker::MetaqBroker;
use crate::common::group::{Inbox, Run, Subject};
use crate::common::java::{JavaClient, JavaCommand};
use crate::rig::Cluster;

/// Of each broker.
const PARTITIONS: usize = 3;

/// A Java member of the run's group.
struct JavaMember<'a> {
    name: &'static str,
    command: JavaCommand<'a>,
    inbox: Arc<Inbox>,
}

impl<'a> JavaMember<'a> {
    fn join(
        cluster: &'a Cluster,
        client: Option<&'a JavaClient>,
        subject: &Subject,
        run: &mut Run,
        name: &'static str,
    ) -> Self {
        let mut command = cluster.java_member(client, subject, name);
        let inbox = Arc::<Inbox>::default();
        command.feed(Arc::clone(&inbox));
        inbox.await_ready(name);
        run.members.adopt(name, Arc::clone(&inbox));
        Self { name, command, inbox }
    }

    fn leave(self, run: &mut Run) {
        self.command.stop();
        self.inbox.await_end(self.name);
        let last = self.inbox.last().unwrap_or_default();
        assert_eq!(last["exit"], true, "{} left with {last}", self.name);
        run.members.dismiss(self.name);
    }
}

fn run(subject: &Subject) -> Run {
    Run::new(subject.clone(), Box::new(RangeStrategy), &[])
}

#[test]
fn offsets_go_from_java_to_rust_and_back_and_each_goes_on_at_the_very_next_message() {
    let Some(cluster) = Cluster::new("handed-over") else { return };
    let homes = [0, 1].map(|id| cluster.home(id, &[("handed", "numPartitions=3")]));
    let _ours = MetaqBroker::start(&homes[0]);
    let _java = cluster.start_java_broker(&homes[1]);
    let subject = cluster.subject("handed", "group");
    // Java members are held to what ours promise: none of them ends by force or loses its session.
    let mut run = run(&subject);
    for [java, rust] in [["j1", "r1"], ["j2", "r2"]] {
        let member = JavaMember::join(&cluster, None, &subject, &mut run, java);
        run.settle(2 * PARTITIONS);
        member.leave(&mut run);
        // Something has to be left over for whoever comes next.
        run.load.await_further(50);
        run.members.join(rust);
        run.settle(2 * PARTITIONS);
        run.members.leave(rust);
        run.load.await_further(50);
    }
    run.members.join("r3");
    run.end();
}

#[test]
fn java_and_rust_members_share_the_partitions_whoever_of_them_comes_and_goes() {
    let Some(cluster) = Cluster::new("mixed-members") else { return };
    let homes = [0, 1].map(|id| cluster.home(id, &[("mixed", "numPartitions=3")]));
    let all = 2 * PARTITIONS;
    let _ours = MetaqBroker::start(&homes[0]);
    let _java = cluster.start_java_broker(&homes[1]);
    let [doomed, frozen] = [(); 2].map(|()| cluster.another_java_client());
    let subject = cluster.subject("mixed", "members");
    let mut run = run(&subject);
    for name in ["m1", "m3", "m5", "m6"] {
        run.is_java(name);
    }
    let m1 = JavaMember::join(&cluster, None, &subject, &mut run, "m1");
    let m3 = JavaMember::join(&cluster, Some(&doomed), &subject, &mut run, "m3");
    run.members.join_all(["m2", "m4"]);
    run.settle(all);

    run.members.leave("m2");
    run.settle(all);
    run.members.join("m7");
    run.settle(all);
    m1.leave(&mut run);
    run.settle(all);
    let m5 = JavaMember::join(&cluster, None, &subject, &mut run, "m5");
    run.settle(all);
    run.kill("m4");
    run.settle(all);
    run.ends("m3", |members| {
        doomed.kill();
        members.dismiss("m3");
        Instant::now()
    });
    drop(m3);
    run.settle(all);

    let m6 = JavaMember::join(&cluster, Some(&frozen), &subject, &mut run, "m6");
    run.settle(all);
    run.ends("m6", |_| {
        frozen.freeze();
        Instant::now()
    });
    run.settle_without("m6", all);
    run.thawed("m6", Instant::now());
    frozen.thaw();
    run.settle(all);

    run.drain();
    m5.leave(&mut run);
    m6.leave(&mut run);
    run.end();
}

#[test]
fn java_and_rust_members_go_on_when_java_and_rust_brokers_go_and_come_back() {
    let Some(cluster) = Cluster::new("mixed-brokers") else { return };
    let homes = [0, 1].map(|id| cluster.home(id, &[("mixed", "numPartitions=3")]));
    let ours = MetaqBroker::start(&homes[0]);
    let java = cluster.start_java_broker(&homes[1]);
    let subject = cluster.subject("mixed", "brokers");
    let mut run = run(&subject);
    for name in ["m1", "m3"] {
        run.is_java(name);
    }
    let members = ["m1", "m3"].map(|name| JavaMember::join(&cluster, None, &subject, &mut run, name));
    run.members.join_all(["m2", "m4"]);
    run.settle(2 * PARTITIONS);

    ours.stop();
    run.settle(PARTITIONS);
    let ours = MetaqBroker::start(&homes[0]);
    run.settle(2 * PARTITIONS);
    java.stop();
    run.settle(PARTITIONS);
    let java = cluster.start_java_broker(&homes[1]);
    run.settle(2 * PARTITIONS);
    ours.kill();
    run.settle(PARTITIONS);
    let _ours = MetaqBroker::start(&homes[0]);
    run.settle(2 * PARTITIONS);
    java.kill();
    run.settle(PARTITIONS);
    let _java = cluster.start_java_broker_after_kill(&homes[1]);
    run.settle(2 * PARTITIONS);

    run.drain();
    for member in members {
        member.leave(&mut run);
    }
    run.end();
}
