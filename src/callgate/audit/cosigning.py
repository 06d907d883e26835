"""Heads of this log cosigned by witnesses (C2SP tlog-witness): asking for it, what came of it, and which heads count.

A cosigned head is kept in the archive of checkpoints, with the lines of the witnesses under it. A witness that is down,
slow or hostile changes nothing but what is said about it: no call waits for one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from callgate.audit import note, proofs
from callgate.audit.log import AuditLog
from callgate.audit.note import Cosignature, VerifierKey
from callgate.audit.storage import Archived, LogKeys, Storage, Tables, TreeHead
from callgate.audit.witness import MAX_REQUEST, SIZE_TYPE, WitnessRequest, origin_hash
from callgate.errors import AuditError, StoreError, Tampered

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

ANSWER_BYTES: Final = note.MAX_NOTE
ATTEMPTS: Final = 3
REQUEST_SECONDS: Final = 10.0
# How far ahead of ours a witness's clock may be.
_AHEAD_SECONDS: Final = 300
_SIZE: Final = re.compile(rb"(0|[1-9][0-9]{0,18})\n\Z")
_PAGE: Final = 200
_TURNS: Final = 40
_TURN_SECONDS: Final = 0.05


class WitnessParty(msgspec.Struct, frozen=True):
    """A witness as configured: what we call it, where it is, and its key."""

    name: str
    url: str
    key: VerifierKey


class Witnesses(msgspec.Struct, frozen=True):
    """Whose cosignatures count, and how many a head needs."""

    keys: tuple[VerifierKey, ...] = ()
    quorum: int = 0

    def count(self, signed: str) -> list[Cosignature]:
        """Those that hold under a note; Tampered where one in a witness's name does not."""
        return note.cosignatures(signed, self.keys)


class CosignedHead(msgspec.Struct, frozen=True):
    """A head that enough witnesses have cosigned. `at` (ms) is when the last one needed did."""

    size: int
    at: int
    note: str


def cosigned_head(tables: Tables, witnesses: Witnesses) -> CosignedHead | None:
    """The newest head that a quorum has cosigned."""
    if not witnesses.quorum:
        return None
    for row in _archive(tables):
        # Most have no line but the log's own, and need no look at signatures.
        if len(note.cosigners(row.note)) < witnesses.quorum:
            continue
        found = sorted(one.at for one in witnesses.count(row.note))
        if len(found) >= witnesses.quorum:
            return CosignedHead(row.size, found[-witnesses.quorum] * 1000, row.note)
    return None


def _archive(tables: Tables) -> Iterator[Archived]:
    """The archived checkpoints, the newest first."""
    before: Archived | None = None
    while page := tables.archived_before(before, _PAGE):
        yield from page
        before = page[-1]


class WitnessState(NamedTuple):
    """What is known of one witness: how far it has cosigned, when (ms), and why it went no further."""

    name: str
    size: int = 0
    at: int = 0
    problem: str = ""


class WitnessReport(NamedTuple):
    """How far the log is cosigned: `size` of `of` records, as of `at` (ms); `since` when the rest waits (ms)."""

    quorum: int
    size: int
    of: int
    at: int
    since: int
    states: tuple[WitnessState, ...]

    def sentence(self, now: float) -> str:
        """For people; empty where no witness is configured."""
        if not self.quorum:
            return ""
        if not self.at:
            text = f"no head of the log is cosigned by {self.quorum} of {len(self.states)} witnesses yet"
        else:
            age = max(0, round(now - self.at / 1000))
            text = f"the log is cosigned up to record {self.size} of {self.of}, {age} seconds ago"
        problems = "; ".join(f"{state.name}: {state.problem}" for state in self.states if state.problem)
        return f"{text} ({problems})" if problems else text


class Refusal(Exception):
    """Why a witness has not cosigned; `suspicious` where it has seen another log than this one."""

    def __init__(self, text: str, *, suspicious: bool = False) -> None:
        super().__init__(text)
        self.suspicious = suspicious


class Cosigning:
    """Asks the witnesses for their cosignatures; `run_once` for commands, `run` for a gateway."""

    def __init__(
        self,
        audit: AuditLog,
        *,
        clock: Callable[[], float] = time.time,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._audit = audit
        self._store: Storage = audit.store
        self._keyring: LogKeys = audit.keyring
        self._clock = clock
        self._seconds = seconds
        self._parties: tuple[WitnessParty, ...] = ()
        self._quorum = 0
        self._known: dict[VerifierKey, int] = {}
        self._states: dict[str, WitnessState] = {}
        self._cosigned: CosignedHead | None = None
        self._of = 0
        # Since when (ms) there are records that no quorum has seen.
        self._since = 0
        self._changed = asyncio.Event()

    def configure(self, parties: Sequence[WitnessParty], quorum: int) -> None:
        """Whom to ask from now on."""
        if (tuple(parties), quorum) == (self._parties, self._quorum):
            return
        self._parties, self._quorum = tuple(parties), quorum
        self._states = {one.name: self._states.get(one.name, WitnessState(one.name)) for one in parties}
        self._cosigned = None
        self._changed.set()

    @property
    def witnesses(self) -> Witnesses:
        return Witnesses(tuple(one.key for one in self._parties), self._quorum)

    def report(self) -> WitnessReport:
        done = self._cosigned
        states = tuple(self._states[one.name] for one in self._parties if one.name in self._states)
        size, at = (0, 0) if done is None else (done.size, done.at)
        return WitnessReport(self._quorum, size, self._of, at, self._since, states)

    def overdue(self, seconds: float) -> str | None:
        """Why no call may pass where records have to be cosigned within so many seconds; None where they are."""
        late = self._clock() - self._since / 1000 if self._since else 0.0
        if not self._quorum or late <= seconds:
            return None
        return f"records have waited for {self._quorum} witnesses for {round(late)} seconds, and may for {seconds:g}"

    async def run(self, interval: Callable[[], float]) -> None:
        """Ask again and again."""
        while True:
            if self._parties:
                try:
                    await self.run_once()
                except Tampered as error:
                    self._audit.noticed(error)
                    log.critical("THE AUDIT LOG HAS BEEN TAMPERED WITH: %s", error)
                except (StoreError, AuditError) as error:
                    log.warning("no witness was asked: %s", error)
                except Exception:
                    # The task must outlive what nobody foresaw; calls do not depend on it.
                    log.exception("no witness was asked")
            self._changed.clear()
            try:
                async with asyncio.timeout(interval()):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def run_once(self) -> None:
        """Have the head of the log cosigned by everybody who has not."""
        head = await asyncio.to_thread(self._head)
        if head is None:
            return
        async with self.session() as session:
            have = {one.witness: one.at for one in self.witnesses.count(head.note)}
            for party in self._parties:
                if party.key in have:
                    self._states[party.name] = WitnessState(party.name, head.size, have[party.key] * 1000)
            asked = [party for party in self._parties if party.key not in have]
            lines = await asyncio.gather(*(self._ask(session, party, head) for party in asked))
        await asyncio.to_thread(self._keep, head, "".join(lines))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """What witnesses are asked with: bounded in time, without cookies, proxies or compression."""
        # A gateway without witnesses need not wait for it.
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=self._seconds)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=timeout,
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            yield session

    async def seen_by(self, session: aiohttp.ClientSession, party: WitnessParty) -> str:
        """The newest head that a witness holds of this log; AuditError where it does not say."""
        try:
            signed = await self.latest(session, party)
            if signed is not None and note.cosignatures(signed, [party.key]):
                return signed
            problem = "it has cosigned nothing of this log"
        except _failures() as error:
            problem = str(error) or "no answer in time"
        raise AuditError(f"witness {party.name}: {problem}", advice="Try again, or leave --ask away.")

    # -- the store -------------------------------------------------------------------------------------------------

    def _head(self) -> TreeHead | None:
        """The head, with the cosignatures that it has already."""
        with self._store.audit_reading() as tables:
            head = tables.head()
            if head is None or head.size == 0:
                return None
            self._of = head.size
            self._update(tables, head)
            at = note.parse(head.note).at
            kept = tables.archived_at(head.size, at)
        return head if kept is None else msgspec.structs.replace(head, note=kept.note)

    def _keep(self, head: TreeHead, lines: str) -> None:
        for _ in range(_TURNS if lines else 0):
            if self._put(head, lines):
                break
            time.sleep(_TURN_SECONDS)  # another gateway is at it
        with self._store.audit_reading() as tables:
            now = tables.head()
            if now is not None:
                self._update(tables, now)

    def _put(self, head: TreeHead, lines: str) -> bool:
        with self._store.audit_writing() as tables:
            if not tables.take_turn():
                return False
            at = note.parse(head.note).at
            kept = tables.archived_at(head.size, at)
            signed = note.with_lines(head.note if kept is None else kept.note, lines)
            if len(signed) <= note.MAX_NOTE:
                tables.put_archived(Archived(head.size, at, signed))
        return True

    def _update(self, tables: Tables, head: TreeHead) -> None:
        self._of = head.size
        self._cosigned = cosigned_head(tables, self.witnesses)
        size = 0 if self._cosigned is None else self._cosigned.size
        unseen = tables.record_of(size) if size < head.size else None
        self._since = 0 if unseen is None else tables.time_near(unseen) or 0

    # -- one witness -----------------------------------------------------------------------------------------------

    async def _ask(self, session: aiohttp.ClientSession, party: WitnessParty, head: TreeHead) -> str:
        """The line of a witness, empty where it gives none; never raises for what a witness does."""
        before = self._states.get(party.name, WitnessState(party.name))
        try:
            line, at = await self._cosignature(session, party, head)
        except _failures(Tampered) as error:
            problem = str(error) or "no answer in time"
            if isinstance(error, Refusal) and error.suspicious:
                problem = await self._look(session, party, problem)
            if problem != before.problem:
                log.warning("witness %s has not cosigned: %s", party.name, problem)
            self._states[party.name] = before._replace(problem=problem[:200])
            return ""
        self._known[party.key] = head.size
        self._states[party.name] = WitnessState(party.name, head.size, at * 1000)
        return line

    async def _cosignature(
        self, session: aiohttp.ClientSession, party: WitnessParty, head: TreeHead
    ) -> tuple[str, int]:
        """tlog-witness "add-checkpoint", the client's side."""
        said = note.read_head(head.note)
        plain = f"{said.text.decode()}\n{note.signature_lines(head.note, [said.origin])}"
        for _ in range(ATTEMPTS):
            old = self._known.get(party.key, 0)
            proof = await asyncio.to_thread(self._proof, old, head) if 0 < old < head.size else []
            body = WitnessRequest(old, proof, plain).encode()
            assert len(body) <= MAX_REQUEST
            status, kind, answer = await self._send(session, "POST", f"{party.url}/add-checkpoint", body)
            if status == 200:
                return self._read_lines(answer, party.key, plain)
            if status == 422:
                raise Refusal("it has seen another log than this one", suspicious=True)
            if status != 409:
                raise Refusal(f"it answers {status}")
            self._known[party.key] = _size(kind, answer, old, head.size)
        raise Refusal("it changes its mind about what it has cosigned")

    def _proof(self, old: int, head: TreeHead) -> list[bytes]:
        with self._store.audit_reading() as tables:
            return proofs.consistency_between(tables, old, head.size)

    def _read_lines(self, answer: bytes, key: VerifierKey, signed: str) -> tuple[str, int]:
        """The line in the witness's name, if it holds for this very head."""
        lines = answer.decode()
        if not lines.endswith("\n") or "\n\n" in lines:
            raise Refusal("its answer is no cosignature")
        found = note.cosignatures(signed + lines, [key])
        if not found:
            raise Refusal("its answer has no cosignature by its key")
        if found[0].at > self._clock() + _AHEAD_SECONDS:
            raise Refusal("its clock is ahead")
        line = note.lines_of(signed + lines, key)
        if line.count("\n") != 1:
            raise Refusal("it has cosigned more than once")
        return line, found[0].at

    async def _look(self, session: aiohttp.ClientSession, party: WitnessParty, problem: str) -> str:
        """Ask for the head that it holds. One that our own key has signed, and that is not in the log, is a proof that
        the log was put back or rewritten: from then on the log has to continue that head."""
        try:
            signed = await self.latest(session, party)
            if signed is not None and await asyncio.to_thread(self._contradicts, signed):
                return f"{problem}: it holds a head that this log's key has signed, and that the log does not contain"
        except _failures(Tampered):
            pass
        return problem

    async def latest(self, session: aiohttp.ClientSession, party: WitnessParty) -> str | None:
        """The newest head that a witness holds of this log, if the log's key has signed it."""
        with self._store.audit_reading() as tables:
            head = tables.head()
        if head is None:
            return None
        origin = note.parse(head.note).origin
        status, _, answer = await self._send(session, "GET", f"{party.url}/{origin_hash(origin)}/checkpoint")
        if status != 200:
            return None
        checkpoint, _ = note.verify(answer.decode(), self._keyring.public_keys())
        return answer.decode() if checkpoint.origin == origin else None

    def _contradicts(self, signed: str) -> bool:
        found = note.parse(signed)
        with self._store.audit_reading() as tables:
            try:
                proofs.consistency(tables, found)
            except Tampered:
                # What an operator has given up on record stays with the witness, and is no news.
                if found.at <= self._audit.restore_accepted(tables):
                    return False
            else:
                return False
        self._audit.learn(signed)
        return True

    async def _send(
        self, session: aiohttp.ClientSession, method: str, url: str, body: bytes | None = None
    ) -> tuple[int, str, bytes]:
        """One request, bounded in time and size; redirects are not followed."""
        headers = {"accept-encoding": "identity", "content-type": "text/plain; charset=utf-8"}
        async with session.request(method, url, data=body, headers=headers, allow_redirects=False) as answer:
            found = bytearray()
            async for piece in answer.content.iter_any():
                found += piece
                if len(found) > ANSWER_BYTES:
                    raise Refusal("its answer is too long")
            return answer.status, answer.headers.get("content-type", ""), bytes(found)


def _failures(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """What a witness, or the way to it, can do."""
    import aiohttp

    return (Refusal, TimeoutError, aiohttp.ClientError, OSError, ValueError, *more)


def _size(kind: str, answer: bytes, old: int, most: int) -> int:
    """The size in a 409 answer, if it is one that can be used."""
    found = _SIZE.match(answer)
    if kind != SIZE_TYPE or found is None:
        raise Refusal("it says that the sizes differ, and not how")
    size = int(found[1])
    if size > most:
        raise Refusal(f"it has seen {size} records of this log, which has {most}", suspicious=True)
    if size == old:
        raise Refusal("it contradicts itself about what it has cosigned")
    return size
