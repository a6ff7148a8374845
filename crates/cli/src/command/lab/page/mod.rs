//! The page of a lab while it runs: progress, the network, contacts, queues, and the last events, to browsers by server-sent events.
//!
//! Start at [`Page`], to which the lab tells what happens; `board` keeps it for readers, `server` serves them, and `waiting` asks nodes for what
//! waits there. It only reads, and nobody who reads makes a run wait.

mod board;
mod server;
mod waiting;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dhow_scenario::Scenario;
use dhow_scenario::scenario::Presence;
use dhow_sim::Run as Simulation;
use dhow_testbed::graph::Layout;
use dhow_testbed::results::{Run as Ran, Status};
use dhow_testbed::run::Standing;
use dhow_testbed::simulated::contacts;
use serde_json::{Value, json};

use self::board::Board;
use self::server::Server;
use self::waiting::Asker;
use crate::command::sim::seeds::Standing as Under;
use crate::failure::{Ending, Failure};

/// The time from one state that is shown to the next.
const SHOW: Duration = Duration::from_millis(250);

/// The least time for which a run in virtual time is shown: many are over at once.
const STAY: Duration = Duration::from_millis(500);

/// Contacts of a run that a page is given, at most.
const CONTACTS_MAX: usize = 4_000;

/// Changes of nodes and links that are told one by one, at each look.
const CHANGES_MAX: usize = 8;

/// Runs under way that are told one by one.
const UNDER_WAY_MAX: usize = 16;

/// Octets of a report that readers are given, at most.
const REPORT_OCTETS: u64 = 64 << 20;

/// The longest time for which readers are waited for once the lab has ended, so that they have the report.
const FAREWELL: Duration = Duration::from_secs(2);

/// A page that is served until it is dropped.
#[derive(Debug)]
pub struct Page {
    board: Arc<Board>,
    asker: Asker,
    told: Mutex<Told>,
    begun: Instant,
    server: Server,
}

/// The news of the lab so far.
#[derive(Debug, Default)]
struct Told {
    study: String,
    planned: usize,
    done: usize,
    failed: usize,
    /// Runs that ended since the study began here, for an estimate of the time left.
    ended_here: usize,
    study_begun: Option<Instant>,
    under_way: Vec<Value>,
    /// The run that is shown, and since when.
    shown: Option<(String, Instant)>,
    /// The names of its nodes and links, and which of them were up at the last look.
    names: (Vec<String>, Vec<String>),
    up: (Vec<bool>, Vec<bool>),
    /// Its state.
    run: Value,
    looked: Option<Instant>,
}

/// The network at a moment, of either backend.
struct Look {
    time: Duration,
    delivered: u64,
    total: Option<u64>,
    /// Up, and what waits.
    nodes: Vec<(bool, Option<(u64, u64)>)>,
    /// Up, and octets in each direction.
    links: Vec<(bool, [u64; 2])>,
}

impl Page {
    /// Serves the page at an address.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub fn start(address: SocketAddr) -> Result<Self, Failure> {
        let board = Arc::new(Board::default());
        let server = Server::start(address, &board).map_err(|error| {
            Failure::refused(format!("cannot serve the page at {address}: {error}"))
                .with_hint("--page 127.0.0.1:0 takes a port that is free")
        })?;
        Ok(Self {
            asker: Asker::start(&board),
            board,
            told: Mutex::default(),
            begun: Instant::now(),
            server,
        })
    }

    /// The URLs at which it can be opened, one behind the other.
    pub fn places(&self) -> String {
        let places = self.server.reach().into_iter();
        let places: Vec<String> = places.map(|place| format!("http://{place}/")).collect();
        places.join(", ")
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A study begins, of which so many runs are planned and so many are done already.
    pub fn study(&self, name: &str, planned: usize, done: usize) {
        let mut told = self.told();
        *told = Told {
            study: name.to_owned(),
            planned,
            done,
            study_begun: Some(Instant::now()),
            ..Told::default()
        };
        self.board.now(&told.state(self.begun));
    }

    /// A run is shown from now on.
    pub fn begin(&self, run: &str, set: &str, scenario: &Scenario) {
        let mut told = self.told();
        self.show(&mut told, run, set, scenario);
        told.under_way =
            vec![json!({"run": run, "set": set, "time_ms": 0, "end_ms": millis(scenario.stop.at)})];
        let words = format!("run {run} begins{}", behind(set));
        self.event(None, "run", &words);
        self.board.now(&told.state(self.begun));
    }

    fn show(&self, told: &mut Told, run: &str, set: &str, scenario: &Scenario) {
        told.shown = Some((run.to_owned(), Instant::now()));
        told.names = (
            scenario.nodes.iter().map(|it| it.name.clone()).collect(),
            scenario.links.iter().map(|it| it.name.clone()).collect(),
        );
        told.up = (Vec::new(), Vec::new());
        told.run = Value::Null;
        self.board.plan(&plan(run, set, scenario).to_string());
    }

    /// Shows how a run on sockets is.
    pub fn look(&self, standing: &Standing) {
        let mut told = self.told();
        if !told.is_due() {
            return;
        }
        let waiting = self.asker.of(&standing.apis);
        let nodes = standing.nodes.iter().enumerate();
        let octets = |at: usize| standing.octets.get(at).copied().unwrap_or_default();
        let links = standing.links.iter().enumerate();
        let look = Look {
            time: standing.time,
            delivered: standing.delivered,
            total: standing.total,
            nodes: nodes
                .map(|(at, up)| (*up, waiting.get(at).copied().flatten()))
                .collect(),
            links: links.map(|(at, up)| (*up, octets(at))).collect(),
        };
        self.looked(&mut told, &look);
        if let Some(first) = told.under_way.first_mut() {
            first["time_ms"] = json!(millis(standing.time));
        }
        self.board.now(&told.state(self.begun));
    }

    /// Shows how a run in virtual time is, if it is the one that is shown or there is room for another; nobody need look at it otherwise.
    pub fn look_into(&self, run: &str, set: &str, scenario: &Scenario, simulation: &Simulation) {
        if !self.board.is_read() {
            return;
        }
        let mut told = self.told();
        let is_shown = told.shown.as_ref().is_some_and(|(shown, _)| shown == run);
        if !is_shown {
            let stays = told.shown.as_ref().is_some_and(|(shown, since)| {
                let is_under_way = told.under_way.iter().any(|it| it["run"] == shown.as_str());
                is_under_way || since.elapsed() < STAY
            });
            if stays {
                return;
            }
            self.show(&mut told, run, set, scenario);
        } else if !told.is_due() {
            return;
        }
        let (glance, progress) = (simulation.glance(), simulation.progress());
        let nodes = glance.nodes.iter();
        let links = glance.links.iter();
        let look = Look {
            time: progress.time,
            delivered: progress.delivered,
            total: None,
            nodes: nodes
                .map(|it| (it.is_up, Some((it.bundles, it.octets))))
                .collect(),
            links: links
                .map(|it| (it.is_up, [it.octets.0, it.octets.1]))
                .collect(),
        };
        self.looked(&mut told, &look);
        self.board.now(&told.state(self.begun));
    }

    /// Shows how far runs in virtual time are; `named` has a run's name, settings and end, by its number among those to be run.
    pub fn under_way(
        &self,
        standing: &Under,
        named: &dyn Fn(u64) -> Option<(String, String, Duration)>,
    ) {
        if !self.board.is_read() {
            return;
        }
        let mut told = self.told();
        let runs = standing.under_way.iter().take(UNDER_WAY_MAX);
        let runs = runs.filter_map(|(number, progress)| {
            let (run, set, end) = named(*number)?;
            Some(json!({"run": run, "set": set, "time_ms": millis(progress.time), "end_ms": millis(end)}))
        });
        told.under_way = runs.collect();
        self.board.now(&told.state(self.begun));
    }

    /// The changes since the look before, and the state that is shown next.
    fn looked(&self, told: &mut Told, look: &Look) {
        let up: (Vec<bool>, Vec<bool>) = (
            look.nodes.iter().map(|it| it.0).collect(),
            look.links.iter().map(|it| it.0).collect(),
        );
        let kinds = [
            ("node", &told.names.0, &told.up.0, &up.0),
            ("link", &told.names.1, &told.up.1, &up.1),
        ];
        for (kind, names, old, new) in kinds {
            let changes = names.iter().zip(old.iter().zip(new));
            let changes: Vec<_> = changes.filter(|(_, (old, new))| old != new).collect();
            for (name, (_, is_up)) in changes.iter().take(CHANGES_MAX) {
                let state = if **is_up { "up" } else { "down" };
                self.event(Some(look.time), kind, &format!("{kind} {name} is {state}"));
            }
            if let Some(more) = changes.len().checked_sub(CHANGES_MAX).filter(|it| *it > 0) {
                self.event(
                    Some(look.time),
                    kind,
                    &format!("and {more} more {kind}s changed"),
                );
            }
        }
        told.up = up;
        told.looked = Some(Instant::now());
        told.run = json!({
            "time_ms": millis(look.time),
            "delivered": look.delivered,
            "total": look.total,
            "nodes": look.nodes.iter().map(|(up, waiting)| {
                json!([up, waiting.map(|it| it.0), waiting.map(|it| it.1)])
            }).collect::<Vec<_>>(),
            "links": look.links.iter().map(|(up, octets)| json!([up, octets[0], octets[1]])).collect::<Vec<_>>(),
        });
    }

    /// A run has ended.
    pub fn ran(&self, ran: &Ran) {
        let mut told = self.told();
        told.ended_here += 1;
        match ran.status {
            Status::Done => told.done += 1,
            Status::Failed(_) => told.failed += 1,
            Status::Interrupted => {}
        }
        told.under_way.retain(|it| it["run"] != ran.run.as_str());
        let words = format!(
            "run {} {}{}; {} of {} payloads delivered",
            ran.run,
            ran.status,
            behind(&ran.point.to_string()),
            ran.delivered,
            ran.sent
        );
        let kind = match ran.status {
            Status::Done => "run",
            _ => "failed",
        };
        self.event(None, kind, &words);
        self.board.now(&told.state(self.begun));
    }

    fn event(&self, time: Option<Duration>, kind: &str, words: &str) {
        let event = json!({"time_ms": time.map(millis), "kind": kind, "words": words});
        self.board.event(&event.to_string());
    }

    /// The lab has ended: readers get the report, and are waited for a moment.
    pub fn end(self, ending: Ending, results: &Path, report: Option<&Path>) {
        let words = match ending {
            Ending::Done => "The lab has ended: all runs are done.",
            Ending::Interrupted => "The lab was interrupted.",
            Ending::Incomplete | Ending::AsInside(_) => "The lab has ended, and a run failed.",
        };
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let report = report.map(whole);
        let text = report
            .as_ref()
            .filter(|path| fs::metadata(path).is_ok_and(|it| it.len() <= REPORT_OCTETS));
        let text = text.and_then(|path| fs::read(path).ok());
        let mut told = self.told();
        told.under_way.clear();
        self.board.now(&told.state(self.begun));
        drop(told);
        let ended = json!({
            "words": words,
            "results": whole(results).display().to_string(),
            "report": report.map(|path| path.display().to_string()),
            "has_report": text.is_some(),
        });
        self.board.end(&ended.to_string(), text);
        self.board.close(FAREWELL);
    }
}

impl Told {
    fn is_due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= SHOW)
    }

    /// All that is shown of a moment.
    fn state(&self, begun: Instant) -> String {
        let left = self.planned.saturating_sub(self.done + self.failed);
        let left_ms = self
            .study_begun
            .filter(|_| self.ended_here > 0)
            .map(|study| {
                let each = study.elapsed().as_secs_f64()
                    / f64::from(u32::try_from(self.ended_here).unwrap_or(u32::MAX));
                let left = each * f64::from(u32::try_from(left).unwrap_or(u32::MAX));
                Duration::try_from_secs_f64(left).map_or(u64::MAX, millis)
            });
        let shown = self.shown.as_ref().map(|(run, _)| run);
        let state = json!({
            "study": self.study,
            "planned": self.planned,
            "done": self.done,
            "failed": self.failed,
            "elapsed_ms": millis(begun.elapsed()),
            "left_ms": left_ms,
            "under_way": self.under_way,
            "shown": shown,
            "run": self.run,
        });
        state.to_string()
    }
}

/// The part of a run that does not change: its network, and when links come and go.
fn plan(run: &str, set: &str, scenario: &Scenario) -> Value {
    let layout = Layout::of(scenario);
    let nodes = scenario.nodes.iter().enumerate().map(|(at, node)| {
        let (x, y) = layout.place(at);
        json!({"name": node.name, "x": x.round(), "y": y.round()})
    });
    let links = scenario.links.iter().map(|link| {
        json!({
            "name": link.name,
            "a": link.between.0.0,
            "b": link.between.1.0,
            "planned": link.presence == Presence::Planned,
        })
    });
    let all = contacts(scenario, scenario.stop.at);
    let place = |name: &str| scenario.links.iter().position(|link| link.name == name);
    let told = all.iter().take(CONTACTS_MAX).filter_map(|contact| {
        let ms = |time: f64| millis(Duration::try_from_secs_f64(time).unwrap_or_default());
        Some(json!([
            place(&contact.link)?,
            ms(contact.start_s),
            ms(contact.end_s)
        ]))
    });
    json!({
        "run": run,
        "set": set,
        "end_ms": millis(scenario.stop.at),
        "height": layout.size().1.round(),
        "nodes": nodes.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "contacts": told.collect::<Vec<_>>(),
        "more_contacts": all.len().saturating_sub(CONTACTS_MAX),
    })
}

/// Settings, behind other words.
fn behind(set: &str) -> String {
    match set {
        "" => String::new(),
        set => format!(" ({set})"),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
