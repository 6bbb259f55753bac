// What a person has chosen: kept by the browser, or where it keeps nothing for as long as the page is open.

const chosen = {};

export function kept(name) {
  try {
    return chosen[name] ?? localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(name, value);
    delete chosen[name]; // what another tab chooses later counts here, too
  } catch {
    chosen[name] = value;
  }
}
