use super::*;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn plan(text: &str) -> Result<Plan, FileError> {
    Plan::read(Path::new("plan"), text, None, s(1_000))
}

/// A contact's line, direction, seconds and rate.
fn seen(plan: &Plan) -> Vec<(usize, u32, u32, u64, u64, Option<u64>)> {
    let contacts = plan.contacts.iter();
    let seen = contacts.map(|it| {
        (
            it.line,
            it.from,
            it.to,
            it.start.as_secs(),
            it.end.as_secs(),
            it.rate,
        )
    });
    seen.collect()
}

#[test]
fn each_format_is_seen_from_its_first_line_and_read_in_both_directions() {
    let ion = "# ours\na contact +10 +20 1 2 2000\na contact +15 +30 2 1 2000\na range +0 +1000 1 2 3\na contact +70 +80 2 3 0\n";
    let hdtn = r#"{ "contacts": [
            { "contact": 0, "source": 1, "dest": 2, "startTime": 10, "endTime": 20, "rateBitsPerSec": 16000, "owlt": 3 },
            { "contact": 1, "source": 2, "dest": 1, "startTime": 15, "endTime": 30, "rateBitsPerSec": 16000 },
            { "contact": 2, "source": 2, "dest": 3, "startTime": 70, "endTime": 80, "rateBitsPerSec": 0 }
        ] }"#;
    let one = "10.0 CONN 1 2 up\n30 CONN 2 1 down\n990 CONN 3 1 up\n";
    for (text, format) in [
        (ion, Format::Ion),
        (hdtn, Format::Hdtn),
        (one, Format::One),
        ("1 2 0 9", Format::Table),
    ] {
        assert_eq!(Format::of(text), format, "{text}");
    }
    let rate = Some(2_000);
    let read = |text| plan(text).expect(text);
    assert_eq!(
        seen(&read(ion)),
        [(2, 1, 2, 10, 20, rate), (3, 2, 1, 15, 30, rate)]
    );
    assert_eq!(
        seen(&read(hdtn)),
        [(2, 1, 2, 10, 20, rate), (3, 2, 1, 15, 30, rate)]
    );
    // A connection that is up at the end lasts until then.
    assert_eq!(
        seen(&read(one)),
        [
            (1, 1, 2, 10, 30, None),
            (1, 2, 1, 10, 30, None),
            (3, 1, 3, 990, 1_000, None),
            (3, 3, 1, 990, 1_000, None)
        ]
    );
    let range = |text| {
        read(text)
            .ranges
            .first()
            .map(|it| (it.from, it.to, it.delay))
    };
    assert_eq!(
        [ion, hdtn, one].map(range),
        [Some((1, 2, s(3))), Some((1, 2, s(3))), None]
    );
}

#[test]
fn hosts_that_count_from_0_are_counted_from_1() {
    let trace = plan("1 CONN p0 p1 up\n2 CONN p0 p1 down\n").expect("a trace");
    assert!(trace.counts_from_0());
    let trace = trace.counted_from_1();
    assert_eq!(seen(&trace), [(1, 1, 2, 1, 2, None), (1, 2, 1, 1, 2, None)]);
    assert!(!trace.counts_from_0());
}

#[test]
fn every_named_format_is_one() {
    assert!(FORMATS.iter().all(|name| Format::named(name).is_some()));
    assert_eq!(Format::named("csv"), None);
}

#[test]
fn a_bad_line_is_named() {
    for (text, said) in [
        (
            "a contact +10 +20 1 2\n",
            "plan:1: 'a …' is not a line of a contact plan",
        ),
        (
            "\na contact +20 +10 1 2 5\n",
            "plan:2: it ends before it begins",
        ),
        (
            "a contact 2030/1/1 +10 1 2 5\n",
            "plan:1: '2030/1/1' is not a time: seconds from the start, '+60', or UTC, '2026/11/27-02:30:00'",
        ),
        (
            "a range +0 +10 1 1 5\n",
            "plan:1: node 1 needs no contact with itself",
        ),
        (
            "1.0 CONN 1 2 up\n2.0 CONN 1 2 sideways\n",
            "plan:2: 'sideways' is neither up nor down",
        ),
        (
            "1.0 CONN 1 2 up\n0.5 CONN 1 2 down\n",
            "plan:2: it is earlier than the line before",
        ),
        ("1.0 CONN 1 2 down\n", "plan:1: 1 and 2 are not connected"),
        (
            "1.0 CONN 1 2 up\n2 CONN 2 1 up\n",
            "plan:2: 1 and 2 are connected already",
        ),
        ("1.0 CONN 1 p up\n", "plan:1: 'p' is not a node number"),
        ("1.0 CONN 1 p2q up\n", "plan:1: 'p2q' is not a node number"),
        (
            "1.0 CONN 1 2 up\n1.0 C M1 1 2 100\n",
            "plan:2: '1.0 C M1 1 2 100' is not a line of a connectivity trace",
        ),
        (
            "soon CONN 1 2 up\n",
            "plan:1: 'soon' is not a number of seconds",
        ),
        (
            "{\n \"contacts\": [\n  {\"source\": 1}\n ]\n}\n",
            "plan:3: missing field `dest`",
        ),
        (
            "{ \"contacts\": [\n{\"source\":1,\"dest\":2,\"startTime\":9,\"endTime\":5,\"rateBitsPerSec\":8}\n] }",
            "plan:2: it ends before it begins",
        ),
        ("{ \"contacts\": [\n", "plan:2: EOF while parsing a list"),
    ] {
        let error = plan(text).expect_err("it is refused");
        assert_eq!(error.to_string(), said);
        assert!(error.hint.is_some());
    }
}

#[test]
fn tables_have_a_contact_in_each_line() {
    let text = "# node node start end number\n1\t8 121 121 1 0\n\n3,1,10.5,130,2,40\n";
    assert_eq!(
        seen(&plan(text).expect(text)),
        [
            (2, 1, 8, 121, 122, None),
            (2, 8, 1, 121, 122, None),
            (4, 3, 1, 10, 130, None),
            (4, 1, 3, 10, 130, None)
        ]
    );
    // Dates: from the first beginning on.
    let dates = "1 2 1156083900 1156084000\n2 3 1156083800 1156083850\n";
    let read = seen(&plan(dates).expect(dates));
    assert_eq!((read[0].3, read[0].4, read[2].3), (100, 200, 0));
    for (text, expected) in [
        (
            "1 2 0 9\n1 2 3",
            "plan:2: '1 2 3' does not have four columns",
        ),
        ("1 2 9 0", "plan:1: it ends before it begins"),
        (
            "1 2 0 9\n1 1 0 9",
            "plan:2: node 1 needs no contact with itself",
        ),
        ("1 2 0 NaN", "plan:1: 'NaN' is not a number of seconds"),
    ] {
        let error = plan(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn plans_of_ion_have_dates_or_times_behind_their_start() {
    let dates = "1 1 ''\ns\nm horizon +0\na range 2026/11/27-02:29:00 2026/11/28-00:00:00 1 2 240\n\
                 a contact 2026/11/27-02:30:00 2026/11/27-03:00:00 1 2 2000\n";
    let read = plan(dates).expect("a plan");
    assert_eq!(read.unix_start, Some(s(1_795_746_540)));
    assert_eq!(seen(&read), [(5, 1, 2, 60, 1_860, Some(2_000))]);
    let behind = "@ 2026/11/27-02:29:00\na range +0 +77460 1 2 240\na contact +60 +1860 1 2 2000\n";
    let counted = plan(behind).expect("a plan");
    assert_eq!(counted.unix_start, read.unix_start);
    assert_eq!((seen(&counted)[0].3, seen(&counted)[0].4), (60, 1_860));
    assert_eq!(counted.ranges[0].end, read.ranges[0].end);
    let behind = behind.replace('@', "#");
    assert_eq!(plan(&behind).expect("a plan").unix_start, None);
    for (wrong, line, word) in [
        ("a contact +0 2026/11/27-03:00:00 1 2 9\n", 1, "not both"),
        (
            "a range +0 +9 1 2 3\n@ 2026/11/27-02:29:00\na contact +0 +9 1 2 9\n",
            3,
            "not both",
        ),
        ("a contact 2026/13/27-02:30:00 +9 1 2 9\n", 1, "not a time"),
        ("a contact 1999/12/31-23:59:59 +9 1 2 9\n", 1, "not a time"),
        ("a contact 2026/11/27 +9 1 2 9\n", 1, "not a time"),
        ("@ tomorrow\n", 1, "not a time"),
        ("1 2 0\n", 1, "not a line"),
        (
            "a contact 2026/11/27-02:30:00 2026/11/27-02:30:00 1 2 9\n",
            1,
            "ends before",
        ),
        ("d contact +0 1 2\n", 1, "not a line"),
    ] {
        let error = plan(wrong).expect_err(wrong).to_string();
        assert!(
            error.contains(&format!("plan:{line}: ")) && error.contains(word),
            "{error}"
        );
    }
}
