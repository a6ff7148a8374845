//! Addresses of packets: hosts and ports, as sockets take them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::failure::Failure;

/// The address of a host and port: the first of several.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    addresses(host, port)?
        .into_iter()
        .next()
        .ok_or_else(|| unknown(host, "it has no address"))
}

/// The address to send from to another: of the same family; any where no host is named.
pub fn local_for(host: Option<&str>, port: u16, to: SocketAddr) -> Result<SocketAddr, Failure> {
    let Some(host) = host else {
        return Ok(SocketAddr::new(any_like(to), port));
    };
    let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
    addresses(host, port)?
        .into_iter()
        .find(|address| address.is_ipv4() == to.is_ipv4())
        .ok_or_else(|| {
            unknown(
                host,
                &format!("it has no {family} address, as {} has", to.ip()),
            )
        })
}

/// A connection from an address to another, of the same family.
pub fn connect_from(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &from)?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// Any address of the family that another one is of.
fn any_like(address: SocketAddr) -> IpAddr {
    if address.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    }
}

fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    let found = (bare, port)
        .to_socket_addrs()
        .map_err(|error| unknown(host, &error.to_string()))?;
    Ok(found.collect())
}

fn unknown(host: &str, why: &str) -> Failure {
    let what = format!("cannot find host '{host}': {why}");
    let hint = match host.is_empty() || !Path::new(host).exists() {
        true => "look at its name, or give its address: 192.0.2.3, [2001:db8::3]",
        false => {
            "there is a file of this name; the host has a place of its own among the arguments: --help"
        }
    };
    Failure::refused(what).with_hint(hint)
}

/// The remedy where a socket cannot be bound to an address, which an option names.
pub fn hint_of_bind(error: &io::Error, option: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another program has this address: {option} names another one, or another port")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!(
                "this machine does not have this address (ip address shows which it has): {option} names another one; 0.0.0.0 and [::] are all"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("only root may have ports below 1024: {option} names another one")
        }
        _ => format!("look at the address of {option}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_address_is_of_the_family_of_the_other_end() {
        let six = resolve("[::1]", 5).unwrap();
        assert_eq!(six, "[::1]:5".parse().unwrap());
        assert_eq!(local_for(None, 0, six).unwrap(), "[::]:0".parse().unwrap());
        let four = resolve("127.0.0.1", 5).unwrap();
        assert_eq!(
            local_for(Some("127.0.0.2"), 7, four).unwrap(),
            "127.0.0.2:7".parse().unwrap()
        );
        assert!(local_for(Some("::1"), 0, four).is_err());
    }

    #[test]
    fn a_connection_comes_from_where_it_was_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let from = local_for(Some("127.0.0.2"), 0, listener.local_addr().unwrap()).unwrap();
        let stream = connect_from(from, listener.local_addr().unwrap()).unwrap();
        let (_, seen) = listener.accept().unwrap();
        assert_eq!(seen, stream.local_addr().unwrap());
        assert_eq!(seen.ip(), from.ip());
    }
}
