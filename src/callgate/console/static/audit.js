// The audit pages: a receipt checked in the reader's own browser, and the whole log verified by the gateway.

import { attempt } from "./notice.js";
import { Failure, get, post } from "./wire.js";

const place = (id) => document.getElementById(id);
const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
const hex = (some) => [...some].map((one) => one.toString(16).padStart(2, "0")).join("");
const same = (one, two) => hex(one) === hex(two);

async function sha256(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
}

// RFC 9162 §2.1.3.2: from a leaf to the root, every hash on the way told.
async function climb(proof, size, tell) {
  if (!(Number.isSafeInteger(proof.leaf) && proof.leaf >= 0 && proof.leaf < size)) return null;
  let [fn, sn] = [BigInt(proof.leaf), BigInt(size) - 1n];
  let reached = await sha256(Uint8Array.of(0), bytes(proof.body));
  tell(`leaf ${proof.leaf}: ${hex(reached)}`);
  for (const step of proof.path.map(bytes)) {
    if (sn === 0n || step.length !== 32) return null;
    const left = (fn & 1n) === 1n || fn === sn;
    reached = left ? await sha256(Uint8Array.of(1), step, reached) : await sha256(Uint8Array.of(1), reached, step);
    if (left) while ((fn & 1n) === 0n && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    [fn, sn] = [fn >> 1n, sn >> 1n];
    tell(`with ${hex(step)} on the ${left ? "left" : "right"}: ${hex(reached)}`);
  }
  return sn === 0n ? reached : null;
}

// C2SP signed-note with Ed25519; undefined where this browser has no Ed25519.
async function signature(note, key) {
  const split = note.indexOf("\n\n");
  const [text, lines] = [note.slice(0, split + 1), note.slice(split + 2).trimEnd().split("\n")];
  const origin = text.split("\n")[0];
  for (const line of lines) {
    const [, name, encoded] = line.match(/^\u2014 (\S+) (\S+)$/) ?? [];
    if (name !== origin) continue;
    const raw = bytes(encoded);
    const [keyName, id] = key.split("+", 2);
    const material = bytes(key.slice(keyName.length + id.length + 2));
    if (keyName !== origin || hex(raw.slice(0, 4)) !== id || material[0] !== 1 || material.length !== 33) continue;
    let known;
    try {
      known = await crypto.subtle.importKey("raw", material.slice(1), { name: "Ed25519" }, false, ["verify"]);
    } catch {
      return undefined;
    }
    return crypto.subtle.verify({ name: "Ed25519" }, known, raw.slice(4), new TextEncoder().encode(text));
  }
  return false;
}

async function checkHere(article) {
  const receipt = await get(article.dataset.receipt);
  const list = place("check-steps");
  list.replaceChildren();
  list.hidden = false;
  const tell = (text, tone = "") => {
    const item = document.createElement("li");
    item.textContent = text;
    if (tone) item.className = tone;
    list.append(item);
  };
  const [, sizeText, rootText] = receipt.checkpoint.split("\n");
  const [size, root] = [Number(sizeText), bytes(rootText)];
  let holds = receipt.call === article.dataset.call;
  for (const name of ["decision", "outcome"]) {
    const proof = receipt[name];
    if (!proof) continue;
    const said = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes(proof.body)));
    const reached = said.call === receipt.call && said.kind === name ? await climb(proof, size, (text) => tell(`The ${name}, ${text}`)) : null;
    const good = reached !== null && same(reached, root);
    tell(`The ${name} ${good ? "leads to" : "does not lead to"} the root of the checkpoint: ${hex(root)}`, good ? "reached" : "broken");
    holds &&= good;
  }
  const signed = await signature(receipt.checkpoint, receipt.key);
  if (signed === undefined) tell("This browser cannot check Ed25519 signatures; the gateway did.");
  else tell(signed ? "The log's key has signed that checkpoint." : "The log's key has not signed that checkpoint.", signed ? "reached" : "broken");
  holds &&= signed !== false;
  const status = place("check-status");
  status.dataset.holds = holds ? "yes" : "no";
  status.textContent = holds ? "It holds: this browser worked out the same root." : "It does not hold.";
  if (!holds) throw new Failure("proof", "The proof does not hold in this browser.", "Run `callgate audit verify` where the gateway runs.");
}

const article = place("audited");
const here = place("check-here");
if (article && here && globalThis.crypto?.subtle) {
  here.hidden = false;
  here.addEventListener("click", () => attempt(here, () => checkHere(article)));
}

const whole = place("verify");
whole?.addEventListener("click", () =>
  attempt(whole, async () => {
    place("verify-status").textContent = "The gateway reads every record…";
    try {
      await post("/audit/verify");
    } finally {
      place("verify-status").textContent = "";
    }
    const answer = await fetch("/audit", { headers: { accept: "text/html" }, credentials: "same-origin", cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = fresh.getElementById("verified");
    const shown = place("verified") ?? place("whole-log").querySelector("p.muted");
    if (next) shown.replaceWith(next);
  }),
);
