//! What programs print, as figures.

use dhow_scenario::scenario::Output;
use serde_json::Value;

use crate::yardstick::Figure;

/// Figures of one program that are kept, at most; how many more it printed is told.
const FIGURES_MAX: usize = 100_000;

/// A figure, and when: seconds from the program's start, where it says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// The figure.
    pub figure: Figure,
    /// The end of the time that it is for.
    pub time_s: Option<f64>,
}

/// What a program printed, as far as there is room for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The figures, in the order in which they were printed.
    pub figures: Vec<Printed>,
    /// Those for which there was no room: the last.
    pub lost: usize,
}

/// The figures in what a program printed.
///
/// # Errors
/// What it should have printed.
pub fn figures(output: Output, text: &str) -> Result<Told, String> {
    let mut figures = match output {
        Output::Log => Vec::new(),
        Output::Figures => lines(text)?,
        Output::Iperf3 => iperf3(text)?,
        Output::Iperf => iperf(text)?,
    };
    let lost = figures.len().saturating_sub(FIGURES_MAX);
    figures.truncate(FIGURES_MAX);
    Ok(Told { figures, lost })
}

/// A line of JSON for each: `{"figure":"goodput","value":8e6,"unit":"bit/s"}`; other lines are for people.
fn lines(text: &str) -> Result<Vec<Printed>, String> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let figures = lines.map(|line| {
        let figure = serde_json::from_str::<Figure>(line)
            .map_err(|error| format!("a line is no figure ({error}): {line}"))?;
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

/// The last line that iperf 2 prints with `-y C`, which is of all of the time: when, both ends (address and port), number, times,
/// octets, bit/s, and of datagrams jitter in ms, lost, all, and the lost in percent.
fn iperf(text: &str) -> Result<Vec<Printed>, String> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let last = lines.rfind(|cells| cells.len() >= 9);
    let cells = last.ok_or("it printed no line of iperf with -y C")?;
    let number = |place: usize| cells.get(place).and_then(|cell| cell.parse::<f64>().ok());
    let figures = [
        ("rate", number(8), "bit/s"),
        ("octets", number(7), "octets"),
        ("jitter", number(9).map(|ms| ms / 1e3), "s"),
        ("lost", number(12).map(|percent| percent / 100.0), "share"),
    ];
    let told = figures.into_iter().filter_map(|(name, value, unit)| {
        let figure = Figure {
            figure: name.to_owned(),
            value: value?,
            unit: unit.to_owned(),
        };
        let time_s = None;
        Some(Printed { figure, time_s })
    });
    Ok(told.collect())
}

/// The object that iperf3 prints with `-J`.
fn iperf3(text: &str) -> Result<Vec<Printed>, String> {
    let told: Value = serde_json::from_str(text)
        .map_err(|error| format!("it is not what iperf3 prints with -J ({error})"))?;
    if let Some(error) = told.get("error").and_then(Value::as_str) {
        return Err(format!("iperf3 says: {error}"));
    }
    let mut figures = Vec::new();
    let mut add = |figure: &str, value: Option<f64>, unit: &str, time_s: Option<f64>| {
        if let Some(value) = value {
            let figure = Figure {
                figure: figure.to_owned(),
                value,
                unit: unit.to_owned(),
            };
            figures.push(Printed { figure, time_s });
        }
    };
    let number = |of: &Value, key: &str| of.get(key).and_then(Value::as_f64);
    let intervals = told.get("intervals").and_then(Value::as_array);
    for interval in intervals.into_iter().flatten() {
        if let Some(sum) = interval.get("sum") {
            let rate = number(sum, "bits_per_second");
            add("rate", rate, "bit/s", number(sum, "end"));
        }
    }
    let end = told.get("end").unwrap_or(&Value::Null);
    // The receiver's word counts; UDP has one sum for both.
    let sum = ["sum_received", "sum"].iter().find_map(|key| end.get(key));
    let Some(sum) = sum else {
        return Err("iperf3 came to no end".to_owned());
    };
    add("goodput", number(sum, "bits_per_second"), "bit/s", None);
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
    fn iperf_tells_in_its_last_line() {
        let text = "20261122062316,127.0.0.1,5055,127.0.0.1,48607,1,0.0-1.0,9,9\n\
                    20261122062317,127.0.0.1,5055,127.0.0.1,48607,1,0.0-2.0,1311240,5248572,0.007,0,892,2.500,0\n";
        let found = figures(Output::Iperf, text).unwrap().figures;
        let told: Vec<(&str, f64)> = found
            .iter()
            .map(|it| (it.figure.figure.as_str(), it.figure.value))
            .collect();
        let expected = [
            ("rate", 5_248_572.0),
            ("octets", 1_311_240.0),
            ("jitter", 7e-6),
            ("lost", 0.025),
        ];
        assert_eq!(told, expected);
        assert!(figures(Output::Iperf, "connect failed\n").is_err());
    }

    #[test]
    fn iperf3_tells_its_end_and_its_intervals() {
        let text = r#"{"intervals":[{"sum":{"end":1.0,"bits_per_second":5e6}}],
            "end":{"sum_sent":{"retransmits":3,"bits_per_second":9e6},
                   "sum_received":{"bytes":1000,"bits_per_second":8e6}}}"#;
        let found = figures(Output::Iperf3, text).unwrap().figures;
        let named = |name: &str| {
            let found = found.iter().find(|it| it.figure.figure == name).unwrap();
            (found.figure.value, found.time_s)
        };
        assert_eq!(named("goodput"), (8e6, None));
        assert_eq!(named("rate"), (5e6, Some(1.0)));
        assert_eq!(named("retransmissions"), (3.0, None));
        let refused = figures(Output::Iperf3, r#"{"error":"unable to connect"}"#).unwrap_err();
        assert_eq!(refused, "iperf3 says: unable to connect");
        assert!(figures(Output::Iperf3, "{}").is_err());
    }
}
