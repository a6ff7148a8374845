//! The address of a node's API socket.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a node's API socket.
///
/// As text: `tcp:HOST:PORT` for TCP, anything else is the path of a Unix socket (`unix:` before it is
/// allowed, for paths that begin like an address).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// Host and port, `127.0.0.1:4242` or `node.example:4242`; names are resolved at each connection.
    Tcp(String),
}

/// Reading an address cannot fail: a text that is no TCP address is a path.
pub type AddressError = Infallible;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Ok(if let Some(tcp) = text.strip_prefix("tcp:") {
            Self::Tcp(tcp.trim_start_matches("//").into())
        } else {
            Self::Unix(text.strip_prefix("unix:").unwrap_or(text).into())
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_path_unless_it_says_tcp() {
        assert_eq!("dhow.sock".parse(), Ok(Address::Unix("dhow.sock".into())));
        assert_eq!("unix:tcp:1".parse(), Ok(Address::Unix("tcp:1".into())));
        assert_eq!(
            "tcp:[::1]:4242".parse(),
            Ok(Address::Tcp("[::1]:4242".into()))
        );
        let address = Address::Tcp("localhost:1".into());
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}
