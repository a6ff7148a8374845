//! The address of a collector.

/// The port of OTLP over HTTP, where none is written.
const PORT: u16 = 4318;

/// A collector that speaks OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The path before `/v1/traces`: empty, or one that begins with a slash and ends without.
    pub path: String,
}

/// Why a text is no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The endpoint begins with another scheme than `http`.
    #[error("it does not begin with 'http://'")]
    Scheme,
    /// The endpoint asks for TLS.
    #[error("a node speaks to its collector with no TLS")]
    Secure,
    /// The endpoint has no host, or one with characters that no host has.
    #[error("it names no host")]
    Host,
    /// Its port is not a number from 1 to 65535.
    #[error("its port is not a number from 1 to 65535")]
    Port,
    /// Its path has a query, a fragment, or characters that need an escape.
    #[error("its path has a character that no path has")]
    Path,
}

impl EndpointError {
    /// A way to mend the fault.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Secure => "let a collector on this machine, or a proxy, speak TLS",
            _ => "for example: endpoint = \"http://127.0.0.1:4318\"",
        }
    }
}

impl Endpoint {
    /// Of `http://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        if text.starts_with("https://") {
            return Err(EndpointError::Secure);
        }
        let rest = text.strip_prefix("http://").ok_or(EndpointError::Scheme)?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, port) = split(authority)?;
        let is_plain = |c: char| c.is_ascii_graphic() && !"?#[]\"<>\\^`{|}".contains(c);
        if !path.chars().all(is_plain) {
            return Err(EndpointError::Path);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// Host and port as an HTTP request names them.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The host and the port of `HOST[:PORT]` or `[ADDRESS][:PORT]`.
fn split(authority: &str) -> Result<(&str, u16), EndpointError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(EndpointError::Host)?;
            let is_address = host.parse::<std::net::Ipv6Addr>().is_ok();
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or(EndpointError::Port)?),
            };
            (Some(host).filter(|_| is_address), port)
        }
        None => {
            let (host, port) = match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let is_host = !host.is_empty() && host.chars().all(is_name);
            (Some(host).filter(|_| is_host), port)
        }
    };
    let host = host.ok_or(EndpointError::Host)?;
    let port = match port {
        None => PORT,
        Some(text) if text.bytes().all(|octet| octet.is_ascii_digit()) => {
            let port = text.parse().map_err(|_| EndpointError::Port)?;
            Some(port)
                .filter(|port| *port > 0)
                .ok_or(EndpointError::Port)?
        }
        Some(_) => return Err(EndpointError::Port),
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_paths_are_told_apart() {
        for (text, host, port, path) in [
            ("http://127.0.0.1:4318", "127.0.0.1", 4318, ""),
            ("http://collector/", "collector", 4318, ""),
            ("http://[::1]:99/otlp/", "::1", 99, "/otlp"),
            ("http://[fe80::1]", "fe80::1", 4318, ""),
            ("http://c.example:1/a/b", "c.example", 1, "/a/b"),
        ] {
            let read = Endpoint::parse(text).unwrap();
            assert_eq!(
                (read.host.as_str(), read.port, read.path.as_str()),
                (host, port, path)
            );
        }
        let read = Endpoint::parse("http://[::1]:99/otlp").unwrap();
        assert_eq!(read.authority(), "[::1]:99");
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for (text, error) in [
            ("", EndpointError::Scheme),
            ("tcp://c", EndpointError::Scheme),
            ("https://c", EndpointError::Secure),
            ("http://", EndpointError::Host),
            ("http:///v1", EndpointError::Host),
            ("http://user@c", EndpointError::Host),
            ("http://[::1", EndpointError::Host),
            ("http://[c]", EndpointError::Host),
            ("http://[::1]4318", EndpointError::Port),
            ("http://c:0", EndpointError::Port),
            ("http://c:", EndpointError::Port),
            ("http://c:+1", EndpointError::Port),
            ("http://c:65536", EndpointError::Port),
            ("http://c/a?b", EndpointError::Path),
            ("http://c/a b", EndpointError::Path),
            ("http://c/\r\nX: y", EndpointError::Path),
        ] {
            assert_eq!(Endpoint::parse(text), Err(error), "{text}");
        }
    }
}
