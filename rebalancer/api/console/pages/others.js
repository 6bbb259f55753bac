// Whole lists: models, pools and one pool, the timeline, overrides.

import { h } from "../dom.js";
import { happenings } from "../entries.js";
import { filters, pick, query, search } from "../filters.js";
import { now } from "../live.js";
import { countsOf } from "../marks.js";
import { cell, legend, models as modelsTable, nowhere, number, overrides as overrideList, pool as poolRow, row, section, table, tileMap, toModel } from "../parts.js";
import { clock, counted, known, ms, overrideName } from "../words.js";

const PER_PAGE = 100;
const STATES = ["", "floor", "short", "blind", "held", "surge", "doomed", "loading", "lending", "borrowing"];
const SORTS = ["trouble", "model", "demand", "unmet", "priority"];

export const models = (it) => {
  const { q = "", state = "", sort = "", page = "1" } = search();
  const at = Number(page) || 1;
  const pages = Math.max(1, Math.ceil(it.modelsTotal / PER_PAGE));
  const to = (n) => `/console/models${query({ q, state, sort, page: n > 1 ? n : "" })}`;
  return [
    h("h1", {}, `Models ${it.modelsTotal}`),
    filters(h("label", {}, "Name ", h("input", { name: "q", value: q, type: "search" })), pick("state", "State", STATES, state), pick("sort", "Sort", SORTS, sort || "trouble")),
    it.modelsTotal === 0 && (q || state) ? h("p", { class: "quiet" }, "No model is like that. ", h("a", { href: "/console/models" }, "Show all")) : modelsTable(it.models, it.cycle),
    pages > 1 && h("nav", { class: "pages", "aria-label": "Pages of models" }, at > 1 && h("a", { href: to(at - 1) }, "Previous"), ` Page ${at} of ${pages} `, at < pages && h("a", { href: to(at + 1) }, "Next")),
  ];
};
models.title = "Models";
models.path = () => `/v1/overview${query(search())}`;

export const pools = () => [h("h1", {}, "Pools"), now.overview?.pools.length === 0 ? nowhere(now.overview) : h("ul", { class: "pools" }, now.overview?.pools.map((each) => poolRow(each)))];
pools.title = "Pools";

export const pool = (it) => {
  const page = Number(search().page) || 1;
  const pages = Math.max(1, Math.ceil(it.nodesTotal / 64));
  const facts = [["Budget, GPUs", known(it.budget)], ["Promised, GPUs", known(it.promised)], ["Limit, GPUs", it.gpuLimit], ["Nodes", it.nodesTotal]];
  if (it.pricePerGpuHour) facts.push(["GPU-hour", `${it.pricePerGpuHour} USD`]);
  return [
    h("div", { class: "head" }, h("h1", {}, h("span", { class: "name" }, it.name), ` ${it.kind} ${known(it.gpus)} GPUs`), h("p", { class: "quiet" }, [it.capacityType, it.resource, ...it.nodePools].filter(Boolean).join(" · "))),
    h("dl", { class: "numbers" }, facts.map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, String(value))))),
    legend(countsOf(it)),
    it.nodes.length > 0 && tileMap(it.name, it.nodes, it.badges),
    section("nodes", "Nodes", null, table("nodes", "Nodes and who holds their GPUs", [["Node"], ["State"], ["GPUs by model"]], it.nodes.map((node) => row(node.name,
      h("th", { scope: "row", class: "name" }, node.name), cell("", nodeState(node)), cell("", holders(node)))))),
    pages > 1 && h("nav", { class: "pages", "aria-label": "Pages of nodes" }, page > 1 && h("a", { href: `?page=${page - 1}` }, "Previous"), ` Page ${page} of ${pages} `, page < pages && h("a", { href: `?page=${page + 1}` }, "Next")),
    it.kind === "elastic" ? inUse(it.loans) : loans(it.loans, it.name),
    section("history", "History", null, happenings(it.happenings, 12)),
  ];
};
pool.title = (it) => it.name;
pool.path = ([name]) => `/v1/pools/${encodeURIComponent(name)}${query({ page: search().page })}`;

const MOST_LOANS = 100;

/** `: 4 replicas on 8 GPUs`; "" of none. */
const onGpus = (list) => (list.length ? `: ${counted(list.length, "replica")} on ${counted(list.reduce((sum, each) => sum + each.gpus, 0), "GPU")}` : "");

const loans = (list, pool) => section("loans", `Lent${onGpus(list)}`, null, list.length ? table("loans", "Replicas on somebody else's GPUs", [["Borrower"], ["Lender"], ["GPUs", "number"], ["Since", "number"]], list.slice(0, MOST_LOANS).map((loan, n) => row(`${loan.borrower} ${loan.at} ${n}`,
  h("th", { scope: "row" }, toModel(loan.borrower)), cell("name", loan.lender === pool ? "nobody's" : loan.lender), number(loan.gpus), cell("number", clock(loan.at))))) : h("p", { class: "quiet" }, "Nothing is lent."));

/** Of a pool that nobody owns. */
const inUse = (list) => section("loans", `In use${onGpus(list)}`, null, list.length ? table("loans", "Replicas on GPUs that nobody owns", [["Model"], ["GPUs", "number"], ["Since", "number"]], list.slice(0, MOST_LOANS).map((loan, n) => row(`${loan.borrower} ${loan.at} ${n}`,
  h("th", { scope: "row" }, toModel(loan.borrower)), number(loan.gpus), cell("number", clock(loan.at))))) : h("p", { class: "quiet" }, "Nothing is in use."));

const nodeState = (node) => (node.doomedAt ? ["goes ", clock(node.doomedAt)] : !node.ready ? "not Ready" : node.refused ? ["not counted: ", node.refused] : node.schedulable ? "ready" : "cordoned");

/** Models on a node with the GPUs they hold, most first. */
function holders(node) {
  const held = new Map();
  for (const pod of node.pods) held.set(pod.model, (held.get(pod.model) ?? 0) + pod.gpus);
  const told = [...held].sort((a, b) => b[1] - a[1]).map(([model, gpus], n) => [n ? ", " : "", toModel(model), ` ${gpus}`]);
  return [told, node.foreignGpus > 0 && `${held.size ? ", " : ""}others ${node.foreignGpus}`, held.size + node.foreignGpus === 0 && "nothing"];
}

const MOST_OVER = 50;

/** What counts now, with a way to end each, and what is over: expired, or deleted as far as the service remembers. */
export const overrides = (it) => {
  const past = [...it.overrides.filter((each) => each.phase === "Expired"), ...it.gone].sort((one, other) => ms(other.createdAt) - ms(one.createdAt));
  return [h("h1", {}, "Overrides"), now.overview && overrideList(now.overview.overrides, undefined, "Now"),
    section("over", `Over ${past.length}`, null, past.length === 0 && h("p", { class: "quiet" }, "None that the service remembers."),
      h("ul", { class: "plain" }, past.slice(0, MOST_OVER).map((each) => h("li", { key: each.uid, "data-row": true },
        h("strong", {}, overrideName(each)), `, ${each.actor || "?"}, from ${clock(each.createdAt)}: ${each.phase.toLowerCase()}${each.phase === "Expired" ? ` ${clock(each.expiresAt)}` : ""}`, h("p", { class: "quiet" }, `“${each.reason}”`)))))];
};
overrides.title = "Overrides";
overrides.path = () => "/v1/overrides";
