// The review: what is marked lives here, in the page, until it is sent; then all of it holds, or none.

import { localTimes } from "./frame.js";
import { attempt, quiet } from "./notice.js";
import { signedPost } from "./signed.js";
import { Failure, get, post } from "./wire.js";

const place = (id) => document.getElementById(id);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const POLL_MS = 4000;
// Refusals that mean that the page shows what is no longer so.
const OUTDATED = new Set(["tool_changed", "tool_unknown", "tool_unfit", "findings_not_overridden", "toolset_outdated"]);
const some = (count, one, many) => `${count} ${count === 1 ? one : many}`;

// ---- marking ----

const choice = (card) => card.querySelector(".pick input:checked")?.value ?? "skip";
const marked = () => all("#review .tool").filter((card) => choice(card) !== "skip");

function decision(card) {
  const { server, tool, hash, seen } = card.dataset;
  const action = choice(card);
  const made = { action, server, tool, hash, seen };
  if (action === "block") made.note = card.querySelector("[data-note]").value;
  if (action === "approve") {
    made.override = card.querySelector("[data-override]")?.checked ?? false;
    made.label = card.querySelector("[data-label]")?.value ?? "";
  }
  return made;
}

function draw() {
  if (!place("send")) return;
  for (const card of all("#review .tool")) {
    const chosen = choice(card);
    card.classList.toggle("marked-approve", chosen === "approve");
    card.classList.toggle("marked-block", chosen === "block");
    const reason = card.querySelector(".reason");
    if (reason) reason.hidden = chosen !== "block";
  }
  const counts = { approve: 0, block: 0 };
  for (const card of marked()) counts[choice(card)] += 1;
  const parts = [];
  if (counts.approve) parts.push(`${some(counts.approve, "tool", "tools")} to approve`);
  if (counts.block) parts.push(`${counts.block} to block`);
  const said = parts.length
    ? `${parts.join(", ")}. Nothing is decided until you send it.`
    : "Nothing is marked yet.";
  if (place("bar-text").textContent !== said) place("bar-text").textContent = said;
  place("send").disabled = parts.length === 0;
  place("send").textContent =
    counts.block === 0 ? "Approve the reviewed set" : counts.approve === 0 ? "Block what is marked" : "Approve and block as marked";
}

// Overruling is a choice of its own; without it the tool cannot be marked for approval.
function overrule(box) {
  const card = box.closest(".tool");
  const approve = card.querySelector('.pick input[value="approve"]');
  approve.disabled = !box.checked;
  if (!box.checked && approve.checked) card.querySelector('.pick input[value="skip"]').checked = true;
}

// Several tools of a server at once: they are on the page, whole, and are sent with the rest.
function mark(server, which) {
  for (const card of all(`#s-${server} .tool${which}`)) card.querySelector('.pick input[value="approve"]').checked = true;
  draw();
}

// ---- drawing anew ----

// The page as it is now, with every text that the reader has before them left alone: the same nodes, marks and all.
async function redraw() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin", cache: "no-store" });
  if (!answer.ok) throw new Failure("unreachable", "The page could not be drawn anew.", "Load it again.");
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = fresh.getElementById("review");
  if (next === null) {
    location.reload();
    return null;
  }
  localTimes(next);
  const kept = new Map(all("#review .tool").map((card) => [card.dataset.mark, card]));
  const met = new Set([...kept.values()].map(({ dataset }) => `${dataset.server}/${dataset.tool}`));
  let first = null;
  for (const card of all(".tool", next)) {
    const old = kept.get(card.dataset.mark);
    if (old) {
      card.replaceWith(old);
      continue;
    }
    first ??= card;
    if (met.has(`${card.dataset.server}/${card.dataset.tool}`)) newer(card);
  }
  for (const kind of ["settled", "arguments"]) {
    for (const open of all(`#review details.${kind}[open]`)) {
      const twin = next.querySelector(`#${open.closest(".server").id} details.${kind}`);
      if (twin) twin.open = true;
    }
  }
  place("review").replaceWith(next);
  const badge = fresh.querySelector(".places");
  if (badge) document.querySelector(".places")?.replaceWith(badge);
  document.title = fresh.title;
  place("fresh").hidden = true;
  draw();
  return first;
}

// Who asked for what has come is taken to it: it stands among the others of its server.
async function showFresh() {
  const first = await redraw();
  first?.scrollIntoView({ block: "start" });
  first?.querySelector("h3")?.focus({ preventScroll: true });
}

function newer(card) {
  const told = document.createElement("p");
  told.className = "warn newer";
  told.textContent = "This tool, or what was found in it, is newer than what you had before you. Your mark on it is gone.";
  card.querySelector(".tool-head").after(told);
}

// ---- sending ----

// Said at the field itself, which may be far down the page.
function reasoned(note) {
  const missing = !note.value.trim();
  note.setCustomValidity(missing ? "Blocking a tool needs a reason. Say why; others read it." : "");
  if (!missing) return true;
  note.scrollIntoView({ block: "center" });
  note.addEventListener("input", () => note.setCustomValidity(""), { once: true });
  note.reportValidity();
  return false;
}

// What lets something through is signed; to take it away needs no passkey.
const decide = (body) =>
  body.decisions.some(({ action }) => action === "approve")
    ? signedPost("/tools/approve", body, { doing: "decided" })
    : post("/tools/decide", body);

async function send() {
  const cards = marked();
  const notes = cards.filter((card) => choice(card) === "block").map((card) => card.querySelector("[data-note]"));
  if (!notes.every(reasoned)) return;
  const decisions = cards.map(decision);
  const together = all("#review .server[data-whole]").map((server) => server.dataset.server);
  try {
    await decide({ decisions, together });
  } catch (error) {
    if (OUTDATED.has(error.reason)) await redraw();
    throw error;
  }
  const approved = decisions.filter(({ action }) => action === "approve").length;
  const blocked = decisions.length - approved;
  await redraw();
  const parts = [];
  if (approved) parts.push(`${some(approved, "tool is", "tools are")} approved`);
  if (blocked) parts.push(`${some(blocked, "tool is", "tools are")} blocked`);
  tellDone(`${parts.join(", ")}. This holds for every agent from now on.`);
}

function tellDone(text) {
  const told = place("told");
  told.querySelector(".notice-title").textContent = text;
  told.hidden = false;
  told.focus();
  told.scrollIntoView({ block: "nearest" });
}

// ---- what comes meanwhile ----

async function poll() {
  const review = place("review");
  if (document.hidden) {
    setTimeout(poll, POLL_MS);
    return;
  }
  try {
    const found = await get(`/tools/waiting?stamp=${review.dataset.stamp}`);
    if (review.isConnected) head(review, found.heading);
    if (review.isConnected && found.marks) offer(review, found);
    else place("fresh").hidden = true;
  } catch (error) {
    if (error.reason === "sign_in_needed") {
      location.reload();
      return;
    }
  }
  setTimeout(poll, POLL_MS);
}

// Nothing moves under the reader's eyes: it is said that there is more, and shown when they ask for it.
function offer(review, found) {
  const before = new Set(review.dataset.marks.split(" ").filter(Boolean));
  const more = found.marks.filter((mark) => !before.has(mark)).length;
  const news = before.size ? some(more, "more tool waits", "more tools wait") : some(more, "tool has come", "tools have come");
  const said = more ? `${news}.` : "What waits has changed.";
  if (place("fresh-text").textContent !== said) place("fresh-text").textContent = said;
  place("fresh-show").textContent = more ? (more === 1 ? "Show it" : "Show them") : "Show how it is now";
  place("fresh").hidden = false;
}

// What stands above it all counts what has come too.
function head(review, said) {
  const heading = review.querySelector("h1");
  if (heading.textContent === said) return;
  document.title = document.title.replace(heading.textContent, () => said);
  heading.textContent = said;
}

// ---- the page of one tool ----

function single(tool) {
  const { server, tool: name, hash, seen } = tool.dataset;
  const override = place("override");
  const approve = tool.querySelector('[data-act="approve"]');
  override?.addEventListener("change", () => {
    if (approve) approve.disabled = !override.checked;
  });
  place("decide")?.addEventListener("submit", (event) => event.preventDefault());
  for (const button of all("[data-act]", tool)) {
    button.addEventListener("click", () =>
      attempt(button, async () => {
        const action = button.dataset.act;
        const note = place("note").value;
        if (action === "block" && !reasoned(place("note"))) return;
        const made = { action, server, tool: name, hash, seen, note, override: override?.checked ?? false };
        if (action === "approve") made.label = tool.querySelector("[data-label]")?.value ?? "";
        await decide({ decisions: [made] });
        location.reload();
      }),
    );
  }
}

if (place("review")) {
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-override]")) overrule(event.target);
    if (!event.target.matches(".choice input")) return;
    draw();
    if (event.target.value === "block") event.target.closest(".tool").querySelector("[data-note]").focus();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.id === "send") attempt(button, send);
    if (button?.id === "fresh-show") attempt(button, showFresh);
    if (button?.dataset.group) {
      const { group, version } = button.dataset;
      attempt(button, async () => {
        try {
          await signedPost("/tools/reviewed-together", { group, version });
        } finally {
          await redraw();
        }
        tellDone("These servers count as reviewed together.");
      });
    }
    if (button?.dataset.markPlain) mark(button.dataset.markPlain, "[data-plain]");
    if (button?.dataset.markUnchanged) mark(button.dataset.markUnchanged, "[data-unchanged]");
    if (button?.dataset.labels) {
      const { labels: server, seen } = button.dataset;
      attempt(button, async () => {
        try {
          await signedPost("/tools/labels", { server, seen });
        } finally {
          await redraw();
        }
        tellDone("These labels hold from now on.");
      });
    }
    if (button?.dataset.argument) {
      const { argument, place: at, of: server, do: action } = button.dataset;
      attempt(button, async () => {
        const body = { server, place: Number(at), digest: argument };
        try {
          // What lets something vary is signed; to bind it again needs no passkey.
          if (action === "vary") await signedPost("/tools/argument", body);
          else await post("/tools/argument/bind", body);
        } finally {
          await redraw();
        }
        tellDone(action === "vary" ? "This argument may vary from now on." : "This argument is part of what was approved again.");
      });
    }
    if (button) place("told").hidden = true;
  });
  // What a browser kept in its fields over a reload was not marked by the reader of this text.
  for (const box of all("#review .choice input")) box.checked = box.defaultChecked;
  draw();
  setTimeout(poll, POLL_MS);
}
if (place("tool")) {
  quiet();
  single(place("tool"));
}
