// What the person may not do, in words: asked once with the session, so that no button ends in a surprise.
// What was not asked about counts as allowed: the service says no where it must.

import { h } from "./dom.js";
import { now } from "./live.js";

const lacks = (verb, what, where = "") => `${now.session.user} may not ${verb} ${what}${where && ` in namespace ${where}`}`;
const may = () => now.session?.may;

export const cannotStop = () => may()?.stop === false && lacks("create", "writestops");
export const cannotResume = () => may()?.resume === false && lacks("delete", "writestops");

/** `namespace` undefined: nowhere at all. */
function cannot(field, verb, namespace) {
  const { [field]: allowed, asked } = may() ?? {};
  if (!allowed || !asked?.length) return false;
  const denied = namespace === undefined ? allowed.length === 0 : asked.includes(namespace) && !allowed.includes(namespace);
  return denied && lacks(verb, "overrides", namespace);
}

export const cannotDecide = (namespace) => cannot("override", "create", namespace);
export const cannotEnd = (namespace) => cannot("end", "delete", namespace);

/** A button, or where there is a reason against it a dead one with the reason beside it. */
export const barred = (why, props, ...kids) => (why ? [h("span", { key: `${props.key ?? ""}why`, class: "quiet barred" }, why), h("button", { ...props, disabled: true, title: why }, ...kids)] : h("button", props, ...kids));
