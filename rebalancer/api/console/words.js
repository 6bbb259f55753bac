// Instants, spans and counts in the words that the command line uses; unknown is `?`, never 0.

export const known = (value) => (value === null || value === undefined ? "?" : String(value));

/** A figure for people: 1,258, 12, 1.5, 0.13; `?` where it is unknown. */
export const amount = (value) => (value === null || value === undefined ? "?" : value >= 10 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(2))));

export const counted = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

/** Milliseconds of an RFC 3339 instant; NaN for none. */
export const ms = (instant) => (instant === null || instant === undefined ? NaN : Date.parse(instant));

/** The server's day, as `clock` compares with it. */
let today = "";
export const setToday = (at) => (today = at.slice(0, 10));

/** UTC time of day: 03:12:07; on another day than the server's 01-14 03:12:07. */
export function clock(at) {
  const date = new Date(typeof at === "number" ? at : ms(at));
  if (Number.isNaN(date.getTime())) return "?";
  const iso = date.toISOString();
  return `${today && !iso.startsWith(today) ? `${iso.slice(5, 10)} ` : ""}${iso.slice(11, 19)}`;
}

/** A duration in its two largest units: 48 s, 1m33s, 2h47m, 3d4h. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "?";
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${whole % 60}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h${Math.floor((whole % 3600) / 60)}m`;
  return `${Math.floor(whole / 86400)}d${Math.floor((whole % 86400) / 3600)}h`;
}

/** A word for the shell: quoted only where it must be. */
export const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** `cap sdxl 6`: what an override does, to what. */
export const overrideName = (each) => [each.kind, each.subject, each.value].filter((part) => part !== null && part !== undefined).join(" ");

/** What is special about the service now, in whole sentences. */
export function conditions(overview) {
  const told = [];
  if (!overview.leader && !overview.leaderKnown) {
    told.push("No leader known: this replica cannot tell who leads.");
  } else if (!overview.leader) {
    told.push("No leader. Nothing changes; HPAs keep the last bounds.");
  } else if (overview.instance && overview.instance !== overview.leader) {
    told.push(`Reading standby ${overview.instance}; leader is ${overview.leader}.`);
  }
  const stop = overview.writesStopped;
  if (stop) told.push(`Writes stopped by ${stop.actor || "?"} ${clock(stop.createdAt)}: ${stop.reason || "?"}.`);
  else if (overview.writeMode !== "act") told.push("Shadow: nothing is written.");
  if (!overview.planAt) told.push("Reading state");
  const { missing = [], stale = [] } = overview.sync ?? {};
  if (missing.length) told.push(`Not read yet: ${missing.join(", ")}. Nothing is taken from a model until they are.`);
  if (stale.length) told.push(`Silent: ${stale.join(", ")}. Nothing is taken from a model while they are.`);
  const refused = overview.policyRefused ?? [];
  const kept = refused.length ? "the rest of it is in force" : "the last good one stays in force";
  for (const problem of (overview.policyProblems ?? []).slice(0, 3)) told.push(`The policy file is not good, ${kept}: ${problem}`);
  if (refused.length) told.push(`Of the policy file ${refused.slice(0, 5).join(", ")}${refused.length > 5 ? ` and ${refused.length - 5} more` : ""}.`);
  return told;
}

/** STOPPED, SHADOW, WRITING, WAITING for somebody to lead, or UNKNOWN whether somebody does. */
export const writing = (overview) => (overview.writesStopped ? "STOPPED" : overview.writeMode !== "act" ? "SHADOW" : overview.leader ? "WRITING" : overview.leaderKnown ? "WAITING" : "UNKNOWN");
