// The overview follows what happens, as long as nobody is busy on it.

import { localTimes } from "./frame.js";

const REFRESH_MS = 15000;
const BREATH_MS = 2000;
let at = Date.now();
let soon = 0;

async function redraw() {
  at = Date.now();
  const answer = await fetch(location.pathname + location.search, {
    headers: { accept: "text/html" },
    credentials: "same-origin",
    cache: "no-store",
  });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [before, next] = [document.getElementById("home"), fresh.getElementById("home")];
  if (next === null || before.contains(document.activeElement) || String(getSelection())) return;
  if (before.querySelector("#numbers")?.open) next.querySelector("#numbers")?.setAttribute("open", "");
  localTimes(next);
  before.replaceWith(next);
}

const now = () => {
  if (!document.hidden) redraw().catch(() => {});
};

// Changes come in bursts, and the first one with the page itself.
document.addEventListener("callgate:change", () => {
  clearTimeout(soon);
  soon = setTimeout(now, Math.max(0, at + BREATH_MS - Date.now()));
});
// While the log is still being counted, what is here grows by itself.
setInterval(() => document.getElementById("counting") && now(), BREATH_MS);
setInterval(() => Date.now() - at >= REFRESH_MS && now(), REFRESH_MS / 3);
