// What happened, as entries: each thing once, a shift with its release, its wait and its grant; each can be linked.

import { markKind, marked, once } from "./chart.js";
import { h } from "./dom.js";
import { glyph } from "./drawn.js";
import { serverNow } from "./live.js";
import { toDecision } from "./parts.js";
import { clock, ms, span } from "./words.js";

const WAITS_MS = 900_000; // as long as a shift is held open

/** The address at which an entry is in view and marked. */
export const toEntry = (each, ...said) => h("a", { href: `/console/timeline?entry=${encodeURIComponent(each.id)}` }, ...said);

const arrowed = (said) => said.replaceAll(" -> ", " → ");

/** A model's name is the subject; its own page leaves it out. */
const sentence = ({ model, said }, about) => (!model || model === about ? arrowed(said) : [h("span", { class: "name" }, model), " ", arrowed(said)]);

/** `code → chat, 4 s`, and its steps below. */
function shift(each, about, whole) {
  const [first, last] = [each.steps[0], each.steps.at(-1)];
  const seconds = (ms(last.at) - ms(first.at)) / 1000;
  const head = toDecision(each.cycle, h("span", { class: "name" }, marked(each)), ": ", whole ? `shift of ${span(seconds)}` : sentence({ model: "", said: last.said }, about));
  if (!whole) return head;
  return h("div", {}, head, h("ol", { class: "steps" },
    each.steps.slice(0, -1).map((step, n) => h("li", { key: n }, h("time", { datetime: step.at }, clock(step.at)), " release: ", sentence(step, about))),
    h("li", { key: "wait", class: "quiet" }, `waits ${span(seconds)}`),
    h("li", { key: "grant" }, h("time", { datetime: last.at }, clock(last.at)), " grant: ", sentence(last, about))));
}

function told(each, about, whole) {
  if (each.steps?.length) return shift(each, about, whole);
  const waits = each.kind === "release" && each.shift && serverNow() - ms(each.at) < WAITS_MS;
  return toDecision(each.cycle, sentence(each, about), waits && "; the grant is still to come");
}

/** Each with a key that stays when newer ones come above it: whoever points at one, or has the focus there, keeps it. */
function keyed(list) {
  const seen = {};
  return list.map((each) => [each, `${each.id} ${(seen[each.id] = (seen[each.id] ?? 0) + 1)}`]);
}

/** A list of entries, the newest first; `about`: the model whose page it stands on; `whole`: with the steps of shifts. */
export function entries(every, { most = Infinity, about = "", whole = false, entry = "" } = {}) {
  return h("ol", { class: "happenings" }, keyed(once(every)).toReversed().slice(0, most).map(([each, key]) => h("li", { key, "data-row": true, class: each.id === entry ? "here" : null, "aria-current": each.id === entry ? "true" : null },
    each.id === entry && h("rb-here", {}),
    glyph(markKind(each)), " ", toEntry(each, h("time", { datetime: each.at }, clock(each.at))), " ", h("span", { class: "unseen" }, `${markKind(each)}: `), told(each, about, whole))));
}

/** The newest of the last 30 minutes, or where older ones are. */
export function happenings(every, most, about = "") {
  const older = `/console/timeline${about ? `?${new URLSearchParams({ model: about })}` : ""}`;
  if (every.length === 0) return h("p", { class: "quiet" }, "Nothing in the last 30 minutes. ", h("a", { href: older }, "Older"));
  return [entries(every, { most, about }), h("p", {}, h("a", { href: older }, "Older"))];
}

/** Brings what it stands in into view when it comes. */
class Here extends HTMLElement {
  connectedCallback() {
    requestAnimationFrame(() => this.parentElement?.scrollIntoView({ block: "center" }));
  }
}

customElements.define("rb-here", Here);
