//! What acknowledgements and deliveries must add up to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::{Delivery, Place, Sent};

/// How much later than it was printed a line may be read, on a busy machine.
const SKEW: Duration = Duration::from_secs(3);

/// What one member was handed, in order.
#[derive(Debug, Clone)]
pub struct Log {
    pub member: String,
    pub deliveries: Vec<Delivery>,
}

/// A message that was handed out again.
#[derive(Debug, Clone)]
pub struct Duplicate {
    pub place: Place,
    /// To whom and when for the first time.
    pub first: (String, Instant),
    /// And now.
    pub again: (String, Instant),
}

/// What is left to judge when nothing is wrong.
#[derive(Debug, Default)]
pub struct Outcome {
    pub acknowledged: usize,
    /// Different messages that were handed out, those without an acknowledgement too.
    pub delivered: usize,
    pub duplicates: Vec<Duplicate>,
    /// How often a member went back in a partition.
    pub steps_back: usize,
    /// Where the messages of each partition end.
    pub ends: BTreeMap<(i64, i64), i64>,
}

/// Those of the messages that nobody was handed.
pub fn undelivered(sent: &[Sent], logs: &[Log]) -> Vec<Sent> {
    let delivered: HashSet<_> = logs.iter().flat_map(|log| &log.deliveries).map(|one| one.place).collect();
    sent.iter().filter(|one| !delivered.contains(&one.place)).cloned().collect()
}

/// Checks what holds whatever happens to members and brokers: everything acknowledged was delivered, as it was sent;
/// and no member passed over a message that nobody had got by then.
///
/// # Errors
/// What is wrong, for people.
pub fn check(sent: &[Sent], logs: &[Log]) -> Result<Outcome, String> {
    if let Some(lost) = undelivered(sent, logs).first() {
        return Err(format!("lost: {lost:?}"));
    }
    let copies = copies(sent, logs)?;
    let mut outcome = Outcome { acknowledged: sent.len(), delivered: copies.len(), ..Outcome::default() };
    for log in logs {
        outcome.steps_back += check_order(log, &copies)?;
    }
    for (place, copies) in &copies {
        let (first, again) = copies.split_first().ok_or("no copy")?;
        let end = outcome.ends.entry(place.partition()).or_default();
        *end = first.end.max(*end);
        outcome.duplicates.extend(again.iter().map(|again| Duplicate {
            place: *place,
            first: (first.member.to_owned(), first.at),
            again: (again.member.to_owned(), again.at),
        }));
    }
    outcome.duplicates.sort_by_key(|one| one.again.1);
    Ok(outcome)
}

#[derive(Debug)]
struct Copy<'a> {
    member: &'a str,
    at: Instant,
    end: i64,
}

type Copies<'a> = HashMap<Place, Vec<Copy<'a>>>;

/// Each delivery of each message, the earliest first.
fn copies<'a>(sent: &[Sent], logs: &'a [Log]) -> Result<Copies<'a>, String> {
    let mut contents: HashMap<Place, (i64, &[u8])> =
        sent.iter().map(|one| (one.place, (one.id, &one.payload[..]))).collect();
    let mut copies = Copies::new();
    for log in logs {
        for one in &log.deliveries {
            let content = (one.id, &one.payload[..]);
            let known = contents.entry(one.place).or_insert(content);
            if *known != content {
                return Err(format!("{} was handed {one:?} instead of {known:?}", log.member));
            }
            copies.entry(one.place).or_default().push(Copy { member: &log.member, at: one.at, end: one.end() });
        }
    }
    copies.values_mut().for_each(|copies| copies.sort_by_key(|copy| copy.at));
    Ok(copies)
}

/// Within a partition a member goes on where it is, or behind what others were handed meanwhile. Going back is counted.
fn check_order(log: &Log, copies: &Copies<'_>) -> Result<usize, String> {
    let mut steps_back = 0;
    let mut last = HashMap::<(i64, i64), &Delivery>::new();
    for one in &log.deliveries {
        let Some(before) = last.insert(one.place.partition(), one) else { continue };
        if one.place.offset <= before.place.offset {
            steps_back += 1;
            continue;
        }
        let mut place = Place { offset: before.end(), ..one.place };
        while place.offset < one.place.offset {
            let others = copies.get(&place).into_iter().flatten();
            let earlier = others.filter(|copy| copy.at <= one.at + SKEW).map(|copy| copy.end).max();
            let Some(end) = earlier else {
                return Err(format!("{} passed over {place:?} on the way to {one:?}", log.member));
            };
            place.offset = end;
        }
        if place.offset != one.place.offset {
            return Err(format!("{} was handed {one:?}, which is no place of a message", log.member));
        }
    }
    Ok(steps_back)
}
