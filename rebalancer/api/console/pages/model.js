import { h } from "../dom.js";
import { happenings } from "../entries.js";
import { hours } from "../hours.js";
import { keep, kept } from "../kept.js";
import { serverNow } from "../live.js";
import { cell, folding, number, overrides, row, section, table, toDecision, toPool } from "../parts.js";
import { barred, cannotDecide } from "../rights.js";
import { amount, clock, known, ms, span } from "../words.js";
import { askOverride } from "../writes.js";

const NEWEST = 12;

export const model = (it) => {
  const about = { model: it.decision.model, namespace: it.namespace, now: it.decision.granted, floor: it.decision.floor, most: it.most };
  const cannot = cannotDecide(it.namespace);
  const standsDown = it.refusals.some((each) => each.guard === "foreign" && each.subject === about.model);
  return [
    h("div", { class: "head" },
      h("h1", {}, h("span", { class: "name" }, `${it.namespace}/${it.decision.model}`)),
      h("p", { class: "quiet" }, [it.workloadClass, `prio ${it.priority}`, it.team && `team ${it.team}`, it.actuation].filter(Boolean).join(" · ")),
      standsDown && h("button", { disabled: Boolean(cannot), onclick: () => askOverride({ ...about, kind: "standUp" }) }, "Stand up"),
      barred(cannot, { class: "primary", onclick: () => askOverride(about) }, "Override")),
    numbers(it),
    h("div", { class: "two" }, why(it), signals(it)),
    more(it),
    hours(about.model, "1"),
    replicas(it),
    h("div", { class: "foot" }, folding("history", "History", null, happenings(it.happenings, NEWEST, about.model)), overrides(it.overrides, about)),
  ];
};

function numbers({ decision, unmet }) {
  const lacking = unmet.reduce((sum, each) => sum + each.replicas, 0);
  const wants = [["Demand", known(decision.demand)], ["Alloc", decision.allocation], ["Ready", `${decision.ready}${decision.loading ? ` + loading ${decision.loading}` : ""}`], ["Doomed", decision.doomed], ["Unmet", lacking], ["Floor", decision.floor], ["Granted", decision.granted]];
  if (decision.lent) wants.push(["Others on its GPUs", decision.lent]);
  if (decision.borrowed > decision.unowned) wants.push(["On borrowed GPUs", decision.borrowed - decision.unowned]);
  if (decision.unowned) wants.push(["On nobody's GPUs", decision.unowned]);
  return h("dl", { class: "numbers" }, wants.map(([name, value]) => h("div", { key: name, class: name === "Unmet" && value ? "short" : null }, h("dt", {}, name), h("dd", {}, String(value)))),
    decision.surge && h("div", { key: "surge" }, h("dt", {}, "State"), h("dd", {}, "surge")));
}

const FOLD = "rebalancer.why"; // whether the numbers behind the sentence are open, on every model's page

/** The one sentence, what would change it, then the numbers for who wants them. */
function why(it) {
  return section("why", "Why", toDecision(it.cycle, `decision ${it.cycle}`),
    h("p", { class: "summary" }, it.summary),
    h("h3", {}, "What would change it"),
    it.changesWhen.length ? h("ul", { class: "plain" }, it.changesWhen.map((said) => h("li", { key: said }, said))) : h("p", { class: "quiet" }, "Nothing that is known."),
    h("details", { open: kept(FOLD) === "open", ontoggle: (event) => keep(FOLD, event.target.open ? "open" : "") },
      h("summary", {}, "The numbers"), h("pre", { tabindex: "0", "aria-label": "As rebalancer explain prints it" }, it.explanation.join("\n"))));
}

/** Whether more GPUs would help: for who is short, or was late in the last hour. */
function more({ moreGpus: it, unmet }) {
  if (!it || !(unmet.length || it.withMore.some((each) => each.lateLastHour >= 1))) return null;
  const rows = it.withMore.map((each) => row(each.gpus, h("th", { scope: "row" }, each.gpus ? `${each.gpus} GPUs more` : "as it is"), number(each.replicas), number(amount(each.lateSoon)), number(amount(each.lateLastHour))));
  return folding("more", "Would more GPUs help?", null,
    h("p", { class: "summary" }, `${{ true: "Yes", false: "No" }[it.helps] ?? "Nobody knows"}: ${it.why}`),
    table("more", "Late requests with more GPUs", [["With"], ["Replicas more now", "number"], [`Late in ${known(it.horizonSeconds)} s${unmet.length ? "" : " of a surge"}`, "number"], ["Late in the last hour, played again", "number"]], rows),
    h("p", { class: "quiet" }, [!unmet.length && "It is in time; late in a surge is the mean over surges of its past.", it.lateLastHour !== null && `In the last hour ${amount(it.lateLastHour)} requests came late, by the p95.`, "Played again, each row has so many GPUs more all the while, up to maxReplicas: compare rows with each other, not with what was."].filter(Boolean).join(" ")),
    h("ul", { class: "plain" }, it.pools.map((each) => h("li", { key: each.pool }, h("strong", {}, each.pool), each.fits ? ": fits, " : ": no, ", each.why, each.usdPerGpuHour ? `; ${each.usdPerGpuHour} USD a GPU-hour` : ""))));
}

function signals({ signals: list, at }) {
  const passed = (serverNow() - ms(at)) / 1000;
  const noted = list.some((each) => each.why);
  return folding("signals", "Signals", null, table("signals", "Signals and their votes in replicas", [["Signal"], ["Reading", "number"], ["Vote", "number"], ["Age", "number"], ...(noted ? [["Note"]] : [])], list.map((each) => row(each.signal,
    h("th", { scope: "row" }, each.signal),
    cell("number", known(each.reading)), cell("number", each.vote === null ? "-" : each.vote),
    cell("number", each.ageSeconds === null ? "?" : span(each.ageSeconds + Math.max(0, passed))), noted && h("td", { class: "quiet note" }, each.why)))));
}

function replicas({ replicas: pods }) {
  const per = pods.some((pod) => pod.requests !== null && pod.requests !== undefined);
  return folding("replicas", `Replicas ${pods.length}`, null, pods.length === 0 ? h("p", { class: "quiet" }, "None.") : table("replicas", "Replicas", [["Pod"], ["Node"], ["State"], ["Since", "number"], ...(per ? [["Requests", "number"]] : []), ["Whose GPUs"]], pods.map((pod) => row(pod.name,
    h("th", { scope: "row", class: "name" }, pod.name),
    cell("name", pod.node ?? "no node yet", " ", toPool(pod.pool)),
    cell("", pod.state), cell("number", clock(pod.since)), per && number(pod.requests), cell("name", pod.lender === pod.pool ? "nobody's" : pod.lender || "own")))));
}

model.title = (it) => it.decision.model;
model.path = ([id]) => `/v1/models/${encodeURIComponent(id)}`;
