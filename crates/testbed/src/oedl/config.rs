//! The measurements of a program, as OML's configuration.

use std::fmt::Write as _;

use super::plan::Measure;

/// The document for a program of a node. Names in braces become what they stand for when the scenario runs.
pub(super) fn document(node: &str, measures: &[Measure]) -> String {
    let node = escape(node);
    let mut text =
        format!("<omlc domain=\"{{run}}\" id=\"{node}\"><collect url=\"{{collector}}\">");
    for measure in measures {
        let point = escape(&measure.point);
        let window = match (&measure.samples, &measure.interval) {
            (_, Some(interval)) => format!("interval=\"{}\"", plain(interval)),
            (Some(samples), None) => format!("samples=\"{}\"", plain(samples)),
            (None, None) => "samples=\"1\"".to_owned(),
        };
        let _ = write!(text, "<stream mp=\"{point}\" {window}>");
        for filter in &measure.filters {
            let (field, operation) = (escape(&filter.field), escape(&filter.operation));
            let _ = write!(
                text,
                "<filter field=\"{field}\" operation=\"{operation}\"/>"
            );
        }
        text += "</stream>";
    }
    text + "</collect></omlc>"
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => escape(text),
        other => escape(&other.to_string()),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oedl::plan::Filter;

    #[test]
    fn windows_and_filters_are_those_of_the_script() {
        let filter = |field: &str, operation: &str| Filter {
            field: field.to_owned(),
            operation: operation.to_owned(),
        };
        let measures = [
            Measure {
                point: "udp_out".to_owned(),
                samples: None,
                interval: Some(30.into()),
                filters: vec![filter("ts", "first"), filter("ts", "last")],
            },
            Measure {
                point: "a\"b".to_owned(),
                samples: Some(1.into()),
                interval: None,
                filters: Vec::new(),
            },
        ];
        assert_eq!(
            document("n&1", &measures),
            "<omlc domain=\"{run}\" id=\"n&amp;1\"><collect url=\"{collector}\">\
             <stream mp=\"udp_out\" interval=\"30\"><filter field=\"ts\" operation=\"first\"/>\
             <filter field=\"ts\" operation=\"last\"/></stream>\
             <stream mp=\"a&quot;b\" samples=\"1\"></stream></collect></omlc>"
        );
    }
}
