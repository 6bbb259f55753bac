// The section "Last hours" of a page: which hours, their picture, the same as text; read again each half minute.

import { figuresOf, heldSaid, marked, marksIn, stepAt } from "./chart.js";
import { h } from "./dom.js";
import { changed, now } from "./live.js";
import { narrow, section, table } from "./parts.js";
import { Failed, get } from "./wire.js";
import { amount, clock, ms } from "./words.js";

const AGAIN_MS = 30_000;
const ROOM_PX = 220; // what the picture of the last hours has besides a pool's GPUs
const LEAST_STEPS = 10; // a minute alone is not drawn as wide as the page
const MOST_LINES = 200;
const SPANS = ["1", "6", "24"];

const read = {}; // address -> {page, trouble, at}
let open = false;

const chosen = () => {
  const hours = new URLSearchParams(location.search).get("hours");
  return SPANS.includes(hours) ? hours : null;
};

/** What the address answered last; asks again when that is old. */
function asked(path) {
  const known = (read[path] ??= { page: null, trouble: "", at: -AGAIN_MS });
  if (performance.now() - known.at < AGAIN_MS) return known;
  known.at = performance.now();
  get(path).then((page) => Object.assign(known, { page, trouble: "" }), (error) => {
    if (!(error instanceof Failed)) throw error;
    known.trouble = error.message;
  }).then(changed);
  return known;
}

/** Whether nothing is known but of the last hour. */
const young = (page) => page !== null && page.latePerMinute.slice(0, -3600 / page.stepSeconds).every((_, n) => page.pools.every((pool) => pool.gpus[n] === null));

/** The page from the first step of which anything is known: a picture that is mostly empty shows nothing. */
function begun(page) {
  const first = page.latePerMinute.findIndex((_, n) => page.pools.some((pool) => pool.gpus[n] !== null));
  const from = Math.min(first, page.steps - LEAST_STEPS);
  if (from <= 0) return page;
  const cut = (it) => Object.fromEntries(Object.entries(it).map(([name, values]) => [name, values?.length === page.steps ? values.slice(from) : values]));
  const firstAt = new Date(stepAt(page, from)).toISOString();
  return { ...cut(page), firstAt, steps: page.steps - from, pools: page.pools.map((pool) => ({ ...cut(pool), models: pool.models.map(cut) })), models: page.models.map(cut), happenings: page.happenings.filter((each) => ms(each.at) >= ms(firstAt)) };
}

function choose(hours) {
  const params = new URLSearchParams(location.search);
  params.set("hours", hours);
  history.replaceState(null, "", `${location.pathname}?${params}`);
  changed();
}

/** The last hours of all pools, or of `model`. */
export function hours(model = "", usual = "6") {
  const address = (hours) => `/v1/history?${new URLSearchParams({ ...(model && { model }), hours })}`;
  let hours = chosen() ?? usual;
  if (!chosen() && hours !== "1" && young(asked(address(hours)).page)) hours = "1";
  const { page: whole, trouble } = asked(address(hours));
  const picks = h("div", { class: "spans", role: "group", "aria-label": "How many hours" }, SPANS.map((each) => h("button", { key: each, "aria-pressed": String(each === hours), onclick: () => choose(each) }, `${each} h`)));
  if (!whole) return section("hours", "Last hours", picks, h("p", { class: "quiet" }, trouble || "Reading history"), !trouble && room(model));
  const page = begun(whole);
  return section("hours", "Last hours", picks,
    trouble && h("p", { class: "trouble" }, trouble),
    !model && legend(page),
    h("rb-hours", { data: page }),
    page !== whole && h("p", { class: "quiet" }, `Nothing is known of the time before ${clock(page.firstAt)} UTC.`),
    h("details", { open, ontoggle: (event) => { open = event.target.open; changed(); } }, h("summary", {}, "The chart as text"), open && asText(page)));
}

/** About as high as the picture that comes: what is below it stays where somebody is about to press. */
const room = (model) => h("svg", { width: 1, height: ROOM_PX + (model ? 310 : (narrow.matches ? 116 : 146) * (now.overview?.pools.length ?? 0)), "aria-hidden": "true" });

/** Which letters and colour are whose. */
function legend(page) {
  const held = new Set(page.pools.flatMap((pool) => pool.models.map((each) => each.model)));
  return h("ul", { class: "legend" }, Object.entries(page.badges).filter(([model]) => held.has(model)).map(([model, { letters, hue }]) => h("li", { key: model }, h("span", { class: `badge hue-${hue}` }, letters), " ", h("a", { class: "name", href: `/console/models/${encodeURIComponent(model)}` }, model))));
}

/** What a step is made of, and who counts as late. */
function made(page) {
  const own = page.models.length > 0;
  const step = own ? "Of a minute, work and late requests are the mean of all its cycles, latency is its highest p95; need, alloc, ready and GPUs are as it ended." : "Of a minute, late requests are the mean of all its cycles, GPUs are as it ended.";
  const longer = page.stepSeconds > 60 ? ` A step is ${page.stepSeconds / 60} minutes: of ${own ? "work, latency and late requests" : "late requests"} it shows the largest minute.` : "";
  return `${step}${longer} Late requests are those that came while the p95 was over the SLO; where nobody tells the latency, those that the look-ahead expects while the model is short.`;
}

/** The steps that changed something, newest first. */
function asText(page) {
  const own = page.models.flatMap(figuresOf);
  const columns = own.length ? own.map(([name, values, unit]) => [name + unit, (n) => amount(values[n])]) : [...page.pools.map((pool) => [pool.pool, (n) => heldSaid(pool, n)]), ["late a minute", (n) => amount(page.latePerMinute[n])]];
  const lines = Array.from({ length: page.steps }, (_, n) => [n, columns.map(([, said]) => said(n)), marksIn(page, n).map(marked).join("; ")]);
  const told = lines.filter(([n, values, happened]) => happened || n === 0 || values.join() !== lines[n - 1][1].join()).toReversed();
  return [
    h("p", { class: "quiet" }, made(page)),
    told.length > MOST_LINES && h("p", { class: "quiet" }, `The newest ${MOST_LINES} of ${told.length} changes.`),
    table("twin", "Steps that changed something, newest first; ? is unknown", [["From"], ...columns.map(([name]) => [name, own.length ? "number" : ""]), ["What happened"]], told.slice(0, MOST_LINES).map(([n, values, happened]) => h("tr", { key: n },
      h("th", { scope: "row" }, clock(stepAt(page, n))), values.map((value, at) => h("td", { key: at, class: own.length ? "number" : null }, value)), h("td", { key: "happened" }, happened)))),
  ];
}
