"""Everything that can go wrong, and every reason a call can be refused for.

CallgateError
├── Refused            a request or call is not let through; carries a Reason
│   ├── MessageError   the message itself is malformed (JSON-RPC -32700, -32600, -32602, -32020)
│   ├── UpstreamError  the server behind the gate failed
│   └── Spent          what a decision stood on was used up, ran out or was withdrawn before it was durable
│       └── SentBefore the request itself was sent before
├── ConfigError        callgate.toml, a flag or the environment is wrong
├── StoreError         the store cannot be used
│   ├── StoreTooNew    written by a newer Callgate
│   ├── StoreTooOld    needs `callgate store upgrade`
│   └── StoreUnavailable
├── AuditError         the log or a proof does not hold
│   ├── NotInTree      the record is there, and not yet under a checkpoint
│   └── Tampered       names the first record that is not what was written
└── KeyringError       a secret of the gateway is missing, unreadable or readable by others

`Reason` is the single list that the wire, the docs, the metrics and the tests read. reasons.toml says, for each of
them, which HTTP status and JSON-RPC code it becomes, what it means and what a person should do next.
"""

from __future__ import annotations

import tomllib
import traceback
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
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
    APPROVAL_ON_PAGE = "approval_on_page"
    APPROVAL_SIGNED = "approval_signed"
    NOT_ASKED = "not_asked"
    APPROVAL_LIMIT = "approval_limit"
    GRANT_INVALID = "grant_invalid"
    GRANT_ENDED = "grant_ended"
    GRANT_USED_UP = "grant_used_up"
    GRANTS_OFF = "grants_off"
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
        return _table()[self].status

    @property
    def code(self) -> int:
        """The JSON-RPC error code of an answer that carries this reason."""
        code = _table()[self].code
        return -31000 - self.status if code is None else code

    @property
    def meaning(self) -> str:
        """One sentence for people who meet this reason."""
        return _table()[self].meaning

    @property
    def advice(self) -> str:
        """What a person should do next."""
        return _table()[self].advice


class _Row(NamedTuple):
    meaning: str
    advice: str
    status: int = 200
    code: int | None = None


@cache
def _table() -> dict[str, _Row]:
    """What reasons.toml says of each reason."""
    rows = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text(encoding="utf-8"))
    return {name: _Row(**row) for name, row in rows.items()}


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

    # The check that had handed it over, and what the answer says of it.
    check = "approval"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class SentBefore(Spent):
    """The request was sent before. Nothing that it asks for is decided, and it is counted with its sender's others."""

    check = "agents"


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
