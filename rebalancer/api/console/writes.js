// Decisions of people: looked at first, sent once, believed only when the stream shows them.

import { h } from "./dom.js";
import { fresh, liveness, now } from "./live.js";
import { barred, cannotDecide, cannotEnd } from "./rights.js";
import { again, cancel, command, field, open, Sending, tell, title } from "./sending.js";
import { call, get } from "./wire.js";
import { clock, counted, known, ms, overrideName, quoted, writing } from "./words.js";

const MOST_NAMED = 8; // of what is in flight
const TYPED_MS = 250; // after the last letter
const STAND_UP = "standUp"; // lasts as long as what it forgets could count, so nobody says how long
const ON_MODELS = { cap: true, pin: true, floor: true, pause: false, freeze: false, [STAND_UP]: false }; // kind -> takes a number
const ON_PLACES = { drain: false, exclude: false };
const MEANS = {
  cap: "Never more than this many replicas. What it needs counts on, so a cap below that makes requests late.",
  pin: "Exactly this many replicas, whatever its load is.",
  floor: "Never fewer than this many replicas; more where it needs them. Others may have to give.",
  pause: "Nothing is written to it, for a rollout by hand. Its replicas count as somebody else's.",
  freeze: "It keeps the replicas it has, whatever its load is.",
  [STAND_UP]: "Write again where somebody else wrote its number, once that is settled.",
  drain: "Everything of ours leaves it: replacements first, then what runs there.",
  exclude: "Nothing new goes there. What runs there stays.",
};

/** What comes of a decision while nothing is written. */
const HELD = {
  STOPPED: "Writes are stopped: it is kept, and acts when a person resumes them, if that is before its end.",
  SHADOW: "Shadow: it is kept, and shown in what would be done; nothing is written.",
  WAITING: "Nobody leads: it is kept, and acts when somebody does, if that is before its end.",
  UNKNOWN: "Whether somebody leads is not known here: it is kept, and acts when somebody does, if that is before its end.",
};

// --- stop and resume

/** Whether the overview has a row for every model: it has a hundred at most. */
const complete = () => now.overview.modelsTotal <= now.overview.models.length;

const inFlight = (loading, doomed) => [
  ...loading.filter((each) => each.loading).map((each) => `${each.model}: ${counted(each.loading, "replica")} loading`),
  ...doomed.filter((each) => each.doomed).map((each) => `${each.model}: ${counted(each.doomed, "replica")} on nodes that go`),
];

/** Once for a form: what is in flight of all models. */
async function askInFlight(form) {
  form.asking = true;
  try {
    const [loading, doomed] = await Promise.all(["loading", "doomed"].map((state) => get(`/v1/overview?state=${state}`)));
    form.flight = { list: inFlight(loading.models, doomed.models), total: loading.modelsTotal + doomed.modelsTotal };
  } catch (error) {
    form.trouble = error.message;
  }
  again();
}

export function askStop() {
  const sending = new Sending((overview) => overview.writesStopped && "Writes stopped", (said) => tell(said));
  const form = { reason: "stopped in the console", flight: null, asking: false, trouble: "" };
  const send = (event) => {
    event.preventDefault();
    if (!sending.busy) sending.send("POST", "/v1/writes/stop", { reason: form.reason.trim() || "stopped in the console" }).catch(() => {});
  };
  open(() => [
    title("Stop all writes?"),
    h("form", { onsubmit: send },
      h("p", {}, "The whole service becomes read-only until a person resumes it. What runs goes on running; autoscalers keep the last bounds."),
      now.overview && flight(form),
      field("stop-reason", "Reason", h("input", { id: "stop-reason", autofocus: true, maxlength: 256, required: true, value: "stopped in the console", oninput: (event) => ((form.reason = event.target.value), again()) })),
      command(`rebalancer writes stop --reason ${quoted(form.reason)}`),
      sending.outcome(),
      h("div", { class: "buttons" }, cancel(sending.busy ? "Close" : "Cancel"), h("button", { class: "stop", disabled: sending.busy }, "Stop writes"))),
  ]);
}

/** Asked for as it is first drawn without: the first picture may come after the dialog. */
function flight(form) {
  if (!complete() && !form.asking) askInFlight(form);
  const all = complete() ? inFlight(now.overview.models, now.overview.models) : null;
  const { list, total } = (all ? { list: all, total: all.length } : form.flight) ?? {};
  if (!list) return h("p", { key: "flight", class: "quiet" }, form.trouble ? `What is in flight is not known: ${form.trouble}` : "Asking what is in flight");
  if (!total) return h("p", { key: "flight" }, "Nothing is in flight.");
  const named = list.slice(0, MOST_NAMED);
  return h("div", { key: "flight", class: "flight" }, h("p", {}, "In flight, and left as it is:"), h("ul", {}, named.map((said) => h("li", { key: said }, said)), total > named.length && h("li", {}, `and ${total - named.length} more`)));
}

export async function askResume() {
  const sending = new Sending((overview) => !overview.writesStopped && "Writing again", (said) => tell(said));
  const form = { typed: "", first: null, trouble: "" };
  const send = (event) => {
    event.preventDefault();
    if (!sending.busy && form.typed === "resume") sending.send("POST", "/v1/writes/resume", { confirm: "resume" }).catch(() => {});
  };
  open(() => [
    title("Resume writes?"),
    h("form", { onsubmit: send },
      h("p", {}, "The first plan that would be written:"),
      foreseen(form, "Asking what would be written"),
      field("resume-word", "Type resume", h("input", { id: "resume-word", autofocus: true, autocomplete: "off", oninput: (event) => ((form.typed = event.target.value), again()) })),
      command("rebalancer writes resume"),
      sending.outcome(),
      h("div", { class: "buttons" }, cancel(sending.busy ? "Close" : "Cancel"), h("button", { class: "primary", disabled: sending.busy || form.typed !== "resume" || !form.first }, "Resume writes"))),
  ]);
  try {
    form.first = await get("/v1/writes/preview");
  } catch (error) {
    form.trouble = error.message;
  }
  again();
}

/** What is foreseen once it is known: in one node all the while, so that what has the focus beside it keeps it. */
const foreseen = ({ first, trouble }, asking, ...words) => h("div", { key: "foreseen" }, first ? effects(first, ...words) : h("p", { class: trouble ? "trouble" : "quiet" }, trouble || asking));

/** What would come, then what it costs and whom, which is not to be read past, and what it brings. */
function effects(preview, without = "without it", within = "with it") {
  const prices = new Set([...preview.costs.map((said) => `cost ${said}`), ...preview.gains.map((said) => `gain ${said}`)]);
  const lines = preview.said.filter((said) => !prices.has(said));
  return h("div", { class: "preview" },
    lines.length ? h("pre", { tabindex: "0" }, lines.join("\n")) : h("p", {}, "Nothing would change."),
    preview.conflicts.map((said) => h("p", { key: said }, `Conflict: ${said}`)),
    preview.costs.length > 0 && h("ul", { class: "costs" }, preview.costs.map((said) => h("li", { key: said }, said))),
    preview.gains.length > 0 && h("ul", { class: "gains" }, preview.gains.map((said) => h("li", { key: said }, `For that: ${said}`))),
    h("p", {}, preview.unmetBefore || preview.unmetAfter ? `All models together: short by ${counted(preview.unmetBefore, "replica")} ${without}, by ${preview.unmetAfter} ${within}.` : "Nobody is short by it."));
}

// --- overrides

/** `about`: {model, kind, value} and what is known of that model, or nothing for a free choice. */
export function askOverride(about) {
  const form = { about, kind: about?.kind ?? "cap", subject: about?.model ?? "", subjectKind: "model", value: String(about?.value ?? ""), minutes: "30", reason: "", below: false, preview: null, typed: "", rows: [] };
  const done = (said, { override }) => tell(`${overrideName(override)}: ${said}`, said.startsWith("In force") ? () => undo(override) : null);
  let sending = new Sending(inForce, done);
  const set = (name, value) => {
    form[name] = value;
    if (name !== "typed") form.preview = null;
    if (name === "subject") askRows(form);
    if (!sending.busy) sending.trouble = "";
    again();
  };
  const look = async (event) => {
    event.preventDefault();
    form.looking = true;
    again();
    try {
      form.preview = await call("POST", "/v1/overrides/preview", asked(form));
      sending.trouble = "";
    } catch (error) {
      sending.to("ready", "", error.message);
    }
    form.looking = false;
    again();
  };
  const apply = async (event) => {
    event.preventDefault();
    if (!ready(form, sending)) return;
    try {
      await sending.send("POST", "/v1/overrides", { ...asked(form), preview: form.preview.preview, confirm: form.typed || null });
    } catch (error) {
      if (error.status !== 409) return;
      sending.leave();
      sending = new Sending(inForce, done);
      await look(event);
      sending.to("ready", "", `The plan has changed since; look again. ${error.message}`);
    }
  };
  askRows(form);
  open(() => [title("Override"), h("form", { onsubmit: form.preview ? apply : look }, fields(form, set, sending.busy), command(spoken(form)),
    form.preview && looked(form, set, sending.busy), sending.outcome(), buttons(form, sending))]);
}

let typed = 0;

/** The rows of models like the one that is typed, where the overview may have none for it. */
function askRows(form) {
  clearTimeout(typed);
  const q = form.subject.trim();
  if (!q || form.subjectKind !== "model" || !now.overview || complete()) return;
  typed = setTimeout(() => get(`/v1/overview?${new URLSearchParams({ q })}`).then(({ models }) => {
    if (q === form.subject.trim()) form.rows = models;
    again();
  }, () => {}), TYPED_MS); // the preview says what is wrong
}

const rowsOf = (form) => [...(now.overview?.models ?? []), ...form.rows];
const rowOf = (form) => rowsOf(form).find((each) => each.model === form.subject.trim());

function inForce(overview, { override }) {
  const found = overview.overrides.find((each) => each.name === override.name && each.namespace === override.namespace);
  return found?.phase === "InForce" ? "In force" : found?.phase && `${found.phase}: ${found.message}`;
}

function asked(form) {
  const takesValue = ON_MODELS[form.kind];
  return {
    kind: form.kind,
    target: { [form.subjectKind]: form.subject.trim() },
    reason: form.reason.trim(),
    value: takesValue && form.value !== "" ? Number(form.value) : null,
    forSeconds: form.kind === STAND_UP || form.minutes === "" ? null : Number(form.minutes) * 60,
    allowBelowFloor: form.below,
  };
}

function spoken(form) {
  const subject = form.subject.trim() || "NAME";
  const about = form.subjectKind === "model" ? quoted(subject) : quoted(`${form.subjectKind}/${subject}`);
  const why = `--reason ${quoted(form.reason.trim() || "WHY")}`;
  if (form.kind === STAND_UP) return `rebalancer stand-up ${about} ${why}`;
  const value = ON_MODELS[form.kind] ? ` ${form.value || "N"}` : "";
  return `rebalancer override add ${form.kind} ${about}${value} --for ${form.minutes || 30}m ${why}${form.below ? " --allow-below-floor" : ""}`;
}

/** Why the person may not decide this, once the preview has said where it would stand; until then for their model. */
function forbidden(form) {
  const row = rowOf(form);
  return cannotDecide(form.preview?.namespace || (form.subjectKind === "model" && row?.namespace) || undefined);
}

const ready = (form, sending) => !sending.busy && !forbidden(form) && fresh() && form.preview !== null && !form.preview.refused && (!form.preview.confirm || form.typed === form.preview.confirm);

function fields(form, set, busy) {
  const takesValue = ON_MODELS[form.kind];
  const places = form.kind in ON_PLACES;
  const pick = (event) => {
    form.subjectKind = event.target.value in ON_PLACES ? (form.subjectKind === "model" ? "node" : form.subjectKind) : "model";
    set("kind", event.target.value);
  };
  const input = (name, more) => h("input", { id: `override-${name}`, disabled: busy, value: form[name], oninput: (event) => set(name, event.target.value), ...more });
  return h("div", { class: "fields" }, h("p", { key: "means", id: "override-means", class: "means" }, MEANS[form.kind]),
    field("override-kind", "What", h("select", { id: "override-kind", autofocus: true, disabled: busy, "aria-describedby": "override-means", onchange: pick }, Object.keys({ ...ON_MODELS, ...ON_PLACES }).map((kind) => h("option", { key: kind, value: kind, selected: kind === form.kind }, kind)))),
    places && field("override-subjectKind", "Of a", h("select", { id: "override-subjectKind", disabled: busy, onchange: (event) => set("subjectKind", event.target.value) }, ["node", "pool"].map((kind) => h("option", { key: kind, value: kind }, kind)))),
    field("override-subject", places ? "Name" : "Model", input("subject", { required: true, autocomplete: "off", spellcheck: "false", list: "override-names" })),
    h("datalist", { id: "override-names" }, names(form).map((name) => h("option", { key: name, value: name }))),
    takesValue && field("override-value", "Replicas", input("value", { type: "number", min: 0, max: 100000, required: true, inputmode: "numeric", "aria-describedby": "override-facts" })),
    form.kind !== STAND_UP && field("override-minutes", "Minutes", input("minutes", { type: "number", min: 1, max: 10080, required: true, inputmode: "numeric" })),
    field("override-reason", "Reason", input("reason", { required: true, maxlength: 256, autocomplete: "off" })),
    !places && facts(form),
    (form.kind === "cap" || form.kind === "pin") && h("p", { key: "below", class: "field check" }, h("input", { id: "override-below", type: "checkbox", disabled: busy, onchange: (event) => set("below", event.target.checked) }), h("label", { for: "override-below" }, "May go below the policy's floor")));
}

/** Between which numbers a person chooses. */
function facts(form) {
  const { about, subject } = form;
  const row = rowOf(form);
  const it = row ? { now: row.ready + row.loading, floor: row.floor, most: row.most } : about?.model === subject && about.floor !== undefined ? about : null;
  return h("p", { key: "facts", id: "override-facts", class: "facts-line" }, it ? [["now", it.now], ["floor", it.floor], ["most", it.most]].map(([name, n]) => h("span", { key: name }, `${name} `, h("strong", {}, known(n)), " ")) : h("span", { class: "quiet" }, "now, floor and most: once a model is named"));
}

function names(form) {
  const { subjectKind } = form;
  const overview = now.overview ?? { pools: [] };
  if (subjectKind === "model") return [...new Set(rowsOf(form).map((each) => each.model))];
  if (subjectKind === "pool") return overview.pools.map((each) => each.name);
  return overview.pools.flatMap((each) => each.nodes.map((node) => node.name)).slice(0, 200);
}

function looked(form, set, busy) {
  const { preview } = form;
  return h("div", { key: "looked" },
    preview.refused ? h("p", { class: "trouble" }, `Refused: ${preview.refused}`) : effects(preview),
    !preview.refused && h("p", {}, `Until ${clock(preview.expiresAt)} UTC by the service's clock, as ${preview.actor}.`),
    !preview.refused && writing(now.overview) !== "WRITING" && h("p", { class: "trouble" }, HELD[writing(now.overview)]),
    preview.confirm && field("override-typed", `Type ${preview.confirm}`, h("input", { id: "override-typed", autocomplete: "off", spellcheck: "false", disabled: busy, oninput: (event) => set("typed", event.target.value) }), "It takes capacity away at once."));
}

function buttons(form, sending) {
  const stale = liveness() === "NOT LIVE" ? "Apply is off while this page is not live." : forbidden(form) || "";
  return h("div", { class: "buttons" }, stale && h("span", { class: "quiet" }, stale), cancel(sending.busy ? "Close" : "Cancel"),
    form.preview
      ? h("button", { key: "apply", class: "primary", disabled: !ready(form, sending) }, "Apply")
      : h("button", { key: "look", class: "primary", disabled: form.looking }, form.looking ? "Asking" : "Preview"));
}

const isGone = (each) => (overview) => !overview.overrides.some((other) => other.name === each.name && other.namespace === each.namespace) && "Ended";
const pathOf = (each) => `/v1/overrides/${encodeURIComponent(each.namespace)}/${encodeURIComponent(each.name)}`;
const ended = (each) => (said) => tell(`${overrideName(each)}: ${said}`);

/** Take back at once what was just applied. */
function undo(each) {
  const cannot = cannotEnd(each.namespace);
  if (cannot) return tell(cannot);
  tell(`${overrideName(each)}: ending it`);
  new Sending(isGone(each), ended(each)).send("DELETE", pathOf(each)).catch((error) => tell(error.message));
}

export async function endOverride(each) {
  const form = { first: null, trouble: "" };
  const sending = new Sending(isGone(each), ended(each));
  const send = (event) => {
    event.preventDefault();
    if (!sending.busy && fresh()) sending.send("DELETE", pathOf(each)).catch(() => {});
  };
  open(() => [
    title(`End ${overrideName(each)}?`),
    h("form", { onsubmit: send },
      h("p", {}, `${each.actor}, until ${clock(ms(each.expiresAt))} UTC: “${each.reason}”`),
      foreseen(form, "Asking what would come without it", "with it", "once it has ended"),
      command(`rebalancer override delete ${quoted(each.name)} --namespace ${quoted(each.namespace)}`),
      sending.outcome(),
      h("div", { class: "buttons" }, cancel(sending.busy ? "Close" : "Keep it"), h("button", { class: "primary", autofocus: true, disabled: sending.busy || !fresh() }, "End"))),
  ]);
  try {
    form.first = await get(`${pathOf(each)}/preview`);
  } catch (error) {
    form.trouble = error.message;
  }
  again();
}

// --- what a need offers

const KEEPS_DOWN = ["pause", "freeze", "pin", "cap"]; // a floor does not, nor what is said of a pool of the model's name

/** The button that opens the right dialog, or the command where only that helps. */
export function wayOut({ said, command: spoken, kind, model, value }) {
  const keeps = (each) => each.subject === model && each.subjectKind === "model" && each.phase === "InForce" && KEEPS_DOWN.includes(each.kind);
  const standing = kind === "end" && now.overview.overrides.find(keeps);
  if (!kind || (kind === "end" && !standing)) return h("p", { class: "command way" }, h("code", {}, spoken));
  const row = now.overview.models.find((each) => each.model === model);
  const cannot = standing ? cannotEnd(standing.namespace) : cannotDecide(row?.namespace);
  const act = standing ? () => endOverride(standing) : () => askOverride({ model, kind, value });
  return h("div", { class: "way" }, barred(cannot, { title: spoken, onclick: act }, `${said[0].toUpperCase()}${said.slice(1)}`));
}
