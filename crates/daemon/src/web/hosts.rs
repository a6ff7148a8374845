//! Names under which this machine is asked.
//!
//! The owner of a name can have it lead to this machine, also to its loopback, and a browser then takes what is here for a part of the page that asked (DNS
//! rebinding). So a request for a page that asks for no token must name the machine by an address, or by a name that nobody else owns.

use std::net::IpAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use rustix::system::uname;

/// The names of this machine.
#[derive(Clone, Debug)]
pub struct Hosts {
    machine: String,
}

impl Hosts {
    /// The names of the machine on which this program runs.
    #[must_use]
    pub fn own() -> Self {
        let machine = uname();
        let machine = machine.nodename().to_string_lossy().to_ascii_lowercase();
        Self { machine }
    }

    /// Refuses requests that name another host.
    pub fn guard(self, router: Router) -> Router {
        router.layer(middleware::from_fn(move |request: Request, next: Next| {
            let is_own = self.are_named(request.uri(), request.headers());
            async move {
                match is_own {
                    true => next.run(request).await,
                    false => refused(),
                }
            }
        }))
    }

    /// True if a request names this machine in a way that no other site's page can.
    fn are_named(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        // RFC 9112 3.2: exactly one.
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        let host = Authority::try_from(host.as_bytes());
        host.is_ok_and(|host| self.has(&host)) && uri.authority().is_none_or(|it| self.has(it))
    }

    fn has(&self, authority: &Authority) -> bool {
        let name = authority.host().to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        if address.parse::<IpAddr>().is_ok() || name == "localhost" {
            return true;
        }
        // RFC 6762 3: names under .local are those of the machines on a link.
        let short = name.strip_suffix(".local").unwrap_or(&name);
        !self.machine.is_empty() && (short == self.machine || name == self.machine)
    }
}

fn refused() -> Response {
    let words = "ask by an address, or by the name that this machine has for itself\n";
    (StatusCode::FORBIDDEN, words).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_own(hosts: &[&str], uri: &str) -> bool {
        let own = Hosts {
            machine: "ship".to_owned(),
        };
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        own.are_named(&uri.parse().unwrap(), &headers)
    }

    #[test]
    fn addresses_and_names_of_the_machine_are_its_own() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:80",
            "192.0.2.1:9",
            "[::1]:9",
            "[2001:db8::1]",
            "localhost:80",
            "LocalHost",
            "ship",
            "Ship.local:80",
        ] {
            assert!(is_own(&[host], "/"), "{host}");
        }
    }

    #[test]
    fn names_that_somebody_may_own_are_refused() {
        for host in [
            "elsewhere.example",
            "elsewhere.example:80",
            "ship.elsewhere.example",
            "localhost.elsewhere.example",
            "127.0.0.1.elsewhere.example",
            "127.0.0.1@elsewhere.example",
            "ship.local.local",
            "",
            " ",
        ] {
            assert!(!is_own(&[host], "/"), "{host}");
        }
    }

    #[test]
    fn a_request_names_its_host_once_and_no_other_in_its_target() {
        assert!(!is_own(&[], "/"));
        assert!(!is_own(&["localhost", "elsewhere.example"], "/"));
        assert!(is_own(&["localhost"], "http://localhost/"));
        assert!(!is_own(&["localhost"], "http://elsewhere.example/"));
    }

    #[test]
    fn a_machine_without_a_name_has_none() {
        let own = Hosts {
            machine: String::new(),
        };
        assert!(!own.has(&".local".parse().unwrap()));
    }
}
