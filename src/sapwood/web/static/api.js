// Questions to the server. A full queue is asked again when it says so; everything else is an error.

export class Trouble extends Error {
  constructor(status, told) {
    super(told.error ?? `the server answered ${status}`);
    this.status = status;
    this.told = told; // the whole answer: a conflict comes with the version of the server
    this.hint = told.hint ?? null;
    this.line = told.line ?? null;
    this.column = told.column ?? null;
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
    let told = {};
    try {
      told = await answer.json();
    } catch {
      /* no report */
    }
    if (!answer.ok) throw new Trouble(answer.status, told);
    return told;
  }
}

export const ask = (path, question, signal) =>
  send(
    `/api/${path}`,
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) },
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
