//! Reports as iperf 2 prints them.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use dhow_testbed::iperf::{Connection, Report, Transfer};

use super::Side;
use super::bytes::{bits_per_second, bytes};
use crate::calendar;
use crate::failure::Failure;
use crate::output;

const RULE: &str = "------------------------------------------------------------";

/// The style of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// Values separated by commas
    #[value(name = "C", alias = "c")]
    Commas,
    /// No reports: measurements only
    #[value(name = "O", alias = "o")]
    Measurements,
}

/// Writes reports to standard output.
#[derive(Debug)]
pub struct Text {
    has_commas: bool,
    is_udp: bool,
    connections: Vec<Connection>,
    /// Whether the last title had the columns of datagrams.
    titled: Option<bool>,
}

/// Connections whose ends are remembered for lines with commas.
const CONNECTIONS_MAX: usize = 1_024;

impl Text {
    pub const fn new(style: Option<Style>, is_udp: bool) -> Self {
        Self {
            has_commas: matches!(style, Some(Style::Commas)),
            is_udp,
            connections: Vec::new(),
            titled: None,
        }
    }

    /// Before anything else.
    pub fn begin(&mut self, side: Side, at: SocketAddr, octets: usize) -> Result<(), Failure> {
        if self.has_commas {
            return Ok(());
        }
        let protocol = if self.is_udp { "UDP" } else { "TCP" };
        let what = match side {
            Side::Client => format!(
                "Client connecting to {}, {protocol} port {}",
                at.ip(),
                at.port()
            ),
            Side::Server => format!("Server listening on {protocol} port {}", at.port()),
        };
        let size = match (side, self.is_udp) {
            (Side::Client, true) => format!("Sending {octets} byte datagrams\n"),
            (Side::Server, true) | (_, false) => String::new(),
        };
        output::text(&format!("{RULE}\n{what}\n{size}{RULE}\n"))
    }

    pub fn connection(&mut self, connection: &Connection) -> Result<(), Failure> {
        if self.has_commas {
            if self.connections.len() < CONNECTIONS_MAX {
                self.connections.push(*connection);
            }
            return Ok(());
        }
        let Connection { id, local, foreign } = connection;
        output::line(&format!(
            "[{id:3}] local {} port {} connected with {} port {}",
            local.ip(),
            local.port(),
            foreign.ip(),
            foreign.port()
        ))
    }

    pub fn transfer(&mut self, transfer: &Transfer) -> Result<(), Failure> {
        if self.has_commas {
            return output::line(&self.commas(transfer));
        }
        let of_server = transfer
            .datagrams
            .filter(|report| report.jitter_ns.is_some());
        self.title(of_server.is_some())?;
        output::line(&line(transfer, of_server))?;
        match transfer.datagrams {
            Some(report) if transfer.is_total && report.jitter_ns.is_none() => output::line(
                &format!("[{:3}] Sent {} datagrams", transfer.id, report.sent),
            ),
            Some(report) if transfer.is_total => again(transfer.id, &report),
            _ => Ok(()),
        }
    }

    pub fn server_report(&mut self, transfer: &Transfer) -> Result<(), Failure> {
        if self.has_commas {
            return output::line(&self.commas(transfer));
        }
        output::line(&format!("[{:3}] Server Report:", transfer.id))?;
        output::line(&line(transfer, transfer.datagrams))
    }

    fn title(&mut self, has_datagrams: bool) -> Result<(), Failure> {
        if self.titled.replace(has_datagrams) == Some(has_datagrams) {
            return Ok(());
        }
        let more = if has_datagrams {
            "        Jitter   Lost/Total Datagrams"
        } else {
            ""
        };
        output::line(&format!(
            "[ ID] Interval       Transfer     Bandwidth{more}"
        ))
    }

    /// A line with commas; with the last one of a connection, its ends are forgotten. A client has the server's account behind its own.
    fn commas(&mut self, transfer: &Transfer) -> String {
        let line = self.with_ends(transfer);
        let is_account = |report: Report| report.jitter_ns.is_some();
        if transfer.is_total && transfer.datagrams.is_none_or(is_account) {
            self.connections
                .retain(|connection| connection.id != transfer.id);
        }
        line
    }

    fn with_ends(&self, transfer: &Transfer) -> String {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let ends = self
            .connections
            .iter()
            .find(|connection| connection.id == transfer.id);
        let ends = ends.map_or_else(
            || ",,,".to_owned(),
            |Connection { local, foreign, .. }| {
                format!(
                    "{},{},{},{}",
                    local.ip(),
                    local.port(),
                    foreign.ip(),
                    foreign.port()
                )
            },
        );
        let octets = transfer.octets;
        let time = transfer.end.saturating_sub(transfer.begin);
        let bits = if time.is_zero() {
            0.0
        } else {
            f64_of(octets) * 8.0 / time.as_secs_f64()
        };
        let datagrams = transfer
            .datagrams
            .filter(|report| report.jitter_ns.is_some());
        let datagrams = datagrams.map_or_else(String::new, |report| {
            format!(
                ",{:.3},{},{},{:.3},{}",
                report.jitter_ns.unwrap_or_default() / 1e6,
                report.lost,
                report.sent,
                percent(&report),
                report.out_of_order
            )
        });
        format!(
            "{},{ends},{},{:.1}-{:.1},{octets},{bits:.0}{datagrams}",
            calendar::compact(now),
            transfer.id,
            transfer.begin.as_secs_f64(),
            transfer.end.as_secs_f64(),
        )
    }
}

fn line(transfer: &Transfer, datagrams: Option<Report>) -> String {
    let Transfer {
        id,
        begin,
        end,
        octets,
        ..
    } = transfer;
    let octets = f64_of(*octets);
    let datagrams = datagrams.map_or_else(String::new, |report| {
        format!(
            "  {:6.3} ms {:4}/{:5} ({:.2}%)",
            report.jitter_ns.unwrap_or_default() / 1e6,
            report.lost,
            report.sent,
            percent(&report)
        )
    });
    format!(
        "[{id:3}] {:.4}-{:.4} sec  {}  {}{datagrams}",
        seconds(*begin),
        seconds(*end),
        bytes(octets),
        bits_per_second(octets, end.saturating_sub(*begin)),
    )
}

/// Says that datagrams came again, where some did: no other number counts them.
fn again(id: u32, report: &Report) -> Result<(), Failure> {
    match report.duplicates.unwrap_or_default() {
        0 => Ok(()),
        many => output::line(&format!("[{id:3}] {many} datagrams received again")),
    }
}

const fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn percent(report: &Report) -> f64 {
    if report.sent == 0 {
        return 0.0;
    }
    f64_of(report.lost) * 100.0 / f64_of(report.sent)
}

fn f64_of(number: u64) -> f64 {
    Duration::from_secs(number).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_remembers_the_ends_of_connections_that_last() {
        let mut text = Text::new(Some(Style::Commas), false);
        for id in 0..2_000 {
            let end = SocketAddr::from(([10, 0, 0, 1], 5_001));
            text.connection(&Connection {
                id,
                local: end,
                foreign: end,
            })
            .unwrap();
            let line = text.commas(&Transfer {
                id,
                is_total: true,
                begin: Duration::ZERO,
                end: Duration::from_secs(1),
                octets: 1,
                datagrams: None,
            });
            assert!(line.contains(",10.0.0.1,5001,"), "{line}");
        }
    }

    #[test]
    fn lines_are_those_of_iperf() {
        let report = Report {
            sent: 893,
            lost: 9,
            out_of_order: 0,
            duplicates: None,
            jitter_ns: Some(1_400.0),
            delay: None,
        };
        let transfer = Transfer {
            id: 1,
            is_total: false,
            begin: Duration::ZERO,
            end: Duration::from_secs(1),
            octets: 1_312_710,
            datagrams: Some(report),
        };
        assert_eq!(
            line(&transfer, Some(report)),
            "[  1] 0.0000-1.0000 sec  1.25 MBytes  10.5 Mbits/sec   0.001 ms    9/  893 (1.01%)"
        );
        assert_eq!(
            line(&transfer, None),
            "[  1] 0.0000-1.0000 sec  1.25 MBytes  10.5 Mbits/sec"
        );
    }
}
