//! The metrics of the admin interface in the form of OTLP: read from their text, so that both always tell the same.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::span::{attribute, scope};

/// The ending of a counter's samples (OpenMetrics 1.0, "Counter"), which OTLP's names do not have: a collector that makes Prometheus's metrics of OTLP's appends it.
const TOTAL: &str = "_total";

/// The request that tells a collector of the metrics in `text`, in OpenMetrics 1.0. They count since the first of `times` and are of the second,
/// nanoseconds since the beginning of 1970.
pub(super) fn request(
    resource: &Resource,
    text: &str,
    times: (u64, u64),
) -> ExportMetricsServiceRequest {
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource.clone()),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope()),
                metrics: metrics(text, times),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    }
}

/// All families of a text, in their order. Families without samples are left out.
fn metrics(text: &str, times: (u64, u64)) -> Vec<Metric> {
    let mut families = Vec::<Family<'_>>::new();
    let mut helps = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            helps.extend(rest.split_once(' '));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            families.push(Family {
                name,
                is_counter: kind == "counter",
                help: helps.get(name).copied().unwrap_or_default(),
                points: Vec::new(),
            });
        } else if let Some(family) = families.last_mut()
            && let Some((name, point)) = sample(line, times)
            && name.strip_suffix(TOTAL).unwrap_or(name) == family.name
        {
            family.points.push(point);
        }
    }
    let families = families.into_iter();
    let told = families.filter(|family| !family.points.is_empty());
    told.map(Family::metric).collect()
}

/// A family of samples.
struct Family<'a> {
    name: &'a str,
    is_counter: bool,
    help: &'a str,
    points: Vec<NumberDataPoint>,
}

impl Family<'_> {
    fn metric(self) -> Metric {
        let data_points = self.points;
        Metric {
            name: self.name.to_owned(),
            description: self.help.trim_end_matches('.').to_owned(),
            data: Some(match self.is_counter {
                true => Data::Sum(Sum {
                    data_points,
                    aggregation_temporality: AggregationTemporality::Cumulative.into(),
                    is_monotonic: true,
                }),
                false => Data::Gauge(Gauge { data_points }),
            }),
            ..Metric::default()
        }
    }
}

/// The name and the value of a sample; `None` for a line that is none.
fn sample(line: &str, (begun_ns, taken_ns): (u64, u64)) -> Option<(&str, NumberDataPoint)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (attributes, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let number = rest.trim();
    let value = match number.parse() {
        Ok(number) => Value::AsInt(number),
        Err(_) => Value::AsDouble(number.parse().ok()?),
    };
    let point = NumberDataPoint {
        attributes,
        start_time_unix_nano: begun_ns,
        time_unix_nano: taken_ns,
        value: Some(value),
        ..NumberDataPoint::default()
    };
    Some((name, point))
}

/// Labels up to their closing brace, and what is behind it.
fn labels(mut text: &str) -> Option<(Vec<KeyValue>, &str)> {
    let mut attributes = Vec::new();
    loop {
        text = text.trim_start_matches(',');
        if let Some(rest) = text.strip_prefix('}') {
            return Some((attributes, rest));
        }
        let (key, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        attributes.push(attribute(key, value.into()));
        text = rest;
    }
}

/// A text up to its closing quotation mark, without its escapes, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((value, text.get(at + 1..)?)),
            (_, '\\') => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, other) => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
# HELP dhow_bundles_received Bundles received.
# TYPE dhow_bundles_received counter
dhow_bundles_received_total 7
# HELP dhow_link_up Whether a link has a session.
# TYPE dhow_link_up gauge
dhow_link_up{link=\"a \\\"b\\\", \\\\}\"} 1
dhow_link_up{link=\"\"} 0
# HELP dhow_nothing Without a sample.
# TYPE dhow_nothing gauge
# HELP dhow_silence_seconds Silence.
# TYPE dhow_silence_seconds gauge
dhow_silence_seconds{peer=\"ipn:2.0\",link=\"x\"} 1.5
# EOF
";

    fn points(metric: &Metric) -> &[NumberDataPoint] {
        match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => &sum.data_points,
            Data::Gauge(gauge) => &gauge.data_points,
            _ => &[],
        }
    }

    fn labels_of(point: &NumberDataPoint) -> Vec<(String, String)> {
        let text = |it: &KeyValue| match it.value.clone().unwrap().value.unwrap() {
            Any::StringValue(text) => text,
            other => panic!("{other:?}"),
        };
        let attributes = point.attributes.iter();
        attributes.map(|it| (it.key.clone(), text(it))).collect()
    }

    #[test]
    fn every_family_with_a_sample_is_told_with_its_labels() {
        let all = metrics(TEXT, (1, 2));
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "dhow_bundles_received",
                "dhow_link_up",
                "dhow_silence_seconds"
            ]
        );
        let Some(Data::Sum(sum)) = &all[0].data else {
            panic!("a counter is a sum");
        };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].value, Some(Value::AsInt(7)));
        let times = (
            sum.data_points[0].start_time_unix_nano,
            sum.data_points[0].time_unix_nano,
        );
        assert_eq!(times, (1, 2));
        assert_eq!(all[0].description, "Bundles received");
        let links: Vec<_> = points(&all[1]).iter().map(labels_of).collect();
        assert_eq!(links[0], [("link".to_owned(), "a \"b\", \\}".to_owned())]);
        assert_eq!(links[1], [("link".to_owned(), String::new())]);
        assert_eq!(points(&all[2])[0].value, Some(Value::AsDouble(1.5)));
        assert_eq!(labels_of(&points(&all[2])[0]).len(), 2);
    }

    proptest! {
        #[test]
        fn no_line_is_too_much(line in ".{0,80}") {
            let _ = metrics(&format!("# TYPE x gauge\n{line}\nx{{{line} 1\n"), (0, 0));
        }

        #[test]
        fn labels_are_as_they_were_before_they_were_escaped(value in "[a-z\"\\\\\n{},= ]{0,20}") {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let all = metrics(&format!("# TYPE x gauge\nx{{l=\"{escaped}\"}} 4\n"), (0, 0));
            prop_assert_eq!(&labels_of(&points(&all[0])[0]), &[("l".to_owned(), value)]);
        }
    }
}
