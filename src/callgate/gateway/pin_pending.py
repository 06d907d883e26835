"""The gateway's own tool: what waits for a reviewer, so that a person in a chat learns why a tool is missing."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from callgate.pinning.judging import Standing, Toolset
from callgate.pinning.model import PENDING_TOOL

_MOST: Final = 50
# Names are the server's words: only those that can be nothing but a name are repeated.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
ENTRY: Final = msgspec.json.encode(
    {
        "name": PENDING_TOOL,
        "title": "Tools that wait for review",
        "description": "Says which tools of this server are hidden until a person has reviewed them, and where that "
        "is done. Takes no arguments and changes nothing.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "openWorldHint": False,
            "inputMetadata": {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"},
            # The names in the answer are the server's own.
            "returnMetadata": {"source": "untrustedPublic", "sensitivity": "none"},
        },
    }
)


def answer(server: str, toolset: Toolset, review: str, *, modern: bool) -> dict[str, Any]:
    """The result of calling it: names and states, never a word of what the tools say."""
    lines = [f"{_count(len(toolset.pending), server)} for a reviewer:"] if toolset.pending else []
    lines += [f"- {_shown(name)}: {_why(toolset.standings[name])}" for name in toolset.pending[:_MOST]]
    if len(toolset.pending) > _MOST:
        lines.append(f"- and {len(toolset.pending) - _MOST} more")
    if toolset.listing.problem:
        lines.append(f"No tool of {server} can be used: {toolset.listing.problem}.")
    lines.append(f"A person reviews tools {review}." if lines else f"No tool of {server} waits for review.")
    result: dict[str, Any] = {"content": [{"type": "text", "text": "\n".join(lines)}], "isError": False}
    return {**result, "resultType": "complete"} if modern else result


def _count(number: int, server: str) -> str:
    return f"1 tool of {server} waits" if number == 1 else f"{number} tools of {server} wait"


def _shown(name: str) -> str:
    return name if _NAME.fullmatch(name) else "a tool with an unusual name"


def _why(standing: Standing) -> str:
    """As a call of it is refused, in a line of a list."""
    if standing.reason is None:
        # Held for a review with another server: the refusal names a tool there, in that server's words.
        return "approved, but not together with another server"
    text = standing.detail or standing.reason.meaning
    return text[:1].lower() + text[1:].rstrip(".")
