//! The time zone of the machine.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::TimeZone;

/// The time zone of this process, as the Java broker takes it: that of the environment variable `TZ`, else the system's
/// (`/etc/localtime`), else UTC.
pub fn local_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

/// What to call a time zone when talking to people: `Europe/Berlin`, or its rule if it has no name.
pub fn zone_name(zone: &TimeZone) -> String {
    let printed = || DateTimePrinter::new().time_zone_to_string(zone).ok();
    zone.iana_name().map(str::to_owned).or_else(printed).unwrap_or_else(|| "/etc/localtime".to_owned())
}

/// A time by the clocks of a zone, with its offset: `2026-12-01T06:00:00+01:00`.
pub fn local_text(time: Timestamp, zone: &TimeZone) -> String {
    time.display_with_offset(zone.to_offset(time)).to_string()
}
