// Agents: keys made and taken away with an operator's passkey; directories fetched again.

import { dialog } from "./dialog.js";
import { attempt, tell } from "./notice.js";
import { signedPost } from "./signed.js";
import { post } from "./wire.js";

const place = (id) => document.getElementById(id);

const box = place("new-key");
if (box) {
  const open = dialog(
    box,
    (_, how) => {
      const body = { agent: place("key-agent").value.trim(), days: Number(place("key-days").value) };
      return signedPost("/agents/key", body, how);
    },
    ({ agent, key }) => {
      box.close();
      place("made-agent").textContent = agent;
      place("made-key").textContent = key;
      place("made-copied").textContent = "";
      place("made").hidden = false;
      place("made").focus();
    },
  );
  place("key-open")?.addEventListener("click", () => open());
  place("made-copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(place("made-key").textContent);
      place("made-copied").textContent = "Copied.";
    } catch (error) {
      tell(error);
    }
  });
}

const agent = place("agent");
if (agent && place("sure")) {
  const name = agent.dataset.agent;
  const sure = dialog(
    place("sure"),
    ({ to, body }, how) => signedPost(`/agents/${to}`, body, how),
    ({ left }) => {
      if (left) location.reload();
      else location.assign("/agents");
    },
  );
  const ask = (title, text, send, chosen) => {
    place("sure-title").textContent = title;
    place("sure-text").textContent = text;
    place("sure-send").textContent = send;
    sure(chosen);
  };
  for (const button of document.querySelectorAll("[data-revoke]")) {
    button.addEventListener("click", () => {
      const key = button.dataset.revoke;
      const text = `Whoever calls with ${key.slice(0, 16)} is no longer taken for ${name}, at once and everywhere.`;
      ask("Take this key away?", text, "Take it away with passkey", { to: "revoke", body: { agent: name, key } });
    });
  }
  place("remove")?.addEventListener("click", () => {
    const keys = JSON.parse(agent.dataset.keys);
    const count = `${keys.length} ${keys.length === 1 ? "way" : "ways"} in which it is recognised`;
    const text = `${count} will be taken away, at once and everywhere.`;
    ask(`Shut ${name} out?`, text, "Shut out with passkey", { to: "remove", body: { agent: name, keys } });
  });
}

for (const button of document.querySelectorAll("[data-refresh]")) {
  const status = button.closest("section").querySelector(".status");
  button.addEventListener("click", () =>
    attempt(button, async () => {
      status.textContent = "Fetching…";
      try {
        const { text } = await post("/agents/refresh", { url: button.dataset.refresh });
        status.textContent = text;
      } catch (error) {
        status.textContent = "";
        throw error;
      }
    }),
  );
}
