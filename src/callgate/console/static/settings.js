// The kill switch: on at once, off with a passkey.

import { attempt } from "./notice.js";
import { signedPost } from "./signed.js";
import { post } from "./wire.js";

const turn = document.getElementById("turn");
turn?.addEventListener("submit", (event) => {
  event.preventDefault();
  const note = document.getElementById("turn-note").value;
  attempt(turn.querySelector("[type=submit]"), async () => {
    const { on, since } = turn.dataset;
    if (on === "yes") await signedPost("/switch/off", { note, since: Number(since) }, { doing: "changed" });
    else await post("/switch/on", { note });
    location.reload();
  });
});

// Somebody else turned it: the page shows that, unless the reader is writing why they want to.
document.addEventListener("callgate:change", ({ detail }) => {
  const shown = document.querySelector("#settings .stopped") !== null;
  if (detail.switch !== shown && !document.getElementById("turn-note")?.value) location.reload();
});
