// The service itself: its health with what the doctor sees, the policy in force, and the door.

import { h } from "../dom.js";
import { begin, changed, now, serverNow } from "../live.js";
import { cell, number, row, section, table, toModel, toPolicy, toPool } from "../parts.js";
import { call } from "../wire.js";
import { clock, counted, span } from "../words.js";

export const health = ([it, checks]) => [
  h("div", { class: "head" }, h("h1", {}, "Health"), now.session?.expiresAt && h("button", { onclick: leave }, "Log out")),
  h("dl", { class: "facts" }, facts(it).map(([name, value]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, value)))),
  it.unready?.length > 0 && section("unready", "Not as it should be", null, h("ul", { class: "plain" }, it.unready.map((each) => h("li", { key: each.what }, `${each.what} since ${clock(each.since)}${each.detail && `: ${each.detail}`}`)))),
  section("doctor", `Checks ${checks.findings.length + checks.well}`, h("span", { class: "quiet" }, `${checks.well} well, ${checks.findings.length} not`),
    checks.findings.length === 0 && h("p", { class: "quiet" }, "All of it is well."),
    h("ul", { class: "findings" }, checks.findings.map((each, n) => h("li", { key: `${each.about} ${each.trap} ${n}`, class: each.state === "FAIL" ? "critical" : null, "data-row": true },
      h("strong", {}, each.state), " ", h("span", { class: "name" }, each.about), ` ${each.said}`, each.trap && h("span", { class: "quiet" }, ` (trap ${each.trap})`),
      each.fix && h("p", { class: "quiet" }, `fix: ${each.fix}`)))),
    h("p", { class: "quiet" }, checks.lookedAt ? `Objects were looked through for traps at ${clock(checks.lookedAt)} UTC.` : "Objects are being looked through for traps; this page shows what is found with the next plan.", checks.unread.length > 0 && ` Not looked at: ${checks.unread.join("; ")}.`),
    h("p", { class: "command" }, h("code", {}, "rebalancer doctor"))),
];
health.title = "Health";
health.path = () => ["/v1/status", "/v1/checks"];

const facts = (it) => [
  ["You", now.session?.user ?? "?"],
  ["Answers", it.instance || "?"],
  ["Leads", it.leader || "nobody"],
  ["Writes", it.writesStopped ? "stopped" : it.writeMode],
  ["Plan", it.plan ? `cycle ${it.plan.cycle}, ${span((serverNow() - Date.parse(it.plan.at)) / 1000)} old` : "none yet"],
  ["Policy", toPolicy(it.policyDigest ? it.policyDigest.slice(0, 12) : "?")],
  ["Policy file", it.policyProblems.length ? it.policyProblems.join("; ") : "good"],
  ["Not read yet", it.sync.missing.join(", ") || "nothing"],
  ["Silent", it.sync.stale.join(", ") || "nothing"],
  ["Notices", it.notices.length ? counted(it.notices.length, "notice") : "none"],
];

export const policy = (it) => [
  h("div", { class: "head" }, h("h1", {}, "Policy"), h("p", { class: "quiet" }, `${it.digest.slice(0, 12) || "none"} in force${it.since ? ` since ${clock(it.since)} UTC` : ""}`)),
  it.problems.length > 0 && section("problems", "The file is not good", null, h("ul", { class: "plain" }, [...it.refused, ...it.problems].map((said) => h("li", { key: said }, said)))),
  section("change", "Last change", null,
    h("dl", { class: "facts" }, lastChange(it).map(([name, said]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, said)))),
    it.differences.length > 0 && h("ul", { class: "plain" }, it.differences.map((said) => h("li", { key: said }, h("code", {}, said))))),
  ...inForce(JSON.parse(it.text)),
  section("check", "Before you change it", null, h("p", { class: "command" }, h("code", {}, "rebalancer config check FILE"), " ", h("code", {}, "rebalancer replay JOURNAL --policy FILE"))),
  h("details", { key: "text", id: "text" }, h("summary", {}, "All of it, as JSON, which is YAML too; without what is default"), h("pre", { tabindex: "0", "aria-label": "The policy in force" }, it.text)),
];
policy.title = "Policy";
policy.path = () => "/v1/policy";

/** What people look a policy up for: who owns what, and between which numbers. */
const inForce = ({ models, pools }) => [
  section("models", `Models ${models.length}`, null, table("policy", "Models of the policy", [["Model"], ["Pools"], ["GPUs each", "number"], ["Floor", "number"], ["Owns", "number"], ["Most", "number"], ["SLO", "number"]], models.map((each) => row(each.id,
    h("th", { scope: "row" }, toModel(each.id)), cell("name", each.targets.map((target) => target.pool).join(", ")), number(each.gpusPerReplica), number(each.minReplicas), number(each.entitlement), number(each.maxReplicas), cell("number", each.slo ? `${each.slo.latencySeconds} s` : "none"))))),
  section("pools", `Pools ${pools.length}`, null, table("policy", "Pools of the policy", [["Pool"], ["Kind"], ["Most GPUs", "number"]], pools.map((each) => row(each.name, h("th", { scope: "row" }, toPool(each.name)), cell("", each.kind), number(each.gpuLimit))))),
];

const lastChange = (it) => [
  ["When", it.since ? `${clock(it.since)} UTC, ${span((serverNow() - Date.parse(it.since)) / 1000)} ago` : "unknown"],
  ["What", it.before ? `${counted(it.differences.length, "difference")} from ${it.before.slice(0, 12)}` : it.differences.length ? "the service started with it; names that its last run heard are heard no more" : "the service started with it; what was before is unknown here"],
  ["Who", "unknown: a file has no author; the log of its Git repository, or managedFields of its ConfigMap, may know"],
  ["File", it.file || "unknown"],
];

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
    h("p", {}, "Paste the token that this prints; with --as operator it may also change things:"),
    h("p", { class: "command" }, h("code", {}, "rebalancer login --show-token")),
    h("form", { onsubmit: enter },
      h("p", { class: "field" }, h("label", { for: "token" }, "Token"), h("input", { id: "token", name: "token", type: "password", required: true, autofocus: true, autocomplete: "off", spellcheck: "false" })),
      h("p", { role: "alert", class: "outcome trouble" }, trouble),
      h("button", { class: "primary" }, "Log in"))),
];
login.title = "Log in";
