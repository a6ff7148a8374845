//! Filters: of many samples a row, in the measured program, so that less has to travel.
//!
//! A [`Plan`] says which points are sent and how; [`Rule::pipeline`] makes of a rule and a point what is fed with samples. The
//! [`operation`]s are OML's, their columns named as there, and some more.

mod operation;
mod sketch;

use std::time::Duration;

pub use operation::Operation;

use self::operation::Accumulator;
use crate::client::record::Kept;
use crate::point::Point;
use crate::schema::{Field, Schema, SchemaError};
use crate::value::Value;

/// Windows without a sample that are told one after the other; after more (a program that was stopped), time is skipped.
const EMPTY_WINDOWS_MAX: u32 = 1000;

/// The shortest interval.
pub const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The samples that make one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A number of samples; 0 and 1 are one sample a row.
    Samples(u64),
    /// The samples within an interval.
    Interval(Duration),
}

/// One filter over one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The field of the point.
    pub field: String,
    /// The operation on the field's values.
    pub operation: Operation,
    /// The beginning of its columns' names, instead of the field's name.
    pub rename: Option<String>,
}

/// The rule by which one point is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The point's name, without the application's.
    pub point: String,
    /// The stream's name instead of the point's.
    pub alias: Option<String>,
    /// The samples that make one row.
    pub window: Window,
    /// The filters whose columns a row has; if there are none, each field has the usual filter of its type.
    pub filters: Vec<Filter>,
}

/// The points that are sent, and their filters.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// All, with the usual filters: each sample by itself where the window is one.
    All(Window),
    /// Points that have rules; a point may have several.
    Listed(Vec<Rule>),
}

impl Default for Plan {
    fn default() -> Self {
        Self::All(Window::Samples(1))
    }
}

impl Plan {
    /// The pipelines of a point's samples, one for each stream.
    ///
    /// # Errors
    /// A rule for it that names a field it has not, or a filter that cannot be on that field.
    pub fn pipelines(&self, point: &Point, app: &str) -> Result<Vec<Pipeline>, FilterError> {
        match self {
            Self::All(window) => {
                let rule = Rule {
                    point: point.name.to_owned(),
                    alias: None,
                    window: *window,
                    filters: Vec::new(),
                };
                Ok(vec![rule.pipeline(point, app)?])
            }
            Self::Listed(rules) => rules
                .iter()
                .filter(|rule| rule.point == point.name)
                .map(|rule| rule.pipeline(point, app))
                .collect(),
        }
    }
}

impl Rule {
    /// The pipeline of a point's samples by this rule.
    ///
    /// # Errors
    /// As [`Plan::pipelines`].
    pub fn pipeline(&self, point: &Point, app: &str) -> Result<Pipeline, FilterError> {
        let name = format!("{app}_{}", self.alias.as_deref().unwrap_or(point.name));
        let is_plain = self.filters.is_empty() && matches!(self.window, Window::Samples(0 | 1));
        if is_plain {
            return Ok(Pipeline {
                schema: point.schema(app)?.renamed(&name)?,
                window: self.window,
                filters: Vec::new(),
                held: 0,
                has_any: false,
                ends_s: None,
            });
        }
        let (mut fields, mut filters) = (Vec::new(), Vec::new());
        for filter in self.filters_of(point) {
            let place = point.columns.iter().position(|c| c.name == filter.field);
            let Some((place, column)) = place.and_then(|p| Some((p, point.columns.get(p)?))) else {
                return Err(FilterError::NoField {
                    point: point.name.to_owned(),
                    field: filter.field,
                    fields: point
                        .columns
                        .iter()
                        .map(|column| column.name)
                        .collect::<Vec<_>>()
                        .join(", "),
                });
            };
            if filter.operation.needs_number() && !column.kind.is_numeric() {
                return Err(FilterError::NotNumeric {
                    field: filter.field,
                    operation: filter.operation.name(),
                });
            }
            let start = filter.rename.as_deref().unwrap_or(&filter.field);
            fields.extend(filter.operation.columns(start, column.kind));
            filters.push((place, Accumulator::new(&filter.operation)));
        }
        let fields = fields.into_iter();
        let fields = fields.map(|(name, kind)| Field { name, kind });
        Ok(Pipeline {
            schema: Schema::new(&name, fields.collect())?,
            window: self.window,
            filters,
            held: 0,
            has_any: false,
            ends_s: None,
        })
    }

    /// The rule's filters, or the usual ones: the first of what is no number, average, least and greatest of what is one.
    fn filters_of(&self, point: &Point) -> Vec<Filter> {
        if !self.filters.is_empty() {
            return self.filters.clone();
        }
        let usual = |is_numeric| match is_numeric {
            true => Operation::Avg,
            false => Operation::First,
        };
        point
            .columns
            .iter()
            .map(|column| Filter {
                field: column.name.to_owned(),
                operation: usual(column.kind.is_numeric()),
                rename: None,
            })
            .collect()
    }
}

/// Samples of one point on their way to rows of one stream.
#[derive(Debug)]
pub struct Pipeline {
    schema: Schema,
    window: Window,
    /// Each with the place of its field in a sample; none where samples go as they are.
    filters: Vec<(usize, Accumulator)>,
    /// Samples of the window.
    held: u64,
    has_any: bool,
    /// When the window ends, where it is one of time.
    ends_s: Option<f64>,
}

impl Pipeline {
    /// The stream's schema.
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// True where samples go as they are, with their own numbers.
    pub const fn is_plain(&self) -> bool {
        self.filters.is_empty()
    }

    /// Takes a sample, and gives the row that it completes. A window of time is closed by [`tick`](Self::tick) before.
    pub fn sample(
        &mut self,
        time_s: f64,
        values: &[Value<'_>],
        mut row: impl FnMut(f64, &[Value<'_>]),
    ) {
        if self.is_plain() {
            row(time_s, values);
            return;
        }
        for (place, accumulator) in &mut self.filters {
            if let Some(value) = values.get(*place) {
                accumulator.add(value);
            }
        }
        self.held += 1;
        self.has_any = true;
        if let Window::Samples(count) = self.window
            && self.held >= count
        {
            self.close_window(time_s, row);
        }
    }

    /// The time has come: gives the rows of windows that have ended, at their ends. Before the first sample there are none.
    pub fn tick(&mut self, now_s: f64, mut row: impl FnMut(f64, &[Value<'_>])) {
        let Window::Interval(interval) = self.window else {
            return;
        };
        let interval_s = interval.max(INTERVAL_MIN).as_secs_f64();
        let mut ends_s = self.ends_s.unwrap_or(now_s + interval_s);
        if now_s - ends_s > interval_s * f64::from(EMPTY_WINDOWS_MAX) {
            if self.held > 0 {
                self.close_window(ends_s, &mut row);
            }
            ends_s = now_s;
        }
        while now_s >= ends_s {
            if self.has_any {
                self.close_window(ends_s, &mut row);
            }
            ends_s += interval_s;
        }
        self.ends_s = Some(ends_s);
    }

    /// No more will come: a window that is not full is told as it is.
    pub fn finish(&mut self, now_s: f64, mut row: impl FnMut(f64, &[Value<'_>])) {
        self.tick(now_s, &mut row);
        if self.held > 0 {
            self.close_window(now_s, row);
        }
    }

    fn close_window(&mut self, time_s: f64, mut row: impl FnMut(f64, &[Value<'_>])) {
        let mut cells = Vec::with_capacity(self.schema.fields().len());
        for (_, accumulator) in &self.filters {
            accumulator.result(&mut cells);
        }
        let values: Vec<Value<'_>> = cells.iter().map(Kept::value).collect();
        row(time_s, &values);
        for (_, accumulator) in &mut self.filters {
            accumulator.begin();
        }
        self.held = 0;
    }
}

/// Why a rule does not fit a point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// No such field.
    #[error("the point '{point}' has no field '{field}' (it has {fields})")]
    NoField {
        /// The point.
        point: String,
        /// The name of the field that the point lacks.
        field: String,
        /// The names of the fields that it has, separated by commas.
        fields: String,
    },
    /// A filter that calculates, over what is no number.
    #[error("the filter {operation} needs a number, which '{field}' is not")]
    NotNumeric {
        /// The field.
        field: String,
        /// The filter.
        operation: &'static str,
    },
    /// Columns that no database takes.
    #[error("the filters' columns cannot be: {0}")]
    Schema(#[from] SchemaError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::Column;
    use crate::schema::Type;

    const fn column(name: &'static str, kind: Type) -> Column {
        Column {
            name,
            kind,
            unit: "",
            about: "",
        }
    }

    static POINT: Point = Point {
        name: "p",
        about: "a test",
        columns: &[column("n", Type::Uint32), column("host", Type::Text)],
    };

    fn filter(field: &str, operation: Operation) -> Filter {
        Filter {
            field: field.into(),
            operation,
            rename: None,
        }
    }

    fn rule(window: Window, filters: Vec<Filter>) -> Rule {
        Rule {
            point: "p".into(),
            alias: None,
            window,
            filters,
        }
    }

    fn run(pipeline: &mut Pipeline, numbers: &[u32]) -> Vec<String> {
        let mut rows = Vec::new();
        for number in numbers {
            pipeline.sample(
                1.0,
                &[Value::Uint32(*number), Value::Text("h")],
                |_, values| {
                    rows.push(shown(values));
                },
            );
        }
        rows
    }

    fn shown(values: &[Value<'_>]) -> String {
        let mut line = String::new();
        crate::omsp::text::write_row(&mut line, 0.0, 1, 1, values);
        line.trim_end()
            .replace("0.000000\t1\t1\t", "")
            .replace('\t', " ")
    }

    #[test]
    fn the_usual_filters_are_those_of_oml() {
        let mut plain = rule(Window::Samples(1), vec![])
            .pipeline(&POINT, "a")
            .unwrap();
        assert_eq!(plain.schema().to_string(), "a_p n:uint32 host:string");
        assert_eq!(run(&mut plain, &[7]), ["7 h"]);
        let mut every = rule(Window::Samples(4), vec![])
            .pipeline(&POINT, "a")
            .unwrap();
        assert_eq!(
            every.schema().to_string(),
            "a_p n_avg:double n_min:double n_max:double host:string"
        );
        assert_eq!(run(&mut every, &[1, 2, 3, 6, 9]), ["3.0 1.0 6.0 h"]);
        let mut rows = Vec::new();
        every.finish(2.0, |_, values| rows.push(shown(values)));
        assert_eq!(rows, ["9.0 9.0 9.0 h"]);
    }

    #[test]
    fn every_filter_gives_what_its_columns_say_in_the_order_of_the_rule() {
        let all = vec![
            filter("n", Operation::Delta),
            filter("n", Operation::Stddev),
            Filter {
                rename: Some("total".into()),
                ..filter("n", Operation::Sum)
            },
            filter("host", Operation::Last),
            Filter {
                rename: Some("low".into()),
                ..filter("n", Operation::Min)
            },
            filter("n", Operation::Count),
            filter("n", Operation::Seqgap),
            filter(
                "n",
                Operation::Histogram {
                    low: 0.0,
                    high: 10.0,
                    bins: 2,
                },
            ),
            filter("n", Operation::Quantiles(vec![0.0, 0.999])),
        ];
        let mut pipeline = rule(Window::Samples(4), all).pipeline(&POINT, "a").unwrap();
        assert_eq!(
            pipeline.schema().to_string(),
            "a_p n_delta:double n_last:double n_stddev:double n_variance:double total_sum:double host_last:string low_min:double \
             n_count:uint64 n_missing:uint64 n_histogram:[uint64] n_p0:double n_p99_9:double"
        );
        let rows = run(&mut pipeline, &[2, 4, 4, 10, 12, 12, 12, 12]);
        // Standard deviation of 2, 4, 4, 10: the variance over n − 1 is 12, but for the last digit.
        assert_eq!(
            rows[0],
            "10.0 10.0 3.4641016151377544 11.999999999999998 20.0 h 2.0 4 6 4 0 3 0 1 2.0 10.0"
        );
        assert_eq!(
            rows[1],
            "2.0 12.0 0.0 0.0 48.0 h 12.0 4 1 4 0 0 0 4 12.0 12.0"
        );
    }

    #[test]
    fn windows_of_time_are_told_at_their_ends_also_when_they_are_empty() {
        let filters = vec![
            filter("n", Operation::Sum),
            filter("n", Operation::Avg),
            filter("n", Operation::First),
        ];
        let mut pipeline = rule(Window::Interval(Duration::from_secs(1)), filters)
            .pipeline(&POINT, "a")
            .unwrap();
        let mut rows = Vec::new();
        let mut row =
            |time_s: f64, values: &[Value<'_>]| rows.push(format!("{time_s}: {}", shown(values)));
        pipeline.tick(10.0, &mut row);
        pipeline.tick(12.5, &mut row);
        pipeline.sample(12.6, &[Value::Uint32(5), Value::Text("h")], &mut row);
        pipeline.tick(15.0, &mut row);
        // A program that was stopped for a day says so once.
        pipeline.sample(15.5, &[Value::Uint32(6), Value::Text("h")], &mut row);
        pipeline.tick(90_000.0, &mut row);
        assert_eq!(
            rows,
            [
                "13: 5.0 5.0 5.0 5.0 5",
                "14: 0.0 nan nan nan 5",
                "15: 0.0 nan nan nan 5",
                "16: 6.0 6.0 6.0 6.0 6",
                "90000: 0.0 nan nan nan 6"
            ]
        );
    }

    #[test]
    fn a_rule_that_does_not_fit_says_why() {
        let wrong = rule(Window::Samples(2), vec![filter("m", Operation::Sum)]);
        let error = wrong.pipeline(&POINT, "a").unwrap_err().to_string();
        assert_eq!(error, "the point 'p' has no field 'm' (it has n, host)");
        let wrong = rule(Window::Samples(2), vec![filter("host", Operation::Sum)]);
        assert!(matches!(
            wrong.pipeline(&POINT, "a"),
            Err(FilterError::NotNumeric { .. })
        ));
        let twice = vec![filter("n", Operation::Sum), filter("n", Operation::Sum)];
        assert!(matches!(
            rule(Window::Samples(2), twice).pipeline(&POINT, "a"),
            Err(FilterError::Schema(SchemaError::FieldTwice(_)))
        ));
    }
}
