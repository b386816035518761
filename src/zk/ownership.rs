//! Whose an owner node is: the one rule for everybody who asks.

use super::coordinator::{Node, SessionId};

/// Whether an owner node makes a member of a group the owner of the partition (04 §9): it belongs to the member's present
/// session *and* names the member.
///
/// The session alone is not enough. A Java member looks at the data only, and takes a node that names it for its own
/// whatever the session: whoever is named reads the partition, and nobody else may. The name alone is not enough either:
/// the node of an earlier session goes with that, at any moment.
pub(crate) fn is_owned_by(node: &Node, consumer_id: &str, session: SessionId) -> bool {
    node.stat.ephemeral_owner == Some(session) && node.data == consumer_id.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zk::NodeStat;

    fn node(data: &str, owner: Option<i64>) -> Node {
        let stat = NodeStat { version: 0, ephemeral_owner: owner.map(SessionId), created: 1 };
        Node { data: data.as_bytes().to_vec(), stat }
    }

    #[test]
    fn an_owner_node_is_of_the_member_that_it_names_in_the_session_that_made_it() {
        assert!(is_owned_by(&node("g_a", Some(7)), "g_a", SessionId(7)));
        for other in [node("g_b", Some(7)), node("g_a", Some(8)), node("g_a", None), node("", Some(7))] {
            assert!(!is_owned_by(&other, "g_a", SessionId(7)), "{other:?}");
        }
    }
}
