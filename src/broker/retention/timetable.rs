//! When the next run is, and for whom.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::config::CronExpression;

/// The next time of each expression; an expression without one is left out.
#[derive(Debug, Default)]
pub(super) struct Timetable(Vec<(CronExpression, Timestamp)>);

impl Timetable {
    /// The times after a given one, of expressions that may come more than once.
    pub(super) fn new(
        expressions: impl IntoIterator<Item = CronExpression>,
        after: Timestamp,
        zone: &TimeZone,
    ) -> Self {
        let mut expressions: Vec<_> = expressions.into_iter().collect();
        expressions.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        expressions.dedup();
        let time = |expression: CronExpression| {
            let time = expression.next_after(after, zone)?;
            Some((expression, time))
        };
        Self(expressions.into_iter().filter_map(time).collect())
    }

    /// The earliest time.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.iter().map(|&(_, time)| time).min()
    }

    /// The expressions whose time has come.
    pub(super) fn due(&self, now: Timestamp) -> Vec<CronExpression> {
        self.0.iter().filter(|&&(_, time)| time <= now).map(|(expression, _)| expression.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn each_expression_is_due_when_its_own_time_has_come() {
        let texts = ["0 0 6 * * ?", "0 30 5 * * ?", "0 0 6 * * ?", "0 0 6 ? * SUN", "0 0 0 1 1 ? 2020"];
        let expressions = || texts.map(|text| text.parse::<CronExpression>().unwrap());
        let table = |after| Timetable::new(expressions(), at(after), &TimeZone::UTC);
        let due =
            |table: &Timetable, now| -> Vec<String> { table.due(at(now)).iter().map(ToString::to_string).collect() };
        // A Monday.
        let monday = table("2026-11-30T05:00:00Z");
        assert_eq!(monday.next(), Some(at("2026-11-30T05:30:00Z")));
        assert!(due(&monday, "2026-11-30T05:29:59Z").is_empty());
        assert_eq!(due(&monday, "2026-11-30T05:30:00Z"), ["0 30 5 * * ?"]);
        assert_eq!(due(&monday, "2026-11-30T06:00:00Z"), ["0 0 6 * * ?", "0 30 5 * * ?"], "after a long sleep");
        assert_eq!(table("2026-11-30T05:30:00Z").next(), Some(at("2026-11-30T06:00:00Z")));
        assert_eq!(due(&table("2026-12-06T05:45:00Z"), "2026-12-06T06:00:00Z"), ["0 0 6 * * ?", "0 0 6 ? * SUN"]);
        assert_eq!(Timetable::new([], at("2026-12-06T05:45:00Z"), &TimeZone::UTC).next(), None);
    }
}
