//! The destination of measurements: a collector's address, a file, standard output, or an endpoint to which bundles carry
//! them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port on which collectors listen.
pub const PORT: u16 = 3003;

/// The destination of measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A collector: `tcp:HOST:PORT`, `tcp://HOST`, `HOST`, `[IPv6]:PORT`; the port is 3003 where none is named.
    Tcp(String),
    /// A file, written anew: `file:PATH`.
    File(PathBuf),
    /// Standard output: `file:-`.
    Stdout,
    /// An endpoint, to which bundles carry them: `bundles:ENDPOINT`.
    Bundles(String),
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if let Some(endpoint) = text.strip_prefix("bundles:") {
            return match endpoint {
                "" => Err(TargetError(text.to_owned())),
                endpoint => Ok(Self::Bundles(endpoint.to_owned())),
            };
        }
        let path = ["file:", "flush:"]
            .iter()
            .find_map(|p| text.strip_prefix(p));
        if let Some(path) = path {
            // `file:///tmp/x` names /tmp/x.
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Err(TargetError(text.to_owned())),
                "-" => Ok(Self::Stdout),
                path => Ok(Self::File(path.into())),
            };
        }
        let rest = text.strip_prefix("tcp:").unwrap_or(text);
        let address = rest.strip_prefix("//").unwrap_or(rest);
        let address = address.strip_suffix('/').unwrap_or(address);
        let wrong = || TargetError(text.to_owned());
        // An IPv6 address stands in brackets, so the colons within are not before a port.
        let after_host = address.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match address.get(after_host..).and_then(|rest| rest.rfind(':')) {
            Some(colon) => address.split_at(after_host + colon),
            None => (address, ""),
        };
        let port = match port.strip_prefix(':') {
            None => PORT,
            Some(port) => port.parse().map_err(|_| wrong())?,
        };
        let is_host = !host.is_empty()
            && !host.contains(|c: char| c.is_whitespace() || c == '/')
            && (host.starts_with('[') == host.ends_with(']'))
            && (host.starts_with('[') || !host.contains(':'));
        if !is_host || port == 0 {
            return Err(wrong());
        }
        Ok(Self::Tcp(format!("{host}:{port}")))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Stdout => f.write_str("file:-"),
            Self::Bundles(endpoint) => write!(f, "bundles:{endpoint}"),
        }
    }
}

/// A text that names no place for measurements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither tcp:HOST:PORT nor file:PATH nor file:- nor bundles:ENDPOINT")]
pub struct TargetError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_in_every_form_that_is_in_use() {
        for (text, shown) in [
            ("tcp:lab:3004", "tcp:lab:3004"),
            ("tcp://lab:3004/", "tcp:lab:3004"),
            ("tcp://lab", "tcp:lab:3003"),
            ("lab", "tcp:lab:3003"),
            ("10.0.0.1:5", "tcp:10.0.0.1:5"),
            ("[::1]:5", "tcp:[::1]:5"),
            ("tcp:[::1]", "tcp:[::1]:3003"),
            ("file:out.oml", "file:out.oml"),
            ("file:///tmp/x", "file:/tmp/x"),
            ("flush:out", "file:out"),
            ("file:-", "file:-"),
            ("bundles:ipn:9.3003", "bundles:ipn:9.3003"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "",
            "tcp:",
            "tcp:lab:",
            "tcp:lab:70000",
            "tcp:lab:0",
            "::1",
            "file:",
            "bundles:",
            "a b",
            "http://x/y",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
