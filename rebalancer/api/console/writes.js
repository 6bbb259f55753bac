// Decisions of people: looked at first, sent once, believed only when the stream shows them.

import { draw, h } from "./dom.js";
import { fresh, live, liveness, now } from "./live.js";
import { call, Failed, get } from "./wire.js";
import { clock, counted, ms, overrideName, quoted } from "./words.js";

const dialog = document.getElementById("dialog");
const STAND_UP = "standUp"; // lasts as long as what it forgets could count, so nobody says how long
const ON_MODELS = { cap: true, pin: true, floor: true, pause: false, freeze: false, [STAND_UP]: false }; // kind -> takes a number
const ON_PLACES = { drain: false, exclude: false };
const AGAIN_MS = 2_000;

let view = null; // what the dialog shows: () => values of dom.js

/** Open the dialog with what `next` describes, and keep it drawn. */
export function open(next) {
  view = next;
  again();
  if (!dialog.open) dialog.showModal();
}

function again() {
  if (view && (dialog.open || !dialog.hasChildNodes())) draw(dialog, [h("div", { key: "body", class: "dialog" }, view())]);
}

dialog.addEventListener("close", () => {
  view = null;
  draw(dialog, []);
});
live.addEventListener("change", () => dialog.open && again());

export const close = () => dialog.close();
const title = (said) => h("h2", { id: "dialog-title" }, said);
const command = (said) => h("p", { class: "command" }, h("span", { class: "unseen" }, "The same by command: "), h("code", {}, said));
const cancel = (said = "Cancel") => h("button", { type: "button", onclick: close }, said);
const field = (name, label, input, hint) => h("p", { key: name, class: "field" }, h("label", { for: name }, label), input, hint && h("span", { id: `${name}-hint`, class: "quiet" }, hint));

/** A write on its way: Sending, Accepted, In force; a lost reply is asked for again with the same key. */
class Sending {
  said = "";
  trouble = "";
  state = "ready"; // ready, sending, checking, accepted, done

  constructor(visible) {
    this.visible = visible; // (overview, answer) -> what became of it as the stream shows it, or nothing yet
    this.key = crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint32Array(4))].join("-");
    this.answer = null;
    this.watch = () => this.look();
    live.addEventListener("change", this.watch);
    dialog.addEventListener("close", () => live.removeEventListener("change", this.watch), { once: true });
  }

  get busy() {
    return this.state !== "ready";
  }

  async send(method, path, body) {
    this.to("sending", "Sending");
    try {
      this.answer = await call(method, path, body, { "Idempotency-Key": this.key });
      this.to("accepted", "Accepted");
      this.look();
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      if (error.status === 0 || error.status === 504) return this.check(method, path, body);
      this.to("ready", "", error.message);
      throw error;
    }
  }

  async check(method, path, body) {
    this.to("checking", "May have been applied; checking");
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    if (dialog.open) await this.send(method, path, body);
  }

  look() {
    const became = this.state === "accepted" && this.visible(now.overview, this.answer);
    if (became) this.to("done", `${became}, cycle ${now.overview.cycle}`);
  }

  to(state, said, trouble = "") {
    Object.assign(this, { state, said, trouble });
    again();
  }

  outcome() {
    return h("p", { key: "outcome", role: "status", class: this.trouble ? "outcome trouble" : "outcome" }, this.trouble || this.said);
  }
}

// --- stop and resume

const inFlight = (overview) => [
  ...overview.models.filter((each) => each.loading).map((each) => `${each.model}: ${counted(each.loading, "replica")} loading`),
  ...overview.models.filter((each) => each.doomed).map((each) => `${each.model}: ${counted(each.doomed, "replica")} on nodes that go`),
];

export function askStop() {
  const sending = new Sending((overview) => overview.writesStopped && "In force");
  const form = { reason: "stopped in the console" };
  const send = (event) => {
    event.preventDefault();
    if (!sending.busy) sending.send("POST", "/v1/writes/stop", { reason: form.reason.trim() || "stopped in the console" }).catch(() => {});
  };
  open(() => [
    title("Stop all writes?"),
    h("form", { onsubmit: send },
      h("p", {}, "The whole service becomes read-only until a person resumes it. What runs goes on running; autoscalers keep the last bounds."),
      now.overview && flight(now.overview),
      field("stop-reason", "Reason", h("input", { id: "stop-reason", autofocus: true, maxlength: 256, required: true, value: "stopped in the console", oninput: (event) => ((form.reason = event.target.value), again()) })),
      command(`rebalancer writes stop --reason ${quoted(form.reason)}`),
      sending.outcome(),
      h("div", { class: "buttons" }, cancel(sending.busy ? "Close" : "Cancel"), h("button", { class: "stop", disabled: sending.busy }, "Stop writes"))),
  ]);
}

function flight(overview) {
  const list = inFlight(overview);
  return list.length ? [h("p", {}, "In flight, and left as it is:"), h("ul", {}, list.slice(0, 8).map((said) => h("li", { key: said }, said)), list.length > 8 && h("li", {}, `and ${list.length - 8} more`))] : h("p", {}, "Nothing is in flight.");
}

export async function askResume() {
  const sending = new Sending((overview) => !overview.writesStopped && "Writing");
  const form = { typed: "", first: null, trouble: "" };
  const send = (event) => {
    event.preventDefault();
    if (!sending.busy && form.typed === "resume") sending.send("POST", "/v1/writes/resume", { confirm: "resume" }).catch(() => {});
  };
  open(() => [
    title("Resume writes?"),
    h("form", { onsubmit: send },
      h("p", {}, "The first plan that would be written:"),
      form.first ? effects(form.first) : h("p", { class: form.trouble ? "trouble" : "quiet" }, form.trouble || "Asking what would be written"),
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

const effects = (preview) => h("div", { class: "preview" },
  preview.said.length ? h("pre", { tabindex: "0" }, preview.said.join("\n")) : h("p", {}, "Nothing would change."),
  preview.conflicts.map((said) => h("p", { key: said }, `Conflict: ${said}`)),
  h("p", {}, `Unmet ${preview.unmetBefore} → ${preview.unmetAfter}`));

// --- overrides

/** `about`: {model, kind}, or nothing for a free choice. */
export function askOverride(about) {
  const form = { kind: about?.kind ?? "cap", subject: about?.model ?? "", subjectKind: "model", value: "", minutes: "30", reason: "", below: false, preview: null, typed: "" };
  let sending = new Sending(inForce);
  const set = (name, value) => {
    form[name] = value;
    if (name !== "typed") form.preview = null;
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
      sending = new Sending(inForce);
      await look(event);
      sending.to("ready", "", `The plan has changed since; look again. ${error.message}`);
    }
  };
  open(() => [title("Override"), h("form", { onsubmit: form.preview ? apply : look }, fields(form, set, sending.busy), command(spoken(form)),
    form.preview && looked(form, set, sending.busy), sending.outcome(), buttons(form, sending))]);
}

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

const ready = (form, sending) => !sending.busy && fresh() && form.preview !== null && !form.preview.refused && (!form.preview.confirm || form.typed === form.preview.confirm);

function fields(form, set, busy) {
  const takesValue = ON_MODELS[form.kind];
  const places = form.kind in ON_PLACES;
  const pick = (event) => {
    form.subjectKind = event.target.value in ON_PLACES ? (form.subjectKind === "model" ? "node" : form.subjectKind) : "model";
    set("kind", event.target.value);
  };
  const input = (name, more) => h("input", { id: `override-${name}`, disabled: busy, value: form[name], oninput: (event) => set(name, event.target.value), ...more });
  return h("div", { class: "fields" },
    field("override-kind", "What", h("select", { id: "override-kind", autofocus: true, disabled: busy, onchange: pick }, Object.keys({ ...ON_MODELS, ...ON_PLACES }).map((kind) => h("option", { key: kind, value: kind }, kind)))),
    places && field("override-subjectKind", "Of a", h("select", { id: "override-subjectKind", disabled: busy, onchange: (event) => set("subjectKind", event.target.value) }, ["node", "pool"].map((kind) => h("option", { key: kind, value: kind }, kind)))),
    field("override-subject", places ? "Name" : "Model", input("subject", { required: true, autocomplete: "off", spellcheck: "false", list: "override-names" })),
    h("datalist", { id: "override-names" }, names(form).map((name) => h("option", { key: name, value: name }))),
    takesValue && field("override-value", "Replicas", input("value", { type: "number", min: 0, max: 100000, required: true, inputmode: "numeric" })),
    form.kind !== STAND_UP && field("override-minutes", "Minutes", input("minutes", { type: "number", min: 1, max: 10080, required: true, inputmode: "numeric" })),
    field("override-reason", "Reason", input("reason", { required: true, maxlength: 256, autocomplete: "off" })),
    (form.kind === "cap" || form.kind === "pin") && h("p", { key: "below", class: "field check" }, h("input", { id: "override-below", type: "checkbox", disabled: busy, onchange: (event) => set("below", event.target.checked) }), h("label", { for: "override-below" }, "May go below the policy's floor")));
}

function names({ subjectKind }) {
  const overview = now.overview ?? { models: [], pools: [] };
  if (subjectKind === "model") return overview.models.map((each) => each.model);
  if (subjectKind === "pool") return overview.pools.map((each) => each.name);
  return overview.pools.flatMap((each) => each.nodes.map((node) => node.name)).slice(0, 200);
}

function looked(form, set, busy) {
  const { preview } = form;
  return h("div", { key: "looked" },
    preview.refused ? h("p", { class: "trouble" }, `Refused: ${preview.refused}`) : effects(preview),
    !preview.refused && h("p", {}, `Until ${clock(preview.expiresAt)} UTC as ${preview.actor}.`),
    preview.confirm && field("override-typed", `Type ${preview.confirm}`, h("input", { id: "override-typed", autocomplete: "off", spellcheck: "false", disabled: busy, oninput: (event) => set("typed", event.target.value) }), "It takes capacity away at once."));
}

function buttons(form, sending) {
  const stale = liveness() === "NOT LIVE" ? "Apply is off while this page is not live." : "";
  return h("div", { class: "buttons" }, stale && h("span", { class: "quiet" }, stale), cancel(sending.busy ? "Close" : "Cancel"),
    form.preview
      ? h("button", { key: "apply", class: "primary", disabled: !ready(form, sending) }, "Apply")
      : h("button", { key: "look", class: "primary", disabled: form.looking }, form.looking ? "Asking" : "Preview"));
}

export function endOverride(each) {
  const sending = new Sending((overview) => !overview.overrides.some((other) => other.name === each.name && other.namespace === each.namespace) && "Ended");
  const send = (event) => {
    event.preventDefault();
    if (!sending.busy && fresh()) sending.send("DELETE", `/v1/overrides/${encodeURIComponent(each.namespace)}/${encodeURIComponent(each.name)}`).catch(() => {});
  };
  open(() => [
    title(`End ${overrideName(each)}?`),
    h("form", { onsubmit: send },
      h("p", {}, `${each.actor}, until ${clock(ms(each.expiresAt))} UTC: “${each.reason}”`),
      command(`rebalancer override delete ${quoted(each.name)} --namespace ${quoted(each.namespace)}`),
      sending.outcome(),
      h("div", { class: "buttons" }, cancel(sending.busy ? "Close" : "Keep it"), h("button", { class: "primary", autofocus: true, disabled: sending.busy || !fresh() }, "End"))),
  ]);
}
