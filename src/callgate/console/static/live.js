// Every page follows what waits: the counts beside the navigation, the title, and a desktop notification where the
// person wants one. Of all open tabs one holds the stream and tells the others; browsers allow few connections.

import { quiet, tell } from "./notice.js";
import { Failure, get } from "./wire.js";

const POLL_MS = 4000;
const AGAIN_MS = 30000;
const SEEN = "callgate.notified";
const SEEN_MOST = 200;

const signedIn = document.querySelector('meta[name="callgate-csrf"]') !== null;
const others = "BroadcastChannel" in window ? new BroadcastChannel("callgate-live") : null;
const title = document.querySelector("title");
let news = null;
let ended = false;
let away = false;

// ---- what the page shows ----

const counted = (name) => document.querySelector(`[data-count="${name}"] .number`)?.textContent ?? "0";

function showTitle() {
  const waiting = news ? news.approvals : Number(counted("approvals"));
  const bare = document.title.replace(/^\(\d+\) /, "");
  const wanted = waiting ? `(${waiting}) ${bare}` : bare;
  if (document.title !== wanted) document.title = wanted;
}

function showCounts() {
  for (const place of document.querySelectorAll("[data-count]")) {
    const count = news[place.dataset.count] ?? 0;
    place.hidden = !count;
    const number = place.querySelector(".number") ?? place;
    if (number.textContent !== String(count)) number.textContent = count;
  }
}

// Who turned the switch, and why, only the gateway can say.
async function showSwitch() {
  const badge = document.querySelector("a.switch");
  if (!badge || badge.classList.contains("on") === news.switch) return;
  const answer = await fetch(location.pathname + location.search, {
    headers: { accept: "text/html" },
    credentials: "same-origin",
    cache: "no-store",
  });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = fresh.querySelector("a.switch");
  if (next) badge.replaceWith(next);
  document.getElementById("stopped")?.remove();
  const stopped = fresh.getElementById("stopped");
  if (stopped) document.getElementById("problem").after(stopped);
}

function take(latest) {
  const same = news?.stamp === latest.stamp;
  news = latest;
  document.documentElement.dataset.live = latest.stamp;
  showCounts();
  showTitle();
  if (same) return;
  showSwitch().catch(() => {});
  document.dispatchEvent(new CustomEvent("callgate:change", { detail: latest }));
}

// ---- desktop notifications ----

const button = document.getElementById("notify");
const permission = () => ("Notification" in window ? Notification.permission : "denied");

function seen() {
  try {
    const kept = JSON.parse(localStorage.getItem(SEEN) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
}

function remember(ids) {
  try {
    localStorage.setItem(SEEN, JSON.stringify([...seen(), ...ids].slice(-SEEN_MOST)));
  } catch {
    // A browser that keeps nothing for us may show one twice.
  }
}

function open(path) {
  window.focus();
  // Not over what the person is at in this tab, unless the browser allows no other.
  if (!window.open(path, "callgate-approve")) location.assign(path);
}

// Calls, and new versions of servers whose tools are as they were: each is one question.
function questions() {
  const calls = news.newest.map(({ id, tool, server }) => ({
    id,
    title: "A call waits for your approval",
    body: `${tool} on ${server}`,
    path: `/approve/${encodeURIComponent(id)}`,
  }));
  const versions = (news.versions ?? []).map(({ id, server, tools }) => ({
    id,
    title: "A new version waits for your review",
    body: `${server}: ${tools} ${tools === 1 ? "tool is" : "tools are"} as before`,
    path: `/tools#s-${id}`,
  }));
  return [...calls, ...versions];
}

function notify(first) {
  const known = new Set(seen());
  const fresh = questions().filter(({ id }) => !known.has(id));
  if (!fresh.length) return;
  remember(fresh.map(({ id }) => id));
  // Who has just opened the page looks at it.
  if (permission() !== "granted" || (first && document.visibilityState === "visible")) return;
  for (const { id, title, body, path } of fresh) {
    try {
      const shown = new Notification(title, { body, tag: `callgate-${id}` });
      shown.addEventListener("click", () => {
        shown.close();
        open(path);
      });
    } catch {
      // Some phones have the name and not the thing.
    }
  }
}

function offer() {
  if (button) button.hidden = permission() !== "default";
}

button?.addEventListener("click", async () => {
  await Notification.requestPermission();
  offer();
});

// ---- where the news comes from ----

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// "Nothing waits" on a page that nobody feeds would be believed.
function reached(there) {
  if (there !== away) return;
  away = !there;
  if (there) return quiet();
  const advice = "What you see may be out of date. `callgate status` says whether the gateway runs. Once it does, this page goes on by itself.";
  tell(new Failure("unreachable", "The gateway does not answer.", advice));
}

function noticed(there) {
  if (there === away) others?.postMessage({ reached: there });
  reached(there);
}

function heard(latest) {
  const first = news === null;
  take(latest);
  notify(first);
  others?.postMessage(latest);
}

// Until it fails for good (false); the browser itself comes again where it only broke off.
function stream() {
  return new Promise((resolve) => {
    const source = new EventSource("/events");
    let failed = 0;
    source.addEventListener("open", () => {
      failed = 0;
      noticed(true);
    });
    source.addEventListener("change", (event) => heard(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) resolve(false);
      // One that broke off is mended at once, or the gateway is gone.
      else if (++failed > 1) noticed(false);
    });
    // A page that is kept for the back button holds no connection.
    window.addEventListener("pagehide", () => source.close(), { once: true });
    window.addEventListener("pageshow", (event) => event.persisted && resolve(true), { once: true });
  });
}

async function poll(until) {
  while (Date.now() < until && !ended) {
    try {
      heard(await get("/events/now"));
      noticed(true);
    } catch (error) {
      if (error.reason === "unreachable") noticed(false);
      if (error.reason === "sign_in_needed") {
        ended = true;
        document.dispatchEvent(new CustomEvent("callgate:signed-out"));
        return;
      }
    }
    await pause(POLL_MS);
  }
}

async function follow() {
  while (!ended) {
    if (!(await stream())) await poll(Date.now() + AGAIN_MS);
  }
}

if (signedIn) {
  offer();
  showTitle();
  // Pages that draw themselves again set their title again.
  if (title) new MutationObserver(showTitle).observe(title, { childList: true });
  others?.addEventListener("message", ({ data }) => ("reached" in data ? reached(data.reached) : take(data)));
  // Held for as long as this tab lives; then the next one gets it.
  if (navigator.locks) navigator.locks.request("callgate-live", follow).catch(() => {});
  else follow();
}
