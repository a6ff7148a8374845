//! Addresses as people write them: host and port.

/// TCP port of TCPCL where an address names none (RFC 9174 8.1).
pub(super) const TCPCL_PORT: u16 = 4556;

/// UDP port of LTP where an address names none (RFC 5326 10.2).
pub(super) const LTP_PORT: u16 = 1113;

/// Host and port of `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address; an IPv6 address may
/// name its interface (`fe80::1%eth0`).
#[must_use]
pub fn split_address(text: &str) -> Option<(String, u16)> {
    split_address_or(text, TCPCL_PORT)
}

/// The same, with another port where the text names none.
pub(super) fn split_address_or(text: &str, usual: u16) -> Option<(String, u16)> {
    let is_v6 = |host: &str| {
        host.split('%')
            .next()
            .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').filter(|(host, _)| is_v6(host))?;
        (
            host,
            if rest.is_empty() {
                None
            } else {
                Some(rest.strip_prefix(':')?)
            },
        )
    } else if is_v6(text) {
        (text, None)
    } else {
        text.split_once(':')
            .map_or((text, None), |(host, port)| (host, Some(port)))
    };
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '%');
    if host.is_empty() || !host.chars().all(named) {
        return None;
    }
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => usual,
    };
    Some((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_many_forms() {
        for (text, host, port) in [
            ("192.0.2.3:4602", "192.0.2.3", 4602),
            ("192.0.2.3", "192.0.2.3", 4556),
            ("host.example:1", "host.example", 1),
            ("[2001:db8::3]:4602", "2001:db8::3", 4602),
            ("[::]", "::", 4556),
            ("2001:db8::3", "2001:db8::3", 4556),
            ("[fe80::1%eth0]:7", "fe80::1%eth0", 7),
        ] {
            assert_eq!(split_address(text), Some((host.to_owned(), port)), "{text}");
        }
        for text in [
            "", ":1", "a:b", "a:70000", "[::1", "[::1]x", "[name]:1", "a b:1", "a:1:2",
        ] {
            assert_eq!(split_address(text), None, "{text}");
        }
    }
}
