//! The page of a report says what came of runs, and needs nothing but itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::path::Path;

use dhow_scenario::Scenario;
use dhow_sim::report::{Summary, page};
use dhow_sim::{Outcome, Run};

/// Two nodes and what passes between them, with some lines more of the link, the traffic and the nodes.
fn outcome(seed: u64, node: &str, link: &str, rest: &str) -> Outcome {
    let text = format!(
        "[[node]]\nname = \"a\"\n{node}\n[[node]]\nname = \"<b>\"\n[[link]]\nbetween = [\"a\", \"<b>\"]\n{link}\n\
         [[traffic]]\nfrom = \"a\"\nto = \"<b>\"\nsize = \"50kB..60kB\"\nmean = \"1min\"\n{rest}\n"
    );
    let scenario = Scenario::parse(Path::new("two.toml"), &text).expect("a scenario");
    let mut run = Run::new(&scenario, seed).expect("there is a way");
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
            "Links were the limit: 1 was used",
        ),
        (
            "",
            rare,
            "count = 20\n[stop]\nat = \"1h\"",
            "Contacts were the limit: links were there for 3.3 %",
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
    assert!(all.contains("20 payloads (1.0 MB) were sent; <strong>all were delivered</strong>. Half of them took at most"));
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
        late.contains(" were of no use any more before they arrived"),
        "{late}"
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
    assert!(page.contains("5 seeds were run, 1 to 5: in none did an oracle find a violation. In each, 100.0 % of the payloads were delivered; half of them took at most"));
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
