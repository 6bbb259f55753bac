import { h } from "../dom.js";
import { begin, changed } from "../live.js";
import { call } from "../wire.js";

let trouble = "";

async function enter(event) {
  event.preventDefault();
  const input = event.target.elements.namedItem("token");
  try {
    await call("POST", "/v1/session", { token: input.value.trim() });
    trouble = "";
    await begin();
  } catch (error) {
    trouble = error.message;
    changed();
  }
}

/** Nobody is logged in: paste a token, get a cookie that scripts cannot read. */
export const login = () => [
  h("div", { class: "login" }, h("h1", {}, "Log in"),
    h("p", {}, "Paste the token that this prints:"),
    h("p", { class: "command" }, h("code", {}, "rebalancer login --print")),
    h("form", { onsubmit: enter },
      h("p", { class: "field" }, h("label", { for: "token" }, "Token"), h("input", { id: "token", name: "token", type: "password", required: true, autofocus: true, autocomplete: "off", spellcheck: "false" })),
      h("p", { role: "alert", class: "outcome trouble" }, trouble),
      h("button", { class: "primary" }, "Log in"))),
];
login.title = "Log in";
