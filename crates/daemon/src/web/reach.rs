//! Addresses at which somebody finds a listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// Addresses that are told, at most.
const ADDRESSES_MAX: usize = 8;

/// The addresses at which a listener can be reached: where it listens at all of the machine's, those that the machine has now, loopback first.
#[must_use]
pub fn reach(listener: SocketAddr) -> Vec<SocketAddr> {
    if !listener.ip().is_unspecified() {
        return vec![listener];
    }
    among(listener, own())
}

/// The addresses of interfaces that are up; none where the system does not tell.
fn own() -> Vec<IpAddr> {
    let Ok(entries) = getifaddrs() else {
        return Vec::new();
    };
    let ip = |address: SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
    };
    let entries = entries.filter(|it| it.flags.contains(InterfaceFlags::IFF_UP));
    entries.filter_map(|it| it.address.and_then(ip)).collect()
}

/// The addresses of a machine that lead to a listener at all of them.
fn among(listener: SocketAddr, own: Vec<IpAddr>) -> Vec<SocketAddr> {
    let loopback = match listener.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        // It takes connections of either kind, unless the system has but one.
        IpAddr::V6(_) if own.iter().all(IpAddr::is_ipv6) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let is_led_here = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback(),
        // A browser cannot open an address of one link alone, since no URL names the link.
        IpAddr::V6(address) => {
            listener.is_ipv6() && !address.is_loopback() && !address.is_unicast_link_local()
        }
    };
    let mut others: Vec<IpAddr> = own.into_iter().filter(is_led_here).collect();
    others.sort_unstable();
    others.dedup();
    let all = std::iter::once(loopback).chain(others);
    let all = all.map(|address| SocketAddr::new(address, listener.port()));
    all.take(ADDRESSES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(listener: &str, own: &[&str]) -> Vec<String> {
        let own = own.iter().map(|it| it.parse().unwrap()).collect();
        let told = among(listener.parse().unwrap(), own);
        told.iter().map(ToString::to_string).collect()
    }

    const OWN: [&str; 5] = ["192.0.2.7", "127.0.0.1", "::1", "fe80::1", "2001:db8::7"];

    #[test]
    fn an_address_is_told_as_it_was_given() {
        let given = "127.0.0.1:80".parse().unwrap();
        assert_eq!(reach(given), [given]);
    }

    #[test]
    fn all_addresses_are_told_that_a_browser_can_open() {
        assert_eq!(told("0.0.0.0:80", &OWN), ["127.0.0.1:80", "192.0.2.7:80"]);
        let six = ["127.0.0.1:80", "192.0.2.7:80", "[2001:db8::7]:80"];
        assert_eq!(told("[::]:80", &OWN), six);
        assert_eq!(told("[::]:80", &["::1"]), ["[::1]:80"]);
        assert_eq!(told("0.0.0.0:80", &[]), ["127.0.0.1:80"]);
    }

    #[test]
    fn no_more_are_told_than_somebody_reads() {
        let own: Vec<String> = (1..100).map(|it| format!("192.0.2.{it}")).collect();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        assert_eq!(told("0.0.0.0:80", &own).len(), ADDRESSES_MAX);
    }
}
