//! From the desired state to nodes: pure functions.

use crate::id::{BrokerId, TopicName};
use crate::zk::coordinator::{Node, SessionId};
use crate::zk::format::{TopicBroker, partition_count};
use crate::zk::paths::{Root, TopicTree, master_child};

use super::state::TopicRegistration;

/// An ephemeral node with its data, or one that must not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) path: String,
    pub(super) data: Option<String>,
}

/// The three nodes of a topic in the reference's order; all unwanted if the topic is not served any more (04 §5).
pub(super) fn topic_nodes(
    root: &Root,
    broker: BrokerId,
    topic: &TopicName,
    registration: Option<&TopicRegistration>,
) -> [Wanted; 3] {
    TopicTree::EACH.map(|tree| {
        let data = registration.and_then(|registration| match tree {
            TopicTree::All => Some(partition_count(registration.partitions)),
            TopicTree::Publish if !registration.accept_publish => None,
            TopicTree::Subscribe if !registration.accept_subscribe => None,
            TopicTree::Publish | TopicTree::Subscribe => {
                Some(TopicBroker::to_json(registration.partitions, &master_child(broker)))
            }
        });
        Wanted { path: root.master_topic(tree, topic, broker), data }
    })
}

/// What to do about one ephemeral node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Keep,
    Create,
    Delete,
    /// Delete and make anew: clients watch children, so other data alone would go unnoticed.
    Replace,
}

/// Equal data is not enough: a node of another session goes when that session does.
pub(super) fn step(present: Option<&Node>, wanted: Option<&str>, session: SessionId) -> Step {
    match (present, wanted) {
        (None, None) => Step::Keep,
        (None, Some(_)) => Step::Create,
        (Some(_), None) => Step::Delete,
        (Some(node), Some(data)) if node.data == data.as_bytes() && node.stat.ephemeral_owner == Some(session) => {
            Step::Keep
        }
        (Some(_), Some(_)) => Step::Replace,
    }
}

/// Whose the `master` node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    Free,
    Ours,
    /// Left by an earlier session of this broker.
    Stale,
    /// Of another broker; its data.
    Foreign(String),
}

/// Judges the `master` node.
///
/// `earlier` are the sessions that this process has had before. A node with our address is stale if it belongs to one
/// of them, or if this process was never registered: then it is its predecessor's, since our port is bound. Later on
/// it can only be another process that announces the same address, and two such brokers must not take turns.
pub(super) fn claim(
    present: Option<&Node>,
    url: &str,
    session: SessionId,
    earlier: &[SessionId],
    registered_before: bool,
) -> Claim {
    let Some(node) = present else { return Claim::Free };
    let same_url = node.data == url.as_bytes();
    match node.stat.ephemeral_owner {
        Some(owner) if owner == session && same_url => Claim::Ours,
        Some(owner) if owner == session || earlier.contains(&owner) => Claim::Stale,
        _ if same_url && !registered_before => Claim::Stale,
        _ => Claim::Foreign(String::from_utf8_lossy(&node.data).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zk::coordinator::NodeStat;

    const OURS: SessionId = SessionId(7);
    const EARLIER: SessionId = SessionId(6);
    const STRANGER: SessionId = SessionId(5);
    const URL: &str = "meta://h:1";

    fn node(data: &str, owner: Option<SessionId>) -> Node {
        Node { data: data.as_bytes().to_vec(), stat: NodeStat { version: 0, ephemeral_owner: owner, created: 1 } }
    }

    #[test]
    fn a_topic_has_a_count_for_old_clients_and_json_as_its_flags_say() {
        let broker = BrokerId::new(0).unwrap();
        let topic = TopicName::new("test").unwrap();
        let data = |accept_publish, accept_subscribe| {
            let registration = TopicRegistration { partitions: 12, accept_publish, accept_subscribe };
            topic_nodes(&Root::default(), broker, &topic, Some(&registration)).map(|wanted| wanted.data)
        };
        let json = Some(r#"{"numParts":12,"broker":"0-m"}"#.to_owned());
        let count = Some("12".to_owned());
        assert_eq!(data(true, true), [count.clone(), json.clone(), json.clone()]);
        assert_eq!(data(false, true), [count.clone(), None, json.clone()]);
        assert_eq!(data(true, false), [count, json, None]);
        let removed = topic_nodes(&Root::default(), broker, &topic, None);
        assert!(removed.iter().all(|wanted| wanted.data.is_none()));
        assert_eq!(removed[0].path, "/meta/brokers/topics/test/0-m");
    }

    #[test]
    fn a_node_is_kept_only_if_data_and_session_are_ours() {
        assert_eq!(step(Some(&node("12", Some(OURS))), Some("12"), OURS), Step::Keep);
        assert_eq!(step(Some(&node("12", Some(EARLIER))), Some("12"), OURS), Step::Replace);
        assert_eq!(step(Some(&node("12", None)), Some("12"), OURS), Step::Replace);
        assert_eq!(step(Some(&node("13", Some(OURS))), Some("12"), OURS), Step::Replace);
        assert_eq!(step(None, Some("12"), OURS), Step::Create);
        assert_eq!(step(Some(&node("12", Some(OURS))), None, OURS), Step::Delete);
        assert_eq!(step(None, None, OURS), Step::Keep);
    }

    #[test]
    fn another_broker_s_id_node_is_never_taken() {
        for owner in [Some(STRANGER), None] {
            for before in [false, true] {
                let claim = claim(Some(&node("meta://other:1", owner)), URL, OURS, &[EARLIER], before);
                assert_eq!(claim, Claim::Foreign("meta://other:1".to_owned()), "{owner:?} {before}");
            }
        }
    }

    #[test]
    fn a_predecessor_s_or_an_own_earlier_id_node_is_stale() {
        let judge = |data, owner, before| claim(Some(&node(data, owner)), URL, OURS, &[EARLIER], before);
        assert_eq!(claim(None, URL, OURS, &[], false), Claim::Free);
        assert_eq!(judge(URL, Some(OURS), true), Claim::Ours);
        assert_eq!(judge("x", Some(OURS), true), Claim::Stale);
        assert_eq!(judge(URL, Some(EARLIER), true), Claim::Stale);
        assert_eq!(judge(URL, Some(STRANGER), false), Claim::Stale);
        assert_eq!(judge(URL, None, false), Claim::Stale);
    }

    #[test]
    fn a_second_process_with_the_same_address_is_a_conflict_once_we_were_registered() {
        let claim = claim(Some(&node(URL, Some(STRANGER))), URL, OURS, &[EARLIER], true);
        assert_eq!(claim, Claim::Foreign(URL.to_owned()));
    }
}
