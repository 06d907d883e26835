import { attempt } from "./notice.js";
import { post } from "./wire.js";

const form = document.getElementById("recover");

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const { user, code } = form.elements;
  attempt(form.querySelector("button"), async () => {
    const { ticket } = await post("/recover", { user: user.value.trim(), code: code.value.trim() });
    location.assign(`/enrol#${ticket}`);
  });
});
