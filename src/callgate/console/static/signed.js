// What lasts is signed with a passkey: the gateway says what, the person's device signs it, then it is sent.

import { sign } from "./passkey.js";
import { post } from "./wire.js";

export async function signedPost(path, body = {}, { signal, doing = "changed", asking = () => {} } = {}) {
  const issued = await post(`${path}/options`, body);
  signal?.throwIfAborted();
  asking(true);
  try {
    const response = await sign(issued.requestOptions, { signal, doing });
    signal?.throwIfAborted();
    return await post(path, { body, challengeId: issued.challengeId, response });
  } finally {
    asking(false);
  }
}
