// Values in, nodes out: `h` describes, `draw` changes only what differs, so focus, selection and open folds stay.
// Text reaches the page as text nodes alone; no string is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

/** What a node should be. Props: attributes, `key` (identity among siblings), `on...` handlers, `data` (of our elements). */
export function h(tag, props, ...kids) {
  return { tag, props: props ?? {}, kids: kept(kids) };
}

const kept = (kids) => kids.flat(Infinity).filter((kid) => kid !== null && kid !== undefined && kid !== false && kid !== "");

/** Make `parent` hold `kids`. */
export function draw(parent, kids) {
  const focused = document.activeElement;
  fill(parent, kept(kids));
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function fill(parent, kids) {
  const keyed = new Map();
  for (const node of parent.childNodes) if (node.rbKey !== undefined) keyed.set(node.rbKey, node);
  let at = parent.firstChild;
  for (const kid of kids) {
    const node = found(at, keyed, kid) ?? made(kid, parent);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    dress(node, kid);
  }
  while (at !== null) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function found(at, keyed, kid) {
  if (typeof kid !== "object") return at?.nodeType === Node.TEXT_NODE ? at : undefined;
  const node = kid.props.key === undefined ? at : keyed.get(kid.props.key);
  keyed.delete(kid.props.key); // of two with one key the second is made anew
  return node?.localName === kid.tag && node.rbKey === kid.props.key ? node : undefined;
}

function made(kid, parent) {
  if (typeof kid !== "object") return document.createTextNode("");
  const inSvg = kid.tag === "svg" || parent.namespaceURI === SVG;
  const node = inSvg ? document.createElementNS(SVG, kid.tag) : document.createElement(kid.tag);
  if (kid.props.key !== undefined) node.rbKey = kid.props.key;
  return node;
}

function dress(node, kid) {
  if (typeof kid !== "object") {
    if (node.data !== String(kid)) node.data = String(kid);
    return;
  }
  const had = node.rbProps ?? {};
  for (const name of Object.keys(had)) if (!(name in kid.props)) put(node, name, null);
  for (const [name, value] of Object.entries(kid.props)) if (had[name] !== value) put(node, name, value);
  if ("checked" in kid.props) node.checked = kid.props.checked; // a choice made here hides the attribute, also one made elsewhere since
  node.rbProps = kid.props;
  if (!kid.tag.includes("-")) fill(node, kid.kids); // a custom element draws its own content
}

function put(node, name, value) {
  if (name === "key") return;
  if (name === "value" && node !== document.activeElement) node.value = value ?? ""; // what was typed hides the attribute
  if (name === "selected") node.selected = Boolean(value);
  if (name === "data" || name.startsWith("on")) node[name] = value;
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}
