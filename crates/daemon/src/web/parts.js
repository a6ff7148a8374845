// Parts that the page of a node and that of a lab have in common: quantities, rows of tables, shapes, and the list of events.
// What nodes and neighbours say is shown as text alone.

const EVENTS_SHOWN = 200;
const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

// An element is touched only where its text is another, so that nobody's selection or screen reader loses its place.
export const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

// Quantities as people read them: three digits, and no exponent where they round to the next unit.
export function scaled(value, units) {
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
}

export const octets = (count) => scaled(count, ["B", "kB", "MB", "GB", "TB", "PB"]);
export const number = (count) => count.toLocaleString("en");
export const things = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

// Rows of a table, kept by their keys so that what has the focus keeps it. A cell is a text, or an object with a text, its kind,
// what a press of it does (and the label of that button), or the part of a bar.
export function fill(body, items) {
  const rows = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const heads = [...body.parentElement.tHead.rows[0].cells].map((cell) => cell.textContent);
  let place = body.firstElementChild;
  for (const { key, cells } of items) {
    let row = rows.get(key);
    rows.delete(key);
    if (!row) {
      row = document.createElement("tr");
      row.dataset.key = key;
      cells.forEach((_, at) => {
        row.insertCell().dataset.head = heads[at];
      });
    }
    cells.forEach((cell, at) => set(row.cells[at], cell));
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
  rows.forEach((row) => row.remove());
}

function set(cell, value) {
  const { text = "", kind = "", press, label, part } = typeof value === "object" ? value : { text: String(value) };
  if (press) {
    let button = cell.querySelector("button");
    if (!button) {
      button = document.createElement("button");
      button.type = "button";
      cell.replaceChildren(button);
    }
    say(button, text);
    button.setAttribute("aria-label", label ?? text);
    button.onclick = press;
    return;
  }
  if (cell.className !== kind) cell.className = kind;
  say(cell, text);
  if (part !== undefined) cell.style.setProperty("--part", part);
}

export function shape(name, attributes, text) {
  const it = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) it.setAttribute(key, value);
  if (text !== undefined) it.textContent = text;
  return it;
}

// The last events, newest first; while the button is pressed they stand still, and those that come are counted.
export class Log {
  #list;
  #button;
  #paused = false;
  #missed = 0;

  constructor(list, button) {
    this.#list = list;
    this.#button = button;
    button.addEventListener("click", () => this.#turn());
  }

  add(when, text, kind = "") {
    if (this.#paused) {
      this.#missed += 1;
      say(this.#button, `Go on (${number(this.#missed)} more)`);
      return;
    }
    const item = document.createElement("li");
    const at = document.createElement("time");
    at.textContent = when;
    item.append(at, text);
    item.className = kind;
    this.#list.prepend(item);
    while (this.#list.children.length > EVENTS_SHOWN) this.#list.lastElementChild.remove();
  }

  #turn() {
    this.#paused = !this.#paused;
    this.#button.setAttribute("aria-pressed", String(this.#paused));
    this.#button.textContent = this.#paused ? "Go on" : "Pause";
    if (!this.#paused && this.#missed) this.add("", `${things(this.#missed, "event")} left out while paused`);
    this.#missed = 0;
  }
}
