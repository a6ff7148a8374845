// The page of a node: asks it again and again, and listens to its events. What nodes and neighbours say is shown as text alone.

import { $, Log, fill, number, octets, say, shape } from "./parts.js";

const INTERVAL_MS = 2000;
const QUEUES_FIRST = 20;
const QUEUES_MOST = 1000;
const KEY = "dhow-token";

let token = sessionStorage.getItem(KEY) ?? "";
if (location.hash.length > 1) {
  // A link may carry the token: a fragment is sent to nobody, and it is not left in the address.
  token = decodeURIComponent(location.hash.slice(1));
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", location.pathname);
}
const log = new Log($("events"), $("pause"));
let isWhole = false; // all queues are shown, and not the largest alone
const before = new Map(); // sessions: octets at the last look
const seen = new Map(); // neighbours: times in which a session was up

class Refused extends Error {}

async function ask(path, method = "GET") {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { method, headers, cache: "no-store" });
  if (answer.status === 401 || answer.status === 403) {
    throw new Refused((await answer.json()).error);
  }
  if (!answer.ok) {
    const body = await answer.json().catch(() => ({}));
    throw new Error(body.error ?? `the node answers with status ${answer.status}`);
  }
  return answer;
}

const read = async (path) => (await ask(path)).json();

const rate = (perSecond) => (perSecond > 0 ? `${octets(Math.round(perSecond))}/s` : "0");

function time(ms) {
  if (ms === null || ms === undefined) return "";
  const units = [[86400e3, "d"], [3600e3, "h"], [60e3, "min"], [1e3, "s"]];
  for (const [size, name] of units) {
    if (ms >= size) return `${Math.floor(ms / size)} ${name}`;
  }
  return `${Math.floor(ms)} ms`;
}

function heard(flows) {
  const times = flows.map((it) => it.session.heard_ago_ms).filter((ms) => ms !== null);
  return times.length ? time(Math.min(...times)) : "";
}

const num = (text) => ({ text, kind: "number" });

function rates(session, now) {
  const last = before.get(session.session);
  const sent = session.octets_sent;
  const received = session.octets_received;
  before.set(session.session, { sent, received, now });
  if (!last || now <= last.now) return { out: 0, in: 0 };
  const seconds = (now - last.now) / 1000;
  return { out: (sent - last.sent) / seconds, in: (received - last.received) / seconds };
}

function showLinks(links, sessions, waiting) {
  const now = performance.now();
  const flows = sessions.map((session) => ({ session, ...rates(session, now) }));
  const row = (name, state, peer, own, rest) => ({
    key: rest.key,
    cells: [
      name,
      { text: state, kind: `state ${state}` },
      peer ?? "",
      num(own.length ? rate(own.reduce((sum, it) => sum + it.out, 0)) : ""),
      num(own.length ? rate(own.reduce((sum, it) => sum + it.in, 0)) : ""),
      num(heard(own)),
      num(rest.waiting === undefined ? "" : number(rest.waiting)),
      { text: rest.error ?? "", kind: "error" },
      rest.action ?? "",
    ],
  });
  const rows = links.map((link) => {
    const own = flows.filter((it) => it.session.link === link.name);
    const direction = link.enabled ? "down" : "up";
    return row(link.name, link.state, link.peer, own, {
      key: `link ${link.name}`,
      waiting: link.queued,
      error: link.last_error,
      action: {
        text: link.enabled ? "Take down" : "Bring up",
        label: `${link.enabled ? "Take down" : "Bring up"} link ${link.name}`,
        press: () => change(link.name, direction),
      },
    });
  });
  for (const flow of flows.filter((it) => it.session.link === null)) {
    const { session } = flow;
    rows.push(row("(from there)", "up", session.peer, [flow], { key: `session ${session.session}`, waiting: waiting.get(session.peer) }));
  }
  fill($("link-rows"), rows);
  $("no-links").hidden = rows.length > 0;
  remember(sessions);
}

async function change(link, direction) {
  if (direction === "down" && !(await sure(`Take link ${link} down? Its sessions end in order, its bundles wait.`))) return;
  try {
    await ask(`v1/links/${encodeURIComponent(link)}/${direction}`, "POST");
    await look();
  } catch (error) {
    fault(error);
  }
}

function sure(question) {
  const dialog = $("sure");
  $("sure-text").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => {
    dialog.onclose = () => done(dialog.returnValue === "yes");
  });
}

function remember(sessions) {
  const now = Date.now();
  const peers = new Set(sessions.map((session) => session.peer));
  for (const peer of peers) {
    const times = seen.get(peer) ?? [];
    const last = times.at(-1);
    if (last && now - last.to < 3 * INTERVAL_MS) last.to = now;
    else times.push({ from: now, to: now });
    seen.set(peer, times.slice(-1000));
  }
}

// The time line: what is planned, and which sessions were there.
const DTN_EPOCH_MS = Date.UTC(2000, 0, 1);
const draw = (svg, ...it) => svg.append(shape(...it));

function showContacts(contacts, own) {
  const span = Number(document.querySelector("input[name=span]:checked").value) * 1000;
  const now = Date.now();
  const [from, to] = [now - span / 4, now + (span * 3) / 4];
  const rows = new Map();
  const bars = (peer) => rows.get(peer) ?? rows.set(peer, { planned: [], seen: [] }).get(peer);
  for (const contact of contacts) {
    const peer = own.includes(contact.from) ? contact.to : contact.from;
    const begin = contact.start_dtn_ms + DTN_EPOCH_MS;
    const end = contact.end_dtn_ms + DTN_EPOCH_MS;
    if (end > from && begin < to) bars(peer).planned.push({ begin, end, state: contact.state });
  }
  for (const [peer, times] of seen) {
    for (const it of times) if (it.to > from) bars(peer).seen.push(it);
  }
  const svg = $("timeline");
  const width = Math.max(svg.clientWidth, 280);
  const left = Math.min(140, width / 3);
  const height = 26 * rows.size + 26;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.hidden = rows.size === 0;
  const x = (at) => left + ((Math.min(Math.max(at, from), to) - from) / (to - from)) * (width - left);
  let y = 8;
  for (const [peer, { planned, seen: times }] of rows) {
    draw(svg, "line", { class: "row", x1: left, x2: width, y1: y + 16, y2: y + 16 });
    draw(svg, "text", { x: 0, y: y + 12 }, peer.length > 18 ? `${peer.slice(0, 17)}…` : peer);
    for (const { begin, end, state } of planned) {
      draw(svg, "rect", { class: `planned ${state}`, x: x(begin), width: Math.max(x(end) - x(begin), 1), y, height: 14 });
    }
    for (const { from: begin, to: end } of times) {
      draw(svg, "rect", { class: "seen", x: x(begin), width: Math.max(x(end) - x(begin), 2), y: y + 9, height: 5 });
    }
    y += 26;
  }
  draw(svg, "line", { class: "present", x1: x(now), x2: x(now), y1: 0, y2: y });
  for (const [at, text, anchor] of [[from, `${time(span / 4)} ago`, "start"], [now, "now", "middle"], [to, `in ${time((span * 3) / 4)}`, "end"]]) {
    draw(svg, "text", { x: x(at), y: y + 12, "text-anchor": anchor }, text);
  }
  const next = contacts.filter((it) => it.state === "next").sort((a, b) => a.start_dtn_ms - b.start_dtn_ms)[0];
  const up = [...rows].filter(([, it]) => it.seen.some((one) => now - one.to < 3 * INTERVAL_MS)).map(([peer]) => peer);
  const words = [up.length ? `Sessions are up with ${up.join(", ")}.` : "No session is up."];
  if (next) {
    const peer = own.includes(next.from) ? next.to : next.from;
    words.push(`The next planned contact is with ${peer} in ${time(Math.max(next.start_dtn_ms + DTN_EPOCH_MS - now, 0))}.`);
  } else if (contacts.length === 0) words.push("No contact is planned.");
  say($("timeline-text"), words.join(" "));
}

function showQueues(destinations) {
  const all = destinations.filter((it) => it.bundles > 0).sort((a, b) => b.bundles - a.bundles);
  const shown = isWhole ? QUEUES_MOST : QUEUES_FIRST;
  fill($("queue-rows"), all.slice(0, shown).map((it) => ({
    key: it.destination,
    cells: [
      it.destination,
      it.local ? "(an application here)" : it.next_hop ?? (it.routed ? "(none is up)" : "no route"),
      num(number(it.bundles)),
      num(octets(it.octets)),
      num(time(it.oldest_ms)),
      num(time(it.next_expiry_ms)),
      { text: "Why?", label: `Why does what is for ${it.destination} wait?`, press: () => explain(it.destination) },
    ],
  })));
  $("no-queues").hidden = all.length > 0;
  $("more-queues").hidden = all.length <= shown;
  $("more-text").textContent = `… and ${number(all.length - shown)} destinations more. `;
  $("more").hidden = isWhole;
}

async function explain(destination) {
  try {
    const why = await read(`v1/why/${encodeURIComponent(destination)}`);
    $("why-title").textContent = `Why what is for ${destination} waits`;
    const text = $("why-text");
    text.replaceChildren();
    for (const cause of why.causes) {
      const line = document.createElement("p");
      line.textContent = sentence(cause);
      text.append(line);
    }
    if (why.causes.length === 0) text.textContent = "Nothing keeps it.";
    $("why").showModal();
  } catch (error) {
    fault(error);
  }
}

// Causes as sentences; of one that is not known here, what it says.
const CAUSES = {
  no_route: () => "No route leads there: `dhow route add` makes one.",
  no_neighbour: () => "A router decides about it, and no neighbour is there.",
  not_chosen: (it) => `The router has chosen none of ${it.neighbours} neighbours for it yet.`,
  awaiting_router: () => "The program that is its router has not answered yet.",
  next_hop: nextHop,
  not_registered: () => "No application here is registered for it.",
  no_subscriber: () => "Its application is registered here, and away.",
  delivering: () => "An application has it in hand, and has not confirmed it yet.",
  sending: (it) => `It is on its way to ${it.to.join(", ")}.`,
  resting: (it) => `It rests after a failure, and goes on in ${time(it.retry_in_ms)}.`,
  refused: (it) => `${it.by} refused it ${time(it.ago_ms)} ago: ${words(it.reason)}.`,
  sent: () => "It has left, and waits to be kept or let go.",
  awaiting_signal: () => "It is in custody, and no signal has come yet.",
  reassembling: (it) => `Its fragments come together: ${octets(it.octets)} of ${octets(it.total_octets)} are here.`,
  damaged: () => "It is damaged on the disk, and in quarantine.",
};

const BARS = {
  came_from_there: () => "it came from there",
  too_large: (it) => `it has ${octets(it.octets)}, and a transfer there may have ${octets(it.transfer_mru_octets)}`,
  other_version: () => "its version is not spoken there, and it has no form in the other",
  has_left: () => "it has left there already",
};

const words = (text) => String(text).replaceAll("_", " ");

function nextHop(hop) {
  const { link } = hop;
  const said = [];
  if (hop.sessions > 0) said.push("a session is up");
  else if (!link) said.push("no session is up, and no link leads there");
  else if (!link.enabled) said.push("the link is taken down");
  else if (link.state === "absent") said.push("there is no carrier, or no contact is on");
  else said.push(link.last_error ? words(link.last_error) : words(link.state));
  if (hop.sessions === 0 && link?.enabled && link.retry_in_ms !== null) said.push(`tried again in ${time(link.retry_in_ms)}`);
  if (hop.full_for_ms) said.push(`it has no room, and is asked again in ${time(hop.full_for_ms)}`);
  if (hop.contact_ends_in_ms) said.push(`the contact ends in ${time(hop.contact_ends_in_ms)}`);
  if (hop.contact_begins_in_ms) said.push(`the next planned contact begins in ${time(hop.contact_begins_in_ms)}`);
  for (const bar of hop.bars ?? []) said.push(BARS[bar.bar]?.(bar) ?? words(bar.bar));
  return `Over ${hop.name}: ${said.join("; ")}.`;
}

function sentence(cause) {
  const { cause: kind, ...rest } = cause;
  const inner = rest[kind] ?? rest;
  return CAUSES[kind]?.(inner) ?? `${words(kind)} ${JSON.stringify(rest)}`;
}

function showNode(node) {
  document.title = `${node.node_id}: Dhow`;
  $("name").textContent = node.node_ids.join(", ");
  const { store } = node;
  $("summary").textContent = `Dhow ${node.version}, up for ${time(node.uptime_ms)}; ${number(node.sessions)} ${node.sessions === 1 ? "session" : "sessions"}; bundles: ${number(node.counters.received)} received, ${number(node.counters.forwarded)} forwarded, ${number(node.counters.delivered)} delivered.`;
  $("store").max = Math.max(store.effective_quota_octets, 1);
  $("store").value = store.octets;
  const damaged = store.damaged ? `; ${number(store.damaged)} damaged` : "";
  const less = store.effective_quota_octets < store.quota_octets ? ", which is what the disk has room for" : "";
  $("store-text").textContent = `${number(store.bundles)} bundles, ${octets(store.octets)} of ${octets(store.effective_quota_octets)}${less} (${store.durability}${damaged})`;
}

function waitingOf(metrics) {
  const found = new Map();
  for (const [, name, count] of metrics.matchAll(/^dhow_bundles_waiting\{next_hop="((?:[^"\\]|\\.)*)"\} (\d+)$/gm)) {
    found.set(name.replace(/\\(.)/g, "$1"), Number(count));
  }
  return found;
}

function fault(error) {
  $("fault").hidden = !error;
  $("fault").textContent = error ? `${error.message ?? error}.` : "";
}

let own = [];
let planned = [];

async function look() {
  const [node, links, sessions, destinations, contacts, metrics] = await Promise.all([
    read("v1/node"), read("v1/links"), read("v1/sessions"), read("v1/destinations"), read("v1/contacts"),
    ask("metrics").then((answer) => answer.text()),
  ]);
  own = node.node_ids;
  planned = contacts;
  showNode(node);
  showLinks(links, sessions, waitingOf(metrics));
  showContacts(contacts, own);
  showQueues(destinations);
}

async function keepLooking() {
  for (;;) {
    try {
      if (!document.hidden) await look();
      fault(null);
      $("all").hidden = false;
      $("sign-in").hidden = true;
    } catch (error) {
      if (error instanceof Refused) return signIn(error);
      fault(`The node does not answer: ${error.message}`);
    }
    await new Promise((done) => setTimeout(done, INTERVAL_MS));
  }
}

async function listen() {
  for (;;) {
    try {
      const answer = await ask("v1/events");
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) if (part.startsWith("data: ")) told(JSON.parse(part.slice(6)));
      }
    } catch (error) {
      if (error instanceof Refused) return;
    }
    await new Promise((done) => setTimeout(done, INTERVAL_MS));
  }
}

function told(event) {
  const { event: kind, ...rest } = event;
  const words = Object.entries(rest).filter(([, value]) => value !== null).map(([key, value]) => `${key.replaceAll("_", " ")} ${value}`);
  log.add(new Date().toLocaleTimeString(), `${kind.replaceAll("_", " ")}: ${words.join(", ")}`);
}

function signIn(error) {
  $("all").hidden = true;
  $("sign-in").hidden = false;
  fault(token ? error : null);
  sessionStorage.removeItem(KEY);
  $("token").focus();
}

$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem(KEY, token);
  begin();
});
$("spans").addEventListener("change", () => showContacts(planned, own));
$("more").addEventListener("click", () => {
  isWhole = true;
  look().catch(fault);
});
addEventListener("resize", () => showContacts(planned, own));

let listening = false;

function begin() {
  keepLooking();
  if (!listening) {
    listening = true;
    listen().finally(() => {
      listening = false;
    });
  }
}

begin();
