//! `dhow tunnel`: IP packets of a TUN device, over bundles (docs/tunnel.md).

mod absence;
mod packets;
mod queue;
mod traffic;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use dhow_bundle::{EndpointId, Priority};
use dhow_client::{Registration, SendHead};
use serde::Serialize;
use tun_rs::{DeviceBuilder, SyncDevice};

use self::queue::Queue;
use self::traffic::Traffic;
use crate::address::locate;
use crate::application::{self, Subscription};
use crate::arguments::{Common, parse_lifetime};
use crate::digest::hexadecimal;
use crate::failure::{Ending, Failure};
use crate::output::{self, Form};
use crate::steady_sender::SteadySender;

/// Octets of the largest IP packet that a device gives.
const PACKET_OCTETS_MAX: usize = 65_535;

/// Deliveries that may be unconfirmed.
const WINDOW: u32 = 64;

const AFTER_HELP: &str = "\
Examples:
  dhow tunnel ipn:1.80 ipn:2.80 --address 10.80.0.1/24      # at ipn:1.0
  dhow tunnel ipn:2.80 ipn:1.80 --address 10.80.0.2/24      # at ipn:2.0
  ssh 10.80.0.2";

/// Carry IP packets over bundles, between a network device here and one at another node
///
/// Makes a TUN device and sends each packet that the system routes there to the endpoint of another tunnel, which gives it to the system there: programs that know nothing of bundles reach each other. Packets that wait leave together in one bundle. A packet that has not arrived when its lifetime ends is lost. At most 1,024 packets and 1 MiB wait for the node: beyond that the oldest are dropped. The device is gone when the command ends. Runs until Ctrl-C. With --json, a line when it is up and one at the end. Needs the permission to make network devices (root, or CAP_NET_ADMIN).
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Tunnel {
    /// The endpoint of the node for this end: ipn:1.80
    #[arg(value_name = "LOCAL")]
    local: EndpointId,
    /// The endpoint of the other end: ipn:2.80; bundles of others are dropped
    #[arg(value_name = "REMOTE")]
    remote: EndpointId,
    /// An address of the device with the prefix length of its network, 10.80.0.1/24; one for each version of IP [default: none, and the device is left to you]
    #[arg(long = "address", value_name = "ADDRESS/PREFIX", value_parser = parse_address)]
    addresses: Vec<(IpAddr, u8)>,
    /// Name of the device
    #[arg(long, value_name = "NAME", default_value = "dhow%d")]
    device: String,
    /// Largest packet, octets
    #[arg(long, value_name = "OCTETS", default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(1_280..))]
    mtu: u16,
    /// Lifetime of the bundles: packets that are older are of no use to anybody
    #[arg(long, value_name = "DURATION", default_value = "1min", value_parser = parse_lifetime)]
    lifetime: Duration,
    /// Order in which bundles leave nodes: bulk, normal, expedited or expedited:ORDINAL (0 to 254)
    #[arg(long, value_name = "PRIORITY", default_value = "normal")]
    priority: Priority,
}

fn parse_address(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || format!("'{text}' is not an address with a prefix: 10.80.0.1/24, fd00::1/64");
    let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.parse().ok().filter(|prefix| *prefix <= most);
    Ok((address, prefix.ok_or_else(wrong)?))
}

/// The lines for programs.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line<'a> {
    Up {
        device: &'a str,
        addresses: Vec<String>,
        mtu: u16,
        local: String,
        remote: String,
    },
    Down(traffic::Counts),
}

impl Tunnel {
    /// Carries packets until there is a reason to end.
    pub fn run(&self, common: &Common) -> Result<Ending, Failure> {
        if self.local == self.remote {
            return Err(
                Failure::usage("both ends of the tunnel are the same endpoint")
                    .with_hint("the second is that of the other node"),
            );
        }
        if self.remote.is_null() {
            return Err(Failure::usage("nothing can be sent to the null endpoint")
                .with_hint("the second endpoint is that of the other node's tunnel: ipn:2.80"));
        }
        let address = locate(common.node.as_ref())?;
        // Both connections are the same application's.
        let secret = hexadecimal(&application::random::<16>()?);
        let registration = Registration::new(self.local.clone()).with_secret(secret);
        let client = application::connect(&address, None)?;
        let octets_max = client.payload_octets_max();
        let sender = SteadySender::begin(client, &address, registration.clone())?;
        let receiving = registration.with_window(WINDOW);
        let subscription = Subscription::begin(&address, receiving, None)?;
        let device = Arc::new(self.open()?);
        let name = device.name().unwrap_or_else(|_| self.device.clone());
        self.tell_up(&name, common.form())?;
        let head = SendHead::to(self.remote.clone())
            .with_lifetime(self.lifetime)
            .with_priority(self.priority);
        let queue = Arc::new(Queue::default());
        // It waits in the kernel, where nothing wakes it, and ends with the process.
        thread::spawn({
            let (device, queue) = (Arc::clone(&device), Arc::clone(&queue));
            let carries_v6 = self.carries_v6();
            move || read(&device, &queue, carries_v6)
        });
        let traffic = Traffic::new(&device, &queue, &self.remote, octets_max);
        let outcome = traffic.carry(&head, sender, subscription);
        let counts = traffic.counts();
        match common.form() {
            Form::Json => output::json(&Line::Down(counts))?,
            Form::Text => output::line(&counts.text(&name))?,
        }
        outcome
    }

    fn open(&self) -> Result<SyncDevice, Failure> {
        let mut builder = DeviceBuilder::new().name(&self.device).mtu(self.mtu);
        for (address, prefix) in &self.addresses {
            if let IpAddr::V4(address) = address {
                builder = builder.ipv4(*address, *prefix, None);
            }
        }
        let device = builder
            .build_sync()
            .map_err(|error| self.unopened(&error))?;
        for (address, prefix) in &self.addresses {
            if let IpAddr::V6(address) = address {
                match device.add_address_v6(*address, *prefix) {
                    // A persistent device has it from the time before.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    given => {
                        given.map_err(|error| not_given(&format!("{address}/{prefix}"), &error))?
                    }
                }
            }
        }
        Ok(device)
    }

    fn unopened(&self, error: &io::Error) -> Failure {
        let failure = Failure::refused(format!(
            "cannot make the network device {}: {error}",
            self.device
        ));
        failure.with_hint(match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "the command needs CAP_NET_ADMIN, and a device that exists may be another user's: sudo dhow tunnel …"
            }
            io::ErrorKind::NotFound => "the kernel has no TUN devices here: modprobe tun",
            _ => "its name or address may be in use; --device names another, up to 15 octets",
        })
    }

    /// Packets of version 6 stay here if addresses are given and none is of that version: systems send such by themselves (router solicitations).
    fn carries_v6(&self) -> bool {
        self.addresses.is_empty() || self.addresses.iter().any(|(it, _)| it.is_ipv6())
    }

    fn tell_up(&self, device: &str, form: Form) -> Result<(), Failure> {
        let addresses: Vec<String> = (self.addresses.iter())
            .map(|(address, prefix)| format!("{address}/{prefix}"))
            .collect();
        match form {
            Form::Json => output::json(&Line::Up {
                device,
                addresses,
                mtu: self.mtu,
                local: self.local.to_string(),
                remote: self.remote.to_string(),
            }),
            Form::Text => {
                let addresses = match addresses.is_empty() {
                    true => String::new(),
                    false => format!(" with {}", addresses.join(" and ")),
                };
                output::line(&format!(
                    "{device} is up{addresses}, from {} to {}",
                    self.local, self.remote
                ))
            }
        }
    }
}

/// A device does not take an address of version 6: most often because it takes none.
fn not_given(address: &str, error: &io::Error) -> Failure {
    Failure::refused(format!(
        "cannot give the network device the address {address}: {error}"
    ))
    .with_hint(
        "IPv6 may be disabled for new devices here: sysctl net.ipv6.conf.default.disable_ipv6",
    )
}

/// Takes packets from the device for as long as there is one.
fn read(device: &SyncDevice, queue: &Queue, carries_v6: bool) {
    let mut packet = vec![0; PACKET_OCTETS_MAX];
    loop {
        match device.recv(&mut packet) {
            Ok(octets) => {
                let packet = packet.get(..octets).unwrap_or_default();
                if !packets::is_whole(packet) {
                    queue.drop_unreadable();
                } else if carries_v6 || !packets::is_v6(packet) {
                    queue.push(packet);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return queue.close(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_prefix_that_fits() {
        assert_eq!(
            parse_address("10.0.0.1/32"),
            Ok(("10.0.0.1".parse().unwrap(), 32))
        );
        assert_eq!(
            parse_address("fd00::1/128"),
            Ok(("fd00::1".parse().unwrap(), 128))
        );
        for wrong in [
            "10.0.0.1",
            "10.0.0.1/33",
            "fd00::1/129",
            "x/8",
            "10.0.0.1/-1",
            "/8",
        ] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
    }
}
