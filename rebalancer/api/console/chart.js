// The last hours drawn: who held each pool's GPUs as stacked areas, figures as steps, marks of what happened; one instant
// is read out, moved by the pointer or by arrow keys. Unknown is a gap.

import { h } from "./dom.js";
import { CHAR_PX, Drawn, fitted, GLYPHS, svg } from "./drawn.js";
import { amount, clock, known, ms } from "./words.js";

const NARROW_PX = 560;
const LETTERS_PX = 15; // least height, and half the least width, of a band that bears its letters
const LABEL_GAP = 13;
const LABEL_PX = 110; // right of the picture, where it is wide
const TICK_MINUTES = [1, 2, 5, 15, 30, 60, 120, 240, 480];
const ROW_PX = 13; // of marks: shifts above, notices and people's decisions below

/** The mark's place in time and what it says: `qwen-32b → llama-70b`, or the sentence. */
export const marked = (each) => (each.steps?.length ? `${[...new Set(each.steps.slice(0, -1).map((step) => step.model))].join(", ")} → ${each.model}` : `${each.model ? `${each.model} ` : ""}${each.said}`);
export const markKind = (each) => (each.shift ? "shift" : each.kind);

/** Instant of step `n`, in milliseconds. */
export const stepAt = (page, n) => ms(page.firstAt) + n * page.stepSeconds * 1000;

/** A release whose grant is in the list is told by that. */
export function once(list) {
  const told = new Set(list.flatMap((each) => (each.kind === "grant" && each.shift ? each.shift.split(" ") : [])));
  return list.filter((each) => each.kind !== "release" || !told.has(each.shift));
}

/** What happened in step `n`. */
export const marksIn = (page, n) => once(page.happenings).filter((each) => Math.floor((ms(each.at) - ms(page.firstAt)) / 1000 / page.stepSeconds) === n);

/** `chat 4, code 8, free 4`: who held a pool's GPUs in step `n`; `?` where nobody knows. */
export function heldSaid(pool, n, whole = true) {
  if (pool.gpus[n] === null) return "?";
  const held = pool.models.filter((each) => each.gpus[n]).map((each) => [each.model || "others", each.gpus[n]]);
  const free = pool.gpus[n] - held.reduce((sum, [, gpus]) => sum + gpus, 0);
  if (whole && free > 0) held.push(["free", free]);
  return held.map(([name, gpus]) => `${name} ${gpus}`).join(", ") || "none";
}

/** Figures of the model that is shown: [name, values, unit]. */
export const figuresOf = (it) => [["work", it.work, ""], ["need", it.demand, ""], ["alloc", it.allocation, ""], ["ready", it.ready, ""], ["latency", it.latencySeconds, " s"], ["late a minute", it.latePerMinute, ""]];

class Hours extends Drawn {
  #at = null; // the step that is read out; null: the newest

  #point = (event) => this.#move(Math.floor((event.clientX - this.getBoundingClientRect().left - this.plot.left) / this.plot.step));

  #key = (event) => {
    const far = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: this.at - far, ArrowDown: this.at - far, ArrowRight: this.at + far, ArrowUp: this.at + far, PageDown: this.at - 10, PageUp: this.at + 10, Home: 0, End: null }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#move(to);
  };

  /** The step that is read out. */
  get at() {
    return Math.min(this.#at ?? Infinity, this.last);
  }

  #move(to) {
    const at = to === null || to >= this.last ? null : Math.max(0, to);
    if (at === this.#at) return;
    this.#at = at;
    this.redraw();
  }

  picture(page, width) {
    const narrow = width < NARROW_PX;
    const right = width - (narrow ? 74 : LABEL_PX + 6);
    this.last = page.steps - 1;
    this.plot = { left: 48, right, step: (right - 48) / page.steps };
    this.words = []; // drawn last: no mark and no line crosses them
    const panels = page.models.length ? modelPanels(page, narrow) : poolPanels(page, narrow);
    let y = 0;
    const drawn = panels.map((panel) => {
      const top = y + 18;
      y = top + panel.height + 8;
      return this.#panel(panel, top, page, narrow);
    });
    const marksY = y + 10;
    const x = (n) => this.plot.left + (n + 0.5) * this.plot.step;
    const cursor = this.#at === null ? null : h("path", { class: "cursor", d: `M${x(this.at)} 0V${marksY + ROW_PX + 8}` });
    return [
      h("div", { class: "plot", role: "slider", tabindex: 0, "aria-label": "Instant in the last hours; arrow keys move it", "aria-valuemin": 0, "aria-valuemax": this.last, "aria-valuenow": this.at, "aria-valuetext": this.#said(page), onpointermove: this.#point, onpointerleave: () => this.#move(null), onkeydown: this.#key },
        svg(width, marksY + 34 + ROW_PX, "", h("g", {}, drawn), this.#marks(page, marksY), this.#ticks(page, marksY + 14 + ROW_PX, narrow), cursor, h("g", { class: "words" }, this.words))),
      readout(page, this.at, this.#at === null),
    ];
  }

  #said(page) {
    const words = [clock(stepAt(page, this.at)), ...page.pools.map((pool) => `${pool.pool}: ${heldSaid(pool, this.at, page.models.length === 0)}`)];
    for (const it of page.models) words.push(...figuresOf(it).map(([name, values, unit]) => `${name} ${amount(values[this.at])}${values[this.at] === null ? "" : unit}`));
    if (!page.models.length) words.push(`late ${amount(page.latePerMinute[this.at])} a minute`);
    words.push(...marksIn(page, this.at).map(marked));
    return words.join("; ");
  }

  #panel(panel, top, page, narrow) {
    const { left, right, step } = this.plot;
    const most = Math.max(panel.least ?? 1, ...panel.layers.flatMap((layer) => layer.to.map((n) => n ?? 0)), panel.reference ?? 0);
    const y = (n) => top + panel.height - (n / most) * panel.height;
    const x = (n) => left + n * step;
    const grid = [0, most].map((n) => [h("path", { class: "tick", d: `M${left} ${y(n)}H${right}` }), h("text", { x: left - 6, y: y(n) + 4, "text-anchor": "end" }, amount(n))]);
    const areas = panel.layers.map((layer) => h("path", { key: layer.name, class: layer.style, d: layer.line ? stepLine(layer.to, x, y) : stepArea(layer.from, layer.to, x, y) }));
    const letters = panel.layers.filter((layer) => layer.letters).map((layer) => lettered(layer, x, y, step));
    const reference = panel.reference && [h("path", { class: "reference", d: `M${left} ${y(panel.reference)}H${right}` })];
    const now = panel.layers.map((layer) => [layer.label, layer.to.at(-1), layer]).filter(([label, n]) => label && n !== null);
    const places = apart(now.map(([label, , layer]) => [narrow ? layer.short : `${label}`, y((layer.from?.at(-1) ?? layer.to.at(-1)) / 2 + layer.to.at(-1) / 2)]).filter(([label]) => label), top + panel.height);
    this.words.push(h("text", { class: "panel-title", x: left, y: top - 6 }, panel.title), letters);
    return [this.#gaps(page, top, panel.height), grid, areas, reference, places.map(([label, at]) => h("text", { x: right + 6, y: at + 4 }, label))];
  }

  /** Steps of which nothing is known. */
  #gaps(page, top, height) {
    const unknown = page.latePerMinute.map((_, n) => (page.pools.every((pool) => pool.gpus[n] === null) ? 1 : null));
    const x = (n) => this.plot.left + n * this.plot.step;
    return runs(unknown).map(([from, to]) => {
      if (x(to) - x(from) > 90 && height > 60) this.words.push(h("text", { class: "panel-title", x: (x(from) + x(to)) / 2, y: top + height / 2, "text-anchor": "middle" }, "nothing known"));
      return h("path", { class: "gap", d: `M${x(from).toFixed(1)} ${top}H${x(to).toFixed(1)}v${height}H${x(from).toFixed(1)}z` });
    });
  }

  #marks(page, y) {
    const drawn = [];
    const last = {};
    for (const each of once(page.happenings)) {
      const kind = markKind(each);
      const x = this.plot.left + ((ms(each.at) - ms(page.firstAt)) / 1000 / page.stepSeconds) * this.plot.step;
      const row = kind === "shift" ? 0 : ROW_PX;
      if (x - (last[row] ?? -99) < ROW_PX) continue; // one stands for its neighbours; the readout and the text tell all
      last[row] = x;
      drawn.push(h("path", { class: `stroke ${kind}`, d: `M${x} 14V${y - 8}` }), h("path", { class: `happening ${kind}`, transform: `translate(${x} ${y + row})`, d: GLYPHS[kind] ?? GLYPHS.node }));
    }
    return h("g", { class: "marks" }, drawn);
  }

  #ticks(page, y, narrow) {
    const minutes = (page.steps * page.stepSeconds) / 60;
    const every = TICK_MINUTES.find((each) => minutes / each <= (narrow ? 4 : 6)) * 60_000;
    const begin = ms(page.firstAt);
    const end = stepAt(page, page.steps);
    const ticks = [];
    for (let at = Math.ceil(begin / every) * every; at <= end; at += every) {
      const x = this.plot.left + ((at - begin) / 1000 / page.stepSeconds) * this.plot.step;
      ticks.push(h("text", { x, y: y + 12, "text-anchor": "middle" }, clock(at).slice(-8, -3)));
    }
    return ticks;
  }
}

/** Stretches without a null: [from, to beyond]. */
function runs(values) {
  const found = [];
  values.forEach((value, n) => {
    if (value === null) return;
    if (n === 0 || values[n - 1] === null) found.push([n, n]);
    found.at(-1)[1] = n + 1;
  });
  return found;
}

function stepLine(to, x, y) {
  return runs(to).map(([from, end]) => `M${x(from).toFixed(1)} ${y(to[from]).toFixed(1)}${edge(to, from, end, 1, x, y)}`).join("");
}

function stepArea(from, to, x, y) {
  return runs(to).map(([first, end]) => `M${x(first).toFixed(1)} ${y(to[first]).toFixed(1)}${edge(to, first, end, 1, x, y)}V${y(from[end - 1]).toFixed(1)}${edge(from, first, end, -1, x, y)}z`).join("");
}

/** A step edge forwards or backwards; only where it changes is anything said. */
function edge(values, first, end, way, x, y) {
  let said = "";
  const order = way > 0 ? [first, end] : [end - 1, first - 1];
  for (let n = order[0]; n !== order[1]; n += way) {
    const next = n + way;
    if (next === order[1]) said += `H${x(way > 0 ? end : first).toFixed(1)}`;
    else if (values[next] !== values[n]) said += `H${x(way > 0 ? next : n).toFixed(1)}V${y(values[next]).toFixed(1)}`;
  }
  return said;
}

/** A band's letters in the middle of its longest stretch that is high enough for them. */
function lettered({ from, to, letters, style }, x, y, step) {
  const room = to.map((top, n) => (top === null || y(from[n]) - y(top) < LETTERS_PX ? null : `${from[n]} ${top}`));
  let best = null;
  let begin = 0;
  room.forEach((each, n) => {
    if (n && each !== room[n - 1]) begin = n;
    if (each !== null && (best === null || n + 1 - begin > best[1] - best[0])) best = [begin, n + 1];
  });
  if (best === null || (best[1] - best[0]) * step < 2 * LETTERS_PX) return null;
  const middle = (y(from[best[0]]) + y(to[best[0]])) / 2;
  return h("text", { class: `letters ${style}`, x: x((best[0] + best[1]) / 2), y: middle + 4, "text-anchor": "middle" }, letters);
}

/** Labels at the right end, so far apart that each can be read. */
function apart(labels, bottom) {
  const places = labels.map(([label, at]) => [label, at]).sort((a, b) => a[1] - b[1]);
  for (let n = 1; n < places.length; n += 1) places[n][1] = Math.max(places[n][1], places[n - 1][1] + LABEL_GAP);
  const over = places.length ? Math.max(0, places.at(-1)[1] - bottom + 4) : 0;
  return places.map(([label, at]) => [label, at - over]);
}

/** Layers that stand on each other: [{name, gpus, ...}] from the bottom up. */
function stacked(bands, whole) {
  let below = whole.map((n) => (n === null ? null : 0));
  return bands.map((band) => {
    const from = below;
    below = from.map((n, at) => (n === null ? null : n + (band.gpus[at] ?? 0)));
    return { ...band, from, to: below };
  });
}

function poolPanels(page, narrow) {
  const panels = page.pools.map((pool) => ({
    title: `${pool.pool} ${pool.kind}, GPUs`,
    height: narrow ? 90 : 120,
    layers: [
      ...stacked(pool.models.map((each) => {
        const badge = page.badges[each.model];
        const now = each.gpus.at(-1);
        return { name: each.model || "others", gpus: each.gpus, style: `band hue-${badge?.hue ?? "none"}`, letters: badge?.letters ?? "…", label: now ? labelled(each.model || "others", now) : "", short: `${badge?.letters ?? "…"} ${now}` };
      }), pool.gpus),
      { name: "all", to: pool.gpus, line: true, style: "line whole" },
    ],
  }));
  const late = page.latePerMinute;
  panels.push({ title: "late requests a minute, by the p95", height: narrow ? 40 : 48, layers: [area("late", late, "area late")] });
  return panels;
}

const labelled = (name, n) => `${fitted(name, LABEL_PX - CHAR_PX * (`${n}`.length + 1))} ${n}`;
const area = (name, values, style) => ({ name, from: values.map((n) => (n === null ? null : 0)), to: values, style });
const line = (name, values, style, label) => ({ name, to: values, line: true, style, label, short: label });

function modelPanels(page, narrow) {
  const [it] = page.models;
  const hue = page.badges[it.model]?.hue ?? "none";
  const end = (name, values) => (values.at(-1) === null ? "" : `${name} ${amount(values.at(-1))}`);
  const [whole] = page.pools.length ? [page.pools[0].gpus.map((_, n) => (page.pools.every((pool) => pool.gpus[n] === null) ? null : 0))] : [[]];
  return [
    { title: narrow ? "ready; need —, work ··, alloc - -" : "replicas: ready (filled), need (line), work (dots), alloc (dashes)", height: narrow ? 90 : 120, layers: [
      { ...area("ready", it.ready, `band hue-${hue}`), label: end("ready", it.ready), short: `${known(it.ready.at(-1))} rdy` },
      line("alloc", it.allocation, "line allocation", ""), line("need", it.demand, "line demand", end("need", it.demand)), line("work", it.work, "line work", end("work", it.work))] },
    { title: `latency, p95 s${it.sloSeconds ? `; SLO ${amount(it.sloSeconds)} s dashed` : ""}`, height: narrow ? 60 : 72, least: 0.001, reference: it.sloSeconds, layers: [line("latency", it.latencySeconds, "line latency", end("p95", it.latencySeconds))] },
    { title: "late requests a minute, by the p95", height: 40, layers: [area("late", it.latePerMinute, "area late")] },
    { title: "GPUs by pool", height: narrow ? 48 : 64, layers: stacked(page.pools.map((pool, n) => ({ name: pool.pool, gpus: pool.models[0]?.gpus ?? [], style: `band hue-${hue} shade-${n % 3}`, letters: pool.pool, label: pool.models[0]?.gpus.at(-1) ? labelled(pool.pool, pool.models[0].gpus.at(-1)) : "", short: "" })), whole) },
  ];
}

/** The values at one instant, in the colours and letters of the picture. */
function readout(page, n, newest) {
  const key = (model) => h("span", { class: `badge hue-${page.badges[model]?.hue ?? "none"}` }, page.badges[model]?.letters ?? "…");
  const pools = page.models.length ? [] : page.pools.map((pool) => [pool.pool, pool.gpus[n] === null ? "?" : [pool.models.filter((each) => each.gpus[n]).map((each) => h("span", { key: each.model, class: "held" }, key(each.model), ` ${each.model || "others"} ${each.gpus[n]} `)), freeOf(pool, n)]]);
  const own = page.models.flatMap((it) => figuresOf(it).map(([name, values, unit]) => [name, `${amount(values[n])}${values[n] === null ? "" : unit}`]));
  const gpus = page.models.length ? [["GPUs", page.pools.map((pool) => `${pool.pool} ${known(pool.models[0]?.gpus[n])}`).join(", ") || "none"]] : [["late", `${amount(page.latePerMinute[n])} a minute`]];
  const marks = marksIn(page, n).slice(-4);
  return h("div", { class: "readout" },
    h("p", {}, h("strong", {}, clock(stepAt(page, n))), newest ? " newest" : ""),
    h("dl", {}, [...pools, ...own, ...gpus].map(([name, said]) => h("div", { key: name }, h("dt", {}, name), h("dd", {}, said)))),
    marks.length > 0 && h("p", {}, marks.map((each, at) => [at ? "; " : "", h("a", { href: `/console/timeline?entry=${each.id}` }, `${markKind(each)}: ${marked(each)}`)])));
}

function freeOf(pool, n) {
  const free = pool.gpus[n] - pool.models.reduce((sum, each) => sum + (each.gpus[n] ?? 0), 0);
  return free > 0 ? `free ${free}` : "";
}

customElements.define("rb-hours", Hours);
