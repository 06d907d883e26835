// Signs and verifies as npm's web-bot-auth does: `node foreign_web_bot_auth.mjs sign|verify JSON`.
import { signatureHeaders, verify } from "web-bot-auth";
import { signerFromJWK, verifierFromJWK } from "web-bot-auth/crypto";

const [, , what, text] = process.argv;
const { url, method, headers, jwk, components } = JSON.parse(text);
const request = new Request(url, { method, headers });
if (what === "sign") {
  const created = new Date();
  const params = { created, expires: new Date(created.getTime() + 240_000), ...(components && { components }) };
  console.log(JSON.stringify(await signatureHeaders(request, await signerFromJWK(jwk), params)));
} else {
  try {
    await verify(request, await verifierFromJWK(jwk));
    console.log(JSON.stringify("verified"));
  } catch (error) {
    console.log(JSON.stringify(`refused: ${error.message}`));
  }
}
