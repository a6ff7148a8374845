//! The output of iperf 2: lines of CSV with `-y C`, and else a report for people.

use super::{Printed, printed};

/// The figures of its last line, which is of all of the time.
pub(super) fn figures(text: &str) -> Result<Vec<Printed>, String> {
    let lines = text.lines().rev();
    let mut found = lines.filter_map(|line| csv(line).or_else(|| report(line)));
    let last = found
        .next()
        .ok_or("it printed no line of iperf with a rate")?;
    let [rate, octets, jitter, lost, delay] = last;
    let figures = [
        ("rate", rate, "bit/s"),
        ("octets", octets, "octets"),
        ("jitter", jitter, "s"),
        ("lost", lost, "share"),
        ("delay", delay, "s"),
    ];
    let told = figures.into_iter();
    Ok(told
        .filter_map(|(name, value, unit)| Some(printed(name, value?, unit)))
        .collect())
}

/// Rate in bit/s, octets, jitter in seconds, the share that was lost and the mean delay in seconds, each where it is told.
type LineFigures = [Option<f64>; 5];

/// A line of `-y C`: when, both ends (address and port), number, times, octets, bit/s, and of datagrams jitter in ms, lost, all, and the
/// lost in percent.
fn csv(line: &str) -> Option<LineFigures> {
    let cells: Vec<&str> = line.split(',').collect();
    let number = |place: usize| cells.get(place).and_then(|cell| cell.parse::<f64>().ok());
    (cells.len() >= 9).then(|| {
        [
            number(8),
            number(7),
            number(9).map(|ms| ms / 1e3),
            number(12).map(|percent| percent / 100.0),
            None,
        ]
    })
}

/// A line for people: `[ID] FROM-TO sec  NUMBER MBytes  NUMBER Mbits/sec`, and of datagrams `NUMBER ms  LOST/ALL (PERCENT%)`, with `-e` with
/// ` MEAN/LEAST/MOST/DEVIATION ms` behind it.
fn report(line: &str) -> Option<LineFigures> {
    let (_, behind) = line.strip_prefix('[')?.split_once(']')?;
    let (_, behind) = behind.split_once(" sec ")?;
    let mut words = behind.split_whitespace();
    let mut next = || Some((words.next()?.parse::<f64>().ok()?, words.next()?));
    let (amount, unit) = next()?;
    let octets = amount * scale(unit.strip_suffix("Bytes")?, 1_024.0)?;
    let (amount, unit) = next()?;
    let rate = amount
        * match unit.strip_suffix("bits/sec") {
            Some(prefix) => scale(prefix, 1_000.0)?,
            None => scale(unit.strip_suffix("Bytes/sec")?, 1_024.0)? * 8.0,
        };
    let jitter = next()
        .filter(|(_, unit)| *unit == "ms")
        .map(|(ms, _)| ms / 1e3);
    let lost = jitter.and_then(|_| {
        let (_, counts) = behind.split_once(" ms ")?;
        let (lost, rest) = counts.trim_start().split_once('/')?;
        let all: f64 = rest.split_whitespace().next()?.parse().ok()?;
        let lost: f64 = lost.trim().parse().ok()?;
        (all > 0.0).then(|| lost / all)
    });
    let delay = lost.and_then(|_| {
        let (_, behind) = behind.split_once("%)")?;
        let mut words = behind.split_whitespace();
        let (mean, _) = words.next()?.split_once('/')?;
        let ms: f64 = mean.parse().ok()?;
        (words.next()? == "ms").then_some(ms / 1e3)
    });
    Some([Some(rate), Some(octets), jitter, lost, delay])
}

/// The factor of a unit's prefix; iperf counts octets by 1,024 and bits by 1,000.
fn scale(prefix: &str, thousand: f64) -> Option<f64> {
    let power = ["", "K", "M", "G", "T"]
        .iter()
        .position(|known| *known == prefix)?;
    Some(thousand.powi(i32::try_from(power).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(String, f64)> {
        let figures = figures(text).unwrap().into_iter();
        figures
            .map(|it| (it.figure.figure, it.figure.value))
            .collect()
    }

    fn expected<const N: usize>(figures: [(&str, f64); N]) -> Vec<(String, f64)> {
        figures.map(|(name, value)| (name.to_owned(), value)).into()
    }

    #[test]
    fn lines_of_csv_tell_in_the_last_one() {
        let text = "20261122062316,127.0.0.1,5055,127.0.0.1,48607,1,0.0-1.0,9,9\n\
                    20261122062317,127.0.0.1,5055,127.0.0.1,48607,1,0.0-2.0,1311240,5248572,0.007,0,892,2.500,0\n";
        let figures = [
            ("rate", 5_248_572.0),
            ("octets", 1_311_240.0),
            ("jitter", 7e-6),
            ("lost", 0.025),
        ];
        assert_eq!(told(text), expected(figures));
    }

    /// iperf 2.1.8 over UDP, as its client prints.
    const DATAGRAMS: &str = "Client connecting to 127.0.0.1, UDP port 5077\n\
        [  1] local 127.0.0.1 port 37047 connected with 127.0.0.1 port 5077\n\
        [ ID] Interval       Transfer     Bandwidth\n\
        [  1] 0.0000-1.0000 sec   258 KBytes  2.12 Mbits/sec\n\
        [  1] 0.0000-2.0077 sec   517 KBytes  2.11 Mbits/sec\n\
        [  1] Sent 361 datagrams\n\
        [  1] Server Report:\n\
        [ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n\
        [  1] 0.0000-2.0077 sec   516 KBytes  2.10 Mbits/sec   0.003 ms 9/360 (2.5%)\n\
        [  1] 0.0000-2.0077 sec  3 datagrams received out-of-order\n";

    #[test]
    fn a_report_for_people_tells_in_the_last_line_with_a_rate() {
        let figures = [
            ("rate", 2.10 * 1e6),
            ("octets", 516.0 * 1_024.0),
            ("jitter", 3e-6),
            ("lost", 0.025),
        ];
        assert_eq!(told(DATAGRAMS), expected(figures));
        let sum = "[  2] 0.0000-2.0138 sec  1507584 KBytes  6132690 Kbits/sec\n\
                   [SUM] 0.0000-2.0000 sec  4.29 GBytes  18.4 GBytes/sec\n";
        let figures = [
            ("rate", 18.4 * 8.0 * 1_073_741_824.0),
            ("octets", 4.29 * 1_073_741_824.0),
        ];
        assert_eq!(told(sum), expected(figures));
        let few = "[  3] 0.0000-0.0004 sec  1000 Bytes   477 bits/sec\n";
        assert_eq!(told(few), expected([("rate", 477.0), ("octets", 1_000.0)]));
    }

    /// iperf 2.1.8 as a server with `-e`, which says how long datagrams were on the way.
    #[test]
    fn a_report_with_latencies_tells_the_mean_delay() {
        let line = "[  1] 0.0000-2.0039 sec  1.20 MBytes  5.01 Mbits/sec   0.001 ms 0/854 (0%) 0.006/0.001/0.067/0.003 ms 426 pps 854/0(0) pkts 108342\n";
        let figures = [
            ("rate", 5.01 * 1e6),
            ("octets", 1.20 * 1_048_576.0),
            ("jitter", 1e-6),
            ("lost", 0.0),
            ("delay", 6e-6),
        ];
        assert_eq!(told(line), expected(figures));
        let unknown = line.replace("0.006/0.001/0.067/0.003 ms", "-/-/-/- ms");
        assert_eq!(
            told(&unknown),
            expected([figures[0], figures[1], figures[2], figures[3]])
        );
    }

    #[test]
    fn what_failed_tells_nothing() {
        let text = "tcp connect failed: Connection refused\n[  1] local 0.0.0.0 port 0 connected with 127.0.0.1 port 5999\n";
        assert_eq!(
            figures(text).unwrap_err(),
            "it printed no line of iperf with a rate"
        );
    }
}
