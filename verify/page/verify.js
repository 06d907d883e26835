"use strict";
// Verifies a receipt of Callgate's audit log in the browser: no network, no library. The same steps, in the same order
// and with the same words, as verify/src/callgate_verify.

const FORMAT = "callgate-receipt/2";
const MAX_RECEIPT = 128 * 2 ** 20;
const LOG = 1;
const WITNESS = 4;
const NUMBER = /^(0|[1-9][0-9]{0,18})$/;
const INTEGER = /^-?[0-9]+$/;
const NAME = /^[^\s+]{1,255}$/;

class DoesNotHold extends Error {}
const refuse = (why) => { throw new DoesNotHold(why); };

// -- bytes -----------------------------------------------------------------------------------------------------------

const utf8 = (text) => new TextEncoder().encode(text);
const decodeUtf8 = (bytes) => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return refuse("a text in it is not UTF-8");
  }
};
const join = (...parts) => {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { all.set(part, at); at += part.length; }
  return all;
};
const equal = (one, other) => one.length === other.length && one.every((byte, at) => byte === other[at]);
const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const big = (bytes) => (bytes.length ? BigInt("0x" + hex(bytes)) : 0n);
const littleEndian = (bytes) => big(Uint8Array.from(bytes).reverse());
const EMPTY = new Uint8Array(0);

const toBase64 = (bytes) => {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
};
// Standard base64 in its one spelling; nothing for everything else.
const fromBase64 = (text) => {
  if (typeof text !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4) return EMPTY;
  let raw;
  try { raw = atob(text); } catch { return EMPTY; }
  const bytes = Uint8Array.from(raw, (char) => char.charCodeAt(0));
  return toBase64(bytes) === text ? bytes : EMPTY;
};
const toBase64url = (bytes) => toBase64(bytes).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const fromBase64url = (text, name) => {
  const bare = typeof text === "string" ? text.replace(/=+$/, "") : "!";
  if (!/^[A-Za-z0-9_-]*$/.test(bare) || bare.length % 4 === 1) refuse(`the approval's ${name} is not base64url`);
  const raw = atob(bare.replace(/-/g, "+").replace(/_/g, "/") + "=".repeat((4 - (bare.length % 4)) % 4));
  return Uint8Array.from(raw, (char) => char.charCodeAt(0));
};

// -- SHA-2 (FIPS 180-4): the constants are what their definition says, roots of the first primes ---------------------

const primes = [];
for (let n = 2; primes.length < 80; n += 1) if (primes.every((p) => n % p)) primes.push(n);
const root = (n, k, bits) => { // floor(n^(1/k) * 2^bits) modulo 2^bits
  const wanted = BigInt(n) << BigInt(k * bits);
  let low = 0n;
  let high = 1n << BigInt(bits + 8);
  while (low < high - 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(k) <= wanted) low = middle; else high = middle;
  }
  return low & ((1n << BigInt(bits)) - 1n);
};
const K256 = Uint32Array.from(primes.slice(0, 64), (p) => Number(root(p, 3, 32)));
const H256 = Uint32Array.from(primes.slice(0, 8), (p) => Number(root(p, 2, 32)));
const K512 = primes.map((p) => root(p, 3, 64));
const H512 = primes.slice(0, 8).map((p) => root(p, 2, 64));

const padded = (bytes, block, lengthBytes) => {
  const size = Math.ceil((bytes.length + 1 + lengthBytes) / block) * block;
  const all = new Uint8Array(size);
  all.set(bytes);
  all[bytes.length] = 0x80;
  new DataView(all.buffer).setBigUint64(size - 8, BigInt(bytes.length) * 8n);
  return all;
};

function sha256(bytes) {
  const data = padded(bytes, 64, 8);
  const view = new DataView(data.buffer);
  const state = Uint32Array.from(H256);
  const w = new Uint32Array(64);
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  for (let start = 0; start < data.length; start += 64) {
    for (let i = 0; i < 16; i += 1) w[i] = view.getUint32(start + 4 * i);
    for (let i = 16; i < 64; i += 1) {
      const s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ (w[i - 15] >>> 3);
      const s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ (w[i - 2] >>> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i += 1) {
      const t1 = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K256[i] + w[i]) | 0;
      const t2 = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, at) => { state[at] += value; });
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((word, at) => out.setUint32(4 * at, word));
  return new Uint8Array(out.buffer);
}

function sha512(bytes) {
  const mask = (1n << 64n) - 1n;
  const data = padded(bytes, 128, 16);
  const view = new DataView(data.buffer);
  const state = [...H512];
  const turn = (x, n) => ((x >> n) | (x << (64n - n))) & mask;
  for (let start = 0; start < data.length; start += 128) {
    const w = [];
    for (let i = 0; i < 16; i += 1) w.push(view.getBigUint64(start + 8 * i));
    for (let i = 16; i < 80; i += 1) {
      const s0 = turn(w[i - 15], 1n) ^ turn(w[i - 15], 8n) ^ (w[i - 15] >> 7n);
      const s1 = turn(w[i - 2], 19n) ^ turn(w[i - 2], 61n) ^ (w[i - 2] >> 6n);
      w.push((w[i - 16] + s0 + w[i - 7] + s1) & mask);
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 80; i += 1) {
      const t1 = h + (turn(e, 14n) ^ turn(e, 18n) ^ turn(e, 41n)) + ((e & f) ^ (~e & mask & g)) + K512[i] + w[i];
      const t2 = (turn(a, 28n) ^ turn(a, 34n) ^ turn(a, 39n)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) & mask, c, b, a, (t1 + t2) & mask];
    }
    [a, b, c, d, e, f, g, h].forEach((value, at) => { state[at] = (state[at] + value) & mask; });
  }
  const out = new DataView(new ArrayBuffer(64));
  state.forEach((word, at) => out.setBigUint64(8 * at, word));
  return new Uint8Array(out.buffer);
}

// -- signatures --------------------------------------------------------------------------------------------------------

const mod = (a, m) => ((a % m) + m) % m;
const power = (base, exponent, m) => {
  let result = 1n;
  for (base = mod(base, m); exponent > 0n; exponent >>= 1n) {
    if (exponent & 1n) result = (result * base) % m;
    base = (base * base) % m;
  }
  return result;
};
const inverse = (a, m) => power(a, m - 2n, m);

// Ed25519 (RFC 8032 §5.1)
const P25519 = (1n << 255n) - 19n;
const L25519 = (1n << 252n) + 27742317777372353535851937790883648493n;
const D25519 = mod(-121665n * inverse(121666n, P25519), P25519);
const edAdd = ([x1, y1, z1, t1], [x2, y2, z2, t2]) => {
  const a = mod((y1 - x1) * (y2 - x2), P25519);
  const b = mod((y1 + x1) * (y2 + x2), P25519);
  const c = mod(2n * t1 * t2 * D25519, P25519);
  const d = mod(2n * z1 * z2, P25519);
  const [e, f, g, h] = [b - a, d - c, d + c, b + a];
  return [mod(e * f, P25519), mod(g * h, P25519), mod(f * g, P25519), mod(e * h, P25519)];
};
const edTimes = (k, point) => {
  let result = [0n, 1n, 1n, 0n];
  for (; k > 0n; k >>= 1n) {
    if (k & 1n) result = edAdd(result, point);
    point = edAdd(point, point);
  }
  return result;
};
const edPoint = (bytes) => {
  if (bytes.length !== 32) return null;
  const value = littleEndian(bytes);
  const y = value & ((1n << 255n) - 1n);
  const sign = value >> 255n;
  if (y >= P25519) return null;
  const y2 = mod(y * y, P25519);
  const x2 = mod((y2 - 1n) * inverse(D25519 * y2 + 1n, P25519), P25519);
  let x = power(x2, (P25519 + 3n) / 8n, P25519);
  if (mod(x * x - x2, P25519)) x = mod(x * power(2n, (P25519 - 1n) / 4n, P25519), P25519);
  if (mod(x * x - x2, P25519) || (x === 0n && sign)) return null;
  if ((x & 1n) !== sign) x = P25519 - x;
  return [x, y, 1n, mod(x * y, P25519)];
};
const ED_BASE = edPoint(Uint8Array.from([0x58, ...new Array(31).fill(0x66)]));

// The y of the points of small order, and their second spellings: anybody can sign for these.
const SMALL25519 = new Set([
  0n, 1n, P25519 - 1n, P25519, P25519 + 1n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n,
]);

function ed25519(key, signature, message) {
  const a = edPoint(key);
  if (a === null || signature.length !== 64) return false;
  const r = signature.subarray(0, 32);
  const s = littleEndian(signature.subarray(32));
  if (s >= L25519) return false;
  const k = littleEndian(sha512(join(r, key, message))) % L25519;
  const minus = [mod(-a[0], P25519), a[1], a[2], mod(-a[3], P25519)];
  const [x, y, z] = edAdd(edTimes(s, ED_BASE), edTimes(k, minus));
  const over = inverse(z, P25519);
  const encoded = mod(y * over, P25519) | ((mod(x * over, P25519) & 1n) << 255n);
  return encoded === littleEndian(r);
}

// ECDSA on P-256 (FIPS 186-5 §6.4.2; the curve: SP 800-186 §3.2.1.3)
const P256 = (1n << 256n) - (1n << 224n) + (1n << 192n) + (1n << 96n) - 1n;
const N256 = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const B256 = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;
const G256 = [
  0x6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296n,
  0x4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5n,
];
// Points are [x, y], null is the point at infinity; slow, and easy to read.
const ecAdd = (one, other) => {
  if (one === null) return other;
  if (other === null) return one;
  const [[x1, y1], [x2, y2]] = [one, other];
  if (x1 === x2 && mod(y1 + y2, P256) === 0n) return null;
  const slope = x1 === x2
    ? mod((3n * x1 * x1 - 3n) * inverse(2n * y1, P256), P256)
    : mod((y2 - y1) * inverse(mod(x2 - x1, P256), P256), P256);
  const x = mod(slope * slope - x1 - x2, P256);
  return [x, mod(slope * (x1 - x) - y1, P256)];
};
const ecTimes = (k, point) => {
  let result = null;
  for (; k > 0n; k >>= 1n) {
    if (k & 1n) result = ecAdd(result, point);
    point = ecAdd(point, point);
  }
  return result;
};
const derInteger = (bytes, at) => {
  const size = bytes[at + 1];
  const raw = bytes.subarray(at + 2, at + 2 + size);
  const wrong = bytes[at] !== 2 || !(size > 0 && size < 34) || raw.length !== size || raw[0] & 0x80
    || (size > 1 && raw[0] === 0 && !(raw[1] & 0x80));
  return wrong ? null : [big(raw), at + 2 + size];
};

function es256(x, y, signature, message) {
  if (x >= P256 || y >= P256 || mod(y * y - (x * x * x - 3n * x + B256), P256)) return false;
  if (signature[0] !== 0x30 || signature[1] !== signature.length - 2) return false;
  const first = derInteger(signature, 2);
  const second = first && derInteger(signature, first[1]);
  if (!second || second[1] !== signature.length) return false;
  const [r, s] = [first[0], second[0]];
  if (r <= 0n || r >= N256 || s <= 0n || s >= N256) return false;
  const over = inverse(s, N256);
  const point = ecAdd(ecTimes((big(sha256(message)) * over) % N256, G256), ecTimes((r * over) % N256, [x, y]));
  return point !== null && point[0] % N256 === r;
}

// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 §8.2.2)
function rs256(n, e, signature, message) {
  const size = Math.ceil(n.toString(2).length / 8);
  if (n.toString(2).length < 2048 || signature.length !== size || big(signature) >= n || e < 3n) return false;
  const head = fromBase64("MDEwDQYJYIZIAWUDBAIBBQAEIA==");
  const tail = join(head, sha256(message));
  const expected = join(Uint8Array.of(0, 1), new Uint8Array(size - tail.length - 3).fill(255), Uint8Array.of(0), tail);
  return power(big(signature), e, n) === big(expected);
}

// -- JSON, strictly ----------------------------------------------------------------------------------------------------

// A number as it is written: 1, 1.0 and true are three things.
class Literal {
  constructor(text) { this.text = text; }
}

function read(text) {
  const wrong = (why) => refuse(`this is no JSON that every reader reads alike: ${why}`);
  let at = 0;
  const space = () => { while (" \t\n\r".includes(text[at]) && at < text.length) at += 1; };
  const string = () => {
    const from = at;
    for (at += 1; text[at] !== '"'; at += text[at] === "\\" ? 2 : 1) if (at >= text.length) wrong("a text does not end");
    at += 1;
    try {
      return JSON.parse(text.slice(from, at));
    } catch {
      return wrong("a text is none");
    }
  };
  const value = (depth) => {
    if (depth > 500) wrong("it is nested too deeply");
    space();
    const char = text[at];
    if (char === '"') return string();
    if (char === "{") return object(depth);
    if (char === "[") return list(depth);
    const found = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
    found.lastIndex = at;
    const match = found.exec(text);
    if (match === null) return wrong("something is no value");
    at += match[0].length;
    return { true: true, false: false, null: null }[match[0]] ?? (match[0] === "null" ? null : new Literal(match[0]));
  };
  const object = (depth) => {
    const found = new Map();
    at += 1;
    space();
    if (text[at] === "}") { at += 1; return found; }
    for (;;) {
      space();
      if (text[at] !== '"') wrong("a member has no name");
      const name = string();
      if (found.has(name)) wrong("a member is there twice");
      space();
      if (text[at] !== ":") wrong("a member has no value");
      at += 1;
      found.set(name, value(depth + 1));
      space();
      at += 1;
      if (text[at - 1] === "}") return found;
      if (text[at - 1] !== ",") wrong("an object does not end");
    }
  };
  const list = (depth) => {
    const found = [];
    at += 1;
    space();
    if (text[at] === "]") { at += 1; return found; }
    for (;;) {
      found.push(value(depth + 1));
      space();
      at += 1;
      if (text[at - 1] === "]") return found;
      if (text[at - 1] !== ",") wrong("a list does not end");
    }
  };
  const found = value(0);
  space();
  if (at !== text.length) wrong("something follows it");
  return found;
}

function same(one, other) {
  if (one instanceof Map) {
    return other instanceof Map && one.size === other.size
      && [...one].every(([name, value]) => other.has(name) && same(value, other.get(name)));
  }
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length && one.every((value, at) => same(value, other[at]));
  }
  if (one instanceof Literal) return other instanceof Literal && one.text === other.text;
  return one === other;
}

// RFC 8785
function canonical(value) {
  if (value instanceof Literal) {
    const number = Number(value.text);
    const unsafe = INTEGER.test(value.text) && !Number.isSafeInteger(number);
    if (!Number.isFinite(number) || unsafe) refuse("the arguments have no canonical form");
    return String(Object.is(number, -0) ? 0 : number);
  }
  if (value instanceof Map) {
    const names = [...value.keys()].sort((a, b) => (a < b ? -1 : 1));
    return `{${names.map((name) => `${canonical(name)}:${canonical(value.get(name))}`).join(",")}}`;
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "string" && /[\ud800-\udfff]/u.test(value)) refuse("the arguments have no canonical form");
  return JSON.stringify(value);
}

// -- keys, notes, tree -------------------------------------------------------------------------------------------------

const fingerprint = (bytes) => "SHA256:" + toBase64(sha256(bytes)).replace(/=+$/, "");
const split = (text, mark) => {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + mark.length)];
};

function vkey(text, kind) {
  const [name, rest] = split(text, "+");
  const [id, encoded] = split(rest, "+");
  const raw = fromBase64(encoded);
  if (!NAME.test(name) || raw.length !== 33 || raw[0] !== kind) {
    refuse(`that is not a public key of a ${kind === LOG ? "log" : "witness"}`);
  }
  const own = hex(sha256(join(utf8(name + "\n"), raw)).subarray(0, 4));
  if (own !== id) refuse("the hash in a key does not fit the key");
  return { name, id, public: raw.subarray(1), text };
}

function readNote(text) {
  const wrong = () => refuse("the checkpoint is not origin, size, root and time");
  const [body, tail] = split(text, "\n\n");
  const lines = body.split("\n");
  if ([...text].length > 16384 || body === text || lines.length !== 4 || !NAME.test(lines[0])) wrong();
  const [word, at] = split(lines[3], " ");
  const top = fromBase64(lines[2]);
  if (!NUMBER.test(lines[1]) || top.length !== 32 || word !== "time" || !NUMBER.test(at)) wrong();
  const size = BigInt(lines[1]);
  // eslint-disable-next-line no-control-regex
  if (size > 1n << 62n || /[\u0000-\u0009\u000b-\u001f]/.test(body) || !tail.endsWith("\n")) wrong();
  const signatures = tail.slice(0, -1).split("\n").map((line) => {
    const [name, encoded] = split(line.startsWith("\u2014 ") ? line.slice(2) : " ", " ");
    const raw = fromBase64(encoded);
    if (!line.startsWith("\u2014 ") || raw.length < 5) refuse("the checkpoint has a line that is no signature");
    return { name, id: hex(raw.subarray(0, 4)), raw: raw.subarray(4) };
  });
  return { origin: lines[0], size, root: top, text: utf8(body + "\n"), signatures };
}

const linesBy = (note, key) => note.signatures.filter((one) => one.name === key.name && one.id === key.id);

function checkLog(note, key) {
  const lines = key.name === note.origin ? linesBy(note, key) : [];
  if (!lines.length) refuse("the checkpoint is not signed by the log's key");
  for (const { raw } of lines) if (!ed25519(key.public, raw, note.text)) refuse("the checkpoint's signature is wrong");
}

function cosigned(note, witnesses) {
  const found = new Map();
  for (const key of witnesses) {
    for (const { raw } of linesBy(note, key)) {
      const at = big(raw.subarray(0, 8));
      const message = join(utf8(`cosignature/v1\ntime ${at}\n`), note.text);
      if (!ed25519(key.public, raw.subarray(8), message)) refuse(`the cosignature of ${key.name} is wrong`);
      if (at <= 0n || at >= 1n << 63n) refuse(`the cosignature of ${key.name} has no time`);
      const id = hex(key.public);
      if (!found.has(id) || found.get(id).at < at) found.set(id, { name: key.name, at });
    }
  }
  return [...found.values()];
}

// RFC 9162 §2.1.3.2
function included(body, leaf, size, path, top) {
  if (leaf >= size || path.length > 64 || path.some((step) => step.length !== 32)) return false;
  let [fn, sn, result] = [leaf, size - 1n, sha256(join(Uint8Array.of(0), body))];
  for (const step of path) {
    if (sn === 0n) return false;
    if (fn & 1n || fn === sn) {
      result = sha256(join(Uint8Array.of(1), step, result));
      while (!(fn & 1n) && fn) { fn >>= 1n; sn >>= 1n; }
    } else {
      result = sha256(join(Uint8Array.of(1), result, step));
    }
    fn >>= 1n;
    sn >>= 1n;
  }
  return sn === 0n && equal(result, top);
}

// -- records -----------------------------------------------------------------------------------------------------------

const member = (holder, ...names) => names.reduce((one, name) => (one instanceof Map ? one.get(name) : undefined), holder);
const textOf = (holder, ...names) => {
  const found = member(holder, ...names);
  return typeof found === "string" ? found : "";
};
const momentOf = (at) => {
  const number = at instanceof Literal && INTEGER.test(at.text) ? Number(at.text) : NaN;
  const moment = new Date(number);
  const text = Number.isNaN(moment.getTime()) ? "" : moment.toISOString();
  return /^\d{4}-/.test(text) && !text.startsWith("0000") ? text : refuse("a record has no time");
};

function summaryOf(decision, outcome) {
  const reason = textOf(decision, "reason");
  const lines = [
    `Call ${textOf(decision, "call")}: ${textOf(decision, "tool")} of ${textOf(decision, "server")}`,
    `Decided: ${textOf(decision, "verdict")}${reason ? ` (${reason})` : ""}, ${momentOf(decision.get("at"))}`,
    `Arguments: ${textOf(decision, "arguments", "mode")}`,
  ];
  const approval = member(decision, "extra", "approval");
  if (approval instanceof Map && textOf(decision, "verdict") === "allow") {
    const several = approval.get("signatures");
    for (const one of Array.isArray(several) ? several : [approval]) {
      const user = member(one, "user");
      const device = member(one, "method") === "device" ? member(one, "device") : undefined;
      const how = typeof device === "string" ? `, on the device “${device}”, without a passkey` : "";
      const grant = member(one, "grant");
      if (typeof user !== "string") continue;
      const granted = `Granted beforehand by: ${user}, grant ${grant}`;
      lines.push(typeof grant === "string" ? granted : `Approved by: ${user}${how}`);
    }
  }
  const rule = textOf(decision, "extra", "trust", "rule");
  if (rule) lines.push(`Rule: ${rule}`);
  lines.push(`Outcome: ${outcome === null
    ? "not in this receipt" : `${textOf(outcome, "outcome")}, ${momentOf(outcome.get("at"))}`}`);
  return lines;
}

const membersOf = (found, names) => {
  const wanted = names.split(" ");
  const fits = found instanceof Map && found.size === wanted.length && wanted.every((name) => found.has(name));
  return fits ? found : refuse("it has other members than a receipt");
};

function recordOf(found, kind, call, note) {
  const proof = membersOf(found, "record body leaf path");
  const body = fromBase64(proof.get("body"));
  const path = proof.get("path");
  const leaf = proof.get("leaf");
  if (!body.length || !Array.isArray(path) || !(leaf instanceof Literal) || !NUMBER.test(leaf.text)) {
    refuse(`the ${kind} with its proof cannot be read`);
  }
  const record = read(decodeUtf8(body));
  if (member(record, "kind") !== kind || member(record, "call") !== call) refuse(`the ${kind} is of another call, or none`);
  const version = member(record, "v");
  if (!(version instanceof Literal) || version.text !== "1") {
    refuse(`the ${kind} is of a version that is not known here`);
  }
  if (!same(record, proof.get("record"))) {
    refuse(`the readable text of the ${kind} and its exact bytes tell two stories`);
  }
  if (!included(body, BigInt(leaf.text), note.size, path.map(fromBase64), note.root)) {
    refuse(`the ${kind} is not in the log under this checkpoint`);
  }
  return record;
}

// -- the approval ------------------------------------------------------------------------------------------------------

const SIGNATURES = new Map([["webauthn", "assertion"], ["device", "signature"]]);
const isProof = (facts) => SIGNATURES.has(member(facts, "method")) && facts.has(SIGNATURES.get(member(facts, "method")));
const isGrant = (facts) => member(facts, "method") === "grant";
const proofsIn = (facts) => {
  if (isProof(facts)) return [facts];
  if (isGrant(facts)) return member(facts, "signature", "method") === "webauthn" ? [facts.get("signature")].filter(isProof) : [];
  const several = member(facts, "signatures");
  return Array.isArray(several) && several.every(isProof) ? several : [];
};

function checkApproval(facts, tool, form) {
  const signed = proofsIn(facts).map((one) => (one.get("method") === "device" ? checkDevice(one) : checkSignature(one)));
  const different = (values) => new Set(values).size === signed.length;
  if (!different(signed.map((one) => one.user)) || !different(signed.map((one) => one.fingerprint))) {
    refuse("the approval does not hold: one person, passkey or device signed twice");
  }
  if (new Set(signed.map((one) => hex(one.action))).size > 1) {
    refuse("the approval does not hold: the people on record signed for different calls");
  }
  const wanted = facts.get("approvals");
  if (wanted instanceof Literal && INTEGER.test(wanted.text) && BigInt(signed.length) < BigInt(wanted.text)) {
    refuse(`the approval does not hold: ${wanted.text} people had to sign, and ${signed.length} did`);
  }
  if (isGrant(facts)) {
    checkGrant(facts, signed[0], tool, form);
    return { signed, whole: form !== null };
  }
  const server = facts.get("server_id");
  const whole = form !== null && typeof server === "string" && signed.length > 0;
  if (whole) {
    const zero = Uint8Array.of(0);
    const action = sha256(join(utf8(tool), zero, form, zero, utf8(server)));
    if (!signed.every((one) => equal(one.action, action))) {
      refuse("the approval does not hold: another call was signed");
    }
  }
  return { signed, whole };
}

// What a person signed beforehand: for this tool on this server, and the arguments are within it.
function checkGrant(facts, signed, tool, form) {
  const [text, site] = [textOf(facts, "terms"), textOf(facts, "signature", "rp_id")];
  const terms = read(text);
  const zero = Uint8Array.of(0);
  if (!equal(signed.action, sha256(join(utf8("callgate/grant"), zero, utf8(text), zero, utf8(site))))) {
    refuse("the approval does not hold: the passkey signed another grant");
  }
  const said = [textOf(facts, "grant"), textOf(facts, "user"), textOf(facts, "server_id"), tool];
  const named = ["id", "person", "server_id", "tool"].map((name) => textOf(terms, name));
  const format = member(terms, "format");
  const fits = said.every((one, at) => one && one === named[at]) && signed.user === said[1];
  if (!fits || !(format instanceof Literal) || format.text !== "1") {
    refuse("the approval does not hold: the grant is for another call");
  }
  if (form !== null && !within(terms, read(decodeUtf8(form)))) {
    refuse("the approval does not hold: the call is not within the grant");
  }
}

function within(terms, given) {
  const conditions = terms.get("arguments");
  if (!Array.isArray(conditions) || !(given instanceof Map)) return false;
  const named = new Set(conditions.map((one) => textOf(one, "argument")));
  if (![...given.keys()].every((name) => named.has(name))) return false;
  const summed = textOf(terms, "sum_of");
  const amount = given.get(summed);
  if (summed && !(amount instanceof Literal && !amount.text.startsWith("-"))) return false;
  return conditions.every((one) => holdsFor(one, given));
}

function holdsFor(condition, given) {
  const [name, rule] = [textOf(condition, "argument"), textOf(condition, "rule")];
  const wanted = member(condition, "value") ?? null;
  if (rule === "anything") return true;
  if (!given.has(name)) return false;
  const found = given.get(name);
  const alike = (one) => canonical(found) === canonical(one);
  if (rule === "equals") return alike(wanted);
  if (rule === "one_of") return Array.isArray(wanted) && wanted.some(alike);
  if (rule === "starts_with") return typeof found === "string" && typeof wanted === "string" && found.startsWith(wanted);
  if (rule !== "at_most" && rule !== "at_least") return false;
  if (!(found instanceof Literal) || typeof wanted !== "string" || !/^-?[0-9]{1,31}(\.[0-9]{1,31})?$/.test(wanted)) return false;
  const order = compareDecimals(found.text, wanted);
  return rule === "at_most" ? order <= 0 : order >= 0;
}

// Exactly: as whole numbers of their smallest place.
function compareDecimals(one, other) {
  const parts = [one, other].map((text) => {
    const [, sign, whole, part = "", power = "0"] = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?$/.exec(text);
    return { digits: BigInt(`${sign}${whole}${part}`), places: part.length - Number(power) };
  });
  const most = Math.max(...parts.map((one) => one.places));
  const [left, right] = parts.map((one) => one.digits * 10n ** BigInt(most - one.places));
  return left < right ? -1 : left > right ? 1 : 0;
}

// WebAuthn Level 3 §7.2, as far as a record can tell
function checkSignature(facts) {
  const assertion = facts.get("assertion");
  if (!(assertion instanceof Map)) refuse("the approval on record has no signature");
  const part = (name) => fromBase64url(assertion.get(name), name);
  const [clientData, data, signature] = ["client_data", "authenticator_data", "signature"].map(part);
  const key = fromBase64url(facts.get("public_key"), "public_key");
  const action = fromBase64url(facts.get("action_hash"), "action_hash");
  const client = read(decodeUtf8(clientData));
  const challenge = toBase64url(join(fromBase64url(facts.get("nonce"), "nonce"), action));
  if (textOf(client, "type") !== "webauthn.get" || textOf(client, "challenge") !== challenge) {
    refuse("the approval does not hold: another challenge was signed");
  }
  const origin = textOf(client, "origin");
  const crossed = (client.get("crossOrigin") ?? false) !== false && (client.get("topOrigin") ?? null) === null;
  if (!origin || origin !== textOf(facts, "origin") || crossed) {
    refuse("the approval does not hold: it was signed on another page");
  }
  if (!textOf(facts, "user") || !textOf(facts, "credential")) refuse("the approval on record names no person or passkey");
  checkAuthenticator(data, facts, origin);
  if (!verifies(key, signature, join(data, sha256(clientData)))) {
    refuse("the approval does not hold: the signature does not match");
  }
  return { user: textOf(facts, "user"), fingerprint: fingerprint(key), action, origin };
}

// The yes of a device (Callgate's device protocol, version 1): the message is made anew, and never read.
function checkDevice(facts) {
  const texts = ["user", "credential", "device", "challenge", "gateway"].map((name) => textOf(facts, name));
  if (!texts.every(Boolean)) refuse("the approval on record names no person or device");
  const [user, credential, device, challenge, gateway] = texts;
  if (facts.get("decision") !== "yes") refuse("the approval does not hold: the device did not say yes");
  const raw = ["public_key", "signature", "nonce", "action_hash"].map((name) => fromBase64url(facts.get(name), name));
  const [key, signature, nonce, action] = raw;
  const nameOfKey = sha256(utf8(`{"crv":"Ed25519","kty":"OKP","x":"${toBase64url(key)}"}`));
  if (toBase64url(nameOfKey) !== credential) refuse("the approval does not hold: another key has signed");
  const time = facts.get("counter");
  if (!(time instanceof Literal) || !INTEGER.test(time.text)) refuse("the approval on record has no time");
  const message = canonical(new Map([
    ["actionHash", toBase64url(action)], ["challengeId", challenge], ["decision", "yes"], ["gateway", gateway],
    ["key", credential], ["method", "device"], ["nonce", toBase64url(nonce)], ["time", time],
  ]));
  const small = SMALL25519.has(littleEndian(key) & ((1n << 255n) - 1n));
  if (small || !ed25519(key, signature, join(utf8("callgate-device/1 answer\n"), utf8(message)))) {
    refuse("the approval does not hold: the signature does not match");
  }
  return { user, fingerprint: fingerprint(key), action, origin: "", device };
}

function checkAuthenticator(data, facts, origin) {
  const flags = data.length >= 37 ? data[32] : 0;
  if (!(flags & 1) || !(flags & 4) || (flags & 16 && !(flags & 8)) || flags & 64) {
    refuse("the approval does not hold: no person was there and verified");
  }
  if (flags & 128 ? data.length < 38 || data[37] >> 5 !== 5 : data.length !== 37) {
    refuse("the approval does not hold: its authenticator data cannot be read");
  }
  const counter = facts.get("counter");
  const fits = counter instanceof Literal && counter.text === String(big(data.subarray(33, 37)));
  if (!fits || facts.get("backed_up") !== Boolean(flags & 16)) {
    refuse("the approval does not hold: the record names another counter or backup state");
  }
  const given = facts.get("rp_id");
  const site = data.subarray(0, 32);
  const names = typeof given === "string" && given ? [given] : domains(origin);
  if (!names.some((name) => equal(sha256(utf8(name)), site))) {
    refuse("the approval does not hold: it was signed for another site");
  }
}

function domains(origin) {
  try {
    const parts = new URL(origin).hostname.split(".");
    return parts.map((_, at) => parts.slice(at).join("."));
  } catch {
    return [];
  }
}

// A public key as authenticators write it (RFC 9052 §7): ES256, EdDSA or RS256
function verifies(cose, signature, message) {
  const key = cborMap(cose);
  if (key === null) return false;
  const bytes = (name) => (key.get(name) instanceof Uint8Array ? key.get(name) : EMPTY);
  if (key.get(3) === -7 && key.get(1) === 2 && key.get(-1) === 1) {
    return es256(big(bytes(-2)), big(bytes(-3)), signature, message);
  }
  if (key.get(3) === -8 && key.get(1) === 1 && key.get(-1) === 6) return ed25519(bytes(-2), signature, message);
  if (key.get(3) === -257 && key.get(1) === 3) return rs256(big(bytes(-1)), big(bytes(-2)), signature, message);
  return false;
}

function cborMap(data) {
  let at = 0;
  let failed = false;
  const head = () => {
    const kind = data[at] >> 5;
    let value = data[at] & 31;
    at += 1;
    if (value > 23) {
      const width = value > 26 ? 0 : 1 << (value - 24);
      failed ||= !width || at + width > data.length;
      value = failed ? 0 : Number(big(data.subarray(at, at + width)));
      at += width;
    }
    return [kind, value];
  };
  const item = () => {
    const [kind, value] = head();
    if (kind === 0) return value;
    if (kind === 1) return -1 - value;
    failed ||= kind !== 2 || at + value > data.length;
    at += value;
    return failed ? EMPTY : data.subarray(at - value, at);
  };
  const found = new Map();
  const [kind, count] = data.length ? head() : [0, 0];
  for (let left = kind === 5 && count < 32 ? count : 0; left && !failed; left -= 1) {
    const name = item();
    found.set(name, item());
  }
  return failed || kind !== 5 || at !== data.length || found.size !== count ? null : found;
}

function areThose(form, stored, decision) {
  const [hash, salt] = [stored.get("hash"), stored.get("salt")];
  const whole = (bytes) => "sha256:" + hex(sha256(bytes));
  if (typeof hash === "string" && typeof salt === "string") {
    if (!/^([0-9a-fA-F]{2})*$/.test(salt)) return false;
    const bytes = Uint8Array.from(salt.match(/../g) ?? [], (pair) => parseInt(pair, 16));
    return hash === whole(join(bytes, form));
  }
  return decision.get("args_hash") === whole(form);
}

function approvalOf(decision, given) {
  const stored = decision.get("arguments");
  if (!(stored instanceof Map)) refuse("the decision has no arguments");
  let form = null;
  if (given !== null) {
    form = utf8(canonical(read(given)));
    if (!areThose(form, stored, decision)) refuse("these are not the arguments on record");
  }
  const facts = member(decision, "extra", "approval");
  if (facts === undefined || facts === null || decision.get("verdict") !== "allow") return [[], []];
  if (!proofsIn(facts).length) {
    return [[], [["approval", "the approval: the record holds no signature that is known here"]]];
  }
  if (form === null && stored.get("mode") !== "hashed" && !stored.has("hash")) {
    form = utf8(canonical(stored.get("value") ?? null));
    if (!areThose(form, stored, decision)) refuse("the arguments on record are not the ones that were hashed");
  }
  const { signed, whole } = checkApproval(facts, textOf(decision, "tool"), form);
  const verified = signed.map((one) => ["approval", one.device
    ? `key ${one.fingerprint} of the device “${one.device}” has signed yes, without a passkey`
    : `passkey ${one.fingerprint} has signed, a person was there and verified, on ${one.origin}`]);
  const open = [];
  const granted = isGrant(facts);
  const what = granted
    ? "a grant for this tool on this server, and these arguments are within it"
    : "this tool with these arguments on this server";
  if (whole) verified.push(["arguments", `what was signed is ${what}`]);
  else open.push(["arguments", "tool and arguments: they, or the id of the server, are not on record"]);
  for (const one of signed) {
    const what = one.device ? "device" : "passkey";
    open.push(["person", `whose ${what} it is: that it is ${one.user}'s is the log's word`]);
  }
  const fresh = granted
    ? "the grant was in force, and its calls and its sum sufficed: the gateway counted that"
    : "the approval was fresh and used once: the gateway checked that";
  open.push(["fresh", `that ${fresh}`]);
  return [verified, open];
}

function keysOf(note, own, given, witnesses, quorum) {
  const [verified, open] = [[], []];
  if (given) verified.push(["log", `log ${note.origin} has signed it, with the key that you gave`]);
  else {
    open.push(["log",
      `whose log it is: it was checked with the key in the receipt itself, ${fingerprint(own.public)}`]);
  }
  if (witnesses.some((one) => equal(one.public, own.public))) refuse("the log cannot be its own witness");
  const different = new Set(witnesses.map((one) => hex(one.public))).size;
  const wanted = quorum ?? different;
  if (wanted > different) refuse(`${wanted} witnesses have to have cosigned it, and ${different} keys are given`);
  const found = cosigned(note, witnesses);
  if (found.length < wanted) refuse(`${found.length} of these witnesses have cosigned it, and ${wanted} have to`);
  for (const { name, at } of found) {
    verified.push(["witnesses", `${name} has cosigned the log, ${momentOf(new Literal(String(at * 1000n)))}`]);
  }
  if (!found.length) {
    open.push(["witnesses", "that the log was not rewritten by whoever has its key: ask for witnesses"]);
  }
  const held = new Set([note.origin, ...found.map((one) => one.name)]);
  for (const name of new Set(note.signatures.map((one) => one.name))) {
    if (!held.has(name)) open.push(["cosignature", `the cosignature of ${name}: its key was not given`]);
  }
  return [verified, open];
}

// Whether a receipt holds, and what that proves: {holds, problem, summary, verified, not_verified}
function verifyReceipt(text, { key = "", witnesses = [], quorum = null, args = null } = {}) {
  try {
    if (text.length > MAX_RECEIPT) refuse("the file is too large for a receipt");
    const receipt = membersOf(read(text), "format call summary decision outcome checkpoint key");
    if (receipt.get("format") !== FORMAT) refuse("it is no receipt of a format that is known here");
    const texts = ["call", "checkpoint", "key"].map((name) => receipt.get(name));
    if (!texts.every((one) => typeof one === "string")) refuse("it has other members than a receipt");
    const note = readNote(receipt.get("checkpoint"));
    const own = vkey(receipt.get("key"), LOG);
    if (key && vkey(key.trim(), LOG).text !== own.text) {
      refuse("the receipt is signed with another key than the one given");
    }
    checkLog(note, own);
    const given = witnesses.map((one) => vkey(one.trim(), WITNESS));
    const [verified, open] = keysOf(note, own, key, given, quorum);
    const decision = recordOf(receipt.get("decision"), "decision", receipt.get("call"), note);
    verified.push(["decision", "the decision is in the log, to the letter"]);
    let outcome = null;
    if (receipt.get("outcome") !== null) {
      outcome = recordOf(receipt.get("outcome"), "outcome", receipt.get("call"), note);
      verified.push(["outcome", "what became of the call is in the log, to the letter"]);
    } else {
      open.push(["outcome", "what became of the call: the receipt has no outcome, or it was left out"]);
    }
    const summary = summaryOf(decision, outcome);
    if (!same(receipt.get("summary"), summary)) refuse("the summary and the exact bytes tell two stories");
    const [more, less] = approvalOf(decision, args);
    const stored = decision.get("arguments");
    const shown = stored.get("mode") === "hashed" ? "" : canonicalOrNothing(stored.get("value"));
    return { holds: true, problem: "", summary, verified: [...verified, ...more], not_verified: [...open, ...less], shown };
  } catch (error) {
    // What nobody foresaw is no proof either.
    const problem = error instanceof DoesNotHold ? error.message : "the receipt cannot be read";
    return { holds: false, problem, summary: [], verified: [], not_verified: [], shown: "" };
  }
}

function canonicalOrNothing(value) {
  try { return canonical(value ?? null); } catch { return ""; }
}

// -- the page ----------------------------------------------------------------------------------------------------------

if (typeof document !== "undefined") {
  const $ = (id) => document.getElementById(id);
  const line = (mark, text) => {
    const item = document.createElement("li");
    item.className = mark;
    item.textContent = text;
    return item;
  };
  const show = () => {
    const found = verifyReceipt($("receipt").value, {
      key: $("key").value.trim(),
      witnesses: $("witnesses").value.split("\n").filter((one) => one.trim()),
      quorum: $("quorum").value ? Number($("quorum").value) : null,
      args: $("arguments").value.trim() ? $("arguments").value : null,
    });
    $("result").hidden = false;
    $("result").className = found.holds ? "holds" : "refused";
    $("verdict").textContent = found.holds ? "The receipt holds." : "The receipt does not hold.";
    $("problem").textContent = found.problem ? `${found.problem[0].toUpperCase()}${found.problem.slice(1)}.` : "";
    const said = found.shown ? [...found.summary, `With: ${found.shown}`] : found.summary;
    $("summary").replaceChildren(...said.map((text) => line("", text)));
    $("verified").replaceChildren(...found.verified.map(([, text]) => line("yes", text)));
    $("open").replaceChildren(...found.not_verified.map(([, text]) => line("no", text)));
    for (const part of ["said", "proved", "unproved"]) $(part).hidden = !found.holds;
    $("result").dataset.done = String(Number($("result").dataset.done || 0) + 1);
  };
  // What was shown is of what was there then.
  const clear = () => { $("result").hidden = true; };
  $("verify").addEventListener("click", show);
  for (const id of ["receipt", "key", "witnesses", "quorum", "arguments"]) $(id).addEventListener("input", clear);
  $("file").addEventListener("change", async () => {
    const [file] = $("file").files;
    clear();
    if (!file) return;
    try {
      $("receipt").value = file.size > MAX_RECEIPT ? "" : decodeUtf8(new Uint8Array(await file.arrayBuffer()));
    } catch {
      $("receipt").value = "";
    }
    show();
  });
}
globalThis.verifyReceipt = verifyReceipt;
