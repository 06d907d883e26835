// WebAuthn in the JSON forms of its Level 3, also for browsers that only have the older binary ones.

import { Failure, ORIGIN } from "./wire.js";

const toBytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));

const toText = (buffer) => {
  let binary = "";
  for (const byte of new Uint8Array(buffer)) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
};

const named = (list = []) => list.map((one) => ({ ...one, id: toBytes(one.id) }));

function readRequest(options) {
  if (PublicKeyCredential.parseRequestOptionsFromJSON) return PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return { ...options, challenge: toBytes(options.challenge), allowCredentials: named(options.allowCredentials) };
}

function readCreation(options) {
  if (PublicKeyCredential.parseCreationOptionsFromJSON) return PublicKeyCredential.parseCreationOptionsFromJSON(options);
  return {
    ...options,
    challenge: toBytes(options.challenge),
    user: { ...options.user, id: toBytes(options.user.id) },
    excludeCredentials: named(options.excludeCredentials),
  };
}

function write(credential) {
  if (typeof credential.toJSON === "function") return credential.toJSON();
  const { response } = credential;
  const parts = { clientDataJSON: toText(response.clientDataJSON) };
  for (const name of ["authenticatorData", "signature", "userHandle", "attestationObject"]) {
    if (response[name]) parts[name] = toText(response[name]);
  }
  if (response.getTransports) parts.transports = response.getTransports();
  return {
    id: credential.id,
    rawId: toText(credential.rawId),
    type: credential.type,
    authenticatorAttachment: credential.authenticatorAttachment ?? undefined,
    clientExtensionResults: credential.getClientExtensionResults(),
    response: parts,
  };
}

function check() {
  if (location.origin !== ORIGIN) throw elsewhere();
  if (window.PublicKeyCredential && navigator.credentials) return;
  if (!window.isSecureContext) {
    throw new Failure("insecure", "Browsers allow passkeys on https pages and on localhost only.", `Open ${ORIGIN}.`);
  }
  throw new Failure("no_passkeys", "This browser cannot use passkeys.", "Open this page in a current browser.");
}

function elsewhere() {
  const failure = new Failure("wrong_address", "Passkeys of this gateway do not work at this address.", "Open the same page at its own address:");
  failure.link = ORIGIN + location.pathname + location.search + location.hash;
  return failure;
}

function translate(error, doing) {
  switch (error.name) {
    case "NotAllowedError":
      return new Failure("cancelled", "No passkey was used: you cancelled, the time ran out, or none here fits.", `Nothing was ${doing}. You can try again.`);
    case "InvalidStateError":
      return new Failure("enrolled", "This device already has a passkey for you here.", "Use it, or enrol another device.");
    case "SecurityError":
      return elsewhere();
    case "NotSupportedError":
      return new Failure("unfit", "Your device offers no passkey of the kind that is needed.", "Try another device or a security key.");
    default:
      return error;
  }
}

export async function sign(options, { signal, doing = "signed" } = {}) {
  check();
  try {
    return write(await navigator.credentials.get({ publicKey: readRequest(options), signal }));
  } catch (error) {
    throw translate(error, doing);
  }
}

export async function create(options) {
  check();
  try {
    return write(await navigator.credentials.create({ publicKey: readCreation(options) }));
  } catch (error) {
    throw translate(error, "enrolled");
  }
}
