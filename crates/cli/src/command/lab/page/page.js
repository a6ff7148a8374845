// The page of a lab: what it is told by events, drawn. Names of nodes and links are shown as text alone.

import { $, Log, fill, number, octets, say, scaled, shape, things } from "./parts.js";

const ROWS = 40; // of each table
const GRAPH_NODES = 400; // a picture of more shows nothing
const NAMES_NODES = 60; // more names would lie on each other
const RATES_LINKS = 12; // so would more rates, which the table has
const TIMELINE_ROWS = 24;
const SILENCE_MS = 8000; // the lab says something every two seconds

const log = new Log($("events"), $("pause"));
let plan = null; // the run that is shown
let state = null; // what the lab said last
let before = []; // states of the run in the last seconds, for rates
let over = false;
let heard = performance.now();

const bits = (perSecond) => (perSecond >= 1 ? scaled(perSecond, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]) : "0");

function time(ms) {
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Bits a second of each link in each direction, over the last seconds of the run.
function rates() {
  const now = state?.run;
  const first = before[0];
  if (!now || !first || now.time_ms <= first.time_ms) return () => [0, 0];
  const seconds = (now.time_ms - first.time_ms) / 1000;
  return (at) => [1, 2].map((way) => ((now.links[at][way] - (first.links[at]?.[way] ?? 0)) * 8) / seconds);
}

function showProgress() {
  say($("study"), state.study || "Dhow lab");
  document.title = `${state.done + state.failed} of ${state.planned}: ${state.study}: Dhow lab`;
  const ended = state.done + state.failed;
  const parts = [`${number(state.done)} of ${things(state.planned, "run")} done`, `${number(state.under_way.length)} under way`];
  if (state.failed) parts.push(`${number(state.failed)} failed`);
  parts.push(`${time(state.elapsed_ms)} so far`);
  if (state.left_ms !== null && ended < state.planned) parts.push(`about ${time(state.left_ms)} left`);
  say($("summary"), `${parts.join(", ")}.`);
  $("all").max = Math.max(state.planned, 1);
  $("all").value = ended;
  say($("all-text"), `${number(ended)} of ${number(state.planned)}`);
  const list = $("under-way");
  while (list.children.length > state.under_way.length) list.lastElementChild.remove();
  state.under_way.forEach((run, at) => {
    let item = list.children[at];
    if (!item) {
      item = document.createElement("li");
      item.append(document.createElement("span"), document.createElement("progress"), document.createElement("span"));
      list.append(item);
    }
    const [name, bar, text] = item.children;
    say(name, run.set ? `${run.run} (${run.set})` : run.run);
    bar.max = Math.max(run.end_ms, 1);
    bar.value = run.time_ms;
    bar.setAttribute("aria-label", `Time of run ${run.run}`);
    say(text, `${time(run.time_ms)} of at most ${time(run.end_ms)}`);
  });
  $("none-under-way").hidden = state.under_way.length > 0;
}

// The next time at which a link comes or goes, by the plan.
function nextChange(at, now) {
  let next = Infinity;
  for (const [link, start, end] of plan.contacts) {
    if (link !== at) continue;
    if (start > now) next = Math.min(next, start);
    else if (end > now) next = Math.min(next, end);
  }
  return next < plan.end_ms ? next : null;
}

function showNetwork() {
  const run = state.run;
  const rate = rates();
  const upNodes = run.nodes.filter((it) => it[0]).length;
  const upLinks = run.links.filter((it) => it[0]).length;
  const waiting = run.nodes.reduce((sum, it) => sum + (it[1] ?? 0), 0);
  say($("shown"), `Run ${plan.run}${plan.set ? ` (${plan.set})` : ""} after ${time(run.time_ms)} of at most ${time(plan.end_ms)}; ${number(run.delivered)}${run.total === null ? "" : ` of ${number(run.total)}`} payloads delivered.`);
  say($("graph-text"), `${upNodes} of ${things(plan.nodes.length, "node")} up, ${upLinks} of ${things(plan.links.length, "link")} up, ${things(waiting, "bundle")} in stores.`);
  drawGraph(run, rate);
  const links = plan.links.map((link, at) => {
    const [there, back] = rate(at);
    const [up, forward, backward] = run.links[at] ?? [false, 0, 0];
    const next = link.planned ? nextChange(at, run.time_ms) : null;
    const change = next === null ? (link.planned ? "none planned" : "always there") : `${up ? "down" : "up"} in ${time(next - run.time_ms)}`;
    const cells = [
      `${link.name} (${plan.nodes[link.a].name} – ${plan.nodes[link.b].name})`,
      { text: up ? "up" : "down", kind: `state ${up ? "up" : "down"}` },
      change,
      { text: bits(there), kind: "number" },
      { text: bits(back), kind: "number" },
      { text: octets(forward + backward), kind: "number" },
    ];
    return { key: String(at), cells, most: there + back };
  });
  // Links change places only where there is no room for all.
  const shown = links.length > ROWS ? links.sort((one, other) => other.most - one.most).slice(0, ROWS) : links;
  fill($("link-rows"), shown);
  $("more-links").hidden = links.length <= ROWS;
  say($("more-links"), `${things(links.length - shown.length, "more link")} carry less.`);
}

// Only what moves is drawn anew: lines and discs stay as they were made for this run.
let drawn = null;

function makeGraph() {
  const graph = $("graph");
  graph.replaceChildren();
  drawn = null;
  const isDrawn = plan.nodes.length > 0 && plan.nodes.length <= GRAPH_NODES;
  graph.toggleAttribute("hidden", !isDrawn);
  if (!isDrawn) return;
  // The nodes, with room for discs about them.
  const [across, down] = ["x", "y"].map((key) => plan.nodes.map((node) => node[key]));
  const [x, y] = [Math.min(...across) - 70, Math.min(...down) - 60];
  const [width, height] = [Math.max(...across) + 70 - x, Math.max(...down) + 60 - y];
  graph.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  const scale = Math.min((graph.clientWidth || 500) / width, 544 / height);
  const named = plan.nodes.length <= NAMES_NODES;
  // Names stay as large as text beside the picture, whatever its size.
  const size = Math.max(9, Math.round(13 / Math.max(scale, 0.1)));
  const lines = plan.links.map((link) => {
    const [a, b] = [plan.nodes[link.a], plan.nodes[link.b]];
    const line = shape("path", { class: "link down", d: `M${a.x} ${a.y}L${b.x} ${b.y}` });
    line.append(shape("title", {}, link.name));
    graph.append(line);
    return line;
  });
  const labels = plan.links.map((link) => {
    if (!named || plan.links.length > RATES_LINKS) return null;
    const [a, b] = [plan.nodes[link.a], plan.nodes[link.b]];
    const label = shape("text", { class: "soft", x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 - size / 2, style: `font-size:${size}px` });
    graph.append(label);
    return label;
  });
  const nodes = plan.nodes.map((node) => {
    const disc = shape("circle", { class: "wait", cx: node.x, cy: node.y, r: 0 });
    const dot = shape("circle", { class: "node", cx: node.x, cy: node.y, r: Math.max(5, size / 2.4) });
    dot.append(shape("title", {}, node.name));
    graph.append(disc, dot);
    let name = null;
    if (named) {
      const below = node.y > plan.height / 2 ? size * 2 : -size * 1.3;
      graph.append(shape("text", { x: node.x, y: node.y + below, style: `font-size:${size}px` }, node.name));
      name = shape("text", { class: "soft", x: node.x, y: node.y + below + (below > 0 ? size * 1.15 : -size * 1.15), style: `font-size:${size}px` });
      graph.append(name);
    }
    return { disc, dot, name };
  });
  // Names beside the nodes at the edges have their room too.
  for (const { name } of nodes) if (name) say(name, "1,000 bundles");
  const all = graph.getBBox();
  const [left, top] = [Math.min(x, all.x - 5), Math.min(y, all.y - 5)];
  const [right, bottom] = [Math.max(x + width, all.x + all.width + 5), Math.max(y + height, all.y + all.height + 5)];
  graph.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
  for (const { name } of nodes) if (name) say(name, "");
  drawn = { lines, labels, nodes, size };
}

function drawGraph(run, rate) {
  if (!drawn) return;
  const fastest = Math.max(1, ...plan.links.map((_, at) => Math.max(...rate(at))));
  drawn.lines.forEach((line, at) => {
    const up = run.links[at]?.[0];
    const most = Math.max(...rate(at));
    line.setAttribute("class", `link ${up ? "up" : "down"}`);
    line.style.strokeWidth = up ? `${2 + (6 * most) / fastest}px` : "";
    const label = drawn.labels[at];
    if (label) say(label, up && most >= 1 ? bits(most) : "");
  });
  const fullest = Math.max(1, ...run.nodes.map((it) => it[1] ?? 0));
  drawn.nodes.forEach(({ disc, dot, name }, at) => {
    const [up, bundles] = run.nodes[at] ?? [false, null];
    // Areas, and not radii, are what waits.
    disc.setAttribute("r", bundles ? Math.round(10 + 30 * Math.sqrt(bundles / fullest)) : 0);
    dot.setAttribute("class", `node ${up ? "up" : "down"}`);
    if (name) say(name, up ? (bundles ? things(bundles, "bundle") : "") : "down");
  });
}

// A line of thousands of contacts is drawn anew only where something of it has moved.
let timelineShown = "";

function showTimeline() {
  const line = $("timeline");
  const now = state.run.time_ms;
  const part = Number(document.querySelector("#spans input:checked").value);
  const length = Math.max(1, plan.end_ms * part);
  const from = Math.min(Math.max(0, now - length / 2), plan.end_ms - length);
  const until = from + length;
  const open = plan.contacts.filter(([, start, end]) => start <= now && end > now).length;
  const later = plan.contacts.filter(([, start]) => start > now).length;
  const width = Math.max(line.clientWidth, 280);
  const key = [plan.run, part, width, Math.round((now / length) * width), open, later].join(" ");
  if (key === timelineShown) return;
  timelineShown = key;
  const within = plan.contacts.filter(([, start, end]) => end > from && start < until);
  const known = [...new Set(within.map(([link]) => link))].sort((one, other) => one - other);
  const shown = known.slice(0, TIMELINE_ROWS);
  const left = Math.min(140, width / 3);
  const rows = new Map(shown.map((link, at) => [link, at]));
  const height = shown.length * 22 + 28;
  const x = (ms) => left + ((Math.min(Math.max(ms, from), until) - from) / length) * (width - left - 6);
  line.toggleAttribute("hidden", shown.length === 0);
  line.setAttribute("viewBox", `0 0 ${width} ${height}`);
  line.style.height = `${height}px`;
  const parts = [];
  for (const [link, at] of rows) {
    const letters = Math.floor(left / 7);
    const name = plan.links[link].name;
    parts.push(shape("text", { x: 0, y: at * 22 + 15 }, name.length > letters ? `${name.slice(0, letters - 1)}…` : name));
    parts.push(shape("path", { class: "row", d: `M${left} ${at * 22 + 21.5}H${width}` }));
  }
  for (const [link, start, end] of within) {
    const at = rows.get(link);
    if (at === undefined) continue;
    const kind = end <= now ? "over" : start <= now ? "open" : "planned";
    parts.push(shape("rect", { class: `contact ${kind}`, x: x(start).toFixed(1), y: at * 22 + 4, width: Math.max(1, x(end) - x(start)).toFixed(1), height: 14 }));
  }
  parts.push(shape("path", { class: "present", d: `M${x(now).toFixed(1)} 0V${height - 22}` }));
  parts.push(shape("text", { x: left, y: height - 6 }, time(from)));
  parts.push(shape("text", { x: width - 6, y: height - 6, "text-anchor": "end" }, time(until)));
  line.replaceChildren(...parts);
  const more = [];
  if (known.length > shown.length) more.push(` ${things(known.length - shown.length, "more link")} have contacts in this time.`);
  if (plan.more_contacts) more.push(` ${things(plan.more_contacts, "later contact")} of the run are not shown.`);
  const words = plan.contacts.length ? `${things(open, "contact")} now, ${number(later)} planned, ${number(plan.contacts.length - open - later)} over.` : "All links are always there.";
  say($("timeline-text"), words + more.join(""));
}

function showQueues() {
  const nodes = plan.nodes.map((node, at) => {
    const [up, bundles, size] = state.run.nodes[at] ?? [false, null, null];
    return { key: String(at), name: node.name, up, bundles, size };
  });
  const most = Math.max(1, ...nodes.map((it) => it.bundles ?? 0));
  nodes.sort((one, other) => (other.bundles ?? 0) - (one.bundles ?? 0));
  const rows = nodes.slice(0, ROWS).map((it) => ({
    key: it.key,
    cells: [
      it.name,
      { text: it.up ? "up" : "down", kind: `state ${it.up ? "up" : "down"}` },
      { text: it.bundles === null ? "not told" : number(it.bundles), kind: "number" },
      { text: it.size === null ? "" : octets(it.size), kind: "number" },
      { text: "", kind: it.bundles ? "part" : "", part: ((it.bundles ?? 0) / most).toFixed(3) },
    ],
  }));
  fill($("queue-rows"), rows);
  $("more-queues").hidden = nodes.length <= ROWS;
  say($("more-queues"), `${things(nodes.length - rows.length, "more node")} hold less.`);
}

function show() {
  if (!state) return;
  showProgress();
  if (!plan || !state.run || state.shown !== plan.run) return;
  showNetwork();
  showTimeline();
  showQueues();
}

// Drawing takes no more than a part of the processor, however slow that is and however often the lab tells: the newest state is shown after a pause of
// some times as long as the last drawing took.
const PAUSES = 3;
let pause = 0;
let isDue = false;

function showSoon() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    const begun = performance.now();
    show();
    // A frame and a turn later the page is laid out.
    requestAnimationFrame(() => setTimeout(() => (pause = PAUSES * (performance.now() - begun))));
  }, pause);
}

const after = (ms) => (ms === null || ms === undefined ? "" : `${(ms / 1000).toFixed(1)} s`);

// The report is fetched while the lab is still there to give it.
async function end(told) {
  over = true;
  source.close();
  $("fault").hidden = true;
  $("ended").hidden = false;
  say($("ended-text"), told.words);
  say($("places"), told.report ? `The report is ${told.report}, beside all results.` : `Results are in ${told.results}.`);
  document.title = `Ended: ${state?.study ?? ""}: Dhow lab`;
  if (!told.has_report) return;
  try {
    const answer = await fetch("report.html", { cache: "no-store" });
    if (!answer.ok) return;
    $("report").href = URL.createObjectURL(new Blob([await answer.text()], { type: "text/html;charset=utf-8" }));
    $("report").hidden = false;
  } catch {
    // The path of the report is on the page.
  }
}

const source = new EventSource("events");
const on = (name, act) =>
  source.addEventListener(name, (event) => {
    heard = performance.now();
    $("fault").hidden = true;
    act(JSON.parse(event.data));
  });
on("plan", (told) => {
  plan = told;
  before = [];
  makeGraph();
});
on("now", (told) => {
  // Rates are of two seconds of the run and more, or of all that is known of it.
  const run = state?.run;
  if (run && told.run && state.shown === told.shown) {
    if (run.time_ms > (before.at(-1)?.time_ms ?? -1)) before.push(run);
    while (before.length > 8) before.shift();
  }
  state = told;
  showSoon();
});
on("event", (told) => log.add(after(told.time_ms), told.words, told.kind));
on("skipped", (count) => log.add("", `${things(count, "event")} came faster than this page reads, and ${count === 1 ? "is" : "are"} left out`, "failed"));
on("ended", (told) => {
  show();
  end(told);
});
setInterval(() => {
  if (over || source.readyState === EventSource.OPEN) return;
  if (performance.now() - heard < SILENCE_MS) return;
  $("fault").hidden = false;
  say($("fault"), "The lab does not answer. The page asks again.");
}, 1000);

$("spans").addEventListener("change", show);
addEventListener("resize", () => {
  if (plan) makeGraph();
  show();
});
