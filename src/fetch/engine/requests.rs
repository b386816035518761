//! What the handle asks for.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::info;

use crate::fetch::event::FetchEvent;
use crate::fetch::state::{PartitionState, Released};
use crate::fetch::{FetchError, SeekTo};
use crate::id::{Offset, TopicPartition};
use crate::zk::Term;

use super::command::Command;
use super::commits::Then;
use super::scheduler::Scheduler;
use super::slot::{Key, Slot, Stage};

impl Scheduler {
    pub(super) fn carry_out(&mut self, command: Command) {
        let now = Instant::now();
        // A caller that is gone has no use for the answer.
        match command {
            Command::Add { of, size, term } => {
                if !self.stopping {
                    for of in &of {
                        self.add(of, size, term.clone(), now);
                    }
                }
            }
            Command::Release { of, reply } => self.release(&of, reply, false),
            Command::Lose { of } => self.lose(&of),
            // Whatever waits for it goes on with the next turn.
            Command::Fenced => {}
            Command::Commit { reply } => self.commits.want(None, Then::Caller(reply)),
            Command::Pause { of, pause, reply } => {
                for of in &of {
                    self.pause(of, pause, now);
                }
                let _caller_gone = reply.send(());
            }
            Command::Seek { of, to, reply } => {
                let _caller_gone = reply.send(self.seek(&of, to, now));
            }
            Command::States { of, reply } => {
                let _caller_gone = reply.send(self.states(of.as_ref()));
            }
            Command::Stop { reply } => self.stop(reply),
            #[cfg(test)]
            Command::Fault => panic!("a fault"),
        }
    }

    /// Takes a partition in; one that is here already stays as it is, one that leaves comes back when it has left.
    pub(super) fn add(&mut self, of: &TopicPartition, size: i32, term: Option<Term>, now: Instant) {
        if let Some(slot) = self.slots.get_mut(of) {
            if slot.leaving {
                slot.again = Some((size, term));
            } else {
                slot.term = term;
            }
            return;
        }
        self.incarnations += 1;
        let key = Arc::new(of.clone());
        self.slots.insert(Arc::clone(&key), Slot::new(self.incarnations, size, term));
        self.schedule(&key, now);
    }

    fn stop(&mut self, reply: oneshot::Sender<Released>) {
        self.stopping = true;
        let all: Vec<_> = self.slots.keys().map(|of| TopicPartition::clone(of)).collect();
        self.release(&all, reply, true);
    }

    fn key(&self, of: &TopicPartition) -> Option<Key> {
        self.slots.get_key_value(of).map(|(key, _)| Arc::clone(key))
    }

    pub(super) fn pause(&mut self, of: &TopicPartition, pause: bool, now: Instant) {
        let Some(key) = self.key(of) else { return };
        let Some(slot) = self.slots.get_mut(of) else { return };
        if slot.leaving || std::mem::replace(&mut slot.paused, pause) == pause {
            return;
        }
        match (pause, &slot.stage) {
            (true, Stage::Loading(_)) => {}
            (true, _) => {
                slot.stop_delivery();
                self.rest(of);
            }
            (false, Stage::Idle) => self.schedule(&key, now),
            (false, _) => {}
        }
    }

    fn seek(&mut self, of: &TopicPartition, to: SeekTo, now: Instant) -> Result<(), FetchError> {
        let key = self.key(of).ok_or_else(|| FetchError::NotAssigned(of.clone()))?;
        self.apply_progress(&key);
        let slot = self.slots.get_mut(of).filter(|slot| !slot.leaving);
        let slot = slot.ok_or_else(|| FetchError::NotAssigned(of.clone()))?;
        let Some(request) = &mut slot.request else {
            slot.seek = Some(to);
            info!(group = %self.group, partition = %of, %to, "is to begin where the user wants");
            return Ok(());
        };
        let from = request.position().offset;
        info!(group = %self.group, partition = %of, %from, %to, "goes on where the user wants");
        request.seek(to.offset());
        slot.stop_delivery();
        let is_delivering = match &mut slot.stage {
            Stage::Delivering { stale, .. } => {
                *stale = true;
                true
            }
            _ => false,
        };
        // Where the end is nobody knows before the broker has said it.
        let from = if from == Offset::LATEST { Offset::ZERO } else { from };
        self.tell(&FetchEvent::Sought { of: Arc::clone(&key), from });
        if is_delivering {
            return Ok(());
        }
        self.rest(of);
        self.schedule(&key, now);
        Ok(())
    }

    fn states(&mut self, of: Option<&TopicPartition>) -> Vec<PartitionState> {
        let mut keys: Vec<_> = match of {
            Some(of) => self.key(of).into_iter().collect(),
            None => self.slots.keys().cloned().collect(),
        };
        keys.sort();
        for key in &keys {
            self.apply_progress(key);
        }
        keys.iter().filter_map(|key| Some(self.slots.get(&**key)?.state(key))).collect()
    }
}
