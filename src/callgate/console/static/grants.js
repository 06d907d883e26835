// A grant is signed as it is shown, and revoked with one click.

import { attempt } from "./notice.js";
import { signedPost } from "./signed.js";
import { post } from "./wire.js";

const place = (id) => document.getElementById(id);

place("sign")?.addEventListener("click", () =>
  attempt(place("sign"), async () => {
    const terms = JSON.parse(place("preview").dataset.terms);
    const asking = (yes) => {
      place("sign-status").textContent = yes ? "Your browser is asking for your passkey…" : "";
    };
    const { grant } = await signedPost("/grants/sign", { terms }, { doing: "signed", asking });
    location.assign(`/grants/${grant}`);
  }),
);

place("revoke")?.addEventListener("click", () =>
  attempt(place("revoke"), async () => {
    await post(`/grants/${place("grant").dataset.id}/revoke`);
    location.reload();
  }),
);

// What was filled in after the terms were shown is not in them.
place("draft")?.addEventListener("input", () => {
  if (place("preview")) place("preview").hidden = true;
});
