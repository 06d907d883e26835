"""What an inspection of a text costs, as the text grows."""

from __future__ import annotations

from callgate.inspection import NO_CONTEXT, InspectionContext, ToolDefinition, inspect
from support.effort import work

_SMALL = 3_000


def grows_with_its_text(piece: str, around: InspectionContext = NO_CONTEXT) -> bool:
    """Whether twice as much of this text is no more than twice the work."""

    def look(size: int) -> int:
        text = (piece * size)[:size]
        entry = {"name": "x", "description": text, "inputSchema": {"title": text}}
        return work(lambda: inspect(ToolDefinition.of(entry), around))

    inspect(ToolDefinition(description=piece), around)
    small, large = look(_SMALL), look(2 * _SMALL)
    return large <= 2.2 * small + 200
