"""What a session remembers of what it said and read: bounded, and never less wary for being full.

The store gets digests, and texts only sealed. A process has some words at hand as well, as long as it has the session.
"""

from __future__ import annotations

import re
import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec

from callgate.trust.critical import is_address, is_field, names_somebody
from callgate.trust.keeping import DECLASSIFIED
from callgate.trust.model import DataLabel, Step, ToolLabel
from callgate.trust.proposing import verbs_of
from callgate.trust.provenance import guarded, normalise, packing
from callgate.trust.provenance.asking import asked, forms_of, is_wanted
from callgate.trust.provenance.delta import LONGEST, Chains, Met, Retention, unknown
from callgate.trust.provenance.fingerprints import BREAK, CACHED_LENGTH, Fingerprints
from callgate.trust.provenance.harvest import Echoes, Harvest, TooLarge, echoes, is_server_made, keys, leaves, within
from callgate.trust.provenance.hearing import heard
from callgate.trust.provenance.joining import names_put_together
from callgate.trust.provenance.names import host, respelt, strangers, written_links
from callgate.trust.provenance.packing import Left, Phrases, Pieces, windows
from callgate.trust.provenance.readings import Reading, Readings
from callgate.trust.provenance.records import (
    ResultObject,
    described_row,
    is_id,
    is_id_like,
    is_short_number,
    kinds,
    nouns,
    parts_of_id,
    people,
    shape_of,
    shapes,
    spoken_of,
    stem,
    telling,
    written_id,
)
from callgate.trust.provenance.things import ASKED_FOR, VOUCHED, Things, flattened, is_in, matches
from callgate.trust.quarantine import Seals

_BETWEEN: Final = f" {BREAK} "
# Digests of things that are kept of a result.
_RECORDED: Final = 16_384
# Prompts that are known to be taken in.
_PROMPTS_MAX: Final = 1000
# A search phrase that is shorter picks out nothing.
_QUERY_LENGTH: Final = 5
# Sources that nobody but the user or the server writes to.
_ALONE: Final = frozenset(("system", "user"))
# Classes of data whose details are known again when they are sent on.
_GUARDED: Final = ("financial", "regulated", "credentials")
_FINANCIAL, _CREDENTIALS = (1 << _GUARDED.index(name) for name in ("financial", "credentials"))
# Found by its own shape, in a result that nobody labelled so.
_SHAPED: Final = 1 << len(_GUARDED)
# Of what servers say beside their answers, what need not be written down at once, and the most that waits.
_OVERHEARD_CHARS: Final = 16 * 1024
_OVERHEARD_MOST: Final = 1024 * 1024
# A number that is shorter names nobody by itself.
_LONG_NUMBER: Final = 7
# Secrets, and numbers, of one result that are kept.
_SECRETS: Final = 256
# Things and people of one result that the user may speak of, and words for each.
_HINTED: Final = 500
_HINT_WORDS: Final = 16
# Tools of which it is known whether the user wants them.
_TOOLS: Final = 1_000


class Bounds(msgspec.Struct, frozen=True):
    """How much is kept. What goes beyond is not forgotten silently: the memory is `overflowed` from then on."""

    depth: int = 32
    leaves: int = 2_000
    records: int = 200
    result_chars: int = 2 * 1024 * 1024
    # Of what vouches, each run of words is kept. What goes beyond vouches for nothing, and that is all.
    vouching_chars: int = 128 * 1024
    prompt_chars: int = 64 * 1024
    # Different digests of a session: of strangers' texts, in eight bytes each, and of all else.
    strange: int = 1_000_000
    remembered: int = 200_000


_BOUNDS: Final = Bounds()


class Memory:
    """One session's. `seq` is the number of the latest step taken in."""

    def __init__(
        self,
        fingerprints: Fingerprints,
        bounds: Bounds = _BOUNDS,
        retention: Callable[[], Retention] = unknown,
        clock: Callable[[], float] = time.time,
        seals: Callable[[], Seals] | None = None,
    ) -> None:
        """`retention` is what the store keeps by now, and `clock` the one that it goes by. With `seals`, the texts are
        kept as well, for who is asked about a call."""
        self.fingerprints = fingerprints
        self.bounds = bounds
        self.prompt = Phrases()
        self.clean = Phrases()
        self.vouching = Phrases()
        self.strange = Pieces()
        # What the agent wrote since it read a stranger's text, save the user's own.
        self.written = Pieces()
        self._clock = clock
        self._met = Met(retention, clock)
        self.readings = Readings(seals)
        self._chains = Chains()
        self.own: set[int] = set()
        self.records = Things()
        # From a detail to the classes of data that it was met in, a bit each.
        self.details: dict[int, int] = {}
        self.endorsed: set[str] = set()
        self.overflowed = False
        # A stranger's result held what is no text: it may have named anything.
        self.unread = False
        self.prompt_known = False
        # The step that the user's latest words came with.
        self._prompted = 0
        self.seq = 0
        self._prompts: set[str | bytes] = set()
        # Of each tool, whether the prompts ask for what it does.
        self._wants: dict[tuple[str, bool], bool] = {}
        # Said since the last result; goes to the store with the next one.
        self._said = Left()
        # A stranger's words since then.
        self.overheard: list[str] = []

    def remember_prompt(self, text: str) -> None:
        """The user's own words, as the host passed them."""
        text = text[: self.bounds.prompt_chars]
        mark = self.fingerprints.named("prompt", text)
        if mark not in self._prompts:
            self._add_prompt(mark, self.digests_of_prompt(text))

    def digests_of_prompt(self, text: str) -> bytes:
        """All that is kept of the user's words, for who has them before there is a session."""
        text = text[: self.bounds.prompt_chars]
        said = self._ordered([text, *respelt(text)]) + self._hosts([text]) + self._numbers([text])
        more = [*map(self._asked, asked(text)), *map(self._stem, telling(text) | parts_of_id(normalise.fold(text)))]
        more += [self._shape(one) for one in shapes(text)]
        return said + array("Q", [part for digest in more for part in (digest, 0)]).tobytes()

    def remember_digests(self, digests: bytes) -> None:
        """The same as `remember_prompt` of the text that these were made of."""
        if digests not in self._prompts:
            self._add_prompt(digests, digests)

    def _add_prompt(self, mark: str | bytes, packed: bytes) -> None:
        if len(self._prompts) >= _PROMPTS_MAX:
            # Those that are still sent are taken in once more.
            self._prompts.clear()
        self._prompts.add(mark)
        self._take_said(Left(prompt=packed), self.seq + 1)
        self._said.prompt += packed

    def remember_arguments(self, arguments: Mapping[str, Any]) -> None:
        """What the agent sent while nothing untrusted had been read: it can only be the user's, save what stands in
        some text that a stranger may have put into a trusted place. Numbers say too little to vouch for others."""
        said = [value for _, _, value in leaves(arguments) if isinstance(value, str) and self._is_clean(value)]
        if said:
            packed = self._ordered(said, but=self.strange) + self._hosts(said) + self._numbers(said)
            self._take_said(Left(clean=packed), self.seq + 1)
            self._said.clean += packed

    def overhear(self, texts: Sequence[str]) -> bool:
        """Take in what a server said beside its answers. It goes to the store with the next result; whether it is so
        much that it should not wait."""
        self.overheard += texts
        packed = b"".join(map(self.fingerprints.pieces.__getitem__, normalise.different(heard(_BETWEEN.join(texts)))))
        if self._room(cut=False):
            self.strange.add_packed(packed, self.seq + 1)
        waiting = sum(map(len, self.overheard))
        if waiting > _OVERHEARD_MOST:
            # The store will not have it, and will say so.
            self.overheard, self._said.cut = [], True
        return waiting > _OVERHEARD_CHARS

    def remember_result(
        self,
        tool: ToolLabel,
        data: DataLabel,
        structured: Any,
        texts: Sequence[str],
        arguments: Mapping[str, Any],
        *,
        open_world: bool,
        secrets: Collection[str] = (),
        unread: bool = False,
    ) -> bytes:
        """Take in a result, and give what the store has to keep of it. `open_world` is the session's before it,
        `secrets` are the keys, tokens and passwords in the result, `unread` says that some of it is no text."""
        if not open_world:
            self.remember_arguments(arguments)
        left, self._said = self._said, Left()
        left.unread = unread and data.open_world
        trusted = not data.open_world and not data.malicious
        found = self._harvested(left, tool, data, structured, texts, arguments=arguments, trusted=trusted)
        new: Collection[str] = ()
        if found.strange:
            new = self._told(found.strange, left)
            left.strange += self._links(found.strange)
            if left.strange:
                # What adds nothing is not kept once more.
                left.text = self.readings.sealed(tool, texts, structured, secrets)
        if found.vouching:
            vouching = within(found.vouching, self.bounds.vouching_chars)
            left.vouching = self._vouching(vouching, tool, arguments, open_world=open_world)
        if not tool.read_only:
            left.written = self._written(arguments, left, open_world=open_world)
        if found.own:
            left.own = self._ordered(found.own)
        if found.records:
            left.records = self._records(found.records, tool, arguments, trusted=trusted)
        left.records += self._hints(found, tool, arguments) + self._opened(found, tool, arguments)
        if classes := _guarded(data.sensitivity):
            left.details = self._details(classes, found)
        left.details += self._shaped(found, secrets)
        packed = packing.pack(left, self.fingerprints.id)
        self.seq += 1
        self.readings.add(self.seq, Reading(round(self._clock() * 1000), tool.server, tool.tool), left.text)
        # What was said is there already.
        self._take_met(left, self.seq, new)
        return packed

    def _harvested(
        self,
        left: Left,
        tool: ToolLabel,
        data: DataLabel,
        structured: Any,
        texts: Sequence[str],
        *,
        arguments: Mapping[str, Any],
        trusted: bool,
    ) -> Harvest:
        """A result taken apart, as far as it can be kept; with what was overheard before it."""
        bounds = self.bounds
        found = Harvest(
            trusted=trusted,
            lines=trusted and data.sources <= _ALONE,
            fields={} if data.malicious else tool.fields,
            leaves=bounds.leaves,
            depth=bounds.depth,
            tables=not any(map(is_address, arguments)),
        )
        try:
            if structured is not None:
                found.structured(structured)
            found.texts(texts, structured)
        except TooLarge:
            left.cut = True
        if data.malicious:
            found.strange += found.own
            found.own, found.records, found.rows = [], [], []
        elif found.strange and arguments and not self.overflowed:
            # Where nothing else was said, nobody said anything.
            found.strange = [text for text in self._without_echoes(found.strange, arguments) if not text.isspace()]
        if self.overheard:
            found.strange += self.overheard
            self.overheard = []
        if sum(map(len, found.strange)) > bounds.result_chars:
            left.cut = True
            found.strange = [_BETWEEN.join(found.strange)[: bounds.result_chars]]
        return found

    def take(self, step: Step) -> None:
        """Take in what the store kept of a step. A result whose memory is gone may have held anything, and so may each
        step that is not given: those before the first, and those between two."""
        if step.seq > self.seq + 1:
            self.overflowed = True
        if step.verdict == DECLASSIFIED:
            self.overflowed = self.unread = False
            self.strange, self.written, self.own, self.overheard = Pieces(), Pieces(), set(), []
            self.readings.clear()
            self._met.forget()
            self._chains.clear()
        elif not step.memory:
            self.overflowed = self.overflowed or step.label is not None
        else:
            try:
                left = packing.unpack(step.memory, self.fingerprints.id)
                self._take(left, step.seq)
                self.readings.add(step.seq, Reading(step.at, step.server, step.tool), left.text)
            except packing.Unreadable:
                self.overflowed = True
        self.seq = max(self.seq, step.seq)

    def endorse(self, digests: Iterable[str]) -> None:
        """Values that a person approved in this session, as `to_endorse` names them."""
        self.endorsed.update(digests)

    def words(self, text: str) -> array[int]:
        """The digests of a value's words, in their order."""
        return self.fingerprints.words(normalise.sequence(text))

    def pieces(self, text: str) -> array[int]:
        """The digests of all that a value could be put together from."""
        found = normalise.different(normalise.rough(text))
        return packing.numbers(b"".join(map(self.fingerprints.pieces.__getitem__, found)))

    def vouches(self, words: Sequence[int]) -> bool:
        """Whether a value, given by its words, was met where it can be relied on."""
        return self.prompt.says(words) or self.clean.says(words) or self.vouching.says(words)

    def users(self, windows: Sequence[int]) -> bool:
        """Whether a value, given by its windows, is in the user's own words."""
        return self.prompt.holds(windows) or self.clean.holds(windows)

    def is_strange(self, text: str) -> bool:
        """Whether a stranger's texts hold all pieces of a value that nothing vouches for."""
        if len(text) <= CACHED_LENGTH:
            _, words, pieces, apart = self.fingerprints.spellings[text]
            said = self.strange.issuperset(pieces) or (apart is not pieces and self.strange.issuperset(apart))
            return said and not self.vouches(words)
        opening = normalise.opening(text)
        if opening and not self.strange.issuperset(
            packing.numbers(b"".join(map(self.fingerprints.pieces.__getitem__, opening)))
        ):
            return False
        return self.strange.issuperset(self.pieces(text)) and not self.vouches(self.words(text))

    def _is_clean(self, text: str) -> bool:
        """Whether neither a value nor an address, link or number in it is a stranger's."""
        if not self.strange:
            return True
        if self.is_strange(text):
            return False
        text = text[: self.bounds.prompt_chars]
        return not strangers(self, text, critical=True)[0] and not names_put_together(self, text)

    def _without_echoes(self, texts: list[str], arguments: Mapping[str, Any]) -> list[str]:
        """A result's texts without the values that the call itself had and that no stranger's text had before: to give
        back what somebody said is not to say it. Only whole values are, so that nobody's words go with them."""
        gone = Echoes()
        for value in echoes(arguments):
            found = [at for at, text in enumerate(texts) if value in text]
            if found and self._is_clean(value):
                for at in found:
                    texts[at] = gone.without(texts[at], value)
        return texts

    def _hosts(self, texts: Sequence[str]) -> bytes:
        """The hosts of the links in some texts: who names a page names where it is."""
        found = [host(link) for text in texts if "." in text for link in normalise.links(text) if "@" not in link]
        return self._ordered(found) if found else b""

    def _numbers(self, texts: Sequence[str]) -> bytes:
        """The card numbers and accounts in some texts, however they are grouped."""
        found = [number for text in texts for number in guarded.numbers(text)]
        return self._ordered(found) if found else b""

    def _ordered(self, texts: Sequence[str], but: Pieces | None = None) -> bytes:
        """The words of some texts in their order, packed, with a break after each, and in the place of those that
        `but` has."""
        joined = _BETWEEN.join([text.replace(BREAK, " ") if BREAK in text else text for text in texts])
        words = normalise.sequence(joined)
        if but:
            # Of marks alone there are no pieces.
            pieces = {word: packing.numbers(self.fingerprints.pieces[word]) for word in words}
            words = [BREAK if pieces[word] and but.issuperset(pieces[word]) else word for word in words]
        return b"".join(map(self.fingerprints.atoms.__getitem__, words)) + bytes(8)

    def _links(self, texts: Sequence[str]) -> bytes:
        """The links of some texts, each as a whole, save those that are known."""
        found = {self.link(link) for text in texts for link in written_links(text)}
        return array("Q", [one for one in found if one not in self.strange]).tobytes() if found else b""

    def link(self, written: str) -> int:
        """The digest of a link as a whole."""
        return self.fingerprints.digest(f"link\x00{written}")

    def _shape(self, shape: str) -> int:
        return self.fingerprints.digest(f"shape\x00{shape}")

    def named_another(self, text: str) -> bool:
        """Whether the user's latest words name a thing or an amount that is written as this one is, and not this."""
        shape = self._shape(shape_of(text))
        return self.prompt.get(shape, -1) == self._prompted and not self.prompt.says(self.words(text))

    def _asked(self, word: str) -> int:
        return self.fingerprints.digest(f"asked\x00{word}")

    def says(self, word: str) -> bool:
        """Whether a word is one of the user's, in whatever form."""
        return self.fingerprints.digest(word) in self.prompt or self._stem(word) in self.prompt

    def asks(self, word: str) -> bool:
        """Whether the user's words ask for something with a word."""
        return self._asked(word) in self.prompt

    def wants(self, tool: str, *, exactly: bool = False) -> bool:
        """Whether the user's words ask for what a tool does (`is_wanted`)."""
        found = self._wants.get((tool, exactly))
        if found is None:
            if len(self._wants) >= _TOOLS:
                self._wants.clear()
            found = self._wants[tool, exactly] = is_wanted(tool, self.asks, exactly=exactly)
        return found

    def is_act_spoken_of(self, tool: str) -> bool:
        """Whether a stranger's text has the verb of a tool's name; where that has none, it may."""
        verbs = verbs_of(tool)[0]
        return not verbs or any(self.strange.issuperset(self.pieces(form)) for verb in verbs for form in forms_of(verb))

    def _vouching(
        self, texts: Sequence[str], tool: ToolLabel, arguments: Mapping[str, Any], *, open_world: bool
    ) -> bytes:
        """A result vouches for what is in it, but not for what it only gives back: the call's own arguments, and, from
        a tool that writes, whatever a stranger's texts had before. Nor for what the agent wrote itself before: what
        reads it again, under whatever name, only gives it back."""
        said = packing.numbers(self._ordered(texts))
        echoed: set[int] = set()
        for _, _, value in leaves(arguments):
            sent = self.words(str(value)[: self.bounds.prompt_chars])
            if not self.vouches(sent):
                echoed.update(sent)
        known = [self.written] if self.written else []
        known += [self.strange] if open_world and not tool.read_only else []
        if known:
            for word in normalise.sequence(_BETWEEN.join(texts)):
                digests = packing.numbers(self.fingerprints.pieces[word])
                if digests and any(one.issuperset(digests) for one in known):
                    echoed.update(packing.numbers(self.fingerprints.atoms[word]))
        if echoed.isdisjoint(said):
            return said.tobytes()
        return array("Q", [0 if word in echoed else word for word in said]).tobytes()

    def _written(self, arguments: Mapping[str, Any], left: Left, *, open_world: bool) -> bytes:
        """What a call writes that may name somebody or something and that nothing vouches for, once a stranger's text
        was read: words that are more than letters, and what stands on a line alone. Not moments and short numbers,
        which are in every text."""
        if not open_world and not self.strange:
            return b""
        words: set[str] = set()
        names = [name for _, _, name in keys(arguments) if not is_field(name)]
        for value in (*(value for _, _, value in leaves(arguments)), *names):
            text = value if isinstance(value, str) else normalise.number(value)
            if len(text) > self.bounds.result_chars:
                left.cut, text = True, text[: self.bounds.result_chars]
            if self.vouches(self.words(text)):
                continue
            words.update(word for word in normalise.different(normalise.rough(text)) if not word.isalpha())
            alone = [line for line in text.splitlines() if len(line.split(None, 1)) == 1]
            words.update(normalise.different(normalise.rough("\n".join(alone))))
        return b"".join([self.fingerprints.pieces[word] for word in words if not _is_measured(word)])

    def _details(self, classes: int, found: Harvest) -> bytes:
        details: set[str] = set()
        for texts in (found.strange, found.vouching, found.own):
            details |= normalise.details(_BETWEEN.join(texts)[: self.bounds.result_chars])
        return array("Q", [classes, *map(self.fingerprints.digest, details)]).tobytes() if details else b""

    def _shaped(self, found: Harvest, secrets: Collection[str]) -> bytes:
        """Secrets, cards and accounts are details in whatever result."""
        texts = [*found.strange, *found.vouching, *found.own] if found.vouching or found.own else found.strange
        text = (texts[0] if len(texts) == 1 else _BETWEEN.join(texts))[: self.bounds.result_chars]
        packed: list[int] = []
        if hidden := (*secrets, *guarded.passwords(text)):
            several = islice(dict.fromkeys(hidden), _SECRETS)
            if parts := {part for one in several for part in normalise.of_secret(one)}:
                packed += (_CREDENTIALS, *map(self.fingerprints.digest, parts))
        if numbers := guarded.numbers(text):
            packed += (_FINANCIAL | _SHAPED, *map(self.fingerprints.digest, islice(numbers, _SECRETS)))
        return array("Q", packed).tobytes() if packed else b""

    def carries(self, texts: Iterable[str], deciding: Iterable[str] = ()) -> frozenset[str]:
        """The classes of guarded data of which these texts hold a detail that the user did not write. `deciding` are
        values that say who or what is affected: an account that is paid is not given away by that."""
        if not self.details:
            return frozenset()
        mask = 0
        named = {digest for text in deciding if (digest := self._whole_number(text))}
        for text in texts:
            for number in guarded.numbers(text):
                digest = self.fingerprints.digest(number)
                if digest in self.details and digest not in named and not self.users((digest,)):
                    mask |= self.details[digest]
            # Each word once, and most of them are known already.
            words = b"".join(map(self.fingerprints.atoms.__getitem__, normalise.with_parts(text)))
            for digest in filter(self.details.__contains__, packing.numbers(words)):
                if digest not in named and not self.users((digest,)):
                    mask |= self.details[digest]
        return frozenset([name for bit, name in enumerate(_GUARDED) if mask >> bit & 1]) if mask else frozenset()

    def _whole_number(self, text: str) -> int:
        """A value that is a card number or an account and nothing else, as the digest of a detail that no label made
        one; 0 for any other."""
        compact = re.sub("[ -]", "", text).lower()
        digest = self.fingerprints.digest(compact)
        return digest if self.details.get(digest, 0) & _SHAPED else 0

    def _records(
        self, records: Sequence[ResultObject], tool: ToolLabel, arguments: Mapping[str, Any], *, trusted: bool
    ) -> bytes:
        records = [one for one in records[: self.bounds.records] if trusted or is_server_made(one.id)]
        queries = self._queries(arguments)
        if len(records) > 1:
            # What they are in, a calendar or a repository, picks none of them out.
            queries = [one for one in queries if not all(is_in(record, one[1]) for record in records)]
        asked_for = [matches(record, queries) for record in records]
        # A thing may have an id and a number.
        if len({id(record.value) for record, asked in zip(records, asked_for, strict=True) if asked}) > 1:
            # Which of these is meant, somebody else may say: the user's words do not.
            asked_for = [False] * len(records)
        about = _kinds_asked_for(arguments)
        names = iter(_runs(packing.numbers(self._ordered([name for record in records for name in record.names]))))
        packed: list[int] = []
        for record, wanted in zip(records, asked_for, strict=True):
            called: list[int] = []
            for name in islice(names, len(record.names)):
                found = windows(name)
                called += (len(found), *found)
            flags = (VOUCHED if trusted else 0) | (ASKED_FOR if wanted else 0)
            # An id that no other thing can have needs no kind.
            several = kinds(record, tool.tool) | about
            for kind in several if is_short_number(record.id) else (*several, ""):
                # Whom something goes to is nothing that a stranger's structure can say.
                if (trusted or not names_somebody(kind)) and len(packed) < _RECORDED:
                    packed += (self.key(tool.server, kind, record.id), flags | len(called) << 8, *called)
        return array("Q", packed).tobytes()

    def _hints(self, found: Harvest, tool: ToolLabel, arguments: Mapping[str, Any]) -> bytes:
        """By which words the user may speak of what stands in the rows of a result, and of the people in it: those that
        no other row has. Whoever answers at an address that was asked can have written all of it, so it tells none."""
        if not (found.rows or found.people) or any(map(is_address, arguments)):
            return b""
        told = self._of_rows(found.rows[: self.bounds.records], tool.server)
        for fields in found.people[: self.bounds.records]:
            told += [
                (self.key("", "person", address), {self.fingerprints.digest(word) for word in words})
                for address, words in people(fields, trusted=tool.trusted_source)
                if words
            ]
        packed: list[int] = []
        for key, digests in told[:_HINTED]:
            few = sorted(digests)[:_HINT_WORDS]
            packed += (key, 2 * len(few) << 8, *(part for digest in few for part in (1, digest)))
        return array("Q", packed).tobytes()

    def _of_rows(self, rows: Sequence[Mapping[str, Any]], server: str) -> list[tuple[int, set[int]]]:
        """For each short value in a row, the words that tell the row from the others: its own, and those of a row that
        an id in it names."""
        described = [described_row(row) for row in rows]
        words = [{self._stem(word) for word in some} for some, _ in described]
        for (_, values), own in zip(described, words, strict=True):
            for value in values:
                known = self.records.get(self.key(server, "row", value)) if is_id_like(value) else None
                own.update(name[0] for name in known.names if name) if known is not None else None
        counted = Counter(word for some in words for word in some)
        told: list[tuple[int, set[int]]] = []
        for (_, values), own in zip(described, words, strict=True):
            alone = {word for word in own if counted[word] == 1}
            told += [(self.key(server, "row", value), alone) for value in values] if alone else []
        return told

    def _stem(self, word: str) -> int:
        return self.fingerprints.digest(f"stem\x00{stem(word)}")

    def _opened(self, found: Harvest, tool: ToolLabel, arguments: Mapping[str, Any]) -> bytes:
        """The things that a call looked at one by one, or that it made: what the conversation is about by now. And the
        words that a server has in its fields, for arguments of the same name."""
        if tool.outcome == "benign":
            ids = [(spoken_of(key, tool.tool) | nouns(tool.tool), written_id(one)) for _, key, one in leaves(arguments)]
        else:
            about = _kinds_asked_for(arguments)
            given = [
                (spoken_of(key, tool.tool) | about, written_id(one)) for _, key, one in leaves(arguments) if is_id(key)
            ]
            ids = given + [(kinds(one, tool.tool), one.id) for one in found.records]
        packed: list[int] = []
        for name, word in dict.fromkeys(found.fields[: self.bounds.records]):
            packed += (self.key(tool.server, f"field {name}", normalise.fold(word)), 0)
        for several, written in ids[: self.bounds.records]:
            if written and is_server_made(written):
                for kind in several if is_short_number(written) else ("",):
                    packed += (self.key(tool.server, f"opened {kind}", written), 0)
        return array("Q", packed).tobytes()

    def hinted(self, key: int) -> bool:
        """Whether the user's words have one by which a thing or a person is known."""
        known = self.records.get(key)
        return known is not None and any(map(self.prompt.holds, known.names))

    def _queries(self, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Phrases of a call that are the user's own words, each with the name of its argument."""
        texts = [
            (key, value)
            for _, key, value in leaves(arguments)
            if isinstance(value, str) and len(value) >= _QUERY_LENGTH and self.users(windows(self.words(value)))
        ]
        return [(key, flat) for key, text in texts if len((flat := flattened(text)).replace(" ", "")) >= _QUERY_LENGTH]

    def key(self, server: str, kind: str, written: str) -> int:
        return self.fingerprints.digest(f"{server}\x00{kind}\x00{written}")

    def _told(self, texts: Sequence[str], left: Left) -> Collection[str]:
        """Put into `left` what strangers' texts add to what the store has of them; the words that are new to it."""
        folded = heard(texts[0] if len(texts) == 1 else _BETWEEN.join(texts))
        met = self._met
        if len(folded) > LONGEST or not met.opened(self.seq):
            left.strange = b"".join(map(self.fingerprints.pieces.__getitem__, normalise.different(folded)))
            return ()
        left.chain, left.link = met.chain, met.link
        new = met.new(folded)
        if new:
            left.strange = b"".join(map(self.fingerprints.pieces.__getitem__, new))
        return new

    def _take(self, left: Left, step: int) -> None:
        if not self._chains.take(left):
            self.overflowed = True
        if left.prompt or left.clean:
            self._take_said(left, step)
        self._take_met(left, step)

    def _take_said(self, left: Left, step: int) -> None:
        if self._room(cut=left.cut):
            if left.prompt:
                self.prompt_known, self._prompted = True, step
                self._wants.clear()
                self.prompt.add(packing.numbers(left.prompt), step)
            if left.clean:
                self.clean.add(packing.numbers(left.clean), step)

    def _take_met(self, left: Left, step: int, new: Collection[str] = ()) -> None:
        """`new` are the words that a result of our own brought to its chain."""
        self.unread = self.unread or left.unread
        if new and left.strange:
            self._chains.take(left)
            self._met.link += 1
        if not self._room(cut=left.cut):
            return
        if left.vouching:
            self.vouching.add(packing.numbers(left.vouching), step)
        if left.strange:
            self.strange.add_packed(left.strange, step)
        if left.written:
            self.written.add_packed(left.written, step)
        if new and not left.cut:
            self._met.add(new)
        if left.own:
            self.own.update(packing.numbers(left.own))
        if left.records:
            self.records.take(packing.numbers(left.records), step)
        if left.details:
            classes = 0
            for detail in packing.numbers(left.details):
                if detail < 2 * _SHAPED:
                    classes = detail
                else:
                    self.details[detail] = self.details.get(detail, 0) | classes

    def _room(self, *, cut: bool) -> bool:
        """Whether more can be kept; what was cut is kept as far as it goes, and nothing is relied on after it."""
        said = len(self.prompt) + len(self.clean) + len(self.vouching)
        kept = said + len(self.own) + len(self.records) + len(self.details)
        strange = len(self.strange) + len(self.written)
        full = kept > self.bounds.remembered or strange > self.bounds.strange
        self.overflowed = self.overflowed or cut or full
        return not full or (cut and kept <= 2 * self.bounds.remembered and strange <= 2 * self.bounds.strange)


_TABLE: Final = re.compile(r"\bfrom\s+(\w{3,40})", re.IGNORECASE)
_KIND: Final = re.compile(r"[A-Za-z]{3,30}")


def _kinds_asked_for(arguments: Mapping[str, Any]) -> frozenset[str]:
    """What a call says that it looks for: `objectType: companies`, `SELECT … FROM members`."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    named = [text for text in texts if _KIND.fullmatch(text)] + [
        one for text in texts for one in _TABLE.findall(text[:4096])
    ]
    return frozenset().union(*map(nouns, named[:8]))


def _is_measured(word: str) -> bool:
    """Whether a word is nothing but dates, times of day and short numbers."""
    return all(
        atom[0] in (normalise.DATE, normalise.TIME) or (atom.isdigit() and len(atom) < _LONG_NUMBER)
        for atom in normalise.atoms(word)
    )


@lru_cache(256)
def _guarded(classes: frozenset[str]) -> int:
    """The guarded ones among some classes, a bit each; an organisation's own count as regulated."""
    mask = 0
    for name in classes:
        head = name.partition(":")[0]
        head = "regulated" if "." in head else head
        if head in _GUARDED:
            mask |= 1 << _GUARDED.index(head)
    return mask


def _runs(digests: Iterable[int]) -> Iterator[list[int]]:
    """The words of each text, where a 0 ends one."""
    run: list[int] = []
    for digest in digests:
        if digest:
            run.append(digest)
        else:
            yield run
            run = []
