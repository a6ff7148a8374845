//! The resources of applications.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router, middleware};
use dhow_bundle::{BundleFlags, BundleId, EndpointId, NodeId, Priority};
use dhow_client::{Address, Client, Error, Registration, SendHead};
use dhow_document::quantity::parse_duration;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};

use super::body::Incoming;
use super::lease::{LeaseError, Leased, Leases, Verdict};
use super::scope::check_scope;
use crate::admin::live::Live;
use crate::admin::refusal::Refusal;

/// The path of the document that describes this interface.
pub(super) const DOCUMENT_PATH: &str = "/v1/openapi.json";

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

/// The time in which the node must take a bundle and answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bundles that are sent at a time; further ones wait. Each takes a thread and a connection to the node, some megabytes.
const SENDING_MAX: usize = 16;

/// The longest time for which a request waits for a delivery.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// State that every request can reach.
#[derive(Clone)]
pub struct PostOffice {
    /// The application interface of the node.
    pub api: PathBuf,
    /// The node, whose endpoints have their services named alone.
    pub node: NodeId,
    /// The source of bundles for which none is named.
    pub source: EndpointId,
    /// Most octets of a bundle.
    pub quota_octets: u64,
    /// Deliveries that were handed over and are not confirmed.
    leases: Leases,
    sending: Arc<Semaphore>,
}

impl PostOffice {
    /// The post office of a node at whose application socket `api` requests are carried out.
    #[must_use]
    pub fn new(api: PathBuf, node: NodeId, quota_octets: u64) -> Self {
        let source = node.service(SERVICE).unwrap_or(EndpointId::Null);
        Self {
            api,
            node,
            source,
            quota_octets,
            leases: Leases::default(),
            sending: Arc::new(Semaphore::new(SENDING_MAX)),
        }
    }

    fn address(&self) -> Address {
        Address::Unix(self.api.clone())
    }

    /// An endpoint as it is named: in full, or by its service at this node.
    fn endpoint(&self, text: &str) -> Result<EndpointId, Refusal> {
        let parsed = match text.contains(':') {
            true => text.parse().map_err(|error| format!("{error}")),
            false => self.node.service(text).map_err(|error| error.to_string()),
        };
        parsed.map_err(|error| {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                format!("'{text}' is not an endpoint ID: {error}"),
            )
            .with_hint("endpoint IDs look like ipn:2.42 or dtn://beta/letters; one of this node may be named by its service: 42")
        })
    }
}

/// The service of bundles for which no source is named.
const SERVICE: &str = "8080";

/// The resources of applications, and with them those of operators, for holders of a token with that scope.
pub fn router(office: PostOffice, operators: Router, live: Live) -> Router {
    Router::new()
        .route("/v1/bundles", post(send))
        .route("/v1/endpoints/{endpoint}/deliveries", get(receive))
        .route(
            "/v1/endpoints/{endpoint}/deliveries/{name}",
            delete(confirm),
        )
        .route(
            "/v1/endpoints/{endpoint}/deliveries/{name}/decline",
            post(decline),
        )
        .route(DOCUMENT_PATH, get(document))
        .with_state(office)
        .merge(operators)
        .layer(middleware::from_fn_with_state(live, check_scope))
}

async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sending {
    to: String,
    from: Option<String>,
    lifetime: Option<String>,
    report: Option<String>,
    report_to: Option<String>,
    priority: Option<String>,
}

impl Sending {
    fn head(&self, office: &PostOffice) -> Result<(Registration, SendHead), Refusal> {
        let source = match self.from.as_deref() {
            Some("dtn:none") => None,
            Some(text) => Some(office.endpoint(text)?),
            None => Some(office.source.clone()),
        };
        let mut head = SendHead::to(office.endpoint(&self.to)?);
        if let Some(text) = &self.lifetime {
            let lifetime = parse_duration(text).map_err(|error| {
                bad(format!("'lifetime' cannot be '{text}': {error}"))
                    .with_hint("durations look like 90s, 5min, 12h or 1d")
            })?;
            head = head.with_lifetime(lifetime);
        }
        if let Some(text) = &self.priority {
            let priority = text.parse::<Priority>().map_err(|error| {
                bad(format!("'priority' cannot be '{text}': {error}")).with_hint(
                    "priorities are bulk, normal, expedited and expedited:0 to expedited:254",
                )
            })?;
            head = head.with_priority(priority);
        }
        if let Some(text) = &self.report_to {
            head = head.with_report_to(office.endpoint(text)?);
        }
        if let Some(kinds) = &self.report {
            if source.is_none() {
                return Err(bad("an anonymous bundle cannot be reported on")
                    .with_hint("name a source with 'from'"));
            }
            head = head.with_flags(report_flags(kinds)?);
        }
        let registration = source.map_or_else(Registration::anonymous, Registration::new);
        Ok((registration, head))
    }
}

/// The flags of kinds of reports, named one after the other with commas (RFC 9171 4.2.3).
fn report_flags(kinds: &str) -> Result<u64, Refusal> {
    let mut flags = BundleFlags::STATUS_TIME_REQUESTED;
    for kind in kinds.split(',') {
        flags = flags
            | match kind {
                "reception" => BundleFlags::REPORT_RECEPTION,
                "forward" => BundleFlags::REPORT_FORWARDING,
                "delivery" => BundleFlags::REPORT_DELIVERY,
                "deletion" => BundleFlags::REPORT_DELETION,
                _ => {
                    return Err(bad(format!("nobody reports '{kind}'")).with_hint(
                        "kinds are reception, forward, delivery and deletion, with commas between them",
                    ));
                }
            };
    }
    Ok(flags.bits())
}

fn bad(why: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, why)
}

async fn send(
    State(office): State<PostOffice>,
    sending: Result<Query<Sending>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let Query(sending) = sending.map_err(|error| bad(error.body_text()))?;
    let (registration, head) = sending.head(&office)?;
    let octets = length(&headers)?;
    if octets > office.quota_octets {
        return Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the node takes no bundle of {octets} octets: its quota is {}",
                office.quota_octets
            ),
        )
        .with_hint("send it in pieces, as `dhow send --split` does"));
    }
    let place = Arc::clone(&office.sending).acquire_owned().await;
    let payload = Incoming::of(body);
    let address = office.address();
    let sent = tokio::task::spawn_blocking(move || {
        let _place = place;
        let client = Client::connect_within(&address, PATIENCE)?.with_patience(PATIENCE)?;
        let mut sender = client.sender(&registration)?;
        sender.send(&head, payload, octets)?;
        match sender.next_answer(Some(PATIENCE))? {
            Some(answer) => Ok(answer.outcome?),
            None => Err(Error::Silent(PATIENCE)),
        }
    });
    let created = sent
        .await
        .map_err(|_| gone())?
        .map_err(|error| refusal(&error))?;
    let id = BundleId {
        source: created.source,
        creation: created.creation,
        fragment: None,
    };
    let place = [(header::LOCATION, format!("/v1/bundles/{id}"))];
    let told = json!({ "id": id.to_string(), "lifetime_ms": created.lifetime_ms });
    Ok((StatusCode::CREATED, place, Json(told)).into_response())
}

/// Octets of a request's body, which a bundle says before its payload.
fn length(headers: &HeaderMap) -> Result<u64, Refusal> {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    length.ok_or_else(|| {
        Refusal::new(
            StatusCode::LENGTH_REQUIRED,
            "the length of the payload is not known",
        )
        .with_hint("send a Content-Length and no chunks: curl does with --data-binary @FILE")
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    wait: Option<String>,
}

async fn receive(
    State(office): State<PostOffice>,
    Path(endpoint): Path<String>,
    waiting: Result<Query<Waiting>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(waiting) = waiting.map_err(|error| bad(error.body_text()))?;
    let endpoint = office.endpoint(&endpoint)?;
    let wait = match &waiting.wait {
        None => Duration::ZERO,
        Some(text) => parse_duration(text)
            .map_err(|error| {
                bad(format!("'wait' cannot be '{text}': {error}"))
                    .with_hint("durations look like 30s; the longest is 60s")
            })?
            .min(WAIT_MAX),
    };
    let begun = office
        .leases
        .begin(office.address(), endpoint.clone(), wait);
    let told = begun.map_err(|error| match error {
        LeaseError::TooMany => Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many wait for deliveries, or hold some that they have not confirmed",
        )
        .with_hint("confirm what was taken with DELETE; a lease ends by itself after 60 s"),
        LeaseError::System(error) => Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the system has no thread for it: {error}"),
        ),
    })?;
    let leased = told.await.map_err(|_| gone())?;
    match leased.map_err(|error| refusal(&error))? {
        Some(leased) => Ok(delivered(&endpoint, leased)),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// The answer with a delivery.
fn delivered(endpoint: &EndpointId, leased: Leased) -> Response {
    let Leased {
        name,
        head,
        payload,
    } = leased;
    let endpoint = endpoint.to_string().replace('/', "%2F");
    let administrative = head.flags & BundleFlags::ADMINISTRATIVE_RECORD.bits() != 0;
    let named = |name: &'static str| HeaderName::from_static(name);
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, head.payload_octets.to_string()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (
            header::LOCATION,
            format!("/v1/endpoints/{endpoint}/deliveries/{name}"),
        ),
        (named("dhow-delivery"), name),
        (named("dhow-bundle"), head.id.to_string()),
        (named("dhow-source"), head.id.source.to_string()),
        (named("dhow-destination"), head.destination.to_string()),
        (named("dhow-lifetime-ms"), head.lifetime_ms.to_string()),
        (named("dhow-priority"), head.priority.to_string()),
        (named("dhow-administrative"), administrative.to_string()),
    ];
    (headers, Body::new(payload)).into_response()
}

async fn confirm(
    state: State<PostOffice>,
    path: Path<(String, String)>,
) -> Result<StatusCode, Refusal> {
    judge(state, path, Verdict::Confirm).await
}

async fn decline(
    state: State<PostOffice>,
    path: Path<(String, String)>,
) -> Result<StatusCode, Refusal> {
    judge(state, path, Verdict::Decline).await
}

async fn judge(
    State(office): State<PostOffice>,
    Path((endpoint, name)): Path<(String, String)>,
    verdict: Verdict,
) -> Result<StatusCode, Refusal> {
    let endpoint = office.endpoint(&endpoint)?;
    let judged: Option<oneshot::Receiver<_>> = office.leases.judge(&endpoint, &name, verdict);
    let answered = match judged {
        Some(answer) => answer.await.ok(),
        None => None,
    };
    let Some(done) = answered else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "no such delivery is leased: its 60 s are over, it was confirmed or declined already, or it was not read to its end",
        )
        .with_hint("what was not confirmed comes again"));
    };
    done.map_err(|error| refusal(&error))?;
    Ok(StatusCode::NO_CONTENT)
}

fn gone() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the node is ending")
}

/// An error of the node's application interface, as HTTP says it.
fn refusal(error: &Error) -> Refusal {
    let status = match error {
        Error::Refused(refusal) if refusal.is_temporary() => StatusCode::INSUFFICIENT_STORAGE,
        Error::Refused(_) => StatusCode::BAD_REQUEST,
        Error::Payload(_) | Error::PayloadShort { .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    Refusal::new(status, error.to_string())
}
