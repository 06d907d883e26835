// An MCP server with verified approval that shares no code with Callgate: the TypeScript SDK for the wire,
// @simplewebauthn/server for signatures, `canonicalize` for RFC 8785. Follows SEP-2672 §4 with one user in memory.
//
//   node foreign_server.mjs ORIGIN        speaks MCP on stdio; passkeys have to be used on that origin
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema, McpError } from "@modelcontextprotocol/sdk/types.js";
import {
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from "@simplewebauthn/server";
import canonicalize from "canonicalize";
import { z } from "zod";

const KEY = "io.modelcontextprotocol/verified-approval";
const [origin] = process.argv.slice(2);
const rpId = new URL(origin).hostname;
const serverId = randomUUID();
const userId = randomBytes(32);
const passkeys = new Map();
const challenges = new Map();
let enrolling = null;
let runs = 0;

const refuse = (reason, message = reason) => {
  throw new McpError(-32001, message, { reason });
};
const actionHash = (tool, args) =>
  createHash("sha256").update(`${tool}\0${canonicalize(args)}\0${serverId}`, "utf8").digest();

const server = new Server(
  { name: "foreign", version: "1.0.0" },
  { capabilities: { tools: {}, extensions: { verifiedApproval: {} } } },
);

server.setRequestHandler(z.object({ method: z.literal("approval/enroll/begin") }).passthrough(), async () => {
  const options = await generateRegistrationOptions({
    rpID: rpId,
    rpName: "Foreign",
    userID: userId,
    userName: "alice",
    attestationType: "none",
    excludeCredentials: [...passkeys.values()].map(({ id, transports }) => ({ id, transports })),
    authenticatorSelection: { residentKey: "preferred", userVerification: "required" },
  });
  enrolling = options.challenge;
  return { options };
});

const FinishSchema = z.object({
  method: z.literal("approval/enroll/finish"),
  params: z.object({ response: z.record(z.string(), z.unknown()) }).passthrough(),
});
server.setRequestHandler(FinishSchema, async ({ params }) => {
  if (enrolling === null) refuse("no_pending_enrollment");
  const verified = await verifyRegistrationResponse({
    response: params.response,
    expectedChallenge: enrolling,
    expectedOrigin: origin,
    expectedRPID: rpId,
    requireUserVerification: true,
  }).catch((error) => refuse("verification_failed", String(error)));
  if (!verified.verified) refuse("verification_failed");
  enrolling = null;
  const { credential } = verified.registrationInfo;
  passkeys.set(credential.id, { ...credential });
  return { success: true, credentialId: credential.id, createdAt: new Date().toISOString() };
});

const CreateSchema = z.object({
  method: z.literal("approval/challenge/create"),
  params: z.object({ toolName: z.string(), arguments: z.record(z.string(), z.unknown()) }).passthrough(),
});
server.setRequestHandler(CreateSchema, async ({ params }) => {
  if (params.toolName !== "delete_resource") refuse("tool_not_approved_required");
  if (passkeys.size === 0) refuse("no_eligible_credential");
  const hash = actionHash(params.toolName, params.arguments);
  const challenge = Buffer.concat([randomBytes(32), hash]).toString("base64url");
  const challengeId = randomUUID();
  const expires = Date.now() + 60_000;
  challenges.set(challengeId, { tool: params.toolName, hash, challenge, expires, consumed: false });
  return {
    challengeId,
    displayText: `Permanently delete resource ${params.arguments.resourceId}`,
    expiresAt: new Date(expires).toISOString(),
    requestOptions: {
      challenge,
      rpId,
      allowCredentials: [...passkeys.values()].map(({ id, transports }) => ({ type: "public-key", id, transports })),
      userVerification: "required",
      timeout: 60_000,
      hints: ["hybrid"],
    },
  };
});

server.setRequestHandler(ListToolsRequestSchema, async () => ({
  tools: [
    {
      name: "delete_resource",
      description: "Delete a resource for good.",
      inputSchema: { type: "object", required: ["resourceId"], properties: { resourceId: { type: "string" } } },
      _meta: { [KEY]: { required: "verified", authenticatorClass: "cross-platform" } },
    },
    { name: "runs", description: "How often it ran.", inputSchema: { type: "object" } },
  ],
}));

server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
  if (params.name === "runs") return { content: [{ type: "text", text: String(runs) }] };
  const evidence = params._meta?.[KEY];
  if (typeof evidence?.challengeId !== "string" || typeof evidence?.response !== "object") refuse("missing_evidence");
  if (evidence.method !== "webauthn") refuse("unsupported_method");
  const issued = challenges.get(evidence.challengeId) ?? refuse("challenge_unknown");
  if (issued.consumed) refuse("challenge_consumed");
  if (Date.now() >= issued.expires) refuse("challenge_expired");
  if (issued.tool !== params.name) refuse("challenge_wrong_tool");
  const passkey = passkeys.get(evidence.response.id) ?? refuse("unknown_credential");
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response: evidence.response,
    expectedChallenge: issued.challenge,
    expectedOrigin: origin,
    expectedRPID: rpId,
    credential: passkey,
    requireUserVerification: true,
  }).catch((error) => refuse("signature_verification_failed", String(error)));
  if (!verified) refuse("signature_verification_failed");
  if (!actionHash(params.name, params.arguments ?? {}).equals(issued.hash)) refuse("argument_hash_mismatch");
  issued.consumed = true;
  passkey.counter = authenticationInfo.newCounter;
  runs += 1;
  return { content: [{ type: "text", text: `deleted ${params.arguments.resourceId}` }] };
});

await server.connect(new StdioServerTransport());
