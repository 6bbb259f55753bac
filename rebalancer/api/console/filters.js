// Forms whose fields live in the URL and act at once.

import { h } from "./dom.js";

const TYPED_MS = 250; // after the last letter

export const query = (params) => {
  const kept = String(new URLSearchParams(Object.entries(params).filter(([, value]) => value)));
  return kept && `?${kept}`;
};

export const search = () => Object.fromEntries(new URLSearchParams(location.search));

const option = (chosen) => (value) => h("option", { key: value, value, selected: value === chosen }, value || "any");

/** A choice of one of `values`. */
export const pick = (name, label, values, chosen) => h("label", {}, label, " ", h("select", { name }, values.map(option(chosen))));

let typed = 0;

function apply(form) {
  clearTimeout(typed);
  if (!form.isConnected) return;
  history.replaceState(null, "", `${location.pathname}${query(Object.fromEntries(new FormData(form)))}`);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** A form of fields; what is chosen or typed is shown without a button. */
export const filters = (...fields) => h("form", {
  class: "filters", method: "get", role: "search",
  onchange: (event) => apply(event.currentTarget),
  oninput: (event) => {
    const form = event.currentTarget;
    clearTimeout(typed);
    typed = setTimeout(() => apply(form), TYPED_MS);
  },
}, fields);
