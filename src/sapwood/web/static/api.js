// Requests to the server. A request that meets a full queue is repeated after the time that the server names; other
// failures are errors.

export class Trouble extends Error {
  constructor(status, report) {
    super(report.error ?? `the server answered ${status}`);
    this.status = status;
    this.told = report; // the body of the answer: that of a conflict has the server's version of the sentence
    this.hint = report.hint ?? null;
    this.line = report.line ?? null;
    this.column = report.column ?? null;
  }
}

const TRIES = 4;
const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

async function send(path, options, signal) {
  for (let left = TRIES; ; left--) {
    let answer;
    try {
      answer = await fetch(path, { ...options, signal, credentials: "same-origin" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Trouble(0, {
        error: "The server does not answer.",
        hint: "Is `sapwood serve` still running?",
      });
    }
    if (answer.status === 503 && left > 1) {
      await wait(Math.min(Number(answer.headers.get("Retry-After")) || 1, 5));
      continue;
    }
    let body = {};
    try {
      body = await answer.json();
    } catch {
      /* the body is no JSON */
    }
    if (!answer.ok) throw new Trouble(answer.status, body);
    return body;
  }
}

export const ask = (path, body, signal) =>
  send(
    `/api/${path}`,
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) },
    signal,
  );
export const get = (path, signal) => send(`/api/${path}`, { method: "GET" }, signal);
export const remove = (path) => send(`/api/${path}`, { method: "DELETE" });
export const upload = (path, bytes) =>
  send(`/api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream" },
    body: bytes,
  });
