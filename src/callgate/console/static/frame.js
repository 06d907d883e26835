// What every page has: times in the reader's own zone, and the way out.

import "./live.js";
import { attempt } from "./notice.js";
import { post } from "./wire.js";

const near = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
const far = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const today = at.toDateString() === new Date().toDateString();
    time.title = time.textContent;
    time.textContent = today ? `today, ${near.format(at)}` : far.format(at);
  }
}
localTimes(document);

// On a phone the places are one row that scrolls: where the reader is has to be in view.
const places = document.querySelector(".places");
const here = places?.querySelector("[aria-current]");
if (here) places.scrollLeft = here.offsetLeft - (places.clientWidth - here.offsetWidth) / 2;

const out = document.getElementById("sign-out");
out?.addEventListener("click", () =>
  attempt(out, async () => {
    await post("/sign-out");
    location.assign("/sign-in");
  }),
);
