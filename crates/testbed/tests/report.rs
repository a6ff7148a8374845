//! The page of a study says what was found, and what was lost.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it does not expect"
)]

use std::path::Path;
use std::sync::OnceLock;

use dhow_scenario::plan::{Extent, Plan};
use dhow_testbed::report::{Measure, Question, Study, page};
use dhow_testbed::results::{
    Backend, Capacity, Conditions, Contact, Figure, Limited, Payload, Ran, Resource, Results, Run,
    Status,
};
use dhow_testbed::simulated;
use tempfile::TempDir;

const SCENARIO: &str = r#"
name = "Drive-by"
seed = 3
[[node]]
name = "beta"
[[node]]
name = "gamma"
[[link]]
between = ["beta", "gamma"]
rate = "2Mbit"
[[contact]]
link = "beta-gamma"
start = "5s"
for = "20s"
[[traffic]]
from = "beta"
to = "gamma"
count = 600
size = "20kB"
[stop]
at = "40s"
[sweep]
"traffic.size" = ["10kB", "20kB", "50kB"]
[runs]
repeats = 2
[report]
question = "Does <size> matter?"
x = "traffic.size"
expects = "level"
log_x = "yes"
paper = "paper.csv"
"#;

/// A study of which every run took place in virtual time, once for all tests.
fn study(place: &Path) -> (Results, Question) {
    study_with(place, &[])
}

/// That of the scenario with values set over it; values of the report alone need no other runs.
fn study_with(place: &Path, settings: &[&str]) -> (Results, Question) {
    static RAN: OnceLock<TempDir> = OnceLock::new();
    if settings.iter().any(|it| !it.starts_with("report.")) {
        return run(place, settings);
    }
    let ran = RAN.get_or_init(|| {
        let ran = tempfile::tempdir().unwrap();
        run(ran.path(), &[]);
        ran
    });
    copy(ran.path(), place);
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let path = place.join("drive-by.toml");
    let plan = Plan::parse(&path, SCENARIO, &settings, Extent::Usual).unwrap();
    let scenario = plan.scenario(plan.runs.first().unwrap()).unwrap();
    let question = Question::read(&scenario.name, &scenario.report, place).unwrap();
    (Results::open(&place.join("out")).unwrap(), question)
}

/// A directory and what is in it, elsewhere.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let there = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &there);
        } else {
            std::fs::copy(entry.path(), there).unwrap();
        }
    }
}

/// Runs the scenario with values set over it.
fn run(place: &Path, settings: &[&str]) -> (Results, Question) {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let path = place.join("drive-by.toml");
    std::fs::write(
        place.join("paper.csv"),
        "x,group,value,source\n# bit/s\n10kB,,100000,Fig 7\n50kB,,2000000,Fig 7\n",
    )
    .unwrap();
    let plan = Plan::parse(&path, SCENARIO, &settings, Extent::Usual).unwrap();
    let results = Results::create(&place.join("out")).unwrap();
    let mut question = None;
    for planned in &plan.runs {
        let scenario = plan.scenario(planned).unwrap();
        let keys = &scenario.report;
        question = Some(Question::read(&scenario.name, keys, place).unwrap());
        let ended = simulated::run(&scenario, planned.seed, &mut |_| true).unwrap();
        let run = simulated::keep(&ended, &scenario, planned, &results).unwrap();
        assert_eq!(run.status, Status::Done);
    }
    (results, question.unwrap())
}

#[test]
fn a_page_says_what_was_found_and_what_others_found() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study(place.path());
    let study = Study::read(question, &results).unwrap();
    assert_eq!(study.runs.len(), 6);
    let page = page("Drive-by", "", &[study]);
    for words in [
        "<em>Does &lt;size&gt; matter?</em>",
        "The hypothesis that goodput is the same at all points within 1 % <strong>held</strong>.",
        "None was delivered altered or twice.",
        "link beta-gamma (",
        "the paper",
        "The paper's numbers are from Fig 7.",
        "<td>50kB</td>",
        "10 kB</text>",
    ] {
        assert!(page.contains(words), "{words} is not in {page}");
    }
    // Nothing is asked for from elsewhere.
    assert!(!page.contains("src=") && !page.contains("href="), "{page}");
}

#[test]
fn hypotheses_of_others_stand_beside_what_was_found() {
    let place = tempfile::tempdir().unwrap();
    let stated = [
        "report.hypothesis=Larger is better.",
        "report.found=It is.",
        "report.more=delivery, written_ratio:gamma:beta",
    ];
    let (results, question) = study_with(place.path(), &stated);
    let study = Study::read(question, &results).unwrap();
    let both = page("Drive-by", "", &[study.clone(), study.clone()]);
    for words in [
        "<h3>Hypotheses</h3>",
        ">Larger is better.</span>",
        ">It is.</span>",
        "<strong>held</strong>. The limit was link beta-gamma (6 runs).</span>",
        "<h3>Experiments</h3>",
    ] {
        assert!(both.contains(words), "{words} is not in {both}");
    }
    // Each further measure has a picture of its own, and no figures of others.
    let one = page("Drive-by", "", &[study]);
    assert!(one.contains("The paper's hypothesis: Larger is better."));
    assert!(one.contains("Share delivered, by traffic.size"), "{one}");
    assert!(!one.contains("Hypotheses"));
    assert_eq!(one.matches("The paper's numbers").count(), 1);
}

#[test]
fn what_is_expected_may_hold_from_a_value_on() {
    for (from, words) in [
        ("20kB", "within 1 %, from 20kB on, <strong>held</strong>."),
        ("10kB", "within 1 %, from 10kB on, <strong>held</strong>."),
        ("50kB", "cannot be said: no curve has values at two points."),
        ("9kB", "cannot be said: no curve has values at two points."),
    ] {
        let place = tempfile::tempdir().unwrap();
        let from = format!("report.expects_from={from}");
        let (results, question) = study_with(place.path(), &[&from]);
        let study = Study::read(question, &results).unwrap();
        let page = page("Drive-by", "", &[study]);
        let said = page.contains("The hypothesis that");
        let is_told = words.contains("held");
        assert!(page.contains(words) && said == is_told, "{page}");
    }
}

#[test]
fn what_others_found_is_points_without_a_line_between() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study(place.path());
    let study = Study::read(question, &results).unwrap();
    let page = page("Drive-by", "", &[study]);
    assert!(page.contains("<circle class=\"dot faint\""), "{page}");
    assert!(!page.contains("<path class=\"curve faint\""), "{page}");
}

#[test]
fn more_than_links_could_carry_is_a_defect_and_no_figure() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study(place.path());
    let first = results.runs().unwrap().into_iter().next().unwrap();
    let mut payloads = results.read::<Payload>(&first.run).unwrap();
    // 2 Mbit/s carry 250 kB in a second of contact.
    for payload in &mut payloads {
        payload.delivered_s = payload.delivered_s.map(|_| 6.0);
    }
    results.write(&first.run, &payloads).unwrap();
    let study = Study::read(question, &results).unwrap();
    let told: Vec<(&str, String)> = study.impossible().collect();
    assert_eq!((told.len(), told[0].0), (1, first.run.as_str()));
    let words = "over link beta-gamma, which could carry 250 kB at most from the first sending to the last delivery";
    assert!(told[0].1.contains(words), "{told:?}");
    let page = page("Drive-by", "", &[study]);
    assert!(
        page.contains(words) && page.contains("It is in no figure."),
        "{page}"
    );
    assert!(
        page.contains("<td>10kB</td>") && page.contains("<td>1</td>"),
        "{page}"
    );
}

#[test]
fn runs_that_failed_for_one_reason_are_told_in_one_sentence() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study(place.path());
    for run in results.runs().unwrap() {
        let status = Status::Failed("the same".to_owned());
        results.seal(&Run { status, ..run }).unwrap();
    }
    let study = Study::read(question, &results).unwrap();
    let page = page("Drive-by", "", &[study]);
    let words = "Runs sim-0001, sim-0002, sim-0003, sim-0004, sim-0005, sim-0006 failed: the same. They are in no figure.";
    assert!(page.contains(words), "{page}");
    assert_eq!(page.matches("the same").count(), 1);
}

#[test]
fn curves_of_one_verdict_are_told_in_one_sentence() {
    let place = tempfile::tempdir().unwrap();
    let more = [
        "sweep.traffic.lifetime=[\"1h\", \"2h\"]",
        "report.group_by=traffic.lifetime",
    ];
    let (results, question) = study_with(place.path(), &more);
    let study = Study::read(question, &results).unwrap();
    let page = page("Drive-by", "", &[study]);
    assert_eq!(page.matches("The hypothesis that").count(), 1, "{page}");
    assert!(page.contains("goodput of 1h; 2h is"), "{page}");
    // A curve is told with the key that makes it.
    assert!(page.contains(">traffic.lifetime = 1h<"), "{page}");
}

/// The columns of the lines of the first table behind a place of a page.
fn lines_behind(page: &str, place: &str) -> Vec<Vec<String>> {
    let (_, table) = page.split_once(place).unwrap();
    let table = table.split("</table>").next().unwrap();
    let lines = table.split("<tr>").skip(2);
    let cell = |it: &str| {
        let text = it.split_once('>').unwrap().1;
        text.split("</td>").next().unwrap().to_owned()
    };
    lines
        .map(|line| line.split("<td").skip(1).map(cell).collect())
        .collect()
}

#[test]
fn values_of_a_key_are_apart_and_its_time_is_no_delay() {
    let place = tempfile::tempdir().unwrap();
    let more = [
        "traffic.count=5",
        "runs.repeats=1",
        "sweep.traffic.size=[\"20kB\"]",
        "sweep.link.delay=[\"0s\", \"3s\"]",
        "report.apart=link.delay",
        "report.y=delay_less:link.delay",
        "report.table=[\"delay_median\", \"goodput_less:link.delay\", \"drain\"]",
    ];
    let (results, question) = study_with(place.path(), &more);
    let study = Study::read(question, &results).unwrap();
    let of = |measure: &str| {
        let measure: Measure = measure.parse().unwrap();
        let runs = study.runs.iter();
        runs.map(|run| measure.of(run).unwrap()).collect::<Vec<_>>()
    };
    let less = [0.0, 3.0].iter().zip(of("delay_median"));
    let less: Vec<f64> = less.map(|(set, delay)| delay - set).collect();
    assert_eq!(of("delay_less:link.delay"), less);
    let rates = [0.0, 3.0].iter().zip(of("drain"));
    let rates: Vec<f64> = rates.map(|(set, time)| 800_000.0 / (time - set)).collect();
    assert_eq!(of("goodput_less:link.delay"), rates);
    let page = page("Drive-by", "", &[study]);
    let each = "Median delay less link.delay, by traffic.size, for each link.delay";
    let apart = page.split(each).nth(1).unwrap();
    let panels = apart.split("<table").next().unwrap();
    for value in ["0s", "3s"] {
        let title = format!("<p>link.delay = {value}</p>");
        assert_eq!(panels.matches(&title).count(), 1, "{panels}");
    }
    let lines = lines_behind(&page, each);
    let keys: Vec<&str> = lines.iter().map(|line| line[1].as_str()).collect();
    assert_eq!(keys, ["0s", "3s"]);
    // Both together are one point.
    let together = page.split(each).next().unwrap();
    let lines = lines_behind(together, "Median delay less link.delay, by traffic.size");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn a_run_that_failed_is_told_and_is_in_no_figure() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study(place.path());
    let failed = results.runs().unwrap().into_iter().next().unwrap();
    let status = Status::Failed("node gamma ended: \"no <space>\"".to_owned());
    results.seal(&Run { status, ..failed }).unwrap();
    let study = Study::read(question, &results).unwrap();
    let page = page("Drive-by", "", &[study]);
    let words =
        "Run sim-0001 failed: node gamma ended: &quot;no &lt;space&gt;&quot;. It is in no figure.";
    assert!(page.contains(words), "{page}");
    // Nothing of it is in a curve, a mean or a list of figures: the other run of its size stands alone.
    assert!(
        page.contains("<td>10kB</td>") && page.contains("<td>1</td>"),
        "{page}"
    );
}

#[test]
fn runs_that_failed_are_in_no_curve_of_delays() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study(place.path());
    let curves = |results: &Results| {
        let study = Study::read(question.clone(), results).unwrap();
        let page = page("Drive-by", "", &[study]);
        let begin = page.find("<figure><figcaption>Delay");
        page[begin.unwrap()..]
            .split("</figure>")
            .next()
            .unwrap()
            .to_owned()
    };
    assert!(curves(&results).contains(">traffic.size = 10kB<"));
    for run in results.runs().unwrap() {
        if run.point.value("traffic.size") == Some("10kB") {
            let status = Status::Failed("nobody knows why".to_owned());
            results.seal(&Run { status, ..run }).unwrap();
        }
    }
    let after = curves(&results);
    assert!(
        !after.contains("= 10kB<") && after.contains("= 20kB<"),
        "{after}"
    );
}

#[test]
fn what_hosts_used_and_what_a_megabyte_cost_is_told() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study(place.path());
    let page_of = || {
        let study = Study::read(question.clone(), &results).unwrap();
        page("Drive-by", "", &[study])
    };
    let before = page_of();
    assert!(before.contains("Cost of a megabyte") && !before.contains("Resources that hosts used"));
    // 20 s of contact for what a run of 10 kB delivered; virtual time has no processors, and nothing says what they take.
    let runs = results.runs().unwrap();
    let small = |run: &&Run| run.point.value("traffic.size") == Some("10kB");
    let run = runs.iter().find(small).unwrap();
    let megabytes = f64::from(u32::try_from(run.delivered_octets).unwrap()) / 1e6;
    assert!((run.link_s_per_mb.unwrap() - 20.0 / megabytes).abs() < 1e-9);
    assert_eq!((run.cpu_s_per_mb, run.joules_per_mb), (None, None));
    let sample = |time_s: f64, user_s, wait_s, rss_octets| Resource {
        node: "gamma".to_owned(),
        time_s,
        user_s,
        wait_s,
        rss_octets,
        switches: 1_234,
        ..Resource::default()
    };
    let samples = [sample(6.0, 0.0, 0.0, 9_000_000), sample(10.0, 1.0, 3.5, 1)];
    results.write(&run.run, &samples).unwrap();
    let after = page_of();
    assert!(!after.contains("± 0"), "{after}");
    for words in [
        "s, whatever the seed</td>",
        "<td>identical for all seeds</td>",
        "<td>10kB</td><td>–</td>",
        "<th>no core</th><th>waited for locks</th><th>machine idle for disk</th>",
        "<td>1.0 s</td><td>0 ms</td><td>3.5 s</td><td>0 ms</td><td>0 ms</td><td>9.0 MB</td><td>0</td><td>1,234</td>",
        "<td>core</td>",
    ] {
        assert!(after.contains(words), "{words} is not in {after}");
    }
    // Without payloads a host's time is that of the whole run.
    results.write::<Payload>(&run.run, &[]).unwrap();
    assert!(page_of().contains("<td>core</td>"));
}

#[test]
fn where_not_all_was_delivered_there_is_no_time_until_it_was() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study_with(place.path(), &["report.y=drain", "traffic.count=100"]);
    for run in results.runs().unwrap() {
        let is_whole = run.point.value("traffic.size") != Some("50kB");
        assert_eq!(run.drain_s.is_some(), is_whole);
        assert_eq!(run.delivery == Some(1.0), is_whole);
        let octets = f64::from(u32::try_from(run.delivered_octets).unwrap());
        assert_eq!(run.goodput_bit_s, Some(octets * 8.0 / 20.0));
        let delays = run.delay_median_s.zip(run.delay_p95_s).unwrap();
        assert!(delays.0 > 5.0 && delays.0 < delays.1 && delays.1 < 25.0);
    }
    let study = Study::read(question, &results).unwrap();
    let page = page("Drive-by", "", &[study]);
    // 5 MB in bundles do not fit the contact.
    let words = "Not all was delivered in 2 of 6 runs, which have no such time: whether it went as was expected cannot be said.";
    assert!(page.contains(words), "{page}");
    assert!(
        !page.contains("The hypothesis") && page.contains("<td>50kB</td><td>–</td>"),
        "{page}"
    );
}

#[test]
fn goodput_of_what_arrived_whole_is_not_judged() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study_with(place.path(), &["traffic.count=10"]);
    let study = Study::read(question, &results).unwrap();
    let page = page("Drive-by", "", &[study]);
    let words = "Everything that was sent arrived, so goodput is what was sent: whether";
    assert!(
        page.contains(words) && !page.contains("The hypothesis"),
        "{page}"
    );
}

#[test]
fn runs_without_payloads_show_what_programs_told() {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study_with(place.path(), &["traffic.count=10"]);
    for run in results.runs().unwrap() {
        results.write::<Payload>(&run.run, &[]).unwrap();
        let (sent, delivered) = (0, 0);
        let none = Run {
            sent,
            delivered,
            ..run
        };
        results.write::<Figure>(&none.run, &[]).unwrap();
        results.seal(&none).unwrap();
    }
    let page_of = || {
        let study = Study::read(question.clone(), &results).unwrap();
        page("Drive-by", "", &[study])
    };
    let words = "The runs came to their end and have no payloads: what hosts used is in";
    assert!(page_of().contains(words), "{}", page_of());
    for run in results.runs().unwrap() {
        let figure = Figure {
            node: "beta".to_owned(),
            program: "probe".to_owned(),
            time_s: 1.0,
            name: "rate".to_owned(),
            value: 8e6,
            unit: "bit/s".to_owned(),
        };
        results.write(&run.run, &[figure]).unwrap();
    }
    let words = "Rate of probe was the same everywhere: <strong>8.00 Mbit/s</strong>.";
    assert!(page_of().contains(words), "{}", page_of());
}

#[test]
fn goodput_stands_beside_the_yardstick_of_its_own_run() {
    let place = tempfile::tempdir().unwrap();
    let measure: Measure = "goodput_of:goodput:tcp".parse().unwrap();
    let (results, question) = study(place.path());
    let of = |results: &Results| -> Vec<Option<f64>> {
        let study = Study::read(question.clone(), results).unwrap();
        study.runs.iter().map(|it| measure.of(it)).collect()
    };
    assert!(of(&results).iter().all(Option::is_none), "nobody told it");
    let study = Study::read(question.clone(), &results).unwrap();
    for summary in &study.runs {
        let figure = |program: &str, times: f64| Figure {
            node: "beta".to_owned(),
            program: program.to_owned(),
            time_s: 1.0,
            name: "goodput".to_owned(),
            value: summary.goodput().unwrap() * times,
            unit: "bit/s".to_owned(),
        };
        let figures = [figure("tcp", 2.0), figure("another", 50.0)];
        results.write(&summary.run.run, &figures).unwrap();
    }
    let shares = of(&results);
    assert_eq!(shares.len(), study.runs.len());
    assert!(shares.iter().all(|it| *it == Some(0.5)), "{shares:?}");
}

#[test]
fn a_table_has_several_measures_of_each_point_and_what_limited_it() {
    let place = tempfile::tempdir().unwrap();
    let table = "report.table=[\"figure:jitter:probe\", \"cpu:beta\", \"cpu_share:beta\", \"measurements_made\"]";
    let (results, question) = study_with(place.path(), &["report.y=figure:rate", table]);
    let ran = |program: &str, from_s, until_s| Ran {
        program: program.to_owned(),
        node: "beta".to_owned(),
        from_s,
        until_s,
        killed: program == "load",
        failed: None,
    };
    let figure = |name: &str, value, unit: &str| Figure {
        node: "beta".to_owned(),
        program: "probe".to_owned(),
        time_s: 1.0,
        name: name.to_owned(),
        value,
        unit: unit.to_owned(),
    };
    let used = |time_s, user_s| Resource {
        node: "beta".to_owned(),
        time_s,
        user_s,
        ..Resource::default()
    };
    let half = Capacity {
        name: "beta".to_owned(),
        resource: Limited::Processor,
        amount: Some(0.5),
        ..Capacity::default()
    };
    for run in results.runs().unwrap() {
        results.write::<Payload>(&run.run, &[]).unwrap();
        let figures = [figure("rate", 8e6, "bit/s"), figure("jitter", 0.25, "s")];
        results.write(&run.run, &figures).unwrap();
        // Both programs ran from 10 s to 20 s, in which beta used 4.8 s of the 5 s that it may.
        let samples = [
            used(2.0, 0.0),
            used(10.0, 0.2),
            used(20.0, 5.0),
            used(30.0, 5.0),
        ];
        results.write(&run.run, &samples).unwrap();
        results
            .write(&run.run, std::slice::from_ref(&half))
            .unwrap();
        let conditions = Conditions {
            programs: vec![ran("probe", 3.0, 20.0), ran("load", 10.0, 25.0)],
            ..Conditions::default()
        };
        results.write_conditions(&run.run, &conditions).unwrap();
        let without_payloads = Run {
            sent: 0,
            delivered: 0,
            samples: 1_200,
            samples_lost: 34,
            ..run
        };
        results.seal(&without_payloads).unwrap();
    }
    let study = Study::read(question, &results).unwrap();
    let page = page("Drive-by", "", &[study]);
    for words in [
        "<th>rate</th><th>the paper</th><th>jitter of probe</th><th>processor time of beta</th><th>processor share of beta</th><th>measurements made</th><th class=\"named\">limit</th>",
        "<td>8.00 Mbit/s</td><td>100 kbit/s</td><td>250 ms</td><td>5.0 s</td><td>96.0 %</td><td>1,234</td>",
        "processor of beta (96 %)",
        "Program load did not end within its grace in 6 runs and was killed.",
    ] {
        assert!(page.contains(words), "{words} is not in {page}");
    }
}

/// The page of a study with runs of both backends: those on sockets are the others, changed.
fn page_of_both(change: impl Fn(Run) -> Run) -> String {
    let place = tempfile::tempdir().unwrap();
    let (results, question) = study_with(place.path(), &["sweep.traffic.size=[\"10kB\"]"]);
    for run in results.runs().unwrap() {
        let name = run.run.replace("sim-", "");
        let payloads = results.read::<Payload>(&run.run).unwrap();
        let contacts = results.read::<Contact>(&run.run).unwrap();
        let capacities = results.read::<Capacity>(&run.run).unwrap();
        results.begin(&name).unwrap();
        results.write(&name, &payloads).unwrap();
        results.write(&name, &contacts).unwrap();
        results.write(&name, &capacities).unwrap();
        let conditions = Conditions::default();
        results.write_conditions(&name, &conditions).unwrap();
        let real = Run {
            run: name,
            backend: Backend::Netns,
            ..run
        };
        results.seal(&change(real)).unwrap();
    }
    let study = Study::read(question, &results).unwrap();
    page("Drive-by", "", &[study])
}

#[test]
fn a_refused_payload_fails_a_run_in_virtual_time_as_on_sockets() {
    for (may, fails) in [("false", true), ("true", false)] {
        let place = tempfile::tempdir().unwrap();
        let small = SCENARIO.replace("name = \"beta\"", "name = \"beta\"\nquota = \"1MB\"");
        let small = small.replace("[stop]", &format!("[stop]\nmay_refuse = {may}"));
        let path = place.path().join("s.toml");
        let plan = Plan::parse(&path, &small, &[], Extent::Usual).unwrap();
        let results = Results::create(&place.path().join("out")).unwrap();
        let planned = &plan.runs[0];
        let scenario = plan.scenario(planned).unwrap();
        let ended = simulated::run(&scenario, planned.seed, &mut |_| true).unwrap();
        let run = simulated::keep(&ended, &scenario, planned, &results).unwrap();
        assert!(run.refused > 0);
        let words = "payloads were refused";
        assert_eq!(run.status.to_string().contains(words), fails, "{run:?}");
    }
}

#[test]
fn a_difference_is_told_of_what_was_compared_alone() {
    let same = page_of_both(|run| run);
    assert!(same.contains("No difference is above 5 %."), "{same}");
    let none = page_of_both(|run| Run {
        status: Status::Failed("so it is".to_owned()),
        ..run
    });
    let words = "Nothing was compared. One side alone cannot be compared: no run with traffic.size=10kB on sockets came to its end.";
    assert!(none.contains(words), "{none}");
    assert!(!none.contains("No difference") && !none.contains("NaN"));
    // A run that delivered nothing has goodput and a share, which have no ratio.
    let nothing = page_of_both(|run| Run {
        delivered: 0,
        delivered_octets: 0,
        ..run
    });
    assert!(nothing.contains("and 0 on sockets"), "{nothing}");
    assert!(!nothing.contains("NaN") && !nothing.contains("inf"));
}

#[test]
fn what_a_report_cannot_show_is_named() {
    let keys = |key, value: &str| [(key, value.to_owned())].into();
    let asked = |key, value| {
        let question = Question::read("x", &keys(key, value), Path::new("/nowhere"));
        question.unwrap_err().to_string()
    };
    assert!(asked("y", "speed").starts_with("[report]: 'speed' is not measured: goodput,"));
    assert!(asked("y", "godput").contains("did you mean 'goodput'? goodput, delivery,"));
    assert!(asked("table", "delivery\nspeed").starts_with("[report]: 'speed' is not measured:"));
    assert!(
        asked("expects", "wonders")
            .ends_with("'wonders': 'rises', 'falls' and 'level' are what it can be")
    );
    assert!(asked("expects", "rise").contains("did you mean 'rises'?"));
    let unswept = |key, value, swept: &[&str]| {
        let question = Question::read("x", &keys(key, value), Path::new("/nowhere")).unwrap();
        question.check_swept(swept).unwrap_err().to_string()
    };
    assert_eq!(
        unswept("x", "traffic.sise", &["variant", "traffic.size"]),
        "[report]: x is 'traffic.sise', which is not swept: did you mean 'traffic.size'? 'variant', 'traffic.size' are"
    );
    assert!(
        unswept("group_by", "a", &["b"]).ends_with("group_by is 'a', which is not swept: 'b' is")
    );
    assert!(unswept("x", "a", &[]).ends_with("not swept: nothing is"));
    assert!(unswept("apart", "a", &["b"]).contains("apart is 'a', which is not swept"));
    assert!(unswept("y", "delay_less:a", &["b"]).contains("measure is 'a', which is not swept"));
    let swept = Question::read("x", &keys("x", "a"), Path::new("/nowhere")).unwrap();
    assert!(swept.check_swept(&["b", "a"]).is_ok());
    assert!(asked("paper", "paper.csv").starts_with("/nowhere/paper.csv: "));
    let place = tempfile::tempdir().unwrap();
    for number in ["nan", "inf", "-inf"] {
        let file = format!("x,group,value,source\n10kB,,{number},Fig 7\n");
        std::fs::write(place.path().join("paper.csv"), file).unwrap();
        let error = Question::read("x", &keys("paper", "paper.csv"), place.path()).unwrap_err();
        let words = "the numbers of '10kB' are not all finite";
        assert!(error.to_string().ends_with(words), "{error}");
    }
}
