// The frame: header, the page that the URL names, links and keys, and what is said to those who listen.

import { draw, h } from "./dom.js";
import "./chart.js";
import "./drawn.js";
import "./tiles.js";
import { keep, kept } from "./kept.js";
import { begin, changed, lastWord, live, liveness, now, silent } from "./live.js";
import { decision } from "./pages/decision.js";
import { model } from "./pages/model.js";
import { models, overrides, pool, pools } from "./pages/others.js";
import { overview } from "./pages/overview.js";
import { timeline } from "./pages/timeline.js";
import { health, login, policy } from "./pages/service.js";
import { barred, cannotResume, cannotStop } from "./rights.js";
import { Failed, get } from "./wire.js";
import { clock, conditions, writing } from "./words.js";
import { close, open } from "./sending.js";
import { askResume, askStop } from "./writes.js";

const SAY_MS = 10_000; // one polite word at most so often
const top = document.getElementById("top");
const main = document.getElementById("main");
const said = document.getElementById("said");

const ROUTES = [
  [/^\/console\/?$/, overview], [/^\/console\/models$/, models], [/^\/console\/models\/([^/]+)$/, model],
  [/^\/console\/pools$/, pools], [/^\/console\/pools\/([^/]+)$/, pool], [/^\/console\/timeline$/, timeline],
  [/^\/console\/decisions\/([^/]+)$/, decision], [/^\/console\/overrides$/, overrides], [/^\/console\/health$/, health], [/^\/console\/policy$/, policy],
];
const NAV = [["Overview", "/console/"], ["Models", "/console/models"], ["Pools", "/console/pools"], ["Timeline", "/console/timeline"], ["Overrides", "/console/overrides"], ["Policy", "/console/policy"], ["Health", "/console/health"]];

const missing = () => [h("h1", {}, "No such page"), h("p", {}, "Nothing of the console has the address ", h("code", {}, location.pathname), ". ", h("a", { href: "/console/" }, "Overview"))];
missing.title = "No such page";

let page = missing; // what the URL names
let pathname = ""; // its path; another query is the same page, which stays until it has the answer
let args = [];
let value = null; // what that page's own address answered
let trouble = "";
let asked = 0; // counts askings, so that an old answer does not overwrite a new page

function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray per cent sign names nothing, and the service says so
  }
}

function go() {
  const [pattern, found] = ROUTES.find(([each]) => each.test(location.pathname)) ?? [null, missing];
  page = found;
  args = pattern ? location.pathname.match(pattern).slice(1).map(plain) : [];
  trouble = "";
  asked += 1;
  if (location.pathname !== pathname || page.once) {
    value = null;
    pathname = location.pathname;
    main.classList.remove("fresh");
    void main.offsetWidth; // restarts the fade
    main.classList.add("fresh");
    paint();
  }
  ask();
}

/** Read what the page shows, again after each plan; pages of the past once. */
async function ask() {
  if (!page.path || now.session === false || (page.once && value)) return;
  const mine = asked;
  try {
    const answers = await Promise.all([page.path(args)].flat().map(get));
    if (mine !== asked) return;
    value = answers.length > 1 ? answers : answers[0];
    trouble = "";
  } catch (error) {
    if (mine !== asked) return;
    if (!(error instanceof Failed)) throw error;
    trouble = error.message;
    if (error.status === 401) begin();
  }
  paint();
}

function paint() {
  draw(top, header());
  draw(main, content());
  main.classList.toggle("dim", silent() && now.overview !== null);
  for (const table of main.querySelectorAll(".scroll")) put(table);
  const title = typeof page.title === "function" ? value && page.title(value) : page.title;
  document.title = [now.session === false ? "Log in" : title, now.overview?.cluster, "rebalancer"].filter(Boolean).join(" · ");
}

/** What scrolls sideways can be reached by keyboard. */
function put(table) {
  if (table.scrollWidth > table.clientWidth) table.setAttribute("tabindex", "0");
  else table.removeAttribute("tabindex");
}

function content() {
  if (now.session === false) return login();
  if (page.path && !value && trouble) return [h("h1", {}, "Nothing to show"), h("p", { class: "trouble", role: "alert" }, trouble), h("p", {}, h("a", { href: "/console/" }, "Overview"))];
  if (page.path && !value) return [h("p", { class: "quiet" }, "Reading state")];
  return [trouble && h("p", { key: "trouble", class: "trouble" }, trouble), page(value)].flat();
}

function header() {
  const it = now.session === false ? null : now.overview; // what was told before the session ended grows old
  const here = (href) => (location.pathname.replace(/\/$/, "") === href.replace(/\/$/, "") ? "page" : null);
  const stopped = Boolean(it?.writesStopped);
  return [
    h("div", { class: "service" },
      h("strong", { class: "cluster" }, it?.cluster || it?.instance || "rebalancer"),
      it && h("span", { class: `live ${liveness().replace(" ", "-").toLowerCase()}` }, h("rb-age", {})),
      it && h("rb-clock", {}),
      it && h("span", { class: "leader" }, it.leader ? ["leader ", h("span", { class: "name" }, it.leader)] : it.leaderKnown ? "no leader" : "no leader known"),
      it && h("strong", { class: `writing ${writing(it).toLowerCase()}` }, writing(it)),
      now.trouble && now.session !== false && h("span", { class: "trouble" }, now.trouble),
      now.session && h("span", { class: "stand" }, stopped ? barred(cannotResume(), { key: "resume", class: "primary", onclick: askResume }, "Resume writes") : barred(cannotStop(), { key: "stop", class: "stop", onclick: askStop }, "Stop writes"))),
    silent() && gone(),
    now.session !== false && h("nav", { key: "nav", "aria-label": "Pages" },
      h("ul", {}, NAV.map(([name, href]) => h("li", { key: href }, h("a", { href, "aria-current": here(href) }, name)))),
      h("form", { role: "search", action: "/console/models" }, h("label", { for: "find", class: "unseen" }, "Find a model"), h("input", { id: "find", name: "q", type: "search", placeholder: "/ find", autocomplete: "off", list: "find-names" }), h("datalist", { id: "find-names" }, it?.models.map((each) => h("option", { key: each.model, value: each.model })))),
      h("button", { class: "help", "aria-label": "Keys", onclick: help }, "?")),
  ];
}

const PODS = "--selector rebalancer.io/component=service";

/** Where to look for the service: in its namespace, in all while that is not known, nowhere where it runs in no pod. */
function lookups() {
  if (!now.overview) return [`kubectl get pods --all-namespaces ${PODS}`];
  const { namespace } = now.overview;
  return namespace ? [`kubectl get pods --namespace ${namespace} ${PODS}`, `kubectl logs --previous --tail 20 --namespace ${namespace} ${PODS}`] : [];
}

/** The service is silent: what that means, and what to do; it goes by itself when the next word comes. */
function gone() {
  const since = now.overview ? `No word from the service since ${clock(lastWord())} UTC; what is below is as it was then.` : "The service does not answer.";
  return h("div", { key: "gone", class: "gone", role: "alert" }, h("p", {}, h("strong", {}, since), " Nothing moves while it is away: models keep what they have, autoscalers the last bounds. This page tries again by itself."),
    h("p", { class: "command" }, [...lookups(), "rebalancer status"].map((said) => h("code", { key: said }, said))));
}

// --- links inside the console change the page without a reload

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || link.origin !== location.origin || !link.pathname.startsWith("/console/") || event.ctrlKey || event.metaKey || event.shiftKey || event.button || link.hash) return;
  event.preventDefault();
  travel(link.href);
});

document.addEventListener("submit", (event) => {
  if (event.target.getAttribute("role") !== "search") return;
  event.preventDefault();
  if (event.target.closest("#top")) return find(event.target.elements.namedItem("q"));
  const filled = [...new FormData(event.target)].filter(([, text]) => text);
  travel(`${event.target.getAttribute("action") ?? location.pathname}?${new URLSearchParams(filled)}`);
});

/** Enter goes to the only model that is found, or to the one of that very name; else to the list of those found. */
async function find(input) {
  const q = input.value.trim();
  const list = `/console/models${q && `?${new URLSearchParams({ q })}`}`;
  const mine = asked;
  let only = null;
  try {
    const { models: found, modelsTotal } = await get(`/v1/overview?${new URLSearchParams({ q })}`);
    only = q && (modelsTotal === 1 ? found[0] : found.find((each) => each.model === q));
  } catch (error) {
    if (!(error instanceof Failed)) throw error; // the list says what is wrong
  }
  if (mine !== asked) return; // the person has gone elsewhere meanwhile
  if (only) input.value = "";
  travel(only ? `/console/models/${encodeURIComponent(only.model)}` : list);
}

function travel(href) {
  history.pushState(null, "", href);
  go();
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
}

addEventListener("popstate", go);

// --- keys: one each for finding and walking; none of them writes, and they can be switched off

const SETTING = "rebalancer.keys";
const KEYS = [["/", "find a model"], ["j", "next row"], ["k", "row before"], ["Enter", "open the row, or the only model found"], ["Esc", "close, or leave the field"], ["?", "this list"]];

const on = () => kept(SETTING) !== "off";
const editable = (node) => node.matches?.("input, select, textarea");

function walk(step) {
  const links = [...document.querySelectorAll("main [data-row]")].map((line) => line.querySelector("a, button")).filter((link) => link?.getClientRects().length);
  const at = links.findIndex((link) => link.closest("[data-row]") === document.activeElement.closest("[data-row]"));
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function help() {
  open(() => [
    h("h2", { id: "dialog-title" }, "Keys"),
    h("dl", { class: "facts" }, KEYS.map(([key, said]) => h("div", { key }, h("dt", {}, h("kbd", {}, key)), h("dd", {}, said)))),
    h("p", { class: "field check" }, h("input", { id: "keys-on", type: "checkbox", checked: on(), onchange: (event) => keep(SETTING, event.target.checked ? "on" : "off") }), h("label", { for: "keys-on" }, "Single keys are on")),
    h("div", { class: "buttons" }, h("button", { autofocus: true, onclick: close }, "Close")),
  ]);
}

const ACTIONS = { "/": () => document.getElementById("find")?.focus(), j: () => walk(1), k: () => walk(-1), "?": help };

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && editable(event.target) && !event.target.closest("dialog")) event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || editable(event.target) || document.querySelector("dialog[open]") || !on()) return;
  const action = ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

// --- what is heard

let spoken = "";
let spokenAt = -SAY_MS;

/** The state of the service in words that change only when something happened: no ages, no countdowns. */
function speak() {
  const it = now.overview;
  if (!it || now.session === false || performance.now() - spokenAt < SAY_MS) return;
  const steady = conditions(it);
  const next = silent() ? "No word from the service" : [liveness() || "Reading state", writing(it), ...steady, it.needs.length ? `Needs you ${it.needs.length}: ${it.needs[0].said}` : "Nothing needs you."].join(". ");
  if (next === spoken) return;
  spoken = next;
  spokenAt = performance.now();
  said.textContent = next;
}

let cycle = null;
live.addEventListener("change", () => {
  if (now.overview && (now.overview.cycle !== cycle || (!value && !trouble))) {
    cycle = now.overview.cycle;
    ask();
  }
  paint();
  speak();
});
live.addEventListener("tick", speak);

go();
begin().then(changed);
