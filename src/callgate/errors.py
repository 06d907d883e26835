"""Everything that can go wrong, and every reason a call can be refused for.

CallgateError
├── Refused            a request or call is not let through; carries a Reason
│   ├── MessageError   the message itself is malformed (JSON-RPC -32700, -32600, -32602, -32020)
│   ├── UpstreamError  the server behind the gate failed
│   └── Spent          what a decision stood on was used up, ran out or was withdrawn before it was durable
├── ConfigError        callgate.toml, a flag or the environment is wrong
├── StoreError         the store cannot be used
│   ├── StoreTooNew    written by a newer Callgate
│   ├── StoreTooOld    needs `callgate store upgrade`
│   └── StoreUnavailable
├── AuditError         the log or a proof does not hold
│   ├── NotInTree      the record is there, and not yet under a checkpoint
│   └── Tampered       names the first record that is not what was written
└── KeyringError       a secret of the gateway is missing, unreadable or readable by others

`Reason` is the single list that the wire, the docs, the metrics and the tests read. Its table says, for each reason,
which HTTP status and JSON-RPC code it becomes and what a person should do next.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
HEADER_MISMATCH = -32020
METHOD_NOT_FOUND = -32601
# SEP-2672 §4.10: every refusal of the approval domain; `data.reason` tells them apart.
APPROVAL = -32001


class Reason(StrEnum):
    """Why something was refused, as it appears in `error.data.reason`."""

    # the message
    PARSE_ERROR = "parse_error"
    INVALID_REQUEST = "invalid_request"
    INVALID_PARAMS = "invalid_params"
    DUPLICATE_KEY = "duplicate_key"
    AMBIGUOUS_KEY = "ambiguous_key"
    AMBIGUOUS_METHOD = "ambiguous_method"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    LONE_SURROGATE = "lone_surrogate"
    TOO_DEEP = "too_deep"
    MESSAGE_TOO_LARGE = "message_too_large"
    BATCH_TOO_LARGE = "batch_too_large"
    HEADER_MISMATCH = "header_mismatch"
    # the HTTP request around it
    HOST_NOT_ALLOWED = "host_not_allowed"
    ORIGIN_NOT_ALLOWED = "origin_not_allowed"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    NOT_ACCEPTABLE = "not_acceptable"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    SERVER_UNKNOWN = "server_unknown"
    SESSION_UNKNOWN = "session_unknown"
    SESSION_LIMIT = "session_limit"
    BODY_TIMEOUT = "body_timeout"
    OVERLOADED = "overloaded"
    SHUTTING_DOWN = "shutting_down"
    # the gate
    BLOCKED_BY_POLICY = "blocked_by_policy"
    APPROVAL_UNAVAILABLE = "approval_unavailable"
    CHECK_FAILED = "check_failed"
    CHECK_TIMEOUT = "check_timeout"
    STORE_UNAVAILABLE = "store_unavailable"
    AUDIT_UNAVAILABLE = "audit_unavailable"
    BATCH_REFUSED = "batch_refused"
    INTERNAL_ERROR = "internal_error"
    # who calls: the signature, by the profile of Web Bot Auth
    MISSING_SIGNATURE_HEADERS = "missing_signature_headers"
    SIGNATURE_INPUT_MALFORMED = "signature_input_malformed"
    MISSING_REQUIRED_PARAM = "missing_required_param"
    WRONG_TAG = "wrong_tag"
    UNSUPPORTED_ALG = "unsupported_alg"
    TIMESTAMP_NOT_INTEGER = "timestamp_not_integer"
    WINDOW_TOO_LARGE = "window_too_large"
    CREATED_IN_FUTURE = "created_in_future"
    SIGNATURE_EXPIRED = "signature_expired"
    NONCE_REPLAY = "nonce_replay"
    UNKNOWN_KEYID = "unknown_keyid"
    UNSUPPORTED_COVERED_FIELD = "unsupported_covered_field"
    MISSING_REQUIRED_COVERED_FIELD = "missing_required_covered_field"
    SIGNATURE_MALFORMED = "signature_malformed"
    SIGNATURE_INVALID = "signature_invalid"
    CONTENT_DIGEST_REQUIRED = "content_digest_required"
    CONTENT_DIGEST_INVALID = "content_digest_invalid"
    CONTENT_DIGEST_MISMATCH = "content_digest_mismatch"
    # who calls: what they may
    AGENT_NOT_IN_DIRECTORY = "agent_not_in_directory"
    AGENT_DENIED = "agent_denied"
    TOOL_DENIED = "tool_denied"
    RATE_LIMITED = "rate_limited"
    KYA_REQUIRED = "kya_required"
    KYA_INVALID = "kya_invalid"
    CREDENTIALS_REQUIRED = "credentials_required"
    CREDENTIALS_INVALID = "credentials_invalid"
    # the tools
    TOOL_UNKNOWN = "tool_unknown"
    TOOL_NOT_APPROVED = "tool_not_approved"
    TOOL_CHANGED = "tool_changed"
    TOOL_BLOCKED = "tool_blocked"
    TOOL_UNFIT = "tool_unfit"
    TOOLSET_TOO_LARGE = "toolset_too_large"
    TOOLSET_UNVERIFIED = "toolset_unverified"
    TOOLSET_OUTDATED = "toolset_outdated"
    SERVER_LIMIT = "server_limit"
    SET_NOT_REVIEWED = "set_not_reviewed"
    PIN_TAMPERED = "pin_tampered"
    FINDINGS_NOT_OVERRIDDEN = "findings_not_overridden"
    SCHEMA_REFUSED = "schema_refused"
    NOT_A_REVIEWER = "not_a_reviewer"
    ROLE_NEEDED = "role_needed"
    LAST_OPERATOR = "last_operator"
    SIGNATURE_NEEDED = "signature_needed"
    PAGE_OUTDATED = "page_outdated"
    # the data
    RULE_BLOCKED = "rule_blocked"
    RESULT_WITHHELD = "result_withheld"
    POLICY_INVALID = "policy_invalid"
    QUARANTINE_UNKNOWN = "quarantine_unknown"
    AGENT_SESSION_UNKNOWN = "agent_session_unknown"
    # verified approval, SEP-2672 §4.10: the call
    MISSING_EVIDENCE = "missing_evidence"
    UNSUPPORTED_METHOD = "unsupported_method"
    CHALLENGE_UNKNOWN = "challenge_unknown"
    CHALLENGE_CONSUMED = "challenge_consumed"
    CHALLENGE_EXPIRED = "challenge_expired"
    CHALLENGE_WRONG_TOOL = "challenge_wrong_tool"
    UNKNOWN_CREDENTIAL = "unknown_credential"
    AUTHENTICATOR_CLASS_MISMATCH = "authenticator_class_mismatch"
    SIGNATURE_VERIFICATION_FAILED = "signature_verification_failed"
    SIGNATURE_COUNTER_REGRESSION = "signature_counter_regression"
    ARGUMENT_HASH_MISMATCH = "argument_hash_mismatch"
    # the challenge, the enrolment
    TOOL_NOT_APPROVED_REQUIRED = "tool_not_approved_required"
    NO_ELIGIBLE_CREDENTIAL = "no_eligible_credential"
    CREDENTIAL_ALREADY_ENROLLED = "credential_already_enrolled"
    NO_PENDING_ENROLLMENT = "no_pending_enrollment"
    VERIFICATION_FAILED = "verification_failed"
    # verified approval, our own
    ENROLMENT_NOT_AUTHORISED = "enrolment_not_authorised"
    ARGUMENTS_INVALID = "arguments_invalid"
    APPROVAL_REFUSED = "approval_refused"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_DECIDED = "approval_decided"
    APPROVAL_LIMIT = "approval_limit"
    REQUEST_STATE_INVALID = "request_state_invalid"
    METHOD_NOT_FOUND = "method_not_found"
    USER_EXISTS = "user_exists"
    USER_UNKNOWN = "user_unknown"
    SIGN_IN_FAILED = "sign_in_failed"
    SIGN_IN_NEEDED = "sign_in_needed"
    FORGED_REQUEST = "forged_request"
    PAGE_UNKNOWN = "page_unknown"
    # the server behind the gate
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    UPSTREAM_GARBAGE = "upstream_garbage"
    UPSTREAM_CLOSED = "upstream_closed"
    UPSTREAM_REDIRECT = "upstream_redirect"
    UPSTREAM_ENCODING = "upstream_encoding"
    UPSTREAM_TOO_LARGE = "upstream_too_large"
    UPSTREAM_START_FAILED = "upstream_start_failed"

    @property
    def status(self) -> int:
        """The HTTP status of an answer that carries this reason."""
        return _TABLE[self].status

    @property
    def code(self) -> int:
        """The JSON-RPC error code of an answer that carries this reason."""
        return _TABLE[self].code

    @property
    def meaning(self) -> str:
        """One sentence for people who meet this reason."""
        return _TABLE[self].meaning

    @property
    def advice(self) -> str:
        """What a person should do next."""
        return _TABLE[self].advice


class _Row(NamedTuple):
    status: int
    code: int
    meaning: str
    advice: str


def _app(status: int) -> int:
    # JSON-RPC 2.0 §5.1 leaves everything outside -32768..-32000 to applications: the HTTP status stays readable in it.
    return -31000 - status


def _row(status: int, meaning: str, advice: str, code: int | None = None) -> _Row:
    return _Row(status, _app(status) if code is None else code, meaning, advice)


def _sep(meaning: str, advice: str) -> _Row:
    return _Row(200, APPROVAL, meaning, advice)


def _tool(meaning: str, advice: str, code: int | None = None) -> _Row:
    # An answer to the call, so with HTTP status 200, as for approvals below.
    return _Row(200, _app(403) if code is None else code, meaning, advice)


_TABLE: dict[Reason, _Row] = {
    Reason.PARSE_ERROR: _row(
        400, "The message is not valid JSON.", "Send one UTF-8 JSON text per message.", PARSE_ERROR
    ),
    Reason.INVALID_REQUEST: _row(
        400,
        "The message is not a JSON-RPC 2.0 request, notification, response or batch.",
        'Send an object with "jsonrpc": "2.0" and a method, or a result or error with its id.',
        INVALID_REQUEST,
    ),
    Reason.INVALID_PARAMS: _row(
        400,
        "The parameters of the call are not of the form its method asks for.",
        "A tools/call takes an object with a string `name` and, if any, an object `arguments`.",
        INVALID_PARAMS,
    ),
    Reason.DUPLICATE_KEY: _row(
        400,
        "An object in the message has the same key twice, so two readers could see two different calls.",
        "Send each key once.",
        INVALID_PARAMS,
    ),
    Reason.AMBIGUOUS_KEY: _row(
        400,
        "A key differs from a protocol key only in upper and lower case; some servers would read it as that key.",
        "Spell protocol keys exactly as the specification does.",
        INVALID_REQUEST,
    ),
    Reason.AMBIGUOUS_METHOD: _row(
        400,
        "The method is spelt so that some servers would read another method than the gate does.",
        "Spell methods exactly as the specification does, in printable characters.",
        INVALID_REQUEST,
    ),
    Reason.NUMBER_OUT_OF_RANGE: _row(
        400,
        "A number is NaN, infinite, or an integer beyond ±(2^53−1), which readers do not agree on.",
        "Send large integers as strings.",
        INVALID_PARAMS,
    ),
    Reason.LONE_SURROGATE: _row(
        400, "A string holds half of a surrogate pair.", "Send well-formed Unicode text.", INVALID_PARAMS
    ),
    Reason.TOO_DEEP: _row(
        400, "The message is nested too deeply.", "Flatten it, or raise limits.depth.", INVALID_REQUEST
    ),
    Reason.MESSAGE_TOO_LARGE: _row(
        413, "The message is larger than this gateway takes.", "Send less, or raise limits.message_bytes."
    ),
    Reason.BATCH_TOO_LARGE: _row(
        413, "The batch has more messages than this gateway takes.", "Split it, or raise limits.batch."
    ),
    Reason.HEADER_MISMATCH: _row(
        400,
        "A request header says something else than the body.",
        "Make MCP-Protocol-Version, Mcp-Method, Mcp-Name and the Mcp-Param headers that the tool's definition asks for "
        "repeat what the body says.",
        HEADER_MISMATCH,
    ),
    Reason.HOST_NOT_ALLOWED: _row(
        403,
        "The Host header names a host this gateway does not answer for (DNS rebinding guard).",
        "Use the address the gateway listens on, or add the host to gateway.allowed_hosts.",
    ),
    Reason.ORIGIN_NOT_ALLOWED: _row(
        403,
        "The request comes from a web page of another origin.",
        "Add the origin to gateway.allowed_origins if you trust that page.",
    ),
    Reason.UNSUPPORTED_MEDIA_TYPE: _row(
        415,
        "The body is not plain application/json in UTF-8.",
        "Send Content-Type: application/json and no Content-Encoding.",
    ),
    Reason.NOT_ACCEPTABLE: _row(
        406,
        "The client does not accept the form this answer has.",
        "Send Accept: application/json, text/event-stream.",
    ),
    Reason.METHOD_NOT_ALLOWED: _row(405, "This endpoint does not take that HTTP method.", "Use POST, GET or DELETE."),
    Reason.SERVER_UNKNOWN: _row(
        404,
        "No server of that name is configured.",
        "Add it to callgate.toml; `callgate check` lists the servers.",
    ),
    Reason.SESSION_UNKNOWN: _row(
        404, "The session does not exist or has ended.", "Start a new session with `initialize`."
    ),
    Reason.SESSION_LIMIT: _row(
        503,
        "The server already has as many sessions as allowed.",
        "Try again later, or raise limits.sessions, or limits.processes if the server is started by a command.",
    ),
    Reason.BODY_TIMEOUT: _row(
        408, "The request was not sent in full in time.", "Send it faster, or raise limits.body_seconds."
    ),
    Reason.OVERLOADED: _row(503, "Too many requests are under way.", "Try again shortly."),
    Reason.SHUTTING_DOWN: _row(503, "The gateway is shutting down.", "Try again when it is back."),
    Reason.BLOCKED_BY_POLICY: _row(
        403,
        "The kill switch is on: nothing is let through.",
        "An operator turns it off with `callgate block-all off`.",
    ),
    Reason.APPROVAL_UNAVAILABLE: _row(
        200,
        "The call needs a person's approval and none can be asked for here.",
        "Ask the operator to set approval up.",
        _app(403),
    ),
    Reason.CHECK_FAILED: _row(
        503,
        "A check could not decide, so the call was refused.",
        "Look for `check failed` in the gateway's log.",
    ),
    Reason.CHECK_TIMEOUT: _row(
        503,
        "A check took too long, so the call was refused.",
        "Try again; if it stays, look at the gateway's log.",
    ),
    Reason.STORE_UNAVAILABLE: _row(
        503,
        "The store did not answer, so the call was refused.",
        "Run `callgate store check` where the gateway runs.",
    ),
    Reason.AUDIT_UNAVAILABLE: _row(
        503,
        "The decision could not be recorded, so the call was refused.",
        "Run `callgate store check` where the gateway runs; look at free disk space.",
    ),
    Reason.BATCH_REFUSED: _row(403, "Another message of the same batch was refused.", "Send the messages one by one."),
    Reason.INTERNAL_ERROR: _row(
        500, "The gateway failed, so nothing was let through.", "Look for `request failed` in the gateway's log."
    ),
    Reason.TOOL_UNKNOWN: _tool(
        "The server lists no tool of that name.", "Ask for tools/list, and call what is on it.", INVALID_PARAMS
    ),
    Reason.TOOL_NOT_APPROVED: _tool(
        "Nobody has approved this tool yet.", "A reviewer looks at it with `callgate review` or in the console."
    ),
    Reason.TOOL_CHANGED: _tool(
        "The tool is not the one that was approved: its description or its input schema is another by now.",
        "A reviewer looks at the difference with `callgate review` or in the console.",
    ),
    Reason.TOOL_BLOCKED: _tool(
        "A reviewer has blocked this tool.", "Do without it, or ask the reviewer; `callgate tools list` says why."
    ),
    Reason.TOOL_UNFIT: _tool(
        "The tool's definition is too large, or two readers could read two things in it: nobody can approve it.",
        "`callgate tools list` says what is wrong; the server's author puts it right.",
    ),
    Reason.TOOLSET_TOO_LARGE: _tool(
        "The server's list of tools is larger than this gateway takes, so none of them can be called.",
        "Let the server offer fewer tools, or raise pinning.list_tools, list_bytes or list_tokens.",
    ),
    Reason.TOOLSET_UNVERIFIED: _tool(
        "The server's tools have not been checked since it connected or changed, so the call was refused.",
        "Ask for tools/list and try again; `callgate tools servers` says when each server was checked.",
    ),
    Reason.TOOLSET_OUTDATED: _tool(
        "The list of tools that the caller goes by is no longer the one in force.",
        "Ask for tools/list again, and call what is on it.",
    ),
    Reason.SERVER_LIMIT: _tool(
        "As many servers are connected as agents may see together.",
        "Disconnect one, raise pinning.servers, or put this one into a group of its own (servers.NAME.pinning.group).",
    ),
    Reason.SET_NOT_REVIEWED: _tool(
        "This tool speaks of another server's tools, and nobody has reviewed the two servers together.",
        "A reviewer looks at both with `callgate review` or in the console.",
    ),
    Reason.PIN_TAMPERED: _tool(
        "The stored approvals are not as they were written, so no tool can be called.",
        "Run `callgate tools verify` where the gateway runs.",
    ),
    Reason.FINDINGS_NOT_OVERRIDDEN: _row(
        409,
        "The inspection found something in this tool that approving it has to overrule.",
        "Read the findings; `--override` approves the tool all the same, and says so in the log.",
    ),
    Reason.SCHEMA_REFUSED: _row(
        409,
        "The tool's input schema takes nearly anything, and pinning.strict_schemas lets nobody approve that.",
        "Let the server's author name and type its arguments, or block the tool.",
    ),
    Reason.NOT_A_REVIEWER: _row(
        403,
        "This person may not decide which tools are used.",
        "Ask an operator, or one of those whom pinning.reviewers names.",
    ),
    Reason.ROLE_NEEDED: _row(
        403,
        "This person may look at this, not change it.",
        "Ask an operator, or have one run `callgate users role NAME operator`.",
    ),
    Reason.LAST_OPERATOR: _row(
        409,
        "Nobody would be left who may change anything.",
        "Make somebody else an operator first: `callgate users role NAME operator`.",
    ),
    Reason.SIGNATURE_NEEDED: _row(
        403,
        "This takes the signature of a passkey.",
        "Load the page again and use its button: it asks for the passkey.",
    ),
    Reason.PAGE_OUTDATED: _row(
        409,
        "What the page shows is no longer so. Nothing was changed.",
        "Load the page again, look at what it shows now, then decide.",
    ),
    Reason.MISSING_SIGNATURE_HEADERS: _row(
        401,
        "The request carries no signature, so nobody knows who sends it.",
        "Sign it as Web Bot Auth says (`callgate agents sign` shows how), or use another credential that is accepted.",
    ),
    Reason.SIGNATURE_INPUT_MALFORMED: _row(
        400,
        "Signature-Input is not a dictionary of inner lists.",
        "Follow RFC 9421 §4.1; `callgate agents verify` tells what is wrong with a request.",
    ),
    Reason.MISSING_REQUIRED_PARAM: _row(
        400,
        "The signature lacks a parameter that is needed.",
        "Give created, expires, keyid and tag, and a nonce where the gate asks for one.",
    ),
    Reason.WRONG_TAG: _row(
        401, "No signature of the request has the tag web-bot-auth.", 'Sign with the parameter tag="web-bot-auth".'
    ),
    Reason.UNSUPPORTED_ALG: _row(
        400,
        "The algorithm of the signature, or the type of its key, is not taken here.",
        "Sign with Ed25519, ECDSA P-256 or RSA-PSS with SHA-512.",
    ),
    Reason.TIMESTAMP_NOT_INTEGER: _row(
        400, "created or expires is no integer.", "Give both in whole seconds since 1970."
    ),
    Reason.WINDOW_TOO_LARGE: _row(
        401, "The signature is valid for longer than is taken here.", "Let it expire sooner after it was created."
    ),
    Reason.CREATED_IN_FUTURE: _row(
        401, "The signature was created in the future.", "Set the clock of the agent's machine."
    ),
    Reason.SIGNATURE_EXPIRED: _row(
        401, "The signature has expired.", "Sign each request anew, just before it is sent."
    ),
    Reason.NONCE_REPLAY: _row(
        401, "A request with this nonce came before.", "Give each request a nonce of its own and sign it anew."
    ),
    Reason.UNKNOWN_KEYID: _row(
        401,
        "No directory that is used here has the key of this signature.",
        "Publish the key in the directory that Signature-Agent names, or have the operator add it with "
        "`callgate agents add`.",
    ),
    Reason.UNSUPPORTED_COVERED_FIELD: _row(
        400,
        "The signature covers something that cannot be rebuilt here.",
        "Cover only components that RFC 9421 §2 defines for requests.",
    ),
    Reason.MISSING_REQUIRED_COVERED_FIELD: _row(
        400,
        "The signature does not cover what it has to.",
        "Cover @authority or @target-uri, and signature-agent where that header is sent.",
    ),
    Reason.SIGNATURE_MALFORMED: _row(
        400,
        "There is no byte sequence in Signature for this label.",
        "Send a signature under each label, RFC 9421 §4.2.",
    ),
    Reason.SIGNATURE_INVALID: _row(
        401,
        "The signature does not fit the request.",
        "Sign exactly what is sent; `callgate agents verify` shows the signature base of a request.",
    ),
    Reason.CONTENT_DIGEST_REQUIRED: _row(
        400,
        "The request has to bind its body to the signature, and does not.",
        "Send Content-Digest (RFC 9530) with sha-256 or sha-512, and cover it.",
    ),
    Reason.CONTENT_DIGEST_INVALID: _row(
        401, "Content-Digest cannot be read, or has no algorithm that is taken here.", "Send sha-256 or sha-512."
    ),
    Reason.CONTENT_DIGEST_MISMATCH: _row(
        401, "The body is not the one that was digested.", "Digest exactly the bytes that are sent."
    ),
    Reason.AGENT_NOT_IN_DIRECTORY: _row(
        403,
        "The signature is good, but nobody listed this agent here.",
        "The operator adds it with `callgate agents add`.",
    ),
    Reason.AGENT_DENIED: _row(403, "This agent is not let in.", "Ask the operator; `callgate agents why` tells them."),
    Reason.TOOL_DENIED: _row(
        403, "This agent may not call this tool.", "Ask the operator; `callgate agents why` tells them."
    ),
    Reason.RATE_LIMITED: _row(
        429, "This agent has used up what it may do for now.", "Wait as long as Retry-After says, then go on."
    ),
    Reason.KYA_REQUIRED: _row(
        401, "The request has to carry a token that says on whose behalf the agent acts.", "Send the token as well."
    ),
    Reason.KYA_INVALID: _row(
        401, "The token that says on whose behalf the agent acts is not valid here.", "Get a new one for this audience."
    ),
    Reason.CREDENTIALS_REQUIRED: _row(
        401,
        "The request carries nothing that says who sends it.",
        "Sign it, or send a bearer token or API key that is accepted here.",
    ),
    Reason.CREDENTIALS_INVALID: _row(
        401, "The token or key of the request is not valid here.", "Get a new one; the operator can make an API key."
    ),
    Reason.RULE_BLOCKED: _tool(
        "A rule of the policy forbids this call.",
        "Do it another way, or ask the operator; `callgate policy explain CALL` tells them why.",
    ),
    Reason.RESULT_WITHHELD: _row(
        503,
        "The call was made, but its result cannot be passed on: what it is could not be written down.",
        "Do not send the call again unread: it has happened. Run `callgate store check` where the gateway runs.",
    ),
    Reason.POLICY_INVALID: _row(
        500, "The policy cannot be used as it is written.", "Run `callgate policy check` and follow what it says."
    ),
    Reason.QUARANTINE_UNKNOWN: _row(
        404, "No result is held under this handle.", "`callgate quarantine list` shows those that are."
    ),
    Reason.AGENT_SESSION_UNKNOWN: _row(
        404, "There is no agent session of that name.", "`callgate session list` shows those that are remembered."
    ),
    # An approval error is an answer to the call, so it travels with HTTP status 200: several clients show nothing of
    # a JSON-RPC error that comes with another one.
    Reason.MISSING_EVIDENCE: _sep(
        "The call needs a person's approval and carries no well-formed evidence of one.",
        "Ask for a challenge with approval/challenge/create, have it signed, and send the call with the evidence.",
    ),
    Reason.UNSUPPORTED_METHOD: _sep(
        "The approval evidence is of a kind that is not taken here.", 'Send evidence with the method "webauthn".'
    ),
    Reason.CHALLENGE_UNKNOWN: _sep(
        "The approval names a challenge that was never issued here, or long ago.", "Ask for a new challenge."
    ),
    Reason.CHALLENGE_CONSUMED: _sep(
        "The approval was used before; each one lets a single call through.", "Ask for a new challenge."
    ),
    Reason.CHALLENGE_EXPIRED: _sep("The approval came too late.", "Ask for a new challenge and sign it in time."),
    Reason.CHALLENGE_WRONG_TOOL: _sep(
        "The approval was given for another tool.", "Ask for a challenge for the tool that is called."
    ),
    Reason.UNKNOWN_CREDENTIAL: _sep(
        "The passkey is not one that this person could use for this approval.",
        "Sign with one of the passkeys that the challenge lists; `callgate credentials list` shows them.",
    ),
    Reason.AUTHENTICATOR_CLASS_MISMATCH: _sep(
        "The passkey is of a class that this tool does not take.",
        "Sign with a security key or a phone, or add one with `callgate enroll USER`.",
    ),
    Reason.SIGNATURE_VERIFICATION_FAILED: _sep(
        "The passkey's signature does not hold for this approval.", "Ask for a new challenge and sign that one."
    ),
    Reason.SIGNATURE_COUNTER_REGRESSION: _sep(
        "The passkey's counter did not grow: there may be a copy of it.",
        "Find out whether it was copied; `callgate credentials revoke ID` withdraws it.",
    ),
    Reason.ARGUMENT_HASH_MISMATCH: _sep(
        "The approval was given for other arguments than the call has.",
        "Send the call exactly as it was approved, or have this one approved.",
    ),
    Reason.TOOL_NOT_APPROVED_REQUIRED: _sep(
        "No tool of that name needs an approval here.", "Call it without one; tools/list marks those that do."
    ),
    Reason.NO_ELIGIBLE_CREDENTIAL: _sep(
        "The person who would have to approve has no passkey that this tool takes.",
        "Enrol one with `callgate enroll USER`.",
    ),
    Reason.CREDENTIAL_ALREADY_ENROLLED: _sep("This passkey is enrolled already.", "Use it, or enrol another one."),
    Reason.NO_PENDING_ENROLLMENT: _sep(
        "No enrolment is under way that this answers, or its time is over.", "Begin again with approval/enroll/begin."
    ),
    Reason.VERIFICATION_FAILED: _sep(
        "The new passkey's registration does not hold.", "Begin again, on the page that the enrolment link opens."
    ),
    Reason.ENROLMENT_NOT_AUTHORISED: _row(
        200,
        "Enrolling a passkey needs an unused enrolment ticket.",
        "Get one with `callgate enroll USER`.",
        INVALID_PARAMS,
    ),
    Reason.ARGUMENTS_INVALID: _row(
        200,
        "The arguments do not fit the tool's input schema.",
        "Send arguments as the tool's inputSchema in tools/list says.",
        INVALID_PARAMS,
    ),
    Reason.APPROVAL_REFUSED: _row(
        200, "A person looked at this call and refused it.", "Do not try it again unless they ask for it.", _app(403)
    ),
    Reason.APPROVAL_EXPIRED: _row(
        200, "The approval's time is over.", "Send the call again to have it approved anew.", _app(408)
    ),
    Reason.APPROVAL_DECIDED: _row(
        409, "This call was approved or refused before.", "Send the call again if it is still wanted."
    ),
    Reason.APPROVAL_LIMIT: _row(
        200,
        "Too many approvals are open already.",
        "Wait until some are decided or have run out, then try again.",
        _app(429),
    ),
    Reason.REQUEST_STATE_INVALID: _row(
        200,
        "The requestState is not one that was given out for this call, or its time is over.",
        "Send the call again without requestState.",
        INVALID_PARAMS,
    ),
    Reason.METHOD_NOT_FOUND: _row(
        404, "There is no such method here.", "See what the server's capabilities offer.", METHOD_NOT_FOUND
    ),
    Reason.USER_EXISTS: _row(409, "There is a user of that name already.", "`callgate users list` shows them."),
    Reason.USER_UNKNOWN: _row(
        404, "There is no user of that name.", "`callgate users list` shows them; `callgate enroll USER` adds one."
    ),
    Reason.SIGN_IN_FAILED: _row(401, "Signing in with this passkey failed.", "Try again with an enrolled passkey."),
    Reason.SIGN_IN_NEEDED: _row(401, "This page is for people who have signed in.", "Sign in with your passkey."),
    Reason.FORGED_REQUEST: _row(
        403, "The request does not come from a page of this console.", "Open the page again and use its buttons."
    ),
    Reason.PAGE_UNKNOWN: _row(
        404, "There is no such page, or nothing on it that is for you.", "Start at the console's first page."
    ),
    Reason.UPSTREAM_UNREACHABLE: _row(
        502,
        "The server behind the gateway cannot be reached.",
        "Check that it runs and that its url is right.",
    ),
    Reason.UPSTREAM_TIMEOUT: _row(
        504,
        "The server behind the gateway did not answer in time.",
        "Try again, or raise the server's timeout.",
    ),
    Reason.UPSTREAM_GARBAGE: _row(
        502,
        "The server behind the gateway answered with something that is not MCP.",
        "Look at that server's log.",
    ),
    Reason.UPSTREAM_CLOSED: _row(
        502,
        "The server behind the gateway ended the connection in the middle of an answer.",
        "Look at its log.",
    ),
    Reason.UPSTREAM_REDIRECT: _row(
        502,
        "The server answered with a redirect, which would lead the client around the gate.",
        "Configure the final address as the server's url.",
    ),
    Reason.UPSTREAM_ENCODING: _row(
        502, "The server compressed its answer although asked not to.", "Turn compression off on that server."
    ),
    Reason.UPSTREAM_TOO_LARGE: _row(
        502, "The server's answer is larger than this gateway takes.", "Raise limits.message_bytes."
    ),
    Reason.UPSTREAM_START_FAILED: _row(
        502, "The server's command could not be started.", "Run the command by hand and read what it says."
    ),
}


class CallgateError(Exception):
    """The root of everything Callgate raises on purpose."""

    advice: str = ""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        if advice:
            self.advice = advice


class Refused(CallgateError):
    """A request or call that is not let through."""

    def __init__(
        self,
        reason: Reason,
        detail: str = "",
        *,
        code: int | None = None,
        advice: str = "",
        data: Mapping[str, Any] = MappingProxyType({}),
        status: int | None = None,
    ) -> None:
        super().__init__(detail or reason.meaning, advice=advice or reason.advice)
        self.reason = reason
        # Another HTTP status than the reason's own, where one reason has two.
        self._status = status
        # Further members of the error's `data`, beside reason and advice.
        self.data = data
        self.code = reason.code if code is None else code

    @property
    def status(self) -> int:
        return self.reason.status if self._status is None else self._status


class MessageError(Refused):
    """A message that is not the JSON-RPC it has to be."""


class UpstreamError(Refused):
    """The server behind the gate failed."""


class Spent(Refused):
    """What a decision stood on was used up, ran out or was withdrawn before the decision was durable."""


class Problem(NamedTuple):
    """One thing to put right in a configuration: where it is and what is wrong with it."""

    source: str
    line: int | None
    key: str
    text: str

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{place}: {self.key}: {self.text}" if self.key else f"{place}: {self.text}"


class ConfigError(CallgateError):
    """callgate.toml, a flag or the environment is wrong; `problems` has every part of it."""

    def __init__(self, message: str = "", *, advice: str = "", problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message or "\n".join(str(problem) for problem in problems), advice=advice)
        self.problems = problems


class StoreError(CallgateError):
    """The store cannot be used."""


class StoreTooNew(StoreError):
    """The store was written by a newer Callgate."""


class StoreTooOld(StoreError):
    """The store needs an upgrade first."""


class StoreUnavailable(StoreError):
    """The store does not answer: locked, full, gone or unreachable."""


class AuditError(CallgateError):
    """The log or a proof does not hold."""


class NotInTree(AuditError):
    """A record that no checkpoint covers yet."""


class Tampered(AuditError):
    """A stored record is not what was written; `record` is the first such one, if it can be told."""

    def __init__(self, message: str, *, record: int | None = None, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.record = record


class KeyringError(CallgateError):
    """A secret of the gateway is missing, unreadable or readable by others."""


def place(error: BaseException) -> str:
    """What broke and where, fit for a log: the text of an exception may hold an argument or a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
