// GPUs by node and device: coloured and lettered by the model that has them, with the owner's corner on borrowed ones.
// A replica that goes where another model's was a moment ago is seen moving there.

import { h } from "./dom.js";
import { CHAR_PX, Drawn, fitted, svg } from "./drawn.js";
import { Picture, PITCH, spelled, STATES, worst } from "./marks.js";

const MOST_TILES = 256; // GPUs; above, a tile per node, by states alone
const SIDE = 20;
const STEP = 22;
const NODE_GAP = 8;
const FEW_NODES = 16; // as many have room for their names above their GPUs
const NAME_CHARS = 24;
const LABEL_PX = 16;
const LETTER_PX = 6.6; // of 11 px
const FREED_MS = 900_000; // as long as a shift lasts at most
const MOVES_MS = 1_400;
const TRAIL_MS = 30_000;

const still = matchMedia("(prefers-reduced-motion: reduce)");
const HOLDS = new Set(["owned", "lent", "in use", "loading", "doomed"]);

const box = (x, y) => `M${x + 0.5} ${y + 0.5}h${SIDE - 1}v${SIDE - 1}h${1 - SIDE}z`;
const MARKS = {
  loading: (x, y) => `M${x + 1} ${y + 7}l6 -6M${x + 1} ${y + 13}l12 -12M${x + 7} ${y + 19}l12 -12M${x + 13} ${y + 19}l6 -6`,
  doomed: (x, y) => `M${x + 2} ${y + 2}l16 16m0 -16l-16 16`,
  closed: (x, y) => `M${x + 6} ${y + 10}h8`,
  other: (x, y) => `M${x + 8} ${y + 10}a2 2 0 1 0 4 0a2 2 0 1 0 -4 0z`,
  unknown: (x, y) => `M${x + 8} ${y + 8.5}q0 -2 2 -2t2 2q0 1.2 -2 2.5v1m0 1.5v1`,
};
const corner = (x, y) => `M${x + SIDE - 1} ${y + SIDE - 9}v8h-8z`;

/** A node's GPUs one by one: {state, model, lender}. What the pool itself lends nobody owns: it is in use. */
function devices(node, pool) {
  const seats = node.seated.flatMap(({ gpus, model, lender }) => Array.from({ length: gpus }, () => ({ model, lender })));
  return [...node.gpus].map((each, n) => {
    const { model = "", lender = "" } = seats[n] ?? {};
    const state = STATES[each] ?? "unknown";
    return lender === pool ? { state: state === "lent" ? "in use" : state, model, lender: "" } : { state, model, lender };
  });
}

/** `4 chat, 2 chat of code loading, 2 free`: a node's GPUs in words. */
function told(gpus) {
  const counts = new Map();
  for (const each of gpus) counts.set(saidOf(each), (counts.get(saidOf(each)) ?? 0) + 1);
  return [...counts].map(([said, n]) => `${n} ${said}`).join(", ");
}

const saidOf = ({ state, model, lender }) => (model && HOLDS.has(state) ? `${model}${lender ? ` lent by ${lender}` : ""}${state === "loading" || state === "doomed" ? ` ${state}` : ""}` : state);

/** `{pool, nodes: [{name, gpus, seated}], badges}`: every GPU by node and device; above 256 a tile per node. */
class Tiles extends Drawn {
  #before = null; // device -> model, as drawn last
  #freed = new Map(); // device -> {model, at}: who left it lately
  #trails = []; // {from, to, model, at}: shifts that are still seen
  #places = new Map(); // device -> {x, y, said}

  connectedCallback() {
    super.connectedCallback();
    this.onpointermove = (event) => {
      const { left, top } = this.getBoundingClientRect();
      const [x, y] = [event.clientX - left, event.clientY - top];
      const at = [...this.#places].find(([, place]) => x >= place.x && x < place.x + STEP && y >= place.y && y < place.y + STEP);
      this.title = at ? `${at[0]}: ${at[1].said}` : "";
    };
  }

  picture({ pool, nodes, badges }, width) {
    const gpus = nodes.reduce((sum, node) => sum + node.gpus.length, 0);
    return gpus > MOST_TILES ? perNode(pool, nodes, width) : this.#perGpu(pool, nodes, badges ?? {}, width);
  }

  #perGpu(pool, nodes, badges, width) {
    const paths = new Map();
    const add = (style, d) => paths.set(style, (paths.get(style) ?? "") + d);
    const hue = (model) => `hue-${badges[model]?.hue ?? "none"}`;
    const wide = (node) => Math.max(1, node.gpus.length) * STEP - 2;
    const few = nodes.length <= FEW_NODES;
    const place = (node) => (few ? Math.max(wide(node), Math.min(node.name.length, NAME_CHARS) * CHAR_PX + 1) : wide(node));
    const labelled = nodes.length <= 64 && nodes.every((node) => place(node) >= 3 * CHAR_PX);
    const row = (labelled ? LABEL_PX : 0) + SIDE + NODE_GAP;
    const [labels, letters, said, seen] = [[], [], [], new Map()];
    this.#places = new Map();
    let [x, y] = [0, 0];
    for (const node of nodes) {
      if (x > 0 && x + place(node) > width) [x, y] = [0, y + row];
      if (labelled) labels.push(h("text", { x, y: y + 11 }, fitted(node.name, place(node))));
      const top = y + row - SIDE - NODE_GAP;
      const spelt = { text: "", at: [] };
      const gpus = devices(node, pool);
      gpus.forEach((each, n) => {
        const left = x + n * STEP;
        const whose = HOLDS.has(each.state) ? each.model : "";
        this.#places.set(`${node.name} GPU ${n}`, { x: left, y: top, said: saidOf(each) });
        seen.set(`${node.name} GPU ${n}`, whose);
        if (!HOLDS.has(each.state)) add(`state ${each.state}`, box(left, top));
        else add(`tile ${hue(each.model)}`, box(left, top));
        if (each.lender && HOLDS.has(each.state)) add(`corner ${hue(each.lender)}`, corner(left, top));
        if (MARKS[each.state]) add(`tile-mark ${each.state}`, MARKS[each.state](left, top));
        const word = whose ? (badges[whose]?.letters ?? "") : "";
        [...word].forEach((letter, at) => {
          spelt.text += letter;
          spelt.at.push((left + SIDE / 2 + (at - word.length / 2) * LETTER_PX).toFixed(1));
        });
      });
      if (spelt.text) letters.push(h("text", { class: "letters", x: spelt.at.join(" "), y: top + 12 }, spelt.text));
      said.push(`${node.name}: ${told(gpus)}`);
      x += place(node) + NODE_GAP;
    }
    this.#notice(seen);
    const drawn = [...paths].sort(([one], [other]) => order(one) - order(other)).map(([style, d]) => h("path", { key: style, class: style, d }));
    return svg(width, y + row, `${pool}: ${said.join("; ")}`, labels, drawn, letters, this.#moving(badges));
  }

  /** Who came where another model was: a shift. */
  #notice(seen) {
    const before = this.#before;
    const now = performance.now();
    this.#before = seen;
    if (before === null) return;
    for (const [device, { at }] of this.#freed) if (now - at > FREED_MS) this.#freed.delete(device);
    for (const [device, model] of before) if (model && seen.get(device) !== model) this.#freed.set(device, { model, at: now });
    for (const [device, model] of seen) {
      if (!model || before.get(device) === model) continue;
      const other = (each) => this.#freed.has(each) && this.#freed.get(each).model !== model;
      const from = other(device) ? device : [...this.#freed.keys()].find((each) => other(each) && !seen.get(each));
      if (from === undefined) continue;
      this.#trails.push({ from, to: device, model: this.#freed.get(from).model, at: now, begun: false });
      this.#freed.delete(from);
    }
  }

  #moving(badges) {
    const now = performance.now();
    this.#trails = this.#trails.filter((each) => now - each.at < TRAIL_MS);
    return this.#trails.map((each) => {
      const [from, to] = [this.#places.get(each.from), this.#places.get(each.to)];
      if (!from || !to) return null;
      const badge = badges[each.model];
      const middle = (place) => `${place.x + SIDE / 2} ${place.y + SIDE / 2}`;
      return h("g", { key: `${each.to} ${each.at}`, class: "moved" },
        h("path", { class: "trail", d: `M${middle(from)}L${middle(to)}` }), h("path", { class: "trail", d: box(to.x, to.y) }),
        now - each.at < MOVES_MS && !still.matches && h("g", { key: "ghost", class: "ghost", data: { trail: each, from, to } }, h("path", { class: `tile hue-${badge?.hue ?? "none"}`, d: box(0, 0) }), h("text", { class: "letters", x: SIDE / 2, y: 12, "text-anchor": "middle" }, badge?.letters ?? "")));
    });
  }

  redraw() {
    super.redraw();
    for (const ghost of this.querySelectorAll(".ghost")) {
      const { trail, from, to } = ghost.data;
      if (trail.begun) continue;
      trail.begun = true;
      const at = (place, opacity) => ({ transform: `translate(${place.x}px, ${place.y}px)`, opacity });
      const end = from === to ? { x: to.x, y: to.y - SIDE } : to; // who leaves the very GPU that another takes is lifted off it
      ghost.animate([at(from, 1), { ...at(end, 1), offset: 0.8 }, at(end, 0)], { duration: MOVES_MS, easing: "ease-in-out", fill: "both" });
      setTimeout(() => this.redraw(), MOVES_MS);
      setTimeout(() => this.redraw(), TRAIL_MS);
    }
    if (still.matches && this.#trails.some((each) => !each.begun)) {
      for (const each of this.#trails) each.begun = true;
      setTimeout(() => this.redraw(), TRAIL_MS);
    }
  }
}

const order = (style) => ["state", "tile ", "corner", "tile-mark"].findIndex((each) => style.startsWith(each));

function perNode(pool, nodes, width) {
  const picture = new Picture();
  const columns = Math.max(1, Math.floor((width + 2) / PITCH));
  const words = nodes.map((node) => devices(node, pool)[node.gpus.indexOf(worst(node.gpus))]?.state ?? "unknown");
  words.forEach((word, n) => picture.add(word, (n % columns) * PITCH, Math.floor(n / columns) * PITCH));
  const all = spelled(words);
  const below = Math.ceil(nodes.length / columns) * PITCH;
  return svg(width, below + LABEL_PX, `${pool}: nodes by their worst GPU: ${all}`, picture.paths(), h("text", { x: 0, y: below + 11 }, "a tile per node, by its worst GPU"));
}

/** Whose tiles are which, and who lent to whom: `[Ch] chat 4 [Ch◢] chat 2 lent by code`. */
export function holders(nodes, badges, pool) {
  const counts = new Map();
  for (const each of nodes.flatMap((node) => devices(node, pool))) {
    if (!each.model || !HOLDS.has(each.state)) continue;
    const key = `${each.model} ${each.lender}`;
    counts.set(key, { ...each, n: (counts.get(key)?.n ?? 0) + 1 });
  }
  const list = [...counts].sort(([one], [other]) => (one < other ? -1 : 1));
  return list.length > 0 && h("ul", { class: "legend holders" }, list.map(([key, { model, lender, n }]) => h("li", { key },
    h("span", { class: `badge hue-${badges[model]?.hue ?? "none"}` }, badges[model]?.letters ?? "…"),
    " ", h("span", { class: "name" }, model), ` ${n}`,
    lender && [" lent by ", badges[lender] && [h("span", { class: `badge hue-${badges[lender].hue}` }, badges[lender].letters), " "], h("span", { class: "name" }, lender)])));
}

customElements.define("rb-tiles", Tiles);
