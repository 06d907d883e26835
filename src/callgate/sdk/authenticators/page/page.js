const visit = JSON.parse(document.body.dataset.visit);
const at = (id) => document.getElementById(id);
// What no second try on this page can put right.
const FINAL = new Set(["SecurityError", "NotSupportedError", "InvalidStateError", "ConstraintError"]);
let over = false;

function say(text, kind = "") {
  at("status").textContent = text;
  at("status").dataset.kind = kind;
}

function end(text, kind) {
  over = true;
  at("yes").disabled = true;
  at("no").disabled = true;
  at("expiry").textContent = "";
  say(text, kind);
}

function post(answer) {
  return fetch(location.pathname, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: visit.token, ...answer }),
    cache: "no-store",
    keepalive: true,
  });
}

async function send(answer, text, kind) {
  try {
    const reply = await post(answer);
    end(reply.ok ? text : "The program that asked does not wait for this any more.", reply.ok ? kind : "bad");
  } catch {
    end("The program that asked is gone.", "bad");
  }
}

async function ask() {
  if (visit.kind === "create") {
    return navigator.credentials.create({
      publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(visit.options),
    });
  }
  return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(visit.options) });
}

async function approve() {
  at("yes").disabled = true;
  say("Waiting for your passkey…");
  let credential;
  try {
    credential = await ask();
  } catch (error) {
    if (over) return;
    if (FINAL.has(error.name)) {
      await send({ error: error.name }, `This browser cannot do it (${error.name}).`, "bad");
      return;
    }
    at("yes").disabled = false;
    say(`The passkey was not used (${error.name}). Try again, or cancel.`, "bad");
    return;
  }
  if (!over) await send({ response: credential.toJSON() }, visit.done, "good");
}

function tick() {
  if (over) return;
  const left = Math.ceil(visit.expiresAt - Date.now() / 1000);
  if (left <= 0) {
    end("The time for this is over. Nothing was signed.", "bad");
    return;
  }
  at("expiry").textContent = `${left} s left`;
  setTimeout(tick, 500);
}

at("title").textContent = visit.title;
document.title = visit.title;
// textContent: whatever the server wrote is shown as it is, and none of it is markup.
at("text").textContent = visit.text;
for (const [name, value] of visit.facts) {
  const term = document.createElement("dt");
  const fact = document.createElement("dd");
  term.textContent = name;
  fact.textContent = value;
  at("facts").append(term, fact);
}
at("yes").textContent = visit.action;
at("yes").addEventListener("click", approve);
at("no").addEventListener("click", () => send({ cancelled: true }, "Cancelled. Nothing was signed.", ""));
addEventListener("pagehide", () => {
  if (!over) post({ cancelled: true }).catch(() => {});
});
if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
  at("yes").disabled = true;
  say("This browser is too old for passkeys. Open the address in a current one.", "bad");
}
tick();
