//! Requests that change nodes: single operations and `multi`.

use std::cmp::Ordering;

use crate::zk::local::change::Change;
use crate::zk::local::code::Code;
use crate::zk::local::engine::Engine;
use crate::zk::local::jute::Writer;
use crate::zk::local::requests::Operation;
use crate::zk::local::tree::{Moment, Undo};
use crate::zk::local::wire;

/// What an operation has changed, enough to tell of it or to take it back.
struct Done {
    operation: i32,
    with_stat: bool,
    change: Option<Change>,
    path: String,
    undo: Option<Undo>,
}

impl Engine {
    /// Carries one operation out, writes the body of the answer, or tells the error.
    pub(super) fn change(&mut self, operation: Operation, session: i64, time: i64, w: &mut Writer) -> Result<(), Code> {
        let is_check = matches!(operation, Operation::Check { .. });
        let done = self.execute(operation, session, (self.next_zxid, time))?;
        self.write_result(&done, is_check, w);
        if let Some(change) = done.change {
            self.record(vec![change], time);
        }
        Ok(())
    }

    /// All operations or none. The answer has a result for each.
    pub(super) fn multi(&mut self, operations: Vec<Operation>, session: i64, time: i64, w: &mut Writer) {
        let mut done = Vec::new();
        let count = operations.len();
        let mut failed = None;
        for operation in operations {
            match self.execute(operation, session, (self.next_zxid, time)) {
                Ok(one) => {
                    let mut result = Writer::default();
                    self.write_result(&one, false, &mut result);
                    done.push((one, result));
                }
                Err(code) => {
                    failed = Some(code);
                    break;
                }
            }
        }
        if let Some(code) = failed {
            let at = done.len();
            done.into_iter().rev().filter_map(|(one, _)| one.undo).for_each(|undo| self.state.tree.undo(undo));
            for i in 0..count {
                let code = match i.cmp(&at) {
                    Ordering::Less => 0,
                    Ordering::Equal => code.number(),
                    Ordering::Greater => Code::RuntimeInconsistency.number(),
                };
                wire::multi_header(w, -1, false, code);
                w.int(code);
            }
        } else {
            let mut changes = Vec::new();
            for (one, result) in done {
                wire::multi_header(w, one.operation, false, 0);
                w.raw(result.bytes());
                changes.extend(one.change);
            }
            if !changes.is_empty() {
                self.record(changes, time);
            }
        }
        wire::multi_header(w, -1, true, -1);
    }

    fn execute(&mut self, operation: Operation, session: i64, at: Moment) -> Result<Done, Code> {
        let (code, with_stat) = (operation.code(), matches!(operation, Operation::Create { with_stat: true, .. }));
        let checked = match &operation {
            Operation::Check { path, .. } => path.clone(),
            _ => String::new(),
        };
        let change = self.state.tree.prepare(operation, session)?;
        let undo = match &change {
            Some(change) => self.state.tree.apply(change, at).map_err(|_| Code::RuntimeInconsistency)?,
            None => None,
        };
        let path = match &change {
            Some(
                Change::Create { path, .. }
                | Change::Delete { path }
                | Change::SetData { path, .. }
                | Change::SetAcl { path, .. },
            ) => path.clone(),
            _ => checked,
        };
        Ok(Done { operation: code, with_stat, change, path, undo })
    }

    /// What the answer says of one operation. A check tells something only if it stands alone.
    fn write_result(&self, done: &Done, is_lone_check: bool, w: &mut Writer) {
        let (path, stat) = match &done.change {
            Some(Change::Create { .. }) => (true, done.with_stat),
            Some(Change::SetData { .. } | Change::SetAcl { .. }) => (false, true),
            Some(_) => (false, false),
            None => (false, is_lone_check),
        };
        if path {
            w.text(&done.path);
        }
        if let (true, Ok(node)) = (stat, self.state.tree.get(&done.path)) {
            node.write_stat(w);
        }
    }
}
