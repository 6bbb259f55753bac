import { h } from "../dom.js";
import { entries, toEntry } from "../entries.js";
import { filters, pick, query, search } from "../filters.js";
import { serverNow } from "../live.js";
import { toDecision } from "../parts.js";
import { clock, ms } from "../words.js";

const KINDS = ["", "shift", "release", "grant", "notice", "refusal", "override", "stop", "node"];
const MINUTES_30 = 30 * 60_000;
const PER_PAGE = 50;

/** `48197-2f0c11aa` is an entry of cycle 48197. */
const cycleOf = (entry) => entry.split("-")[0];

/** What happened, the newest first, by day. */
export const timeline = (it) => {
  const { model = "", kind = "", entry = "", before = "" } = search();
  const list = it.decisions.toReversed().flatMap((row) => row.happenings);
  const next = it.nextBefore && `/console/timeline${query({ model, kind, before: it.nextBefore })}`;
  const more = it.decisions.reduce((sum, row) => sum + row.more, 0);
  return [
    h("h1", {}, "Timeline"),
    filters(h("label", {}, "Model ", h("input", { name: "model", value: model, type: "search" })), pick("kind", "Kind", KINDS, kind)),
    it.leader && it.instance !== it.leader && h("p", { class: "trouble" }, `${it.instance} stands by, and what was written is told by ${it.leader} alone, which leads.`),
    entry && !list.some((each) => each.id === entry) && h("p", { class: "trouble" }, `This entry is not kept here any more${it.oldestAt ? `, or does not pass the filters: memory reaches back to ${clock(it.oldestAt)}` : ""}. The journal may have `, toDecision(cycleOf(entry), `decision ${cycleOf(entry)}`), "."),
    !it.newest && h("nav", { key: "newest", class: "pages", "aria-label": "Newer pages" }, h("a", { href: `/console/timeline${query({ model, kind })}` }, "Newest")),
    nothing(it, list, { model, kind, before }),
    days(list).map(([day, some]) => h("section", { key: day, class: "day", "aria-label": day }, h("h2", {}, day), entries(some, { whole: true, entry }))),
    more > 0 && h("p", { class: "quiet" }, `And ${more} more of the same cycles, which their decisions have.`),
    next ? h("nav", { key: "older", class: "pages", "aria-label": "Older pages" }, h("a", { href: next }, "Older"))
      : list.length > 0 && h("p", { class: "quiet" }, "Nothing older is kept here; the journal has it: ", h("code", {}, "rebalancer explain MODEL --at INSTANT")),
  ];
};

/** What is not there, and since when. */
function nothing(it, list, { model, kind, before }) {
  if (list.length === 0) {
    const since = it.oldestAt ? ` since ${clock(it.oldestAt)}, as far back as is kept here` : "";
    return h("p", { class: "quiet" }, model || kind ? ["Nothing like that", since, ". ", h("a", { href: "/console/timeline" }, "Show all")] : `Nothing happened${since}.`);
  }
  const newest = list.at(-1);
  if (before || !it.newest || serverNow() - ms(newest.at) <= MINUTES_30) return null;
  return h("p", { class: "quiet" }, "Nothing in the last 30 minutes; the last was ", toEntry(newest, clock(newest.at)), ".");
}

/** By day, the newest first; within a day the oldest first, as entries take them. */
function days(list) {
  const found = new Map();
  for (const each of list) found.set(each.at.slice(0, 10), [...(found.get(each.at.slice(0, 10)) ?? []), each]);
  return [...found].toReversed();
}

timeline.title = "Timeline";
timeline.path = () => {
  const { entry, ...rest } = search();
  return `/v1/decisions${query({ limit: PER_PAGE, ...(entry && { around: cycleOf(entry) }), ...rest })}`;
};
