//! From a node file to the thread that serves operators, and applications over HTTP.

use std::sync::Arc;

use super::ask::Asker;
use super::live::{Live, LiveFacts};
use super::routes::{Callers, Facts, Office, router};
use super::server::{self, Routers, Sockets};
use crate::config::NodeFile;
use crate::config::file::DurabilitySetting;
use crate::http::events::Events;
use crate::http::{self, PostOffice};
use crate::reload::keeper::Shared;
use crate::run::Ready;
use crate::storing::Answers;
use crate::streams::bound::Bound;
use crate::streams::tls::Tls;
use crate::web::Served;

/// Facts that the node does not know of itself.
pub(crate) fn facts(file: &NodeFile, ready: &Ready, bound: &Bound, tls: Option<&Tls>) -> Facts {
    let show = |address: std::io::Result<std::net::SocketAddr>| {
        address.ok().map(|address| address.to_string())
    };
    Facts {
        live: Live::new(LiveFacts {
            listen: ready.listen.clone(),
            certificate_ends: tls.and_then(Tls::ends),
            admin_token: (file.admin.as_ref())
                .map(|admin| admin.token.clone())
                .unwrap_or_default(),
            tokens: (file.http.as_ref())
                .map(|http| http.tokens.clone())
                .unwrap_or_default()
                .into(),
        }),
        api: ready.api.clone(),
        api_tcp: bound
            .clients
            .1
            .iter()
            .filter_map(|listener| show(listener.local_addr()))
            .collect(),
        admin_tcp: bound
            .admin
            .tcp
            .iter()
            .filter_map(|listener| show(listener.local_addr()))
            .collect(),
        http: bound
            .admin
            .http
            .iter()
            .filter_map(|listener| show(listener.local_addr()))
            .collect(),
        store_path: file.store.path.display().to_string(),
        durability: match file.store.durability {
            DurabilitySetting::Sync => "sync",
            DurabilitySetting::Contact => "contact",
            DurabilitySetting::Os => "os",
            DurabilitySetting::Memory => "memory",
        },
        quota_bundles: file.node.quota_bundles,
        quota_octets: file.node.quota_octets,
    }
}

/// Starts the thread that serves operators, and applications over HTTP.
///
/// # Errors
/// When the system makes no thread.
pub(crate) fn start_admin(
    file: &NodeFile,
    facts: Facts,
    sockets: Sockets,
    (asker, keeper, store): (Asker, Shared, Answers),
    events: Events,
    places: usize,
) -> std::io::Result<Served> {
    let office = Office {
        asker,
        facts: Arc::new(facts),
        store: Some(store),
        events,
        keeper,
    };
    let live = office.facts.live.clone();
    let open = router(office.clone(), Callers::All);
    let applications = match (&file.http, file.node.node_ids.first()) {
        (Some(_), Some(node)) => {
            let api = file.api_socket.clone();
            let post = PostOffice::new(api, node.clone(), file.node.quota_octets);
            http::router(post, open.clone(), live)
        }
        _ => axum::Router::new(),
    };
    let routers = Routers {
        guarded: router(office, Callers::WithToken),
        open,
        applications,
    };
    server::start(sockets, routers, places)
}
