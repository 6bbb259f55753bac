import { h } from "../dom.js";
import { happenings } from "../entries.js";
import { hours } from "../hours.js";
import { now } from "../live.js";
import { countsOf, parts, swatch } from "../marks.js";
import { models, nowhere, overrides, pool, section, toModel, toPool } from "../parts.js";
import { clock, conditions, ms } from "../words.js";
import { wayOut } from "../writes.js";

const MINUTES_30 = 30 * 60_000;
const NEWEST = 8;
const MOST_ROWS = 20;

/** Is it alive, who lacks what, who holds which GPU, what happened, what is decided by people. */
export const overview = () => {
  const { overview: it } = now;
  if (!it) return [h("h1", { class: "unseen" }, "Overview"), h("p", { class: "quiet" }, now.trouble || "Reading state")];
  return [h("h1", { class: "unseen" }, "Overview"), conditionList(it), needs(it), pools(it), hours(), table(it),
    h("div", { key: "foot", class: "foot" }, timeline(it), overrides(it.overrides))];
};

const conditionList = (it) => {
  const told = conditions(it);
  return told.length > 0 && h("ul", { key: "conditions", class: "conditions" }, told.map((said) => h("li", {}, said)));
};

const until = (each) => (each.until ? ms(each.until) : Infinity);

function needs(it) {
  const list = it.needs.toSorted((a, b) => until(a) - until(b) || 0);
  if (list.length === 0) return section("needs", "Needs you", null, h("p", { class: "quiet" }, quiet(it)));
  return section("needs", `Needs you ${list.length}`, h("span", { class: "quiet" }, "soonest first"),
    h("ul", { class: "needs" }, list.map((each) => h("li", { key: `${each.model ?? each.node ?? each.pool} ${each.said.slice(0, 24)}`, class: each.severity, "data-row": true },
      h("span", { class: "severity", "aria-hidden": "true" }, each.severity === "critical" ? "x" : "!"),
      h("span", { class: "unseen" }, `${each.severity}: `),
      h("div", { class: "what" }, linked(each), (each.impact || each.since) && h("p", { class: "quiet" }, [each.impact, each.since && `since ${clock(each.since)}`].filter(Boolean).join(", "))),
      h("rb-until", { data: each.until }), each.wayOut && wayOut(each.wayOut)))));
}

/** Before the first plan nobody knows whether anything does. */
const quiet = (it) => (it.planAt ? "Nothing needs you." : "Not known before the first plan.");

const linked = (each) => (each.model ? toModel(each.model, each.said) : each.pool ? toPool(each.pool, each.said) : each.said);

function pools(it) {
  if (it.pools.length === 0) return section("pools", "Pools", null, nowhere(it));
  const counts = {};
  for (const each of it.pools) for (const [word, n] of Object.entries(countsOf(each))) counts[word] = (counts[word] ?? 0) + n;
  const total = it.pools.some((each) => each.gpus === null) ? "?" : it.pools.reduce((sum, each) => sum + each.gpus, 0);
  const sum = h("span", { class: "sum" }, "= ", parts(counts).map(([word, n], at) => h("span", { key: word }, at ? "+ " : "", swatch(word), ` ${word} ${n} `)));
  return section("pools", `Pools ${total}`, sum, h("ul", { class: "pools" }, it.pools.map((each) => pool(each))));
}

const table = (it) => section("models", "Models", h("span", { class: "quiet" }, "trouble first"), models(it.models.slice(0, MOST_ROWS), it.cycle),
  it.modelsTotal > MOST_ROWS && h("p", {}, h("a", { href: "/console/models" }, `All ${it.modelsTotal} models`)));

function timeline(it) {
  const to = ms(it.at);
  return section("timeline", "Timeline", h("a", { href: "/console/timeline" }, "all"),
    it.happenings.length > 0 && h("rb-lanes", { data: { from: to - MINUTES_30, to, happenings: it.happenings } }),
    happenings(it.happenings, NEWEST));
}

overview.title = "Overview";
