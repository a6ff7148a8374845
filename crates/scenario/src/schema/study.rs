//! Sections for measurements: programs beside nodes, many runs of a scenario, and their report.

use dhow_document::schema::{Absent, Key, Kind, Occurs, Section, key, required, with_default};

use super::kinds::START;

/// `[[program]]`.
pub(super) const PROGRAM: Section = Section {
    name: "program",
    occurs: Occurs::Many,
    meaning: "A program that runs on a node; on a testbed only.",
    groups: &[&[
        required("name", Kind::Text, "\"load\"", "Its name in this file."),
        required("node", Kind::Text, "\"east\"", "The node that it runs on."),
        required(
            "run",
            Kind::Text,
            "\"iperf3 -c {west}\"",
            "The program and its words, apart as a shell would have them. {NODE} is that node's address as seen from here, {NODE:LINK} its address on a link, {collector} where measurements go, {collector:NODE} the same over the link to that node, which passes them on, {run} the run's name, {port} a free port, drawn for the run and the same for all its programs, {delay:LINK} the delay of a link at the start, {VALUE} what [values] says.",
        ),
        START,
        key(
            "stop",
            Kind::Duration,
            Absent::Means("at the end of the run"),
            "\"5min\"",
            "Time at which it is told to end, from the start of the run.",
        ),
        key(
            "after",
            Kind::Text,
            Absent::Means("none"),
            "\"server\"",
            "A program that it waits for, beside 'start': until that one is 'ready', or has ended with exit code 0 where it has no 'ready'. If that one fails, this one does not begin.",
        ),
        key(
            "until",
            Kind::Text,
            Absent::Means("none"),
            "\"client\"",
            "A program with whose end it is told to end.",
        ),
        key(
            "ready",
            Kind::Text,
            Absent::Means("when it has ended"),
            "\"Server listening\"",
            "A text: once it prints that, programs that are 'after' it begin.",
        ),
        key(
            "since",
            Kind::Text,
            Absent::Means("its own start"),
            "\"client\"",
            "A program with whose start the times of output = \"time\" begin.",
        ),
        with_default(
            "may_fail",
            Kind::Boolean,
            "false",
            "Its failure is a finding, which the report shows in the place of its figures, and does not fail the run.",
        ),
        key(
            "environment",
            Kind::TextList,
            Absent::Means("that of the testbed"),
            "[\"RATE=5\"]",
            "Variables of its environment.",
        ),
        with_default(
            "output",
            Kind::Choice(&["log", "figures", "iperf", "iperf3", "sftp", "time"]),
            "\"log\"",
            "The kind of its output: a log; figures, each a line of JSON with \"figure\", \"value\" and \"unit\"; or what iperf 2 prints (best with -y C, which has all digits), iperf3 with -J, or sftp and scp with -v. \"time\": a log, and the figures are the time until it ended by itself: from the start of its process, and from the first packet that its host then sent over a link (time_from_first_octet).",
        ),
    ]],
};

/// `[values]`.
pub(super) const VALUES: Section = Section {
    name: "values",
    occurs: Occurs::Loose,
    meaning: "Names with values, which stand for {NAME} in the words and the environment of programs: block = \"1kB\". A sweep of \"values.block\" runs them with others.",
    groups: &[],
};

/// `[sweep]`.
pub(super) const SWEEP: Section = Section {
    name: "sweep",
    occurs: Occurs::Loose,
    meaning: "Values of which every combination is run: \"traffic.size\" = [\"2kB\", \"4kB\"]. Each key is a path as --set takes it.",
    groups: &[],
};

/// `[[variant]]`.
pub(super) const VARIANT: Section = Section {
    name: "variant",
    occurs: Occurs::Many,
    meaning: "Values that are set together under one name; each variant is run with every combination of what is swept, as \"variant\" in tables.",
    groups: &[&[
        required(
            "name",
            Kind::Text,
            "\"two threads\"",
            "The variant's name in tables and pictures.",
        ),
        key(
            "set",
            Kind::TextList,
            Absent::Means("the file as it is"),
            "[\"traffic.count=1\"]",
            "PATH=VALUEs, as --set takes them.",
        ),
        key(
            "needs",
            Kind::TextList,
            Absent::Means("nothing"),
            "[\"iperf: apt-get install iperf\"]",
            "Programs that the variant runs, each with a hint on how to install it, or a congestion control of the kernel (\"congestion control bbr: modprobe tcp_bbr\"). A variant that lacks one is left out, with a note.",
        ),
    ]],
};

/// `[runs]`.
pub(super) const RUNS: Section = Section {
    name: "runs",
    occurs: Occurs::Once,
    meaning: "Number of repeats of each combination, their order, the backend that they are for, and how many run at once there.",
    groups: &[&[
        with_default(
            "repeats",
            Kind::Integer(1, 1_000_000),
            "1",
            "Number of repeats, each with the next seed.",
        ),
        with_default(
            "order",
            Kind::Choice(&["random", "given"]),
            "\"random\"",
            "\"random\": an order drawn from the seed, so that changes of the machine over time affect all combinations alike; \"given\": that of the file.",
        ),
        with_default(
            "backend",
            Kind::Choice(&["netns", "sim", "both"]),
            "\"netns\"",
            "The backend of dhow lab run where its --backend is not given: network namespaces in real time, virtual time, or one after the other.",
        ),
        with_default(
            "jobs",
            Kind::Integer(1, 1_000),
            "1",
            "Runs in network namespaces at once, where --jobs is not given: for runs that wait for light more than they work, since they share the processors.",
        ),
    ]],
};

/// `[full]`.
pub(super) const FULL: Section = Section {
    name: "full",
    occurs: Occurs::Loose,
    meaning: "Values that --full sets; each key is a path as --set takes it: \"runs.repeats\" = 30, \"sweep.traffic.size\" = [\"2kB\", \"4kB\"].",
    groups: &[],
};

/// `[energy]`.
pub(super) const ENERGY: Section = Section {
    name: "energy",
    occurs: Occurs::Once,
    meaning: "Energy that the network takes, for the report: joules for a megabyte delivered. Links are those that come and go; where none does, all are.",
    groups: &[&[
        with_default(
            "processor",
            Kind::Text,
            "\"0W\"",
            "A core while it is busy, beside its host: uW, mW, W or kW.",
        ),
        with_default(
            "host",
            Kind::Text,
            "\"0W\"",
            "A host, from the beginning of the run to its end: uW, mW, W or kW.",
        ),
        with_default(
            "link",
            Kind::Text,
            "\"0W\"",
            "Each of the two interfaces of a link while it is there: uW, mW, W or kW.",
        ),
        with_default(
            "octet",
            Kind::Text,
            "\"0J\"",
            "An octet sent over a link, at both ends together: pJ, nJ, uJ, mJ or J.",
        ),
    ]],
};

/// `[report]`.
pub(super) const REPORT: Section = Section {
    name: "report",
    occurs: Occurs::Once,
    meaning: "Contents of the report of many runs.",
    groups: &[&[
        text("title", "\"Drive-by\"", "Its title."),
        text(
            "question",
            "\"How much fits?\"",
            "The question that the report answers.",
        ),
        text(
            "found",
            "\"24 times as much at 50 kB.\"",
            "Finding of others, in a sentence.",
        ),
        text(
            "hypothesis",
            "\"More memory is of no use.\"",
            "A hypothesis of others that it tests, in a sentence: in the report of a directory, with 'found' and what was found here.",
        ),
        text(
            "expects",
            "\"level\"",
            "Expected course of y with x: \"rises\" or \"falls\" by a tenth and more from the first point to the last, or \"level\": is the same at all points within a margin. A verdict takes five runs of each point.",
        ),
        text(
            "expects_from",
            "\"24Mbit\"",
            "The value of x from which on 'expects' holds; from the first where it is not said.",
        ),
        text(
            "margin",
            "\"5%\"",
            "The part of its mean by which y may differ where it is expected to be level; 1% where it is not said.",
        ),
        text(
            "x",
            "\"traffic.size\"",
            "The swept key on the horizontal axis.",
        ),
        text(
            "y",
            "\"goodput\"",
            "The measure that is shown: goodput, delivery, delay_median, delay_p95, delay_max, drain, cpu_per_mb, link_seconds_per_mb, energy_per_mb, written_per_octet, written_ratio:NODE:NODE (while payloads could pass), measurements_made, measurements_stored, measurements_lost, cpu:NODE, cpu_share:NODE, figure:NAME or figure:NAME:PROGRAM, goodput_of:NAME or goodput_of:NAME:PROGRAM (goodput divided by that figure), delay_less:KEY or goodput_less:KEY (the median delay, and the payload by the time until all was delivered, less the time that a swept key is set to, as a link's delay).",
        ),
        key(
            "table",
            Kind::TextList,
            Absent::Means("y alone"),
            "[\"figure:jitter:west\", \"cpu:west\"]",
            "More measures, named as for y, for a table that has all of them beside y.",
        ),
        text(
            "more",
            "\"energy_per_mb, cpu_per_mb\"",
            "More measures, named as for y, each in a picture and a table of its own.",
        ),
        text(
            "group_by",
            "\"node.cpu\"",
            "The swept key with a curve for each of its values.",
        ),
        text(
            "apart",
            "\"link.space.delay\"",
            "The swept key whose values have a picture each, beside the one for all of them.",
        ),
        text("log_x", "\"yes\"", "Whether x is shown by its logarithm."),
        text("log_y", "\"yes\"", "Whether y is shown by its logarithm."),
        text(
            "paper",
            "\"paper.csv\"",
            "A CSV file with what others found: x,group,value,deviation,least,most,source.",
        ),
    ]],
};

/// A text that may be absent.
const fn text(name: &'static str, example: &'static str, meaning: &'static str) -> Key {
    key(name, Kind::Text, Absent::Means("nothing"), example, meaning)
}
