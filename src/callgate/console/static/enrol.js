import { attempt, tell } from "./notice.js";
import { create } from "./passkey.js";
import { Failure, post } from "./wire.js";

const place = (id) => document.getElementById(id);
const form = place("create");
const status = place("status");

// Taken out of the address bar at once: out of the history, out of sight, out of what gets copied along.
const ticket = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

// A ticket is used up by the first attempt; what it opened can be answered again, if the first try is cancelled.
let options = null;
let saved = true;

function show(step) {
  for (const one of ["look", "create", "codes", "done"]) place(`step-${one}`).hidden = one !== step;
  place(`step-${step}`).querySelector("h1").focus();
}

function guessName() {
  const platform = navigator.userAgentData?.platform || navigator.platform || "";
  const known = [
    [/iphone/i, "iPhone"],
    [/ipad/i, "iPad"],
    [/android/i, "Android phone"],
    [/mac/i, "Mac"],
    [/win/i, "Windows PC"],
    [/cros|chrome ?os/i, "Chromebook"],
    [/linux/i, "Linux computer"],
  ];
  return known.find(([pattern]) => pattern.test(`${platform} ${navigator.userAgent}`))?.[1] ?? "Passkey";
}

// What a passkey approves, where that is known.
function write(places, text) {
  for (const one of places) {
    one.textContent = text;
    one.hidden = !text;
  }
}

async function look() {
  if (!ticket) {
    throw new Failure("no_ticket", "This page is opened by a link, and the link was not complete.", "Open the link again, whole; it works once.");
  }
  const found = await post("/enrol/look", { ticket });
  const whole = found.displayName && found.displayName !== found.user;
  place("for-whom").textContent = whole ? `${found.displayName} (${found.user})` : found.user;
  const other = place("other-user");
  if (other) other.hidden = other.dataset.user === found.user;
  write([place("choice")], found.choice);
  form.elements.name.value = guessName();
  show("create");
}

async function enrol() {
  options ??= (await post("/enrol/begin", { ticket })).options;
  status.textContent = "Your browser is asking for your passkey…";
  try {
    const response = await create(options);
    status.textContent = "Storing it…";
    finished(await post("/enrol/finish", { response, name: form.elements.name.value }));
  } finally {
    status.textContent = "";
  }
}

function finished({ user, codes, reach }) {
  write(document.querySelectorAll("[data-reach]"), reach);
  if (codes.length === 0) {
    show("done");
    return;
  }
  for (const code of codes) {
    const item = document.createElement("li");
    item.textContent = code;
    place("codes").append(item);
  }
  const text = `Callgate recovery codes of ${user} at ${location.origin}\nEach works once, at ${location.origin}/recover\n\n${codes.join("\n")}\n`;
  place("download").href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  place("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      place("copied").textContent = "Copied.";
    } catch {
      place("copied").textContent = "The browser did not allow copying. Select the codes, or download them.";
    }
  });
  saved = false;
  show("codes");
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(form.querySelector("button"), enrol);
});

place("continue").addEventListener("click", () => {
  saved = true;
  location.assign("/");
});

// Codes are shown once: leaving before they are saved is asked about.
addEventListener("beforeunload", (event) => {
  if (!saved) event.preventDefault();
});

look().catch((error) => {
  place("looking").textContent = "This link cannot be used.";
  tell(error);
});
