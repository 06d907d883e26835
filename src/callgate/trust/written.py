"""What a call writes: whether a stranger's words may be in it, and by which ids it is known again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from callgate.trust.model import Provenance, SessionLabel, ToolLabel
from callgate.trust.provenance.tracing import OWN_WORDS

# "Created note 7.", "Saved as n-17": a sentence, not a document.
_SENTENCE: Final = 400
_NUMBERED: Final = re.compile(r"[\w-]{0,80}\d[\w-]{0,80}")
_NUMBERS: Final = 16


def taints(tool: ToolLabel, session: SessionLabel, provenance: Provenance) -> bool:
    """Whether what a call writes may hold a stranger's words: all but the user's own may, once some were read."""
    if tool.outcome == "benign":
        return False
    values = provenance.values
    found = {value.found for value in values}
    if "untrusted" in found or provenance.foreign_links:
        return True
    return session.open_world and (not values or not found <= OWN_WORDS)


def things(structured: Any, texts: Iterable[str], *, writes: bool) -> tuple[list[Any], list[str]]:
    """Where ids of things may stand: in the structure and in texts that are one; and, where a call `writes`, what may
    be ids in the short sentence that says so."""
    found = [] if structured is None else [structured]
    ids: list[str] = []
    for text in texts:
        if text.lstrip()[:1] in ("{", "["):
            found.append(_read(text))
        elif writes and len(text) <= _SENTENCE and len(ids) < _NUMBERS:
            ids += _NUMBERED.findall(text)
    return found, ids[:_NUMBERS]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
