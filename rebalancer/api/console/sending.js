// The dialog, a write on its way, and what is said of it once its dialog has gone.

import { draw, h } from "./dom.js";
import { live, now } from "./live.js";
import { call, Failed, get } from "./wire.js";

const dialog = document.getElementById("dialog");
const toast = document.getElementById("toast");
const AGAIN_MS = 2_000;
const TOAST_MS = 30_000; // long enough to read it, and to change one's mind

let view = null; // what the dialog shows: () => values of dom.js
let current = null; // the write that it is about

/** Open the dialog with what `next` describes, and keep it drawn. */
export function open(next) {
  view = next;
  again();
  if (!dialog.open) dialog.showModal();
}

/** Draw the open dialog anew. */
export function again() {
  if (view && (dialog.open || !dialog.hasChildNodes())) draw(dialog, [h("div", { key: "body", class: "dialog" }, view())]);
}

dialog.addEventListener("close", () => {
  view = current = null;
  draw(dialog, []);
});
live.addEventListener("change", () => dialog.open && again());

export const close = () => dialog.close();
export const title = (said) => h("h2", { id: "dialog-title" }, said);
export const command = (said) => h("p", { class: "command" }, h("span", { class: "unseen" }, "The same by command: "), h("code", {}, said));
export const cancel = (said = "Cancel") => h("button", { type: "button", onclick: close }, said);
export const field = (name, label, input, hint) => h("p", { key: name, class: "field" }, h("label", { for: name }, label), input, hint && h("span", { id: `${name}-hint`, class: "quiet" }, hint));

// --- what became of a write, after its dialog has gone

let fading = 0;

/** Say what became of it; `undo`: takes that back. */
export function tell(said, undo) {
  clearTimeout(fading);
  fading = setTimeout(hush, TOAST_MS);
  draw(toast, [h("div", { key: "toast", class: "toast" }, h("span", {}, said), undo && h("button", { key: "undo", onclick: undo }, "Undo"), h("button", { key: "hush", "aria-label": "Dismiss", onclick: hush }, "×"))]);
}

const hush = () => draw(toast, []);

/** A write on its way: Sending, Accepted, In force; a lost reply is asked for again with the same key. */
export class Sending {
  said = "";
  trouble = "";
  shown = false; // whether a dialog says what becomes of it: who closes that does not want it tried again
  state = "ready"; // ready, sending, checking, accepted, done

  /** `visible`: (overview, answer) -> what became of it as the stream shows it, or nothing yet; `done`: is told that. */
  constructor(visible, done) {
    this.visible = visible;
    this.done = done;
    this.key = crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint32Array(4))].join("-");
    this.answer = null;
    this.watch = () => this.look();
    live.addEventListener("change", this.watch);
    dialog.addEventListener("close", () => this.busy || this.leave(), { once: true });
  }

  get busy() {
    return this.state !== "ready";
  }

  leave() {
    live.removeEventListener("change", this.watch);
  }

  async send(method, path, body, repeated = false) {
    this.to("sending", "Sending");
    try {
      this.answer = await call(method, path, body, { "Idempotency-Key": this.key }).catch((error) => {
        if (!repeated || method !== "DELETE" || error.status !== 404) throw error;
        return null; // gone: the first one did it, and its reply was lost
      });
      this.to("accepted", "Accepted");
      this.look();
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      if (error.status === 0 || error.status === 504) return this.check(method, path, body);
      if (error.status === 403) get("/v1/session").then((session) => (now.session = session), () => {}); // a right was taken away
      this.to("ready", "", error.message);
      throw error;
    }
  }

  async check(method, path, body) {
    this.to("checking", "May have been applied; checking");
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    if (dialog.open || !this.shown) await this.send(method, path, body, true);
  }

  /** Once the stream shows it the dialog has nothing more to say. */
  look() {
    const became = this.state === "accepted" && this.visible(now.overview, this.answer);
    if (!became) return;
    this.to("done", "");
    this.leave();
    if (current === this) dialog.close();
    this.done(`${became}, cycle ${now.overview.cycle}`, this.answer);
  }

  to(state, said, trouble = "") {
    Object.assign(this, { state, said, trouble });
    again();
  }

  outcome() {
    current = this;
    this.shown = true;
    return h("p", { key: "outcome", role: "status", class: this.trouble ? "outcome trouble" : "outcome" }, this.trouble || this.said);
  }
}
