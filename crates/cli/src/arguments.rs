//! The command line: everything that can be asked of `dhow`.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, Parser, Subcommand};

use dhow_client::Address;
use dhow_daemon::config::QuantityError;

use crate::build::BUILD;
use crate::command;
use crate::output::Form;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Sizes are payload octets: kB = 1000, KiB = 1024. Durations: 250ms, 60s, 5min, 12h, 1d.
Exit codes: 0 done; 1 refused or failed, the reason is on stderr; 2 bad usage or
configuration; 130 interrupted.";

/// Delay-tolerant networking: send bundles to endpoints that may be away for a week
#[derive(Debug, Parser)]
#[command(name = "dhow", version = BUILD, styles = STYLES, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Arguments {
    /// Options of all commands.
    #[command(flatten)]
    pub common: Common,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of all commands.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The node's API socket, or HOST:PORT for its API on TCP [default: dhow.sock here, in $XDG_RUNTIME_DIR, in /run/dhow]
    #[arg(
        long,
        global = true,
        value_name = "SOCKET",
        env = "DHOW_NODE",
        value_parser = parse_node,
        hide_env_values = true,
        help_heading = "Common options"
    )]
    pub node: Option<Address>,
    /// Write data as JSON, one value a line
    #[arg(long, global = true, help_heading = "Common options")]
    json: bool,
}

impl Common {
    /// The form in which data is to be written.
    pub const fn form(&self) -> Form {
        Form::of_flag(self.json)
    }
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set up and run a node
    #[command(subcommand)]
    Node(command::node::Node),
    Send(command::send::Send),
    Recv(command::recv::Recv),
    Outbox(command::outbox::Outbox),
    Inbox(command::inbox::Inbox),
    Ferry(command::ferry::Ferry),
    /// Send or receive ordered octets
    #[command(subcommand)]
    Stream(command::stream::Stream),
    Tunnel(command::tunnel::Tunnel),
    /// Send or receive files over LTP, without a node
    #[command(subcommand)]
    Ltp(command::ltp::Ltp),
    Ping(command::ping::Ping),
    Perf(command::perf::Perf),
    Trace(command::trace::Trace),
    /// Show the state of a node
    Status(command::status::Status),
    Top(command::top::Top),
    /// List stored bundles, by destination or one by one
    Bundles(command::bundles::Bundles),
    Why(command::why::Why),
    /// Check a store, or copy its bundles out of a node and into another
    #[command(subcommand)]
    Store(command::store::Store),
    /// List links and sessions
    Links(command::links::Links),
    /// Bring a link up or take it down, add one to a running node or delete it
    #[command(subcommand)]
    Link(command::links::Link),
    /// List routes
    Routes(command::routes::Routes),
    /// Add or delete a route
    #[command(subcommand)]
    Route(command::routes::Route),
    /// List planned contacts
    Contacts(command::contacts::Contacts),
    /// Plan or cancel a contact of a running node
    #[command(subcommand)]
    Contact(command::reload::Contact),
    /// Open or close a listener of a running node
    #[command(subcommand)]
    Listen(command::reload::Listen),
    Reload(command::reload::Reload),
    /// List neighbours: those found by beacons, and those of links
    Neighbours(command::neighbours::Neighbours),
    /// List registered endpoints
    Registrations(command::registrations::Registrations),
    /// Decode, make or drop a bundle
    #[command(subcommand)]
    Bundle(command::bundle::Bundle),
    Channel(command::channel::Channel),
    Iperf(command::iperf::Iperf),
    Otg(command::otg::Otg),
    Otr(command::otr::Otr),
    Collect(command::collect::Collect),
    /// Run whole networks in virtual time
    #[command(subcommand)]
    Sim(command::sim::Sim),
    /// Run scenarios with real nodes, in network namespaces of this machine
    #[command(subcommand)]
    Lab(command::lab::Lab),
    /// Write a completion script for a shell
    Completions(command::completions::Completions),
    Manual(command::manual::Manual),
    Version(command::version::Version),
}

/// A duration such as `1d`, `60s`, `250ms`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    dhow_daemon::config::parse_duration(text).map_err(|error| error.to_string())
}

/// Reads the lifetime of a bundle: at least the millisecond that bundles can tell (RFC 9171 4.3.1).
pub fn parse_lifetime(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        lifetime if lifetime.as_millis() == 0 => Err("at least 1 ms is required".to_owned()),
        lifetime => Ok(lifetime),
    }
}

/// A node's API: the path of a socket, or HOST:PORT where no file has that name.
fn parse_node(text: &str) -> Result<Address, Infallible> {
    let is_explicit = text.starts_with("tcp:") || text.starts_with("unix:");
    let is_host = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
    });
    if is_host && !is_explicit && !Path::new(text).exists() {
        return Ok(Address::Tcp(text.to_owned()));
    }
    text.parse()
}

/// A size of at least one octet, such as `50kB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match dhow_daemon::config::parse_size(text) {
        Ok(0) => Err("at least one octet is required".to_owned()),
        Ok(octets) => Ok(octets),
        Err(error) => Err(error.to_string()),
    }
}

/// A rate of at least one octet a second, such as `100Mbit`; octets a second.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match dhow_daemon::config::parse_rate(text) {
        Ok(0) => Err("at least 8 bit/s are required".to_owned()),
        Ok(octets) => Ok(octets),
        Err(QuantityError::TooFine(_)) => {
            Err("a rate is whole octets a second: a multiple of 8 bit/s".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// A whole number, decimal or hexadecimal with `0x`.
pub fn parse_number(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_tcp_and_all_else_is_a_path() {
        for (text, address) in [
            ("127.0.0.1:4242", Address::Tcp("127.0.0.1:4242".into())),
            ("[::1]:4242", Address::Tcp("[::1]:4242".into())),
            ("tcp:localhost:4242", Address::Tcp("localhost:4242".into())),
            ("unix:beta:4242", Address::Unix("beta:4242".into())),
            ("dhow.sock", Address::Unix("dhow.sock".into())),
            ("./beta:4242", Address::Unix("./beta:4242".into())),
            ("beta:70000", Address::Unix("beta:70000".into())),
        ] {
            assert_eq!(parse_node(text), Ok(address), "{text}");
        }
    }

    #[test]
    fn a_rate_is_whole_octets_a_second() {
        assert_eq!(parse_rate("8bit"), Ok(1));
        for (text, why) in [
            ("0bit", "at least 8"),
            ("1bit", "a multiple of 8"),
            ("12", "one of bit"),
            ("1000000000000000000Gbit", "too large"),
        ] {
            let told = parse_rate(text).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_lifetime_of_nothing_is_none() {
        assert!(parse_lifetime("0s").is_err() && parse_lifetime("999us").is_err());
        assert_eq!(parse_lifetime("1ms"), Ok(Duration::from_millis(1)));
    }
}
