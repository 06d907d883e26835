// New calls appear by themselves.

import { get } from "./wire.js";

const inbox = document.getElementById("inbox");
const POLL_MS = 4000;

async function look() {
  try {
    const { stamp } = await get("/waiting");
    if (stamp !== inbox.dataset.stamp) location.reload();
  } catch (error) {
    if (error.reason === "sign_in_needed") location.reload();
  }
}

async function poll() {
  await look();
  setTimeout(poll, POLL_MS);
}
setTimeout(poll, POLL_MS);
document.addEventListener("callgate:change", look);
