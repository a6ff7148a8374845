//! Settings that a node file may have, and errors about one that is wrong.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use std::path::Path;
use std::time::Duration;

use dhow_bundle::protocol::Transport;
use dhow_daemon::config::{NodeFile, file::DurabilitySetting, json_schema};
use dhow_node::config::{
    AgeDialect, BibeDialect, BibePolicy, BundleVersions, Config, Enabled, Framing, LinkConfig,
    OnSent, Protocol, ReadingPolicy, STORE_QUEUE_OCTETS_MOST, SendOrder, StcpPolicy, Tls,
    UdpPolicy, WINDOW_OCTETS_MOST,
};

const NODE: &str = "[node]\nid = \"ipn:2.0\"\n";

fn parse(text: &str) -> NodeFile {
    NodeFile::parse(text, Path::new("beta/node.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// The program's words: the error, and the hint below it.
fn refusal(text: &str) -> String {
    let error = NodeFile::parse(text, Path::new("node.toml")).unwrap_err();
    match &error.hint {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

#[test]
fn the_documented_file_is_read() {
    let file = parse(
        r#"
version = 1
[node]
id = ["ipn:2.0", "dtn://beta/"]
[store]
path = "store"
durability = "os"
quota = "10GiB"
[api]
socket = "dhow.sock"
tcp = "127.0.0.1:4242"
[[listen]]
protocol = "tcpcl"
address = "127.0.0.1:4602"
[[link]]
name = "gamma"
protocol = "tcpcl"
address = "127.0.0.1:4603"
reading = "lenient"
order = "expiry"
window = "1MiB"
backoff_max = "2s"
peer = "ipn:3.0"
relay = false
[[route]]
to = "ipn:4.*"
via = "gamma"
[reports]
generate = ["delivery", "deletion"]
[echo]
service = 9
"#,
    );
    assert_eq!(file.node.node_ids.len(), 2);
    assert_eq!(file.store.durability, DurabilitySetting::Os);
    assert_eq!(file.node.quota_octets, 10 << 30);
    assert_eq!(file.store.path, Path::new("beta/store"));
    assert_eq!(file.api_tcp.as_deref(), Some("127.0.0.1:4242"));
    assert_eq!(
        (file.listen[0].host.as_str(), file.listen[0].port),
        ("127.0.0.1", 4602)
    );
    assert_eq!(
        (file.dial[0].host.as_str(), file.dial[0].port),
        ("127.0.0.1", 4603)
    );
    let link = &file.node.links[0];
    assert_eq!(
        (link.name.as_str(), link.backoff_min_ms, link.backoff_max_ms),
        ("gamma", 50, 2_000)
    );
    assert_eq!(link.policy.reading, ReadingPolicy::Lenient);
    assert_eq!(link.policy.order, SendOrder::Expiry);
    assert_eq!(link.policy.window_octets, 1 << 20);
    assert_eq!(link.policy.relay, Enabled::No);
    assert_eq!(link.policy.peer, Some("ipn:3.0".parse().unwrap()));
    assert_eq!(file.node.routes[0].via, "gamma");
    assert_eq!(file.node.reports.generate, 0x6_0000);
    assert_eq!(file.node.echo_service, Some(9));
}

#[test]
fn what_is_not_written_has_the_documented_default() {
    let file = parse(&format!("{NODE}[[listen]]\naddress = \"[::1]\"\n"));
    let node = &file.node;
    // Some follow from the machine.
    let window_octets = node.listeners[0].policy.window_octets;
    assert!((4 << 20..=WINDOW_OCTETS_MOST).contains(&window_octets));
    assert!((512 << 10..=STORE_QUEUE_OCTETS_MOST).contains(&node.store_queue_octets));
    assert!(node.quota_bundles >= 1_000);
    // All others are those of every node, also of simulated ones.
    let mut expected = Config {
        quota_bundles: node.quota_bundles,
        memory_octets: node.memory_octets,
        store_queue_octets: node.store_queue_octets,
        ..Config::usual(node.node_ids.clone())
    };
    let policy = &mut expected.listeners[0].policy;
    policy.window_octets = window_octets;
    policy.transfer_mru = node.quota_octets;
    assert_eq!(format!("{node:?}"), format!("{expected:?}"));
    assert_eq!(
        (file.listen[0].host.as_str(), file.listen[0].port),
        ("::1", 4556)
    );
    assert!(file.store.prepared_octets <= 256 << 20);
    assert_eq!(file.store.flush_delay, Duration::ZERO);
    assert_eq!(file.store.durability, DurabilitySetting::Sync);
}

#[test]
fn a_link_has_the_defaults_of_every_link() {
    let file = parse(&format!(
        "{NODE}[[link]]\nname = \"beta\"\naddress = \"[::1]\"\n"
    ));
    let link = &file.node.links[0];
    let mut expected = LinkConfig::usual("beta".into());
    expected.policy.window_octets = link.policy.window_octets;
    expected.policy.transfer_mru = file.node.quota_octets;
    assert_eq!(format!("{link:?}"), format!("{expected:?}"));
}

#[test]
fn tls_takes_its_files_from_beside_the_node_file() {
    let file = parse(&format!(
        "{NODE}[tls]\ncertificate = \"a.crt\"\nkey = \"/etc/a.key\"\nauthorities = [\"ca.crt\"]\n[[listen]]\naddress = \"h:1\"\ntls = \"required\"\n"
    ));
    let tls = file.tls.unwrap();
    assert_eq!(tls.certificate, Path::new("beta/a.crt"));
    assert_eq!(tls.key, Path::new("/etc/a.key"));
    assert_eq!(tls.authorities, [Path::new("beta/ca.crt")]);
    assert_eq!(file.node.listeners[0].policy.tls, Tls::Required);
}

#[test]
fn a_wrong_file_is_refused_with_line_and_hint() {
    let link = "[[link]]\nname = \"gamma\"\naddress = \"h:1\"\n";
    let cases = [
        (
            format!("{NODE}[[listen]]\nadress = \"a:1\"\n"),
            "node.toml:4: unknown key 'adress' in [[listen]]\nhint: did you mean 'address'?",
        ),
        (
            format!("{NODE}[stor]\n"),
            "node.toml:3: unknown key or section 'stor'\nhint: did you mean 'store'?",
        ),
        (
            format!("{NODE}quota = 1\n"),
            "node.toml:3: unknown key 'quota' in [node]\nhint: 'quota' is a key of [store]; those of [node] are id, clock, memory, payload_checksum, threads, answers_per_second, log",
        ),
        (
            format!("{NODE}[store]\ndurability = \"fast\"\n"),
            "node.toml:4: 'durability' cannot be \"fast\" (one of \"sync\", \"contact\", \"os\", \"memory\")\nhint: for example: durability = \"sync\"",
        ),
        (
            format!("{NODE}[store]\nquota = \"10gb\"\n"),
            "node.toml:4: 'quota' is not a size: 'gb' is not a unit of size (one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)\nhint: for example: quota = \"10GiB\"",
        ),
        (
            format!("{NODE}{link}protocol = \"tcpcl5\"\n"),
            "node.toml:6: 'protocol' cannot be \"tcpcl5\" (one of \"tcpcl\", \"tcpcl3\", \"auto\", \"udp\", \"ltp\", \"stcp\", \"stcp-draft\", \"mtcp\", \"encapsulation\", \"bibe\")\nhint: for example: protocol = \"tcpcl\"",
        ),
        (
            format!("{NODE}{link}custody = true\n"),
            "node.toml:6: 'custody' means nothing without protocol = \"bibe\"\nhint: remove it, or write protocol = \"bibe\"",
        ),
        (
            format!(
                "{NODE}[[link]]\nname = \"a\"\nprotocol = \"bibe\"\npeer = \"ipn:3.0\"\n[[link]]\nname = \"b\"\nprotocol = \"bibe\"\npeer = \"ipn:3.0\"\n"
            ),
            "node.toml:10: the link with protocol = \"bibe\" in line 6 leads to ipn:3.0 too\nhint: a peer needs one link of this kind, over which any routes may lead",
        ),
        (
            format!("{NODE}[[link]]\nname = \"gamma\"\nprotocol = \"bibe\"\n"),
            "node.toml:5: a link with protocol = \"bibe\" needs a 'peer': nobody says there who it is\nhint: for example: peer = \"ipn:3.0\"",
        ),
        (
            format!(
                "{NODE}[[link]]\nname = \"gamma\"\nprotocol = \"bibe\"\npeer = \"ipn:3.0\"\naddress = \"h:1\"\n"
            ),
            "node.toml:7: 'address' means nothing with protocol = \"bibe\"\nhint: with protocol = \"bibe\" there are: name, protocol, peer, dialect, custody, latency, signal_delay, enabled, dial, window, window_bundles, reading, strip_checksum, bundle_versions, age_dialect, order, accept_relayed, relay, accept_sources, highest_priority, accept_rate, accept_bundles, held, held_bundles",
        ),
        (
            format!("{NODE}[[listen]]\nprotocol = \"tcpcl3\"\n"),
            "node.toml:4: 'protocol' cannot be \"tcpcl3\" (one of \"tcpcl\", \"udp\", \"ltp\", \"stcp\", \"stcp-draft\", \"mtcp\", \"encapsulation\")\nhint: for example: protocol = \"tcpcl\"",
        ),
        (
            format!(
                "{NODE}[tls]\ncertificate = \"a\"\nkey = \"b\"\nauthorities = [\"c\"]\n{link}tls = \"required\"\nprotocol = \"tcpcl3\"\n"
            ),
            "node.toml:11: 'protocol' \"tcpcl3\" has no TLS\nhint: write protocol = \"tcpcl\", or tls = \"never\" beside it",
        ),
        (
            format!("{NODE}{link}sessions = 17\n"),
            "node.toml:6: 'sessions' must be between 1 and 16\nhint: for example: sessions = 1",
        ),
        (
            format!("{NODE}{link}enabled = 1\n"),
            "node.toml:6: 'enabled' must be true or false, not integer\nhint: for example: enabled = true",
        ),
        (
            format!("{NODE}{link}keepalive = \"1500ms\"\n"),
            "node.toml:6: 'keepalive' must be whole seconds, at most 65535s\nhint: for example: keepalive = \"30s\"",
        ),
        (
            format!("{NODE}{link}answer_timeout = \"0\"\n"),
            "node.toml:6: 'answer_timeout' must not be 0: no peer answers at once\nhint: for example: answer_timeout = \"10s\"",
        ),
        (
            format!("{NODE}{link}{link}"),
            "node.toml:7: two links are named 'gamma'\nhint: routes and commands find a link by its name: each needs its own; more sessions with one neighbour are 'sessions' of one link",
        ),
        (
            format!("{NODE}{link}tls = \"required\"\n"),
            "node.toml:6: TLS needs a [tls] section\nhint: [tls] names this node's certificate and key, and the authorities that it believes",
        ),
        (
            format!("{NODE}{link}[[route]]\nto = \"ipn:4.*\"\nvia = \"gama\"\n"),
            "node.toml:8: no [[link]] is named 'gama'\nhint: did you mean 'gamma'?",
        ),
        (
            format!("{NODE}[[link]]\nname = \"x\"\n"),
            "node.toml:3: [[link]] lacks 'address'\nhint: for example: address = \"192.0.2.3:4556\"",
        ),
        (
            format!("{NODE}[[listen]]\naddress = \"a:b:c\"\n"),
            "node.toml:4: 'a:b:c' is not an address\nhint: addresses look like \"192.0.2.3:4556\", \"[2001:db8::3]:4556\" or \"host.example:4556\"",
        ),
        (
            format!("{NODE}[admin]\ntcp = \"127.0.0.1:1\"\n"),
            "node.toml:4: administration over TCP needs a 'token'\nhint: without 'tcp' the admin socket still works, for those who may open it",
        ),
        (
            "version = 2\n".to_owned() + NODE,
            "node.toml:1: 'version' must be between 1 and 1\nhint: for example: version = 1",
        ),
        (
            String::new(),
            "node.toml: [node] lacks 'id'\nhint: for example: id = \"ipn:2.0\"",
        ),
        (
            format!("{NODE}link = 1\n[[listen]]\naddress=\"a:1\"\n"),
            "node.toml:3: unknown key 'link' in [node]\nhint: the keys are id, clock, memory, payload_checksum, threads, answers_per_second, log",
        ),
        (
            format!("{NODE}[store]\nquota = 0\n"),
            "node.toml:4: 'quota' is 0: the node could store nothing\nhint: for example: quota = \"10GiB\"",
        ),
        (
            format!("{NODE}[api]\ndefault_lifetime = \"0s\"\n"),
            "node.toml:4: 'default_lifetime' is 0: every such bundle would expire at once\nhint: for example: default_lifetime = \"1d\"",
        ),
        (
            "[node]\nid = [\"ipn:2.0\", \"dtn://b/\", \"ipn:2.0\"]\n".to_owned(),
            "node.toml:2: 'id' names ipn:2.0 twice\nhint: write each node ID once",
        ),
        (
            format!("{NODE}{link}dial = \"contacts\"\n"),
            "node.toml:6: a link with dial = \"contacts\" needs a 'peer': contacts are with a node\nhint: for example: peer = \"ipn:3.0\"",
        ),
        (
            format!("{NODE}{link}peer = \"ipn:2.0\"\n"),
            "node.toml:6: 'peer' is ipn:2.0, which is this node\nhint: 'peer' is the node ID of the other side",
        ),
        (
            format!("{NODE}[[route]]\nto = \"ipn:4.*\"\nvia = \"ipn:2.0\"\n"),
            "node.toml:5: the route leads via ipn:2.0, which is this node\nhint: 'via' is the name of a [[link]] or the node ID of a neighbour; bundles to this node need no route",
        ),
        (
            format!(
                "{NODE}[[route]]\nto = \"ipn:4.*\"\nvia = \"ipn:3.0\"\n[[route]]\nto = \"ipn:4.*\"\nvia = \"ipn:3.0\"\npriority = 1\n"
            ),
            "node.toml:6: the route to 'ipn:4.*' via 'ipn:3.0' stands in line 3 already\nhint: keep one of the two, with the priority that it is to have",
        ),
        (
            format!("{NODE}[admin]\ntoken = \"secret\"\n"),
            "node.toml:4: 'token' guards nothing without 'tcp'\nhint: for example: tcp = \"127.0.0.1:4243\"; the admin socket is guarded by its file's permissions",
        ),
        (
            format!("{NODE}[api]\ntcp = \"foo\"\n"),
            "node.toml:4: 'foo' is not an address with a port\nhint: for example: tcp = \"127.0.0.1:4242\"",
        ),
        (
            format!("{NODE}[[listen]]\naddress = \"[::1]:7\"\n[[listen]]\naddress = \"[::]:7\"\n"),
            "node.toml:6: port 7 of :: is wanted in line 4 already\nhint: each [[listen]], [api] tcp, [admin] tcp and [http] listen needs an address or a port of its own",
        ),
        (
            format!(
                "{NODE}[api]\ntcp = \"127.0.0.1:7\"\n[admin]\ntcp = \"127.0.0.1:7\"\ntoken = \"secret\"\n"
            ),
            "node.toml:6: port 7 of 127.0.0.1 is wanted in line 4 already\nhint: each [[listen]], [api] tcp, [admin] tcp and [http] listen needs an address or a port of its own",
        ),
        (
            format!("{NODE}[admin]\ntcp = \"127.0.0.1:1\"\ntoken = \"x\"\n"),
            "node.toml:5: 'token' has 1 octets: anybody would guess it\nhint: for example what `openssl rand -hex 16` prints",
        ),
        (
            format!("{NODE}[admin]\ntcp = \"127.0.0.1:1\"\ntoken = \"two words\"\n"),
            "node.toml:5: 'token' cannot stand in a request: it has letters that are not ASCII, or spaces\nhint: for example what `openssl rand -hex 16` prints",
        ),
        (
            format!("{NODE}[echo]\nservice = 5201\n"),
            "node.toml:4: [echo] and [perf] both have the service number 5201\nhint: each service of a node needs a number of its own; applications have the others",
        ),
        (
            format!("{NODE}[echo]\nservice = 9\n[perf]\nservice = 9\n"),
            "node.toml:6: [echo] and [perf] both have the service number 9\nhint: each service of a node needs a number of its own; applications have the others",
        ),
        (
            format!("{NODE}[measure]\ncollect = \"bundles:ipn:9.3003\"\n[perf]\nservice = 3004\n"),
            "node.toml:6: [measure] and [perf] both have the service number 3004\nhint: each service of a node needs a number of its own; applications have the others",
        ),
        (
            format!("{NODE}[store]\nquota = \"1MiB\"\nsegment = \"64MiB\"\n"),
            "node.toml:5: 'segment' has 67108864 octets, more than the 'quota' of 1048576\nhint: a store works in several segments: leave 'segment' out, and it follows from the quota",
        ),
        (
            format!("{NODE}[store]\nquota = \"1MiB\"\nprepare = \"2MiB\"\n"),
            "node.toml:5: 'prepare' has 2097152 octets, more than the 'quota' of 1048576\nhint: leave 'prepare' out, and it follows from the quota",
        ),
        (
            format!(
                "{NODE}[[listen]]\naddress = \"127.0.0.1:4556\"\n[[link]]\nname = \"self\"\naddress = \"127.0.0.1\"\n"
            ),
            "node.toml:7: the link leads to 127.0.0.1 port 4556, where this node itself listens\nhint: 'address' is where the neighbour listens",
        ),
        (
            "store = 1\n".to_owned() + NODE,
            "node.toml:1: 'store' is a section of its own\nhint: write [store] on a line by itself, its keys below",
        ),
    ];
    for (text, said) in cases {
        assert_eq!(refusal(&text), said, "{text}");
    }
}

/// Values that are each of their key's kind, at the edge of what a node can do.
#[test]
fn values_that_no_node_can_keep_are_refused() {
    let link = "[[link]]\nname = \"gamma\"\naddress = \"h:1\"\n";
    let external = "[external]\nsocket = \"external.sock\"\n";
    let cases = [
        (
            format!("{external}answer_timeout = \"999ms\"\n"),
            "node.toml:5: 'answer_timeout' must be at least 1s: no program answers at once\nhint: for example: answer_timeout = \"10s\"",
        ),
        (
            "[custody]\nretry = \"0s\"\n".to_owned(),
            "node.toml:4: 'retry' must be at least 1s: no signal comes at once\nhint: for example: retry = \"30s\"",
        ),
        (
            "[external]\nquestions = 9\n".to_owned(),
            "node.toml:4: 'questions' of [external] means nothing without a 'socket'\nhint: give it one: socket = \"external.sock\"",
        ),
        (
            format!("{external}questions = 99999999999999999999\n"),
            "node.toml:5: 'questions' must be between 1 and 65536\nhint: for example: questions = 256",
        ),
        (
            "[store]\nquota = 99999999999999999999\n".to_owned(),
            "node.toml:4: 'quota' must be between 0 and 9223372036854775807 octets\nhint: for example: quota = \"10GiB\"",
        ),
        (
            format!("{link}window = 0\n"),
            "node.toml:6: 'window' must not be 0\nhint: for example: window = \"128MiB\"",
        ),
        (
            format!("{link}accept_sources = []\n"),
            "node.toml:6: 'accept_sources' names nobody\nhint: without the key every source is taken; for example: accept_sources = [\"ipn:1.*\"]",
        ),
        (
            "[perf]\naccept_sources = []\n".to_owned(),
            "node.toml:4: 'accept_sources' names nobody\nhint: without the key every source is taken; for example: accept_sources = [\"ipn:1.*\"]",
        ),
    ];
    for (text, said) in cases {
        assert_eq!(refusal(&format!("{NODE}{text}")), said, "{text}");
    }
    parse(&format!(
        "{NODE}{external}answer_timeout = \"1s\"\n[custody]\nretry = \"1s\"\n"
    ));
    parse(&format!("{NODE}[external]\n"));
}

/// The node makes its sockets where they are named; the administration's is beside that of applications.
#[test]
fn sockets_without_a_path_of_their_own_are_refused() {
    let taken = "hint: for example: socket = \"external.sock\"";
    for (section, socket, said) in [
        (
            "api",
            "",
            "is empty\nhint: for example: socket = \"dhow.sock\"".to_owned(),
        ),
        ("external", "", format!("is empty\n{taken}")),
        (
            "external",
            "./dhow.sock",
            format!("is that of the application interface ([api] socket)\n{taken}"),
        ),
        (
            "external",
            "dhow.sock.admin",
            format!(
                "is that of the administration ([api] socket, with \".admin\" behind it)\n{taken}"
            ),
        ),
    ] {
        let text = format!("{NODE}[{section}]\nsocket = \"{socket}\"\n");
        assert_eq!(refusal(&text), format!("node.toml:4: 'socket' {said}"));
    }
}

/// A service that is switched off takes no number, a quota may be one segment, and a link may lead to another port.
#[test]
fn what_only_looks_like_nonsense_is_taken() {
    for text in [
        "[echo]\nservice = 9\nenabled = false\n[perf]\nservice = 9\n",
        "[perf]\nservice = 3004\n",
        "[store]\nquota = \"1MiB\"\nsegment = \"1MiB\"\n",
        "[[listen]]\naddress = \"127.0.0.1:4556\"\n[[link]]\nname = \"x\"\naddress = \"127.0.0.1:4557\"\n",
        "[admin]\ntcp = \"127.0.0.1:1\"\ntoken = \"secret\"\n",
    ] {
        parse(&format!("{NODE}{text}"));
    }
}

/// The refusal of files that a node file in this directory names.
fn named_files(directory: &Path, more: &str) -> Option<String> {
    let path = directory.join("node.toml");
    let text = format!("{NODE}{more}");
    let file = NodeFile::parse(&text, &path).unwrap();
    let error = file.check_named_files(&text, &path).err()?;
    let said = format!("{error}\nhint: {}", error.hint.as_deref().unwrap_or(""));
    Some(said.replace(&format!("{}/", directory.display()), ""))
}

#[test]
fn groups_that_the_system_does_not_have_are_refused() {
    let place = tempfile::tempdir().unwrap();
    for (section, key) in [
        ("api", "group"),
        ("admin", "group"),
        ("admin", "read_group"),
    ] {
        let text = |group: &str| format!("[{section}]\n{key} = \"{group}\"\n");
        let said = named_files(place.path(), &text("no-such-group")).expect("there is none");
        let what =
            format!("node.toml:4: '{key}' cannot be used: there is no group 'no-such-group'");
        assert!(said.starts_with(&what), "{said}");
        assert_eq!(named_files(place.path(), &text("root")), None);
    }
}

#[test]
fn files_that_are_named_and_not_there_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let tls = "[tls]\ncertificate = \"chain.pem\"\nkey = \"key.pem\"\nauthorities = [\"ca.pem\"]\n";
    assert_eq!(named_files(directory, ""), None);
    let hint = "hint: paths are relative to this file, and the files are PEM";
    let missing = |line: usize, key: &str, file: &str, what: &str| {
        let why = "I/O error: No such file or directory (os error 2)";
        Some(format!(
            "node.toml:{line}: '{key}' cannot be used: {file} has no usable {what}: {why}\n{hint}"
        ))
    };
    assert_eq!(
        named_files(directory, tls),
        missing(4, "certificate", "chain.pem", "certificate")
    );
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["beta.example".to_owned()];
    let certificate = rcgen::CertificateParams::new(names)
        .unwrap()
        .self_signed(&key);
    let chain = certificate.unwrap().pem();
    std::fs::write(directory.join("chain.pem"), &chain).unwrap();
    assert_eq!(
        named_files(directory, tls),
        missing(5, "key", "key.pem", "private key")
    );
    let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
    std::fs::write(directory.join("key.pem"), other).unwrap();
    assert_eq!(
        named_files(directory, tls),
        missing(6, "authorities", "ca.pem", "certificate")
    );
    std::fs::write(directory.join("ca.pem"), &chain).unwrap();
    let said = named_files(directory, tls).expect("the key is another's");
    assert!(
        said.starts_with(
            "node.toml:4: 'certificate' cannot be used: the TLS identity cannot be used: "
        ),
        "{said}"
    );
    std::fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
    assert_eq!(named_files(directory, tls), None);
    assert_eq!(
        named_files(directory, "[api]\nsocket = \"run/dhow.sock\"\n").as_deref(),
        Some(
            "node.toml:4: 'socket' is to be in run, which is not a directory\nhint: make it, or name a path in a directory that is there"
        )
    );
    let long = format!("[api]\nsocket = \"/tmp/{}\"\n", "x".repeat(97));
    assert_eq!(
        named_files(directory, &long).as_deref(),
        Some(
            "node.toml:4: 'socket' leads to a path of 108 octets with \".admin\" behind it, and 107 are allowed\nhint: choose a shorter one, such as \"/run/dhow.sock\""
        )
    );
    let external = |letters: usize| {
        let name = "x".repeat(letters);
        named_files(
            directory,
            &format!("[external]\nsocket = \"/tmp/{name}\"\n"),
        )
    };
    assert_eq!(external(102), None);
    assert_eq!(
        external(103).as_deref(),
        Some(
            "node.toml:4: 'socket' leads to a path of 108 octets, and 107 are allowed\nhint: choose a shorter one, such as \"/run/dhow.sock\""
        )
    );
}

/// RFC 9174 4.4.4: a peer that need not use TLS proves no node ID.
#[test]
fn a_link_is_dialled_with_the_protocol_that_is_written() {
    let link = "[[link]]\nname = \"gamma\"\naddress = \"h:1\"\n";
    for (written, protocol) in [
        ("", Protocol::Tcpcl4),
        ("protocol = \"tcpcl\"\n", Protocol::Tcpcl4),
        ("protocol = \"tcpcl3\"\n", Protocol::Tcpcl3),
        ("protocol = \"auto\"\n", Protocol::Auto),
    ] {
        let file = parse(&format!("{NODE}{link}{written}"));
        assert_eq!(file.node.links[0].protocol, protocol);
    }
}

#[test]
fn a_link_and_a_listener_say_which_versions_their_peers_take() {
    let read = |keys: &str| {
        let link = format!("[[link]]\nname = \"beta\"\naddress = \"h:1\"\n{keys}");
        let listen = format!("[[listen]]\naddress = \"h:2\"\n{keys}");
        let node = parse(&format!("{NODE}{link}{listen}")).node;
        let versions = node.links[0].policy.bundle_versions;
        assert_eq!(node.listeners[0].policy.bundle_versions, versions);
        (versions, node.links[0].policy.age_dialect)
    };
    let type20 = AgeDialect::Type20;
    assert_eq!(read(""), (BundleVersions::Both, type20));
    assert_eq!(
        read("bundle_versions = [7, 6]\n"),
        (BundleVersions::Both, type20)
    );
    assert_eq!(
        read("bundle_versions = [7]\n"),
        (BundleVersions::Seven, type20)
    );
    assert_eq!(
        read("bundle_versions = [6]\nage_dialect = \"type10\"\n"),
        (BundleVersions::Six, AgeDialect::Type10)
    );
    for (value, expected) in [
        ("[]", "must be a list of some of 6, 7"),
        ("[5]", "must be a list of some of 6, 7"),
        ("6", "must be a list of numbers, not integer"),
    ] {
        let text = format!(
            "{NODE}[[link]]\nname = \"beta\"\naddress = \"h:1\"\nbundle_versions = {value}\n"
        );
        let error = NodeFile::parse(&text, Path::new("node.toml")).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_link_over_udp_has_a_peer_and_the_keys_that_mean_something() {
    let link = "[[link]]\nname = \"gamma\"\naddress = \"h:1\"\nprotocol = \"udp\"\n";
    let peer = "peer = \"ipn:3.0\"\n";
    let protocol = |more: &str| parse(&format!("{NODE}{link}{peer}{more}")).node.links[0].protocol;
    assert_eq!(protocol(""), Protocol::Udp(UdpPolicy::default()));
    let policy = UdpPolicy {
        mtu_octets: 65_507,
        octets_per_s: 125_000_000,
        on_sent: OnSent::Keep,
    };
    let written =
        "on_sent = \"keep\"\nmtu = 65507\nrate = \"1Gbit\"\nrelay = false\norder = \"expiry\"\n";
    assert_eq!(protocol(written), Protocol::Udp(policy));
    let listen = "[[listen]]\naddress = \"h:1\"\nprotocol = \"udp\"\n";
    // One port of TCP and of UDP are two.
    let tcp = "[[listen]]\naddress = \"h:1\"\n";
    let elsewhere = link.replace("h:1", "h:2");
    let file = parse(&format!("{NODE}{listen}{tcp}{elsewhere}{peer}"));
    assert_eq!(file.listen[0].transport, Transport::Udp);
    assert_eq!(file.listen[1].transport, Transport::Tcp);
    assert_eq!(file.dial[0].transport, Transport::Udp);
    let keys = "name, protocol, address, peer, mtu, rate, on_sent, enabled, dial, reading, fragment, strip_checksum, bundle_versions, age_dialect, order, accept_relayed, relay, accept_sources, highest_priority, accept_rate, accept_bundles, held, held_bundles";
    for (more, expected) in [
        (
            String::new(),
            "node.toml:6: a link over UDP needs a 'peer': nobody says there who it is\nhint: for example: peer = \"ipn:3.0\"".to_owned(),
        ),
        (
            format!("{peer}sessions = 2\n"),
            format!("node.toml:8: 'sessions' means nothing over UDP\nhint: with protocol = \"udp\" there are: {keys}"),
        ),
        (
            format!("{peer}tls = \"required\"\n"),
            format!("node.toml:8: 'tls' means nothing over UDP\nhint: with protocol = \"udp\" there are: {keys}"),
        ),
        (
            format!("{peer}mtu = 127\n"),
            "node.toml:8: 'mtu' must be from 128 to 65507 octets\nhint: for example: mtu = 1472, which fills a packet of Ethernet over IPv4".to_owned(),
        ),
        (
            format!("{peer}mtu = 65508\n"),
            "node.toml:8: 'mtu' must be from 128 to 65507 octets\nhint: for example: mtu = 1472, which fills a packet of Ethernet over IPv4".to_owned(),
        ),
        (
            format!("{peer}rate = \"0bit\"\n"),
            "node.toml:8: 'rate' is 0: nothing would leave\nhint: for example: rate = \"10Mbit\"".to_owned(),
        ),
        (
            format!("{peer}{}{peer}", link.replace("gamma", "delta")),
            "node.toml:10: the link over UDP in line 5 has this address too\nhint: a neighbour needs one link over UDP".to_owned(),
        ),
    ] {
        assert_eq!(refusal(&format!("{NODE}{link}{more}")), expected);
    }
    let tcp = link.replace("udp", "auto");
    assert_eq!(
        refusal(&format!("{NODE}{tcp}rate = \"1Mbit\"\n")),
        "node.toml:7: 'rate' means nothing without UDP\nhint: remove it, or write protocol = \"udp\""
    );
    assert_eq!(
        refusal(&format!("{NODE}{listen}{listen}")),
        "node.toml:7: port 1 of h is wanted in line 4 already\nhint: each [[listen]], [api] tcp, [admin] tcp and [http] listen needs an address or a port of its own"
    );
    assert_eq!(
        refusal(&format!("{NODE}{listen}peer = \"ipn:3.0\"\n")),
        "node.toml:6: 'peer' means nothing over UDP\nhint: with protocol = \"udp\" there are: protocol, address, reading, relay, accept_sources, highest_priority, accept_rate, accept_bundles, held, held_bundles"
    );
}

#[test]
fn links_that_carry_bundles_in_others_have_no_address() {
    let link = "[[link]]\nname = \"far\"\nprotocol = \"bibe\"\npeer = \"ipn:3.0\"\n";
    let usual = parse(&format!("{NODE}{link}"));
    assert_eq!(
        usual.node.links[0].protocol,
        Protocol::Bibe(BibePolicy::default())
    );
    let keys = "dialect = \"dtnme\"\ncustody = true\nlatency = \"4s\"\nsignal_delay = \"500ms\"\n";
    let file = parse(&format!("{NODE}{link}{keys}"));
    let policy = BibePolicy {
        dialect: BibeDialect::Dtnme,
        custody: true,
        latency_ms: 4_000,
        delay_ms: 500,
    };
    assert_eq!(file.node.links[0].protocol, Protocol::Bibe(policy));
    assert_eq!(file.node.links[0].sessions, 1);
}

#[test]
fn links_and_listeners_of_stcp_and_mtcp_have_the_keys_that_mean_something() {
    let link = "[[link]]\nname = \"gamma\"\naddress = \"h:1\"\nprotocol = \"stcp\"\n";
    let peer = "peer = \"ipn:3.0\"\n";
    let listen = "[[listen]]\naddress = \"h:1\"\nprotocol = \"stcp\"\n";
    for (name, framing, keepalive_s) in [
        ("stcp", Framing::Stcp, 15),
        ("stcp-draft", Framing::StcpDraft, 0),
        ("mtcp", Framing::Mtcp, 0),
        ("encapsulation", Framing::Encapsulation, 15),
    ] {
        let text = format!("{NODE}{listen}{link}{peer}")
            .replacen("h:1", "h:2", 1)
            .replace("\"stcp\"", &format!("\"{name}\""));
        let file = parse(&text);
        let link = &file.node.links[0];
        assert_eq!(link.protocol, Protocol::framed(framing));
        assert_eq!(link.policy.keepalive_s, keepalive_s, "{name}");
        assert_eq!(file.node.listeners[0].protocol, Protocol::framed(framing));
        assert_eq!(file.dial[0].transport, Transport::Tcp);
    }
    let keep = "on_sent = \"keep\"\nkeepalive = \"5s\"\n";
    let file = parse(&format!("{NODE}{link}{peer}{keep}"));
    let on_sent = OnSent::Keep;
    let framing = Framing::Stcp;
    let policy = StcpPolicy { framing, on_sent };
    assert_eq!(file.node.links[0].protocol, Protocol::Stcp(policy));
    assert_eq!(file.node.links[0].policy.keepalive_s, 5);
    let policy = "transfer_mru = \"1MiB\"\naccept_relayed = false\nconnections_per_address = 2\n";
    let file = parse(&format!("{NODE}{listen}{peer}{policy}"));
    let named = file.node.listeners[0].policy.peer.as_ref();
    assert_eq!(named.map(ToString::to_string).as_deref(), Some("ipn:3.0"));
    let of_links = "name, protocol, address, peer, on_sent, keepalive, enabled, dial, sessions, backoff_min, backoff_max, connect_timeout, path_check, stall_timeout, idle_timeout, answer_timeout, fragment, window, window_bundles, strip_checksum, bundle_versions, age_dialect, order";
    let of_listeners = "protocol, address, connections_per_address, peer, stall_timeout, transfer_mru, idle_timeout, answer_timeout, transfer_timeout, reading, accept_relayed, relay, accept_sources, highest_priority, accept_rate, accept_bundles, held, held_bundles";
    let mtcp = link.replace("stcp", "mtcp");
    let without = of_links.replace(" keepalive,", "");
    for (text, expected) in [
        (
            link.to_owned(),
            "node.toml:6: a link with protocol = \"stcp\" needs a 'peer': nobody says there who it is\nhint: for example: peer = \"ipn:3.0\"".to_owned(),
        ),
        (
            format!("{link}{peer}tls = \"required\"\n"),
            format!("node.toml:8: 'tls' means nothing with protocol = \"stcp\"\nhint: with protocol = \"stcp\" there are: {of_links}"),
        ),
        (
            format!("{link}{peer}rate = \"1Mbit\"\n"),
            format!("node.toml:8: 'rate' means nothing with protocol = \"stcp\"\nhint: with protocol = \"stcp\" there are: {of_links}"),
        ),
        (
            format!("{mtcp}{peer}keepalive = \"5s\"\n"),
            format!("node.toml:8: 'keepalive' means nothing with protocol = \"mtcp\"\nhint: with protocol = \"mtcp\" there are: {without}"),
        ),
        (
            format!("{listen}keepalive = \"5s\"\n"),
            format!("node.toml:6: 'keepalive' means nothing with protocol = \"stcp\"\nhint: with protocol = \"stcp\" there are: {of_listeners}"),
        ),
        (
            format!("{}on_sent = \"keep\"\n", link.replace("stcp", "tcpcl")),
            "node.toml:7: 'on_sent' means nothing where peers acknowledge\nhint: remove it, or write protocol = \"udp\"".to_owned(),
        ),
    ] {
        assert_eq!(refusal(&format!("{NODE}{text}")), expected);
    }
}

#[test]
fn a_node_id_cannot_be_required_of_sessions_without_tls() {
    let tls = "[tls]\ncertificate = \"a\"\nkey = \"b\"\nauthorities = [\"c\"]\n";
    let said = "node.toml:8: 'require_node_id' needs tls = \"required\": without TLS nobody proves a node ID\nhint: write tls = \"required\" beside it, and a [tls] section";
    for section in [
        "[[listen]]\n",
        "[[listen]]\ntls = \"never\"\n",
        "[[listen]]\ntls = \"preferred\"\n",
        "[[link]]\nname = \"gamma\"\ntls = \"preferred\"\n",
    ] {
        let text = format!("{NODE}{tls}{section}require_node_id = true\naddress = \"h:1\"\n");
        let line = text
            .lines()
            .position(|line| line.starts_with("require"))
            .unwrap()
            + 1;
        assert_eq!(
            refusal(&text),
            said.replace(":8:", &format!(":{line}:")),
            "{text}"
        );
        let required = text.replace("preferred", "required");
        if required != text {
            parse(&required);
        }
    }
}

/// Port 0 is any free port, and IPv4 and IPv6 wildcards share one.
#[test]
fn addresses_that_only_look_alike_are_taken() {
    for (one, other) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::]:7", "0.0.0.0:7"),
        ("127.0.0.1:7", "127.0.0.2:7"),
        ("h:7", "h:8"),
    ] {
        parse(&format!(
            "{NODE}[[listen]]\naddress = \"{one}\"\n[[listen]]\naddress = \"{other}\"\n"
        ));
    }
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let said = refusal("[node]\nid = \n");
    assert!(
        said.starts_with("node.toml:2: this is not valid TOML: "),
        "{said}"
    );
    assert!(
        said.ends_with("texts, sizes and times stand in quotes: quota = \"1GiB\""),
        "{said}"
    );
    for (text, line, hint) in [
        ("id = \"ipn:3.0\"\n", 3, "a key stands once in its section"),
        (
            "[echo]\n[echo]\n",
            4,
            "[echo] stands once: write all of its keys below it",
        ),
        (
            "[[link]]\nname = \"a\"\n[link]\n",
            5,
            "each section of this name begins with a line [[link]]",
        ),
    ] {
        let said = refusal(&format!("{NODE}{text}"));
        let expected =
            format!("node.toml:{line}: this is not valid TOML: duplicate key\nhint: {hint}");
        assert_eq!(said, expected);
    }
}

#[test]
fn a_node_id_that_is_none_is_refused() {
    let said = refusal("[node]\nid = \"ipn:2.7\"\n");
    assert!(
        said.starts_with("node.toml:2: 'ipn:2.7' is not a node ID: "),
        "{said}"
    );
    assert!(
        said.ends_with("hint: node IDs look like \"ipn:2.0\" or \"dtn://beta/\""),
        "{said}"
    );
}

#[test]
fn what_is_measured_and_for_whom_is_read_and_checked() {
    assert!(parse(NODE).measure.is_none());
    let measure = |keys: &str| format!("{NODE}[measure]\n{keys}\n");
    let file = parse(&measure(
        "collect = \"tcp:lab\"\npoints = [\"state\"]\ninterval = \"100ms\"",
    ));
    let settings = file.measure.unwrap();
    assert_eq!(settings.target.to_string(), "tcp:lab:3003");
    assert_eq!(
        (settings.domain.as_str(), settings.sender.as_str()),
        ("dhow", "ipn:2.0")
    );
    assert_eq!(settings.interval, Duration::from_millis(100));
    assert!(!settings.is_of_every_bundle());
    let all = parse(&measure("collect = \"file:-\"")).measure.unwrap();
    assert!(all.points.len() > 5 && all.is_of_every_bundle());
    let by_bundles = measure("collect = \"bundles:ipn:9.3003\"\nlifetime = \"2h\"");
    let reports = parse(&by_bundles).measure.unwrap().reports.unwrap();
    assert_eq!(
        (reports.source.to_string().as_str(), reports.lifetime),
        ("ipn:2.3004", Duration::from_secs(7200))
    );
    for (keys, words) in [
        ("collect = \"bundles:x\"", "'x' is not an endpoint"),
        (
            "collect = \"bundles:ipn:9.3003\"\ntoken = \"secret\"",
            "not for bundles",
        ),
        ("collect = \"http://x/y\"", "neither tcp:HOST:PORT"),
        (
            "collect = \"lab\"\ndomain = \"../x\"",
            "a domain is letters, digits",
        ),
        ("collect = \"lab\"\ninterval = \"1ms\"", "at least 10ms"),
        ("collect = \"lab\"\npoints = [\"recieved\"]", "received"),
    ] {
        let error = NodeFile::parse(&measure(keys), Path::new("beta/node.toml")).unwrap_err();
        assert!(
            format!("{error} {:?}", error.hint).contains(words),
            "{keys}: {error}"
        );
    }
}

#[test]
fn the_published_json_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/node.schema.json");
    let current = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    if std::env::var_os("DHOW_UPDATE").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == current,
        "docs/node.schema.json is out of date: run this test with DHOW_UPDATE=1"
    );
}

#[test]
fn discovery_has_its_defaults_and_links_like_one_of_the_file() {
    let file = parse(&format!(
        "{NODE}[[link]]\nname = \"lan\"\naddress = \"192.0.2.1\"\nenabled = false\nprotocol = \"tcpcl3\"\nconnect_timeout = \"9s\"\n\
         [[discover]]\n[[discover]]\nlike = \"lan\"\naddress = [\"224.0.0.26:3003\", \"ff02::142\", \"192.0.2.255\"]\n\
         format = [\"cbor\", \"dtn2\"]\nperiod = \"2s\"\naccept = [\"dtn://*/**\"]\nannounce = true\nneighbours = 7\n"
    ));
    let [usual, other] = file.node.discover.as_slice() else {
        panic!("two entries");
    };
    let shown = |at: usize| {
        let addresses = file.discover[at].destinations.iter();
        addresses.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown(0), ["224.0.0.142:4551", "[ff02::142]:4551"]);
    assert_eq!(
        shown(1),
        ["224.0.0.26:3003", "[ff02::142]:4551", "192.0.2.255:4551"]
    );
    assert_eq!(
        (usual.period_ms, usual.neighbours, usual.destinations),
        (1_000, 256, 2)
    );
    assert_eq!(usual.link.protocol, Protocol::Auto);
    assert_eq!(
        (other.period_ms, other.neighbours, other.destinations),
        (2_000, 7, 3)
    );
    assert_eq!(other.link.protocol, Protocol::Tcpcl3);
    assert_eq!((usual.dtn2, other.dtn2), (Enabled::No, Enabled::Yes));
    assert_eq!(file.discover[1].dial.timeout, Duration::from_secs(9));
}

#[test]
fn discovery_that_could_find_nobody_is_refused() {
    let bibe = "[[link]]\nname = \"far\"\nprotocol = \"bibe\"\npeer = \"ipn:9.0\"\n";
    for (text, said) in [
        (
            "[[discover]]\nlike = \"lan\"\n",
            "no [[link]] is named 'lan'",
        ),
        (
            &format!("{bibe}[[discover]]\nlike = \"far\"\n"),
            "beacons have no name for protocol \"bibe\"",
        ),
        (
            "[[discover]]\naddress = []\n",
            "'address' must name 1 to 32 addresses",
        ),
        (
            "[[discover]]\naddress = [\"host.example:4551\"]\n",
            "'host.example:4551' is not an address of beacons",
        ),
        (
            "[[discover]]\naddress = [\"224.0.0.142:0\"]\n",
            "is not an address of beacons",
        ),
        ("[[discover]]\nformat = []\n", "'format' is empty"),
        (
            "[[discover]]\nannounce = false\nlisten = false\n",
            "neither 'announce' nor 'listen' is true",
        ),
        (
            "[[discover]]\nperiod = \"10ms\"\n",
            "'period' must be from 100ms to 1h",
        ),
        (
            "[[discover]]\naccept = [\"ipn\"]\n",
            "is not an endpoint-ID pattern",
        ),
        (
            "[[discover]]\naccept = []\n",
            "'accept' names nobody\nhint: without the key every node may be found; for example: accept = ",
        ),
        (
            "[[discover]]\naccept = [\"ipn:[1-9].*\", \"ipn:6.*|ipn:5.1\"]\n",
            "'ipn:5.1' matches no node ID\nhint: a node ID is ipn:5.0 or dtn://beta/",
        ),
        (
            "[[discover]]\naccept = [\"dtn://beta/mail\"]\n",
            "'dtn://beta/mail' matches no node ID",
        ),
    ] {
        let refusal = refusal(&format!("{NODE}{text}"));
        assert!(refusal.contains(said), "{refusal}");
    }
}
