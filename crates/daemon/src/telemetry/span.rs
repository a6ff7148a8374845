//! Spans, and the form that they have in OTLP.

use dhow_bundle::FragmentRange;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as Encoded, Status, span::SpanKind,
};

use super::identity::{SpanId, TraceId};

/// Characters of a text in a span, at most: an endpoint ID may have thousands.
const TEXT_MAX: usize = 256;

/// The trace is sampled (W3C Trace Context), and whether its parent is remote is known.
const FLAGS: u32 = 0x101;

/// The parent is at another node.
const PARENT_IS_REMOTE: u32 = 0x200;

/// A span that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<Parent>,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Nanoseconds since the beginning of 1970.
    pub(super) begun_ns: u64,
    /// Likewise, never before.
    pub(super) ended_ns: u64,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// The reason of a failure.
    pub(super) fault: Option<String>,
}

/// The parent of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// A span of this node.
    Here(SpanId),
    /// A span of another node.
    Elsewhere(SpanId),
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something within the node.
    Internal,
    /// Something leaves.
    Producer,
    /// Something comes.
    Consumer,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Count(u64),
}

impl Span {
    /// The span with one more attribute.
    pub(super) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push((key, value.into()));
        self
    }

    /// The span with the place of a fragment, if it is about one.
    pub(super) fn with_fragment(self, fragment: Option<FragmentRange>) -> Self {
        match fragment {
            None => self,
            Some(range) => self
                .with("fragment.offset", range.offset)
                .with("fragment.length", range.length),
        }
    }

    fn encoded(self) -> Encoded {
        let (parent, flags) = match self.parent {
            None => (Vec::new(), FLAGS),
            Some(Parent::Here(id)) => (id.0.to_vec(), FLAGS),
            Some(Parent::Elsewhere(id)) => (id.0.to_vec(), FLAGS | PARENT_IS_REMOTE),
        };
        let kind = match self.kind {
            Kind::Internal => SpanKind::Internal,
            Kind::Producer => SpanKind::Producer,
            Kind::Consumer => SpanKind::Consumer,
        };
        let attributes = self.attributes.into_iter();
        Encoded {
            trace_id: self.trace.0.to_vec(),
            span_id: self.id.0.to_vec(),
            parent_span_id: parent,
            flags,
            name: self.name.to_owned(),
            kind: kind.into(),
            start_time_unix_nano: self.begun_ns,
            end_time_unix_nano: self.ended_ns,
            attributes: attributes
                .map(|(key, value)| attribute(key, value))
                .collect(),
            status: self.fault.map(|message| Status {
                message: clipped(message),
                code: StatusCode::Error.into(),
            }),
            ..Encoded::default()
        }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

/// The request that tells a collector of spans.
pub(super) fn request(resource: &Resource, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let spans = spans.into_iter().map(Span::encoded).collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope()),
                spans,
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    }
}

/// The node that tells, by its ID.
pub(super) fn resource(node: &str) -> Resource {
    let named = [
        ("service.name", "dhow"),
        ("service.instance.id", node),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ];
    Resource {
        attributes: named
            .map(|(key, value)| attribute(key, value.into()))
            .to_vec(),
        ..Resource::default()
    }
}

/// The part of the program that tells.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "dhow".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// An attribute of OTLP.
pub(super) fn attribute(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => Any::StringValue(clipped(text)),
        Value::Count(count) => Any::IntValue(i64::try_from(count).unwrap_or(i64::MAX)),
    };
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// The beginning of a text that is too long.
fn clipped(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(TEXT_MAX) {
        text.truncate(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(clipped("é".repeat(TEXT_MAX)), "é".repeat(TEXT_MAX));
        assert_eq!(clipped("é".repeat(TEXT_MAX + 1)), "é".repeat(TEXT_MAX));
    }

    #[test]
    fn a_parent_elsewhere_is_said_to_be_remote() {
        let span = Span {
            trace: TraceId([1; 16]),
            id: SpanId([2; 8]),
            parent: Some(Parent::Elsewhere(SpanId([3; 8]))),
            name: "receive",
            kind: Kind::Consumer,
            begun_ns: 1,
            ended_ns: 2,
            attributes: Vec::new(),
            fault: None,
        };
        let encoded = span.encoded();
        assert_eq!((encoded.flags, encoded.kind), (0x301, 5));
        assert_eq!(encoded.parent_span_id, [3; 8]);
        assert_eq!(encoded.status, None);
    }
}
