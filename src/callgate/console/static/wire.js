// Talking to the gateway: JSON both ways, with the session's token, and errors that say what to do next.

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

export const ORIGIN = meta("callgate-origin");

export class Failure extends Error {
  constructor(reason, message, advice = "") {
    super(message);
    this.reason = reason;
    this.advice = advice;
  }
}

async function ask(path, request) {
  let answer;
  try {
    answer = await fetch(path, { ...request, credentials: "same-origin", redirect: "error", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("unreachable", "The gateway cannot be reached.", "Check that it runs, then try again.");
  }
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // Not from the gateway, or cut off: the status below says enough.
  }
  if (answer.ok) return body;
  const { reason = "unknown", message = `The gateway answered with status ${answer.status}.`, advice = "" } = body.error ?? {};
  throw new Failure(reason, message, advice);
}

export const get = (path) => ask(path, { headers: { accept: "application/json" } });

export const post = (path, body = {}) =>
  ask(path, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json", "x-callgate-csrf": meta("callgate-csrf") },
    body: JSON.stringify(body),
  });
