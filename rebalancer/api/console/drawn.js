// Custom elements that draw one SVG each, as wide as they are, from their `data`.

import { draw, h } from "./dom.js";
import { live, liveness, livenessSaid, serverNow } from "./live.js";
import { Picture, PITCH, SIDE, spelled, STATES, worst } from "./marks.js";
import { clock, ms, span } from "./words.js";

const MOST_TILES = 256; // GPUs; above, a tile per node
const CHAR_PX = 7.3; // of 12 px monospace
const NODE_GAP = 8;
const LABEL_PX = 16;

class Drawn extends HTMLElement {
  #data = null;
  #seen = "";
  #width = 0;
  #watch = null;

  set data(value) {
    const seen = JSON.stringify(value);
    if (seen === this.#seen) return;
    this.#seen = seen;
    this.#data = value;
    this.#redraw();
  }

  connectedCallback() {
    this.#watch = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width === this.#width) return;
      this.#width = width;
      this.#redraw();
    });
    this.#watch.observe(this);
  }

  disconnectedCallback() {
    this.#watch?.disconnect();
  }

  #redraw() {
    if (this.#width && this.#data) draw(this, [this.picture(this.#data, this.#width)]);
  }
}

const svg = (width, height, label, ...kids) => h("svg", { width, height, role: "img", "aria-label": label }, ...kids);

/** `{said, segments: [[word, n]], total, floor, demand}` as one bar; `|` the floor, `>` the demand. */
class Bar extends Drawn {
  picture({ said, segments, total, floor, demand }, width) {
    const picture = new Picture();
    const px = (n) => Math.round((Math.min(n, total) / total) * width);
    let sum = 0;
    for (const [word, n] of total ? segments : []) {
      const from = px(sum);
      sum += n;
      picture.add(word, from, 1, Math.max(1, px(sum) - from - (px(sum) < width ? 1 : 0)));
    }
    const ticks = [];
    if (total && floor) ticks.push(h("path", { class: "floor", d: `M${Math.min(px(floor), width - 2) - 1} 0h3v16h-3z` }));
    if (total && demand) ticks.push(h("path", { class: "demand", d: `M${Math.min(px(demand), width) - 7} 2l6 6l-6 6z` }));
    return svg(width, 16, said, picture.paths(), ticks);
  }
}

/** `{pool, nodes: [{name, gpus}]}`: every GPU by node and device; above 256 a tile per node. */
class Tiles extends Drawn {
  picture({ pool, nodes }, width) {
    const gpus = nodes.reduce((sum, node) => sum + node.gpus.length, 0);
    return gpus > MOST_TILES ? this.#perNode(pool, nodes, width) : this.#perGpu(pool, nodes, width);
  }

  #perNode(pool, nodes, width) {
    const picture = new Picture();
    const columns = Math.max(1, Math.floor((width + 2) / PITCH));
    nodes.forEach((node, n) => picture.add(STATES[worst(node.gpus)], (n % columns) * PITCH, Math.floor(n / columns) * PITCH));
    const all = spelled(nodes.map((node) => worst(node.gpus)).join(""));
    return svg(width, Math.ceil(nodes.length / columns) * PITCH, `${pool}: nodes by their worst GPU: ${all}`, picture.paths());
  }

  #perGpu(pool, nodes, width) {
    const picture = new Picture();
    const span = (node) => Math.max(1, node.gpus.length) * PITCH - 2;
    const labelled = nodes.length <= 64 && nodes.every((node) => span(node) >= 6 * CHAR_PX);
    const row = (labelled ? LABEL_PX : 0) + SIDE + NODE_GAP;
    const labels = [];
    let [x, y] = [0, 0];
    for (const node of nodes) {
      if (x > 0 && x + span(node) > width) [x, y] = [0, y + row];
      if (labelled) labels.push(h("text", { x, y: y + 11 }, fitted(node.name, span(node))));
      [...node.gpus].forEach((gpu, n) => picture.add(STATES[gpu] ?? "unknown", x + n * PITCH, y + row - SIDE - NODE_GAP));
      x += span(node) + NODE_GAP;
    }
    const said = nodes.map((node) => `${node.name}: ${spelled(node.gpus)}`).join("; ");
    return svg(width, y + row, `${pool}: ${said}`, labels, picture.paths());
  }
}

function fitted(name, px) {
  const most = Math.floor(px / CHAR_PX);
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

const GLYPHS = {
  release: "M-5 -4h10l-5 8z",
  grant: "M-5 4h10l-5 -8z",
  notice: "M-4 -4l8 8m0 -8l-8 8",
  refusal: "M0 -6v7m0 3v2",
  override: "M-4 -4h8v8h-8z",
  stop: "M-6 0h12m-12 -3h12m-12 6h12",
  node: "M0 -5l5 5l-5 5l-5 -5z",
};

/** The mark of a happening, for a line of text. */
export const glyph = (kind) => h("svg", { class: "glyph", width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, h("path", { class: kind, d: GLYPHS[kind] ?? GLYPHS.node }));

/** `{from, to, happenings}` (milliseconds): a lane per model, a line from each release to its cycle's grants. */
class Lanes extends Drawn {
  picture({ from, to, happenings }, width) {
    const lanes = [...new Set(happenings.toReversed().map((each) => each.model ?? each.pool ?? "cluster"))].slice(0, 12);
    const left = Math.min(136, Math.max(...lanes.map((name) => name.length), 6) * CHAR_PX + 8);
    const x = (at) => left + ((at - from) / (to - from)) * (width - left - 8);
    const y = (name) => 12 + lanes.indexOf(name) * 24;
    const bottom = lanes.length * 24;
    const placed = happenings.map((each) => ({ ...each, x: x(ms(each.at)), y: y(each.model ?? each.pool ?? "cluster") })).filter((each) => each.y > 0 && each.x >= left);
    const shifts = placed.filter((one) => one.kind === "release").flatMap((one) => placed.filter((two) => two.kind === "grant" && two.cycle === one.cycle).map((two) => h("path", { class: "shift", d: `M${one.x} ${one.y}L${two.x} ${two.y}` })));
    const ticks = [30, 20, 10, 0].map((minutes) => to - minutes * 60_000).filter((at) => at >= from);
    return svg(width, bottom + 20, "Timeline of 30 minutes; the newest are listed below.",
      lanes.map((name) => [h("path", { class: "lane", d: `M${left} ${y(name)}H${width - 8}` }), h("text", { x: 0, y: y(name) + 4 }, fitted(name, left))]),
      ticks.map((at) => [h("path", { class: "tick", d: `M${x(at)} 0V${bottom}` }), h("text", { x: x(at), y: bottom + 15, "text-anchor": at === to ? "end" : at === from ? "start" : "middle" }, clock(at).slice(-8, -3))]),
      shifts,
      placed.map((each) => h("path", { class: `happening ${each.kind}`, transform: `translate(${each.x} ${each.y})`, d: GLYPHS[each.kind] ?? GLYPHS.node })));
  }
}

/** `{points, floor, doomedAt, from, to}`: demand, allocation and ready as steps; unknown is a gap. */
class Chart extends Drawn {
  picture({ points, floor, noticeFrom, from, to }, width) {
    const height = width < 480 ? 120 : 180;
    const top = Math.max(1, floor, ...points.flatMap((point) => [point.demand, point.allocation, point.ready].map((n) => n ?? 0)));
    const plot = { left: 24, right: width - 84, top: 8, bottom: height - 20 };
    const x = (at) => plot.left + ((Math.max(at, from) - from) / (to - from)) * (plot.right - plot.left);
    const y = (n) => plot.bottom - (n / top) * (plot.bottom - plot.top);
    const line = (name) => steps(points, name, x, y, plot.right);
    const ready = line("ready");
    const ticks = (width < 480 ? [60, 30, 0] : [60, 45, 30, 15, 0]).map((minutes) => to - minutes * 60_000);
    return svg(width, height, "60 minutes of demand, allocation and ready replicas; as text below.",
      noticeFrom && h("path", { class: "notice", d: `M${x(noticeFrom)} ${plot.top}H${plot.right}V${plot.bottom}H${x(noticeFrom)}z` }),
      [0, Math.ceil(top / 2), top].map((n) => [h("path", { class: "tick", d: `M${plot.left} ${y(n)}H${plot.right}` }), h("text", { x: plot.left - 6, y: y(n) + 4, "text-anchor": "end" }, n)]),
      ticks.map((at) => h("text", { x: x(at), y: height - 4, "text-anchor": at === to ? "end" : at === from ? "start" : "middle" }, clock(at).slice(-8, -3))),
      h("path", { class: "ready-area", d: ready.area(y(0)) }),
      h("path", { class: "line floor", d: `M${plot.left} ${y(floor)}H${plot.right}` }),
      ["ready", "allocation", "demand"].map((name) => h("path", { class: `line ${name}`, d: (name === "ready" ? ready : line(name)).path })),
      ends(points.at(-1), floor, y).map(([said, at]) => h("text", { x: plot.right + 6, y: at + 4 }, said)));
  }
}

/** A step line: `path`, and `area(base)` down to the base; unknown values leave a gap. */
function steps(points, name, x, y, right) {
  const runs = [];
  points.forEach((point, n) => {
    if (point[name] === null) return;
    const end = n + 1 < points.length ? x(ms(points[n + 1].at)) : right;
    if (n === 0 || points[n - 1][name] === null) runs.push([]);
    runs.at(-1).push([x(ms(point.at)), y(point[name]), end]);
  });
  const walk = (run) => run.map(([from, level, to], n) => `${n ? "V" : `M${from.toFixed(1)} `}${level.toFixed(1)}H${to.toFixed(1)}`).join("");
  return {
    path: runs.map(walk).join(""),
    area: (base) => runs.map((run) => `${walk(run)}V${base}H${run[0][0].toFixed(1)}z`).join(""),
  };
}

/** Labels at the right end, at least 14 px apart. */
function ends(point, floor, y) {
  const values = [["demand", point?.demand], ["alloc", point?.allocation], ["ready", point?.ready], ["floor", floor]];
  const labels = values.filter(([, n]) => n !== null && n !== undefined).map(([name, n]) => [`${name} ${n}`, y(n)]).sort((a, b) => a[1] - b[1]);
  for (let n = 1; n < labels.length; n += 1) labels[n][1] = Math.max(labels[n][1], labels[n - 1][1] + 14);
  const over = labels.length ? Math.max(0, labels.at(-1)[1] - y(0)) : 0;
  return labels.map(([said, at]) => [said, at - over]);
}

/** Text that changes with the second. */
class Ticking extends HTMLElement {
  #at = null;
  #tick = () => {
    const said = this.said(this.#at);
    if (this.textContent !== said) this.textContent = said;
  };

  set data(value) {
    this.#at = value;
    this.#tick();
  }

  connectedCallback() {
    live.addEventListener("tick", this.#tick);
    this.#tick();
  }

  disconnectedCallback() {
    live.removeEventListener("tick", this.#tick);
  }
}

/** A countdown to an instant; the clock time itself while we are not live. */
class Until extends Ticking {
  said(at) {
    if (!at) return "";
    return liveness() === "NOT LIVE" ? clock(at) : span(Math.ceil((ms(at) - serverNow()) / 1000));
  }
}

/** `LIVE 1 s`. */
class Age extends Ticking {
  said() {
    return livenessSaid();
  }
}

/** Server time. */
class Clock extends Ticking {
  said() {
    return Number.isFinite(serverNow()) ? `${clock(serverNow())} UTC` : "";
  }
}

for (const [name, kind] of Object.entries({ bar: Bar, tiles: Tiles, lanes: Lanes, chart: Chart, until: Until, age: Age, clock: Clock })) customElements.define(`rb-${name}`, kind);
