//! Memory for what was fetched and is not handled yet.

/// Bytes that may be fetched or waiting for listeners at the same time.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    used: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, used: 0 }
    }

    /// Takes `bytes` if they fit; a single request fits always, whatever its size.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = self.used == 0 || self.used.checked_add(bytes).is_some_and(|used| used <= self.limit);
        if fits {
            self.add(bytes);
        }
        fits
    }

    /// Takes `bytes` that are there already.
    pub(super) fn add(&mut self, bytes: usize) {
        self.used = self.used.saturating_add(bytes);
    }

    /// Gives `bytes` back.
    pub(super) fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_reserved_and_a_single_request_beyond_the_limit_goes_alone() {
        let mut budget = Budget::new(100);
        assert!(budget.reserve(60));
        assert!(!budget.reserve(41));
        assert!(budget.reserve(40));
        budget.release(60);
        assert!(!budget.reserve(101));
        budget.release(40);
        assert!(budget.reserve(101));
        assert!(!budget.reserve(1));
    }

    #[test]
    fn what_came_without_a_reservation_counts() {
        let mut budget = Budget::new(100);
        budget.add(150);
        assert!(!budget.reserve(1));
        budget.release(60);
        assert!(budget.reserve(10));
        assert!(!budget.reserve(1));
    }
}
