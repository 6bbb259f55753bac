// Every page besides the overview and a model's: whole lists, pools, decisions, health, the door.

import { h } from "../dom.js";
import { happenings } from "../entries.js";
import { filters, pick, query, search } from "../filters.js";
import { begin, changed, now, serverNow } from "../live.js";
import { cell, legend, models as modelsTable, number, overrides as overrideList, pool as poolRow, row, section, table, tileMap, toDecision, toModel } from "../parts.js";
import { call } from "../wire.js";
import { clock, counted, known, span } from "../words.js";

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
    modelsTable(it.models, it.cycle),
    pages > 1 && h("nav", { class: "pages", "aria-label": "Pages of models" }, at > 1 && h("a", { href: to(at - 1) }, "Previous"), ` Page ${at} of ${pages} `, at < pages && h("a", { href: to(at + 1) }, "Next")),
  ];
};
models.title = "Models";
models.path = () => `/v1/overview${query(search())}`;

export const pools = () => [h("h1", {}, "Pools"), h("ul", { class: "pools" }, now.overview?.pools.map((each) => poolRow(each)))];
pools.title = "Pools";

export const pool = (it) => {
  const page = Number(search().page) || 1;
  const pages = Math.max(1, Math.ceil(it.nodesTotal / 64));
  const facts = [["Budget", known(it.budget)], ["Promised", known(it.promised)], ["Limit", it.gpuLimit], ["Nodes", it.nodesTotal]];
  if (it.pricePerGpuHour) facts.push(["GPU-hour", it.pricePerGpuHour]);
  return [
    h("div", { class: "head" }, h("h1", {}, h("span", { class: "name" }, it.name), ` ${it.kind} ${known(it.gpus)} GPUs`), h("p", { class: "quiet" }, [it.capacityType, it.resource, ...it.nodePools].filter(Boolean).join(" · "))),
    h("dl", { class: "numbers" }, facts.map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, String(value))))),
    legend(it.counts),
    it.nodes.length > 0 && tileMap(it.name, it.nodes, it.badges),
    section("nodes", "Nodes", null, table("nodes", "Nodes and who holds their GPUs", [["Node"], ["State"], ["Holds"]], it.nodes.map((node) => row(node.name,
      h("th", { scope: "row", class: "name" }, node.name), cell("", nodeState(node)), cell("", holders(node)))))),
    pages > 1 && h("nav", { class: "pages", "aria-label": "Pages of nodes" }, page > 1 && h("a", { href: `?page=${page - 1}` }, "Previous"), ` Page ${page} of ${pages} `, page < pages && h("a", { href: `?page=${page + 1}` }, "Next")),
    section("loans", `Loans ${it.loans.length}`, null, it.loans.length ? table("loans", "Replicas on somebody else's GPUs", [["Borrower"], ["Lender"], ["GPUs", "number"], ["Since", "number"]], it.loans.slice(0, 100).map((loan, n) => row(`${loan.borrower} ${loan.at} ${n}`,
      h("th", { scope: "row" }, toModel(loan.borrower)), cell("name", loan.lender), number(loan.gpus), cell("number", clock(loan.at))))) : h("p", { class: "quiet" }, "Nothing is lent.")),
    section("history", "History", null, happenings(it.happenings, 12)),
  ];
};
pool.title = (it) => it.name;
pool.path = ([name]) => `/v1/pools/${encodeURIComponent(name)}${query({ page: search().page })}`;

const nodeState = (node) => (node.doomedAt ? ["goes ", clock(node.doomedAt)] : !node.ready ? "not Ready" : node.refused ? ["not counted: ", node.refused] : node.schedulable ? "ready" : "cordoned");

/** Models on a node with the GPUs they hold, most first. */
function holders(node) {
  const held = new Map();
  for (const pod of node.pods) held.set(pod.model, (held.get(pod.model) ?? 0) + pod.gpus);
  const told = [...held].sort((a, b) => b[1] - a[1]).map(([model, gpus], n) => [n ? ", " : "", toModel(model), ` ${gpus}`]);
  return [told, node.foreignGpus > 0 && `${held.size ? ", " : ""}others ${node.foreignGpus}`, held.size + node.foreignGpus === 0 && "nothing"];
}

export const overrides = () => [h("h1", {}, "Overrides"), now.overview && overrideList(now.overview.overrides)];
overrides.title = "Overrides";

export const health = (it) => [
  h("div", { class: "head" }, h("h1", {}, "Health"), now.session?.expiresAt && h("button", { onclick: leave }, "Log out")),
  h("dl", { class: "facts" }, facts(it).map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, String(value))))),
  it.unready?.length > 0 && section("unready", "Not as it should be", null, h("ul", { class: "plain" }, it.unready.map((each) => h("li", { key: each.what }, `${each.what} since ${clock(each.since)}${each.detail && `: ${each.detail}`}`)))),
  section("doctor", "The rest is told by", null, h("p", { class: "command" }, h("code", {}, "rebalancer doctor"), " ", h("code", {}, "rebalancer config check"))),
];
health.title = "Health";
health.path = () => "/v1/status";

const facts = (it) => [
  ["You", now.session?.user ?? "?"],
  ["Answers", it.instance || "?"],
  ["Leads", it.leader || "nobody"],
  ["Writes", it.writesStopped ? "stopped" : it.writeMode],
  ["Plan", it.plan ? `cycle ${it.plan.cycle}, ${span((serverNow() - Date.parse(it.plan.at)) / 1000)} old` : "none yet"],
  ["Policy", it.policyDigest ? it.policyDigest.slice(0, 12) : "?"],
  ["Policy file", it.policyProblems.length ? it.policyProblems.join("; ") : "good"],
  ["Not read yet", it.sync.missing.join(", ") || "nothing"],
  ["Silent", it.sync.stale.join(", ") || "nothing"],
  ["Notices", counted(it.notices.length, "notice")],
];

const MOST = 200;

/** One cycle: what it saw, what it decided and refused, what became of that. */
export const decision = (it) => {
  const { plan, inputs, outcomes } = it;
  const changed = plan.changes.length + plan.nodePools.length;
  return [
    h("div", { class: "head" }, h("h1", {}, `Decision ${it.cycle}`), h("p", { class: "quiet" }, `${clock(it.at)} UTC · policy ${it.policyDigest.slice(0, 12) || "?"} · code ${it.codeDigest.slice(0, 12) || "?"}`)),
    section("inputs", "Inputs", null, h("p", {}, `${inputs.models.length} models, ${inputs.pools.length} pools, ${inputs.notices.length} notices, ${inputs.overrides.length} overrides`, inputs.writeStop && ", writes stopped", ". Again from these: "), h("p", { class: "command" }, h("code", {}, `rebalancer explain MODEL --at ${it.at}`))),
    section("plan", `Plan ${changed}`, null, changed === 0 ? h("p", { class: "quiet" }, "Nothing to write.") : h("ul", { class: "plain" },
      plan.changes.slice(0, MOST).map((each) => h("li", { key: each.id }, mark(each), " ", toModel(each.model), ` ${each.reason}${each.replicasFrom === each.replicasTo ? "" : ` (${each.replicasFrom} → ${each.replicasTo})`}`)),
      plan.nodePools.map((each) => h("li", { key: each.id }, "~ ", h("span", { class: "name" }, `nodepool/${each.name}`), ` ${each.kind} ${each.limitTo === null ? "" : `${known(each.limitFrom)} → ${each.limitTo} GPU limit`} ${each.reason}`)))),
    plan.refusals.length > 0 && section("refused", `Refused ${plan.refusals.length}`, null, h("ul", { class: "plain" }, plan.refusals.slice(0, MOST).map((each, n) => h("li", { key: n }, `! ${refused(each)}`)))),
    plan.unmet.length > 0 && section("unmet", "Unmet", null, h("ul", { class: "plain" }, plan.unmet.slice(0, MOST).map((each) => h("li", { key: each.model }, toModel(each.model), ` is short of ${counted(each.replicas, "replica")}: ${each.why}`)))),
    outcomes.length > 0 && section("outcomes", "What became of it", null, h("ul", { class: "plain" }, outcomes.slice(0, MOST).map((each) => h("li", { key: each.intent.id }, `${clock(each.at)} ${each.intent.object}: ${each.status} ${each.detail}`)))),
    section("steps", "Steps by model", null, plan.models.slice(0, MOST).map((each) => h("details", { key: each.model, open: plan.models.length === 1 }, h("summary", {}, h("span", { class: "name" }, each.model), ` ${each.why}`),
      table("steps", `Steps of ${each.model}`, [["Stage"], ["Said"]], each.steps.map((step, n) => row(n, h("th", { scope: "row" }, step.stage), cell("", step.said))))))),
    section("pools", "Pools", null, table("pools-table", "GPUs of each pool then", [["Pool"], ["Budget", "number"], ["Promised", "number"], ["Owned", "number"], ["Lent", "number"], ["Loading", "number"], ["Doomed", "number"], ["Other", "number"], ["Free", "number"]], plan.pools.map((each) => row(each.pool,
      h("th", { scope: "row", class: "name" }, each.pool), [each.budget, each.promised, each.owned, each.lent, each.loading, each.doomed, each.foreign, each.free].map((n) => number(n)))))),
  ];
};

/** As the command line says it. */
function refused({ subject, guard, why, until, replicasFrom, replicasTo }) {
  const fewer = replicasFrom - replicasTo;
  const what = fewer > 0 ? `keeps ${counted(fewer, "replica")} that would go` : fewer ? `does not get ${counted(-fewer, "replica")} more` : "is left as it is";
  return `${subject} ${what}: guard ${guard}, ${why}${until ? `; not before ${clock(until)}` : ""}`;
}

const mark = ({ replicasFrom, replicasTo }) => (replicasTo > replicasFrom ? "+" : replicasTo < replicasFrom ? "-" : "~");

decision.title = (it) => `Decision ${it.cycle}`;
decision.path = ([cycle]) => `/v1/decisions/${encodeURIComponent(cycle)}`;
decision.once = true; // the past does not change

let trouble = "";

const leave = () => call("DELETE", "/v1/session").then(begin, begin);

async function enter(event) {
  event.preventDefault();
  const input = event.target.elements.namedItem("token");
  try {
    await call("POST", "/v1/session", { token: input.value.trim() });
    trouble = "";
    await begin();
  } catch (error) {
    trouble = error.message;
    changed();
  }
}

/** Nobody is logged in: paste a token, get a cookie that scripts cannot read. */
export const login = () => [
  h("div", { class: "login" }, h("h1", {}, "Log in"),
    h("p", {}, "Paste the token that this prints:"),
    h("p", { class: "command" }, h("code", {}, "rebalancer login --print")),
    h("form", { onsubmit: enter },
      h("p", { class: "field" }, h("label", { for: "token" }, "Token"), h("input", { id: "token", name: "token", type: "password", required: true, autofocus: true, autocomplete: "off", spellcheck: "false" })),
      h("p", { role: "alert", class: "outcome trouble" }, trouble),
      h("button", { class: "primary" }, "Log in"))),
];
login.title = "Log in";
