//! The resources of the operator's interface.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use dhow_bundle::storage::BundleKey;
use dhow_bundle::{NodeId, Now};
use dhow_node::Node;
use dhow_node::config::Route;
use dhow_node::driver::OperatorCommand;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::{Asker, NewLink};
use super::json::{
    BundleStatus, ContactStatus, DestinationStatus, LinkStatus, RegistrationStatus, RouteStatus,
    SessionStatus,
};
use super::list::{Piece, list};
use super::metrics::Snapshot;
use super::neighbours;
use super::refusal::Refusal;
use super::why::Subject;
use super::{bundle_name, json};
use crate::config::address::split_address;
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
    /// Addresses on which neighbours are accepted.
    pub listen: Vec<String>,
    /// The application interface.
    pub api: String,
    /// TCP addresses of the application interface.
    pub api_tcp: Vec<String>,
    /// TCP addresses of the operator's interface.
    pub admin_tcp: Vec<String>,
    /// The store's directory.
    pub store_path: String,
    /// `sync`, `os` or `memory`.
    pub durability: &'static str,
    /// Most bundles.
    pub quota_bundles: u64,
    /// Most octets.
    pub quota_octets: u64,
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
}

/// All resources; with a token, only for those who send it.
pub fn router(office: Office, token: Option<String>) -> Router {
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
        .route("/v1/contacts", get(contacts))
        .route("/v1/neighbours", get(neighbours))
        .route("/v1/registrations", get(registrations))
        .route("/v1/destinations", get(destinations))
        .route("/v1/bundles", get(bundles))
        .route("/v1/bundles/{*id}", delete(drop_bundle))
        .route("/v1/why/{*subject}", get(why))
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
    match token {
        Some(token) => router.layer(middleware::from_fn_with_state(
            Arc::<str>::from(token),
            check_token,
        )),
        None => router,
    }
}

async fn check_token(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if given.is_some_and(|given| is_same(given, token.as_bytes())) {
        return next.run(request).await;
    }
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "the request carries no valid token",
    )
    .with_hint("send \"Authorization: Bearer TOKEN\" with the token of [admin]")
    .into_response()
}

/// Compares in a time that does not depend on where the first difference is.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differences = given.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differences == 0
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
        let links = from(place, node.links());
        piece.fill(links.map(|(number, link)| (number, LinkStatus::of(link, now))))
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

async fn change_link(
    State(office): State<Office>,
    Path((name, direction)): Path<(String, String)>,
) -> Result<Json<Value>, Refusal> {
    let command = match direction.as_str() {
        "up" => OperatorCommand::LinkUp(name.clone()),
        "down" => OperatorCommand::LinkDown(name.clone()),
        _ => {
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                format!("a link goes up or down, not '{direction}'"),
            ));
        }
    };
    office.asker.operate(command).await??;
    Ok(Json(json!({ "link": name, "direction": direction })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkBody {
    name: String,
    #[serde(default)]
    address: Option<String>,
    like: String,
    #[serde(default)]
    peer: Option<String>,
}

/// Characters of the name of a link that is added, at most.
const LINK_NAME_MAX: usize = 64;

impl LinkBody {
    fn read(&self) -> Result<NewLink, Refusal> {
        let bad = |why: String, hint: &'static str| {
            Refusal::new(StatusCode::BAD_REQUEST, why).with_hint(hint)
        };
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = (1..=LINK_NAME_MAX).contains(&self.name.len());
        if !is_name || !self.name.chars().all(named) {
            let why = format!("'{}' cannot be the name of a link", self.name);
            return Err(bad(
                why,
                "1 to 64 letters, digits, '-', '_' and '.', as \"gamma\"",
            ));
        }
        let place = match &self.address {
            Some(address) => split_address(address).ok_or_else(|| {
                let hint = "addresses look like host:4556 or [2001:db8::1]:4556";
                bad(format!("'{address}' is no address"), hint)
            })?,
            // Some links have none.
            None => (String::new(), 0),
        };
        let (host, port) = place;
        let peer = self.peer.as_ref().map(|text| {
            let why = || format!("'{text}' is no node ID");
            let hint = "node IDs look like ipn:4.0 or dtn://delta/";
            text.parse::<NodeId>().map_err(|_| bad(why(), hint))
        });
        Ok(NewLink {
            name: self.name.clone(),
            host,
            port,
            like: self.like.clone(),
            peer: peer.transpose()?,
        })
    }
}

async fn add_link(State(office): State<Office>, body: Body) -> Result<Json<Value>, Refusal> {
    let body = body.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
    let body: LinkBody = serde_json::from_slice(&body).map_err(|error| {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            format!("the body is no link: {error}"),
        )
        .with_hint(r#"for example: {"name": "gamma", "address": "10.0.0.3:4556", "like": "beta"}"#)
    })?;
    office.asker.add_link(body.read()?).await??;
    let LinkBody {
        name,
        address,
        like,
        peer,
    } = body;
    Ok(Json(
        json!({ "link": name, "address": address, "like": like, "peer": peer }),
    ))
}

async fn delete_link(
    State(office): State<Office>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let command = OperatorCommand::LinkDelete(name.clone());
    office.asker.operate(command).await??;
    Ok(Json(json!({ "link": name })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteBody {
    to: String,
    via: String,
    #[serde(default)]
    priority: i32,
}

impl RouteBody {
    fn read(
        body: Result<Bytes, axum::extract::rejection::BytesRejection>,
    ) -> Result<Self, Refusal> {
        let body = body.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
        serde_json::from_slice(&body).map_err(|error| {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                format!("the body is no route: {error}"),
            )
            .with_hint(r#"for example: {"to": "ipn:4.*", "via": "gamma", "priority": 0}"#)
        })
    }

    fn answer(&self) -> Json<Value> {
        Json(json!({ "to": self.to, "via": self.via, "priority": self.priority }))
    }
}

type Body = Result<Bytes, axum::extract::rejection::BytesRejection>;

async fn add_route(State(office): State<Office>, body: Body) -> Result<Json<Value>, Refusal> {
    let body = RouteBody::read(body)?;
    let answer = body.answer();
    let route = Route {
        to: body.to,
        via: body.via,
        priority: body.priority,
    };
    office
        .asker
        .operate(OperatorCommand::RouteAdd(route))
        .await??;
    Ok(answer)
}

async fn delete_route(State(office): State<Office>, body: Body) -> Result<Json<Value>, Refusal> {
    let body = RouteBody::read(body)?;
    let answer = json!({ "to": body.to, "via": body.via });
    office
        .asker
        .operate(OperatorCommand::RouteDelete {
            to: body.to,
            via: body.via,
        })
        .await??;
    Ok(Json(answer))
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
        .text(office.store)
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
