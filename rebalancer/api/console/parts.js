// What pages are made of: sections, tables, links, overrides.

import { h } from "./dom.js";
import { changed, fresh, now } from "./live.js";
import { countsOf, parts, swatch } from "./marks.js";
import { holders } from "./tiles.js";
import { barred, cannotDecide, cannotEnd } from "./rights.js";
import { askOverride, endOverride } from "./writes.js";
import { clock, known, overrideName } from "./words.js";

const path = (...segments) => `/console/${segments.map(encodeURIComponent).join("/")}`;

export const toModel = (id, said = id) => h("a", { class: "name", href: path("models", id) }, said);
export const toPool = (name, said = name) => h("a", { class: "name", href: path("pools", name) }, said);
export const toPolicy = (said) => h("a", { href: "/console/policy" }, said);
export const toDecision = (cycle, ...said) => h("a", { href: path("decisions", cycle) }, ...said);

/** A titled part of a page; `aside` stands at the title's right. */
export function section(id, title, aside, ...kids) {
  return h("section", { key: id, id, "aria-labelledby": `${id}-title` },
    h("div", { class: "title" }, h("h2", { id: `${id}-title` }, title), aside), ...kids);
}

export const narrow = matchMedia("(max-width: 719px)");
narrow.addEventListener("change", changed);

/** A part that is folded on a telephone. */
export function folding(id, title, aside, ...kids) {
  if (!narrow.matches) return section(id, title, aside, ...kids);
  return h("details", { key: `${id}-fold`, id, class: "fold" }, h("summary", {}, h("h2", {}, title)), ...kids);
}

/** A table with a caption for readers who cannot see the heading; `columns`: [title, class]. */
export function table(kind, caption, columns, rows) {
  return h("div", { class: "scroll" }, h("table", { class: kind },
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, columns.map(([title, style]) => h("th", { scope: "col", class: style ?? null }, title)))),
    h("tbody", {}, rows)));
}

export const row = (key, ...cells) => h("tr", { key, "data-row": true }, ...cells);
export const cell = (style, ...kids) => h("td", { class: style || null }, ...kids);
export const number = (value, style = "") => h("td", { class: `number ${style}` }, known(value));

/** Numbers with their marks: `[#] owned 26  [/] loading 4`. */
export const legend = (counts) => h("ul", { class: "legend" }, parts(counts).map(([word, n]) => h("li", { key: word }, swatch(word), ` ${word} ${n}`)));

/** A list without an entry: what is looked for is not there, or nobody has looked yet. */
export const nowhere = (it, what = "pools") => h("p", { class: "quiet" }, it?.planAt === null ? "Reading state" : [`No ${what} found. Run: `, h("code", {}, "rebalancer doctor")]);

/** What a pool's GPUs do: bar, numbers and, where there are some, tiles. */
export function pool(each, tiles = true) {
  const counts = countsOf(each);
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
  const said = parts(counts).map(([word, n]) => `${word} ${n}`).join(", ");
  return h("li", { key: each.name, class: "pool" },
    h("p", { class: "pool-name" }, toPool(each.name), ` ${each.kind} ${known(each.gpus)}`, h("span", { class: "unseen" }, " GPUs")),
    h("rb-bar", { data: { said: `${each.name}: ${said || "no GPUs"}`, segments: parts(counts), total } }),
    legend(counts),
    tiles && each.nodes.length > 0 && tileMap(each.name, each.nodes, now.overview?.badges));
}

/** A pool's GPUs one by one, and whose they are. */
export const tileMap = (name, nodes, badges = {}) => [
  h("rb-tiles", { data: { pool: name, nodes: nodes.map(({ name: node, gpus, seated }) => ({ name: node, gpus, seated })), badges } }),
  holders(nodes, badges, name)];

/** Refused, superseded or expired: it changes nothing. */
const idle = (each) => each.phase && each.phase !== "InForce";

/** Overrides with a way to end each, and to add one. */
export function overrides(list, about, title = "Overrides") {
  return section("overrides", `${title} ${list.length}`,
    barred(cannotDecide(about?.namespace), { onclick: () => askOverride(about) }, about ? "Override" : "Add"),
    list.length === 0 && h("p", { class: "quiet" }, "None in force."),
    h("ul", { class: "overrides" }, list.map((each) => h("li", { key: `${each.namespace}/${each.name}`, class: idle(each) ? "idle" : null, "data-row": true },
      h("div", {}, h("p", {}, h("strong", {}, overrideName(each)), ", ", each.actor || "?", ", ", h("rb-until", { data: each.expiresAt })),
        h("p", { class: "quiet" }, `“${each.reason}” `, idle(each) && h("strong", {}, `${each.phase}: `), each.message)),
      barred(cannotEnd(each.namespace), { "aria-label": `End ${overrideName(each)}`, disabled: !fresh(), onclick: () => endOverride(each) }, "End")))));
}

/** Demand against what there is, as one small bar. */
export function modelBar(each) {
  const segments = [["owned", each.ready - each.onLoan], ["lent", each.onLoan - each.unowned], ["in use", each.unowned], ["loading", each.loading], ["doomed", each.doomed]];
  const has = each.ready + each.loading + each.doomed;
  const said = `${each.model}: ${segments.filter(([, n]) => n).map(([word, n]) => `${word} ${n}`).join(", ") || "no replicas"}; floor ${each.floor}, demand ${known(each.demand)}`;
  return h("rb-bar", { class: "small", data: { said, segments: segments.filter(([, n]) => n), total: Math.max(1, has, each.demand ?? 0, each.floor), floor: each.floor, demand: each.demand } });
}

const COLUMNS = [["Model", "model"], ["Replicas", "bar"], ["Demand", "number"], ["Alloc", "number"], ["Ready", "number"], ["Load", "number"], ["Doom", "number"], ["Floor", "number"], ["Why", "why"]];

/** The models table; `cycle`: the decision that its whys link. */
export function models(list, cycle) {
  if (list.length === 0) return nowhere(now.overview, "models");
  return table("models", "Models, trouble first; numbers are replicas", COLUMNS, list.map((each) => row(each.model,
    h("th", { scope: "row", class: "model" }, toModel(each.model)),
    cell("bar", modelBar(each)),
    number(each.demand, "demand"), number(each.allocation, "alloc"), number(each.ready, "ready"),
    number(each.loading, each.loading ? "loads" : "loads none"), number(each.doomed, "dooms"), number(each.floor, "floors"),
    cell(each.unmet ? "why short" : "why", toDecision(cycle, each.why || "?"), each.nextAt && `, next ${clock(each.nextAt)}`))));
}
