// Shared by all pages: DOM nodes, API calls, the live connection, formats, theme and keys.
// No value is ever parsed as HTML: nodes get text, attributes get values.

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

/** The nodes of a message: its parts between backticks are code. */
export const message = (text) => String(text).split(/`([^`\n]+)`/).map((part, n) => (n % 2 ? h("code", {}, part) : part));

/** Replaces the children of `place` if they differ, without flicker; keeps the focus and open details. */
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

/** An error from the API: {slug, what, why, where, fix}. */
export class Problem extends Error {
  constructor(error, status) {
    super(error.what || "The request failed.");
    Object.assign(this, error, { status });
  }
}

// ---- the login. Browsers send a cookie to every port of a host, so it is only half of the login.
// The other half arrives after the '#' of the link; only this origin can read its local storage.

const given = new URLSearchParams(location.hash.slice(1)).get("proof");
if (given) {
  localStorage.setItem("proof", given);
  history.replaceState(null, "", location.pathname + location.search);
}

sessionStorage.removeItem("login-tried"); // see login.js

const proof = () => localStorage.getItem("proof") || "";

/** A URL for streams and downloads, which cannot send headers. */
export const withProof = (url) => `${url}${url.includes("?") ? "&" : "?"}proof=${encodeURIComponent(proof())}`;

export async function api(path, { method = "GET", body = undefined } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: { "X-Headrace-Proof": proof(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem({ slug: "unreachable", what: "The server is not responding.",
      fix: "Wait for the supervisor to restart the server. If no supervisor is running, run headrace up." }, 0);
  }
  const json = await response.json().catch(() => (response.ok ? null : {}));
  if (json === null) throw new Problem({ slug: "unreadable", what: "The server's response is not valid JSON.", fix: "Reload the page." }, response.status);
  if (response.status === 401) {
    location.replace(`/login?to=${encodeURIComponent(location.pathname + location.search)}`); // explains how to log in
    await new Promise(() => {});
  }
  if (!response.ok) throw new Problem(json.error || { what: `The request failed (${response.status}).` }, response.status);
  return json;
}

/** Sends a request to the supervisor and waits for its reply; returns the text of the reply, or null if it has not arrived. */
export async function ask(url, body = {}) {
  let reply = await api(url, { method: "POST", body });
  for (let n = 0; !reply.is_answered && n < 60; n += 1) {
    await new Promise((done) => setTimeout(done, 500));
    reply = await api(path("api", "requests", reply.request));
  }
  return reply.text;
}

export function problem(error) {
  return h("div", { class: "card bad", role: "alert" },
    h("b", {}, message(error.what || error.message)),
    error.why && h("p", {}, message(error.why)),
    error.where && h("p", { class: "small" }, "where: ", h("code", {}, error.where)),
    error.fix && h("p", {}, h("b", {}, "What to do: "), message(error.fix)));
}

// ---- live: the server reports a change, then every part of the page is updated

const updates = [];
let isBusy = false;
let isDue = false;

/** Calls `update` now and after every change; its error is shown at the top. */
export function live(update) {
  updates.push(update);
  refresh();
}

export async function refresh() {
  isDue = true;
  if (isBusy) return;
  isBusy = true;
  while (isDue) {
    isDue = false;
    try {
      for (const update of updates) await update();
      notice("");
      showProblem(null);
    } catch (error) {
      if (error.status === 0) notice(error.what + " " + (error.fix || ""), true);
      else if (error instanceof Problem) showProblem(error);
      else { notice(String(error), true); console.error(error); }
    }
  }
  isBusy = false;
}

/** Shows the error above the last content, which stays. */
function showProblem(error) {
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

let heardAt = 0;

function showConnection(text, kind) {
  const place = document.getElementById("connection");
  if (place) { place.textContent = text; place.className = `connection ${kind}`; }
}

function connect() {
  const source = new EventSource(withProof("/api/stream"));
  const alive = () => { heardAt = Date.now(); showConnection("live", "on"); };
  source.addEventListener("changed", () => { alive(); if (!document.hidden) refresh(); });
  source.addEventListener("alive", alive);
  source.addEventListener("error", () => {
    showConnection("connection lost, reconnecting", "lost");
    if (source.readyState === EventSource.CLOSED) { // refused: the login may have ended
      setTimeout(() => { connect(); api("/api/audit").catch(() => {}); }, 2000);
    }
  });
}

function stayConnected() {
  if (!document.getElementById("connection")) return;
  connect();
  setInterval(() => { if (heardAt && Date.now() - heardAt > 15000) showConnection("no response", "lost"); }, 5000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
}

// ---- formats

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

/** How long ago, with the timestamp as a tooltip. */
export function ago(at, now = Date.now() / 1000) {
  if (at === null || at === undefined) return h("span", { class: "muted" }, "never");
  return h("time", { datetime: new Date(at * 1000).toISOString(), title: timestamp(at) }, `${span(Math.max(0, now - at))} ago`);
}

/** Seconds since 1970 as YYYY-MM-DD HH:MM:SSZ (UTC), the same format as in the command line. */
export const timestamp = (at) => (at ? `${new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ")}Z` : "–");

/** The explanation of "capacity", wherever the word appears. */
export const CAPACITY = "Capacity: the highest input rate that the query can process. While it is above the input rate, the query keeps up.";
export const capacity = () => h("abbr", { title: CAPACITY }, "capacity");

const LEVELS = ["off", "good", "busy", "busy", "bad", "bad", "bad"];
const level = (severity) => LEVELS[Math.min(Math.max(severity, -1), 5) + 1];
const SEVERITY = { "needs-attention": 5, stalled: 4, waiting: 3, degraded: 3, "catching-up": 2, starting: 1, stopping: 1, running: 0, finished: 0, stopped: -1 };

export const levelOf = (name) => level(SEVERITY[name] ?? 5);

export function state(name, severity = SEVERITY[name] ?? 5) {
  return h("span", { class: `state ${level(severity)}` }, name);
}

/** A value in a table: null looks different from an empty text, and all times have one format. */
export function cell(value) {
  if (value === null || value === undefined) return h("span", { class: "muted" }, "null");
  if (typeof value === "object") return JSON.stringify(value);
  const time = typeof value === "string" && value.match(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(\+00:00|Z)$/);
  return time ? `${time[1]} ${time[2]}${time[3] || ""}Z` : value;
}

// ---- the user's choices are in the URL, so that a view can be shared and the back button works

export const chosen = (key) => new URL(location.href).searchParams.get(key);

export function choose(key, value) {
  if (chosen(key) === value) return;
  const url = new URL(location.href);
  url.searchParams.set(key, value);
  history.pushState(null, "", url);
  shown = location.search;
}
let shown = location.search;
window.addEventListener("popstate", () => { if (location.search !== shown) location.reload(); });

export const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

/** columns: [{name, get, number, head}]; `head` is a node instead of the name. */
export function table(columns, rows, empty = "Nothing yet.") {
  if (!rows.length) return h("p", { class: "muted" }, empty);
  const cls = (c) => (c.number ? "number" : "cell");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { class: c.number ? "number" : null, scope: "col" }, c.head || c.name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((c) => h("td", { class: cls(c) }, c.get(row))))))));
}

// ---- confirmation of actions

export function confirm(title, text, label, danger = false) {
  const dialog = document.getElementById("dialog");
  return new Promise((done) => {
    const end = (isConfirmed) => { dialog.close(); done(isConfirmed); };
    dialog.replaceChildren(
      h("h2", { id: "dialog-title" }, title),
      ...[text].flat().map((one) => (one instanceof Node ? one : h("p", {}, one))),
      h("div", { class: "row" },
        h("button", { type: "button", class: danger ? "danger" : "", onclick: () => end(true), id: "dialog-yes" }, label),
        h("button", { type: "button", class: "quiet", onclick: () => end(false) }, "Cancel")));
    dialog.onclose = () => done(false);
    dialog.showModal();
  });
}

// ---- theme, keys, logout

function theme() {
  const chosen = localStorage.getItem("theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
theme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);

function switchTheme() {
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
  if (event.key === "t") switchTheme();
  if (event.key === "/") { const box = document.querySelector("[data-search]"); if (box) { event.preventDefault(); box.focus(); } }
  if (event.key === "?") {
    const keys = [["g then o, l, s, a, q, c, u", "go to overview, live, SQL, alerts, quarantine, checkpoints, audit"],
      ["/", "search on this page"], ["t", "switch between light and dark"], ["Ctrl + Enter", "run the query (in the SQL editor)"], ["Esc", "close"]];
    confirm("Keys", table([{ name: "key", get: (k) => h("kbd", {}, k[0]) }, { name: "action", get: (k) => k[1] }], keys), "Close");
  }
});
document.getElementById("theme")?.addEventListener("click", switchTheme);
document.getElementById("logout")?.addEventListener("click", async () => {
  await api("/logout", { method: "POST", body: {} });
  location.href = "/";
});
for (const link of document.querySelectorAll(".bar nav a")) {
  const target = link.getAttribute("href");
  const isCurrent = target === "/" ? location.pathname === "/" || /^\/(pipelines|runs)/.test(location.pathname) : location.pathname.startsWith(target);
  if (isCurrent) link.setAttribute("aria-current", "page");
}
stayConnected();
