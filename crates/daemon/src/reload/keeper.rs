//! The keeper of a running node's configuration: the file as it was read, the changes since, and the settings that run.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use dhow_bundle::DtnTime;
use dhow_document::FileError;
use dhow_node::config::ListenerId;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::comparison::{Comparison, Listener};
use super::desired::{Contacts, Desired, Texts, document};
use super::edit::{Edit, Settings, link_settings};
use super::taking_up::Plan;
use crate::admin::ask::Asker;
use crate::admin::live::Live;
use crate::admin::refusal::Refusal;
use crate::config::NodeFile;
use crate::config::file::TlsSettings;
use crate::datagrams::seal::Keys;
use crate::logging;
use crate::service_manager;
use crate::streams::tls::Tls;

/// Changes that an operator makes at run time and that are not in the node file, at most.
const EDITS_BOUND: usize = 10_000;

/// The keeper, one change at a time.
pub type Shared = Arc<Mutex<Keeper>>;

/// The configuration of a running node.
pub struct Keeper {
    asker: Asker,
    live: Live,
    path: PathBuf,
    start: DtnTime,
    started: Arc<str>,
    /// The file's text when it was read last.
    loaded: Arc<str>,
    edits: Vec<Edit>,
    running: NodeFile,
    running_text: Arc<str>,
    listeners: Vec<Listener>,
    needs_restart: Vec<String>,
    /// The octets of the files of the identity under TLS.
    identity: Vec<Vec<u8>>,
}

impl Keeper {
    /// The keeper of a node that runs by a file.
    #[must_use]
    pub fn new(file: &NodeFile, asker: Asker, live: Live) -> Self {
        let listeners = file.listen.iter().zip(&file.node.listeners);
        let listeners = (0..).map(ListenerId).zip(listeners);
        Self {
            asker,
            live,
            path: file.path.clone(),
            start: file.source.start,
            started: Arc::clone(&file.source.text),
            loaded: Arc::clone(&file.source.text),
            edits: Vec::new(),
            running: file.clone(),
            running_text: Arc::clone(&file.source.text),
            listeners: listeners
                .map(|(id, (settings, config))| Listener {
                    id,
                    settings: settings.clone(),
                    config: config.clone(),
                })
                .collect(),
            needs_restart: Vec::new(),
            identity: identity_octets(file.tls.as_ref()),
        }
    }

    /// Reads the node file again and takes up what differs.
    ///
    /// # Errors
    /// When the file cannot be read or taken up: all is as before.
    pub async fn reload(&mut self) -> Result<Value, Refusal> {
        service_manager::say_reloading();
        let outcome = self.read_again().await;
        let node = self.running.node.node_ids.first();
        service_manager::say_ready(&node.map(ToString::to_string).unwrap_or_default());
        match &outcome {
            Ok(taken) => {
                tracing::info!(config = %self.path.display(), "reloaded: {}", brief(taken))
            }
            Err(refusal) => tracing::error!("not reloaded: {refusal}"),
        }
        outcome
    }

    async fn read_again(&mut self) -> Result<Value, Refusal> {
        let (loaded, desired) = self.fresh().await?;
        let (comparison, mut answer) = self.compare(&desired);
        let identity = self.identity_of(&desired).await?;
        let is_other = identity.is_some();
        let tls = identity.as_ref().and_then(|it| it.1.clone());
        let octets = identity.map(|it| it.0);
        if is_other {
            note_tls(&mut answer);
        }
        let ends = tls.as_ref().and_then(Tls::ends);
        self.take_up(comparison, desired, is_other.then_some(tls))
            .await?;
        self.loaded = loaded.into();
        if let Some(octets) = octets {
            self.identity = octets;
            self.live.change(|facts| facts.certificate_ends = ends);
        }
        Ok(answer)
    }

    /// Changes that a reload would take up, and those that were made at run time.
    ///
    /// # Errors
    /// When the file cannot be read or taken up.
    pub async fn difference(&self) -> Result<Value, Refusal> {
        let (_, desired) = self.fresh().await?;
        let (_, mut answer) = self.compare(&desired);
        if let Some((_, _)) = self.identity_of(&desired).await? {
            note_tls(&mut answer);
        }
        Ok(answer)
    }

    /// The changes at run time that the file as it was read last does not have, for the command that writes them into it.
    #[must_use]
    pub fn edits(&self) -> Value {
        let (config, edits) = (self.path.display().to_string(), &self.edits);
        let path = std::path::absolute(&self.path).map(|path| path.display().to_string());
        json!({ "config": path.unwrap_or(config), "edits": edits, "start_dtn_ms": self.start.as_millis() })
    }

    /// Makes a change at run time.
    ///
    /// # Errors
    /// When it is not possible: all is as before.
    pub async fn edit(&mut self, edit: Edit) -> Result<(), Refusal> {
        let contacts = match &edit {
            Edit::ContactAdd { .. } | Edit::ContactDelete { .. } => Contacts::Read,
            _ => self.contacts(),
        };
        let added = match &edit {
            Edit::LinkAdd { settings } => settings.get("name").and_then(Value::as_str),
            _ => None,
        };
        let added = added.map(str::to_owned);
        let edits = self.with(edit)?;
        let known = (contacts, self.running.keys());
        let desired = self.compose(Arc::clone(&self.loaded), edits, known);
        let mut desired = desired.await.map_err(refused)?;
        if let Some(name) = added {
            let path = self.path.clone();
            let check = tokio::task::spawn_blocking(move || {
                let checked = desired.file.check_key_of_link(&desired.text, &path, &name);
                (desired, checked)
            });
            let (composed, checked) = check.await.map_err(|_| Refusal::of_node("the key"))?;
            checked.map_err(refused)?;
            desired = composed;
        }
        let (comparison, _) = self.compare(&desired);
        self.take_up(comparison, desired, None).await
    }

    /// Keeps in mind a change that the node has made already, so that it outlasts a reload. One that no node file can have is not kept.
    pub async fn note(&mut self, edit: Edit) {
        let Ok(edits) = self.with(edit) else {
            return;
        };
        let known = (self.contacts(), self.running.keys());
        let desired = self.compose(Arc::clone(&self.loaded), edits, known);
        if let Ok(desired) = desired.await {
            self.adopt(desired);
        }
    }

    /// The settings of a link that runs, as a node file has them; none where no file has the link.
    #[must_use]
    pub fn link_settings(&self, name: &str) -> Option<Settings> {
        link_settings(&document(&self.running_text, &self.path).ok()?, name)
    }

    /// Whether the configuration that runs has a link.
    #[must_use]
    pub fn has_link(&self, name: &str) -> bool {
        self.running.node.links.iter().any(|link| link.name == name)
    }

    /// The pattern of a configured route over a link.
    #[must_use]
    pub fn route_over(&self, name: &str) -> Option<&str> {
        let mut routes = self.running.node.routes.iter();
        let route = routes.find(|route| route.via == name)?;
        Some(&route.to)
    }

    /// Whether the configuration that runs has a listener of an edit.
    pub fn changes_anything(&self, edit: &Edit) -> bool {
        let document = document(&self.running_text, &self.path);
        document.is_ok_and(|mut document| {
            edit.apply(&mut document, self.start) == super::edit::Effect::Changed
        })
    }

    fn contacts(&self) -> Contacts {
        Contacts::Known(self.running.node.contacts.clone())
    }

    /// The edits and one more.
    fn with(&self, edit: Edit) -> Result<Vec<Edit>, Refusal> {
        let mut edits = self.edits.clone();
        edits.retain(|earlier| !earlier.is_undone_by(&edit, self.start));
        if edits.len() >= EDITS_BOUND {
            let what = format!(
                "{EDITS_BOUND} changes at run time are not in the node file: no more are accepted"
            );
            return Err(Refusal::new(StatusCode::CONFLICT, what)
                .with_hint("`dhow reload --save` writes them into it"));
        }
        edits.push(edit);
        Ok(edits)
    }

    /// The file's text now, and what is desired by it.
    async fn fresh(&self) -> Result<(String, Desired), Refusal> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || {
            // A pipe, as a shell may have given one, has been read, and says nothing more.
            match std::fs::metadata(&path) {
                Ok(found) if !found.is_file() => Err(FileError::of_file(&path, "it is no file")
                    .with_hint("a node reloads a file that stays: name one with --config")),
                _ => NodeFile::text(&path),
            }
        });
        let text = read.await.map_err(|_| Refusal::of_node("the file"))?;
        let text = text.map_err(|error| unread(&error))?;
        let known = (Contacts::Read, Keys::new());
        let desired = self.compose(text.as_str().into(), self.edits.clone(), known);
        let desired = desired.await.map_err(|error| unread(&error))?;
        desired.file.check_keys().map_err(|error| unread(&error))?;
        Ok((text, desired))
    }

    /// The desired state by a text and edits. A long contact plan takes its time, which is not that of the thread that serves others.
    fn compose(
        &self,
        loaded: Arc<str>,
        edits: Vec<Edit>,
        (contacts, keys): (Contacts, Keys),
    ) -> impl Future<Output = Result<Desired, FileError>> + use<> {
        let (path, started, start) = (self.path.clone(), Arc::clone(&self.started), self.start);
        async move {
            let file = path.clone();
            let work = tokio::task::spawn_blocking(move || {
                let texts = Texts {
                    path: &path,
                    started: &started,
                    loaded: &loaded,
                    start,
                    keys: &keys,
                };
                Desired::compose(texts, &edits, contacts)
            });
            let failed = |_| FileError::of_file(&file, "reading it failed");
            work.await.map_err(failed)?
        }
    }

    fn compare(&self, desired: &Desired) -> (Comparison, Value) {
        let running = (
            &self.running,
            self.running_text.as_ref(),
            self.edits.as_slice(),
        );
        let comparison = Comparison::of(running, &self.listeners, desired);
        let run_time = desired.edits.iter();
        let run_time = run_time.map(|it| json!({ "what": it.what(), "change": it.change() }));
        let answer = json!({
            "config": self.path.display().to_string(),
            "added": comparison.summary.added,
            "removed": comparison.summary.removed,
            "changed": comparison.summary.changed,
            "needs_restart": desired.needs_restart,
            "run_time": run_time.collect::<Vec<_>>(),
        });
        (comparison, answer)
    }

    /// Another identity under TLS, where its files have other octets; with these octets.
    async fn identity_of(
        &self,
        desired: &Desired,
    ) -> Result<Option<(Vec<Vec<u8>>, Option<Tls>)>, Refusal> {
        let settings = desired.file.tls.clone();
        let read = tokio::task::spawn_blocking(move || {
            let octets = identity_octets(settings.as_ref());
            (octets, settings.as_ref().map(Tls::load).transpose())
        });
        let (octets, tls) = read.await.map_err(|_| Refusal::of_node("the identity"))?;
        let tls =
            tls.map_err(|error| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
        let is_same = octets == self.identity && desired.file.tls == self.running.tls;
        Ok((!is_same).then_some((octets, tls)))
    }

    async fn take_up(
        &mut self,
        comparison: Comparison,
        desired: Desired,
        identity: Option<Option<Tls>>,
    ) -> Result<(), Refusal> {
        let listeners = comparison.listeners.clone();
        let plan = Plan {
            comparison,
            listen: desired.file.listen.clone(),
            identity,
        };
        let addresses = self.asker.take_up(plan).await??;
        self.listeners = listeners;
        if desired.file.log != self.running.log {
            logging::change(&desired.file.log);
        }
        self.live.change(|facts| {
            facts.listen = addresses;
            let admin = desired.file.admin.as_ref();
            facts.admin_token = admin.map(|it| it.token.clone()).unwrap_or_default();
            let http = desired.file.http.as_ref();
            facts.tokens = http.map(|it| it.tokens.clone()).unwrap_or_default().into();
        });
        self.adopt(desired);
        Ok(())
    }

    fn adopt(&mut self, desired: Desired) {
        let Desired {
            file,
            text,
            needs_restart,
            edits,
        } = desired;
        self.running = file;
        self.running_text = text.into();
        self.needs_restart = needs_restart;
        self.edits = edits;
    }
}

/// The octets of the files of an identity; none of one that is not there.
fn identity_octets(settings: Option<&TlsSettings>) -> Vec<Vec<u8>> {
    let files = settings.into_iter().flat_map(|settings| {
        let own = [&settings.certificate, &settings.key];
        own.into_iter().chain(&settings.authorities)
    });
    files
        .map(|path| std::fs::read(path).unwrap_or_default())
        .collect()
}

fn note_tls(answer: &mut Value) {
    if let Some(changed) = answer.get_mut("changed").and_then(Value::as_array_mut) {
        changed.push(json!({ "what": "tls", "name": "identity" }));
    }
}

/// The numbers of an answer, for the log.
fn brief(answer: &Value) -> String {
    let count = |key: &str| {
        answer
            .get(key)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    let (added, removed, changed) = (count("added"), count("removed"), count("changed"));
    let counts = format!("{added} added, {removed} removed, {changed} changed");
    let restart = answer.get("needs_restart").and_then(Value::as_array);
    let restart: Vec<&str> = restart
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match restart.is_empty() {
        true => counts,
        false => format!("{counts}; {} need a restart", restart.join(", ")),
    }
}

/// The refusal of an edit with which the file would be wrong.
fn refused(error: FileError) -> Refusal {
    let refusal = Refusal::new(StatusCode::BAD_REQUEST, error.what);
    match error.hint {
        Some(hint) => refusal.with_hint(hint),
        None => refusal,
    }
}

fn unread(error: &FileError) -> Refusal {
    let what = format!("cannot read the configuration: {error}");
    let refusal = Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, what);
    match &error.hint {
        Some(hint) => refusal.with_hint(hint),
        None => refusal,
    }
}
