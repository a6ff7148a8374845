//! The place of a link's end: `east:dtn0/10.9.0.1/30`.

use std::fmt;
use std::net::{AddrParseError, IpAddr};
use std::str::FromStr;

/// Longest name of an interface, octets (Linux: IFNAMSIZ without its end).
const INTERFACE_OCTETS_MAX: usize = 15;

/// Why a text is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// Its parts cannot be told apart.
    #[error("'{0}' is not NAMESPACE:INTERFACE/ADDRESS/PREFIX, such as east:dtn0/10.9.0.1/30")]
    Shape(String),
    /// No name of an interface.
    #[error("'{0}' is not an interface name: 1 to 15 octets without '/', ':' and spaces")]
    Interface(String),
    /// No name of a namespace.
    #[error("'{0}' is not a valid name of a network namespace")]
    Namespace(String),
    /// No address.
    #[error("'{0}' is not an IP address")]
    Address(String),
    /// No length of a prefix for that address.
    #[error("'{0}' is not a prefix length of that address")]
    Prefix(String),
}

/// An end of a link: an interface in a network namespace, and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The namespace's name as `ip netns` knows it; `None` for the one that this process is in.
    pub namespace: Option<String>,
    /// The name that the interface will have.
    pub interface: String,
    /// Its address.
    pub address: IpAddr,
    /// The length of the address's prefix: 0 to 32 or 128.
    pub prefix: u8,
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let shape = || PlaceError::Shape(text.to_owned());
        let (namespace, rest) = text.split_once(':').ok_or_else(shape)?;
        let (interface, rest) = rest.split_once('/').ok_or_else(shape)?;
        let (address, prefix) = rest.split_once('/').ok_or_else(shape)?;
        if namespace.contains('/') || namespace == "." || namespace == ".." {
            return Err(PlaceError::Namespace(namespace.to_owned()));
        }
        if !is_interface(interface) {
            return Err(PlaceError::Interface(interface.to_owned()));
        }
        let address: IpAddr = address
            .parse()
            .map_err(|_: AddrParseError| PlaceError::Address(address.to_owned()))?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix.parse() {
            Ok(length) if length <= longest => length,
            _ => return Err(PlaceError::Prefix(prefix.to_owned())),
        };
        Ok(Self {
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            interface: interface.to_owned(),
            address,
            prefix,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let Self {
            interface,
            address,
            prefix,
            ..
        } = self;
        write!(f, "{namespace}:{interface}/{address}/{prefix}")
    }
}

fn is_interface(name: &str) -> bool {
    (1..=INTERFACE_OCTETS_MAX).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        for text in [
            "east:dtn0/10.9.0.1/30",
            "west:t/fd00::1/64",
            ":lo9/0.0.0.0/0",
        ] {
            assert_eq!(
                text.parse::<Place>().map(|place| place.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn what_is_no_place_is_refused_with_the_part_that_is_wrong() {
        let refused = |text: &str| text.parse::<Place>().err();
        assert_eq!(
            refused("dtn0/10.9.0.1/30"),
            Some(PlaceError::Shape("dtn0/10.9.0.1/30".into()))
        );
        assert_eq!(
            refused("a:dtn0/10.9.0.1"),
            Some(PlaceError::Shape("a:dtn0/10.9.0.1".into()))
        );
        assert_eq!(
            refused("../x:dtn0/10.9.0.1/30"),
            Some(PlaceError::Namespace("../x".into()))
        );
        assert_eq!(
            refused("a:/10.9.0.1/30"),
            Some(PlaceError::Interface(String::new()))
        );
        let long = "a-name-of-16-oct";
        assert_eq!(
            refused(&format!("a:{long}/10.9.0.1/30")),
            Some(PlaceError::Interface(long.into()))
        );
        assert_eq!(
            refused("a:dtn0/10.9.0/30"),
            Some(PlaceError::Address("10.9.0".into()))
        );
        assert_eq!(
            refused("a:dtn0/10.9.0.1/33"),
            Some(PlaceError::Prefix("33".into()))
        );
        assert_eq!(
            refused("a:dtn0/fd00::1/129"),
            Some(PlaceError::Prefix("129".into()))
        );
    }
}
