//! Commands and connections.

use super::exposition::Exposition;
use crate::broker::BrokerControl;

pub(super) fn write(control: &BrokerControl, refused: &[(&'static str, u64)], out: &mut Exposition) {
    let traffic = control.traffic();
    out.counter("metaq_puts_total", "Puts, refused ones included.", traffic.puts);
    out.counter("metaq_put_failures_total", "Puts answered with 500.", traffic.failed_puts);
    out.counter(
        "metaq_put_bytes_total",
        "Bytes of the bodies of puts that were handed to the store.",
        traffic.put_bytes,
    );
    out.histogram(
        "metaq_put_duration_seconds",
        "From a put's being read to its answer's being queued, of puts that were handed to the store.",
        &traffic.put_time,
    );
    out.counter("metaq_gets_total", "Gets, refused ones included.", traffic.gets);
    out.counter("metaq_get_misses_total", "Gets that found nothing at their offset.", traffic.missed_gets);
    out.counter("metaq_get_bytes_total", "Bytes of messages that were sent.", traffic.get_bytes);
    out.histogram(
        "metaq_get_duration_seconds",
        "From the decision what a get brings to its last byte's being taken, of gets that brought messages; the wait of a \
         long poll does not count.",
        &traffic.get_time,
    );
    out.counter(
        "metaq_offset_queries_total",
        "Offset queries, and gets that were told to go on elsewhere.",
        traffic.offset_queries,
    );
    let codes: Vec<_> = traffic.refusals.iter().map(|(status, count)| (status.to_string(), *count)).collect();
    out.counters(
        "metaq_refusals_total",
        "Answers that are no success, by their status.",
        codes.iter().map(|(code, count)| ([("code", code.as_str())], *count)),
    );
    out.gauge("metaq_connections", "Open connections of clients.", traffic.open_connections as f64);
    out.gauge("metaq_connections_max", "Connections that there may be.", control.max_connections() as f64);
    out.gauge("metaq_unsent_bytes", "Bytes of answers that clients have not taken yet.", control.unsent_bytes() as f64);
    out.counter("metaq_connections_accepted_total", "Connections that got a place.", traffic.accepted_connections);
    out.counter(
        "metaq_connections_refused_total",
        "Connections closed at once because there were as many as there may be.",
        traffic.refused_connections,
    );
    out.counters(
        "metaq_connections_cut_total",
        "Connections that the broker closed: after malformed input, in silence, because a body came too late, because \
         a disk failed in the middle of an answer, or because the client took no answers while others waited for room.",
        traffic.cut_connections.iter().map(|(reason, count)| ([("reason", *reason)], *count)),
    );
    out.counters(
        "metaq_admin_requests_refused_total",
        "Requests to this HTTP interface that were stopped: by their host, their origin, a missing or wrong token, or \
         because there is no token.",
        refused.iter().map(|(reason, count)| ([("reason", *reason)], *count)),
    );
}
