// Enrolment links that nobody has used: each is cancelled with a signature.

import { attempt } from "./notice.js";
import { signedPost } from "./signed.js";

export function cancelling() {
  for (const button of document.querySelectorAll("[data-cancel-link]")) {
    button.addEventListener("click", () =>
      attempt(button, async () => {
        await signedPost("/links/cancel", { link: button.dataset.cancelLink });
        location.reload();
      }),
    );
  }
}
