//! The resources of the operator's interface.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use dhow_bundle::Now;
use dhow_bundle::storage::BundleKey;
use dhow_node::Node;
use dhow_node::driver::OperatorCommand;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::Asker;
use super::changing::{
    add_contact, add_link, add_listener, add_route, change_link, delete_contact, delete_link,
    delete_listener, delete_route, difference, edits, reload,
};
use super::json::{
    BundleStatus, ContactStatus, DestinationStatus, ListedLink, RegistrationStatus, RouteStatus,
    SessionStatus,
};
use super::list::{Piece, list};
use super::live::{Live, LiveFacts};
use super::metrics::Snapshot;
use super::neighbours;
use super::page::page;
use super::refusal::Refusal;
use super::why::Subject;
use super::{bundle_name, json};
use crate::http::events::{Events, events};
use crate::http::scope::is_same;
use crate::reload::keeper::Shared;
use crate::storing::Answers;

/// Octets of a request's body, at most: the longest is a route.
const BODY_OCTETS_MAX: usize = 64 << 10;

/// Bundles listed when the request names no limit, and at most.
const BUNDLES_LISTED: (usize, usize) = (100, 1_000_000);

/// Destinations that are summed up at a time: each time all bundles are looked at.
const DESTINATIONS_AT_ONCE: usize = 512;

/// Facts from the configuration that the node does not know.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The facts that change while the node runs.
    pub live: Live,
    /// The application interface.
    pub api: String,
    /// TCP addresses of the application interface.
    pub api_tcp: Vec<String>,
    /// TCP addresses of the operator's interface.
    pub admin_tcp: Vec<String>,
    /// Addresses of HTTP for applications.
    pub http: Vec<String>,
    /// The store's directory.
    pub store_path: String,
    /// `sync`, `os` or `memory`.
    pub durability: &'static str,
    /// Most bundles.
    pub quota_bundles: u64,
    /// Most octets.
    pub quota_octets: u64,
}

impl Facts {
    /// The time until this node's certificate ends, in seconds: negative once it has; `None` without one.
    pub(super) fn certificate_left(&self) -> Option<i64> {
        self.live.read(LiveFacts::certificate_left)
    }
}

/// State that every request can reach.
#[derive(Clone)]
pub struct Office {
    /// The way to the node.
    pub asker: Asker,
    /// The configuration's facts.
    pub facts: Arc<Facts>,
    /// The store's counts, where a store runs.
    pub store: Option<Answers>,
    /// Events of the node.
    pub events: Events,
    /// The keeper of the node's configuration.
    pub keeper: Shared,
}

/// The users of the resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// All who can connect.
    All,
    /// Callers who send the token of operators.
    WithToken,
}

/// All resources.
pub fn router(office: Office, callers: Callers) -> Router {
    let live = office.facts.live.clone();
    let router = Router::new()
        .route("/v1/node", get(node))
        .route("/v1/links", get(links).post(add_link))
        .route("/v1/links/{name}", delete(delete_link))
        .route("/v1/links/{name}/{direction}", post(change_link))
        .route("/v1/sessions", get(sessions))
        .route(
            "/v1/routes",
            get(routes).post(add_route).delete(delete_route),
        )
        .route(
            "/v1/contacts",
            get(contacts).post(add_contact).delete(delete_contact),
        )
        .route("/v1/listeners", post(add_listener))
        .route("/v1/listeners/{address}", delete(delete_listener))
        .route("/v1/store/export", post(super::exporting::export))
        .route("/v1/reload", post(reload))
        .route("/v1/config/difference", get(difference))
        .route("/v1/config/edits", get(edits))
        .route("/v1/neighbours", get(neighbours))
        .route("/v1/registrations", get(registrations))
        .route("/v1/destinations", get(destinations))
        .route("/v1/bundles", get(bundles))
        .route("/v1/bundles/{*id}", delete(drop_bundle))
        .route("/v1/why/{*subject}", get(why))
        .route("/v1/events", get(tell_events))
        .route("/metrics", get(metrics))
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "there is no such resource"))
        .method_not_allowed_fallback(async || {
            Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "the resource does not know this method",
            )
        })
        .layer(DefaultBodyLimit::max(BODY_OCTETS_MAX))
        .with_state(office);
    let router = match callers {
        Callers::WithToken => router.layer(middleware::from_fn_with_state(live, check_token)),
        Callers::All => router,
    };
    router.merge(page())
}

async fn tell_events(State(office): State<Office>) -> Response {
    events(&office.events)
}

async fn check_token(State(live): State<Live>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let is_token = |given| live.read(|facts| is_same(given, facts.admin_token.as_bytes()));
    if given.is_some_and(is_token) {
        return next.run(request).await;
    }
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "the request carries no valid token",
    )
    .with_hint("send \"Authorization: Bearer TOKEN\" with the token of [admin]")
    .into_response()
}

async fn node(State(office): State<Office>) -> Result<Json<Value>, Refusal> {
    let facts = Arc::clone(&office.facts);
    let value = office
        .asker
        .look(move |node, now, drivers| json::node(node, now, drivers, &facts))
        .await?;
    Ok(Json(value))
}

/// Entries with their numbers for places, from one on.
fn from<T>(place: u64, entries: Vec<T>) -> impl Iterator<Item = (u64, T)> {
    (0..)
        .zip(entries)
        .skip_while(move |(number, _)| *number < place)
}

async fn links(State(office): State<Office>) -> Result<Response, Refusal> {
    let write = |node: &Node, now: Now, place: u64, piece: &mut Piece| {
        let waiting = node.waiting().into_iter();
        let waiting = waiting
            .filter_map(|it| Some((it.next_hop?, it.bundles)))
            .collect();
        let links = from(place, node.links());
        piece.fill(links.map(|(number, link)| (number, ListedLink::of(link, now, &waiting))))
    };
    list(office.asker, usize::MAX, write).await
}

async fn sessions(State(office): State<Office>) -> Result<Response, Refusal> {
    let write = |node: &Node, now: Now, place: u64, piece: &mut Piece| {
        let sessions = node.sessions().into_iter();
        let sessions = sessions.filter(|session| session.stream.0 >= place);
        piece.fill(sessions.map(|session| (session.stream.0, SessionStatus::of(session, now))))
    };
    list(office.asker, usize::MAX, write).await
}

async fn routes(State(office): State<Office>) -> Result<Response, Refusal> {
    let write = |node: &Node, _: Now, place: u64, piece: &mut Piece| {
        let routes = from(place, node.routes());
        piece.fill(routes.map(|(number, route)| (number, RouteStatus::from(route))))
    };
    list(office.asker, usize::MAX, write).await
}

async fn contacts(State(office): State<Office>) -> Result<Response, Refusal> {
    let write = |node: &Node, now: Now, place: u64, piece: &mut Piece| {
        let contacts = (0..).zip(node.contacts().phases(now.dtn));
        let contacts = contacts.skip_while(|(number, _)| *number < place);
        piece.fill(contacts.map(|(number, contact)| (number, ContactStatus::from(contact))))
    };
    list(office.asker, usize::MAX, write).await
}

async fn neighbours(State(office): State<Office>) -> Result<Response, Refusal> {
    let write = |node: &Node, now: Now, place: u64, piece: &mut Piece| {
        piece.fill(from(place, neighbours::neighbours(node, now)))
    };
    list(office.asker, usize::MAX, write).await
}

async fn registrations(State(office): State<Office>) -> Result<Response, Refusal> {
    let write = |node: &Node, _: Now, place: u64, piece: &mut Piece| {
        let registrations = from(place, node.registrations());
        piece.fill(registrations.map(|(number, it)| (number, RegistrationStatus::from(it))))
    };
    list(office.asker, usize::MAX, write).await
}

async fn destinations(State(office): State<Office>) -> Result<Response, Refusal> {
    let write = |node: &Node, now: Now, place: u64, piece: &mut Piece| {
        let first = u32::try_from(place).ok()?;
        let sums = node.destinations(now, first, DESTINATIONS_AT_ONCE);
        let behind = match sums.last() {
            Some((last, _)) if sums.len() == DESTINATIONS_AT_ONCE => Some(u64::from(*last) + 1),
            _ => None,
        };
        let sums = sums.into_iter();
        let left = piece.fill(sums.map(|(at, it)| (u64::from(at), DestinationStatus::from(it))));
        left.or(behind)
    };
    list(office.asker, usize::MAX, write).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    limit: Option<usize>,
}

async fn bundles(
    State(office): State<Office>,
    listing: Result<Query<Listing>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Refusal> {
    let (usual, most) = BUNDLES_LISTED;
    let Query(listing) =
        listing.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.body_text()))?;
    let limit = listing.limit.unwrap_or(usual);
    if limit > most {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            format!("at most {most} bundles are listed"),
        ));
    }
    let write = |node: &Node, now: Now, place: u64, piece: &mut Piece| {
        let bundles = node.bundles(now, BundleKey(u32::try_from(place).ok()?));
        piece.fill(bundles.map(|(key, bundle)| (u64::from(key.0), BundleStatus::from(bundle))))
    };
    list(office.asker, limit, write).await
}

async fn drop_bundle(
    State(office): State<Office>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let bundle = bundle_name::parse(&id).ok_or_else(|| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("'{id}' names no bundle")).with_hint(
            "bundles are named SOURCE/TIME/SEQUENCE, as `dhow bundles --each` shows them",
        )
    })?;
    office
        .asker
        .operate(OperatorCommand::BundleDrop(bundle))
        .await??;
    Ok(Json(json!({ "id": id })))
}

async fn why(
    State(office): State<Office>,
    Path(text): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let subject = Subject::parse(&text).ok_or_else(|| {
        let why = format!("'{text}' names neither a bundle nor an endpoint");
        let hint = "bundles are named SOURCE/TIME/SEQUENCE, as `dhow bundles --each` shows them; endpoints look like ipn:3.1";
        Refusal::new(StatusCode::BAD_REQUEST, why).with_hint(hint)
    })?;
    let look = move |node: &Node, now: Now, _| subject.ask(node, now);
    let answer = office.asker.look(look).await?;
    let answer = answer.ok_or_else(|| {
        let hint = "it has left, was delivered, has expired or was never here; `dhow bundles --each` shows the bundles";
        Refusal::new(StatusCode::NOT_FOUND, format!("no bundle {text} is stored here"))
            .with_hint(hint)
    })?;
    Ok(Json(answer))
}

async fn metrics(State(office): State<Office>) -> Result<Response, Refusal> {
    let snapshot = office.asker.look(Snapshot::of).await?;
    let text = snapshot
        .text(office.store, office.facts.certificate_left())
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
