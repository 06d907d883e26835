// People: every change is an operator's, signed with a passkey.

import { copying, dialog, showLink } from "./dialog.js";
import { cancelling } from "./links.js";
import { attempt, tell } from "./notice.js";
import { signedPost } from "./signed.js";

const place = (id) => document.getElementById(id);
copying(tell);
cancelling();

const invite = place("invite");
if (invite) {
  const value = (id) => place(id).value.trim();
  const open = dialog(
    invite,
    (_, how) => {
      const body = { name: value("invite-name"), displayName: value("invite-shown"), role: value("invite-role") };
      return signedPost("/people/invite", body, how);
    },
    ({ ticket, user }, box) => {
      box.close();
      showLink(ticket, user);
    },
  );
  place("invite-open").addEventListener("click", () => open());
}

const person = place("person");
if (person) {
  const { path, role: before } = person.dataset;
  const sure = dialog(
    place("sure"),
    ({ to, body }, how) => signedPost(`${path}/${to}`, body, how),
    (_, box) => {
      box.close();
      if (box.dataset.onward) location.assign(box.dataset.onward);
      else location.reload();
    },
  );
  const ask = (title, text, send, chosen, onward = "") => {
    place("sure-title").textContent = title;
    place("sure-text").textContent = text;
    place("sure-send").textContent = send;
    place("sure").dataset.onward = onward;
    sure(chosen);
  };

  const form = place("role");
  // What a browser kept in its fields over a reload was not chosen by this reader.
  form.reset();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form.querySelector("[type=submit]"), async () => {
      const role = new FormData(form).get("role");
      if (role === before) return;
      await signedPost(`${path}/role`, { role, before });
      location.reload();
    });
  });

  const joining = place("join");
  joining.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(joining.querySelector("[type=submit]"), async () => {
      await signedPost(`${path}/groups`, { group: place("group").value.trim(), member: true });
      location.reload();
    });
  });
  for (const button of document.querySelectorAll("[data-leave]")) {
    button.addEventListener("click", () => {
      const group = button.dataset.leave;
      const text = "What they have signed as one of it, and no call has used, counts no longer.";
      ask(`Take them out of ${group}?`, text, "Take out with passkey", { to: "groups", body: { group, member: false } });
    });
  }

  place("link")?.addEventListener("click", () =>
    attempt(place("link"), async () => {
      const { ticket, user } = await signedPost(`${path}/link`);
      showLink(ticket, user);
    }),
  );

  for (const button of document.querySelectorAll("[data-revoke]")) {
    button.addEventListener("click", () => {
      const { revoke, name, method } = button.dataset;
      const text = `“${name}” can approve nothing and sign in nowhere here from now on. This cannot be taken back.`;
      ask(`Revoke this ${method === "device" ? "device" : "passkey"}?`, text, "Revoke with passkey", { to: "revoke", body: { passkey: revoke } });
    });
  }

  place("remove")?.addEventListener("click", () => {
    const passkeys = Number(person.dataset.passkeys);
    const text = "Their passkeys, recovery codes and open approvals go with them, for good.";
    ask(place("away").textContent + "?", text, "Remove with passkey", { to: "remove", body: { passkeys } }, "/people");
  });
}
