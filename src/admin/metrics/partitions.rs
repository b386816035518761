//! Topics and partitions.

use super::exposition::Exposition;
use crate::broker::BrokerControl;
use crate::store::PartitionLog;

/// Partitions that are told of one by one, the first ones by topic and number. Beyond it there are only the totals.
const MAX_PARTITION_SERIES: usize = 10_000;

/// What is told of each partition.
type Series = (&'static str, &'static str, fn(&PartitionLog) -> f64);

const SERIES: [Series; 6] = [
    ("metaq_partition_min_offset", "Offset of the oldest byte of a partition.", |log| log.min_offset().get() as f64),
    ("metaq_partition_max_offset", "End of what consumers of a partition see.", |log| log.max_offset().get() as f64),
    ("metaq_partition_written_offset", "End of what was written to a partition, durable or not.", |log| {
        log.written_offset().get() as f64
    }),
    ("metaq_partition_bytes", "Bytes of a partition's segments.", |log| log.size_bytes() as f64),
    ("metaq_partition_segments", "Segments of a partition.", |log| log.segment_count() as f64),
    (
        "metaq_partition_messages",
        "Messages of a partition: those found in its last segment at the start, and stored since.",
        |log| log.message_count() as f64,
    ),
];

pub(super) fn write(control: &BrokerControl, out: &mut Exposition) {
    let partitions = control.partitions();
    out.gauge("metaq_topics", "Topics that are configured or have data.", control.topic_count() as f64);
    out.gauge("metaq_partitions", "Partitions with data.", partitions.len() as f64);
    let closed = control.closed_partitions();
    let is_closed = |log: &PartitionLog| {
        closed.iter().any(|c| c.topic == log.topic().as_str() && (c.start..=c.end).contains(&log.index().get()))
    };
    let closed_count = if closed.is_empty() { 0 } else { partitions.iter().filter(|log| is_closed(log)).count() };
    out.gauge("metaq_partitions_closed", "Partitions with data that an operator closed.", closed_count as f64);
    let sum = |value: fn(&PartitionLog) -> u64| partitions.iter().map(|log| value(log)).sum::<u64>() as f64;
    out.gauge("metaq_segments", "Segments of all partitions.", sum(|log| log.segment_count() as u64));
    out.gauge("metaq_stored_bytes", "Bytes of all partitions.", sum(PartitionLog::size_bytes));
    out.gauge(
        "metaq_stored_messages",
        "Messages of all partitions: those found in last segments at the start, and stored since.",
        sum(PartitionLog::message_count),
    );
    let shown = partitions.get(..MAX_PARTITION_SERIES).unwrap_or(&partitions);
    out.gauge(
        "metaq_partition_series_omitted",
        "Partitions without series of their own, because there are too many.",
        (partitions.len() - shown.len()) as f64,
    );
    let numbers: Vec<String> = shown.iter().map(|log| log.index().to_string()).collect();
    for (name, help, value) in SERIES {
        let values = shown.iter().zip(&numbers).map(|(log, number)| {
            let labels = [("topic", log.topic().as_str()), ("partition", number.as_str())];
            (labels, value(log))
        });
        out.gauges(name, help, values);
    }
}
