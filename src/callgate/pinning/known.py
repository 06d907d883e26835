"""What the decisions say of servers that are no longer, or not yet, the one before us."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from callgate.pinning.book import Book
from callgate.pinning.model import Pin


class Known:
    """The decisions in force by lineage and by name, as of one version of the book."""

    def __init__(self, book: Book) -> None:
        self._identities: dict[str, dict[str, int]] = {}
        self._names: dict[str, dict[str, tuple[int, str]]] = {}
        self._blocked: dict[tuple[str, str], list[Pin]] = {}
        self.pins: dict[str, list[Pin]] = {}
        for pin in book.pins():
            self.pins.setdefault(pin.server_id, []).append(pin)
            if pin.action == "block":
                self._blocked.setdefault((pin.lineage, pin.tool), []).append(pin)
            if pin.action == "approve":
                of_lineage = self._identities.setdefault(pin.lineage, {})
                of_lineage[pin.server_id] = max(of_lineage.get(pin.server_id, 0), pin.seq)
                self._names.setdefault(pin.server, {})[pin.lineage] = (pin.seq, pin.server_id)

    def former_identity(self, lineage: str, server_id: str, beside: Collection[str] = ()) -> str:
        """The identity of the same lineage that was approved last, other than this one; empty if there is none.

        Those `beside` it are other servers that the same program starts.
        """
        others = {
            one: seq for one, seq in self._identities.get(lineage, {}).items() if one != server_id and one not in beside
        }
        return max(others, key=others.__getitem__) if others else ""

    def namesakes(self, name: str, lineage: str) -> list[str]:
        """Servers of another lineage that had approvals under the same configured name."""
        return [found for other, (_, found) in sorted(self._names.get(name, {}).items()) if other != lineage]

    def blocked(self, lineage: str, tool: str) -> Sequence[Pin]:
        """Under which identities of a lineage a tool is blocked."""
        return self._blocked.get((lineage, tool), ()) if lineage else ()

    def retired_by(self, pin: Pin) -> list[str]:
        """Other identities of the lineage whose approval of this tool an approval now puts out of force."""
        return sorted(
            other
            for other in self._identities.get(pin.lineage, {})
            if other != pin.server_id
            and any(
                (one.tool, one.server) == (pin.tool, pin.server) for one in self.pins[other] if one.action == "approve"
            )
        )
