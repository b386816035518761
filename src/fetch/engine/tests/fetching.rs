//! When partitions are asked, and what for (05 §10, §13).

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fetch::{FetchEvent, FetchOptions, PartitionStatus, SeekTo};
use crate::id::Offset;

use super::broker::{Answer, Broker, Seen};
use super::listener::Act;
use super::rig::{of, options, rig, rig_with};

#[tokio::test(start_paused = true)]
async fn a_partition_without_news_is_asked_after_growing_pauses() {
    let rig = rig();
    rig.add([0], 1024).await;
    rig.pass(33_000).await;
    let expected = [0, 500, 1500, 3000, 5000, 7500, 10_500, 14_000, 18_000, 22_500, 27_500, 32_500];
    assert_eq!(rig.broker.times(0), expected);
}

#[tokio::test(start_paused = true)]
async fn a_message_ends_the_pauses() {
    let rig = rig();
    rig.add([0], 1024).await;
    rig.pass(2000).await;
    rig.broker.put(0, 1, 10);
    rig.pass(1200).await;
    // Given at 3000, asked again at once, then after growing pauses again.
    rig.pass(2000).await;
    assert_eq!(rig.given_at(), [3000]);
    assert_eq!(rig.broker.times(0), [0, 500, 1500, 3000, 3000, 3500, 4500]);
}

#[tokio::test(start_paused = true)]
async fn failures_grow_the_same_pause_and_concern_nobody_else() {
    let rig = rig();
    rig.broker.script(0, [Answer::Failure, Answer::Nothing, Answer::Failure]);
    rig.broker.script(1, [Answer::Moved(0)]);
    rig.broker.put(0, 1, 10);
    rig.broker.put(1, 2, 10);
    rig.add([0, 1], 1024).await;
    rig.pass(2999).await;
    assert_eq!(rig.broker.times(0), [0, 500, 1500]);
    assert_eq!(rig.engine.state(&of(0)).await.map(|state| state.status), Some(PartitionStatus::Failing));
    assert_eq!(rig.listener.handled(1), [2]);
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
    assert_eq!(rig.broker.times(0)[3], 3000);
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::GetFailed { .. })), 2);
}

#[tokio::test(start_paused = true)]
async fn a_get_without_an_answer_ends_after_the_time_out_and_concerns_nobody_else() {
    let rig = rig();
    rig.broker.script(0, [Answer::Silence]);
    rig.broker.put(0, 1, 10);
    rig.add([0, 1], 1024).await;
    rig.pass(100).await;
    rig.broker.put(1, 2, 10);
    rig.until(|rig| rig.listener.handled(1) == [2]).await;
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
    assert_eq!(rig.broker.times(0)[..2], [0, 10_500]);
    let is_told = |event: &FetchEvent| matches!(event, FetchEvent::GetFailed { error, .. } if error.starts_with("Send message timeout in 10000 mills"));
    assert_eq!(rig.events.count(is_told), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_holds_gets_is_asked_again_at_once_and_news_comes_at_once() {
    let rig = rig_with(Broker::new(true), |_| Act::Handle, options());
    rig.add([0], 1 << 20).await;
    rig.pass(12_345).await;
    rig.broker.put(0, 1, 10);
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
    assert_eq!(rig.given_at(), [12_345]);
    assert_eq!(rig.broker.times(0), [0, 5000, 10_000, 12_345]);
    assert!(rig.broker.seen().iter().all(|get| get.size == 64 << 10), "an idle partition asks for little");
}

#[tokio::test(start_paused = true)]
async fn a_broker_is_asked_to_hold_for_half_the_time_out_at_most() {
    let options = FetchOptions { fetch_timeout: Duration::from_secs(3), wait: Duration::from_secs(60), ..options() };
    let rig = rig_with(Broker::new(true), |_| Act::Handle, options);
    rig.add([0], 1 << 20).await;
    rig.pass(4000).await;
    assert_eq!(rig.broker.times(0), [0, 1500, 3000]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_pretends_to_have_waited_does_not_make_a_busy_loop() {
    let options = FetchOptions { wait: Duration::ZERO, ..options() };
    let rig = rig_with(Broker::new(true), |_| Act::Handle, options);
    rig.add([0], 1 << 20).await;
    rig.pass(10_000).await;
    assert!(rig.broker.seen().len() < 20, "{} gets", rig.broker.seen().len());
}

#[tokio::test(start_paused = true)]
async fn data_makes_a_partition_ask_for_all_and_its_end_for_little() {
    let rig = rig();
    for id in 0..40 {
        rig.broker.put(0, id, 10_000);
    }
    rig.add([0], 1 << 20).await;
    rig.until(|rig| rig.listener.handled(0).len() == 40).await;
    let sizes: Vec<_> = rig.broker.seen().iter().map(|get| get.size).collect();
    assert_eq!(sizes, [64 << 10, 1 << 20, 64 << 10]);
    assert_eq!(rig.listener.handled(0), (0..40).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_needs_a_larger_size_is_delivered_after_the_reference_s_pauses() {
    let rig = rig();
    rig.broker.put(0, 1, 3000);
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
    let gets: Vec<_> = rig.broker.seen().iter().take(9).map(|get| (get.at, get.size)).collect();
    let expected = [
        (0, 1024),
        (500, 1024),
        (1500, 1024),
        (3000, 1024),
        (5000, 1024),
        (7500, 1024),
        (10_500, 1024),
        (14_000, 2048),
        (18_000, 4096),
    ];
    assert_eq!(gets, expected);
    assert_eq!(rig.position(0).await.as_deref(), Some("1-3020"));
    assert_eq!((rig.listener.given().len(), rig.listener.rejected()), (1, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn the_stored_offset_is_where_reading_begins() {
    let rig = rig();
    let second = {
        rig.broker.put(0, 1, 10);
        rig.broker.put(0, 2, 10)
    };
    rig.storage.store(0, &format!("1-{second}"));
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [2]).await;
    assert_eq!(rig.broker.seen()[0], Seen { at: 0, index: 0, offset: second, size: 1024 });
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_before_the_stored_offset_is_known_and_that_is_tried_for_ever() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.storage.bad_loads.store(20, Ordering::SeqCst);
    rig.add([0], 1024).await;
    rig.pass(1501).await;
    assert_eq!(rig.storage.loads.load(Ordering::SeqCst), 3, "at 0, 500 and 1500 ms");
    assert_eq!(rig.engine.state(&of(0)).await.map(|state| state.status), Some(PartitionStatus::Loading));
    rig.until(|rig| rig.storage.loads.load(Ordering::SeqCst) == 20).await;
    assert_eq!(rig.broker.seen(), []);
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_stored_offset_reading_begins_where_it_is_configured() {
    for (start, first) in [(SeekTo::Earliest, 0), (SeekTo::Offset(Offset::new(40)), 40), (SeekTo::Latest, i64::MAX)] {
        let rig = rig_with(Broker::new(false), |_| Act::Handle, FetchOptions { start, ..options() });
        rig.add([0], 1024).await;
        rig.until(|rig| !rig.broker.seen().is_empty()).await;
        assert_eq!(rig.broker.seen()[0].offset, first);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_is_where_reading_begins_whatever_is_stored_if_that_is_wanted_always() {
    let options = FetchOptions { always_from_max: true, ..options() };
    let rig = rig_with(Broker::new(false), |_| Act::Handle, options);
    let end = {
        rig.broker.put(0, 1, 10);
        rig.broker.end(0)
    };
    rig.storage.store(0, "-1-0");
    rig.add([0], 1024).await;
    rig.until(|rig| rig.storage.offset(0) == Some(end)).await;
    assert_eq!(rig.storage.stored(0), Some(format!("-1-{end}")));
    assert_eq!(rig.listener.given(), []);
    rig.broker.put(0, 2, 10);
    rig.until(|rig| rig.listener.handled(0) == [2]).await;
}

#[tokio::test(start_paused = true)]
async fn when_a_broker_answers_again_its_other_failing_partitions_are_asked_at_once_and_no_others() {
    let rig = rig();
    rig.broker.script(0, [Answer::Failure, Answer::Failure, Answer::Failure]);
    rig.broker.script(1, [Answer::Failure]);
    rig.add([0, 2], 1024).await;
    rig.pass(2000).await;
    rig.add([1], 1024).await;
    rig.pass(499).await;
    assert_eq!((rig.broker.times(0), rig.broker.times(1)), (vec![0, 500, 1500], vec![2000]));
    rig.pass(2).await;
    assert_eq!((rig.broker.times(0), rig.broker.times(1)), (vec![0, 500, 1500, 2500], vec![2000, 2500]));
    assert_eq!(rig.broker.times(2), [0, 500, 1500], "it did not fail");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_idle_partitions_are_held_by_the_broker_and_ask_again_only_then() {
    let rig = rig_with(Broker::new(true), |_| Act::Handle, options());
    rig.add(0..1000, 1 << 20).await;
    rig.pass(59_999).await;
    assert_eq!(rig.broker.seen().len(), 12_000);
    assert_eq!(rig.broker.most_gets(), 1000, "gets under way are not limited by runners");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_begins_at_the_end_hears_of_the_next_message_when_a_broker_that_holds_gets_has_it() {
    let options = FetchOptions { start: SeekTo::Latest, ..options() };
    let rig = rig_with(Broker::new(true), |_| Act::Handle, options);
    let end = {
        rig.broker.put(0, 1, 10);
        rig.broker.end(0)
    };
    rig.add([0], 1024).await;
    rig.pass(100).await;
    let gets: Vec<_> = rig.broker.seen().iter().map(|get| (get.at, get.offset)).collect();
    assert_eq!(gets, [(0, i64::MAX), (0, end)]);
    rig.broker.put(0, 2, 10);
    rig.until(|rig| rig.listener.handled(0) == [2]).await;
    assert_eq!(rig.given_at(), [100]);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_holds_gets_and_moves_the_offset_for_ever_is_asked_after_growing_pauses() {
    let rig = rig_with(Broker::new(true), |_| Act::Handle, options());
    rig.broker.always(0, Some(Answer::Moved(4096)));
    rig.add([0], 1024).await;
    rig.pass(5100).await;
    assert_eq!(rig.broker.times(0), [0, 0, 500, 1500, 3000, 5000]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_a_partition_is_told_when_it_begins_and_when_it_ends() {
    let rig = rig();
    rig.broker.script(0, [Answer::Failure, Answer::Failure, Answer::Nothing, Answer::Failure]);
    rig.add([0], 1024).await;
    rig.pass(1400).await;
    let begun = |event: &FetchEvent| matches!(event, FetchEvent::GetFailed { is_new: true, .. });
    let ended = |event: &FetchEvent| matches!(event, FetchEvent::Recovered { .. });
    assert_eq!((rig.events.count(begun), rig.events.count(ended)), (1, 0));
    rig.pass(20_000).await;
    assert_eq!((rig.events.count(begun), rig.events.count(ended)), (2, 2));
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::GetFailed { .. })), 3);
}
