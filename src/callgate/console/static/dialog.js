// A dialog that does one thing, with its own place for what went wrong and for what the browser is asking.

export function dialog(box, send, done = () => location.reload()) {
  const form = box.querySelector("form");
  const submit = form.querySelector("[type=submit]");
  const problem = box.querySelector(".form-error");
  const status = box.querySelector(".status");
  let chosen = null;
  let open = new AbortController();
  box.querySelector("[data-close]").addEventListener("click", () => box.close());
  // Whoever closes it does not want it any more, whatever their passkey still answers.
  box.addEventListener("close", () => open.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.getAttribute("aria-disabled") === "true") return;
    submit.setAttribute("aria-disabled", "true");
    problem.textContent = "";
    const { signal } = open;
    const asking = (yes) => {
      if (status) status.textContent = yes ? "Your browser is asking for your passkey…" : "";
    };
    try {
      const answer = await send(chosen, { signal, asking });
      if (!signal.aborted) done(answer, box);
    } catch (error) {
      if (error.name !== "AbortError") problem.textContent = `${error.message} ${error.advice ?? ""}`;
    } finally {
      submit.removeAttribute("aria-disabled");
    }
  });
  return (given = {}) => {
    chosen = given;
    open = new AbortController();
    problem.textContent = "";
    box.showModal();
  };
}

// A link that is shown once.
export function showLink(ticket, user = "") {
  const place = (id) => document.getElementById(id);
  const link = `${location.origin}/enrol#${ticket}`;
  for (const name of document.querySelectorAll("[data-link-user]")) name.textContent = user;
  place("ticket-link").textContent = link;
  const here = place("ticket-here");
  if (here) here.href = link;
  place("ticket").hidden = false;
  place("ticket").focus();
}

export function copying(tell) {
  const place = (id) => document.getElementById(id);
  place("ticket-copy")?.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(place("ticket-link").textContent);
      place("ticket-copied").textContent = "Copied.";
    } catch (error) {
      tell(error);
    }
  });
}
