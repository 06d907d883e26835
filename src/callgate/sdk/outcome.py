"""How a call through the approval client can end: one of six, each of which says what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

import msgspec

from callgate.errors import APPROVAL, Reason

if TYPE_CHECKING:
    from mcp_types import CallToolResult

# SEP-2672 §4.10, in the order of the text.
ApprovalReason: TypeAlias = Literal[
    "missing_evidence",
    "unsupported_method",
    "challenge_unknown",
    "challenge_consumed",
    "challenge_expired",
    "challenge_wrong_tool",
    "unknown_credential",
    "authenticator_class_mismatch",
    "signature_verification_failed",
    "signature_counter_regression",
    "argument_hash_mismatch",
    "tool_not_approved_required",
    "no_eligible_credential",
    "credential_already_enrolled",
    "no_pending_enrollment",
    "verification_failed",
]
APPROVAL_REASONS: Final = frozenset(Reason(one) for one in get_args(ApprovalReason))

NotCalledWhy: TypeAlias = Literal[
    "unknown_tool", "tools_wait", "listing_too_large", "unknown_annotation", "capability_missing",
    "arguments_invalid", "challenge_malformed", "no_passkey",
]  # fmt: skip

_OWN: Final = frozenset(Reason)
_SAID_CHARS: Final = 500
_MAYBE_RUN: Final = "The server may have run it: look before you try again."
_NOT_RUN: Final = "Nothing was run. Try again."


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The tool answered; `approved` says whether a person signed for the call or none had to."""

    tool: str
    result: CallToolResult
    approved: bool


class RefusedByServer(msgspec.Struct, frozen=True, tag="refused"):
    """The server did not take the approval, or gave no challenge. `said` is the server's own message."""

    tool: str
    reason: ApprovalReason
    message: str
    advice: str
    said: str


class NotCalled(msgspec.Struct, frozen=True, tag="not_called"):
    """This client made no call, because it could not have been a properly approved one."""

    tool: str
    why: NotCalledWhy
    message: str
    advice: str


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    """The person said no. Nothing was signed and nothing was called."""

    tool: str
    message: str
    advice: str = "Nothing was run."


class TimedOut(msgspec.Struct, frozen=True, tag="timed_out"):
    """Nobody answered in time. `sent` says whether the call had left: then the tool may have run."""

    tool: str
    waiting_for: Literal["person", "server"]
    sent: bool
    message: str
    advice: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Any other error. `code` and `reason` are the server's, if it gave them; `sent` as with TimedOut."""

    tool: str
    message: str
    advice: str
    sent: bool
    code: int | None = None
    reason: str | None = None


class Enrolled(msgspec.Struct, frozen=True, tag="enrolled"):
    """A passkey was made and the server keeps it."""

    credential_id: str


Outcome: TypeAlias = Done | RefusedByServer | NotCalled | Cancelled | TimedOut | Failed

EnrolmentOutcome: TypeAlias = Enrolled | RefusedByServer | NotCalled | Cancelled | TimedOut | Failed


class Stopped(Exception):
    """The ceremony ends here, with this outcome."""

    def __init__(self, outcome: RefusedByServer | NotCalled | Cancelled | TimedOut | Failed) -> None:
        super().__init__(type(outcome).__name__)
        self.outcome = outcome


def refusal(tool: str, code: int, message: str, data: Any, *, sent: bool) -> RefusedByServer | Failed:
    """What a JSON-RPC error means. §4.10: `data.reason` tells; `message` and everything else in `data` do not."""
    given = data.get("reason") if isinstance(data, dict) else None
    reason = Reason(given) if isinstance(given, str) and given in _OWN else None
    said = shorten(message)
    if code == APPROVAL and reason in APPROVAL_REASONS:
        text = f"{tool} was not run: {reason.meaning}"
        return RefusedByServer(tool, cast("ApprovalReason", reason.value), text, reason.advice, said)
    return failure(tool, said, sent=sent, code=code, reason=reason)


def failure(tool: str, said: str, *, sent: bool, code: int | None = None, reason: Reason | None = None) -> Failed:
    """An error that is not SEP-2672's; the gateway's own reasons bring their own advice."""
    own = reason if reason is not None and reason.code == code else None
    advice = own.advice if own is not None else _MAYBE_RUN if sent else _NOT_RUN
    return Failed(tool, f"{tool}: {shorten(said)}", advice, sent, code, own.value if own is not None else None)


def timed_out(tool: str, waiting_for: Literal["person", "server"], *, sent: bool) -> TimedOut:
    """Nobody answered in time."""
    whom = "nobody approved it in time" if waiting_for == "person" else "the server did not answer in time"
    return TimedOut(tool, waiting_for, sent, f"{tool}: {whom}", _MAYBE_RUN if sent else _NOT_RUN)


def not_called(tool: str, why: NotCalledWhy, text: str, advice: str) -> NotCalled:
    """This client makes no call."""
    return NotCalled(tool, why, f"{tool} was not called: {text}", advice)


def shorten(text: object) -> str:
    """A peer's text, short enough to show."""
    whole = str(text)
    return whole if len(whole) <= _SAID_CHARS else f"{whole[:_SAID_CHARS]}…"
