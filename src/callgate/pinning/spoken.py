"""What one server's text says of another's tool, told on the pages where nobody would look for it.

The page of the tool that is spoken of: its own text is innocent. And the page of a tool whose approved text is not the
one that is listed now: the server may go back to it at any moment, and nobody has to approve it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from callgate.inspection import ToolFinding

SPOKEN_OF: Final = "shadowing.spoken-of"
_BEFORE: Final = 120
_AFTER: Final = 240
_NAME: Final = 128


def inbound(finding: ToolFinding, server: str, tool: str, entry: Mapping[str, Any]) -> ToolFinding:
    """A finding in a tool of `server`, as the tool that it is about is told of it.

    Never hard: a server could keep everybody else's tools from being approved.
    """
    what = f"{_spelt(tool[:_NAME])} of the server {_spelt(server[:_NAME])} touches it ({finding.rule})"
    if finding.where != "name" and finding.span is not None:
        text = _said(entry, finding, finding.span)
        what += f", in its {_spelt(finding.where[:_NAME])}: “{_around(text, finding.span)}”"
    why = "What another server's text says can change how this tool is used; read that text before both are in use."
    return ToolFinding(SPOKEN_OF, "soft", "", f"{what}.", why, None, server, tool)


def as_approved(finding: ToolFinding) -> ToolFinding:
    """A finding in the approved text of a tool that is listed with another, or not at all: its place is not there."""
    what = f"As it was approved, and may be again at any time: {finding.what}"
    return msgspec.structs.replace(finding, tier="soft", where="", what=what, span=None)


def _around(text: str, span: tuple[int, int]) -> str:
    start, end = max(0, span[0] - _BEFORE), span[1] + _AFTER
    return f"{'…' if start else ''}{_spelt(text[start:end])}{'…' if end < len(text) else ''}"


def _spelt(text: str) -> str:
    """In a sentence of ours: what does not print is spelt out."""
    return "".join(char if char.isprintable() else " " if char in "\n\t" else f"\\u{{{ord(char):x}}}" for char in text)


def _said(entry: Mapping[str, Any], finding: ToolFinding, span: tuple[int, int]) -> str:
    """The text that a finding is in. A key and its value have one path: it is the one with the tool's name in it."""
    from callgate.inspection import InspectionContext, ToolDefinition
    from callgate.inspection.text import fold
    from callgate.inspection.tool_texts import ToolTexts

    texts = [
        one.raw for one in ToolTexts(ToolDefinition.of(entry), InspectionContext()).texts if one.where == finding.where
    ]
    name = fold(finding.tool).text
    return next((text for text in texts if fold(text[slice(*span)]).text == name), texts[0] if texts else "")
