// Sessions and held results: the page follows what happens, and asks twice before a result goes.

import { localTimes } from "./frame.js";
import { signedPost } from "./signed.js";
import { get, post } from "./wire.js";

const place = (id) => document.getElementById(id);
const POLL_MS = 4000;

// Whether the drawing goes on beyond its place, and where: a fade there, and a sentence above.
function edges() {
  const scroll = document.querySelector(".flow-scroll");
  if (!scroll) return;
  const beyond = scroll.scrollWidth - scroll.clientWidth;
  place("picture-hint").hidden = beyond <= 1;
  scroll.parentElement.classList.toggle("to-left", scroll.scrollLeft > 1);
  scroll.parentElement.classList.toggle("to-right", beyond - scroll.scrollLeft > 1);
}

function watchEdges() {
  document.querySelector(".flow-scroll")?.addEventListener("scroll", edges, { passive: true });
  edges();
}

// The page as it is now, put in the place of what is shown; where the reader is stays where it is.
async function redraw() {
  const answer = await fetch(location.pathname + location.search, {
    headers: { accept: "text/html" },
    credentials: "same-origin",
    cache: "no-store",
  });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = fresh.getElementById("live");
  if (next === null) {
    location.reload();
    return;
  }
  localTimes(next);
  const [before, now] = [document.querySelector(".flow-scroll"), next.querySelector(".flow-scroll")];
  const left = before?.scrollLeft ?? 0;
  place("live").replaceWith(next);
  if (now) now.scrollLeft = left;
  watchEdges();
  const bar = fresh.querySelector(".places");
  if (bar) document.querySelector(".places")?.replaceWith(bar);
  document.title = fresh.title;
}

async function poll() {
  const live = place("live");
  try {
    if (!document.hidden) {
      const { stamp } = await get(live.dataset.live);
      // A reader who goes through the page by keyboard keeps their place.
      const busy = live.contains(document.activeElement) && !document.activeElement.matches(".step, .flow-scroll");
      if (stamp !== live.dataset.stamp && !busy) await redraw();
    }
  } catch (error) {
    if (error.reason === "sign_in_needed") {
      location.reload();
      return;
    }
  }
  setTimeout(poll, POLL_MS);
}

const SAID = {
  released: ["Release this result to the agent?", "The agent will read what stands here, with whatever it asks for.", "Release it with passkey"],
  dropped: ["Drop this result?", "Nothing of it is kept. The agent never gets it.", "Drop it"],
};

function deciding(held) {
  const box = place("settle");
  if (!box) return;
  const form = box.querySelector("form");
  const problem = box.querySelector(".form-error");
  let state = "";
  for (const button of document.querySelectorAll("[data-settle]")) {
    button.addEventListener("click", () => {
      state = button.dataset.settle;
      const [title, text, act] = SAID[state];
      place("settle-title").textContent = title;
      place("settle-text").textContent = text;
      place("settle-send").textContent = act;
      problem.textContent = "";
      box.showModal();
    });
  }
  box.querySelector("[data-close]").addEventListener("click", () => box.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const send = place("settle-send");
    if (send.getAttribute("aria-disabled") === "true") return;
    send.setAttribute("aria-disabled", "true");
    try {
      const way = `/quarantine/${held.dataset.handle}`;
      const body = { note: place("settle-note").value };
      if (state === "released") await signedPost(`${way}/release`, body, { doing: "released" });
      else await post(`${way}/drop`, body);
      location.reload();
    } catch (error) {
      problem.textContent = `${error.message} ${error.advice ?? ""}`;
    } finally {
      send.removeAttribute("aria-disabled");
    }
  });
}

watchEdges();
addEventListener("resize", edges);
if (place("live")) setTimeout(poll, POLL_MS);
if (place("held")) deciding(place("held"));
