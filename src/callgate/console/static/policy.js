// Other rules: tried on past calls, then put in force with a passkey; only what was just checked, letter by letter.

import { localTimes } from "./frame.js";
import { attempt } from "./notice.js";
import { signedPost } from "./signed.js";
import { post } from "./wire.js";

const form = document.getElementById("what-if");
if (form) {
  const text = document.getElementById("rules-text");
  const save = document.getElementById("save");
  const tried = document.getElementById("tried");
  const status = document.getElementById("tried-status");
  // What a browser kept in the field over a reload is not what the page was drawn with.
  form.reset();
  const drawn = text.value;
  let checked = null;
  const ready = () => {
    if (save) save.disabled = checked === null || checked !== text.value || checked === drawn;
  };

  text.addEventListener("input", ready);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form.querySelector("[type=submit]"), async () => {
      const sent = text.value;
      checked = null;
      ready();
      status.textContent = "Trying…";
      try {
        const { ok, html } = await post("/policy/try", { text: sent });
        // Drawn and escaped by the gateway, as the page itself is.
        const fresh = new DOMParser().parseFromString(html, "text/html");
        tried.replaceChildren(...fresh.body.children);
        localTimes(tried);
        checked = ok ? sent : null;
        ready();
        tried.focus();
      } finally {
        status.textContent = "";
      }
    });
  });

  save?.addEventListener("click", () =>
    attempt(save, async () => {
      const asking = (yes) => {
        status.textContent = yes ? "Your browser is asking for your passkey…" : "";
      };
      await signedPost("/policy/save", { text: checked, before: form.dataset.before }, { doing: "saved", asking });
      location.hash = "rules";
      location.reload();
    }),
  );
}
