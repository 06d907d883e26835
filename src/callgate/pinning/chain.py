"""The decisions on tools as a chain, each authenticated together with everything before it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.pinning.model import SCHEME, MarkedArgument, Pin, run_of
from callgate.pinning.storage import ChainHead, Link, Sealed

_START: Final = bytes(32)
_ROW: Final = b"callgate pin\x00"
_HEAD: Final = b"callgate pins, the last\x00"
_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(Pin)

# The keys that rows may be sealed with, the one to write with first.
Keys = Callable[[], Sequence[bytes]]


class DecisionChain:
    """The chain as far as it was read. `broken` says what is wrong with it; it stays broken until it is read anew."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.broken = ""
        # The row that does not hold, where that can be told.
        self.broken_at: int | None = None
        # Grows with every decision.
        self.version = 0
        self._mac = _START
        self._newest: dict[tuple[str, str], Pin] = {}
        self._history: dict[tuple[str, str], list[Pin]] = {}
        self._lineages: dict[tuple[str, str, str, str], Pin] = {}
        self._sets: list[Pin] = []
        self._arguments: list[Pin] = []
        # By lineage, then by the parts of a command: what may stand in which place.
        self._varying: dict[str, dict[tuple[str, ...], dict[int, Pin]]] = {}
        self._known: set[str] = set()

    @property
    def marks(self) -> int:
        """How often an argument was marked as data, or bound again."""
        return len(self._arguments)

    def arguments(self) -> Sequence[Pin]:
        """Every decision on an argument, the oldest first."""
        return () if self.broken else self._arguments

    def varying(self, lineage: str) -> Mapping[tuple[str, ...], Mapping[int, Pin]]:
        """The commands of a lineage with arguments that are marked as data, by the places of those."""
        return {} if self.broken else self._varying.get(lineage, {})

    def is_known(self, server_id: str) -> bool:
        """Whether anything was ever decided on a tool of exactly this identity."""
        return server_id in self._known

    def pin(self, server_id: str, tool: str) -> Pin | None:
        """The decision in force; None where there is none, and where nothing can be believed."""
        return None if self.broken else self._newest.get((server_id, tool))

    def history(self, server_id: str, tool: str) -> list[Pin]:
        """Every decision on a tool, the oldest first."""
        return list(self._history.get((server_id, tool), ()))

    def pins(self) -> Iterable[Pin]:
        """The decisions in force, of all servers."""
        return () if self.broken else self._newest.values()

    def sets(self) -> Sequence[Pin]:
        """Reviews of servers together that decided on no tool."""
        return () if self.broken else self._sets

    def latest_of(self, lineage: str, tool: str, server: str = "", run: str = "") -> Pin | None:
        """The last approval of a tool under any identity of a lineage; with `server`, as configured under that name and
        started in that way: with other arguments it is another server, not another version."""
        return None if self.broken else self._lineages.get((lineage, server, run, tool))

    # ---- reading ----

    def read(self, head: ChainHead | None, rows: Sequence[Sealed]) -> None:
        """Take in what follows in the chain, and hold it against its head."""
        if self.broken:
            return
        for row in rows:
            if not self._take(row):
                return
        if head is None:
            if self.version:
                self._break("the last decision's seal is missing", None)
        elif head.seq != self.version or not hmac.compare_digest(head.mac, self._mac):
            self._break(f"the chain ends at {self.version} and its seal says {head.seq}: decisions are missing", None)
        elif not any(hmac.compare_digest(head.seal, _seal(key, head.seq, head.mac)) for key in self._keys()):
            self._break("the seal of the last decision does not hold", head.seq)

    def _take(self, row: Sealed) -> bool:
        if row.seq != self.version + 1:
            return self._break(f"decision {self.version + 1} is missing", self.version + 1)
        if not any(hmac.compare_digest(row.mac, _mac(key, self._mac, row.seq, row.body)) for key in self._keys()):
            return self._break(f"decision {row.seq} is not as it was written", row.seq)
        try:
            pin = _decoder.decode(row.body)
        except msgspec.MsgspecError:
            return self._break(f"decision {row.seq} cannot be read", row.seq)
        if pin.scheme != SCHEME:
            return self._break(f"decision {row.seq} was written by another version of Callgate", row.seq)
        self.version, self._mac = row.seq, row.mac
        self._keep(msgspec.structs.replace(pin, seq=row.seq))
        return True

    def _keep(self, pin: Pin) -> None:
        if pin.argument is not None:
            self._keep_argument(pin, pin.argument)
            return
        if not pin.tool:
            self._sets.append(pin)
            return
        self._known.add(pin.server_id)
        key = (pin.server_id, pin.tool)
        self._newest[key] = pin
        self._history.setdefault(key, []).append(pin)
        if pin.action == "approve":
            self._lineages[(pin.lineage, "", "", pin.tool)] = pin
            self._lineages[(pin.lineage, pin.server, run_of(pin.server_id), pin.tool)] = pin

    def _keep_argument(self, pin: Pin, argument: MarkedArgument) -> None:
        self._arguments.append(pin)
        commands = self._varying.setdefault(pin.lineage, {})
        places = commands.setdefault(argument.parts, {})
        if pin.action == "vary":
            places[argument.place] = pin
        else:
            places.pop(argument.place, None)
        if not places:
            del commands[argument.parts]

    def _break(self, why: str, at: int | None) -> bool:
        self.broken, self.broken_at = why, at
        return False

    # ---- writing ----

    def _follows(self, head: ChainHead | None) -> bool:
        """Whether a chain that ends so is the one that was read, or goes on from it."""
        if self.broken or head is None:
            return not self.broken and self.version == 0
        if head.seq < self.version or (head.seq == self.version and not hmac.compare_digest(head.mac, self._mac)):
            return False
        return any(hmac.compare_digest(head.seal, _seal(key, head.seq, head.mac)) for key in self._keys())

    def link(self, pins: Sequence[Pin]) -> Link:
        """What makes the next rows of the chain from these decisions."""
        key = self._keys()[0]

        def make(head: ChainHead | None) -> tuple[Sequence[Sealed], ChainHead]:
            if not self._follows(head):
                # Written on top of it, a chain that somebody cut short would have a good seal again.
                raise Refused(Reason.PIN_TAMPERED)
            seq, mac = (0, _START) if head is None else (head.seq, head.mac)
            rows = []
            for pin in pins:
                seq += 1
                body = _encode(msgspec.structs.replace(pin, seq=seq))
                mac = _mac(key, mac, seq, body)
                rows.append(Sealed(seq, body, mac))
            return rows, ChainHead(seq, mac, _seal(key, seq, mac))

        return make


def _mac(key: bytes, before: bytes, seq: int, body: bytes) -> bytes:
    return hmac.digest(key, _ROW + before + seq.to_bytes(8) + body, hashlib.sha256)


def _seal(key: bytes, seq: int, mac: bytes) -> bytes:
    return hmac.digest(key, _HEAD + seq.to_bytes(8) + mac, hashlib.sha256)


class DecisionIndex:
    """The decisions in force by lineage and by name, as of one version of the book."""

    def __init__(self, book: DecisionChain) -> None:
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
            and run_of(other) == run_of(pin.server_id)
            and any(
                (one.tool, one.server) == (pin.tool, pin.server) for one in self.pins[other] if one.action == "approve"
            )
        )
