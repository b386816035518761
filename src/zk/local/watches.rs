//! One-shot watches of connections.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::change::Change;
use super::limits::{MAX_ALL_WATCHES, MAX_WATCHES};
use super::path;
use super::sessions::ConnectionId;

/// What a watch looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A node's data and its existence.
    Data,
    /// A node's list of children.
    Children,
}

/// What has happened to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum EventType {
    Created = 1,
    Deleted = 2,
    DataChanged = 3,
    ChildrenChanged = 4,
}

/// A watch that fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) to: ConnectionId,
    pub(super) what: EventType,
    pub(super) path: String,
}

/// The connection, or all together, have as many watches as they may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyWatches;

/// All watches, by path and by connection.
#[derive(Debug, Default)]
pub(super) struct Watches {
    data: HashMap<Box<str>, BTreeSet<ConnectionId>>,
    children: HashMap<Box<str>, BTreeSet<ConnectionId>>,
    of_connection: HashMap<ConnectionId, HashSet<(Kind, Box<str>)>>,
    count: usize,
}

impl Watches {
    fn of_kind(&mut self, kind: Kind) -> &mut HashMap<Box<str>, BTreeSet<ConnectionId>> {
        match kind {
            Kind::Data => &mut self.data,
            Kind::Children => &mut self.children,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, to: ConnectionId, kind: Kind, path: &str) -> Result<(), TooManyWatches> {
        let own = self.of_connection.entry(to).or_default();
        let key = (kind, path.into());
        if own.contains(&key) {
            return Ok(());
        }
        if own.len() >= MAX_WATCHES || self.count >= MAX_ALL_WATCHES {
            return Err(TooManyWatches);
        }
        own.insert(key);
        self.count += 1;
        self.of_kind(kind).entry(path.into()).or_default().insert(to);
        Ok(())
    }

    pub(super) fn contains(&self, to: ConnectionId, kind: Kind, path: &str) -> bool {
        self.of_connection.get(&to).is_some_and(|own| own.contains(&(kind, path.into())))
    }

    /// Whether there was one to remove.
    pub(super) fn remove(&mut self, to: ConnectionId, kind: Kind, path: &str) -> bool {
        let Some(own) = self.of_connection.get_mut(&to) else { return false };
        if !own.remove(&(kind, path.into())) {
            return false;
        }
        if own.is_empty() {
            self.of_connection.remove(&to);
        }
        self.forget(to, kind, path);
        self.count -= 1;
        true
    }

    /// A connection is gone and with it its watches.
    pub(super) fn remove_all(&mut self, of: ConnectionId) {
        for (kind, path) in self.of_connection.remove(&of).unwrap_or_default() {
            self.forget(of, kind, &path);
            self.count -= 1;
        }
    }

    fn forget(&mut self, of: ConnectionId, kind: Kind, path: &str) {
        let watches = self.of_kind(kind);
        if let Some(watchers) = watches.get_mut(path) {
            watchers.remove(&of);
            if watchers.is_empty() {
                watches.remove(path);
            }
        }
    }

    /// Fires what a change sets off. A connection hears once that a node is gone, whatever it watched of it.
    pub(super) fn fire(&mut self, change: &Change, events: &mut Vec<Event>) {
        match change {
            Change::Create { path, .. } => {
                self.fire_at(Kind::Data, path, EventType::Created, events);
                self.fire_parent(path, events);
            }
            Change::Delete { path } => {
                let gone = events.len();
                self.fire_at(Kind::Data, path, EventType::Deleted, events);
                let mut more = Vec::new();
                self.fire_at(Kind::Children, path, EventType::Deleted, &mut more);
                more.retain(|event| !events[gone..].contains(event));
                events.append(&mut more);
                self.fire_parent(path, events);
            }
            Change::SetData { path, .. } => self.fire_at(Kind::Data, path, EventType::DataChanged, events),
            Change::SetAcl { .. } | Change::OpenSession { .. } | Change::CloseSession { .. } => {}
        }
    }

    fn fire_parent(&mut self, path: &str, events: &mut Vec<Event>) {
        if let Some((parent, _)) = path::split(path) {
            self.fire_at(Kind::Children, parent, EventType::ChildrenChanged, events);
        }
    }

    fn fire_at(&mut self, kind: Kind, path: &str, what: EventType, events: &mut Vec<Event>) {
        for to in self.of_kind(kind).remove(path).unwrap_or_default() {
            if let Some(own) = self.of_connection.get_mut(&to) {
                own.remove(&(kind, path.into()));
                if own.is_empty() {
                    self.of_connection.remove(&to);
                }
            }
            self.count -= 1;
            events.push(Event { to, what, path: path.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn fired(watches: &mut Watches, change: &Change) -> Vec<(ConnectionId, EventType, String)> {
        let mut events = Vec::new();
        watches.fire(change, &mut events);
        events.into_iter().map(|event| (event.to, event.what, event.path)).collect()
    }

    #[test]
    fn a_watch_fires_once_and_a_deletion_is_heard_once() {
        let mut watches = Watches::default();
        watches.add(A, Kind::Data, "/a/b").unwrap();
        watches.add(A, Kind::Children, "/a/b").unwrap();
        watches.add(B, Kind::Children, "/a/b").unwrap();
        watches.add(B, Kind::Children, "/a").unwrap();
        let delete = Change::Delete { path: "/a/b".to_owned() };
        let expected = [
            (A, EventType::Deleted, "/a/b".to_owned()),
            (B, EventType::Deleted, "/a/b".to_owned()),
            (B, EventType::ChildrenChanged, "/a".to_owned()),
        ];
        assert_eq!(fired(&mut watches, &delete), expected);
        assert_eq!(fired(&mut watches, &delete), []);
        assert_eq!(watches.len(), 0);
    }

    #[test]
    fn watches_are_limited_and_go_with_their_connection() {
        let mut watches = Watches::default();
        for i in 0..MAX_WATCHES {
            watches.add(A, Kind::Data, &format!("/{i}")).unwrap();
        }
        assert_eq!(watches.add(A, Kind::Data, "/0"), Ok(()), "it is there already");
        assert_eq!(watches.add(A, Kind::Data, "/x"), Err(TooManyWatches));
        watches.add(B, Kind::Data, "/0").unwrap();
        for i in MAX_WATCHES + 1..MAX_ALL_WATCHES {
            watches.add(ConnectionId(3 + i as u64 / 5_000), Kind::Children, &format!("/{i}")).unwrap();
        }
        assert_eq!(watches.add(B, Kind::Data, "/1"), Err(TooManyWatches), "all together");
        (0..40).for_each(|i| watches.remove_all(ConnectionId(3 + i)));
        watches.remove_all(A);
        assert!(watches.contains(B, Kind::Data, "/0") && watches.len() == 1);
        assert!(watches.remove(B, Kind::Data, "/0") && !watches.remove(B, Kind::Data, "/0"));
        assert!(watches.data.is_empty() && watches.of_connection.is_empty());
    }
}
