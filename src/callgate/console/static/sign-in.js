import { attempt } from "./notice.js";
import { sign } from "./passkey.js";
import { post } from "./wire.js";

const page = document.getElementById("sign-in");
const status = document.getElementById("status");
const button = document.getElementById("with-passkey");
const form = document.getElementById("with-name");

async function signIn(body) {
  const issued = await post("/sign-in/options", body);
  status.textContent = "Your browser is asking for your passkey…";
  try {
    const response = await sign(issued.requestOptions, { doing: "sent" });
    await post("/sign-in", { challengeId: issued.challengeId, response });
  } finally {
    status.textContent = "";
  }
  location.replace(page.dataset.onward);
}

button.addEventListener("click", () => attempt(button, () => signIn({})));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(event.submitter ?? button, () => signIn({ user: form.elements.user.value.trim() }));
});
