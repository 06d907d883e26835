import { attempt, quiet, tell } from "./notice.js";
import { sign } from "./passkey.js";
import { signedPost } from "./signed.js";
import { Failure, get, post } from "./wire.js";

const place = (id) => document.getElementById(id);
const call = place("call");
const path = `/approve/${encodeURIComponent(call.dataset.id)}`;
const POLL_MS = 2000;
// When the time left is said aloud, in seconds: often enough to act, seldom enough to read in between.
const SAID = [300, 120, 60, 30, 10];

let over = call.dataset.phase !== "waiting" && call.dataset.phase !== "approved";
let gesture = null;

const scroll = place("text-scroll");
const more = place("text-more");
function noteMore() {
  const rest = scroll.scrollHeight - scroll.clientHeight - scroll.scrollTop;
  if (rest < 8) {
    more.hidden = true;
    scroll.removeEventListener("scroll", noteMore);
  } else {
    more.hidden = call.dataset.phase !== "waiting";
  }
}
scroll.addEventListener("scroll", noteMore, { passive: true });
noteMore();

// The page that is drawn anew shows what became of the call.
function redraw() {
  over = true;
  gesture?.abort();
  location.reload();
}

async function poll() {
  if (over) return;
  try {
    const found = await get(`${path}/state`);
    const same = found.state === call.dataset.phase && found.signed === Number(call.dataset.signed);
    // Somebody signs or writes a reason here: that goes on while others sign.
    const busy = found.state === "waiting" && (gesture || place("refuse-form")?.hidden === false);
    if (!over && !same && !busy) return redraw();
    if (found.state === "waiting") ends = performance.now() + found.expires_at - found.now;
  } catch (error) {
    if (error.reason === "sign_in_needed" && !over) return redraw();
    // Unreachable for a moment: the next question may be answered.
  }
  setTimeout(poll, POLL_MS);
}

// Counted from what the gateway says is left, so that a wrong clock in the browser does no harm.
let ends = performance.now() + Number(call.dataset.left);
let said = Infinity;

function tick() {
  if (over) return;
  const left = Math.max(0, Math.ceil((ends - performance.now()) / 1000));
  const minutes = Math.floor(left / 60);
  place("left-text").textContent = `${minutes}:${String(left % 60).padStart(2, "0")} left`;
  place("left").classList.toggle("soon", left <= 30);
  const mark = SAID.find((one) => left <= one && left > one - 5);
  if (mark && mark < said) {
    said = mark;
    const unit = mark === 60 ? "minute" : mark > 60 ? "minutes" : "seconds";
    place("left-said").textContent = `${mark >= 60 ? mark / 60 : mark} ${unit} left to decide`;
  }
  setTimeout(tick, 250);
}

// Somebody was faster, or the time is over: this answer changed nothing, and the reader has to know that.
function settle(error) {
  if (error.reason !== "approval_decided" && error.reason !== "approval_expired") throw error;
  over = true;
  place("decide").hidden = true;
  const late = error.reason === "approval_expired";
  const told = new Failure(
    error.reason,
    late ? "The time for this call is over." : "This call was decided already, in another window or on another device.",
    "Your answer came too late and changed nothing.",
  );
  tell(told, { href: location.pathname, text: late ? "Show the call" : "Show what was decided" });
  place("problem").focus();
}

async function approve() {
  const status = place("status");
  try {
    const issued = await post(`${path}/options`);
    gesture = new AbortController();
    status.textContent = "Your browser is asking for your passkey…";
    const response = await sign(issued.requestOptions, { signal: gesture.signal, doing: "approved" });
    status.textContent = "Checking the signature…";
    await post(`${path}/approve`, { challengeId: issued.challengeId, response });
    redraw();
  } catch (error) {
    if (over) return;
    settle(error);
  } finally {
    gesture = null;
    status.textContent = "";
  }
}

async function refuse() {
  try {
    await post(`${path}/refuse`, { note: place("note").value });
    redraw();
  } catch (error) {
    if (!over) settle(error);
  }
}

function unfold(open) {
  quiet();
  place("refuse-form").hidden = !open;
  place("refuse-open").setAttribute("aria-expanded", String(open));
  place(open ? "note" : "refuse-open").focus();
}

if (call.dataset.phase === "waiting" && place("decide")) {
  const button = place("approve");
  button?.addEventListener("click", () => attempt(button, approve));
  place("refuse-open").addEventListener("click", () => unfold(place("refuse-form").hidden));
  place("refuse-close").addEventListener("click", () => unfold(false));
  place("refuse-form").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(event.submitter ?? place("refuse-open"), refuse);
  });
  place("note").addEventListener("input", (event) => {
    place("note-left").textContent = `${500 - event.target.value.length} characters left.`;
  });
}
// What a tool returns is the user's own from now on: the same decision as on the page of that tool.
for (const button of document.querySelectorAll("[data-mine]")) {
  button.addEventListener("click", () =>
    attempt(button, async () => {
      const { server, tool, hash, seen } = button.dataset;
      const note = "What it returns is the user's own.";
      const made = { action: "approve", server, tool, hash, seen, note, label: "reads_own" };
      await signedPost("/tools/approve", { decisions: [made] }, { doing: "decided" });
      button.hidden = true;
      place("mine-status").textContent = "Done: from its next result on, what this tool returns counts as yours.";
    }),
  );
}
if (call.dataset.phase === "waiting") tick();
setTimeout(poll, POLL_MS);
