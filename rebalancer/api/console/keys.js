// One key each for finding and walking; none of them writes. They can be switched off.

import { h } from "./dom.js";
import { close, open } from "./writes.js";

const SETTING = "rebalancer.keys";
const KEYS = [["/", "find a model"], ["j", "next row"], ["k", "row before"], ["Enter", "open the row"], ["Esc", "close, or leave the field"], ["?", "this list"]];

const on = () => localStorage.getItem(SETTING) !== "off";
const editable = (node) => node.matches?.("input, select, textarea");

function walk(step) {
  const links = [...document.querySelectorAll("main [data-row]")].map((line) => line.querySelector("a, button")).filter((link) => link?.checkVisibility());
  const at = links.findIndex((link) => link.closest("[data-row]") === document.activeElement.closest("[data-row]"));
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

export function help() {
  open(() => [
    h("h2", { id: "dialog-title" }, "Keys"),
    h("dl", { class: "facts" }, KEYS.map(([key, said]) => h("div", { key }, h("dt", {}, h("kbd", {}, key)), h("dd", {}, said)))),
    h("p", { class: "field check" }, h("input", { id: "keys-on", type: "checkbox", checked: on(), onchange: (event) => localStorage.setItem(SETTING, event.target.checked ? "on" : "off") }), h("label", { for: "keys-on" }, "Single keys are on")),
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
