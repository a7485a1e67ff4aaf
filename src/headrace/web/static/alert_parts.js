// Shared by the list of alerts and the page of one alert: states, buttons, the dialog for a silence.
import { ask, data, h, message, path, problem, refresh, show, span, timestamp } from "./core.js";

export const SEVERITIES = ["critical", "error", "warning", "info"];
export const mayAct = data.role === "operate";

export const severity = (one) => h("span", { class: `state ${{ critical: "bad", error: "bad", warning: "busy" }[one.severity] || "off"}` }, one.severity);

/** open, acknowledged, silenced or resolved: the first of these, from the end, that applies. */
export function stateOf(one) {
  if (one.resolved_at !== null) return "resolved";
  if (one.acknowledged_at !== null) return "acknowledged";
  return one.silenced_until === null ? "open" : "silenced";
}

export function state(one) {
  const name = stateOf(one);
  const text = { acknowledged: `acknowledged by ${one.acknowledged_by}`, silenced: `silenced for ${until(one.silenced_until)}` }[name] || name;
  const title = { acknowledged: timestamp(one.acknowledged_at), silenced: `until ${timestamp(one.silenced_until)}` }[name];
  return [
    h("span", { class: `state ${{ open: "bad", acknowledged: "busy" }[name] || "off"}`, title, "data-state": name }, text),
    name === "acknowledged" && one.silenced_until !== null ? h("span", { class: "state off", title: `until ${timestamp(one.silenced_until)}` }, `silenced for ${until(one.silenced_until)}`) : null,
  ];
}

export const until = (at) => span(Math.max(0, at - Date.now() / 1000));

export const subject = (one) => (one.pipeline ? [h("a", { href: path("pipelines", one.pipeline) }, one.pipeline), one.query ? ` / ${one.query}` : ""] : "Headrace");

/** The buttons for an open alert; none for a key that may only view. */
export function buttons(one) {
  if (!mayAct || one.resolved_at !== null) return [];
  return [
    one.acknowledged_at === null ? h("button", { type: "button", id: `acknowledge-${one.id}`, "aria-label": `Acknowledge alert ${one.id}`, onclick: () => acknowledge(one) }, "Acknowledge") : null,
    h("button", { type: "button", class: "quiet", id: `silence-${one.id}`, "aria-label": `Silence alert ${one.id}`, onclick: () => silence(one) }, "Silence…"),
  ];
}

/** Shows what an action has done, or why it could not be done. The result stays until the next one. */
export async function act(doing, action) {
  const place = document.getElementById("acted");
  show(place, h("p", {}, `${doing}…`));
  try {
    show(place, h("p", {}, message((await action()) || `${doing}: no reply from the supervisor yet.`)));
    refresh();
    return true;
  } catch (error) {
    show(place, problem(error));
    return false;
  }
}

async function acknowledge(one) {
  await act(`Acknowledging alert ${one.id}`, () => ask(path("api", "alerts", one.id, "acknowledge")));
  document.getElementById(`alert-${one.id}`)?.focus(); // the button is gone
}

// ---- silences

export const scope = (one) => [
  one.rule === "*" ? "all alerts" : ["rule ", h("code", {}, one.rule)],
  one.query === null || one.query === "*" ? "" : [" of query ", h("code", {}, one.query)],
  one.pipeline === "*" ? " in all pipelines" : one.pipeline === "" ? "" : [" in pipeline ", h("code", {}, one.pipeline)],
];

export const endButton = (one) => (mayAct ? h("button", { type: "button", class: "quiet", id: `end-${one.id}`, "aria-label": `End silence ${one.id}`, onclick: () => end(one) }, "End") : "");

const end = (one) => act(`Ending silence ${one.id}`, () => ask(path("api", "silences", one.id, "end")));

/** A name as a pattern that matches only itself. */
const exact = (name) => name.replace(/[[*?]/g, "[$&]");

/** What a silence of this alert can cover: [label, pipeline, query, rule]. */
function scopes(one) {
  const found = [];
  if (one.query !== null) found.push([`Rule “${one.rule}” of query ${one.query}`, exact(one.pipeline), exact(one.query), exact(one.rule)]);
  found.push([one.pipeline ? `Rule “${one.rule}” in pipeline ${one.pipeline}` : `Rule “${one.rule}”`, exact(one.pipeline), null, exact(one.rule)]);
  if (one.pipeline) found.push([`All alerts of pipeline ${one.pipeline}`, exact(one.pipeline), null, "*"]);
  return found;
}

/** 9:00 on the next day, by this browser's clock. */
function tomorrow() {
  const at = new Date();
  at.setDate(at.getDate() + 1);
  at.setHours(9, 0, 0, 0);
  return at.getTime() / 1000;
}

const LENGTHS = {
  "1h": ["1 hour", () => ({ for: "1 hour" })],
  "4h": ["4 hours", () => ({ for: "4 hours" })],
  morning: ["Until tomorrow, 9:00", () => ({ until: tomorrow() })],
  other: ["Until another time", (form) => ({ until: Date.parse(form.elements.until.value) / 1000 })],
};

const choice = (name, value, label, isChosen) => h("label", { class: "choice" }, h("input", { type: "radio", name, value, checked: isChosen }), " ", label);

/** Asks which alerts, until when and why; the dialog stays open until the silence is accepted. */
function silence(one) {
  const dialog = document.getElementById("dialog");
  const ends = h("p", { class: "muted small", id: "silence-ends", "aria-live": "polite" });
  const wrong = h("div", { id: "silence-problem" });
  const submit = h("button", { type: "submit", id: "silence-yes" }, "Silence");
  const form = h("form", { id: "silence-form", onsubmit: (event) => { event.preventDefault(); send(); }, onchange: () => showEnd(), oninput: () => showEnd() },
    h("fieldset", {}, h("legend", {}, "No notices about"), scopes(one).map(([label], n) => choice("scope", n, label, n === 0))),
    h("fieldset", {}, h("legend", {}, "For how long"),
      Object.entries(LENGTHS).map(([key, [label]]) => choice("duration", key, label, key === "1h")),
      h("input", { type: "datetime-local", name: "until", "aria-label": `Until (${Intl.DateTimeFormat().resolvedOptions().timeZone})`, hidden: true }), ends),
    h("label", { for: "silence-reason" }, "Reason"),
    h("textarea", { id: "silence-reason", name: "reason", required: true, maxlength: 500, rows: 2, placeholder: "for example: maintenance of the database" }),
    wrong,
    h("div", { class: "row" }, submit, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel")));

  const length = () => LENGTHS[form.elements.duration.value][1](form);
  function showEnd() {
    const isOther = form.elements.duration.value === "other";
    form.elements.until.hidden = !isOther;
    form.elements.until.required = isOther;
    const asked = length();
    ends.textContent = asked.for ? "" : Number.isFinite(asked.until) ? `Ends at ${timestamp(asked.until)}.` : "";
  }
  async function send() {
    const [, pipeline, query, rule] = scopes(one)[Number(form.elements.scope.value)];
    submit.disabled = true;
    try {
      const text = await ask("/api/silences", { pipeline, query, rule, reason: form.elements.reason.value, ...length() });
      dialog.close();
      show(document.getElementById("acted"), h("p", {}, message(text || "The silence was requested; the supervisor has not replied yet.")));
      refresh();
    } catch (error) {
      show(wrong, problem(error));
    }
    submit.disabled = false;
  }

  dialog.onclose = () => document.getElementById(`silence-${one.id}`)?.focus();
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, `Silence alert ${one.id}`),
    h("p", {}, message(one.title)),
    h("p", { class: "muted small" }, "The alerts are still shown here. If one is still open when the silence ends, its notice is sent then."), form);
  showEnd();
  dialog.showModal();
}

// ---- deliveries

const DELIVERY = { sent: "good", waiting: "busy", failed: "bad" };
export const deliveryState = (name) => (name ? h("span", { class: `state ${DELIVERY[name] || "off"}` }, name) : "");
