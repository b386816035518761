//! One run over all partitions whose time has come.

use std::time::{Instant, SystemTime};

use tracing::{debug, info, warn};

use super::Worker;
use crate::config::{CronExpression, DeletePolicy};
use crate::store::{Disposal, Expired, PartitionLog, RetentionPolicy};

impl Worker {
    /// Deals with the expired segments of all topics with one of the expressions, partition by partition.
    pub(super) fn run(&self, due: &[CronExpression]) {
        // One clock for all: what a long run takes does not make more expire.
        let (now, started) = (SystemTime::now(), Instant::now());
        let mut partitions = self.store.partitions();
        partitions.retain(|partition| due.contains(&self.rules.rule(partition.topic()).when));
        partitions.sort_by(|a, b| a.name().cmp(b.name()));
        info!(partitions = partitions.len(), "retention run begun");
        self.totals().running = true;
        let (mut all, mut failures) = (Expired::default(), 0_u64);
        for partition in partitions {
            if self.is_stopping() {
                break;
            }
            let mut done = Expired::default();
            let failed = u64::from(!self.expire(&partition, now, &mut done));
            all += done;
            failures += failed;
            let mut totals = self.totals();
            totals.segments_removed += done.removed;
            totals.segments_archived += done.archived;
            totals.bytes_freed += done.freed_bytes;
            totals.failures += failed;
        }
        let elapsed = started.elapsed();
        {
            let mut totals = self.totals();
            totals.running = false;
            totals.runs += 1;
            (totals.last_run, totals.last_duration) = (Some(now), Some(elapsed));
        }
        info!(
            segments_removed = all.removed,
            segments_archived = all.archived,
            segment_bytes = all.segment_bytes,
            bytes_freed = all.freed_bytes,
            failures,
            elapsed_ms = elapsed.as_millis(),
            "retention run ended"
        );
    }

    /// Deals with one partition, by another policy from the moment on that it changes; whether nothing went wrong.
    fn expire(&self, partition: &PartitionLog, now: SystemTime, done: &mut Expired) -> bool {
        let in_force = || self.rules.rule(partition.topic()).policy;
        let mut policy = in_force();
        let result = loop {
            let stop = || self.is_stopping() || in_force() != policy;
            let result = self.store.expire_segments(partition, store_policy(policy), now, &stop, done);
            let changed = in_force();
            if changed == policy || result.is_err() || self.is_stopping() {
                break result;
            }
            policy = changed;
        };
        let name = partition.name();
        debug!(
            partition = %name,
            removed = done.removed,
            archived = done.archived,
            segment_bytes = done.segment_bytes,
            bytes_freed = done.freed_bytes,
            "expired segments looked for"
        );
        if let Err(error) = &result {
            warn!(partition = %name, %error, "old segments stay: the next run tries again");
        }
        result.is_ok()
    }
}

/// A delete policy as the store takes it.
fn store_policy(policy: DeletePolicy) -> RetentionPolicy {
    let disposal = match policy {
        DeletePolicy::Delete { .. } => Disposal::Remove,
        DeletePolicy::Archive { compress: false, .. } => Disposal::Archive,
        DeletePolicy::Archive { compress: true, .. } => Disposal::Compress,
    };
    RetentionPolicy { max_age_ms: policy.max_age_ms(), disposal }
}
