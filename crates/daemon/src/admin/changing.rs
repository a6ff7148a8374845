//! Changes to a running node by its operator: links, listeners, routes and contacts, and the node file as a whole.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use dhow_bundle::NodeId;
use dhow_node::config::Route;
use dhow_node::driver::{OperatorCommand, OperatorRefusal};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::NewLink;
use super::refusal::Refusal;
use super::routes::Office;
use crate::config::address::split_address;
use crate::reload::edit::{Edit, Settings, toml_of};

/// A request's body, or why there is none.
pub(super) type Body = Result<Bytes, axum::extract::rejection::BytesRejection>;

/// The effect of a request, or the reason why it has none.
type Answer = Result<Json<Value>, Refusal>;

/// Characters of the name of a link that is added, at most.
const LINK_NAME_MAX: usize = 64;

pub(super) async fn reload(State(office): State<Office>) -> Answer {
    // A caller who leaves does not leave a change half done.
    let keeper = office.keeper.clone();
    let reloaded = tokio::spawn(async move { keeper.lock().await.reload().await });
    let answer = reloaded
        .await
        .map_err(|_| Refusal::of_node("the node file"))?;
    Ok(Json(answer?))
}

pub(super) async fn difference(State(office): State<Office>) -> Answer {
    Ok(Json(office.keeper.lock().await.difference().await?))
}

pub(super) async fn edits(State(office): State<Office>) -> Answer {
    Ok(Json(office.keeper.lock().await.edits()))
}

/// Makes a change, also if the caller leaves meanwhile.
async fn edit(office: &Office, edit: Edit) -> Result<(), Refusal> {
    let keeper = office.keeper.clone();
    let made = tokio::spawn(async move { keeper.lock().await.edit(edit).await });
    made.await.map_err(|_| Refusal::of_node("the change"))?
}

async fn note(office: &Office, edit: Edit) {
    let keeper = office.keeper.clone();
    // It is noted also if the caller leaves meanwhile.
    let _ = tokio::spawn(async move { keeper.lock().await.note(edit).await }).await;
}

fn bad(why: impl Into<String>, hint: &'static str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, why).with_hint(hint)
}

/// The keys and values of a section from a request's body.
fn settings(body: Body, what: &str, hint: &'static str) -> Result<Settings, Refusal> {
    let body = body.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
    let mut settings: Settings = serde_json::from_slice(&body)
        .map_err(|error| bad(format!("the body is not a {what}: {error}"), hint))?;
    settings.retain(|_, value| !value.is_null());
    match settings.iter().find(|(_, value)| toml_of(value).is_none()) {
        Some((key, value)) => {
            let why = format!("the body is not a {what}: '{key}' cannot be {value}");
            Err(bad(why, hint))
        }
        None => Ok(settings),
    }
}

fn text<'a>(settings: &'a Settings, key: &str) -> Option<&'a str> {
    settings.get(key).and_then(Value::as_str)
}

pub(super) async fn change_link(
    State(office): State<Office>,
    Path((name, direction)): Path<(String, String)>,
) -> Answer {
    let (command, enabled) = match direction.as_str() {
        "up" => (OperatorCommand::LinkUp(name.clone()), true),
        "down" => (OperatorCommand::LinkDown(name.clone()), false),
        _ => {
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                format!("a link goes up or down, not '{direction}'"),
            ));
        }
    };
    office.asker.operate(command).await??;
    let turn = Edit::LinkTurn {
        name: name.clone(),
        enabled,
    };
    note(&office, turn).await;
    Ok(Json(json!({ "link": name, "direction": direction })))
}

const LINK_HINT: &str =
    r#"for example: {"name": "gamma", "address": "10.0.0.3:4556", "like": "beta"}"#;

pub(super) async fn add_link(State(office): State<Office>, body: Body) -> Answer {
    let mut given = settings(body, "link", LINK_HINT)?;
    let name = text(&given, "name").unwrap_or_default().to_owned();
    check_link(&given, &name)?;
    let like = given.remove("like");
    let like = like.as_ref().and_then(Value::as_str);
    let answer = json!({ "link": name, "address": given.get("address"), "like": like, "peer": given.get("peer") });
    let of_node = |node: &dhow_node::Node, name: &str| node.link_named(name).is_some();
    let known = name.clone();
    if office
        .asker
        .look(move |node, _, _| of_node(node, &known))
        .await?
    {
        return Err(OperatorRefusal::LinkExists(name).into());
    }
    let own = peer(&given)?;
    if let Some(own) = own.clone() {
        let is_own = move |node: &dhow_node::Node| node.node_ids().contains(&own);
        let own = office.asker.look(move |node, _, _| is_own(node)).await?;
        if let (true, Some(own)) = (own, peer(&given)?) {
            return Err(OperatorRefusal::OwnNode(own).into());
        }
    }
    let mut all = Settings::new();
    if let Some(like) = like {
        let known = office.keeper.lock().await.link_settings(like);
        match known {
            Some(settings) => all = settings,
            None => return add_like_found(&office, &given, like, answer).await,
        }
        for own in [
            "name",
            "address",
            "peer",
            "enabled",
            "engine",
            "remote_engine",
        ] {
            all.shift_remove(own);
        }
        let has_no_address = text(&all, "protocol") == Some("bibe");
        if !has_no_address && !given.contains_key("address") {
            return Err(OperatorRefusal::NoAddress(like.to_owned()).into());
        }
    }
    let mut ordered = Settings::new();
    for key in ["name", "address", "peer"] {
        ordered.extend(given.shift_remove(key).map(|value| (key.to_owned(), value)));
    }
    all.extend(given);
    ordered.extend(all);
    edit(&office, Edit::LinkAdd { settings: ordered }).await?;
    Ok(Json(answer))
}

fn peer(settings: &Settings) -> Result<Option<NodeId>, Refusal> {
    let peer = text(settings, "peer").map(|text| {
        text.parse::<NodeId>().map_err(|_| {
            let hint = "node IDs look like ipn:4.0 or dtn://delta/";
            bad(format!("'{text}' is not a node ID"), hint)
        })
    });
    peer.transpose()
}

fn check_link(given: &Settings, name: &str) -> Result<(), Refusal> {
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = (1..=LINK_NAME_MAX).contains(&name.len());
    if !is_name || !name.chars().all(named) {
        let why = format!("'{name}' cannot be the name of a link");
        let hint = "1 to 64 letters, digits, '-', '_' and '.', as \"gamma\"";
        return Err(bad(why, hint));
    }
    match text(given, "address") {
        Some(address) if split_address(address).is_none() => {
            let hint = "addresses look like host:4556 or [2001:db8::1]:4556";
            Err(bad(format!("'{address}' is not an address"), hint))
        }
        _ => Ok(()),
    }
}

/// Adds a link like one to a neighbour that was found: no node file has its settings, so the link is one for this run.
async fn add_like_found(office: &Office, given: &Settings, like: &str, answer: Value) -> Answer {
    let others = |key: &&String| !["name", "address", "peer"].contains(&key.as_str());
    if let Some(key) = given.keys().find(others) {
        let why = format!("a link like '{like}' has its settings, and not another '{key}'");
        return Err(bad(why, "leave it out, or 'like'"));
    }
    let place = text(given, "address").and_then(split_address);
    let (host, port) = place.unwrap_or_default();
    let link = NewLink {
        name: text(given, "name").unwrap_or_default().to_owned(),
        host,
        port,
        like: like.to_owned(),
        peer: peer(given)?,
    };
    office.asker.add_link(link).await??;
    Ok(Json(answer))
}

pub(super) async fn delete_link(State(office): State<Office>, Path(name): Path<String>) -> Answer {
    let keeper = office.keeper.lock().await;
    let (is_in_file, route) = (
        keeper.has_link(&name),
        keeper.route_over(&name).map(str::to_owned),
    );
    drop(keeper);
    match (is_in_file, route) {
        (true, Some(to)) => return Err(OperatorRefusal::LinkRouted(name, to).into()),
        (true, None) => edit(&office, Edit::LinkDelete { name: name.clone() }).await?,
        (false, _) => {
            let command = OperatorCommand::LinkDelete(name.clone());
            office.asker.operate(command).await??;
        }
    }
    Ok(Json(json!({ "link": name })))
}

pub(super) async fn add_listener(State(office): State<Office>, body: Body) -> Answer {
    let hint = r#"for example: {"address": "0.0.0.0:4557", "protocol": "tcpcl"}"#;
    let settings = settings(body, "listener", hint)?;
    let address = text(&settings, "address").unwrap_or_default().to_owned();
    if split_address(&address).is_none() {
        let hint = "addresses look like 0.0.0.0:4556 or [::]:4556";
        return Err(bad(format!("'{address}' is not an address"), hint));
    }
    let add = Edit::ListenAdd { settings };
    if !office.keeper.lock().await.changes_anything(&add) {
        let why = format!("the node listens at {address} already");
        return Err(
            Refusal::new(StatusCode::CONFLICT, why).with_hint("`dhow status` shows the addresses")
        );
    }
    edit(&office, add).await?;
    Ok(Json(json!({ "listener": address })))
}

pub(super) async fn delete_listener(
    State(office): State<Office>,
    Path(address): Path<String>,
) -> Answer {
    let address_of = address.strip_suffix("/udp").unwrap_or(&address).to_owned();
    let delete = Edit::ListenDelete {
        address: address_of,
    };
    if !office.keeper.lock().await.changes_anything(&delete) {
        let why = format!("the node does not listen at {address}");
        return Err(Refusal::new(StatusCode::NOT_FOUND, why)
            .with_hint("an address is named as the node file has it; `dhow status` shows them"));
    }
    edit(&office, delete).await?;
    Ok(Json(json!({ "listener": address })))
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
    fn read(body: Body) -> Result<Self, Refusal> {
        let body = body.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
        serde_json::from_slice(&body).map_err(|error| {
            let hint = r#"for example: {"to": "ipn:4.*", "via": "gamma", "priority": 0}"#;
            bad(format!("the body is not a route: {error}"), hint)
        })
    }
}

pub(super) async fn add_route(State(office): State<Office>, body: Body) -> Answer {
    let RouteBody { to, via, priority } = RouteBody::read(body)?;
    let answer = json!({ "to": to, "via": via, "priority": priority });
    let route = Route {
        to: to.clone(),
        via: via.clone(),
        priority,
    };
    office
        .asker
        .operate(OperatorCommand::RouteAdd(route))
        .await??;
    note(&office, Edit::RouteAdd { to, via, priority }).await;
    Ok(Json(answer))
}

pub(super) async fn delete_route(State(office): State<Office>, body: Body) -> Answer {
    let RouteBody { to, via, .. } = RouteBody::read(body)?;
    let answer = json!({ "to": to, "via": via });
    let command = OperatorCommand::RouteDelete {
        to: to.clone(),
        via: via.clone(),
    };
    office.asker.operate(command).await??;
    note(&office, Edit::RouteDelete { to, via }).await;
    Ok(Json(answer))
}

pub(super) async fn add_contact(State(office): State<Office>, body: Body) -> Answer {
    let hint = r#"for example: {"from": "ipn:2.0", "to": "ipn:3.0", "start": "2026-11-24T06:00:00Z", "end": "2026-11-24T06:12:00Z", "rate": "1Mbit"}"#;
    let settings = settings(body, "contact", hint)?;
    for key in ["start", "end"] {
        if text(&settings, key).is_some_and(|text| text.starts_with('+')) {
            let why = format!("'{key}' must be a time of the calendar");
            return Err(bad(why, hint));
        }
    }
    let answer = Value::Object(settings.clone());
    let add = Edit::ContactAdd { settings };
    let is_new = office.keeper.lock().await.changes_anything(&add);
    if !is_new {
        let why = "a contact of these two nodes that begins then is planned already";
        return Err(
            Refusal::new(StatusCode::CONFLICT, why).with_hint("`dhow contacts` shows the contacts")
        );
    }
    edit(&office, add).await?;
    Ok(Json(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContactBody {
    from: String,
    to: String,
    start: String,
}

pub(super) async fn delete_contact(State(office): State<Office>, body: Body) -> Answer {
    let body = body.map_err(|error| Refusal::new(error.status(), error.body_text()))?;
    let body: ContactBody = serde_json::from_slice(&body).map_err(|error| {
        let hint =
            r#"for example: {"from": "ipn:2.0", "to": "ipn:3.0", "start": "2026-11-24T06:00:00Z"}"#;
        bad(format!("the body names no contact: {error}"), hint)
    })?;
    let ContactBody { from, to, start } = body;
    let answer = json!({ "from": from, "to": to, "start": start });
    let delete = Edit::ContactDelete { from, to, start };
    if !office.keeper.lock().await.changes_anything(&delete) {
        let why = "no such contact is planned by a [[contact]]";
        let hint = "`dhow contacts` shows the contacts; those of a plan go with its [[contact_plan]], or with their lines in it";
        return Err(Refusal::new(StatusCode::NOT_FOUND, why).with_hint(hint));
    }
    edit(&office, delete).await?;
    Ok(Json(answer))
}
