import { attempt, tell } from "./notice.js";
import { sign } from "./passkey.js";
import { get, post } from "./wire.js";

const place = (id) => document.getElementById(id);
const home = place("home");
const POLL_MS = 4000;

// New calls appear by themselves, unless that would take something out of the reader's hands.
function busy() {
  return document.querySelector("dialog[open]") !== null || !place("ticket").hidden;
}

async function poll() {
  try {
    const { stamp } = await get("/waiting");
    if (stamp !== home.dataset.stamp && !busy()) {
      location.reload();
      return;
    }
  } catch (error) {
    if (error.reason === "sign_in_needed") {
      location.reload();
      return;
    }
  }
  setTimeout(poll, POLL_MS);
}
setTimeout(poll, POLL_MS);

function dialog(id, buttons, fill, send) {
  const box = place(id);
  const form = box.querySelector("form");
  const submit = form.querySelector("[type=submit]");
  const problem = box.querySelector(".form-error");
  let chosen = null;
  let open = new AbortController();
  for (const button of buttons) {
    button.addEventListener("click", () => {
      chosen = button.dataset;
      open = new AbortController();
      problem.textContent = "";
      fill(chosen);
      box.showModal();
    });
  }
  box.querySelector("[data-close]").addEventListener("click", () => box.close());
  // Whoever closes it does not want it any more, whatever their passkey still answers.
  box.addEventListener("close", () => open.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.getAttribute("aria-disabled") === "true") return;
    submit.setAttribute("aria-disabled", "true");
    problem.textContent = "";
    try {
      await send(chosen, open.signal);
      location.reload();
    } catch (error) {
      if (error.name !== "AbortError") problem.textContent = `${error.message} ${error.advice ?? ""}`;
    } finally {
      submit.removeAttribute("aria-disabled");
    }
  });
}

dialog(
  "rename",
  document.querySelectorAll("[data-rename]"),
  ({ name }) => {
    place("new-name").value = name;
  },
  ({ rename }) => post(`/passkeys/${rename}/rename`, { name: place("new-name").value }),
);

dialog(
  "revoke",
  document.querySelectorAll("[data-revoke]"),
  ({ name }) => {
    place("revoke-name").textContent = name;
  },
  async ({ revoke }, signal) => {
    const issued = await post(`/passkeys/${revoke}/revoke/options`);
    signal.throwIfAborted();
    place("revoke-status").textContent = "Your browser is asking for your passkey…";
    try {
      const response = await sign(issued.requestOptions, { signal, doing: "revoked" });
      signal.throwIfAborted();
      await post(`/passkeys/${revoke}/revoke`, { challengeId: issued.challengeId, response });
    } finally {
      place("revoke-status").textContent = "";
    }
  },
);

const add = place("add-device");
add.addEventListener("click", () =>
  attempt(add, async () => {
    const issued = await post("/device/options");
    const response = await sign(issued.requestOptions);
    const { ticket } = await post("/device", { challengeId: issued.challengeId, response });
    const link = `${location.origin}/enrol#${ticket}`;
    place("ticket-here").href = link;
    place("ticket-link").textContent = link;
    place("ticket").hidden = false;
    place("ticket").focus();
  }),
);

place("ticket-copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(place("ticket-link").textContent);
    place("ticket-copied").textContent = "Copied.";
  } catch (error) {
    tell(error);
  }
});
