"""What the texts of a tool say of other tools: names that are near, and findings, remembered by hash."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from callgate.caching import BoundedCache
from callgate.canonical import canonical
from callgate.errors import MessageError
from callgate.inspection import ToolFinding
from callgate.pinning.document import digest, loosely
from callgate.pinning.listing import EntryReader, count_tokens
from callgate.pinning.model import ListedTool, Pin, PinningSettings, ServerSeen, ToolSeen, kind_of
from callgate.pinning.review.views import NOTES

if TYPE_CHECKING:
    from callgate.pinning.review.sets import PresentServer

# Cut where the inspection cuts what is too long for a name.
_WORD: Final = re.compile(r"\w[\w.:/-]{1,127}")
_JOINTS: Final = re.compile(r"[.:/-]")
# JSON's own escapes: an `n` after a backslash is no part of the word that follows.
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SAME: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "5": "s", "-": None, "_": None, ".": None, " ": None})
# Up to here a name is found by leaving out each of its letters; beyond, by its beginning or its end.
_SHORT: Final = 65
_HALF: Final = 30
_FOUND: Final = 20_000
# A name that is not one word is looked for by so many of its letters in a row; a shorter one is nobody's.
_PIECE: Final = 5
# So many of those are searched for in one text. Where more may be in it, they count as found.
_SEARCHED: Final = 50


class NameIndex:
    """The names of all tools of one group of servers, so arranged that those near a tool are found at once."""

    def __init__(self, members: Sequence[PresentServer]) -> None:
        self._servers = {one.seen.server_id: one.seen for one in members}
        self._owners: dict[str, list[str]] = {}
        for one in members:
            for tool in one.tools:
                # Nobody is led to a prompt by its name.
                if not tool.gone and kind_of(tool.tool) == "tool":
                    self._owners.setdefault(tool.tool, []).append(one.seen.server_id)
        self._found: BoundedCache[bytes, dict[str, frozenset[str]]] = BoundedCache(_FOUND)

    @cached_property
    def _near(self) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        for name in self._owners:
            for key in set(_keys(name)):
                made.setdefault(key, []).append(name)
        return made

    @cached_property
    def _small(self) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        for name in self._owners:
            for key in {name.lower(), _folded(name)}:
                made.setdefault(key, []).append(name)
        return made

    @cached_property
    def _odd(self) -> dict[str, list[tuple[str, str]]]:
        """Names of several words, or of none: those are found nowhere among the words of a text.

        Each by the piece of it that the fewest of them have. Who gives all of theirs one beginning gains nothing.
        """
        spelt = ((_folded(_text(name)[1:-1]), name) for name in self._owners)
        odd = [(looks, name) for looks, name in spelt if len(looks) >= _PIECE and not _WORD.fullmatch(looks)]
        common = Counter(piece for looks, _ in odd for piece in _pieces(looks))
        made: dict[str, list[tuple[str, str]]] = {}
        for looks, name in odd:
            rarest = min(_pieces(looks), key=lambda piece: (common[piece], piece))
            made.setdefault(rarest, []).append((looks, name))
        return made

    def of(self, one: PresentServer, listed: ListedTool) -> dict[str, frozenset[str]]:
        """By the name of their server the tools of others that this one may touch; more than it does, never fewer."""
        if all(seen.lineage == one.seen.lineage for seen in self._servers.values()):
            return {}
        # By its digest, and not for ever: a text may change with every look.
        key = hashlib.sha256(one.seen.server_id.encode("utf-8", "surrogatepass") + b"\0" + listed.raw).digest()
        return self._found.get_or_make(key, lambda: self._touched(one.seen, listed))

    def _touched(self, own: ServerSeen, listed: ListedTool) -> dict[str, frozenset[str]]:
        near = {other for key in set(_keys(listed.name)) for other in self._near.get(key, ())}
        text = _text(listed.entry)
        for word in _words(text):
            near.update(self._small.get(word, ()))
        if self._odd:
            near.update(self._odd_in(_folded(text)))
        found: dict[str, set[str]] = {}
        for other in near:
            for server_id in self._owners[other]:
                seen = self._servers[server_id]
                # Another version of the same server is no neighbour: all of its names are alike.
                if seen.lineage != own.lineage:
                    found.setdefault(seen.name if seen.name != own.name else server_id, set()).add(other)
        return {place: frozenset(found[place]) for place in sorted(found)}

    def _odd_in(self, text: str) -> Iterator[str]:
        pieces = sorted(_pieces(text) & self._odd.keys())
        for count, (looks, name) in enumerate(one for piece in pieces for one in self._odd[piece]):
            if count >= _SEARCHED or looks in text:
                yield name


def _pieces(text: str) -> set[str]:
    return {text[at : at + _PIECE] for at in range(len(text) - _PIECE + 1)}


def _keys(name: str) -> Iterator[str]:
    """Two names that look the same, or differ in one letter or two swapped ones, have one of these in common."""
    yield name
    yield "~" + _folded(name).translate(_SAME).replace("rn", "m")
    if len(name) <= _SHORT:
        for at in range(len(name)):
            yield name[:at] + name[at + 1 :]
    if len(name) >= _SHORT - 1:
        yield "<" + name[:_HALF]
        yield ">" + name[-_HALF:]


def _folded(text: str) -> str:
    from callgate.inspection.text import fold

    return fold(text).text


def _text(value: Any) -> str:
    """All that a definition says, with its keys; or a name, as it stands in there."""
    try:
        return _ESCAPE.sub(" ", canonical(value).decode())
    except MessageError:
        return ""


def _words(text: str) -> set[str]:
    """Every word that could be a tool's name, in small letters, as written and as it looks."""
    found = set(_WORD.findall(text.lower()))
    if not text.isascii():
        found.update(_WORD.findall(_folded(text)))
    for word in [word for word in found if not word.isidentifier()]:
        found.add(word.rstrip(".:-/"))
        found.update(_JOINTS.split(word))
    return found


_KEPT: Final = 50_000
_KEPT_FINDINGS: Final = 200_000
_KEPT_BYTES: Final = 32 * 1024 * 1024
_GROUPS: Final = 32


class InspectionCache:
    """Remembers what was read and found."""

    def __init__(self) -> None:
        # Texts are as large as a server likes, and one may have hundreds of findings: that is what takes the room.
        self._listed: BoundedCache[tuple[str, str, bytes], ListedTool] = BoundedCache(
            _KEPT_BYTES, lambda tool: len(tool.raw) + _KEPT_BYTES // _KEPT
        )
        self._findings: BoundedCache[tuple[bytes, bytes, str], tuple[ToolFinding, ...]] = BoundedCache(
            _KEPT_FINDINGS, lambda found: len(found) + _KEPT_FINDINGS // _KEPT
        )
        self._open: BoundedCache[bytes, str] = BoundedCache(_KEPT)
        self._neighbours: BoundedCache[str, NameIndex] = BoundedCache(_GROUPS)

    def listed(self, server_id: str, tool: ToolSeen, settings: PinningSettings) -> ListedTool:
        """A stored text, read anew and held against its hash: the store is not believed."""
        if tool.problem or not tool.raw:
            why = tool.problem or "nothing of its definition was kept"
            return ListedTool(tool.tool, tool.raw, loosely(tool.raw), problem=why)
        key = (server_id, tool.approval_hash, _sha(tool.raw))
        made = self._listed.get(key)
        if made is None:
            made = EntryReader(server_id, settings).stored(tool.tool, tool.raw)
            if not made.problem and (made.name != tool.tool or made.approval_hash != tool.approval_hash):
                why = "what is stored of it is not what was met; let the server be asked again"
                made = ListedTool(tool.tool, tool.raw, made.entry, problem=why)
            self._listed.put(key, made)
        return made

    def findings(
        self, listed: ListedTool, server: str, others: Mapping[str, frozenset[str]], before: Pin | None, growth: float
    ) -> tuple[ToolFinding, ...]:
        if not listed.entry:
            return ()
        around = digest([server, {name: sorted(tools) for name, tools in others.items()}, growth])
        # Against itself nothing has grown.
        former = before.raw if before is not None and before.raw != listed.raw else b""
        key = (_sha(listed.raw), _sha(former), around)
        made = self._findings.get(key)
        if made is None:
            from callgate.inspection import InspectionContext, ToolDefinition, inspect

            surroundings = InspectionContext(
                server=server, others=others, before=loosely(former) or None, growth_percent=growth
            )
            made = inspect(ToolDefinition.of(listed.entry), surroundings)
            if kind_of(listed.name) != "tool":
                # What is no tool takes no arguments from a model: its schema is only a form to show it in.
                made = tuple(finding for finding in made if finding.rule not in NOTES)
            self._findings.put(key, made)
        return made

    def neighbours(self, members: Sequence[PresentServer]) -> NameIndex:
        """The names around the tools of one group; made anew only when they are others."""
        parts = [
            [one.seen.server_id, one.seen.name, [tool.tool for tool in one.tools if not tool.gone]] for one in members
        ]
        return self._neighbours.get_or_make(digest(parts), lambda: NameIndex(members))

    def tokens(self, raw: bytes) -> int:
        return count_tokens(raw)

    def catch_all(self, listed: ListedTool) -> str:
        """Why the input schema takes nearly anything; empty if it does not."""
        if not listed.entry or kind_of(listed.name) != "tool":
            return ""
        from callgate.inspection import is_catch_all

        return self._open.get_or_make(_sha(listed.raw), lambda: is_catch_all(listed.input_schema))


def _sha(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()
