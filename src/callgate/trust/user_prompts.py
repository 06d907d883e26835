"""What the user wrote, as hooks of the client told it: kept as digests, and given to each session of that client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from callgate.protocol import SESSION_META
from callgate.trust.provenance import Memory

# Older ones are in the store by then, with the results that came after them.
_KEPT: Final = 32


class ReportedPrompts:
    """A prompt may come before its session is open, and memory may be made anew: so each call gets what it lacks."""

    def __init__(self, make_memory: Callable[[], Memory]) -> None:
        self._make_memory = make_memory
        self._kept: deque[tuple[str, bytes]] = deque(maxlen=_KEPT)

    def hear(self, texts: Iterable[str], conversation: str) -> None:
        memory = self._make_memory()
        self._kept.append((conversation, b"".join(map(memory.digests_of_prompt, texts))))

    def give(self, memory: Memory, meta: Mapping[str, Any]) -> None:
        """To a session that its client names, only what was said in that conversation."""
        named = meta.get(SESSION_META)
        for conversation, digests in self._kept:
            if named is None or named == conversation:
                memory.remember_digests(digests)
