"""Sessions of agents: which session a call belongs to, and the sessions in use, kept in memory."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callgate.errors import CallgateError, Reason, Refused, StoreUnavailable
from callgate.gate import Context
from callgate.pipeline.context import NOBODY_KNOWN, ClientInfo, StreamContext, whom
from callgate.protocol import SESSION_META
from callgate.trust.keeping import joined, restored
from callgate.trust.model import Session, SessionLabel
from callgate.trust.provenance import Memory
from callgate.trust.provenance.packing import is_nothing, rests_on
from callgate.trust.storage import NewStep, TrustShelf

log = logging.getLogger("callgate.trust")

SESSION_ENVIRON: Final = "CALLGATE_SESSION"
_ID_CHARS: Final = 256
_LINES: Final = 4096
_NAMES_ON_LINE: Final = 32


class SessionName(msgspec.Struct, frozen=True):
    """A session's key, whose it is in words, and whether it ends by being idle.

    `unmet`: the client connected before this gateway ran, or through another one, and said there who it is. Whose
    session this goes on with cannot be told, nor what was read in it.
    """

    key: str
    agent: str
    idles: bool
    unmet: bool = False


class SessionNaming:
    """`by_agent`: sessions of one agent on several servers are one, as far as nobody says otherwise."""

    def __init__(self, *, by_agent: bool, origin: ClientOrigin) -> None:
        self._by_agent = by_agent
        self._origin = origin
        self._known: dict[tuple[object, ...], SessionName] = {}
        self._lines: OrderedDict[tuple[str, str, str], dict[SessionName, None]] = OrderedDict()

    def name(self, context: Context, meta: Mapping[str, Any]) -> SessionName:
        """The session of a call; Refused(INVALID_PARAMS) where it names one in a way that cannot be read."""
        return self.met(context, meta)[0]

    def met(self, context: Context, meta: Mapping[str, Any]) -> tuple[SessionName, ClientInfo]:
        """The same, and the client that it was told by, which a modern message has to be read for."""
        given = meta.get(SESSION_META)
        if given is not None and (not isinstance(given, str) or not given or len(given) > _ID_CHARS):
            text = f'_meta["{SESSION_META}"] has to be a text of 1 to {_ID_CHARS} characters'
            raise Refused(Reason.INVALID_PARAMS, text)
        client, whose = NOBODY_KNOWN, ""
        if isinstance(context, StreamContext):
            client, whose = context.client, context.whose
        known = (
            context.transport,
            whose or whom(context),
            client.name,
            given,
            context.session,
            client is NOBODY_KNOWN,
        )
        name = self._known.get(known)
        if name is None:
            if len(self._known) > 4096:
                self._known.clear()
            name = self._known[known] = self._work_out(context, client, given)
            self._note(context, name)
        return name, client

    def on_line(self, context: Context) -> tuple[SessionName, ...]:
        """Every session that has called over a connection: each may read what a server says there unasked."""
        return tuple(self._lines.get((context.transport, whom(context), context.session or ""), ()))

    def _note(self, context: Context, name: SessionName) -> None:
        if context.session is None:
            return
        line = self._lines.setdefault((context.transport, whom(context), context.session), {})
        line[name] = None
        if len(line) > _NAMES_ON_LINE:
            del line[next(iter(line))]
        while len(self._lines) > _LINES:
            self._lines.popitem(last=False)

    def _work_out(self, context: Context, client: ClientInfo, given: str | None) -> SessionName:
        caller = "stdio" if context.transport == "stdio" else whom(context)
        shown = caller.removeprefix("peer:") if context.caller is None else context.caller.id
        agent = " ".join(filter(None, (shown, client.name)))
        if given is not None:
            return SessionName(_digest(caller, "given", given), agent, idles=False)
        if context.transport == "stdio":
            # All that one client starts belongs to one agent.
            own = self._origin.session or (self._origin.client if self._by_agent else context.session or "")
            if not own:
                # Nobody can say which client it is, so not what that has read from other servers either.
                return SessionName(_digest(caller, "unmet", context.session or ""), agent, idles=False, unmet=True)
            return SessionName(_digest(caller, "process", own), agent, idles=False)
        if self._by_agent and context.caller is not None:
            # Proved, so what the client calls itself makes no difference.
            return SessionName(_digest(caller, "agent"), agent, idles=True)
        if self._by_agent and context.session is not None and client is NOBODY_KNOWN:
            log.warning(
                "client connected elsewhere: taken for one that has read anything", extra={"fields": {"agent": agent}}
            )
            return SessionName(_digest(caller, "unmet", context.session), agent, idles=False, unmet=True)
        if self._by_agent or context.session is None:
            return SessionName(_digest(caller, "agent", client.name), agent, idles=True)
        return SessionName(_digest(caller, "transport", context.session), agent, idles=False)


def started_by(parent: int, environ: Mapping[str, str]) -> ClientOrigin:
    """The origin of a server that a process of this number started, in this environment; no client for 0, as for one
    in another container."""
    client = f"{parent}:{_start_of(parent)}" if parent > 0 else ""
    return ClientOrigin(client, environ.get(SESSION_ENVIRON, "")[:_ID_CHARS])


def _start_of(process: int) -> str:
    """When a process began, so that its number cannot be another's; empty where the system does not say."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError, UnicodeDecodeError):
        return ""


def _digest(*parts: str) -> str:
    text = b"".join(
        len(part.encode("utf-8", "surrogatepass")).to_bytes(4) + part.encode("utf-8", "surrogatepass") for part in parts
    )
    return hashlib.sha256(text).hexdigest()[:32]


class ClientOrigin(msgspec.Struct, frozen=True):
    """Who started a wrapped server: the client's process, and the session that its environment names."""

    client: str = ""
    session: str = ""


_AT_HAND: Final = 2000
_KEPT: Final = 1000
# A step is made anew where others were faster, so often at most.
_TRIES: Final = 5


class LiveSession:
    """One session: its labels and what it remembers."""

    __slots__ = (
        "epoch",
        "flying",
        "known",
        "known_steps",
        "lost",
        "memory",
        "mine",
        "overheard",
        "parted",
        "seen",
        "session",
        "teaching",
        "turn",
        "within",
    )

    def __init__(self, session: Session, memory: Memory, seen: float) -> None:
        self.session = session
        self.memory = memory
        # When it was used last, on the clock of this process.
        self.seen = seen
        # For reading it anew, and for remembering: neither happens in the middle of the other.
        self.turn = asyncio.Lock()
        # Up to here memory has everything; versions of our own that came back ahead of others; steps under way, and
        # those among them that bring something new.
        self.known = session.version
        self.known_steps = session.steps
        self.mine: set[int] = set()
        self.flying = 0
        self.teaching = 0
        # Moves on when memory is made anew.
        self.epoch = 0
        # What is known to add nothing to which label: most results of a tool add the same.
        self.within: tuple[SessionLabel, SessionLabel] | None = None
        # Memory has something that did not make it to the store, so nothing may be built on it any more.
        self.lost = False
        # When notifications were written down last.
        self.overheard = 0.0
        # The store has another session under its key, and is to have what this one was.
        self.parted = False

    def has(self, version: int) -> bool:
        """Whether memory has what the store has at this version. What is under way from here is in memory already."""
        return self.known <= version <= self.known + self.flying + len(self.mine)

    def came_back(self, session: Session) -> None:
        """A step of our own is in the store."""
        mine = self.mine
        if session.version > self.known:
            mine.add(session.version)
        while self.known + 1 in mine:
            self.known += 1
            self.known_steps += 1
            mine.discard(self.known)
        if session.version > self.session.version:
            # What is known of a label is known of the object.
            label = self.session.label
            same = session.label is label or session.label != label
            self.session = session if same else replace(session, label=label)


class TrustSessionCache:
    """One for each gateway process."""

    def __init__(
        self,
        shelf: TrustShelf,
        make_memory: Callable[[], Memory],
        *,
        idle_ms: Callable[[], int],
        most: int = _AT_HAND,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = shelf
        self._make_memory = make_memory
        self._idle_ms = idle_ms
        self._most = most
        self._clock = clock
        self._live: OrderedDict[str, LiveSession] = OrderedDict()
        self._mending: set[asyncio.Task[None]] = set()

    def at_once(self, name: SessionName) -> LiveSession | None:
        """A session that is known to be as the store has it; None where one has to look."""
        live, now = self._live.get(name.key), self._clock()
        if live is None or (name.idles and 0 < self._idle_ms() < (now - live.seen) * 1000) or not self._is_known(live):
            return None
        live.seen = now
        return live

    async def get(self, name: SessionName) -> LiveSession:
        """The session as the store has it now, made where there is none."""
        live = self._live.get(name.key)
        if live is None or self._over(name, live):
            return await self._open(name)
        async with live.turn:
            if not self._is_known(live):
                # A step of somebody else's must not pass for one of ours that is under way.
                if live.flying:
                    await self._shelf.landed()
                if live.parted:
                    await self._restore(live)
                elif not live.has(await self._shelf.version(name.key)):
                    await self._catch_up(name, live)
        if self._live.get(name.key) is not live:
            # A step that was under way did not come back as it should have.
            return await self._open(name)
        live.seen = self._clock()
        self._live.move_to_end(name.key)
        return live

    async def add(
        self, live: LiveSession, make: Callable[[LiveSession], NewStep], *, keep: int, expires_at: int
    ) -> None:
        """A step: what it brings is durable when this returns, and what others added meanwhile is read after it.

        `make` remembers what the step leaves in memory, while nobody else reads it anew. A step has only what memory
        did not have before it. So where memory turns out to have had what the store has not, or has no more, the step
        is made once more, on what there is.
        """
        # Once it was written, the chain that it rested on.
        rested: int | None = None
        for _ in range(_TRIES):
            if live.lost:
                live = await self._fetch(live.session.key, live.session.agent, 0)
            if live.turn.locked():
                async with live.turn:
                    if live.lost:
                        continue
                    new = self._made(live, make)
            else:
                try:
                    new = make(live)
                except BaseException:
                    self._lose(live)
                    raise
            teaches = _teaches(live, new)
            if rested is not None and (not teaches or rests_on(new.step.memory) == rested):
                # What it rested on is there still.
                return
            if not (teaches or new.objects or new.endorsed or live.teaching) and self._is_known(live):
                # What it says is in the store already: this is for the picture of the session.
                live.flying += 1
                try:
                    self._shelf.add_soon(new, keep=keep, done=partial(self._came_late, live, live.epoch, live.known))
                except BaseException:
                    live.flying -= 1
                    raise
                return
            if await self._add(live, new, keep, expires_at):
                return
            rested = rests_on(new.step.memory)
            if not rested:
                return
        raise StoreUnavailable("a step of a session could not be written", advice="Run `callgate store check`.")

    async def _add(self, live: LiveSession, new: NewStep, keep: int, expires_at: int) -> bool:
        """Whether the store has it, behind nothing that memory does not have."""
        epoch, floor = live.epoch, live.known
        live.flying += 1
        live.teaching += 1
        try:
            # Several at a time: steps that come together are written together.
            after = await self._shelf.add(new, keep=keep, expires_at=expires_at)
        except BaseException:
            self._lose(live)
            raise
        finally:
            live.flying -= 1
            live.teaching -= 1
        if not live.lost and self._came_back(live, after, epoch, floor, new.endorsed):
            return True
        async with live.turn:
            if _began_anew(live.session, after, floor):
                # Between the look at it and the step.
                await self._restore(live)
            elif not live.lost and (live.epoch != epoch or live.known < after.version):
                latest = after if after.version > live.session.version else live.session
                await self._load(live, latest, anew=live.epoch != epoch)
        return False

    def _made(self, live: LiveSession, make: Callable[[LiveSession], NewStep]) -> NewStep:
        try:
            return make(live)
        except BaseException:
            self._lose(live)
            raise

    def _lose(self, live: LiveSession) -> None:
        """Memory may know of something by now that the store does not."""
        live.lost = True
        self._drop(live)

    def _drop(self, live: LiveSession) -> None:
        if self._live.get(live.session.key) is live:
            del self._live[live.session.key]

    def _is_known(self, live: LiveSession) -> bool:
        """Whether memory has what the store has, as far as that can be told at once."""
        version = self._shelf.at_hand(live.session.key, live.known)
        if version is None and not live.flying:
            version = self._shelf.peek(live.session.key)
        if version is None or live.parted:
            return False
        known = live.known
        return known <= version <= known + live.flying + len(live.mine)

    @staticmethod
    def _came_back(live: LiveSession, after: Session, epoch: int, floor: int, endorsed: tuple[str, ...] = ()) -> bool:
        """Takes note of a step that is in the store; False where others have written there before it."""
        if live.epoch != epoch or _began_anew(live.session, after, floor):
            return False
        live.came_back(after)
        memory = live.memory
        memory.seq = max(memory.seq, after.steps)
        if endorsed:
            memory.endorse(endorsed)
        return live.known >= after.version

    def _came_late(self, live: LiveSession, epoch: int, floor: int, after: Session | None) -> None:
        """The same for a step that nobody waited for. It brought nothing, so memory is right without it; what others
        wrote before it is read when somebody looks."""
        live.flying -= 1
        if after is None:
            # Nobody goes on with a session that cannot be written to.
            self._drop(live)
        elif self._came_back(live, after, epoch, floor):
            return
        elif live.epoch == epoch and _began_anew(live.session, after, floor):
            live.parted = True
            task = asyncio.get_running_loop().create_task(self._mend(live))
            self._mending.add(task)
            task.add_done_callback(self._mending.discard)

    async def _mend(self, live: LiveSession) -> None:
        """Where that fails, whoever asks for the session next tries again."""
        with suppress(CallgateError):
            async with live.turn:
                if live.parted:
                    await self._restore(live)

    def _over(self, name: SessionName, live: LiveSession) -> bool:
        idle = self._idle_ms()
        return name.idles and idle > 0 and (self._clock() - live.seen) * 1000 > idle

    async def _open(self, name: SessionName) -> LiveSession:
        return await self._fetch(name.key, name.agent, self._idle_ms() if name.idles else 0)

    async def _fetch(self, key: str, agent: str, idle_ms: int) -> LiveSession:
        now = self._clock()
        session = await self._shelf.open(key, agent, round(now * 1000), idle_ms)
        live = LiveSession(session, self._make_memory(), now)
        await self._load(live, session, anew=True)
        # Whoever was faster has the one that others hold already.
        kept = self._live.get(key)
        over = kept is not None and 0 < idle_ms < (now - kept.seen) * 1000
        if kept is not None and (kept.known >= session.version or kept.parted) and not over:
            return kept
        self._live[key] = live
        while len(self._live) > self._most:
            self._live.popitem(last=False)
        return live

    async def _catch_up(self, name: SessionName, live: LiveSession) -> None:
        session = await self._shelf.session(name.key)
        # One that ends by being idle may have ended elsewhere; any other is in use, so it has not ended.
        if session is None or (not name.idles and _began_anew(live.session, session)):
            await self._restore(live)
        else:
            await self._load(live, session)

    async def _restore(self, live: LiveSession) -> None:
        """The store has parted with a session that is in use: what it was stays, and what it read is unknown now."""
        now = round(self._clock() * 1000)
        await self._shelf.open(live.session.key, live.session.agent, now, 0)
        session = await self._shelf.add(restored(live.session, now), keep=_KEPT, expires_at=now)
        await self._load(live, session, anew=True)
        live.parted = False

    async def _load(self, live: LiveSession, session: Session, *, anew: bool = False) -> None:
        """What others added; from the beginning where something else has changed: what an operator took away, or a
        session that began anew, must be gone here too."""
        only_more = not anew and (
            live.session.opened_at == session.opened_at
            and session.version - live.known == session.steps - live.known_steps
        )
        memory = live.memory if only_more else self._make_memory()
        after = live.known_steps if only_more else 0
        memory.seq = after
        for step in await self._shelf.steps(session.key, after):
            memory.take(step)
        memory.endorse(await self._shelf.endorsed(session.key))
        live.session, live.known, live.known_steps = session, session.version, session.steps
        live.mine.clear()
        if not only_more:
            if live.memory.overheard:
                memory.overhear(live.memory.overheard)
            live.memory = memory
            live.epoch += 1


def _teaches(live: LiveSession, new: NewStep) -> bool:
    """Whether a step brings labels or words that the session did not have."""
    label, adds, known = live.session.label, new.adds, live.within
    if known is None or known[0] is not label or known[1] is not adds:
        if joined(label, adds) is not label:
            return True
        live.within = label, adds
    return not is_nothing(new.step.memory) if new.step.memory else new.step.label is not None


def _began_anew(before: Session, after: Session, floor: int | None = None) -> bool:
    """Whether the store has another session under this key. A step of our own comes after all that was known when it
    was made (`floor`), if not always after those that left with it."""
    if after.opened_at != before.opened_at:
        return True
    return after.version < before.version if floor is None else after.version <= floor
