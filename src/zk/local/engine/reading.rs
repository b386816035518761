//! Requests that change no node: reading, and what has to do with watches.

use crate::zk::local::code::Code;
use crate::zk::local::engine::Engine;
use crate::zk::local::jute::Writer;
use crate::zk::local::path;
use crate::zk::local::requests::{Request, Watched, WatchesOf};
use crate::zk::local::sessions::ConnectionId;
use crate::zk::local::watches::{Event, EventType, Kind, TooManyWatches};

impl Engine {
    /// Writes the body of the answer, or tells the error.
    pub(super) fn read(
        &mut self,
        id: ConnectionId,
        request: Request,
        w: &mut Writer,
    ) -> Result<Result<(), Code>, TooManyWatches> {
        let path = match &request {
            Request::Exists { path, .. }
            | Request::GetData { path, .. }
            | Request::GetAcl { path }
            | Request::GetChildren { path, .. }
            | Request::Sync { path }
            | Request::CheckWatches(WatchesOf { path, .. })
            | Request::RemoveWatches(WatchesOf { path, .. }) => path.as_str(),
            Request::SetWatches(watched) => return self.set_watches(id, watched),
            _ => return Ok(Err(Code::Unimplemented)),
        };
        if let Err(code) = path::check(path) {
            return Ok(Err(code));
        }
        let node = self.state.tree.get(path);
        let watch = match (&request, &node) {
            // Of a node that is not there, too.
            (Request::Exists { watch: true, .. }, _) | (Request::GetData { watch: true, .. }, Ok(_)) => {
                Some(Kind::Data)
            }
            (Request::GetChildren { watch: true, .. }, Ok(_)) => Some(Kind::Children),
            _ => None,
        };
        if let Some(kind) = watch {
            self.watches.add(id, kind, path)?;
        }
        Ok(match (&request, node) {
            (Request::Sync { .. }, _) => {
                w.text(path);
                Ok(())
            }
            (Request::CheckWatches(of), _) => self.own_watches(id, of).map(|_| ()),
            (Request::RemoveWatches(of), _) => self.own_watches(id, of).map(|kinds| {
                for kind in kinds {
                    self.watches.remove(id, kind, path);
                }
            }),
            (_, Err(code)) => Err(code),
            (Request::GetData { .. }, Ok(node)) => {
                w.buffer(node.data.as_deref());
                node.write_stat(w);
                Ok(())
            }
            (Request::GetAcl { .. }, Ok(node)) => {
                node.acl.write(w);
                node.write_stat(w);
                Ok(())
            }
            (Request::GetChildren { with_stat, .. }, Ok(node)) => {
                w.texts(node.children.iter().map(|name| &**name));
                if *with_stat {
                    node.write_stat(w);
                }
                Ok(())
            }
            (_, Ok(node)) => {
                node.write_stat(w);
                Ok(())
            }
        })
    }

    fn own_watches(&self, id: ConnectionId, of: &WatchesOf) -> Result<Vec<Kind>, Code> {
        let has = |kind: &&Kind| self.watches.contains(id, **kind, &of.path);
        let own: Vec<_> = of.kinds?.iter().filter(has).copied().collect();
        if own.is_empty() { Err(Code::NoWatcher) } else { Ok(own) }
    }

    /// Puts the watches of an earlier connection back; those that should have fired since then fire now.
    fn set_watches(&mut self, id: ConnectionId, watched: &Watched) -> Result<Result<(), Code>, TooManyWatches> {
        let tree = &self.state.tree;
        let event_of = |kind: Kind, was_absent: bool, path: &String| match tree.get(path) {
            Ok(_) if was_absent => Some(EventType::Created),
            Err(_) if was_absent => None,
            Err(_) => Some(EventType::Deleted),
            Ok(node) => match kind {
                Kind::Data => (node.modified.0 > watched.since).then_some(EventType::DataChanged),
                Kind::Children => (node.children_modified > watched.since).then_some(EventType::ChildrenChanged),
            },
        };
        let all = [(Kind::Data, false, &watched.data), (Kind::Data, true, &watched.absent)];
        let mut events = Vec::new();
        for (kind, was_absent, paths) in all.into_iter().chain([(Kind::Children, false, &watched.children)]) {
            for path in paths {
                if let Err(code) = path::check(path) {
                    return Ok(Err(code));
                }
                match event_of(kind, was_absent, path) {
                    Some(what) => events.push(Event { to: id, what, path: path.clone() }),
                    None => self.watches.add(id, kind, path)?,
                }
            }
        }
        self.tell(&events);
        Ok(Ok(()))
    }
}
