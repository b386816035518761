//! Leaving the group, by wish or because joining has failed.

use tokio::time::Instant;

use super::member::Standing;
use super::state::{JoinError, Left, Phase};
use super::task::Task;
use crate::zk::NotConnected;

/// A member that is leaving.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// It could not join.
    pub(super) because: Option<JoinError>,
    /// When removing nodes is given up; set when everything is released.
    pub(super) remove_by: Option<Instant>,
}

impl Task {
    /// Releases everything; nothing is claimed or read any more.
    pub(super) fn start_leaving(&mut self, because: Option<JoinError>) {
        if self.leaving.is_none() {
            self.leaving = Some(Leaving { because, remove_by: None });
            self.want(Default::default());
        }
    }

    /// Gives joining up when its time is over.
    pub(super) fn check_joining(&mut self) {
        let is_over = self.join_by().is_some_and(|by| by <= Instant::now());
        if is_over {
            let within = self.options.connection_timeout;
            let error = match self.last_failure.take() {
                Some(reason) if self.session.is_some() => JoinError::Unanswered { ms: within.as_millis(), reason },
                _ => NotConnected::Within(within).into(),
            };
            self.start_leaving(Some(error));
        }
    }

    /// When joining is given up. While another consumer has the id, it is not ZooKeeper that one waits for.
    pub(super) fn join_by(&self) -> Option<Instant> {
        let waits = self.connected && matches!(self.member.standing, Standing::Foreign { .. });
        (!self.has_joined && self.leaving.is_none() && !waits).then(|| self.started + self.options.connection_timeout)
    }

    /// The last phase, if it is reached.
    pub(super) fn ended(&mut self) -> Option<Phase> {
        if self.closed && self.leaving.is_none() {
            let because = (!self.has_joined).then(|| NotConnected::Closed.into());
            self.start_leaving(because);
        }
        let has_nodes = self.session.is_some() && (!self.holdings.each.is_empty() || self.member.made_in.is_some());
        let is_busy = has_nodes || self.member.busy;
        let leaving = self.leaving.as_mut()?;
        if !self.releases.is_empty() {
            return None;
        }
        let remove_by = *leaving.remove_by.get_or_insert_with(|| Instant::now() + self.options.remove_timeout);
        if is_busy && Instant::now() < remove_by {
            return None;
        }
        if let Some(error) = leaving.because.take() {
            return Some(Phase::Failed(error));
        }
        let incomplete = || Left::Incomplete {
            reason: match &self.last_failure {
                Some(error) => error.to_string(),
                None => format!("ZooKeeper did not remove them within {} ms", self.options.remove_timeout.as_millis()),
            },
        };
        Some(Phase::Left(if is_busy { incomplete() } else { Left::Complete }))
    }
}
