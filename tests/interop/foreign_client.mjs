// A client of SEP-2672 that shares no code with Callgate: the TypeScript SDK for the wire, and a small authenticator
// on node's own cryptography. Reads answers as strictly as the specification allows and writes a report as JSON.
//
//   node foreign_client.mjs ORIGIN TICKET http URL
//   node foreign_client.mjs ORIGIN TICKET stdio COMMAND ARGUMENT…
import { createHash, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

const KEY = "io.modelcontextprotocol/verified-approval";
const [origin, ticket, transport, ...where] = process.argv.slice(2);
const sha256 = (data) => createHash("sha256").update(data).digest();
const base64url = (data) => Buffer.from(data).toString("base64url");
const Base64Url = z.string().regex(/^[A-Za-z0-9_-]+$/);
const Iso = z.string().datetime();
const Named = z.object({ type: z.literal("public-key"), id: Base64Url, transports: z.array(z.string()).optional() });

const BeginSchema = z.object({
  options: z.object({
    rp: z.object({ id: z.string(), name: z.string() }),
    user: z.object({ id: Base64Url, name: z.string(), displayName: z.string() }),
    challenge: Base64Url,
    pubKeyCredParams: z.array(z.object({ type: z.literal("public-key"), alg: z.number() })).min(1),
    timeout: z.number(),
    attestation: z.literal("none"),
    excludeCredentials: z.array(Named),
    authenticatorSelection: z.object({ userVerification: z.literal("required") }).passthrough(),
  }),
}).strict();
const FinishSchema = z.object({ success: z.literal(true), credentialId: Base64Url, createdAt: Iso }).strict();
const ChallengeSchema = z.object({
  challengeId: z.string().min(16),
  displayText: z.string().min(1),
  expiresAt: Iso,
  requestOptions: z.object({
    challenge: z.string().regex(/^[A-Za-z0-9_-]{86}$/),
    rpId: z.string(),
    allowCredentials: z.array(Named).min(1),
    userVerification: z.literal("required"),
    timeout: z.number(),
  }),
}).strict();

class Authenticator {
  #id = randomBytes(32);
  #pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
  #counter = 0;

  #data(rpId, flags, attested = Buffer.alloc(0)) {
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(++this.#counter);
    return Buffer.concat([sha256(rpId), Buffer.from([flags]), counter, attested]);
  }

  #clientData(type, challenge) {
    return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }));
  }

  #envelope(response) {
    const id = base64url(this.#id);
    const common = { id, rawId: id, type: "public-key", clientExtensionResults: {} };
    return { ...common, authenticatorAttachment: "cross-platform", response };
  }

  create(options) {
    const { x, y } = this.#pair.publicKey.export({ format: "jwk" });
    const point = (text) => Buffer.concat([Buffer.from([0x58, 0x20]), Buffer.from(text, "base64url")]);
    // COSE_Key {1: 2, 3: -7, -1: 1, -2: x, -3: y}
    const cose = Buffer.concat([
      Buffer.from([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21]), point(x), Buffer.from([0x22]), point(y),
    ]);
    const attested = Buffer.concat([Buffer.alloc(16), Buffer.from([0, this.#id.length]), this.#id, cose]);
    const data = this.#data(options.rp.id, 0x45, attested);
    // {"fmt": "none", "attStmt": {}, "authData": data}
    const text = (word) => Buffer.concat([Buffer.from([0x60 + word.length]), Buffer.from(word)]);
    const attestation = Buffer.concat([
      Buffer.from([0xa3]), text("fmt"), text("none"), text("attStmt"), Buffer.from([0xa0]),
      text("authData"), Buffer.from([0x58, data.length]), data,
    ]);
    return this.#envelope({
      clientDataJSON: base64url(this.#clientData("webauthn.create", options.challenge)),
      attestationObject: base64url(attestation),
      transports: ["usb"],
    });
  }

  get(options) {
    const data = this.#data(options.rpId, 0x05);
    const client = this.#clientData("webauthn.get", options.challenge);
    const signature = sign("sha256", Buffer.concat([data, sha256(client)]), this.#pair.privateKey);
    return this.#envelope({
      clientDataJSON: base64url(client),
      authenticatorData: base64url(data),
      signature: base64url(signature),
    });
  }
}

const client = new Client({ name: "foreign", version: "1.0.0" });
await client.connect(
  transport === "http"
    ? new StreamableHTTPClientTransport(new URL(where[0]))
    : new StdioClientTransport({ command: where[0], args: where.slice(1), env: process.env }),
);
const report = { extensions: client.getServerCapabilities()?.extensions ?? null, reasons: {} };
const expectRefusal = async (name, work) => {
  try {
    await work();
    report.reasons[name] = "passed";
  } catch (error) {
    report.reasons[name] = error instanceof McpError ? [error.code, error.data?.reason] : String(error);
  }
};
const call = (name, args, evidence) =>
  client.callTool({ name, arguments: args, ...(evidence ? { _meta: { [KEY]: evidence } } : {}) });
const challenge = (toolName, args) =>
  client.request({ method: "approval/challenge/create", params: { toolName, arguments: args } }, ChallengeSchema);
const passkey = new Authenticator();
const evidence = (issued) => ({
  method: "webauthn", challengeId: issued.challengeId, response: passkey.get(issued.requestOptions),
});

const { tools } = await client.listTools();
const gated = tools.find((tool) => tool.name === "delete_resource");
report.annotation = gated._meta?.[KEY] ?? null;
const wanted = { resourceId: "r-17", note: "naïve ☃ 𝒳", amount: 1e2, nested: { b: [1, -0, null], a: true } };

await expectRefusal("no evidence", () => call("delete_resource", wanted));
await expectRefusal("finish without begin", () =>
  client.request({ method: "approval/enroll/finish", params: { response: passkey.create({ rp: { id: "localhost" }, challenge: "AAAA" }) } }, FinishSchema));
const ticketMeta = ticket === "-" ? {} : { params: { _meta: { "dev.callgate/enrolment-ticket": ticket } } };
const { options } = await client.request({ method: "approval/enroll/begin", ...ticketMeta }, BeginSchema);
const registration = passkey.create(options);
report.enrolled = await client.request({ method: "approval/enroll/finish", params: { response: registration } }, FinishSchema);
await expectRefusal("enrolled twice", () =>
  client.request({ method: "approval/enroll/finish", params: { response: registration } }, FinishSchema));
await expectRefusal("not gated", () => challenge("list_resources", {}));

const first = await challenge("delete_resource", wanted);
report.display = first.displayText;
const proof = evidence(first);
await expectRefusal("other arguments", () => call("delete_resource", { ...wanted, resourceId: "r-18" }, proof));
await expectRefusal("other method", () => call("delete_resource", wanted, { ...proof, method: "totp" }));
const reordered = Object.fromEntries(Object.entries(wanted).reverse());
report.result = (await call("delete_resource", reordered, evidence(first))).content[0].text;
await expectRefusal("replay", () => call("delete_resource", wanted, proof));
await expectRefusal("unknown challenge", () => call("delete_resource", wanted, { ...proof, challengeId: "nowhere" }));

console.log(JSON.stringify(report));
await client.close();
