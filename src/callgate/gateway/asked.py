"""A call that needs a person: what is asked of whom, and whether an approval is still one for what holds now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from callgate.approval import Gated, Request, escape
from callgate.approval.ceremony import action_hash_of
from callgate.errors import Reason, Refused
from callgate.gate import Call, Pass
from callgate.gateway.line import Visit, caller_of
from callgate.jsonrpc import RequestId

INPUT: Final = "callgate-approval"
# Who takes back a question that is out of date. No person can have this name.
GATEWAY: Final = "the gateway"
_COMMAND: Final = re.compile(r"`(callgate [^`]*)`")


class PassAsIs(Pass, frozen=True):
    """The call may pass, and evidence in it is for the server, which verifies it itself."""


class Asked:
    """A call that needs a person."""

    __slots__ = ("action", "call", "caller", "gated", "params", "relayed", "rpc_id", "visit")

    def __init__(self, call: Call, visit: Visit, gated: Gated, message: dict[str, Any], *, relayed: bool) -> None:
        self.call = call
        self.visit = visit
        self.gated = gated
        self.relayed = relayed
        self.params: Mapping[str, Any] = message["params"]
        self.rpc_id: RequestId = message["id"]
        self.caller = caller_of(visit)
        self.action = action_hash_of(gated, call.canonical)

    def passes(self, facts: Mapping[str, Any], use: Any = None) -> Pass:
        return (PassAsIs if self.relayed else Pass)({"approval": facts}, use)


def changed(request: Request, gated: Gated, user: str | None) -> str:
    """Why an approval of this request is none for the tool as it is now; empty where it is one."""
    if request.version != gated.version:
        return "the tool has changed since the approval was asked for"
    if request.policy != gated.policy:
        return "what is asked of approvals of this tool has changed since this one was asked for"
    if request.user != user:
        return "somebody else approves calls of this server now"
    return ""


def needed(why: str) -> str:
    """That a person has to approve, and the sentence that says why, without what comes after it."""
    sentence = why.partition("\n")[0].partition(" (rule:")[0].rstrip(".")
    return f"the call needs a person's approval ({sentence})" if sentence else "the call needs a person's approval"


def nobody(problem: str, why: str, advice: str) -> Refused:
    """Whoever would be asked cannot approve; `advice` is what the operator does about it."""
    return Refused(
        Reason.APPROVAL_UNAVAILABLE, f"{needed(why)}, and {problem}", advice=f"{advice} Then send the call again."
    )


class Options(NamedTuple):
    """What names this configuration behind a command that is to be typed: as callers are told it, who may be anywhere,
    and as the operator's log has it."""

    told: str = ""
    logged: str = ""


def with_options(advice: str, options: str) -> str:
    """The advice with options at the end of each command in it, so that it is about the same store when it is typed."""
    return _COMMAND.sub(lambda found: f"`{found[1]}{options}`", advice)


def declined(params: Mapping[str, Any]) -> bool:
    """Whether the client's person said no to our elicitation."""
    responses = params.get("inputResponses")
    ours = responses.get(INPUT) if isinstance(responses, dict) else None
    return isinstance(ours, dict) and ours.get("action") in ("decline", "cancel")


def facts_of(request: Request) -> dict[str, Any]:
    return {"approval": {"request": request.id}}


def message_of(request: Request) -> str:
    return (
        f"The tool {escape(request.tool)} of {request.server} needs your approval. Open the page, read what will be "
        "done, and sign with your passkey or refuse."
    )
