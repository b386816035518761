use super::*;
use crate::fetch::FetchOptions;

fn at(offset: i64) -> StoredOffset {
    StoredOffset { offset: Offset::new(offset), message_id: None }
}

fn request(size: i32) -> FetchRequest {
    FetchRequest::new(at(0), size, FetchOptions::default().limits())
}

fn handle(request: &mut FetchRequest, id: i64, next: i64) {
    request.handled(MessageId::new(id), Offset::new(next));
}

fn ms(request: &FetchRequest) -> u128 {
    request.delay().as_millis()
}

#[test]
fn while_there_is_nothing_the_delay_grows_by_half_a_second_up_to_five() {
    let mut request = request(1024);
    let delays: Vec<_> = (0..12)
        .map(|_| {
            request.nothing(false);
            ms(&request)
        })
        .collect();
    assert_eq!(delays, [500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 5000, 5000]);
}

#[test]
fn a_broker_that_has_waited_is_asked_again_at_once() {
    let mut request = request(1024);
    request.nothing(false);
    request.nothing(true);
    assert_eq!(ms(&request), 0);
    request.nothing(false);
    assert_eq!(ms(&request), 500);
}

#[test]
fn failures_and_nothing_grow_the_same_delay_and_progress_ends_it() {
    let mut request = request(1024);
    request.failed();
    request.nothing(false);
    request.failed();
    assert_eq!(ms(&request), 1500);
    request.answered(1024, 500);
    handle(&mut request, 1, 500);
    request.delivered();
    assert_eq!(ms(&request), 0);
}

#[test]
fn a_step_is_a_tenth_of_the_longest_delay_in_whole_milliseconds_and_never_nothing() {
    for (max, step) in [(5000, 500), (1234, 123), (9, 1), (0, 1)] {
        let limits = FetchOptions { max_delay: Duration::from_millis(max), ..FetchOptions::default() }.limits();
        assert_eq!(limits.step(), Duration::from_millis(step));
        assert!(limits.grow(Duration::ZERO) > Duration::ZERO);
    }
}

#[test]
fn a_moved_offset_is_committed_and_the_first_get_there_waits_one_step() {
    let mut request = request(1024);
    handle(&mut request, 7, 100);
    request.take_unsaved();
    request.delivery_failed(false);
    request.moved(Offset::new(4096), false);
    let moved = StoredOffset { offset: Offset::new(4096), message_id: Some(MessageId::new(7)) };
    assert_eq!((request.position(), request.take_unsaved()), (moved, Some(moved)));
    assert_eq!((request.retries(), ms(&request)), (0, 1000));
}

/// The trace of 05 §13, in which a message of 3020 bytes is met with a size of 1024.
#[test]
fn a_message_that_needs_a_larger_size_is_delivered_and_not_rejected() {
    let mut request = request(1024);
    let mut trace = Vec::new();
    for _ in 0..8 {
        assert_eq!(request.ask(), request.size());
        let asked = request.ask();
        request.short_answer(asked, usize::try_from(asked).unwrap(), Some(3020));
        trace.push((ms(&request), request.size()));
    }
    let expected =
        [(500, 1024), (1000, 1024), (1500, 1024), (2000, 1024), (2500, 1024), (3000, 1024), (3500, 2048), (4000, 4096)];
    assert_eq!(trace, expected);
    request.answered(4096, 3020);
    assert_eq!((request.rejection(), request.retries()), (None, 0));
    handle(&mut request, 1, 3020);
    request.delivered();
    assert_eq!((ms(&request), request.size()), (0, 4096));
}

#[test]
fn the_size_shrinks_again_when_less_than_half_of_it_comes() {
    let mut request = request(1000);
    for _ in 0..8 {
        request.short_answer(request.size(), 1000, None);
    }
    assert_eq!(request.size(), 4000);
    request.answered(4000, 2000);
    assert_eq!(request.size(), 4000);
    request.answered(4000, 1999);
    assert_eq!(request.size(), 2000);
    request.answered(2000, 10);
    request.answered(1000, 10);
    assert_eq!(request.size(), 1000);
}

#[test]
fn the_size_ends_at_twice_the_read_buffer_and_then_the_partition_is_stuck() {
    let mut request = request(1 << 20);
    request.expects_data = true;
    let mut sizes = Vec::new();
    let stuck = (1..=20).find(|_| {
        sizes.push(request.size());
        request.short_answer(request.size(), 1 << 20, None)
    });
    assert_eq!(sizes.last(), Some(&(4 << 20)));
    assert_eq!(stuck, None);
    let mut request = self::request(3 << 20);
    request.expects_data = true;
    let stuck = (1..=20).find(|_| request.short_answer(3 << 20, 2 << 20, None));
    assert_eq!((stuck, request.size()), (Some(7), 3 << 20));
    assert!(!request.short_answer(3 << 20, 2 << 20, None), "it is told once");
    assert_eq!(ms(&request), 4000);
}

#[test]
fn a_message_that_the_broker_never_sends_whole_makes_the_partition_stuck() {
    let mut request = request(1 << 20);
    request.expects_data = true;
    let mut asked = Vec::new();
    let told = (1..=30).filter(|_| {
        asked.push(request.ask());
        request.short_answer(request.ask(), 1 << 20, Some(3 << 19))
    });
    assert_eq!(told.count(), 1);
    assert!(request.stuck().is_some_and(|reason| reason.contains("1572864")), "{:?}", request.stuck());
    assert!(asked.iter().all(|&asked| asked <= 4 << 20));
    request.seek(Offset::new(9));
    assert_eq!(request.stuck(), None);
}

#[test]
fn an_idle_partition_asks_for_little_and_for_all_as_soon_as_there_is_more() {
    let mut request = request(1 << 20);
    assert_eq!((request.ask(), request.expects_data()), (IDLE_SIZE, false));
    request.answered(IDLE_SIZE, 1 << 16);
    assert_eq!((request.ask(), request.expects_data()), (1 << 20, true));
    request.answered(1 << 20, 300);
    assert_eq!(request.ask(), IDLE_SIZE, "the end was reached");
    request.answered(IDLE_SIZE, 1 << 16);
    request.nothing(false);
    assert_eq!(request.ask(), IDLE_SIZE);
}

#[test]
fn a_message_larger_than_what_an_idle_partition_asks_for_comes_without_a_delay() {
    let mut request = request(1 << 20);
    request.nothing(false);
    assert!(!request.short_answer(request.ask(), 1 << 16, Some(100_000)));
    assert_eq!((request.ask(), ms(&request), request.size()), (1 << 20, 0, 1 << 20));
}

/// The failing listener of 05 §13.
#[test]
fn a_message_is_delivered_six_times_with_growing_delays_and_then_rejected() {
    let mut request = request(1024);
    let mut delays = Vec::new();
    for delivery in 0..6 {
        assert_eq!(request.rejection(), None);
        assert_eq!(request.redeliveries(Offset::ZERO), delivery);
        request.answered(1024, 100);
        assert_eq!(request.delivery_failed(false), delivery + 1);
        delays.push(ms(&request));
    }
    assert_eq!(delays, [500, 1000, 1500, 2000, 2500, 3000]);
    request.answered(1024, 100);
    assert_eq!(request.rejection().as_deref(), Some("it was delivered 6 times without success"));
    handle(&mut request, 1, 100);
    request.delivered();
    assert_eq!((request.rejection(), request.retries(), ms(&request)), (None, 0, 0));
}

#[test]
fn progress_before_a_failure_resets_the_count_and_the_message_comes_again_at_once() {
    let mut request = request(1024);
    request.delivery_failed(false);
    request.delivery_failed(false);
    handle(&mut request, 1, 50);
    assert_eq!(request.delivery_failed(true), 1);
    assert_eq!((request.retries(), ms(&request)), (0, 0));
    assert_eq!(request.redeliveries(Offset::new(50)), 1, "it was delivered before all the same");
    request.delivery_failed(false);
    assert_eq!((request.retries(), ms(&request), request.redeliveries(Offset::new(50))), (1, 500, 2));
}

#[test]
fn a_message_that_cannot_be_put_away_is_offered_again_after_a_step_and_not_delivered() {
    let mut request = request(1024);
    request.reject_failed("poison".to_owned());
    assert_eq!((request.rejection().as_deref(), ms(&request)), (Some("poison"), 500));
    request.reject_failed("poison".to_owned());
    assert_eq!(ms(&request), 1000);
    handle(&mut request, 1, 100);
    assert_eq!(request.rejection(), None);
}

#[test]
fn the_id_is_that_of_the_last_message_before_the_offset() {
    let mut request = request(1024);
    handle(&mut request, 11, 100);
    request.delivery_failed(true);
    let expected = StoredOffset { offset: Offset::new(100), message_id: Some(MessageId::new(11)) };
    assert_eq!(request.take_unsaved(), Some(expected));
}

#[test]
fn an_invalid_message_is_asked_about_once_and_then_tried_with_the_longest_delay() {
    let mut request = request(1024);
    handle(&mut request, 1, 500);
    request.delivered();
    assert_eq!(request.invalid("bad"), (Invalid::Ask, true));
    request.failed();
    assert_eq!(request.invalid("bad"), (Invalid::Ask, false), "the broker did not answer");
    request.realigned(Offset::ZERO);
    assert_eq!((request.position().offset, ms(&request)), (Offset::ZERO, 0));
    handle(&mut request, 1, 500);
    assert_eq!(request.invalid("bad"), (Invalid::Stuck, true));
    assert_eq!(ms(&request), 5000);
    assert_eq!(request.invalid("bad"), (Invalid::Stuck, false));
    assert_eq!((request.position().offset, ms(&request)), (Offset::new(500), 5000));
    handle(&mut request, 2, 600);
    assert_eq!(request.stuck(), None, "it was repaired");
}

#[test]
fn another_invalid_message_is_asked_about_as_well() {
    let mut request = request(1024);
    request.invalid("bad");
    request.realigned(Offset::ZERO);
    handle(&mut request, 1, 900);
    assert_eq!(request.invalid("bad"), (Invalid::Ask, true));
}

#[test]
fn the_end_is_not_committed_before_the_broker_has_said_where_it_is() {
    let mut request = request(1024);
    handle(&mut request, 1, 100);
    request.seek(Offset::LATEST);
    assert_eq!(request.take_unsaved().map(|saved| saved.offset), Some(Offset::new(100)));
    request.seek(Offset::LATEST);
    assert_eq!(request.take_unsaved(), None);
    request.moved(Offset::new(4096), false);
    assert_eq!(request.take_unsaved(), Some(at(4096)));
}

#[test]
fn a_failed_commit_is_repeated_unless_there_is_news() {
    let mut request = request(1024);
    handle(&mut request, 1, 100);
    let first = request.take_unsaved().unwrap();
    request.not_saved(first);
    assert_eq!(request.take_unsaved(), Some(first));
    handle(&mut request, 2, 200);
    request.not_saved(first);
    assert_eq!(request.take_unsaved().map(|saved| saved.offset), Some(Offset::new(200)));
}

#[test]
fn a_broker_that_moves_the_offset_again_and_again_is_counted_until_there_is_a_message() {
    let mut request = request(1024);
    let times: Vec<_> = (0..4).map(|n| request.moved(Offset::new(n % 2), false)).collect();
    assert_eq!(times, [1, 2, 3, 4]);
    request.answered(1024, 500);
    assert_eq!(request.moved(Offset::new(7), false), 1);
    request.nothing(true);
    assert_eq!(request.moved(Offset::new(9), false), 1);
}

#[test]
fn where_a_broker_that_holds_gets_sends_us_is_asked_at_once_and_a_chain_slows_down() {
    let mut request = request(1024);
    let delays: Vec<_> = (0..12)
        .map(|n| {
            request.moved(Offset::new(n % 2), true);
            ms(&request)
        })
        .collect();
    assert_eq!(delays, [0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 5000]);
    request.nothing(true);
    request.moved(Offset::new(7), true);
    assert_eq!(ms(&request), 0, "it is another chain behind an idle end");
    request.seek(Offset::LATEST);
    request.moved(Offset::new(7), true);
    assert_eq!(ms(&request), 0, "the user went elsewhere");
}

#[test]
fn a_broker_that_moves_the_offset_between_messages_is_no_busy_loop() {
    let mut request = request(1024);
    let pauses: Vec<_> = (0..4)
        .map(|_| {
            request.moved(Offset::ZERO, true);
            let pause = ms(&request);
            request.answered(1024, 100);
            handle(&mut request, 1, 100);
            request.delivered();
            pause
        })
        .collect();
    assert_eq!(pauses, [0, 500, 500, 500]);
}
