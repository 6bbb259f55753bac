// The states of a GPU: a colour and a mark each, so that no meaning hangs on colour alone.

import { h } from "./dom.js";

/** Character on the wire -> word, first match first. */
export const STATES = { "?": "unknown", o: "other", x: "doomed", "/": "loading", "+": "lent", "#": "owned", "-": "closed", ".": "free" };

/** The order in which people count. */
export const WORDS = ["owned", "lent", "in use", "loading", "doomed", "other", "unknown", "closed", "free"];

const WORST = "?x/o+#-."; // a tile that stands for a node shows the first of these
export const SIDE = 14;
export const PITCH = 16;

const FILLED = new Set(["owned", "lent", "in use", "loading", "doomed"]);

// Marks of a 14 px tile at x, y, in the page's colour on a fill, in the state's own where there is none.
const MARKS = {
  lent: (x, y) => `M${x + 6} ${y}h8v8z`,
  "in use": (x, y) => `M${x + 3} ${y + 6}h8v2h-8z`,
  loading: (x, y) => `M${x} ${y + 7}l7 -7M${x} ${y + 14}l14 -14M${x + 7} ${y + 14}l7 -7`,
  doomed: (x, y) => `M${x + 3} ${y + 3}l8 8m0 -8l-8 8`,
  closed: (x, y) => `M${x + 4} ${y + 7}h6`,
  other: (x, y) => `M${x + 5} ${y + 7}a2 2 0 1 0 4 0a2 2 0 1 0 -4 0z`,
  unknown: (x, y) => `M${x + 5} ${y + 5.5}q0 -2 2 -2t2 2q0 1.2 -2 2.5v1m0 1.5v1`,
};

const box = (x, y, w) => (w < 2 ? `M${x} ${y}h${w}v${SIDE}h-${w}z` : `M${x} ${y}h${w}v${SIDE}h${-w}z`);
const outline = (x, y, w) => `M${x + 0.5} ${y + 0.5}h${w - 1}v${SIDE - 1}h${1 - w}z`;

const style = (word) => word.replace(" ", "-");

/** Collects boxes per state, then gives one path for each state's boxes and one for their marks. */
export class Picture {
  #bodies = {};
  #marks = {};

  /** A box of state `word` at x, y, `width` wide; wider than a tile, its mark repeats. */
  add(word, x, y, width = SIDE) {
    this.#bodies[word] = (this.#bodies[word] ?? "") + (FILLED.has(word) ? box : outline)(x, y, width);
    const mark = MARKS[word];
    if (!mark) return;
    for (let at = x; at + SIDE <= x + width + 0.5; at += PITCH) this.#marks[word] = (this.#marks[word] ?? "") + mark(at, y);
  }

  paths() {
    return WORDS.filter((word) => this.#bodies[word]).map((word) => [
      h("path", { key: word, class: `state ${style(word)}`, d: this.#bodies[word] }),
      this.#marks[word] && h("path", { key: `${word}-mark`, class: `mark ${style(word)}`, d: this.#marks[word] }),
    ]);
  }
}

/** A tile to stand beside its word. */
export function swatch(word) {
  const picture = new Picture();
  picture.add(word, 0, 0);
  return h("svg", { class: "swatch", width: SIDE, height: SIDE, "aria-hidden": "true" }, picture.paths());
}

/** What a pool's GPUs do, by word: nobody owns those of an elastic pool, so none of them is lent. */
export function countsOf({ counts, kind }) {
  const { lent, ...others } = counts;
  return kind === "elastic" && lent ? { ...others, "in use": lent } : counts;
}

/** `owned 26 + lent 6` as [word, number], zeros left out. */
export const parts = (counts) => WORDS.filter((word) => counts[word]).map((word) => [word, counts[word]]);

/** A node's GPUs as one character: the worst. */
export const worst = (gpus) => [...WORST].find((each) => gpus.includes(each)) ?? "?";

/** `4 owned, 4 loading`: GPUs or nodes in words. */
export function spelled(words) {
  const counts = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return parts(counts).map(([word, n]) => `${n} ${word}`).join(", ");
}
