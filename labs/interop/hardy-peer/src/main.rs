//! A BPv7 node over TCPCLv4 made of the Hardy libraries, driven by lines on standard input.
//!
//! `hardy-peer NODE-ID LISTEN-ADDRESS SERVICE DIRECTORY` registers `SERVICE` and writes each payload that
//! arrives for it to `DIRECTORY/N`. Commands: `connect ADDRESS` and `send DESTINATION FILE`. Events leave on
//! standard output, one line each: `ready`, `connected`, `received PATH SOURCE`, `sent BUNDLE`, `failed REASON`.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hardy_bpa::bpa::{Bpa, BpaRegistration};
use hardy_bpa::node_ids::NodeIds;
use hardy_bpa::services::{self, Application, ApplicationSink, StatusNotify};
use hardy_bpa::{Bytes, async_trait};
use hardy_bpv7::eid::{Eid, NodeId, Service};
use hardy_bpv7::status_report::ReasonCode;
use tokio::io::{AsyncBufReadExt, BufReader};

type Failure = Box<dyn Error + Send + Sync>;

const LIFETIME: Duration = Duration::from_secs(3600);

/// The one application of this node: it keeps what it gets.
struct Inbox {
    directory: PathBuf,
    arrivals: AtomicU64,
    sink: OnceLock<Box<dyn ApplicationSink>>,
}

#[async_trait]
impl Application for Inbox {
    async fn on_register(&self, _source: &Eid, sink: Box<dyn ApplicationSink>) {
        // The node unregisters an application that lets go of its sink.
        let _ = self.sink.set(sink);
    }

    async fn on_unregister(&self) {}

    async fn on_receive(
        &self,
        source: Eid,
        _expiry: time::OffsetDateTime,
        _ack_requested: bool,
        payload: Bytes,
    ) -> services::Result<()> {
        let number = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(number.to_string());
        tokio::fs::write(&path, &payload).await.map_err(|error| services::Error::Internal(error.into()))?;
        println!("received {} {source}", path.display());
        Ok(())
    }

    async fn on_status_notify(
        &self,
        bundle: &hardy_bpv7::bundle::Id,
        from: &Eid,
        kind: StatusNotify,
        _reason: ReasonCode,
        _timestamp: Option<time::OffsetDateTime>,
    ) {
        println!("report {kind:?} {bundle:?} {from}");
    }
}

/// Obeys one command line; the answer is the line to print.
async fn obey(line: &str, cla: &hardy_tcpclv4::Cla, inbox: &Inbox) -> Result<String, Failure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["connect", address] => {
            let address: SocketAddr = address.parse()?;
            cla.connect(&address).await?;
            Ok("connected".into())
        }
        ["send", destination, path] => {
            let payload = tokio::fs::read(path).await?;
            let sink = inbox.sink.get().ok_or("not registered")?;
            let bundle = sink.send(destination.parse()?, payload.into(), LIFETIME, None).await?;
            Ok(format!("sent {bundle:?}"))
        }
        _ => Err(format!("unknown command '{line}'").into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [node, listen, service, directory] = arguments.as_slice() else {
        return Err("usage: hardy-peer NODE-ID LISTEN-ADDRESS SERVICE DIRECTORY".into());
    };
    let node: NodeId = node.parse()?;
    let bpa = Bpa::builder().node_ids(NodeIds::try_from([node].as_slice())?).status_reports(true).build().await?;
    bpa.start(false);

    let cla = Arc::new(hardy_tcpclv4::Cla::new(&hardy_tcpclv4::config::Config {
        address: Some(listen.parse()?),
        ..Default::default()
    })?);
    bpa.register_cla("tcpcl".into(), cla.clone(), None).await?;
    let inbox = Arc::new(Inbox { directory: directory.into(), arrivals: AtomicU64::new(0), sink: OnceLock::new() });
    bpa.register_application(Service::Ipn(service.parse()?), inbox.clone()).await?;

    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match obey(&line, &cla, &inbox).await {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("failed {error}"),
        }
    }
    bpa.shutdown().await;
    Ok(())
}
