use std::path::Path;

use dhow_bundle::Version;
use std::time::Duration;

use super::*;
use crate::scenario::{
    Aggregation, Dial, Failure, Framing, LinkIndex, LtpPolicy, OnSent, Presence, Protocol, RedPart,
    StcpPolicy, UdpPolicy,
};

const TWO: &str = r#"
[[node]]
name = "east"
[[node]]
name = "west"
[[link]]
between = ["east", "west"]
rate = "1Mbit"
"#;

fn refused(text: &str) -> String {
    let error = read(Path::new("s.toml"), text, &[]).expect_err("it is refused");
    match &error.hint {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_was_meant() {
    for (more, said) in [
        (
            "[stop]\nat = 5\n",
            "s.toml:10: 'at' must be text with a unit of time, not integer; for example: at = \"8d\"",
        ),
        (
            "[stop]\nat = \"1h\"\nseeed = 1\n",
            "s.toml:11: unknown key 'seeed' in [stop]; the keys are at, when_delivered, when_ended, may_refuse, expects_all",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"wset\"]\nrate = \"1Mbit\"\n",
            "s.toml:10: there is no node 'wset'; did you mean 'west'?",
        ),
        (
            "[[route]]\nnode = \"east\"\nto = \"west\"\nvia = \"east\"\n",
            "s.toml:12: no link joins 'east' and 'east'; 'via' is a neighbour of whose route it is",
        ),
        (
            "[[route]]\nnode = \"east\"\nto = \"east\"\nvia = \"west\"\n",
            "s.toml:11: a route of 'east' leads to 'east'; a node needs no route to itself",
        ),
        (
            "[[route]]\nnode = \"east\"\nto = \"west\"\nvia = \"west\"\n[[route]]\nnode = \"e*\"\nto = \"west\"\nvia = \"west\"\npriority = 2\n",
            "s.toml:16: 'east' has two routes to 'west' via 'west'; leave one out: it has one priority",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nrate = \"-1Mbit\"\n",
            "s.toml:11: 'rate' is not a rate: '-1Mbit' does not begin with a number; for example: rate = \"1Mbit\"",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\n",
            "s.toml:9: a link has a 'rate' or a 'rate_trace'; for example: rate = \"1Mbit\"",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nby = \"veth\"\n",
            "s.toml:9: a link has a 'rate' or a 'rate_trace'; rate = \"10Gbit\", say: it is for virtual time, and the cable of a lab goes as fast as it can",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nrate = \"8bit\"\nrate_trace = \"cell.trace\"\n",
            "s.toml:11: 'rate' does not go with 'rate_trace', which says how fast octets leave",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nrate_trace = \"no/cell.trace\"\n",
            "s.toml:11: 'rate_trace': there is no file no/cell.trace",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nrate = \"0bit\"\n",
            "s.toml:11: 'rate': a rate of nothing moves nothing; a link that is not there at times has a [[contact]] for when it is",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nrate = \"8bit\"\n",
            "s.toml:10: two links are named 'east-west'; a link joins two nodes, and has a name of its own (name = \"wire\")",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"east\"]\nrate = \"8bit\"\n",
            "s.toml:10: 'east' needs no link to itself; a link joins two nodes, and has a name of its own (name = \"wire\")",
        ),
        (
            "[[contact]]\nlink = \"east-west\"\nstart = \"2h\"\nend = \"1h\"\n",
            "s.toml:12: a contact that begins at 7200s ends at 3600s; it ends after it begins: 'end' counts from the start of the run, as 'start' does",
        ),
        (
            "[[contact]]\nlink = \"east-west\"\nfor = \"2h\"\nend = \"1h\"\n",
            "s.toml:12: [[contact]] has a 'for' and an 'end'; either says when it ends: leave one out",
        ),
        (
            "[[contact]]\nlink = \"east-west\"\n",
            "s.toml:9: [[contact]] has neither a 'for' nor an 'end'; for example: for = \"5min\", or end = \"1h\"",
        ),
        (
            "[[contact]]\nlink = \"cable\"\nfor = \"1h\"\n",
            "s.toml:10: there is no link 'cable'; a link is called by its name, or FIRST-SECOND where it has none",
        ),
        (
            "[[node]]\nname = \"q\"\n[[link]]\nbetween = [\"q\", \"east\"]\nname = \"wire\"\nrate = \"8bit\"\n[[contact]]\nlink = \"east-q\"\nfor = \"1h\"\n",
            "s.toml:16: there is no link 'east-q'; did you mean 'wire'?",
        ),
        (
            "[stop]\nat = \"5\"\n",
            "s.toml:10: 'at' is not a time: a time needs a unit: 5s; for example: at = \"8d\"",
        ),
        (
            "[[contact]]\nlink = \"west-east\"\nfor = \"1h\"\n",
            "s.toml:10: there is no link 'west-east'; did you mean 'east-west'?",
        ),
        (
            "[[contact]]\nlink = \"east-west\"\nfor = \"2h\"\nevery = \"1h\"\n",
            "s.toml:12: a contact lasts longer than the time until the next",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"15B\"\ncount = 1\n",
            "s.toml:12: 'size' is at least 16 octets, which say which payload it is",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"1kB\"\n",
            "s.toml:9: [[traffic]] lacks 'count'; only with 'every' or 'mean' it can go on for ever",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"1kB\"\ncount = 2\ntotal = \"2kB\"\n",
            "s.toml:14: [[traffic]] has 'count' or 'total'",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"east\"\nsize = \"1kB\"\ncount = 1\n",
            "s.toml:11: [[traffic]] goes from one node to another",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nname = \"wire\"\nrate = \"1Mbit\"\nloss = 1\n",
            "s.toml:13: over a link that loses so much nothing gets through; a loss is the fraction of packets that are lost: 0.01 is one of a hundred",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"west\"]\nname = \"wire\"\nrate = \"1Mbit\"\nloss = 0.9\nloss_burst = 3\n",
            "s.toml:13: 90% of packets cannot be lost in bursts of 3; give longer bursts, or a smaller loss",
        ),
        (
            "[[node]]\nname = \"far\"\nclock = \"none\"\n[[clock_step]]\nnode = \"far\"\nat = \"1h\"\nby = \"-1h\"\n",
            "s.toml:13: 'far' has no clock",
        ),
        (
            "[[node]]\nname = \"far\"\ndisk = \"400kB\"\n",
            "s.toml:11: a disk has at least 401408 octets; with less a store of such segments takes nothing",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\ncount = 9\n",
            "s.toml:9: [[traffic]] lacks 'size'; for example: size = \"2kB..50kB\", or a 'list'",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nlist = \"mail.txt\"\ncount = 9\n",
            "s.toml:13: 'count' does not go with 'list', which says sizes and times",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nlist = \"no/mail.txt\"\n",
            "s.toml:12: 'list' cannot be read: no/mail.txt: No such file or directory (os error 2)",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"1kB\"\ncount = 9\nburst = 3\n",
            "s.toml:14: 'burst' goes with 'every' or 'mean'; without them all are sent at once",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"1kB\"\ncount = 9\ncustody = true\n",
            "s.toml:14: bundles of version 7 have no 'custody'; version = 6",
        ),
        (
            "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"1kB\"\ncount = 9\nversion = 6\nlifetime = \"1500ms\"\n",
            "s.toml:15: the lifetime of a bundle of version 6 is in whole seconds",
        ),
        (
            "[faults]\ncrash_at_flush = 2\n",
            "s.toml:10: 'crash_at_flush' is a number from 0 to 1, to a billionth; for example: crash_at_flush = 0",
        ),
        (
            "[[node]]\nname = \"east\"\n",
            "s.toml:10: two nodes are named 'east'; each node has a name and a number of its own",
        ),
        (
            "[node]\nname = \"x\"\n",
            "s.toml:9: this is not valid TOML: duplicate key; each section of this name begins with a line [[node]]",
        ),
        ("", "s.toml: [stop] lacks 'at'; for example: at = \"8d\""),
    ] {
        let stop = if more.is_empty() || more.contains("[stop]") {
            ""
        } else {
            "[stop]\nat = \"1h\"\n"
        };
        assert_eq!(refused(&format!("{TWO}{more}{stop}")), said, "{more}");
    }
}

#[test]
fn keys_that_are_left_out_have_defaults() {
    let text = format!("{TWO}[stop]\nat = \"1h\"\n");
    let scenario = read(Path::new("labs/two.toml"), &text, &[]).expect("it is a scenario");
    assert_eq!((scenario.name.as_str(), scenario.seed), ("two", 1));
    let numbers: Vec<u32> = scenario.nodes.iter().map(|node| node.number).collect();
    assert_eq!(numbers, [1, 2]);
    let link = &scenario.links[0];
    assert_eq!(
        (link.name.as_str(), link.presence),
        ("east-west", Presence::Always)
    );
    assert_eq!(link.rate.octets_per_s(), 125_000);
}

#[test]
fn what_is_set_from_outside_holds_over_the_file() {
    let more = "[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"1kB\"\ncount = 1\n[stop]\nat = \"1h\"\n";
    let text = format!("{TWO}{more}");
    let settings = [
        "traffic.size=2kB..3kB",
        "link.east-west.rate=8Mbit",
        "stop.at=2h",
        "node.1.quota=5MB",
    ];
    let settings = settings.map(str::to_owned);
    let scenario = read(Path::new("s.toml"), &text, &settings).expect("it is a scenario");
    assert_eq!(
        (scenario.traffic[0].size.min, scenario.traffic[0].size.max),
        (2_000, 3_000)
    );
    assert_eq!(scenario.links[0].rate.octets_per_s(), 1_000_000);
    assert_eq!(scenario.stop.at, Duration::from_secs(7_200));
    assert_eq!(scenario.nodes[1].quota_octets, 5_000_000);
    let settings = ["node.0.name=zz".to_owned()];
    let error = read(Path::new("s.toml"), &text, &settings).expect_err("east is gone");
    assert_eq!(error.to_string(), "s.toml:7: there is no node 'east'");
    assert_eq!(
        error.hint.as_deref(),
        Some("without --set node.0.name=zz the file is right; did you mean 'west'?")
    );
    let settings = ["link.east-west.retry=never".to_owned()];
    let error = read(Path::new("s.toml"), &text, &settings).expect_err("it is not a time");
    assert_eq!(
        error.to_string(),
        "--set link.east-west.retry=never: 'retry' is not a time: 'never' does not begin with a number"
    );
}

#[test]
fn a_rate_may_be_a_trace_in_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("s.toml");
    let trace = directory.path().join("cell.trace");
    let text =
        "[[line]]\nname = \"n\"\ncount = 2\nrate_trace = \"cell.trace\"\n[stop]\nat = \"2h\"\n";
    std::fs::write(&trace, "0\n5\n10\n").expect("a trace");
    let scenario = read(&file, text, &[]).expect("it is a scenario");
    let link = &scenario.links[0];
    assert_eq!(link.rate.octets_per_s(), 3 * 1504 * 100);
    assert!(link.rate_trace.is_some());
    std::fs::write(&trace, "0\n5\n4\n").expect("a trace");
    let said = read(&file, text, &[])
        .expect_err("it is refused")
        .to_string();
    let place = trace.display();
    assert_eq!(
        said,
        format!("{place}:3: 4 ms are before 5 ms, which is the moment before it")
    );
}

#[test]
fn a_contact_plan_brings_links_and_contacts() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("s.toml");
    let plan = directory.path().join("plan.txt");
    std::fs::write(
        &plan,
        "0.0 CONN 0 1 up\n60.0 CONN 0 1 down\n5400 CONN 1 2 up\n",
    )
    .expect("a plan");
    let text = "[[nodes]]\nname = \"\"\ncount = 3\nfirst = 0\n[[contact_plan]]\nfile = \"plan.txt\"\nrate = \"1Mbit\"\n[stop]\nat = \"2h\"\n";
    let scenario = read(&file, text, &[]).expect("it is a scenario");
    let names: Vec<&str> = scenario
        .links
        .iter()
        .map(|link| link.name.as_str())
        .collect();
    assert_eq!(names, ["0-1", "1-2"]);
    let contacts: Vec<(u64, u64)> = scenario
        .contacts
        .iter()
        .map(|contact| (contact.start.as_secs(), contact.length.as_secs()))
        .collect();
    // A contact that is up at the end of the trace lasts until the end of the run.
    assert_eq!(contacts, [(0, 60), (5_400, 1_800)]);
    let said = |text: &str| {
        read(&file, text, &[])
            .expect_err("it is refused")
            .to_string()
    };
    let here = file.display();
    assert_eq!(
        said(&text.replace("rate = \"1Mbit\"\n", "")),
        format!("{here}:5: the plan names no rate")
    );
    assert_eq!(
        said(&text.replace("count = 3", "count = 2")),
        format!("{here}:6: the plan names node 2, which is none")
    );
    assert!(
        said(&text.replace("plan.txt", "plans.txt"))
            .starts_with(&format!("{here}:6: 'file' cannot be read: "))
    );
    std::fs::write(&plan, "0.0 CONN 0 1 up\n60.0 CONN 0 1\n").expect("a plan");
    assert_eq!(
        said(text),
        format!(
            "{}:2: '60.0 CONN 0 1' is not a line of a connectivity trace",
            plan.display()
        )
    );
}

#[test]
fn the_published_json_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenario.schema.json");
    let current = serde_json::to_string_pretty(&crate::json_schema()).expect("it is JSON") + "\n";
    if std::env::var_os("DHOW_UPDATE").is_some() {
        std::fs::write(&path, &current).expect("it can be written");
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == current,
        "docs/scenario.schema.json is out of date: run this test with DHOW_UPDATE=1"
    );
}

#[test]
fn keepalives_follow_the_delay_and_none_are_shorter_than_the_round_trip() {
    for (keys, keepalive_s) in [
        ("", 30),
        ("delay = \"2s\"", 30),
        ("delay = \"22min\"", 4 * 44 * 60),
        (
            "delay = [\"0 4min\", \"1d 5min\"]\njitter = \"1min\"",
            4 * 12 * 60,
        ),
        ("delay = \"3h\"", u16::MAX),
        ("delay = \"10h\"", 0),
        ("delay = \"22min\"\nkeepalive = \"0\"", 0),
        ("delay = \"22min\"\nkeepalive = \"44min\"", 44 * 60),
    ] {
        let text = format!("{TWO}{keys}\n[stop]\nat = \"1h\"\n");
        let scenario = read(Path::new("s.toml"), &text, &[]).unwrap();
        assert_eq!(scenario.links[0].keepalive_s, keepalive_s, "{keys}");
    }
    let text = format!("{TWO}keepalive = \"1500ms\"\n[stop]\nat = \"1h\"\n");
    assert_eq!(
        refused(&text),
        "s.toml:9: 'keepalive' is whole seconds, and 1.5s is not; for example: keepalive = \"2s\""
    );
    assert_eq!(
        refused(&format!(
            "{TWO}delay = \"22min\"\njitter = \"500ms\"\nkeepalive = \"44min\"\n[stop]\nat = \"1h\"\n"
        )),
        "s.toml:11: a 'keepalive' of 2640 s is shorter than the link's longest round trip, 2641 s: every session would end by \
         silence; without the key it follows from the delay; 0 is for none"
    );
}

#[test]
fn what_only_a_testbed_can_do_is_read_and_named_with_its_line() {
    let unsimulated = |more: &str| {
        let text = format!("{TWO}{more}[stop]\nat = \"1h\"\n");
        let scenario = read(Path::new("s.toml"), &text, &[]).expect("a scenario");
        scenario.unsimulated.map(|error| error.to_string())
    };
    assert_eq!(unsimulated("by = \"tbf\"\n"), None);
    for (more, said) in [
        (
            "duplicate = 0.1\n",
            "s.toml:9: 'duplicate' of [[link]] cannot be simulated",
        ),
        (
            "queue = \"64KiB\"\n",
            "s.toml:9: 'queue' of [[link]] cannot be simulated",
        ),
        (
            "[[node]]\nname = \"third\"\nkind = \"command\"\n",
            "s.toml:11: 'kind' of [[node]] cannot be simulated",
        ),
        (
            "[[nodes]]\nname = \"n\"\ncount = 3\ncpu = \"10%\"\n",
            "s.toml:12: 'cpu' of [[nodes]] cannot be simulated",
        ),
        (
            "[[program]]\nname = \"load\"\nnode = \"east\"\nrun = \"true\"\n",
            "s.toml:9: [[program]] cannot be simulated",
        ),
    ] {
        assert_eq!(unsimulated(more).as_deref(), Some(said));
    }
    let udp = "protocol = \"udp\"\nduplicate = 0.1\nreorder = 0.2\n";
    assert_eq!(unsimulated(udp), None);
}

#[test]
fn traffic_of_version_6_has_a_class_and_perhaps_custody_and_links_may_be_held_to_a_version() {
    let text = |link: &str, traffic: &str| {
        format!(
            "{TWO}{link}[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"1kB\"\ncount = 1\n{traffic}[stop]\nat = \"1h\"\n"
        )
    };
    let scenario =
        |link: &str, traffic: &str| read(Path::new("s.toml"), &text(link, traffic), &[]).unwrap();
    let flags = |traffic: &str| scenario("", traffic).traffic[0].flags();
    assert_eq!(flags(""), 0);
    assert_eq!(flags("version = 6\n"), 0x80, "normal (RFC 5050 4.2)");
    assert_eq!(
        flags("version = 6\nclass = \"bulk\"\ncustody = true\n"),
        0x08
    );
    assert_eq!(flags("version = 6\nclass = \"expedited\"\n"), 0x100);
    let newest = scenario("", "class = \"expedited\"\n").traffic[0].clone();
    assert_eq!(
        (newest.flags(), newest.class()),
        (0, dhow_bundle::v6::Priority::Expedited)
    );
    for (link, speaks) in [
        ("", None),
        ("bundle_versions = [6, 7]\n", None),
        ("bundle_versions = [6]\n", Some(Version::V6)),
        ("bundle_versions = [7]\n", Some(Version::V7)),
    ] {
        assert_eq!(scenario(link, "").links[0].speaks, speaks, "{link}");
    }
}

#[test]
fn a_link_of_stcp_or_mtcp_says_what_becomes_of_bundles_that_have_left() {
    let text = |keys: &str| format!("{TWO}{keys}[stop]\nat = \"1h\"\n");
    let protocol = |keys: &str| {
        let scenario = read(Path::new("s.toml"), &text(keys), &[]).unwrap();
        scenario.links[0].protocol
    };
    for (name, framing) in [
        ("stcp", Framing::Stcp),
        ("stcp-draft", Framing::StcpDraft),
        ("mtcp", Framing::Mtcp),
        ("encapsulation", Framing::Encapsulation),
    ] {
        let keys = format!("protocol = \"{name}\"\n");
        assert_eq!(protocol(&keys), Protocol::framed(framing));
        let on_sent = OnSent::Keep;
        let keep = Protocol::Stcp(StcpPolicy { framing, on_sent });
        let keys = format!("{keys}on_sent = \"keep\"\nretry = \"3s\"\n");
        assert_eq!(protocol(&keys), keep);
    }
    for (keys, said) in [
        (
            "protocol = \"stcp\"\nmtu = \"1kB\"\n",
            "s.toml:10: 'mtu' says nothing of this link's protocol; with protocol = \"udp\" it does",
        ),
        (
            "protocol = \"mtcp\"\nkeepalive = \"5s\"\n",
            "s.toml:10: 'keepalive' says nothing of this link's protocol; with protocol = \"stcp\" it does",
        ),
        (
            "on_sent = \"keep\"\n",
            "s.toml:9: 'on_sent' says nothing of this link's protocol; with protocol = \"udp\" it does",
        ),
    ] {
        assert_eq!(refused(&text(keys)), said);
    }
}

#[test]
fn a_link_over_ltp_takes_its_light_time_from_the_delay_and_sends_no_more_than_the_link_carries() {
    let text = |keys: &str| {
        let two = TWO.replace("rate = \"1Mbit\"\n", "rate = \"1Mbit\"\ndelay = \"4min\"\n");
        format!("{two}protocol = \"ltp\"\n{keys}[stop]\nat = \"1h\"\n")
    };
    let usual = LtpPolicy {
        mtu_octets: 1_232,
        octets_per_s: 125_000 * 1_232 / 1_260,
        light_time_ms: 240_000,
        ..LtpPolicy::default()
    };
    for (keys, ltp) in [
        ("", usual),
        (
            "mtu = \"128B\"\nsend_rate = \"8kbit\"\non_sent = \"keep\"\nred = \"none\"\n",
            LtpPolicy {
                mtu_octets: 128,
                octets_per_s: 1_000,
                on_sent: OnSent::Keep,
                red: RedPart::None,
                ..usual
            },
        ),
        (
            "red = \"10kB\"\naggregate = false\n",
            LtpPolicy {
                aggregation: Aggregation::Alone,
                red: RedPart::Octets(10_000),
                ..usual
            },
        ),
    ] {
        let scenario = read(Path::new("s.toml"), &text(keys), &[]).unwrap();
        assert_eq!(scenario.links[0].protocol, Protocol::Ltp(ltp), "{keys}");
    }
    let said = refused(&text("red = \"some\"\n"));
    assert!(said.contains("'some' is no red part"), "{said}");
    let said = refused(&text("retry = \"5s\"\n"));
    assert!(said.contains("'retry' says nothing"), "{said}");
    let tcp = text("red = \"all\"\n").replace("protocol = \"ltp\"\n", "");
    let said = refused(&tcp);
    assert!(said.contains("with protocol = \"ltp\" it does"), "{said}");
}

#[test]
fn a_link_over_udp_has_a_size_of_datagrams_and_a_rate_and_nothing_of_sessions() {
    let text = |keys: &str| format!("{TWO}{keys}[stop]\nat = \"1h\"\n");
    let protocol = |keys: &str| {
        let scenario = read(Path::new("s.toml"), &text(keys), &[]).unwrap();
        scenario.links[0].protocol
    };
    let forget = OnSent::Forget;
    for (keys, mtu_octets, octets_per_s, on_sent) in [
        ("", 1_232, 1_250_000, forget),
        ("on_sent = \"keep\"\n", 1_232, 1_250_000, OnSent::Keep),
        (
            "mtu = \"65507B\"\nsend_rate = \"8kbit\"\n",
            65_507,
            1_000,
            forget,
        ),
        ("mtu = \"128B\"\n", 128, 1_250_000, forget),
    ] {
        let udp = UdpPolicy {
            mtu_octets,
            octets_per_s,
            on_sent,
        };
        let keys = format!("protocol = \"udp\"\n{keys}");
        assert_eq!(protocol(&keys), Protocol::Udp(udp));
    }
    for (keys, said) in [
        (
            "protocol = \"udp\"\nmtu = \"127B\"\n",
            "s.toml:10: 'mtu' is 128 to 65507 octets",
        ),
        (
            "protocol = \"udp\"\nkeepalive = \"5s\"\n",
            "s.toml:10: 'keepalive' says nothing of this link's protocol; a link over UDP has no connection: nothing is dialled, and \
             nothing kept alive",
        ),
        (
            "mtu = \"1kB\"\n",
            "s.toml:9: 'mtu' says nothing of this link's protocol; with protocol = \"udp\" it does",
        ),
    ] {
        assert_eq!(refused(&text(keys)), said);
    }
}

#[test]
fn a_congestion_control_is_the_name_of_one() {
    let text = |name: &str| format!("congestion_control = \"{name}\"\n{TWO}\n[stop]\nat = \"1h\"");
    let read = |text: &str| read(Path::new("s.toml"), text, &[]).unwrap();
    assert_eq!(
        read(&text("bbr")).congestion_control.as_deref(),
        Some("bbr")
    );
    assert_eq!(
        read(&format!("{TWO}\n[stop]\nat = \"1h\"")).congestion_control,
        None
    );
    for name in ["", "../x", "bbr cubic", "abcdefghijklmnop"] {
        let said = refused(&text(name));
        assert!(
            said.contains("is not the name of a congestion control"),
            "{said}"
        );
    }
}

#[test]
fn what_would_never_happen_is_refused() {
    for (more, said) in [
        (
            "[[crash]]\nnode = \"east\"\nat = \"1h\"\n",
            "s.toml:11: [[crash]] is at 3600s, and the run is over at 3600s; 'at' counts from the start of the run; 'at' of [stop] is its end",
        ),
        (
            "[[clock_step]]\nnode = \"east\"\nat = \"9h\"\nby = \"1s\"\n",
            "s.toml:11: [[clock_step]] is at 32400s, and the run is over at 3600s; 'at' counts from the start of the run; 'at' of [stop] is its end",
        ),
        (
            "[[node]]\nname = \"n\"\ncustody_retry = \"999ms\"\n",
            "s.toml:11: 'custody_retry' must be at least 1s: no signal comes at once; for example: custody_retry = \"30s\"",
        ),
    ] {
        assert_eq!(refused(&format!("{TWO}{more}[stop]\nat = \"1h\"\n")), said);
    }
    assert_eq!(
        refused(&format!("{TWO}[stop]\nat = \"0s\"\n")),
        "s.toml:10: 'at' of [stop] is 0: the run would be over before it begins; for example: at = \"8d\"",
    );
    let edge = "[[crash]]\nnode = \"east\"\nat = \"3599s\"\n[[node]]\nname = \"n\"\ncustody_retry = \"1s\"\n";
    read(
        Path::new("s.toml"),
        &format!("{TWO}{edge}[stop]\nat = \"1h\"\n"),
        &[],
    )
    .unwrap();
}

#[test]
fn programs_that_wait_for_each_other_know_their_places() {
    let program = |name: &str, more: &str| {
        format!("[[program]]\nname = \"{name}\"\nnode = \"east\"\nrun = \"true\"\n{more}")
    };
    let server = program("server", "ready = \"up\"\nuntil = \"client\"\n");
    let client = program("client", "after = \"server\"\nmay_fail = true\n");
    let clock = program("clock", "output = \"time\"\nsince = \"client\"\n");
    let end = "[stop]\nat = \"1h\"\n";
    let text = format!("{TWO}{server}{client}{clock}{end}");
    let programs = read(Path::new("s.toml"), &text, &[])
        .expect("it is right")
        .programs;
    let places: Vec<_> = programs
        .iter()
        .map(|it| (it.after, it.until, it.since))
        .collect();
    assert_eq!(
        places,
        [
            (None, Some(1), None),
            (Some(0), None, None),
            (None, None, Some(1))
        ]
    );
    let failures: Vec<_> = programs.iter().map(|it| it.failure).collect();
    assert_eq!(
        failures,
        [Failure::OfRun, Failure::Measured, Failure::OfRun]
    );
    assert_eq!(programs[0].ready.as_deref(), Some("up"));
    let circle = [("a", "b"), ("b", "a")]
        .map(|(name, after)| program(name, &format!("after = \"{after}\"\n")));
    for (text, said) in [
        (circle.concat(), "wait for each other"),
        (program("a", "after = \"a\"\n"), "names another one"),
        (program("a", "until = \"b\"\n"), "there is no program 'b'"),
        (program("a", "ready = \"\"\n"), "'ready' is a text"),
        (
            program("a", "ready = \"x\"\noutput = \"iperf\"\n"),
            "prints figures",
        ),
        (
            format!("{server}{client}{}", program("a", "since = \"client\"\n")),
            "'since' says nothing",
        ),
    ] {
        let found = refused(&format!("{TWO}{text}{end}"));
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn a_link_that_is_used_in_its_contacts_has_some_and_nodes_with_clocks() {
    let contact = "[[contact]]\nlink = \"east-west\"\nstart = \"0\"\nfor = \"1s\"\n";
    let end = "[stop]\nat = \"1h\"\n";
    let planned = format!("{TWO}dial = \"contacts\"\n");
    let scenario = read(
        Path::new("s.toml"),
        &format!("{planned}{contact}{end}"),
        &[],
    );
    assert_eq!(scenario.expect("it is right").links[0].dial, Dial::Contacts);
    let without = refused(&format!("{planned}{end}"));
    assert!(
        without.contains("s.toml:9: ") && without.contains("has none"),
        "{without}"
    );
    let timeless = planned.replace("\"west\"\n[[link]]", "\"west\"\nclock = \"none\"\n[[link]]");
    let timeless = refused(&format!("{timeless}{contact}{end}"));
    assert!(timeless.contains("'west' has no clock"), "{timeless}");
}

#[test]
fn wrong_programs_and_hosts_are_refused() {
    let program = "[[program]]\nname = \"load\"\nnode = \"east\"\n";
    for (more, said) in [
        (format!("{program}run = \"'\"\n"), "s.toml:12: 'run' has a quote that does not end"),
        (format!("{program}run = \"\"\n"), "s.toml:12: 'run' names no program"),
        (
            format!("{program}run = \"true\"\nstart = \"5s\"\nstop = \"5s\"\n"),
            "s.toml:14: a program stops after it starts",
        ),
        (
            format!("{program}run = \"true\"\nenvironment = [\"X\"]\n"),
            "s.toml:13: 'X' sets no variable",
        ),
        (
            "[[node]]\nname = \"n\"\ncpu = \"10\"\n".to_owned(),
            "s.toml:11: 'cpu' is neither a part of a core nor a rate of TCP: '10'",
        ),
        (
            "[pause]\nat = \"1s\"\n".to_owned(),
            "s.toml:9: [pause] lacks 'until_stored_at'",
        ),
        (
            "[[node]]\nname = \"n\"\nkind = \"command\"\n[pause]\nuntil_stored_at = \"n\"\n".to_owned(),
            "s.toml:13: 'n' has no node that stores",
        ),
        (
            "[pause]\nat = \"1h\"\nuntil_stored_at = \"east\"\n".to_owned(),
            "s.toml:10: [pause] is at 3600s, and the run is over at 3600s",
        ),
        (
            "[[node]]\nname = \"n\"\ncpu = \"1%\"\ncpu_from = \"2s\"\ncpu_until = \"2s\"\n".to_owned(),
            "s.toml:13: 'cpu_until' is before 'cpu' holds",
        ),
        (
            "[[node]]\nname = \"n\"\nsettings = [\"durability=contact\"]\n".to_owned(),
            "s.toml:11: 'durability=contact' sets nothing",
        ),
        (
            "[[node]]\nname = \"n\"\nkind = \"command\"\n[[traffic]]\nfrom = \"n\"\nto = \"east\"\nsize = \"2kB\"\ncount = 1\n".to_owned(),
            "s.toml:12: 'n' has no node that sends or receives",
        ),
    ] {
        let text = format!("{TWO}{more}[stop]\nat = \"1h\"\n");
        let said_now = refused(&text);
        assert!(said_now.starts_with(said), "{said_now}");
    }
}

#[test]
fn a_total_is_as_many_bundles_as_have_so_much_in_the_mean() {
    for (size, count) in [("1kB", 15), ("2kB..4kB", 5), ("7kB", 3), ("1MB", 1)] {
        let text = format!(
            "{TWO}[[traffic]]\nfrom = \"east\"\nto = \"west\"\nsize = \"{size}\"\ntotal = \"15kB\"\n[stop]\nat = \"1h\"\n"
        );
        let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
        assert_eq!(scenario.traffic[0].count, Some(count), "{size}");
    }
}

/// Two hosts with two nodes each and one wire, and what is said beside.
fn shared(node: &str, link: &str) -> String {
    format!(
        "{TWO}[[node]]\nname = \"east2\"\nhost = \"east\"\n{node}[[node]]\nname = \"west2\"\nhost = \"west\"\n[[link]]\nname = \"second\"\nbetween = [\"east2\", \"west2\"]\n{link}\n[stop]\nat = \"1h\"\n"
    )
}

#[test]
fn nodes_may_be_on_one_host_and_links_over_one_wire() {
    let contact =
        "over = \"east-west\"\nretry = \"3s\"\n[[contact]]\nlink = \"east-west\"\nfor = \"9s\"\n";
    let text = shared("", contact);
    let scenario = read(Path::new("s.toml"), &text, &[]).expect("a scenario");
    let guests: Vec<_> = scenario.nodes.iter().map(|it| it.guest_of).collect();
    assert_eq!(guests, [None, None, Some(NodeIndex(0)), Some(NodeIndex(1))]);
    let [wire, second] = &scenario.links[..] else {
        panic!("{:?}", scenario.links);
    };
    assert_eq!((wire.over, second.over), (None, Some(LinkIndex(0))));
    assert_eq!(
        (second.rate, second.presence),
        (wire.rate, Presence::Planned)
    );
    assert_eq!((wire.retry.as_secs(), second.retry.as_secs()), (1, 3));
    let energy = format!("{TWO}[stop]\nat = \"1h\"\n[energy]\nhost = \"2W\"\n");
    let both = read(Path::new("s.toml"), &energy, &[]).expect("a scenario");
    assert!(both.unsimulated.is_none());
    let unsimulated = scenario.unsimulated.map(|error| error.to_string());
    let said = "s.toml:11: 'host' of [[node]] cannot be simulated";
    assert_eq!(unsimulated.as_deref(), Some(said));
}

#[test]
fn a_host_and_a_wire_are_said_once() {
    for (node, link, said) in [
        (
            "cpu = \"1%\"\n",
            "over = \"east-west\"",
            "s.toml:12: 'cpu' is of a host, and 'east2' is on that of 'east'; say it of 'east', whose limits hold for both",
        ),
        (
            "[[node]]\nname = \"third\"\nhost = \"east2\"\n",
            "over = \"east-west\"",
            "s.toml:14: 'east2' is itself on the host of 'east'; host = \"east\"",
        ),
        (
            "[[node]]\nname = \"third\"\nhost = \"third\"\n",
            "over = \"east-west\"",
            "s.toml:14: 'third' is its own host; without 'host' a node has one of its own",
        ),
        (
            "[[node]]\nname = \"third\"\nhost = \"esat\"\n",
            "over = \"east-west\"",
            "s.toml:14: there is no node 'esat'; did you mean 'east'?",
        ),
        (
            "[[link]]\nbetween = [\"east\", \"east2\"]\nrate = \"1Mbit\"\n",
            "over = \"east-west\"",
            "s.toml:13: 'east' and 'east2' are on one host; a link joins two nodes, and has a name of its own (name = \"wire\")",
        ),
        (
            "",
            "over = \"east-west\"\ndelay = \"1s\"",
            "s.toml:19: 'delay' is of a wire, and this link has none of its own ('over'); say it of the link whose wire it is; its contacts are that one's too",
        ),
        (
            "[[node]]\nname = \"third\"\n[[link]]\nname = \"far\"\nbetween = [\"east\", \"third\"]\nrate = \"1Mbit\"\n",
            "over = \"far\"",
            "s.toml:24: 'far' is a wire between other hosts; 'over' is a link with a wire of its own, between the same two hosts",
        ),
        (
            "",
            "over = \"east-west\"\n[[link]]\nname = \"third\"\nbetween = [\"east2\", \"west2\"]\nover = \"second\"",
            "s.toml:22: 'second' has no wire of its own; 'over' is a link with a wire of its own, between the same two hosts",
        ),
        (
            "",
            "over = \"east-west\"\n[[contact]]\nlink = \"second\"\nfor = \"9s\"",
            "s.toml:19: 'second' has the contacts of the link that it is over",
        ),
    ] {
        assert_eq!(refused(&shared(node, link)), said);
    }
}

#[test]
fn a_run_that_ends_with_its_programs_has_some() {
    let text = |program: &str| format!("{TWO}{program}[stop]\nat = \"1h\"\nwhen_ended = true\n");
    assert_eq!(
        refused(&text("")),
        "s.toml:11: 'when_ended' of [stop] says nothing without a [[program]]; 'when_delivered' ends a run when all payloads have arrived"
    );
    let one = "[[program]]\nname = \"p\"\nnode = \"east\"\nrun = \"true\"\n";
    assert!(read(Path::new("s.toml"), &text(one), &[]).is_ok());
}

#[test]
fn programs_that_never_run_are_refused() {
    let text = |more: &str| {
        format!("{TWO}[[program]]\nname = \"p\"\nnode = \"east\"\n{more}\n[stop]\nat = \"10s\"\n")
    };
    for (more, said) in [
        (
            "run = \"true\"\nstart = \"10s\"",
            "s.toml:13: a program starts at 10s, and the run is over at 10s; a later 'at' of [stop]",
        ),
        (
            "run = \"echo \\u0000\"",
            "s.toml:12: 'run' has a NUL, which no word may have; leave out \\u0000",
        ),
        (
            "run = \"true\"\nenvironment = [\"A=\\u0000\"]",
            "s.toml:13: 'A=\0' sets no variable; for example: environment = [\"RATE=5\"]",
        ),
    ] {
        assert_eq!(refused(&text(more)), said);
    }
}

#[test]
fn values_stand_in_the_words_of_programs() {
    let text = |more: &str| {
        format!(
            "{TWO}[[program]]\nname = \"load\"\nnode = \"east\"\nrun = \"send {{west}} --block {{block}}\"\nenvironment = [\"B={{block}}\"]\n[stop]\nat = \"1h\"\n[values]\n{more}"
        )
    };
    let settings = ["values.block=7".to_owned()];
    for (settings, block) in [(&[][..], "1kB"), (&settings[..], "7")] {
        let scenario = read(Path::new("s.toml"), &text("block = \"1kB\"\n"), settings);
        let programs = scenario.expect("a scenario").programs;
        assert_eq!(programs[0].words, ["send", "{west}", "--block", block]);
        assert_eq!(programs[0].environment[0].1, block);
    }
    for (more, said) in [
        (
            "blokc = 1",
            "s.toml:17: no program says {blokc}; 'run' and 'environment' of [[program]] may",
        ),
        (
            "west = 1",
            "s.toml:17: {west} stands for something else, and cannot be the name of a value; nodes' names, {collector}, {port} and {run} are taken",
        ),
        (
            "block = [1, 2]",
            "s.toml:17: 'block' of [values] is one value; [sweep] has lists: \"values.block\" = […]",
        ),
    ] {
        assert_eq!(refused(&text(more)), said);
    }
}
