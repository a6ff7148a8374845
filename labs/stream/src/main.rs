//! The two ends of a relayed stream: a generator and a sink of bundles, with no node behind them.
//!
//! `connection` is a TCPCLv4 session over a socket, `generator` and `sink` are what is at its other end.

mod connection;
mod failure;
mod generator;
mod sink;

use std::io::{BufRead as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use dhow_bundle::{EndpointId, NodeId};
use dhow_link::tcpcl::v4::Role;
use serde::Serialize;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::generator::Generator;
use crate::sink::Sink;

/// Generates bundles for a node, or takes them from one, as fast as the node can: what is measured is the node between the two.
///
/// Both speak TCPCLv4 themselves and keep nothing. They take orders on standard input, a line each, and answer each with a line of JSON;
/// times are seconds of CLOCK_MONOTONIC, so that orders and answers of one machine fit together.
#[derive(Parser)]
#[command(name = "stream", version)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes bundles: connects, says "up", and takes orders "COUNT SIZE". All bundles of an order have one payload; each is acknowledged before the answer.
    Generate(Generate),
    /// Takes bundles: prints its address, takes one connection, says "up", and takes orders "COUNT". Every bundle's checksums are verified.
    Sink(Receive),
}

#[derive(Args)]
struct Generate {
    /// The node.
    address: SocketAddr,
    /// Source of the bundles; its node is who the generator is.
    #[arg(long, default_value = "ipn:1.1")]
    from: EndpointId,
    /// Destination of the bundles.
    #[arg(long, default_value = "ipn:3.1")]
    to: EndpointId,
}

#[derive(Args)]
struct Receive {
    /// The address to listen at.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The node ID of the sink.
    #[arg(long, default_value = "ipn:3.0")]
    node: NodeId,
}

fn generate(words: &Generate) -> Result<(), Failure> {
    let node_id = words
        .from
        .node_id()
        .ok_or_else(|| Failure::Order(words.from.to_string()))?;
    let socket = TcpStream::connect(words.address)?;
    let connection = Connection::establish(socket, Role::Active, node_id)?;
    let mut generator = Generator::new(connection, words.from.clone(), words.to.clone());
    say("up");
    for_each_order(
        |order| {
            let (count, size) = order.split_once(' ')?;
            Some((count.parse().ok()?, size.parse().ok()?))
        },
        |(count, size)| generator.send(count, size),
    )
}

fn sink(words: &Receive) -> Result<(), Failure> {
    let listener = TcpListener::bind(words.listen)?;
    say(&listener.local_addr()?.to_string());
    let (socket, _) = listener.accept()?;
    let connection = Connection::establish(socket, Role::Passive, words.node.clone())?;
    let mut sink = Sink::new(connection);
    say("up");
    for_each_order(|order| order.parse().ok(), |count| sink.take(count))
}

/// Carries out each line of standard input and answers it.
fn for_each_order<T, A: Serialize>(
    read: impl Fn(&str) -> Option<T>,
    mut carry_out: impl FnMut(T) -> Result<A, Failure>,
) -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let order = read(line.trim()).ok_or_else(|| Failure::Order(line.clone()))?;
        let answer = carry_out(order)?;
        say(&serde_json::to_string(&answer).unwrap_or_default());
    }
    Ok(())
}

/// One line on standard output; who does not listen any more needs no error.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn main() -> ExitCode {
    let done = match Words::parse().command {
        Command::Generate(words) => generate(&words),
        Command::Sink(words) => sink(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "stream: cannot go on: {failure}");
            ExitCode::FAILURE
        }
    }
}
