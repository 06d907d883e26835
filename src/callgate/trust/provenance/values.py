"""One value among a call's arguments: what it is, and where it was met before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from callgate.trust.critical import is_measure, is_obeyed, names_somebody
from callgate.trust.model import FOUND, Found, ToolLabel, Traced, ValueKind
from callgate.trust.provenance import normalise
from callgate.trust.provenance.asking import WANTS
from callgate.trust.provenance.fingerprints import CACHED_LENGTH
from callgate.trust.provenance.harvest import PROSE_WORDS, is_server_made
from callgate.trust.provenance.joining import Budget, put_together
from callgate.trust.provenance.memory import Memory
from callgate.trust.provenance.names import host, is_account, role_of
from callgate.trust.provenance.packing import windows
from callgate.trust.provenance.records import (
    is_by_number,
    is_id,
    is_short_number,
    nouns,
    spoken_of,
    telling,
    written_id,
)
from callgate.trust.provenance.things import KnownThing

# Places that are the user's alone.
USERS: Final = frozenset(("ephemeral", "system", "user"))
TEXT_CHARS: Final = 64 * 1024
_SHOWN: Final = 80
_RANK: Final = {found: rank for rank, found in enumerate(FOUND)}
_FOLDERS: Final = re.compile(r"[\\/]")
_FILE_NAME: Final = 5
_NAME_PARTS: Final = re.compile(r"[^\W\d_]+|\d+")
# Words and numbers that are put together to the name of a thing.
_NAME: Final = re.compile(r"[^\W_]+(?:(?:[_/-]|[,:;!?]? )[^\W_]+)+[.!?]?")
_LONG_NUMBER: Final = 7
_MOMENTS: Final = (normalise.DATE, normalise.TIME)
_NUMBERS: Final = (int, float)
_NUMERIC: Final = frozenset("0123456789$€£¥+-'#.\x01\x02")


def shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class Value:
    """One value: what it is, its words and its pieces."""

    __slots__ = (
        "budget",
        "critical",
        "cut",
        "empty",
        "key",
        "kind",
        "label",
        "made_of_words",
        "memory",
        "number",
        "parts",
        "path",
        "spelt",
        "text",
        "words",
    )

    def __init__(
        self,
        memory: Memory,
        label: ToolLabel,
        path: str,
        key: str,
        value: Any,
        *,
        critical: bool,
        budget: Budget | None = None,
    ) -> None:
        self.memory, self.label, self.path, self.key, self.critical = memory, label, path, key, critical
        self.budget = Budget() if budget is None else budget
        # Whether it is linked for nothing but that: then it does not say which thing is meant.
        self.made_of_words = False
        self.number = not isinstance(value, str)
        text = value if type(value) is str else normalise.number(value) if isinstance(value, _NUMBERS) else str(value)
        self.cut = len(text) > TEXT_CHARS
        self.text = text = text[:TEXT_CHARS] if self.cut else text
        self.spelt: Sequence[str]
        # The digests of all that it could be put together from, where they are known already.
        self.parts: Sequence[int] | None = None
        if len(text) <= CACHED_LENGTH:
            self.spelt, self.words, self.parts, _ = memory.fingerprints.spellings[text]
        else:
            self.spelt = normalise.sequence(text)
            self.words = memory.fingerprints.words(self.spelt)
        self.empty = not self.spelt and (not text or text.isspace())
        self.kind: ValueKind = self._kind()

    def traced(self) -> Traced:
        found = self._found()
        if self.critical and (self.memory.overflowed or self.cut) and found in ("own", "nowhere"):
            found = "untrusted"
        steps: tuple[int, ...] = ()
        if found == "untrusted" and (self.critical or not (self.label.read_only or len(self.text) > CACHED_LENGTH)):
            steps = self.budget.came_with(self.memory, self._pieces())
        elif found in ("trusted", "linked") and self.words:
            thing = self._thing()
            step = self.memory.vouching.get(next(iter(windows(self.words)))) if thing is None else thing.step
            steps = () if step is None else (step,)
        text = self.text if len(self.text) <= _SHOWN else shown(self.text)
        return Traced(self.path, self.kind, found, self.critical, text, steps)

    def _pieces(self) -> Sequence[int]:
        if self.parts is None:
            self.parts = self.memory.fingerprints.parts(self.text, self.spelt)
        return self.parts

    def mark(self) -> str:
        """The digest that an endorsement of this value has, as this argument of this tool."""
        spelt = " ".join([atom for word in self.spelt for atom in normalise.atoms(word)])
        return self.memory.fingerprints.named("value", *role_of(self.label, self.path), spelt)

    def _kind(self) -> ValueKind:
        if self.number:
            named = is_id(self.key) or is_by_number(self.key, self.label.tool) or self._is_somebodys()
            return "identity" if named else "quantity"
        text, spelt = self.text, self.spelt
        if len(spelt) > PROSE_WORDS or "\n" in text:
            return "text"
        if spelt and spelt[0][0] in _NUMERIC:
            parts = [atom for word in spelt for atom in normalise.atoms(word)]
            if parts and all(part[0] in _MOMENTS for part in parts):
                return "time"
            if len(parts) == 1 and len(parts[0]) < 8 and normalise.is_number(parts[0]) and not is_id(self.key):
                return "quantity"
        if "@" in text and normalise.ADDRESS.fullmatch(text):
            return "identity"
        if len(spelt) == 1 and not spelt[0].isalpha() and is_account(spelt[0]):
            return "identity"
        if (
            len(spelt) == 1
            and (":" in text or "." in text)
            and (text.startswith(("http://", "https://", "www.")) or (self.critical and normalise.HOST.fullmatch(text)))
        ):
            return "link"
        return "identity" if self.critical else "text"

    def _is_somebodys(self) -> bool:
        """Whether a number is long enough to name somebody, and its name does not say that it counts something."""
        return len(self.text) >= _LONG_NUMBER and self.text.isdigit() and not is_measure(self.key)

    def _found(self) -> Found:
        memory, words = self.memory, self.words
        if memory.endorsed and self.mark() in memory.endorsed:
            return "endorsed"
        if self.kind == "time":
            return self._time()
        if memory.prompt and memory.prompt.says(words):
            return "prompt"
        if memory.clean and memory.clean.says(words):
            return "clean"
        thing = self._thing() if memory.records else None
        if thing is not None:
            if thing.asked_for or any(map(memory.users, thing.names)):
                return "linked"
            if thing.vouched:
                return "trusted"
        elif memory.vouching and memory.vouching.says(words) and not self._bare_id() and not is_obeyed(self.key):
            return "trusted"
        spoken_of = self._is_spoken_of(thing)
        self.made_of_words = not spoken_of and self._is_made_of_the_users_words()
        return "linked" if spoken_of or self.made_of_words else self._doubtful(thing)

    def _is_spoken_of(self, thing: KnownThing | None) -> bool:
        """Whether the user's words ask for what the tool does, and have a word by which they may speak of this thing
        or person: its server's list has that for no other one."""
        memory, server, tool = self.memory, self.label.server, self.label.tool
        if not memory.prompt_known:
            # Who is not heard may have asked for it, where no stranger's text speaks of such an act.
            return (
                self.critical
                and self.kind == "identity"
                and not self.label.may_be_irreversible
                and self._is_opened()
                and not memory.is_act_spoken_of(tool)
            )
        if len(self.spelt) > PROSE_WORDS:
            return False
        short = len(self.text) <= _SHOWN and not names_somebody(self.key)
        if short and memory.hinted(memory.key(server, "row", self._folded())):
            return memory.asks(WANTS) and not memory.named_another(self.text)
        if self.kind != "identity" or not self.critical:
            return False
        if self._is_opened():
            # The conversation is about it: "and answer her".
            return memory.wants(tool)
        if thing is None and ("/" in self.text or "\\" in self.text):
            # A file by its name, wherever it is.
            name = _FOLDERS.split(self.text)[-1]
            return "." in name and len(name) > _FILE_NAME and memory.prompt.says(memory.words(name))
        person = memory.key("", "person", self.text.casefold().removeprefix("@"))
        return memory.hinted(person) and memory.wants(tool)

    def _folded(self) -> str:
        return self.text if self.number else normalise.fold(self.text).strip()

    def _is_opened(self) -> bool:
        """Whether a value is the id of a thing that the agent looked at by itself before, or made."""
        if not is_server_made(self.text) or names_somebody(self.key):
            return False
        server, written = self.label.server, self._written()
        return any(self.memory.key(server, f"opened {kind}", written) in self.memory.records for kind in self._kinds())

    def _is_made_of_the_users_words(self) -> bool:
        """Whether the name of a thing is put together from the user's words, in whatever order, with no more of others
        than of theirs, and none of a stranger's: `fix/cooling-gap`."""
        if (
            names_somebody(self.key)
            or is_obeyed(self.key)
            or self.kind not in ("identity", "text")
            or not self.memory.prompt_known
            or self.number
            or len(self.text) > _SHOWN
            or _NAME.fullmatch(self.text) is None
            or not self.memory.asks(WANTS)
            or (
                (self.label.may_be_irreversible or not self.label.destinations <= USERS)
                and self.memory.strange.issuperset(self._pieces())
            )
        ):
            return False
        parts = _NAME_PARTS.findall(normalise.fold(self.text))
        users = [part for part in parts if self.memory.says(part)]
        others = [part for part in parts if part not in users]
        if not telling(" ".join(users)) or len(others) > len(users) or not all(map(str.isalpha, others)):
            return False
        return not any(self.memory.strange.issuperset(self.memory.pieces(part)) for part in others)

    def _written(self) -> str:
        return written_id(int(self.text) if self.number and self.text.isdigit() else self.text)

    def _kinds(self) -> Sequence[str]:
        """The kinds of thing that this value may be the id of, where it is one."""
        kinds = spoken_of(self.key, self.label.tool)
        if is_short_number(self.text):
            return tuple(kinds)
        # `messageId` of `forward_email`: an id that no other thing has may go by any name, save that of somebody.
        return (*kinds, *nouns(self.label.tool), *(() if names_somebody(self.key) else ("",)))

    def _doubtful(self, thing: KnownThing | None) -> Found:
        memory = self.memory
        if thing is not None and is_short_number(self.text):
            # Its server lists it, and numbers so short are in every text.
            return "own"
        if self.kind == "quantity" and len(self.text) == 1:
            # How many or which: nobody needs a text for that.
            return "nowhere"
        stays = not self.label.may_be_irreversible and self.label.destinations <= USERS
        if stays and memory.key(self.label.server, f"field {self.key}", normalise.fold(self.text)) in memory.records:
            return "own"
        pieces = self._pieces() if self.parts is None else self.parts
        if pieces and memory.strange.issuperset(pieces):
            return "untrusted"
        if thing is not None or (self.kind != "identity" and memory.own.issuperset(self.words)):
            return "own"
        if self.critical and self.kind in ("identity", "link"):
            if memory.own.issuperset(self.words) and not is_short_number(self.text):
                # Somebody's result had it where a server puts its own ids, and it is used for something else.
                return "untrusted"
            if self._put_together():
                return "untrusted"
        return "nowhere"

    def _time(self) -> Found:
        """Date and time of day are looked up each for itself; the worse of the two counts."""
        worst: Found = "endorsed"
        for word in self.spelt:
            for atom in normalise.atoms(word):
                found = self._moment(atom)
                worst = found if _RANK[found] > _RANK[worst] else worst
        return worst

    def _moment(self, atom: str) -> Found:
        memory = self.memory
        spelt = memory.fingerprints.digest(atom)
        # Who says "May 26th" means the next one.
        yearless = memory.fingerprints.digest(atom[0] + atom[5:]) if atom[0] == normalise.DATE else spelt
        if spelt in memory.prompt or yearless in memory.prompt:
            return "prompt"
        if spelt in memory.clean or yearless in memory.clean:
            return "clean"
        if spelt in memory.vouching:
            return "trusted"
        if spelt in memory.strange or yearless in memory.strange:
            return "untrusted"
        return "own" if spelt in memory.own else "nowhere"

    def _thing(self) -> KnownThing | None:
        """The thing that this value is the id of, of a kind that the argument may name."""
        if self.kind != "identity" or not self.memory.records:
            return None
        written = self._written()
        for kind in self._kinds():
            found = self.memory.records.get(self.memory.key(self.label.server, kind, written))
            if found is not None:
                return found
        return None

    def _bare_id(self) -> bool:
        """A short number as an id: another number that is the same says nothing of it."""
        return self.kind == "identity" and is_short_number(self.text)

    def _put_together(self) -> bool:
        """Whether the value can be joined from what a stranger's texts hold in smaller parts, so that an address in
        groups, halves or single letters is known again. Of a link, its host counts."""
        text = host(self.text) if self.kind == "link" else self.text
        return put_together(self.memory, text, self.spelt, self.budget)
