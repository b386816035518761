use std::num::NonZeroUsize;

use bytes::Bytes;

use super::*;
use crate::client::consumer::reject::LogRejected;
use crate::fetch::RecentMessages;
use crate::id::MessageId;

/// Bytes of each message of these tests.
const LENGTH: i64 = 30;

fn partition() -> TopicPartition {
    TopicPartition { topic: "t".parse().unwrap(), partition: "0-0".parse().unwrap() }
}

/// Messages by their number: ids and offsets follow from it.
fn batch(numbers: impl IntoIterator<Item = i64>) -> Batch {
    let from = Arc::new(partition());
    let message = |number: i64| ReceivedMessage {
        from: Arc::clone(&from),
        offset: Offset::new(number * LENGTH),
        next_offset: Offset::new((number + 1) * LENGTH),
        id: MessageId::new(number),
        attribute: None,
        payload: Bytes::new(),
        redeliveries: 0,
    };
    Batch::new(numbers.into_iter().map(message).collect(), None)
}

/// A consumer whose listener writes down the numbers of what it handles.
fn dispatch(seen: Arc<dyn MessageIdCache>) -> (Dispatch, Arc<Mutex<Vec<i64>>>) {
    let handled: Arc<Mutex<Vec<i64>>> = Arc::default();
    let note = Arc::clone(&handled);
    let listener = move |message: ReceivedMessage| {
        lock(&note).push(message.id.get());
        async {}
    };
    let handler = Handler::OneByOne(OneByOne::Listener(Box::new(listener)));
    let subscription = Subscription { max_size: 1024, filter: None, handler };
    let subscriptions = HashMap::from([(partition().topic, subscription)]);
    let group = GroupName::new("g").unwrap();
    (Dispatch::new(group, subscriptions, Arc::new(LogRejected), Some(seen)), handled)
}

fn cached() -> (Dispatch, Arc<Mutex<Vec<i64>>>) {
    dispatch(Arc::new(RecentMessages::new(NonZeroUsize::new(100).unwrap())))
}

fn taken(handled: &Mutex<Vec<i64>>) -> Vec<i64> {
    std::mem::take(&mut *lock(handled))
}

fn seek(dispatch: &Dispatch, position: i64) {
    let before = dispatch.before_seek(&partition());
    dispatch.after_seek(&partition(), Offset::new(position * LENGTH), before);
}

#[tokio::test]
async fn what_is_read_again_on_purpose_is_delivered_also_after_the_partition_was_away() {
    let (dispatch, handled) = cached();
    dispatch.deliver(&batch(0..6)).await;
    seek(&dispatch, 6);
    dispatch.deliver(&batch(0..2)).await;
    dispatch.given_up(&partition());
    taken(&handled);
    // It comes back where another member has got to.
    dispatch.deliver(&batch(3..6)).await;
    assert_eq!(taken(&handled), [3, 4, 5]);
    // That was the end of it: what comes once more is hidden.
    dispatch.deliver(&batch([6])).await;
    dispatch.deliver(&batch(4..7)).await;
    assert_eq!(taken(&handled), [6]);
    dispatch.given_up(&partition());
    assert!(lock(&dispatch.progress).is_empty(), "nothing is kept of a partition without need");
}

#[tokio::test]
async fn a_second_seek_before_the_first_is_through_forgets_nothing_of_it() {
    let (dispatch, handled) = cached();
    dispatch.deliver(&batch(0..6)).await;
    seek(&dispatch, 6);
    dispatch.deliver(&batch(0..2)).await;
    dispatch.given_up(&partition());
    seek(&dispatch, 2);
    taken(&handled);
    dispatch.deliver(&batch(0..6)).await;
    assert_eq!(taken(&handled), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn of_two_seeks_at_the_same_time_neither_makes_the_suppression_end() {
    let (dispatch, handled) = cached();
    dispatch.deliver(&batch(0..6)).await;
    let (one, two) = (dispatch.before_seek(&partition()), dispatch.before_seek(&partition()));
    dispatch.after_seek(&partition(), Offset::new(6 * LENGTH), one);
    dispatch.after_seek(&partition(), Offset::new(2 * LENGTH), two);
    taken(&handled);
    dispatch.deliver(&batch(1..6)).await;
    dispatch.deliver(&batch([6])).await;
    dispatch.deliver(&batch(1..7)).await;
    assert_eq!(taken(&handled), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_seek_that_fails_changes_nothing() {
    let (dispatch, handled) = cached();
    dispatch.deliver(&batch(0..3)).await;
    let before = dispatch.before_seek(&partition());
    dispatch.seek_failed(&partition(), before);
    taken(&handled);
    dispatch.deliver(&batch(0..4)).await;
    assert_eq!(taken(&handled), [3]);
}

#[tokio::test]
async fn a_seek_before_the_position_is_known_ends_where_the_group_stood() {
    let (dispatch, handled) = cached();
    dispatch.deliver(&batch(0..4)).await;
    dispatch.given_up(&partition());
    dispatch.before_seek(&partition());
    dispatch.told_position(&partition(), Offset::new(4 * LENGTH));
    taken(&handled);
    dispatch.deliver(&batch(0..4)).await;
    dispatch.deliver(&batch([4])).await;
    dispatch.deliver(&batch(0..5)).await;
    assert_eq!(taken(&handled), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_batch_that_was_stopped_before_it_began_counts_for_nothing() {
    let (dispatch, handled) = cached();
    let late = batch(0..2);
    late.stop();
    assert_eq!(dispatch.deliver(&late).await, Verdict::Stopped);
    assert_eq!((taken(&handled), late.handled_count()), (vec![], 0));
}

#[derive(Debug)]
struct Bomb;

impl MessageIdCache for Bomb {
    fn contains(&self, _: &GroupName, _: MessageId) -> bool {
        panic!("no bread");
    }

    fn insert(&self, _: &GroupName, _: MessageId) {
        panic!("no butter");
    }
}

#[tokio::test]
async fn a_cache_that_panics_hides_nothing_and_fails_nothing() {
    let (dispatch, handled) = dispatch(Arc::new(Bomb));
    let batch = batch(0..2);
    assert_eq!(dispatch.deliver(&batch).await, Verdict::Done);
    assert_eq!((taken(&handled), batch.handled_count()), (vec![0, 1], 2));
}
