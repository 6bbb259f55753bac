// Custom elements that draw one SVG each, as wide as they are, from their `data`.

import { draw, h } from "./dom.js";
import { live, liveness, livenessSaid, serverNow } from "./live.js";
import { Picture } from "./marks.js";
import { clock, ms, span } from "./words.js";

export const CHAR_PX = 7.3; // of 12 px monospace

export class Drawn extends HTMLElement {
  #data = null;
  #seen = "";
  #width = 0;
  #watch = null;

  set data(value) {
    if (value === this.#data) return;
    const seen = JSON.stringify(value);
    if (seen === this.#seen) return;
    this.#seen = seen;
    this.#data = value;
    this.redraw();
  }

  connectedCallback() {
    this.#watch = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width === this.#width) return;
      this.#width = width;
      this.redraw();
    });
    this.#watch.observe(this);
  }

  disconnectedCallback() {
    this.#watch?.disconnect();
  }

  redraw() {
    if (this.#width && this.#data) draw(this, [this.picture(this.#data, this.#width)]);
  }
}

export const svg = (width, height, label, ...kids) => h("svg", { width, height, ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) }, ...kids);

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

/** A name in so many pixels of 12 px monospace. */
export function fitted(name, px) {
  const most = Math.floor(px / CHAR_PX);
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

export const GLYPHS = {
  release: "M-5 -4h10l-5 8z",
  grant: "M-5 4h10l-5 -8z",
  notice: "M-4 -4l8 8m0 -8l-8 8",
  refusal: "M0 -6v7m0 3v2",
  override: "M-4 -4h8v8h-8z",
  stop: "M-6 0h12m-12 -3h12m-12 6h12",
  node: "M0 -5l5 5l-5 5l-5 -5z",
  shift: "M-6 -1.5h6v-3.5l5.5 5l-5.5 5v-3.5h-6z",
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

for (const [name, kind] of Object.entries({ bar: Bar, lanes: Lanes, until: Until, age: Age, clock: Clock })) customElements.define(`rb-${name}`, kind);
