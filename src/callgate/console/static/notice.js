// The one place on each page where a problem is told, aloud for screen readers (role=alert).

const box = document.getElementById("problem");

// A sentence in which commands stand between backticks.
function write(place, text) {
  place.replaceChildren(
    ...text.split("`").map((part, at) => {
      if (at % 2 === 0) return part;
      const code = document.createElement("code");
      code.textContent = part;
      return code;
    }),
  );
}

export function quiet() {
  box.hidden = true;
}

export function tell(error, link = error.link && { href: error.link, text: error.link }) {
  const known = error.reason !== undefined;
  box.querySelector(".notice-title").textContent = known ? error.message : "This did not work.";
  write(box.querySelector(".notice-text"), known ? error.advice : "Load the page again and try once more.");
  const place = box.querySelector(".notice-link");
  place.hidden = !link;
  if (link) Object.assign(place.firstElementChild, { href: link.href, textContent: link.text });
  box.hidden = false;
  box.scrollIntoView({ block: "nearest" });
  if (!known) console.error(error);
}

// Runs what a button does: once at a time, with the last problem taken away first and a new one told.
export async function attempt(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true");
  quiet();
  try {
    await work();
  } catch (error) {
    if (error.name !== "AbortError") tell(error);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}
