//! The output of `sftp` and `scp` on a transfer: with `-v` at its end, on a terminal for each file.

use super::{Printed, printed};

/// Units of the meter: each is 1,024 times the one before.
const UNITS: [&str; 5] = ["B/s", "KB/s", "MB/s", "GB/s", "TB/s"];

/// Figures of all of a connection, where `-v` has it tell; else the rate of each file that the meter shows to its end.
pub(super) fn figures(text: &str) -> Result<Vec<Printed>, String> {
    let mut figures = totals(text);
    if figures.is_empty() {
        // The meter goes back to the beginning of its line.
        let states = text.split(['\n', '\r']);
        figures.extend(
            states
                .filter_map(meter)
                .map(|rate| printed("rate", rate, "bit/s")),
        );
    }
    match figures.is_empty() {
        false => Ok(figures),
        true => Err("it says nothing of a transfer: sftp and scp do with -v".to_owned()),
    }
}

/// `Transferred: sent N, received N bytes, in N seconds` and `Bytes per second: sent N, received N`, the last of each.
fn totals(text: &str) -> Vec<Printed> {
    let numbers = |begin: &str| -> Option<Vec<f64>> {
        let line = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(begin))?;
        let words = line.split([' ', ',']).filter_map(|word| word.parse().ok());
        Some(words.collect())
    };
    let mut figures = Vec::new();
    if let Some([sent, received, time]) = numbers("Transferred: ").as_deref() {
        figures.push(printed("octets_sent", *sent, "octets"));
        figures.push(printed("octets_received", *received, "octets"));
        figures.push(printed("time", *time, "s"));
    }
    if let Some([sent, received]) = numbers("Bytes per second: ").as_deref() {
        figures.push(printed("rate", sent.max(*received) * 8.0, "bit/s"));
        figures.push(printed("rate_sent", sent * 8.0, "bit/s"));
        figures.push(printed("rate_received", received * 8.0, "bit/s"));
    }
    figures
}

/// The rate in bit/s in what the meter shows at the end of a file: `NAME 100% 19MB 55.3MB/s 00:00`.
fn meter(line: &str) -> Option<f64> {
    let (_, behind) = line.rsplit_once(" 100% ")?;
    let rate = behind.split_whitespace().nth(1)?;
    let digits = rate.find(|it: char| !it.is_ascii_digit() && it != '.')?;
    let (number, unit) = rate.split_at(digits);
    let power = UNITS.iter().position(|known| *known == unit)?;
    let scale = 1_024_f64.powi(i32::try_from(power).ok()?);
    Some(number.parse::<f64>().ok()? * scale * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenSSH 9.2: `sftp -v -b batch`, with `put` and `get` of 20 MB; its end.
    const VERBOSE: &str = "sftp> put file got\nsftp> get got back\n\
        debug1: channel 0: free: client-session, nchannels 1\n\
        Transferred: sent 20023652, received 20027348 bytes, in 0.7 seconds\n\
        Bytes per second: sent 28287895.4, received 28293116.8\n\
        debug1: Exit status 0\n";

    /// OpenSSH 9.2: the same on a terminal.
    const METER: &str = "sftp> put file got\r\nUploading file to /root/got\r\n\
        \rfile                                            0%    0     0.0KB/s   --:-- ETA\
        \rfile                                          100%   19MB  55.3MB/s   00:00    \r\n\
        sftp> get got back\r\n\rgot                                           100% 1000    27.5KB/s   00:00    \r\n";

    fn told(text: &str) -> Vec<(String, f64)> {
        let figures = figures(text).unwrap().into_iter();
        figures
            .map(|it| (it.figure.figure, it.figure.value))
            .collect()
    }

    #[test]
    fn a_connection_tells_what_it_carried() {
        let expected = [
            ("octets_sent", 20_023_652.0),
            ("octets_received", 20_027_348.0),
            ("time", 0.7),
            ("rate", 28_293_116.8 * 8.0),
            ("rate_sent", 28_287_895.4 * 8.0),
            ("rate_received", 28_293_116.8 * 8.0),
        ];
        assert_eq!(
            told(VERBOSE),
            expected.map(|(name, value)| (name.to_owned(), value))
        );
    }

    #[test]
    fn a_terminal_has_the_rate_of_each_file() {
        let rates = [55.3 * 1_048_576.0 * 8.0, 27.5 * 1_024.0 * 8.0];
        assert_eq!(told(METER), rates.map(|rate| ("rate".to_owned(), rate)));
    }

    #[test]
    fn what_failed_tells_nothing() {
        let error =
            figures("ssh: connect to host 198.18.0.2 port 22: Connection refused\n").unwrap_err();
        assert_eq!(
            error,
            "it says nothing of a transfer: sftp and scp do with -v"
        );
    }
}
