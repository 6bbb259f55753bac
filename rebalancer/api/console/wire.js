// The API: JSON over fetch, errors as sentences.

const TIMEOUT_MS = 10_000;

/** A refusal or a failure of the service; `status` 0 means that no answer came: a write may have been applied. */
export class Failed extends Error {
  constructor(status, error, fix = "") {
    super(fix ? `${error}; ${fix}` : error);
    this.status = status;
  }
}

export async function call(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    throw new Failed(0, "The service does not answer", "it may be restarting; this page tries again");
  }
  if (answer.status === 204) return null;
  const value = await answer.json().catch(() => null);
  if (answer.ok && value === null) throw new Failed(0, "The answer broke off");
  if (!answer.ok) throw new Failed(answer.status, value?.error ?? `The service answered ${answer.status}`, value?.fix ?? "");
  return value;
}

export const get = (path) => call("GET", path);
