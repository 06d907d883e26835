"""What a call that needs a person may look like: nothing in it that is neither shown nor signed (SEP-2672 §4.6)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from callgate.approval import Approvals
from callgate.approval.action import from_base64url
from callgate.approval.requirements import ServerApprovalPolicy, names_tool
from callgate.errors import Reason, Refused
from callgate.gate import Call
from callgate.jsonrpc.peeking import decode_leniently

_MEMBERS: Final = frozenset({"name", "arguments", "_meta", "task", "requestState", "inputResponses"})
_SHOWN_CHARS: Final = 60
_NAMES_KEPT: Final = 16_384


def check_characters(name: str) -> None:
    """Refuse a name with control characters: where one reader stops, another reads on."""
    if name.isprintable():
        return
    if any(unicodedata.category(char) == "Cc" for char in name):
        raise Refused(
            Reason.INVALID_PARAMS,
            "a tool's name has no control characters",
            advice="Spell the tool's name exactly as tools/list does.",
        )


def check_name(name: str, gating: ServerApprovalPolicy) -> None:
    """Refuse a name that is on no list, and that a careless reader could take for a tool that needs a person."""
    if gating.catalogue.tool(name) is not None:
        return
    plain = _folded(name)
    alike = any(_folded(other) == plain for other in _gated_names(gating) if other != name)
    if not alike and not gating.listed(name):
        alike = any(names_tool(_folded(pattern), plain) for pattern in gating.section.tools)
    if alike:
        raise Refused(
            Reason.INVALID_PARAMS,
            "the server lists no tool of this name, and it is spelt almost like one that needs a person's approval",
            advice="Spell the tool's name exactly as tools/list does.",
        )


def check_members(params: Mapping[str, Any], *, ours: bool) -> None:
    """Refuse what nobody would see or sign beside the arguments; `ours`: the requestState is the gateway's."""
    if not ours and params.get("requestState") is not None:
        raise Refused(Reason.REQUEST_STATE_INVALID)
    if not ours and params.get("inputResponses") is not None:
        raise Refused(
            Reason.INVALID_PARAMS,
            "a call that needs a person's approval has inputResponses only together with the requestState it was given",
            advice="Send the call without inputResponses.",
        )
    for member in params:
        if member not in _MEMBERS:
            raise Refused(
                Reason.INVALID_PARAMS,
                f"params holds {member[:_SHOWN_CHARS]!r}, which nobody who approves the call would see or sign",
                advice="Send name and arguments, and what belongs to the protocol; put all else into arguments.",
            )


def state_in(call: Call) -> object:
    """The call's `requestState`; most have none, and are not read a second time to find out."""
    # A key can be written otherwise only with escapes.
    if b"requestState" not in call.raw and b"\\u" not in call.raw:
        return None
    return decode_leniently(call.raw)["params"].get("requestState")


def _gated_names(gating: ServerApprovalPolicy) -> Iterator[str]:
    yield from gating.catalogue.marked_names
    yield from filter(gating.listed, gating.catalogue.names)


@lru_cache(_NAMES_KEPT)
def _folded(name: str) -> str:
    """What a careless reader may make of a name: up to a NUL, trimmed, in one case, without what cannot be seen."""
    plain = unicodedata.normalize("NFKC", name.partition("\0")[0])
    return "".join(char for char in plain if unicodedata.category(char) != "Cf").strip().casefold()


async def is_ours(approvals: Approvals, response: Any) -> bool:
    """Whether the challenge in a registration's client data was given out here."""
    inner = response.get("response") if isinstance(response, dict) else None
    text = inner.get("clientDataJSON") if isinstance(inner, dict) else None
    try:
        data = decode_leniently(from_base64url(text)) if isinstance(text, str) else None
        challenge = data.get("challenge") if isinstance(data, dict) else None
        given = from_base64url(challenge) if isinstance(challenge, str) else b""
    except ValueError:
        return False
    return bool(given) and await approvals.shelf.registration(given) is not None
