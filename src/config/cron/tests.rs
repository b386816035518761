use jiff::SignedDuration;
use jiff::civil::{DateTime, datetime};
use proptest::prelude::*;

use super::*;

/// What the recorded times come after.
const RECORDED_AFTER: DateTime = datetime(2026, 11, 30, 17, 30, 0, 0);

fn cron(text: &str) -> CronExpression {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    text.parse::<CronExpression>().expect_err(text).to_string()
}

fn utc(local: DateTime) -> Timestamp {
    TimeZone::UTC.to_timestamp(local).unwrap()
}

/// Times in UTC, in the form of the recording.
fn times(text: &str, after: DateTime, count: usize) -> Vec<String> {
    let times = cron(text).times_after(utc(after), &TimeZone::UTC).take(count);
    times.map(|time| TimeZone::UTC.to_datetime(time).to_string()).collect()
}

/// Compares with what Quartz made of the same expressions.
fn compare(recording: &str) -> usize {
    let mut compared = 0;
    for line in recording.lines() {
        let (text, expected) = line.split_once(" => ").expect(line);
        match expected.strip_prefix("ERR ") {
            Some(reason) => {
                let found = refusal(text);
                assert!(found.starts_with(reason), "'{text}': '{found}' does not begin with '{reason}'");
            }
            None => {
                let expected: Vec<&str> = expected.split(' ').filter(|time| *time != "END").collect();
                assert_eq!(times(text, RECORDED_AFTER, 6), expected, "{text}");
            }
        }
        compared += 1;
    }
    compared
}

#[test]
fn written_expressions_mean_what_they_mean_to_quartz() {
    assert_eq!(compare(include_str!("../../../tests/fixtures/cron/quartz-written.txt")), 37);
}

#[test]
fn random_expressions_mean_what_they_mean_to_quartz() {
    assert_eq!(compare(include_str!("../../../tests/fixtures/cron/quartz-random-1000.txt")), 1000);
}

#[test]
fn days_before_the_last_and_days_behind_the_last_follow_quartz() {
    let from = datetime(2027, 1, 1, 0, 0, 0, 0);
    assert_eq!(times("0 0 0 L-3 * ?", from, 3), ["2027-01-28T00:00:00", "2027-02-25T00:00:00", "2027-03-28T00:00:00"]);
    // 28 March is a Sunday, and the Monday behind it is nearer than the Friday before.
    assert_eq!(times("0 0 0 L-3W 3 ?", from, 1), ["2027-03-29T00:00:00"]);
    assert_eq!(times("0 0 0 L-30 2,3 ?", from, 1), ["2027-03-01T00:00:00"]);
    // 1 May 2027 is a Saturday: so is, to Quartz, 31 April.
    assert_eq!(times("0 0 0 31W 4,5 ?", from, 2), ["2027-04-30T00:00:00", "2027-05-31T00:00:00"]);
    assert_eq!(times("0 0 0 2,15W 5 ?", from, 1), ["2027-05-03T00:00:00"], "the smallest day");
}

#[test]
fn odd_spellings_are_read_as_quartz_reads_them() {
    for (odd, usual) in [
        ("0 0 0 ? jan-mar mon", "0 0 0 ? 1,2,3 2"),
        ("0\t0 0 1,,2, * ?", "0 0 0 1,2 * ?"),
        ("/20 0 0 * * ?", "0,20,40 0 0 * * ?"),
        ("*/0 5/0 0 * * ?", "* 5 0 * * ?"),
        ("0 0 5-10/0 * * ?", "0 0 5 * * ?"),
        ("0 0 0 ? * 6-0", "0 0 0 ? * 6,7"),
        ("0 0 0 1 1 ? */100", "0 0 0 1 1 ? 1970,2070,2170,2270"),
    ] {
        assert_eq!(cron(odd).schedule, cron(usual).schedule, "{odd}");
        assert_ne!(cron(odd), cron(usual), "equal by text");
    }
    assert_eq!(CronExpression::twice_a_day().schedule, cron(CronExpression::twice_a_day().as_str()).schedule);
}

#[test]
fn what_quartz_ignores_or_fails_on_later_is_refused_with_the_place() {
    for (text, expected) in [
        ("0 0 6x * * ?", "Unexpected character: X (in the field hour, '6X')"),
        ("0 0 0 ? * MON-FRI/2", "a step cannot follow a name: write numbers (in the field day of week, 'MON-FRI/2')"),
        ("0 0 0 ? * MON/2", "a step cannot follow a name"),
        ("0 0 0 ? * MON-5", "Invalid day of week value: '5'"),
        ("0 0 0 ? * 2-FRI", "Unexpected character: F"),
        ("0 0 0 ? XYZ MON", "Invalid month value: 'XYZ'"),
        ("0 0 0 ? * ?,2", "'?' can only be specified for Day-of-Month or Day-of-Week, and stands alone there."),
        ("? 0 0 ? * 2", "'?' can only be specified"),
        ("0 0 L * * ?", "'L' option is not valid here. (in the field hour, 'L')"),
        ("0 0 0 5L * ?", "'L' option is not valid here."),
        ("0 5W 0 * * ?", "'W' option is not valid here."),
        ("0 0 0 0W * ?", "Day of month values must be between 1 and 31"),
        ("0 0 0 ? * 8L", "Day-of-Week values must be between 1 and 7"),
        ("0 0 0 ? * 2#6", "A numeric value between 1 and 5 must follow the '#' option"),
        ("0 0 0 ? * 2#1,3#2", "Support for specifying multiple \"nth\" days is not implemented."),
        ("0 0 0 ? * L,2", "Support for specifying 'L' with other days of the week is not implemented"),
        ("0 0 0 L-31 * ?", "Offset from last day must be <= 30"),
        ("0 0 0 L- * ?", "Unexpected end of string."),
        ("0 */60 * * * ?", "Increment > 59 : 60 (in the field minute, '*/60')"),
        ("0 5/ * * * ?", "'/' must be followed by an integer."),
        ("0 */x * * * ?", "'/' must be followed by an integer."),
        (", 0 0 * * ?", "Unexpected end of string."),
        ("0 0 99999999999 * * ?", "Hour values must be between 0 and 23"),
        ("0 0 0 1 1 ? 1969", "Year values must be between 1970 and 2299"),
        ("0 0 0 1 1 ? 2030-2027", "Start year must be less than stop year"),
        ("0 0 0 1 1 ? 2030 *", "the expression has 8 fields"),
        ("", "Unexpected end of expression. It has 0 of the fields"),
        ("0 0 0 * * 2", "Support for specifying both"),
        ("0 0 0 ü * ?", "Unexpected character: ü"),
    ] {
        assert!(refusal(text).starts_with(expected), "{text}: {}", refusal(text));
    }
}

#[test]
fn only_whole_seconds_later_than_the_given_time_count() {
    let at = utc(RECORDED_AFTER);
    let every_second = cron("* * * * * ?");
    let next = |after| every_second.next_after(after, &TimeZone::UTC).unwrap();
    assert_eq!(next(at), at + SignedDuration::from_secs(1));
    assert_eq!(next(at + SignedDuration::from_millis(1)), at + SignedDuration::from_secs(1));
    assert_eq!(next(at - SignedDuration::from_millis(1)), at);
}

#[test]
fn a_time_that_clocks_skip_is_left_out_and_one_that_comes_twice_counts_the_second_time() {
    // The rule of New York: 14 March and 7 November in 2027.
    let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
    let shown = |text: &str, after: Timestamp, count| -> Vec<String> {
        cron(text).times_after(after, &zone).take(count).map(|time| time.to_string()).collect()
    };
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    assert_eq!(
        shown("0 30 2 * * ?", at("2027-03-13T00:00:00-05:00"), 2),
        ["2027-03-13T07:30:00Z", "2027-03-15T06:30:00Z"]
    );
    assert_eq!(
        shown("0 30 1 * * ?", at("2027-11-06T12:00:00-04:00"), 2),
        ["2027-11-07T06:30:00Z", "2027-11-08T06:30:00Z"]
    );
    // Hourly: nothing at 1:00 daylight time, everything at 1:00 standard time.
    assert_eq!(
        shown("0 0 * * * ?", at("2027-11-07T03:30:00Z"), 4),
        ["2027-11-07T04:00:00Z", "2027-11-07T06:00:00Z", "2027-11-07T07:00:00Z", "2027-11-07T08:00:00Z"]
    );
    // Also for someone who asks between the two.
    assert_eq!(shown("0 15 * * * ?", at("2027-11-07T05:45:00Z"), 1), ["2027-11-07T06:15:00Z"]);
    assert_eq!(shown("0 15 * * * ?", at("2027-11-07T06:15:00Z"), 1), ["2027-11-07T07:15:00Z"]);
}

#[test]
fn a_zone_has_a_name_for_people() {
    assert_eq!(zone_name(&TimeZone::UTC), "UTC");
    assert_eq!(zone_name(&TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap()), "EST5EDT,M3.2.0,M11.1.0");
}

/// Texts of the characters that mean something.
fn any_text() -> impl Strategy<Value = String> {
    let item = prop_oneof![
        3 => "[0-9]{1,2}",
        1 => Just("*".to_owned()),
        1 => Just("?".to_owned()),
        1 => "[0-9]{1,2}-[0-9]{1,2}(/[0-9])?",
        1 => "([0-9]{1,2}|\\*)/[0-9]{1,2}",
        1 => "(MON|FRI|JAN|DEC|SUN)(-(SAT|MAR))?(L|#[1-5])?",
        1 => "(L|LW|L-[0-9]|[0-9]W|[1-7]L|[1-7]#[1-5])",
        1 => "[0-9A-Za-zäß*?/,#@-]{0,4}",
    ];
    prop::collection::vec(item, 0..9).prop_map(|fields| fields.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_read_or_refused_and_times_ascend_and_match(text in any_text(), start in 0_i64..9_000_000_000) {
        let Ok(cron) = text.parse::<CronExpression>() else { return Ok(()) };
        let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
        let mut last = Timestamp::from_second(start).unwrap();
        for time in cron.times_after(last, &zone).take(5) {
            prop_assert!(time > last);
            let local = zone.to_datetime(time);
            let schedule = &cron.schedule;
            prop_assert!(schedule.seconds.contains(&local.second()) && schedule.minutes.contains(&local.minute()));
            prop_assert!(schedule.hours.contains(&local.hour()) && schedule.months.contains(&local.month()));
            prop_assert!(schedule.years.contains(&local.year()));
            prop_assert!(schedule.days.of_month(local.date().first_of_month()).contains(&local.day()));
            last = time;
        }
    }
}
