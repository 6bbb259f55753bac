import { h } from "../dom.js";
import { cell, number, row, section, table, toModel } from "../parts.js";
import { clock, known } from "../words.js";

const MOST = 200;

/** One cycle: what it saw, what it decided and refused, what became of that. */
export const decision = (it) => {
  const { plan, inputs, outcomes } = it;
  const changed = plan.changes.length + plan.nodePools.length;
  return [
    h("div", { class: "head" }, h("h1", {}, `Decision ${it.cycle}`), h("p", { class: "quiet" }, `${clock(it.at)} UTC · policy ${it.policyDigest.slice(0, 12) || "?"} · code ${it.codeDigest.slice(0, 12) || "?"}`)),
    section("inputs", "Inputs", null, h("p", {}, `${inputs.models.length} models, ${inputs.pools.length} pools, ${inputs.notices.length} notices, ${inputs.overrides.length} overrides`, inputs.writeStop && ", writes stopped", ". Again from these: "), h("p", { class: "command" }, h("code", {}, `rebalancer explain MODEL --at ${it.at}`))),
    section("plan", `Plan ${changed}`, null, changed === 0 ? h("p", { class: "quiet" }, "Nothing to write.") : h("ul", { class: "plain" },
      plan.changes.slice(0, MOST).map((each) => h("li", { key: each.id }, mark(each), " ", toModel(each.model), ` ${each.replicasFrom} → ${each.replicasTo}  ${each.reason}`)),
      plan.nodePools.map((each) => h("li", { key: each.id }, "~ ", h("span", { class: "name" }, `nodepool/${each.name}`), ` ${each.kind} ${each.limitTo === null ? "" : `${known(each.limitFrom)} → ${each.limitTo} GPU limit`} ${each.reason}`)))),
    plan.refusals.length > 0 && section("refused", `Refused ${plan.refusals.length}`, null, h("ul", { class: "plain" }, plan.refusals.slice(0, MOST).map((each, n) => h("li", { key: n }, `! ${each.subject} ${each.replicasFrom} → ${each.replicasTo} by ${each.guard}: ${each.why}`, each.until && `, next ${clock(each.until)}`)))),
    plan.unmet.length > 0 && section("unmet", "Unmet", null, h("ul", { class: "plain" }, plan.unmet.slice(0, MOST).map((each) => h("li", { key: each.model }, toModel(each.model), ` ${each.replicas}: ${each.why}`)))),
    outcomes.length > 0 && section("outcomes", "What became of it", null, h("ul", { class: "plain" }, outcomes.slice(0, MOST).map((each) => h("li", { key: each.intent.id }, `${clock(each.at)} ${each.intent.object}: ${each.status} ${each.detail}`)))),
    section("steps", "Steps by model", null, plan.models.slice(0, MOST).map((each) => h("details", { key: each.model, open: plan.models.length === 1 }, h("summary", {}, h("span", { class: "name" }, each.model), ` ${each.why}`),
      table("steps", `Steps of ${each.model}`, [["Stage"], ["Said"]], each.steps.map((step, n) => row(n, h("th", { scope: "row" }, step.stage), cell("", step.said))))))),
    section("pools", "Pools", null, table("pools-table", "GPUs of each pool then", [["Pool"], ["Budget", "number"], ["Promised", "number"], ["Owned", "number"], ["Lent", "number"], ["Loading", "number"], ["Doomed", "number"], ["Other", "number"], ["Free", "number"]], plan.pools.map((each) => row(each.pool,
      h("th", { scope: "row", class: "name" }, each.pool), [each.budget, each.promised, each.owned, each.lent, each.loading, each.doomed, each.foreign, each.free].map((n) => number(n)))))),
  ];
};

const mark = ({ replicasFrom, replicasTo }) => (replicasTo > replicasFrom ? "+" : replicasTo < replicasFrom ? "-" : "~");

decision.title = (it) => `Decision ${it.cycle}`;
decision.path = ([cycle]) => `/v1/decisions/${encodeURIComponent(cycle)}`;
decision.once = true; // the past does not change
