//! Datagrams that the kernel dropped because nobody read them in time.

use std::fs;
use std::net::SocketAddr;

/// The number of datagrams for the socket of this address that were dropped; none if the kernel does not say. Another
/// socket of the same port counts with it.
#[must_use]
pub fn datagrams_dropped(address: SocketAddr) -> Option<u64> {
    let table = if address.is_ipv4() {
        "/proc/net/udp"
    } else {
        "/proc/net/udp6"
    };
    sum(&fs::read_to_string(table).ok()?, address.port())
}

/// Sums the last column of the lines whose second one ends in the port, as in `3: 0100007F:0BB8 … 17`.
fn sum(table: &str, port: u16) -> Option<u64> {
    let wanted = format!(":{port:04X}");
    let lines = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let local = columns.nth(1)?;
        local.ends_with(&wanted).then_some(columns.next_back()?)
    });
    lines.map(|dropped| dropped.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn what_finds_no_room_in_a_socket_is_counted() {
        let receiving = UdpSocket::bind("127.0.0.1:0").unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&receiving, 4_096).unwrap();
        let address = receiving.local_addr().unwrap();
        assert_eq!(datagrams_dropped(address), Some(0));
        let sending = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            sending.send_to(&[0; 1_000], address).unwrap();
        }
        receiving.set_nonblocking(true).unwrap();
        let mut arrived = 0;
        while receiving.recv(&mut [0; 1_000]).is_ok() {
            arrived += 1;
        }
        assert_eq!(datagrams_dropped(address), Some(100 - arrived));
        assert!(arrived < 100);
    }
}
