//! One node's life: open the store, bind everything, be ready, work, and end in order.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dhow_bundle::storage::StoreEvent;
use dhow_measure::client::ClientError;
use dhow_node::Node;
use dhow_node::driver::{Event, Telling};
use dhow_node::recording::Recorder;
use dhow_store::{
    Disk, Durability, FileDisk, History, MemoryDisk, OpenError, Options, Origin, Recovered, Store,
};
use serde::Serialize;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinSet, LocalSet};

use crate::admin::ask;
use crate::admin::serving::{facts, start_admin};
use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::config::NodeFile;
use crate::config::file::{DurabilitySetting, StoreSettings, default_segment_octets};
use crate::config::socket::PATH_OCTETS_MAX;
use crate::contact::Flushing;
use crate::core::Core;
use crate::datagrams::port::Ports;
use crate::discovering::{self, Advertised, Discovering};
use crate::ending::drain;
use crate::extents::ExtentReader;
use crate::file_size::{self, TooSmallFiles};
use crate::http::events::Events;
use crate::journal::{self, Journal};
use crate::measuring::{MeasureSettings, Measuring};
use crate::network;
use crate::open_files::{self, TooFewFiles};
use crate::opening::{self, OPENING_SHARE, TooLittleMemory};
use crate::pressure;
use crate::reading::{Answered, Reads};
use crate::recording::{Recording, RecordingOrder};
use crate::reload::keeper::{Keeper, Shared};
use crate::reload::taking_up::Switchboard;
use crate::service_manager;
use crate::signals::{Hangups, Signals};
use crate::slow_disk::SlowDisk;
use crate::storing::{Answers, StoreThread};
use crate::streams::accept::{ClientListener, Places, accept_clients, accept_programs};
use crate::streams::bound::Bound;
use crate::streams::carrier::Carriers;
use crate::streams::dial::{DialTable, Means, dial_on_demand};
use crate::streams::listener::ListenError;
use crate::streams::listeners::{Identity, Listeners, addresses};
use crate::streams::tls::{Tls, TlsError};
use crate::streams::worker::Workers;
use crate::telemetry::{self, TelemetrySettings};

/// The program's name and version in a recording.
const PROGRAM: &str = concat!("dhow ", env!("CARGO_PKG_VERSION"));

/// A node that is ready: its message to the program that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ready {
    /// Always `ready`.
    pub event: &'static str,
    /// The node's first ID.
    pub node: String,
    /// Addresses on which it accepts neighbours, with their actual ports.
    pub listen: Vec<String>,
    /// The Unix socket for applications.
    pub api: String,
}

impl Ready {
    /// The facts as one line of JSON, without its end.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Segments that a log has beside a quarter more than its quota, about (docs/store-format.md 7).
const LOG_SEGMENTS_BESIDE: u64 = 6;

/// Connections of programs that are a part of the node, at a time.
const PROGRAMS_MAX: usize = 64;

/// Bundles of the store that the node is told of at one instant: reading a clock takes as long as hearing of a bundle.
const BUNDLES_AN_INSTANT: u64 = 64;

/// Why a node did not run, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store's directory cannot be used.
    #[error("{0}")]
    StoreDirectory(#[from] dhow_store::LockError),
    /// The store cannot be opened.
    #[error("cannot open the store in {}: {error}", path.display())]
    Store {
        /// Its directory.
        path: PathBuf,
        /// The reason.
        error: OpenError,
    },
    /// The node may not take the memory that the store's index needs.
    #[error(transparent)]
    Memory(#[from] TooLittleMemory),
    /// Files may not be as large as the store's log becomes.
    #[error(transparent)]
    FileSize(#[from] TooSmallFiles),
    /// Too few files may be open.
    #[error(transparent)]
    OpenFiles(#[from] TooFewFiles),
    /// An address or socket cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The TLS identity cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No recording can be made.
    #[error("cannot record into {}: {error}", path.display())]
    Recording {
        /// Its file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// Nothing can be measured.
    #[error("cannot measure: {0}")]
    Measure(#[from] ClientError),
    /// The system gave no thread, runtime or signal.
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
    /// The store's thread ended by itself.
    #[error("the store's thread failed")]
    StoreThread,
}

impl RunError {
    /// A way to mend the fault.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::StoreDirectory(dhow_store::LockError::InUse { .. }) => {
                Some("each node needs a store of its own")
            }
            Self::Store {
                error: OpenError::NewerVersion { .. },
                ..
            } => Some("run the newer program, or give this node another [store] path"),
            Self::StoreDirectory(dhow_store::LockError::System { error, .. })
                if is_no_directory(error) =>
            {
                Some("[store] path is a directory, which is made when it is missing")
            }
            Self::Store {
                error: OpenError::Damaged,
                ..
            } => Some(
                "keep the directory for whoever may mend it, and give this node another [store] path",
            ),
            Self::Memory(_) => Some(TooLittleMemory::HINT),
            Self::FileSize(_) => Some(TooSmallFiles::HINT),
            Self::OpenFiles(_) => Some(TooFewFiles::HINT),
            Self::Listen(error) => error.hint(),
            Self::Recording { error, .. } if error.kind() == ErrorKind::AlreadyExists => {
                Some("no recording is overwritten: name another file, or remove this one")
            }
            _ => None,
        }
    }

    /// True where the node file, or a file that it names, is wrong; false where the machine is in the way.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Tls(_) => true,
            Self::StoreDirectory(dhow_store::LockError::System { error, .. }) => {
                is_no_directory(error)
            }
            Self::Listen(error) => error.is_configuration(),
            _ => false,
        }
    }
}

/// Whether a path leads to or through a file that is no directory.
fn is_no_directory(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotADirectory | std::io::ErrorKind::AlreadyExists
    )
}

/// Run a node until SIGTERM or SIGINT, then end it in order; SIGHUP has it read its file again. `on_ready` is called once, when everything
/// is bound and the store's bundles are known. With `record`, all events and actions of the node are written into a file.
///
/// # Errors
/// When the node cannot start, or its store's thread fails.
pub fn run(
    file: NodeFile,
    record: Option<RecordingOrder>,
    on_ready: impl FnOnce(Ready),
) -> Result<(), RunError> {
    run_until(file, record, on_ready, std::future::pending())
}

/// As [`run`], and end also when `stop` completes.
///
/// # Errors
/// As with [`run`].
pub fn run_until(
    file: NodeFile,
    record: Option<RecordingOrder>,
    on_ready: impl FnOnce(Ready),
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    open_files::allow(open_files::dialled(&file.node))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, live(file, record, on_ready, stop))
}

async fn live(
    mut file: NodeFile,
    record: Option<RecordingOrder>,
    on_ready: impl FnOnce(Ready),
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let (mut signals, hangups) = Signals::watch()?;
    let tls = file.tls.as_ref().map(Tls::load).transpose()?;
    let clock = Clock::start(file.clock);
    file.node.seed = random_seed();
    let mut recording = record.map(begin_recording).transpose()?;
    let buffers = buffers(&file);
    let (mut store, node) = recover(&file, clock, recording.as_mut(), &buffers)?;
    let mut told = Vec::new();
    store.tell_capacity(&mut told);
    let bound = Bound::bind(&file)?;
    let queue_octets = file.node.store_queue_octets;
    let reader = ExtentReader::new(store.reader()).with_spare_octets(queue_octets);
    let workers = match file.threads {
        0 | 1 => None,
        threads => Some(Workers::start(threads - 1, &reader, &buffers)?),
    };
    let store = match file.store.durability {
        DurabilitySetting::Memory if file.store.flush_delay.is_zero() => {
            StoreThread::here(store, clock, flushing(&file))
        }
        _ => StoreThread::start(store, clock, flushing(&file))?,
    };
    let answers = store.answers();
    let links = file.node.links.iter().map(|link| link.name.clone());
    let events = Events::default();
    let journal = Journal::new(links.collect()).with_events(events.clone());
    let spare = reader.clone();
    let (reads, read) = Reads::start(reader.clone())?;
    let core = Core::new(node, clock, store, (reader, reads), journal, buffers);
    core.unwritten.set_bound(file.memory.client_octets);
    if let Some(workers) = workers {
        core.employ(workers);
    }
    if let Some(recording) = recording {
        core.record(recording);
    }
    if let Some(settings) = &file.measure {
        let measuring = Measuring::begin(settings, &file.api_socket)?;
        if let Some(meter) = measuring.commits() {
            answers.measure_commits(meter);
        }
        core.audience(|audience| audience.measuring = Some(measuring));
    }
    core.handle_answers(&mut told);
    let ready = Ready {
        event: "ready",
        node: file
            .node
            .node_ids
            .first()
            .map(ToString::to_string)
            .unwrap_or_default(),
        listen: addresses(&bound.neighbours),
        api: shown_socket(&file.api_socket),
    };
    let (asker, asked) = ask::channel();
    let facts = facts(&file, &ready, &bound, tls.as_ref());
    let live = facts.live.clone();
    let mut standing = JoinSet::new();
    telemetry::begin(&file, &core, (answers.clone(), live), &mut standing)?;
    let places = open_files::share(open_files::dialled(&file.node));
    let keeper = Keeper::new(&file, asker.clone(), facts.live.clone());
    let keeper = Arc::new(tokio::sync::Mutex::new(keeper));
    let office = (asker, Arc::clone(&keeper), answers.clone());
    let admin = start_admin(&file, facts, bound.admin, office, events, places.operators)?;
    let found = file.discover.iter().map(|it| it.dial.clone()).collect();
    let links = DialTable::new(file.dial.clone(), found);
    let carriers = Rc::new(Carriers::default());
    standing.spawn_local(network::watch(core.clone(), Rc::clone(&carriers)));
    standing.spawn_local({
        let core = core.clone();
        async move { core.keep_time().await }
    });
    standing.spawn_local(pressure::watch(core.clone(), answers.clone(), spare));
    if let Some(settings) = &file.measure {
        standing.spawn_local(measure_counters(
            core.clone(),
            answers.clone(),
            settings.interval,
        ));
    }
    let ports = Ports::new(core.clone(), Rc::clone(&carriers));
    let identity: Identity = Rc::new(RefCell::new(tls));
    let means = Means {
        places: Places::new(places.links),
        found: Places::new(places.found),
        identity: Rc::clone(&identity),
        carriers,
        ports: Rc::clone(&ports),
    };
    standing.spawn_local(dial_on_demand(core.clone(), links.clone(), means));
    let listeners = Listeners::new(
        core.clone(),
        Places::new(places.neighbours),
        Rc::clone(&identity),
        ports,
    );
    let listeners = Rc::new(listeners);
    let beacons = beacons(&file, Rc::clone(&listeners.advertised));
    for listener in bound.neighbours {
        listeners.open(listener);
    }
    standing.spawn_local(discovering::run(core.clone(), beacons));
    let switchboard = Switchboard {
        core: core.clone(),
        dials: links,
        listeners: Rc::clone(&listeners),
        identity,
    };
    standing.spawn_local(asked.answer(switchboard));
    standing.spawn_local(reload_on_hangup(hangups, keeper));
    if let Some(programs) = bound.programs {
        let places = Places::new(PROGRAMS_MAX);
        standing.spawn_local(accept_programs(core.clone(), programs, places));
    }
    let mut accepting = accept(&core, places, bound.clients);
    let counts = answers.clone();
    let mut storing = tokio::task::spawn_local(hear_store(core.clone(), answers));
    standing.spawn_local(hear_reads(core.clone(), read));
    tracing::info!(node = ready.node, listen = ?ready.listen, "ready");
    service_manager::say_ready(&ready.node);
    standing.spawn_local(service_manager::give_signs_of_life(core.clone()));
    on_ready(ready);
    let ended = tokio::select! {
        () = signals.next() => Ok(()),
        () = stop => Ok(()),
        _ = &mut storing => Err(RunError::StoreThread),
    };
    service_manager::say_stopping();
    if file.measure.is_some_and(|it| it.reports.is_some()) {
        // The last report is a bundle like all others, so the node that makes it and stores it must not have ended. One that
        // stores nothing any more makes none.
        core.measure_counters(counts.counts());
        let can_report = ended.is_ok();
        if let Some(measuring) = core.audience(|it| it.measuring.take()) {
            let end = move || match can_report {
                true => measuring.finish(),
                false => measuring.leave(),
            };
            let _ = tokio::task::spawn_blocking(end).await;
        }
    }
    accepting.abort_all();
    listeners.close_all();
    if ended.is_ok() {
        drain(&core, &counts, &mut signals).await;
    }
    drop(admin);
    core.close_store();
    if ended.is_ok() {
        // The last answers of the store are known to the node, recorded and measured like all before.
        let _ = storing.await;
    }
    core.finish_recording();
    core.measure_counters(counts.counts());
    // A collector that is away is waited for with nothing left that could be lost meanwhile.
    if let Some(measuring) = core.audience(|it| it.measuring.take()) {
        measuring.finish();
    }
    if let Some(telemetry) = core.audience(|it| it.telemetry.take()) {
        telemetry.finish();
    }
    drop(bound.files);
    tracing::info!("ended");
    ended
}

/// The parts of beacons, where the node file has places of discovery.
fn beacons(file: &NodeFile, advertised: Rc<RefCell<Advertised>>) -> Option<Discovering> {
    let node = file.node.node_ids.first()?.clone();
    let places = file.discover.clone();
    (!places.is_empty()).then_some(Discovering {
        node,
        places,
        advertised,
    })
}

/// Measures what the node and its store have done, again and again.
async fn measure_counters(core: Core, answers: Answers, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        core.measure_counters(answers.counts());
    }
}

/// A socket's path from the root, so that it serves programs that read it elsewhere; as it was given where
/// that would be longer than a socket's path may be.
fn shown_socket(path: &Path) -> String {
    let absolute = std::path::absolute(path)
        .ok()
        .filter(|path| path.as_os_str().len() <= PATH_OCTETS_MAX);
    absolute.as_deref().unwrap_or(path).display().to_string()
}

fn begin_recording(order: RecordingOrder) -> Result<Recording, RunError> {
    let path = order.path.clone();
    Recording::create(order).map_err(|error| RunError::Recording { path, error })
}

/// The buffers that the node reads into and that its store writes from.
fn buffers(file: &NodeFile) -> Buffers {
    Buffers::with_octets(match file.store.durability {
        // Octets that arrive stay in the buffers that they came in.
        DurabilitySetting::Memory => u64::MAX,
        DurabilitySetting::Sync | DurabilitySetting::Contact | DurabilitySetting::Os => {
            file.memory.buffer_octets()
        }
    })
}

/// The layout and bounds of a node's store.
fn options(file: &NodeFile) -> Options {
    let settings = &file.store;
    Options {
        segment_octets: settings
            .segment_octets
            .map_or_else(|| default_segment_octets(file.log_octets()), clip),
        quota_octets: file.node.quota_octets,
        durability: match settings.durability {
            DurabilitySetting::Sync | DurabilitySetting::Contact => Durability::Sync,
            DurabilitySetting::Os => Durability::Os,
            DurabilitySetting::Memory => Durability::Memory,
        },
        removed_bound: file.node.removed_bound,
        memory_octets: file.node.memory_octets / OPENING_SHARE,
        prepared_octets: settings.prepared_octets,
        seed: random_seed(),
    }
}

/// Opens the store of a node that does not run, as the node would.
///
/// # Errors
/// When the store is in use, lies in memory, or cannot be opened.
pub fn open_store(file: &NodeFile) -> Result<(Store, Recovered), RunError> {
    open_store_at(file, &file.store.path)
}

/// Opens the store in another directory, as a node of this file would have it.
///
/// # Errors
/// As with [`open_store`].
pub fn open_store_at(file: &NodeFile, path: &Path) -> Result<(Store, Recovered), RunError> {
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(path)?);
    let mut options = options(file);
    if options.durability == Durability::Memory {
        options.durability = Durability::Sync;
    }
    Store::open(disk, options).map_err(|error| RunError::Store {
        path: path.to_path_buf(),
        error,
    })
}

/// Opens the store and tells the node its bundles.
fn recover(
    file: &NodeFile,
    clock: Clock,
    mut recording: Option<&mut Recording>,
    buffers: &Buffers,
) -> Result<(Store, Node), RunError> {
    let settings = &file.store;
    let (mut disk, history): (Arc<dyn Disk>, History) = match settings.durability {
        DurabilitySetting::Memory => {
            let disk = MemoryDisk::with_buffers(buffers.clone());
            let disk = disk.with_bound(file.memory.log_octets);
            (Arc::new(disk), History::Unused)
        }
        DurabilitySetting::Sync | DurabilitySetting::Contact | DurabilitySetting::Os => {
            let mut disk = FileDisk::open(&settings.path)?;
            // With other durabilities octets are acknowledged before a flush: they are to be in the system's hands at once, and not in this process
            // alone.
            if settings.durability == DurabilitySetting::Sync && settings.memory_octets > 0 {
                disk = disk.with_memory(settings.memory_octets, buffers.clone());
            }
            let history = disk.history();
            tracing::info!(
                past_the_page_cache = disk.is_direct(),
                "store directory locked"
            );
            (Arc::new(disk), history)
        }
    };
    if !settings.flush_delay.is_zero() {
        disk = Arc::new(SlowDisk::new(disk, settings.flush_delay));
    }
    let options = options(file);
    if options.durability != Durability::Memory {
        let segments = LOG_SEGMENTS_BESIDE * u64::from(options.segment_octets);
        let log = options
            .quota_octets
            .saturating_add(options.quota_octets / 4);
        file_size::allow(log.saturating_add(segments))?;
    }
    let fault = |error| RunError::Store {
        path: settings.path.clone(),
        error,
    };
    let (store, recovered) = Store::open(disk, options).map_err(fault)?;
    let is_measured = file
        .measure
        .as_ref()
        .is_some_and(MeasureSettings::is_of_every_bundle);
    let is_traced = file.telemetry.as_ref();
    let telling = match is_measured || file.http.is_some() {
        _ if is_traced.is_some_and(TelemetrySettings::is_of_bundles) => Telling::Steps,
        true => Telling::Everything,
        false => journal::telling(),
    };
    let mut node = Node::new(file.node.clone()).with_telling(telling);
    if let Some(recording) = &recording {
        let content = recording.content();
        node = node.with_recorder(Recorder::new(PROGRAM, &file.node, telling, content));
    }
    let mut bundles = recovered.bundles;
    let total = bundles.size_hint().0;
    let mut count = 0_u64;
    let mut now = clock.now();
    for (_, bundle, extents) in bundles.by_ref() {
        if count.is_multiple_of(BUNDLES_AN_INSTANT) {
            now = clock.now();
        }
        let bundle = Box::new(bundle);
        node.handle(now, Event::Recovered { bundle, extents });
        if let Some(recording) = &mut recording {
            recording.keep_much(&mut node);
        }
        count += 1;
        TooLittleMemory::check(file, &node, count, total)?;
    }
    node.handle(
        clock.now(),
        Event::Opened {
            reserved_time: recovered.reserved_time,
            reserved_sequence: recovered.reserved_sequence,
            removed: recovered.removed,
        },
    );
    TooLittleMemory::check(file, &node, count, total)?;
    tracing::info!(bundles = count, memory = node.memory_octets(), "store open");
    if (history, recovered.origin) == (History::Used, Origin::New) {
        tracing::warn!(
            path = %settings.path.display(),
            "the log of this store is missing or empty, a new one was begun: what the store held is lost"
        );
    }
    tell_what_has_no_effect(settings, &store);
    crate::logging::lost(&recovered.loss);
    if recovered.checkpoint_lost {
        tracing::error!(
            "the store's checkpoint was damaged: bundles that were removed may have come back"
        );
    }
    opening::tell_unread(bundles.unread());
    if recovered.torn_octets > 0 {
        tracing::info!(
            octets = recovered.torn_octets,
            "the log's end was torn by a crash and is cut"
        );
    }
    Ok((store, node))
}

/// Whether flushes may be put off; an operator who wants that is told at every start what it costs.
fn flushing(file: &NodeFile) -> Flushing {
    if file.store.durability != DurabilitySetting::Contact {
        return Flushing::AtOnce;
    }
    tracing::warn!(
        path = %file.store.path.display(),
        "durability = \"contact\" is unsafe: a power failure loses what was acknowledged since the last flush, which comes when the contact ends"
    );
    Flushing::AfterContact
}

/// Tells of what the node file says of a store that was made before, and cannot have.
fn tell_what_has_no_effect(settings: &StoreSettings, store: &Store) {
    let path = settings.path.display();
    let made_with = u64::from(store.segment_octets());
    match (settings.durability, settings.segment_octets) {
        (DurabilitySetting::Memory, _) => {
            let log = std::fs::metadata(settings.path.join("log"));
            if log.is_ok_and(|log| log.len() > 0) {
                tracing::warn!(
                    %path,
                    "durability = \"memory\": the store on disk stays closed, and bundles in it wait there"
                );
            }
        }
        (_, Some(segment)) if segment != made_with => {
            tracing::warn!(
                %path,
                segment,
                made_with,
                "'segment' has no effect: it is fixed when a store is made"
            );
        }
        _ => {}
    }
}

fn clip(octets: u64) -> u32 {
    u32::try_from(octets).unwrap_or(u32::MAX)
}

/// A number that nobody can guess: hasher states are seeded by the system once a process.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

/// Starts a task for each listener for applications.
fn accept(
    core: &Core,
    count: open_files::Places,
    (unix, tcp): (UnixListener, Vec<TcpListener>),
) -> JoinSet<()> {
    let mut accepting = JoinSet::new();
    let places = Places::new(count.applications);
    let listeners = tcp.into_iter().map(ClientListener::Tcp);
    for listener in listeners.chain([ClientListener::Unix(unix)]) {
        accepting.spawn_local(accept_clients(core.clone(), listener, places.clone()));
    }
    accepting
}

/// Reads the node file again whenever a signal asks for it; why it could not be taken up is in the log.
async fn reload_on_hangup(mut hangups: Hangups, keeper: Shared) {
    loop {
        hangups.next().await;
        drop(keeper.lock().await.reload().await);
    }
}

/// Carries octets that were read to the node.
async fn hear_reads(core: Core, mut read: UnboundedReceiver<Answered>) {
    while let Some(answered) = read.recv().await {
        core.handle_reads(answered);
        tokio::task::yield_now().await;
    }
}

/// Carries the store's answers to the node until its thread ends.
async fn hear_store(core: Core, answers: Answers) {
    let mut events: Vec<StoreEvent> = Vec::new();
    while answers.next(&mut events).await {
        core.handle_answers(&mut events);
        tokio::task::yield_now().await;
    }
}
