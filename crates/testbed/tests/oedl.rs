//! Scripts in OEDL: those that are understood with the scenarios that they become, and the others with what is said of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what fails by failing"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use dhow_scenario::Scenario;
use dhow_testbed::oedl::{OedlError, Options, Script, evaluate};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Scripts of a directory, in the order of their names; none where there is no interpreter.
fn scripts(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "rb"));
    paths.sort();
    assert!(!paths.is_empty());
    if matches!(evaluate(&Script::new(""), &[]), Err(OedlError::NoRuby)) {
        eprintln!("skipped: there is no Ruby interpreter");
        return Vec::new();
    }
    paths
}

fn scenario(path: &Path) -> Result<String, OedlError> {
    let text = fs::read_to_string(path).unwrap();
    let plan = evaluate(&Script::new(&text), &[])?;
    let options = Options {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        link_rate: None,
    };
    let (mut scenario, notes) = plan.scenario(&options)?;
    for note in notes {
        let line = note
            .line
            .map_or_else(String::new, |line| format!("line {line}: "));
        let _ = writeln!(scenario, "# note: {line}{}", note.what);
    }
    Ok(scenario)
}

fn assert_snapshot(path: &Path, text: &str) {
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        text,
        expected,
        "{} (UPDATE_SNAPSHOTS=1 accepts it)",
        path.display()
    );
}

fn become_scenarios(scripts: &[PathBuf], snapshots: &Path) {
    for path in scripts {
        let text = scenario(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let snapshot = snapshots.join(path.with_extension("toml").file_name().unwrap());
        let read = Scenario::parse(&snapshot, &text);
        assert!(read.is_ok(), "{}: {}", path.display(), read.unwrap_err());
        assert_snapshot(&snapshot, &text);
    }
}

#[test]
fn scripts_of_both_dialects_become_scenarios() {
    let place = root().join("tests/oedl/good");
    become_scenarios(&scripts(&place), &place);
}

/// Samson, Daneels, Braem and Blondia 2012, appendices A to D.
#[test]
fn the_papers_listings_become_scenarios() {
    let place = root().join("tests/oedl/paper");
    become_scenarios(&scripts(&root().join("../../labs/overhead")), &place);
}

#[test]
fn what_no_plan_can_have_is_named_with_its_line() {
    let place = root().join("tests/oedl/bad");
    let mut said = String::new();
    for path in scripts(&place) {
        let name = path.file_stem().unwrap().to_string_lossy();
        let error = match scenario(&path) {
            Err(error) => error,
            Ok(scenario) => panic!("{name} becomes a scenario:\n{scenario}"),
        };
        let error_said = error.to_string();
        // Each version of the interpreter reports syntax errors in its own words.
        let words = error_said
            .split_inclusive("syntax error")
            .next()
            .unwrap_or_default();
        let _ = writeln!(said, "{name}: {words}");
        if let Some(hint) = error.hint() {
            let _ = writeln!(said, "    hint: {hint}");
        }
    }
    if !said.is_empty() {
        assert_snapshot(&place.join("messages.txt"), &said);
    }
}

#[test]
fn what_a_script_leaves_to_chance_is_the_same_each_time() {
    let script = Script::new(
        "defGroup('A', 'a').exec(\"run #{rand(1 << 60)} #{Random.new.rand(1 << 60)} #{(1..50).to_a.shuffle.join(' ')}\")\nwait 1\n",
    );
    let plan = || match evaluate(&script, &[]) {
        Err(OedlError::NoRuby) => None,
        plan => Some(plan.unwrap()),
    };
    assert_eq!(plan(), plan());
}

#[test]
fn properties_of_the_command_line_are_those_of_the_script() {
    let script = Script::new(
        "defProperty('count', 3, '')\ndefProperty('on', false, '')\ndefProperty('who', 'a', '')\n\
         defGroup('A', property.who).exec(\"run #{property.count + 1} #{property.on}\")\nwait 1\n",
    );
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let set = [pair("count", "7"), pair("on", "true"), pair("who", "b")];
    let plan = match evaluate(&script, &set) {
        Err(OedlError::NoRuby) => return,
        plan => plan.unwrap(),
    };
    let (text, _) = plan.scenario(&Options::default()).unwrap();
    assert!(
        text.contains("run = \"run 8 true\"") && text.contains("node = \"b\""),
        "{text}"
    );
    let unknown = evaluate(&script, &[pair("cuont", "7")]).unwrap_err();
    assert!(unknown.to_string().contains("'cuont'"), "{unknown}");
    let wrong = evaluate(&script, &[pair("count", "many")]).unwrap_err();
    assert!(wrong.to_string().contains("line 1"), "{wrong}");
}
