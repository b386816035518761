//! The text format. The only file that names the crate `prometheus`.

use prometheus::TextEncoder;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use tracing::error;

use crate::store::HistogramSnapshot;

/// Gathers metrics, each family as text at once: thousands of partitions take no memory twice.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// A value that only grows.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help, [([], value)]);
    }

    /// Values that only grow, each with its labels. A family without values is left out.
    pub(super) fn counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'static str, &'l str); N], u64)>,
    ) {
        let values = values.into_iter().map(|(labels, value)| (labels, value as f64));
        self.counters_of_seconds(name, help, values);
    }

    /// The same for values that are no whole numbers.
    pub(super) fn counters_of_seconds<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'static str, &'l str); N], f64)>,
    ) {
        let metrics = values.into_iter().map(|(labels, value)| {
            let mut counter = Counter::default();
            counter.set_value(value);
            let mut metric = Metric::from_label(pairs(labels));
            metric.set_counter(counter);
            metric
        });
        self.family(name, help, MetricType::COUNTER, metrics.collect());
    }

    /// A value that goes up and down.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, [([], value)]);
    }

    /// 1 or 0.
    pub(super) fn flag(&mut self, name: &str, help: &str, value: bool) {
        self.gauge(name, help, f64::from(u8::from(value)));
    }

    /// Values that go up and down, each with its labels. A family without values is left out.
    pub(super) fn gauges<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'static str, &'l str); N], f64)>,
    ) {
        let metrics = values.into_iter().map(|(labels, value)| {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            let mut metric = Metric::from_label(pairs(labels));
            metric.set_gauge(gauge);
            metric
        });
        self.family(name, help, MetricType::GAUGE, metrics.collect());
    }

    /// Durations in buckets.
    pub(super) fn histogram(&mut self, name: &str, help: &str, snapshot: &HistogramSnapshot) {
        let bucket = |&(bound, count): &(f64, u64)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(bound);
            bucket.set_cumulative_count(count);
            bucket
        };
        let mut histogram = Histogram::default();
        histogram.set_bucket(snapshot.cumulative.iter().map(bucket).collect());
        histogram.set_sample_count(snapshot.count);
        histogram.set_sample_sum(snapshot.sum_seconds);
        let mut metric = Metric::default();
        metric.set_histogram(histogram);
        self.family(name, help, MetricType::HISTOGRAM, vec![metric]);
    }

    fn family(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        if let Err(error) = TextEncoder::new().encode_utf8(&[family], &mut self.0) {
            error!(name, %error, "a metric cannot be told");
        }
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

fn pairs<const N: usize>(labels: [(&'static str, &str); N]) -> Vec<LabelPair> {
    let pair = |(name, value): (&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    };
    labels.map(pair).into()
}
