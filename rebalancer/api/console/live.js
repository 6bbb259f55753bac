// What the service says now: one snapshot, then one stream per visible tab, and how old it is by server time.

import { Failed, get } from "./wire.js";
import { clock, ms, setToday, span } from "./words.js";

const LIVE_SECONDS = 10; // or one planning period, where that is longer
const LATE_SECONDS = 30; // or three
const AGAIN_MS = 2_000;
const FRAME_MS = 500; // at most two pictures a second
const SILENT_MS = 3 * 5_000; // three beats of the service missed: it is asked
const ANSWER_MS = 3_000; // as long as its answer may take before it counts as gone

/** `change` when there is something to draw, `tick` each second. */
export const live = new EventTarget();

/** `session` null: not asked yet; false: nobody is logged in. */
export const now = { session: null, overview: null, trouble: "", unreached: false };

let heard = { server: NaN, local: NaN };
let listened = 0; // when the last word came, or we began to listen
let stream = null;
let opened = 0; // when it was
let again = 0;
let due = 0;
let freshness = "";

/** Server time in milliseconds: its last word plus what has passed here since. */
export const serverNow = () => heard.server + performance.now() - heard.local;

/** Seconds since the plan that is shown was made; NaN before the first. */
export const age = () => (serverNow() - ms(now.overview?.planAt ?? now.overview?.at)) / 1000;

/** LIVE, LATE, NOT LIVE, or nothing before the first word. */
export function liveness() {
  const seconds = Math.floor(age());
  if (!Number.isFinite(seconds)) return "";
  const period = now.overview.planEverySeconds;
  return seconds <= Math.max(LIVE_SECONDS, period) ? "LIVE" : seconds <= Math.max(LATE_SECONDS, 3 * period) ? "LATE" : "NOT LIVE";
}

/** `LIVE 1 s`, `LATE 14 s`, `NOT LIVE since 03:11:37`. */
export function livenessSaid() {
  const word = liveness();
  return word === "NOT LIVE" ? `NOT LIVE since ${clock(now.overview.planAt ?? now.overview.at)}` : word && `${word} ${span(age())}`;
}

/** Whether what is shown may be acted upon. */
export const fresh = () => liveness() === "LIVE" || liveness() === "LATE";

/** Whether the service is gone as far as this page knows: three beats are missing and it does not answer, or it never did. */
// Who is not logged in is told nothing, which says nothing of the service.
export const silent = () => now.session !== false && (now.unreached || (now.overview !== null && performance.now() - listened > SILENT_MS + ANSWER_MS));

/** The service's time of its last word, in milliseconds; NaN before the first. */
export const lastWord = () => heard.server;

/** Draw soon, at most two pictures a second. */
export function changed() {
  if (due) return;
  due = setTimeout(() => {
    due = 0;
    live.dispatchEvent(new Event("change"));
  }, Math.max(0, FRAME_MS - (performance.now() - changed.at)));
}
changed.at = -FRAME_MS;
live.addEventListener("change", () => (changed.at = performance.now()));

function hear(overview) {
  heard = { server: ms(overview.at), local: performance.now() };
  listened = heard.local;
  now.unreached = false;
  setToday(overview.at);
  now.overview = overview;
  now.trouble = "";
  changed();
}

/** Nothing new, but alive. */
function beat({ at, cycle, planAt }) {
  if (now.overview) hear({ ...now.overview, at, cycle, planAt });
}

/** Ask who we are, read the first picture, and follow. */
export async function begin() {
  clearTimeout(again);
  leave();
  try {
    const overview = get("/v1/overview");
    overview.catch(() => {}); // told below, once
    now.session = await get("/v1/session"); // first: who may stop writes may do so without a picture
    hear(await overview);
    follow();
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    now.unreached = error.status === 0;
    if (error.status === 401) now.session = false;
    else again = setTimeout(begin, AGAIN_MS);
    now.trouble = error.message;
    changed();
  }
}

function follow() {
  leave();
  if (document.visibilityState === "hidden") return;
  opened = performance.now();
  stream = new EventSource("/v1/stream");
  const take = (event) => hear(JSON.parse(event.data));
  stream.onmessage = take;
  stream.addEventListener("overview", take);
  stream.addEventListener("beat", (event) => beat(JSON.parse(event.data)));
  stream.onerror = () => {
    if (stream?.readyState !== EventSource.CLOSED) return; // it connects again by itself
    leave();
    again = setTimeout(begin, AGAIN_MS);
  };
}

function leave() {
  stream?.close();
  stream = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") return leave();
  listened = performance.now(); // nobody listened meanwhile, so nothing was missed
  if (now.session !== null) begin();
});

// Somebody may have logged in at another tab meanwhile.
addEventListener("focus", () => now.session === false && begin());

setInterval(() => {
  if (stream && performance.now() - Math.max(listened, opened) > SILENT_MS) begin(); // its words may be lost on the way, or kept back by a proxy
  live.dispatchEvent(new Event("tick"));
  const fresher = `${liveness()}${silent()}`;
  if (freshness !== fresher) changed(); // countdowns become clock times, Apply goes off, the page goes dim
  freshness = fresher;
}, 1_000);
