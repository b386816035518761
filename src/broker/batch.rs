//! What one pass over the input of a connection brought.

use super::outbound::Answers;
use super::processor::AtEnd;
use crate::store::AppendGroup;

/// What a command counts beyond its body: its bookkeeping and a typical answer.
pub(super) const COMMAND_BYTES: usize = 512;

/// A batch is handed over when it has come to this size, so that a flood of small commands is answered in portions and
/// other connections have their turn in between.
const BATCH_BYTES: usize = 256 << 10;

/// What gathering statistics counts towards the size of a batch: it takes far longer than another command.
const STATISTICS_BYTES: usize = 16 << 10;

/// Answers that are ready, and puts that wait for the disk.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) answers: Answers,
    /// Accepted puts in the order of arrival; the token of each is its opaque.
    pub(super) puts: AppendGroup,
    /// Gets that are to wait for messages.
    pub(super) held: Vec<AtEnd>,
    commands: usize,
    extra: usize,
}

impl Batch {
    /// Whether nothing was done yet.
    pub(super) fn is_empty(&self) -> bool {
        self.commands == 0
    }

    /// Counts a command, whatever becomes of it.
    pub(super) fn count_command(&mut self) {
        self.commands += 1;
    }

    /// Counts a command that gathers statistics as the work it is.
    pub(super) fn count_statistics(&mut self) {
        self.extra += STATISTICS_BYTES;
    }

    /// Whether it should be handed over before the next command.
    pub(super) fn is_full(&self) -> bool {
        self.answers.buffered() + self.puts.bytes() + self.commands * COMMAND_BYTES + self.extra >= BATCH_BYTES
    }

    /// What the commands with a ready answer count against the connection's limit.
    pub(super) fn answers_cost(&self) -> usize {
        self.answers.buffered() + (self.commands - self.puts.len()) * COMMAND_BYTES
    }

    /// What the puts count against limits of bytes in flight.
    pub(super) fn puts_cost(&self) -> usize {
        self.puts.bytes() + self.puts.len() * COMMAND_BYTES
    }
}
