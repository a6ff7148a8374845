//! The output of programs, as figures.

mod iperf;
mod sftp;

use dhow_scenario::scenario::Output;
use serde_json::Value;

use crate::yardstick::Figure;

/// Figures of one program that are kept, at most; how many more it printed is told.
pub(crate) const FIGURES_MAX: usize = 100_000;

/// A figure, and when: seconds from the program's start, where it says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// The figure.
    pub figure: Figure,
    /// The end of the time that it is for.
    pub time_s: Option<f64>,
}

/// The figures that a program printed, as many as there is room for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrintedFigures {
    /// The figures, in the order in which they were printed.
    pub figures: Vec<Printed>,
    /// The number of figures for which there was no room: the last.
    pub lost: usize,
}

/// The figures in what a program printed.
///
/// # Errors
/// The output that was expected.
pub fn figures(output: Output, text: &str) -> Result<PrintedFigures, String> {
    let mut figures = match output {
        Output::Log | Output::Time => Vec::new(),
        Output::Figures => lines(text)?,
        Output::Iperf3 => iperf3(text)?,
        Output::Iperf => iperf::figures(text)?,
        Output::Sftp => sftp::figures(text)?,
    };
    let lost = figures.len().saturating_sub(FIGURES_MAX);
    figures.truncate(FIGURES_MAX);
    Ok(PrintedFigures { figures, lost })
}

/// A figure of all of the time.
fn printed(figure: &str, value: f64, unit: &str) -> Printed {
    let figure = Figure {
        figure: figure.to_owned(),
        value,
        unit: unit.to_owned(),
    };
    let time_s = None;
    Printed { figure, time_s }
}

/// A line of JSON for each: `{"figure":"goodput","value":8e6,"unit":"bit/s"}`; other lines are for people.
fn lines(text: &str) -> Result<Vec<Printed>, String> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let figures = lines.map(|line| {
        let figure = serde_json::from_str::<Figure>(line)
            .map_err(|error| format!("a line is not a figure ({error}): {line}"))?;
        Ok(Printed {
            figure,
            time_s: None,
        })
    });
    let figures: Vec<Printed> = figures.collect::<Result<_, String>>()?;
    if figures.is_empty() {
        return Err("it printed no figure".to_owned());
    }
    Ok(figures)
}

/// The object that iperf3 prints with `-J`. Intervals of a sender count what was given to its socket, which is no rate of a link.
fn iperf3(text: &str) -> Result<Vec<Printed>, String> {
    let told: Value = serde_json::from_str(text)
        .map_err(|error| format!("it is not what iperf3 prints with -J ({error})"))?;
    if let Some(error) = told.get("error").and_then(Value::as_str) {
        return Err(format!("iperf3 says: {error}"));
    }
    let mut figures = Vec::new();
    let mut add = |figure: &str, value: Option<f64>, unit: &str, time_s: Option<f64>| {
        figures.extend(value.map(|value| Printed {
            time_s,
            ..printed(figure, value, unit)
        }));
    };
    let number = |of: &Value, key: &str| of.get(key).and_then(Value::as_f64);
    let mut is_given = false;
    let intervals = told.get("intervals").and_then(Value::as_array);
    for interval in intervals.into_iter().flatten() {
        if let Some(sum) = interval.get("sum") {
            let is_sender = sum.get("sender").and_then(Value::as_bool) != Some(false);
            let name = if is_sender { "given" } else { "rate" };
            let rate = number(sum, "bits_per_second");
            add(name, rate, "bit/s", number(sum, "end"));
            is_given |= is_sender;
        }
    }
    let end = told.get("end").unwrap_or(&Value::Null);
    // The receiver's word counts; UDP has one sum for both.
    let sum = ["sum_received", "sum"].iter().find_map(|key| end.get(key));
    let Some(sum) = sum else {
        return Err("iperf3 came to no end".to_owned());
    };
    let rate = number(sum, "bits_per_second");
    add("goodput", rate, "bit/s", None);
    add("rate", rate.filter(|_| is_given), "bit/s", None);
    add("octets", number(sum, "bytes"), "octets", None);
    let jitter = number(sum, "jitter_ms").map(|ms| ms / 1e3);
    add("jitter", jitter, "s", None);
    let lost = number(sum, "lost_percent").map(|percent| percent / 100.0);
    add("lost", lost, "share", None);
    let sent = end
        .get("sum_sent")
        .and_then(|sum| number(sum, "retransmits"));
    add("retransmissions", sent, "segments", None);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_json_are_figures_and_others_are_for_people() {
        let text = "warming up\n{\"figure\":\"goodput\",\"value\":8e6,\"unit\":\"bit/s\"}\n";
        let found = figures(Output::Figures, text).unwrap().figures;
        assert_eq!((found[0].figure.value, found.len()), (8e6, 1));
        assert!(figures(Output::Figures, "").is_err());
        let error = figures(Output::Figures, "{\"figure\":1}").unwrap_err();
        assert!(error.contains("{\"figure\":1}"), "{error}");
        assert!(figures(Output::Log, "{").unwrap().figures.is_empty());
    }

    #[test]
    fn figures_without_room_are_counted() {
        let line = "{\"figure\":\"goodput\",\"value\":8e6,\"unit\":\"bit/s\"}\n";
        let told = figures(Output::Figures, &line.repeat(FIGURES_MAX + 3)).unwrap();
        assert_eq!((told.figures.len(), told.lost), (FIGURES_MAX, 3));
    }

    #[test]
    fn iperf3_tells_its_end_and_its_intervals() {
        let text = r#"{"intervals":[{"sum":{"end":1.0,"bits_per_second":5e6,"sender":true}}],
            "end":{"sum_sent":{"retransmits":3,"bits_per_second":9e6},
                   "sum_received":{"bytes":1000,"bits_per_second":8e6}}}"#;
        let found = figures(Output::Iperf3, text).unwrap().figures;
        let named = |name: &str| {
            let found = found.iter().find(|it| it.figure.figure == name).unwrap();
            (found.figure.value, found.time_s)
        };
        assert_eq!(named("goodput"), (8e6, None));
        assert_eq!(named("given"), (5e6, Some(1.0)));
        assert_eq!(named("rate"), (8e6, None));
        assert_eq!(named("retransmissions"), (3.0, None));
        let text = text.replace("\"sender\":true", "\"sender\":false");
        let found = figures(Output::Iperf3, &text).unwrap().figures;
        let rates = found.iter().filter(|it| it.figure.figure == "rate");
        let rates: Vec<_> = rates.map(|it| (it.figure.value, it.time_s)).collect();
        assert_eq!(rates, [(5e6, Some(1.0))]);
        let refused = figures(Output::Iperf3, r#"{"error":"unable to connect"}"#).unwrap_err();
        assert_eq!(refused, "iperf3 says: unable to connect");
        assert!(figures(Output::Iperf3, "{}").is_err());
    }
}
