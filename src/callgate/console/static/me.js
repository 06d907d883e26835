// A person's own passkeys and devices: rename, revoke, add one.

import { copying, dialog, showLink } from "./dialog.js";
import { cancelling } from "./links.js";
import { attempt, tell } from "./notice.js";
import { sign } from "./passkey.js";
import { signedPost } from "./signed.js";
import { post } from "./wire.js";

const place = (id) => document.getElementById(id);

function opening(id, buttons, fill, send) {
  const open = dialog(place(id), send);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      fill(button.dataset);
      open(button.dataset);
    });
  }
}

opening(
  "rename",
  document.querySelectorAll("[data-rename]"),
  ({ name }) => {
    place("new-name").value = name;
  },
  ({ rename }) => post(`/passkeys/${rename}/rename`, { name: place("new-name").value }),
);

opening(
  "revoke",
  document.querySelectorAll("[data-revoke]"),
  ({ name, device }) => {
    place("revoke-name").textContent = name;
    place("revoke").querySelector("[data-revoke-what]").textContent = device === undefined ? "passkey" : "device";
    for (const line of place("revoke").querySelectorAll("[data-of-passkey]")) line.hidden = device !== undefined;
  },
  async ({ revoke }, { signal, asking }) => {
    const issued = await post(`/passkeys/${revoke}/revoke/options`);
    signal.throwIfAborted();
    asking(true);
    try {
      const response = await sign(issued.requestOptions, { signal, doing: "revoked" });
      signal.throwIfAborted();
      await post(`/passkeys/${revoke}/revoke`, { challengeId: issued.challengeId, response });
    } finally {
      asking(false);
    }
  },
);

const add = place("add-device");
add.addEventListener("click", () =>
  attempt(add, async () => {
    const issued = await post("/device/options");
    const response = await sign(issued.requestOptions);
    const { ticket } = await post("/device", { challengeId: issued.challengeId, response });
    showLink(ticket);
  }),
);

opening(
  "enrol-device",
  document.querySelectorAll("#answer-device"),
  () => {
    place("device-line").value = "";
  },
  (_, how) => signedPost("/devices/add", { line: place("device-line").value.trim() }, { ...how, doing: "enrolled" }),
);

copying(tell);
cancelling();
