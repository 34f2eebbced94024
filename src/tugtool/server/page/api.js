// Requests to the server: the token, answers and refusals.

const KEY = "tug.token";
const API = "/api/v1/";

/** A refusal: what is the case, and the next command. */
export class Refusal extends Error {
  /** @param {number} status @param {{code?: string, message?: string, hint?: string}} issue */
  constructor(status, issue) {
    super(issue.message ?? `the server answered with ${status}`);
    this.status = status;
    this.code = issue.code ?? "";
    this.hint = issue.hint ?? "";
  }
}

/** The token: from the address once, then from this tab's own storage. */
export function token() {
  const found = /^#t=([A-Za-z0-9_.-]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(KEY) ?? "";
}

/** @param {string} value */
export function keepToken(value) {
  sessionStorage.setItem(KEY, value.trim().replace(/^.*#t=/, ""));
}

/** @param {string} path @param {RequestInit} how */
async function ask(path, how) {
  let answer;
  try {
    answer = await fetch(API + path, { ...how, headers: { ...how.headers, Authorization: `Bearer ${token()}` } });
  } catch {
    throw new Refusal(0, { message: "The server does not answer." });
  }
  const envelope = await answer.json().catch(() => ({ issues: [] }));
  if (!answer.ok) throw new Refusal(answer.status, envelope.issues?.find((/** @type {any} */ each) => each.severity === "error") ?? envelope.issues?.[0] ?? {});
  return { data: envelope.data, issues: envelope.issues, seq: Number(answer.headers.get("Tug-Seq") ?? 0) };
}

/** @param {string} path @param {Record<string, unknown>} [values] @returns {Promise<any>} */
export async function get(path, values = {}) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return (await ask(query ? `${path}?${query}` : path, {})).data;
}

/**
 * Do something. The same key sent twice is done once; a change since `seq` refuses it.
 * @param {string} path @param {Record<string, unknown>} values @param {{seq?: number, key: string}} how
 */
export function post(path, values, { seq, key }) {
  /** @type {Record<string, string>} */
  const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
  if (seq) headers["If-Seq"] = String(seq);
  return ask(path, { method: "POST", body: JSON.stringify(values), headers });
}

/** @param {string[]} topics @param {string} since */
export function openLive(topics, since) {
  const url = new URL(`${API}live`, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.searchParams.set("topics", topics.join(","));
  if (since) url.searchParams.set("since", since);
  return new WebSocket(url, ["tug.v1", `tug.bearer.${token()}`]);
}
