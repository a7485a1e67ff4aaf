// What every page shares: building nodes, asking the API, the live connection, theme and keys.
// Nothing that came from data is ever parsed as HTML: nodes get text, attributes get values.

export const data = document.body.dataset;
export const main = document.getElementById("main");

/** A node: h("a", {href: "/x", onclick: f, class: "y"}, "text", otherNode, null). */
export function h(tag, props = {}, ...children) {
  const node = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** Puts new nodes in place of old ones, but leaves alone what is the same: no flicker, no lost focus. */
export function show(place, ...nodes) {
  const fresh = h("div", {}, ...nodes);
  const isSame = fresh.childNodes.length === place.childNodes.length
    && [...fresh.childNodes].every((one, n) => one.isEqualNode(place.childNodes[n]));
  if (isSame) return;
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  const open = new Set([...place.querySelectorAll("details[open][id]")].map((one) => one.id));
  for (const id of open) fresh.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  place.replaceChildren(...fresh.childNodes);
  if (focused) document.getElementById(focused)?.focus();
}

/** An error of the API: {slug, what, why, where, fix}. */
export class Problem extends Error {
  constructor(error, status) {
    super(error.what || "It failed.");
    Object.assign(this, error, { status });
  }
}

// ---- the login: a cookie reaches every port of this machine, so it is only half of it. The other
// half came behind the '#' of the link's address; what is kept here can be read by this address only.

const given = new URLSearchParams(location.hash.slice(1)).get("proof");
if (given) {
  localStorage.setItem("proof", given);
  history.replaceState(null, "", location.pathname + location.search);
}

const proof = () => localStorage.getItem("proof") || "";

/** For what a browser loads by itself, without headers of ours: streams and downloads. */
export const proven = (address) => `${address}${address.includes("?") ? "&" : "?"}proof=${encodeURIComponent(proof())}`;

export async function api(path, { method = "GET", body = undefined } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: { "X-Headrace-Proof": proof(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem({ slug: "unreachable", what: "The page's server does not answer.",
      fix: "It comes back by itself while a supervisor runs (headrace up)." }, 0);
  }
  const told = await answer.json().catch(() => (answer.ok ? null : {}));
  if (told === null) throw new Problem({ slug: "unreadable", what: "The answer of the page's server cannot be read.", fix: "Load the page again." }, answer.status);
  if (answer.status === 401) {
    location.replace("/login"); // it says how to log in
    await new Promise(() => {});
  }
  if (!answer.ok) throw new Problem(told.error || { what: `It failed (${answer.status}).` }, answer.status);
  return told;
}

export function problem(error) {
  return h("div", { class: "card bad", role: "alert" },
    h("b", {}, error.what || error.message),
    error.why && h("p", {}, error.why),
    error.where && h("p", { class: "small" }, "where: ", h("code", {}, error.where)),
    error.fix && h("p", {}, h("b", {}, "What to do: "), error.fix));
}

// ---- live: a word from the server, and everybody looks again

const watchers = [];
let isBusy = false;
let isDue = false;

/** Calls `look` now and whenever something changed; its error is shown at the top. */
export function live(look) {
  watchers.push(look);
  refresh();
}

export async function refresh() {
  isDue = true;
  if (isBusy) return;
  isBusy = true;
  while (isDue) {
    isDue = false;
    try {
      for (const look of watchers) await look();
      notice("");
      trouble(null);
    } catch (error) {
      if (error.status === 0) notice(error.what + " " + (error.fix || ""), true);
      else if (error instanceof Problem) trouble(error);
      else { notice(String(error), true); console.error(error); }
    }
  }
  isBusy = false;
}

/** Above what was there before, which stays: one failed look is no reason to take away the rest. */
function trouble(error) {
  const place = document.getElementById("problem");
  place.hidden = !error;
  show(place, error ? problem(error) : null);
  if (error && main.innerText.includes("Loading…")) main.replaceChildren();
}

export function notice(text, bad = false) {
  const place = document.getElementById("notice");
  place.hidden = !text;
  place.textContent = text;
  place.classList.toggle("bad", bad);
}

let heard = 0;

function tell(text, kind) {
  const place = document.getElementById("connection");
  if (place) { place.textContent = text; place.className = `connection ${kind}`; }
}

function connect() {
  const source = new EventSource(proven("/api/stream"));
  const alive = () => { heard = Date.now(); tell("live", "on"); };
  source.addEventListener("changed", () => { alive(); if (!document.hidden) refresh(); });
  source.addEventListener("alive", alive);
  source.addEventListener("error", () => {
    tell("connection lost, trying again", "lost");
    if (source.readyState === EventSource.CLOSED) { // the server refused: perhaps the login ended
      setTimeout(() => { connect(); api("/api/audit").catch(() => {}); }, 2000);
    }
  });
}

function stayConnected() {
  if (!document.getElementById("connection")) return;
  connect();
  setInterval(() => { if (heard && Date.now() - heard > 15000) tell("no word for a while", "lost"); }, 5000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
}

// ---- how things are said

export function number(value, digits = 0) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  return value.toLocaleString("en", { maximumFractionDigits: size < 10 ? Math.max(digits, 1) : digits });
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let n = 0;
  while (value >= 1000 && n < units.length - 1) { value /= 1000; n += 1; }
  return `${value.toFixed(n && value < 10 ? 1 : 0)} ${units[n]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
  }
  return seconds >= 10 ? `${Math.round(seconds)} s` : `${seconds.toFixed(1)} s`;
}

export const ms = (value) => (value === null || value === undefined ? "–" : span(value / 1000));

/** A moment: how long ago, and exactly when one points at it. */
export function ago(at, now = Date.now() / 1000) {
  if (at === null || at === undefined) return h("span", { class: "muted" }, "never");
  const moment = new Date(at * 1000);
  return h("time", { datetime: moment.toISOString(), title: clock(at) }, `${span(Math.max(0, now - at))} ago`);
}

export const clock = (at) => (at ? new Date(at * 1000).toLocaleString() : "–");

const LEVELS = ["off", "good", "busy", "busy", "bad", "bad", "bad"];
export const level = (severity) => LEVELS[Math.min(Math.max(severity, -1), 5) + 1];
const SEVERITY = { "needs-attention": 5, stalled: 4, waiting: 3, degraded: 3, "catching-up": 2, starting: 1, stopping: 1, running: 0, finished: 0, stopped: -1 };

export function state(name, severity = SEVERITY[name] ?? 5) {
  return h("span", { class: `state ${level(severity)}` }, name);
}

/** A value of a table: null is told apart from an empty text, a moment is shortened. */
export function cell(value) {
  if (value === null || value === undefined) return h("span", { class: "muted" }, "null");
  if (typeof value === "object") return JSON.stringify(value);
  const moment = typeof value === "string" && value.match(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(\+00:00|Z)$/);
  return moment ? `${moment[1]} ${moment[2]}${moment[3] || ""}Z` : value;
}

// ---- what is chosen on a page is in its address: shared by copying it, undone by going back

export const chosen = (key) => new URL(location.href).searchParams.get(key);

export function choose(key, value) {
  if (chosen(key) === value) return;
  const address = new URL(location.href);
  address.searchParams.set(key, value);
  history.pushState(null, "", address);
  shown = location.search;
}
let shown = location.search;
window.addEventListener("popstate", () => { if (location.search !== shown) location.reload(); });

export const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

/** Rows of objects or lists as a table. columns: [{name, get, number}] */
export function table(columns, rows, empty = "Nothing yet.") {
  if (!rows.length) return h("p", { class: "muted" }, empty);
  const cls = (c) => (c.number ? "number" : "cell");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { class: c.number ? "number" : null, scope: "col" }, c.name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((c) => h("td", { class: cls(c) }, c.get(row))))))));
}

// ---- asking before something is changed

export function confirm(title, words, label, danger = false) {
  const dialog = document.getElementById("dialog");
  return new Promise((done) => {
    const end = (answer) => { dialog.close(); done(answer); };
    dialog.replaceChildren(
      h("h2", { id: "dialog-title" }, title),
      ...[words].flat().map((one) => (one instanceof Node ? one : h("p", {}, one))),
      h("div", { class: "row" },
        h("button", { type: "button", class: danger ? "danger" : "", onclick: () => end(true), id: "dialog-yes" }, label),
        h("button", { type: "button", class: "quiet", onclick: () => end(false) }, "Cancel")));
    dialog.onclose = () => done(false);
    dialog.showModal();
  });
}

// ---- theme, keys, the way out

function theme() {
  const chosen = localStorage.getItem("theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
theme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);

function turn() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next);
  theme();
  document.dispatchEvent(new Event("theme"));
}

const GO = { o: "/", l: "/live", s: "/sql", a: "/alerts", q: "/quarantine", c: "/checkpoints", u: "/audit" };
let pressed = "";
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (pressed === "g" && GO[event.key]) { location.href = GO[event.key]; return; }
  pressed = event.key;
  if (event.key === "t") turn();
  if (event.key === "/") { const box = document.querySelector("[data-search]"); if (box) { event.preventDefault(); box.focus(); } }
  if (event.key === "?") {
    const keys = [["g then o, l, s, a, q, c, u", "go to overview, live, SQL, alerts, quarantine, checkpoints, audit"],
      ["/", "search on this page"], ["t", "light or dark"], ["Ctrl + Enter", "ask (in the SQL editor)"], ["Esc", "close"]];
    confirm("Keys", table([{ name: "key", get: (k) => h("kbd", {}, k[0]) }, { name: "does", get: (k) => k[1] }], keys), "Close");
  }
});
document.getElementById("theme")?.addEventListener("click", turn);
document.getElementById("logout")?.addEventListener("click", async () => {
  await api("/logout", { method: "POST", body: {} });
  location.href = "/";
});
for (const link of document.querySelectorAll(".bar nav a")) {
  const here = link.getAttribute("href");
  const is = here === "/" ? location.pathname === "/" || location.pathname.startsWith("/pipelines") || location.pathname.startsWith("/runs") : location.pathname.startsWith(here);
  if (is) link.setAttribute("aria-current", "page");
}
stayConnected();
