//! The page of a report tells the results of runs, and needs nothing but itself.

use std::path::Path;

use dhow_scenario::Scenario;
use dhow_sim::report::{Summary, page, tables};
use dhow_sim::{Outcome, Run};

/// Two nodes and what passes between them, with some lines more of the link, the traffic and the nodes.
fn outcome(seed: u64, node: &str, link: &str, rest: &str) -> Outcome {
    outcome_of(&scenario(node, link, rest), seed)
}

fn scenario(node: &str, link: &str, rest: &str) -> Scenario {
    let text = format!(
        "[[node]]\nname = \"a\"\n{node}\n[[node]]\nname = \"<b>\"\n[[link]]\nbetween = [\"a\", \"<b>\"]\n{link}\n\
         [[traffic]]\nfrom = \"a\"\nto = \"<b>\"\nsize = \"50kB..60kB\"\nmean = \"1min\"\n{rest}\n"
    );
    Scenario::parse(Path::new("two.toml"), &text).expect("a scenario")
}

fn outcome_of(scenario: &Scenario, seed: u64) -> Outcome {
    let mut run = Run::new(scenario, seed).expect("there is a way");
    while run.advance(100_000) {}
    run.finish()
}

fn shown(outcomes: &[Outcome]) -> String {
    let runs: Vec<Summary> = outcomes.iter().map(Summary::of).collect();
    page("Two & a boat", &runs, &outcomes[0])
}

#[test]
fn a_run_is_told_in_words_with_what_limited_it() {
    let rare = "rate = \"1Mbit\"\n[[contact]]\nlink = \"a-<b>\"\nstart = \"30min\"\nfor = \"2min\"";
    for (node, link, rest, said) in [
        (
            "",
            "rate = \"1Mbit\"",
            "count = 20\n[stop]\nat = \"1h\"",
            "Neither links nor stores were full",
        ),
        (
            "",
            "rate = \"6kbit\"",
            "count = 50\n[stop]\nat = \"1h\"",
            "Links were the limit: 1 was at a utilisation of 80 %",
        ),
        (
            "",
            rare,
            "count = 20\n[stop]\nat = \"1h\"",
            "Contacts were the limit: the mean availability of links was 3.3 %",
        ),
        (
            "quota = \"1MB\"",
            rare,
            "[stop]\nat = \"1h\"",
            "Stores were the limit: ",
        ),
    ] {
        let page = shown(&[outcome(1, node, link, rest)]);
        assert!(page.contains(said), "{said}: {page}");
        assert!(page.contains("No oracle found a violation"), "{said}");
    }
    let all = shown(&[outcome(
        1,
        "",
        "rate = \"1Mbit\"",
        "count = 20\n[stop]\nat = \"1h\"",
    )]);
    assert!(all.contains(
        "20 payloads (1.1 MB) were sent; <strong>all were delivered</strong>. The median delay was"
    ));
    let none = shown(&[outcome(1, "", rare, "count = 5\n[stop]\nat = \"20min\"")]);
    assert!(
        none.contains("none was delivered. Of the others, 5 were on their way at the end."),
        "{none}"
    );
    let late = shown(&[outcome(
        1,
        "",
        rare,
        "count = 9\nlifetime = \"12min\"\n[stop]\nat = \"1h\"",
    )]);
    assert!(
        !none.contains("Delay: share") && all.contains("Delay: share"),
        "{none}"
    );
    assert!(late.contains(" expired."), "{late}");
}

#[test]
fn where_no_bundle_leaves_nobody_waited_for_the_next_contact() {
    let short = "rate = \"1Mbit\"\ndelay = \"1s\"\n[[contact]]\nlink = \"a-<b>\"\nstart = \"1min\"\nfor = \"2s\"\nevery = \"1min\"";
    let outcome = outcome(1, "", short, "count = 5\n[stop]\nat = \"20min\"");
    assert_eq!(outcome.counts.forwarded, 0);
    let page = shown(&[outcome]);
    assert!(
        page.contains("No bundle went over a link, in 19 contacts with"),
        "{page}"
    );
    assert!(
        page.contains("either no session was ready before its contact ended"),
        "{page}"
    );
    assert!(
        !page.contains("waited for contacts") && !page.contains("utilisation of 0.0 %"),
        "{page}"
    );
}

#[test]
fn payloads_that_were_refused_are_in_a_column_of_their_own() {
    let rare = "rate = \"1Mbit\"\n[[contact]]\nlink = \"a-<b>\"\nstart = \"30min\"\nfor = \"2min\"";
    let outcome = outcome(1, "quota = \"1MB\"", rare, "[stop]\nat = \"1h\"");
    let refused = outcome.payloads.iter().filter(|it| it.is_refused).count();
    assert!(refused > 0 && outcome.refused == u64::try_from(refused).expect("few"));
    let page = shown(&[outcome]);
    assert!(
        page.contains("<th>refused</th><th>not accepted</th>"),
        "{page}"
    );
    assert!(
        page.contains(&format!("<td>{refused}</td><td>0</td>")),
        "{page}"
    );
}

#[test]
fn seeds_are_told_together_and_each_with_its_hash() {
    let runs: Vec<Outcome> = (1..=5)
        .map(|seed| {
            outcome(
                seed,
                "",
                "rate = \"1Mbit\"",
                "count = 20\n[stop]\nat = \"1h\"",
            )
        })
        .collect();
    let page = shown(&runs);
    assert!(page.contains("5 seeds were run, 1 to 5: in none did an oracle find a violation. In each, 100.0 % of the payloads were delivered; the median delay was"));
    for run in &runs {
        assert!(page.contains(&format!("<code>{:016x}</code>", run.trace_hash)));
    }
}

#[test]
fn a_page_asks_for_nothing_from_elsewhere_and_names_stay_in_their_places() {
    let page = shown(&[outcome(
        1,
        "",
        "rate = \"1Mbit\"",
        "count = 20\n[stop]\nat = \"1h\"",
    )]);
    assert!(page.contains("<h1>Two &amp; a boat</h1>") && page.contains("&lt;b&gt;"));
    let own = page.replace("http://www.w3.org/2000/svg", "");
    for asks in [
        "http", "src=", "href=", "url(", "@import", "<script", "<link", "<b>",
    ] {
        assert!(!own.contains(asks), "{asks}");
    }
}

#[test]
fn a_run_that_is_interrupted_is_marked_and_in_no_figure_over_all_seeds() {
    let text = "[[line]]\nname = \"n\"\ncount = 2\nrate = \"1Mbit\"\n[[traffic]]\nfrom = \"n1\"\nto = \"n2\"\n\
                size = \"1kB\"\nmean = \"1min\"\n[stop]\nat = \"1h\"\n";
    let scenario = Scenario::parse(Path::new("two.toml"), text).expect("a scenario");
    let ran = |seed: u64, events: u64| {
        let mut run = Run::new(&scenario, seed).expect("there is a way");
        while run.advance(events) && events == 1_000 {}
        run.finish()
    };
    let outcomes = [ran(1, 1_000), ran(2, 1_000), ran(3, 40)];
    let marks = outcomes.iter().map(|it| it.interrupted);
    assert_eq!(marks.collect::<Vec<_>>(), [false, false, true]);
    let page = shown(&outcomes);
    for said in [
        "2 seeds were run, 1 to 2",
        "Interrupted: 1 seed was ended before the end, and in no figure over all seeds.",
        "<td>3 (interrupted)</td>",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let lines = tables(&outcomes[2]).runs;
    assert_eq!(lines.split(',').nth(2), Some("true"), "{lines}");
}

#[test]
fn every_payload_is_in_one_category_also_those_that_a_crash_left_without_an_answer() {
    let crash = "count = 50\n[faults]\ncrash_at_flush = 0.4\n[stop]\nat = \"50min\"";
    let outcome = outcome(1, "", "rate = \"6kbit\"", crash);
    let waiting = outcome.payloads.iter().filter(|it| {
        let is_of_use = it.expires > outcome.progress.time;
        it.accepted.is_some() && it.delivered.is_none() && is_of_use
    });
    assert_eq!(
        outcome.on_their_way(),
        u64::try_from(waiting.count()).expect("few")
    );
    assert!(outcome.unaccepted > 3, "{}", outcome.unaccepted);
    let said = format!(
        "{} were not accepted (the node crashed, or the run ended, before it answered)",
        outcome.unaccepted
    );
    assert!(shown(&[outcome]).contains(&said), "{said}");
}

#[test]
fn violations_beyond_those_that_are_kept_are_counted() {
    let late = "count = 60\n[stop]\nat = \"2h\"\nexpects_all = true";
    let outcome = outcome(1, "", "rate = \"80bit\"", late);
    assert_eq!(outcome.findings.len(), 20);
    assert!(outcome.violations > 20, "{}", outcome.violations);
    let said = format!(
        "The first 20 of {} violations of seed 1.",
        outcome.violations
    );
    assert!(shown(&[outcome]).contains(&said), "{said}");
}

#[test]
fn a_run_with_losses_says_which_congestion_control_they_resemble() {
    let rest = "count = 20\n[stop]\nat = \"1h\"";
    let said = |link: &str| shown(&[outcome(1, "", link, rest)]).contains("TCP with BBR");
    assert!(said("rate = \"1Mbit\"\nloss = 0.01"));
    assert!(!said("rate = \"1Mbit\""));
    let mut named = scenario("", "rate = \"1Mbit\"\nloss = 0.01", rest);
    named.congestion_control = Some("reno".to_owned());
    assert!(shown(&[outcome_of(&named, 1)]).contains("Connections resemble TCP with reno."));
}
