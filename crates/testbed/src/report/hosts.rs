//! The resources that the hosts of each run used, and those for which they waited.

use dhow_page::quantity::{size, thousands};
use dhow_page::{Axis, List, escaped, text};

use super::measure::said;
use super::study::Study;
use super::summary::{RunSummary, Wait};
use crate::results::Resource;

/// Lines of the table, at most.
const LINES_MAX: usize = 100;

/// A line for each host of each run; nothing where nobody looked, as in virtual time.
pub(crate) fn table(study: &Study) -> String {
    let all: usize = study
        .runs
        .iter()
        .map(|summary| summary.resources.len())
        .sum();
    if all == 0 {
        return String::new();
    }
    let mut resources = study.runs.iter().flat_map(|summary| &summary.resources);
    let tells_disk_waits = resources.any(|it| it.disk_wait_s.is_some());
    let mut columns = vec!["host", "user", "system", "no core"];
    columns.extend(tells_disk_waits.then_some("waited for disk"));
    columns.extend([
        "waited for locks",
        "machine idle for disk",
        "memory, most",
        "page-ins",
        "switches",
        "disk read",
        "disk written",
        "waits for",
    ]);
    let mut list = List::new(&columns);
    let lines = study.runs.iter();
    let lines = lines.flat_map(|summary| summary.resources.iter().map(move |it| (summary, it)));
    for (summary, used) in lines.take(LINES_MAX) {
        let cells = cells(summary, used, tells_disk_waits);
        list.line(&cells.into_iter().map(text).collect::<Vec<_>>());
    }
    let shown = all.min(LINES_MAX);
    let table = list.end(shown, all, "all are in resources.csv.");
    format!(
        "<h3>Resources that hosts used</h3>{table}<p class=\"note\">Of each host's processes, from the beginning to 15 s after the last contact. Without a core are threads, one beside the other, that could have run: \
         others had it, or the host's limit was used up. A host waits for the thing that took most of the time in which payloads could pass, or where there were none programs ran together, or else of the run; one that waits for neither a \
         core nor a disk nor a lock waits for the network, and where the kernel does not count waits for disks (kernel.task_delayacct=1) for either of the two. It waits for memory where most of its waits for disks are for what it had read before \
         (hosts with a limit of memory tell), and for locks by what its threads did at each sample. Memory is what is resident of all of its processes; \
         a limit counts pages of programs and files for the host that read them first, so this may be above it.</p>"
    )
}

fn cells(summary: &RunSummary, used: &Resource, tells_disk_waits: bool) -> Vec<String> {
    let time = |seconds: f64| said(Axis::Time, seconds);
    let day = summary.days.iter().find(|day| day.node == used.node);
    let waits = day.map_or("–", |day| match day.waited_for() {
        Some(Wait::Processor) => "core",
        Some(Wait::Disk) => "disk",
        Some(Wait::Memory) => "memory",
        Some(Wait::Locks) => "locks",
        Some(Wait::Network) => "network",
        Some(Wait::NetworkOrDisk) => "network or disk",
        None => "nothing: busy",
    });
    let mut cells = vec![
        format!("{} {}", escaped(&summary.run.run), escaped(&used.node)),
        time(used.user_s),
        time(used.system_s),
        time(used.wait_s),
    ];
    if tells_disk_waits {
        cells.push(used.disk_wait_s.map_or_else(|| "–".to_owned(), time));
    }
    cells.extend([
        time(used.lock_wait_s),
        time(used.iowait_s),
        size(used.rss_octets),
        thousands(used.page_in),
        thousands(used.switches),
        size(used.disk_read_octets),
        size(used.disk_write_octets),
        waits.to_owned(),
    ]);
    cells
}
