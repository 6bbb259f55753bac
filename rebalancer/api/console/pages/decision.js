// One cycle of the past: what was new, every model before and after it, and why.

import { h } from "../dom.js";
import { cell, number, row, section, table, toDecision, toModel, toPolicy } from "../parts.js";
import { clock, counted, known, ms } from "../words.js";

const MOST = 200;

/** One cycle: what was new, what it decided and refused, what became of that. */
export const decision = (it) => {
  const { plan, inputs, outcomes } = it;
  const moved = it.beside.filter((each) => each.before !== each.after);
  return [
    h("div", { class: "head" }, h("h1", {}, `Decision ${it.cycle}`), h("p", { class: "quiet" }, `${clock(it.at)} UTC · policy `, toPolicy(it.policyDigest.slice(0, 12) || "?"), ` · code ${it.codeDigest.slice(0, 12) || "?"}`),
      h("p", { class: "steps" }, toDecision(it.cycle - 1, "Earlier"), " ", toDecision(it.cycle + 1, "Later"))),
    section("triggers", "What was new", null, news(it.triggers)),
    section("beside", `Before and after ${moved.length}`, h("span", { class: "quiet" }, `${counted(it.beside.length - moved.length, "model")} unchanged`),
      moved.length > 0 && besides("What this decision changes, in replicas", moved, it.at),
      moved.length === 0 && h("p", { class: "quiet" }, "No model gets or gives a replica."),
      it.beside.length > moved.length && h("details", {}, h("summary", {}, "What stays as it is"), besides("What stays as it is, in replicas", it.beside.filter((each) => each.before === each.after).slice(0, MOST), it.at))),
    section("plan", `Writes ${plan.changes.length + plan.nodePools.length}`, null, plan.changes.length + plan.nodePools.length === 0 ? h("p", { class: "quiet" }, "Nothing to write.") : h("ul", { class: "plain" },
      plan.changes.slice(0, MOST).map((each) => h("li", { key: each.id }, mark(each), " ", toModel(each.model), ` ${each.reason}${each.replicasFrom === each.replicasTo ? "" : ` (${each.replicasFrom} → ${each.replicasTo})`}`)),
      plan.nodePools.map((each) => h("li", { key: each.id }, "~ ", h("span", { class: "name" }, `nodepool/${each.name}`), ` ${each.kind} ${each.limitTo === null ? "" : `${known(each.limitFrom)} → ${each.limitTo} GPU limit`} ${each.reason}`)))),
    plan.refusals.length > 0 && section("refused", `Refused ${plan.refusals.length}`, null, h("ul", { class: "plain" }, plan.refusals.slice(0, MOST).map((each, n) => h("li", { key: n }, `! ${refused(each)}`)))),
    plan.unmet.length > 0 && section("unmet", "Unmet", null, h("ul", { class: "plain" }, plan.unmet.slice(0, MOST).map((each) => h("li", { key: each.model }, toModel(each.model), ` is short of ${counted(each.replicas, "replica")}: ${each.why}`)))),
    outcomes.length > 0 && section("outcomes", "What became of it", null, h("ul", { class: "plain" }, outcomes.slice(0, MOST).map((each) => h("li", { key: each.intent.id }, `${clock(each.at)} ${each.intent.object}: ${each.status} ${each.detail}`)))),
    section("steps", "Steps by model", null, plan.models.slice(0, MOST).map((each) => h("details", { key: each.model, id: `steps-${each.model}`, open: plan.models.length === 1 }, h("summary", {}, h("span", { class: "name" }, each.model), ` ${each.why}`),
      table("steps", `Steps of ${each.model}`, [["Stage"], ["Said"]], each.steps.map((step, n) => row(n, h("th", { scope: "row" }, step.stage), cell("", step.said))))))),
    section("inputs", "Inputs", null, h("p", {}, ["model", "pool", "notice"].map((one) => counted(inputs[`${one}s`].length, one)).join(", "), ", ", standing(it), inputs.writeStop && ", writes stopped", ". Again from these: "), h("p", { class: "command" }, h("code", {}, `rebalancer explain MODEL --at ${it.at}`))),
    section("pools", "Pools", null, table("pools-table", "GPUs of each pool then", [["Pool"], ["Budget", "number"], ["Promised", "number"], ["Owned", "number"], ["Lent or in use", "number"], ["Loading", "number"], ["Doomed", "number"], ["Other", "number"], ["Closed", "number"], ["Free", "number"]], plan.pools.map((each) => row(each.pool,
      h("th", { scope: "row", class: "name" }, each.pool), [each.budget, each.promised, each.owned, each.lent, each.loading, each.doomed, each.foreign, each.closed ?? 0, each.free].map((n) => number(n)))))),
  ];
};

/** Overrides of then: those in force, and beside them how many were there and were not. */
function standing({ at, inputs, plan }) {
  const phases = new Map(plan.overrides.map((each) => [each.uid, each.phase]));
  const inForce = inputs.overrides.filter((each) => ms(each.expiresAt) > ms(at) && (phases.get(each.uid) ?? each.phase) === "InForce").length;
  const others = inputs.overrides.length - inForce;
  return `${counted(inForce, "override")} in force${others ? `, ${others} not in force` : ""}`;
}

/** What was new since the cycle before; null: that one is not recorded. */
function news(triggers) {
  if (triggers === null) return h("p", { class: "quiet" }, "The cycle before it is not in the journal, so what was new is unknown.");
  if (triggers.length === 0) return h("p", { class: "quiet" }, "Nothing was new: the next plan was due.");
  return h("ul", { class: "plain" }, triggers.map((said, n) => h("li", { key: `${n} ${said}` }, said)));
}

const COLUMNS = [["Model"], ["Before", "number"], ["After", "number"], ["Demand", "number"], ["Why", "why"], ["Explained"]];

function besides(caption, list, at) {
  return table("beside", caption, COLUMNS, list.map((each) => row(each.model,
    h("th", { scope: "row" }, toModel(each.model)), number(each.before), number(each.after, each.before === each.after ? "" : "changed"), number(each.demand),
    cell("why", each.why), cell("", h("a", { href: `#steps-${each.model}`, title: `rebalancer explain ${each.model} --at ${at}`, onclick: unfold }, "steps")))));
}

/** A link to folded steps opens them. */
function unfold(event) {
  event.preventDefault();
  const steps = document.getElementById(event.target.hash.slice(1));
  if (!steps) return;
  steps.open = true;
  steps.scrollIntoView({ block: "start" });
  steps.querySelector("summary").focus({ preventScroll: true });
}

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
