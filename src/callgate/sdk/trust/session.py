"""An agent's session as a library keeps it: labels and memory at hand, and never older than the shelf."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from callgate.errors import CallgateError, Reason, Refused
from callgate.trust.keeping import restored
from callgate.trust.model import Session, SessionLabel
from callgate.trust.provenance import Fingerprints, Memory
from callgate.trust.storage import NewStep, TrustShelf

log = logging.getLogger("callgate.trust")

_PROMPTS: Final = 100
_KEPT: Final = 1000


def session_key(name: str) -> str:
    """The key of a session; the name that an author gives it is not kept."""
    return hashlib.sha256(b"callgate library session\x00" + name.encode("utf-8", "surrogatepass")).hexdigest()


class AgentSession:
    """One agent's conversation or task, over all the servers it uses."""

    def __init__(
        self,
        shelf: TrustShelf,
        name: str,
        agent: str,
        fingerprints: Fingerprints,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.key: Final = session_key(name)
        self.memory = Memory(fingerprints)
        self._shelf = shelf
        self._agent = agent
        self._fingerprints = fingerprints
        self._clock = clock
        self._session: Session | None = None
        self._prompts: list[str] = []
        self._turn = asyncio.Lock()

    @property
    def label(self) -> SessionLabel:
        return SessionLabel() if self._session is None else self._session.label

    @property
    def steps(self) -> int:
        return 0 if self._session is None else self._session.steps

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self._clock() * 1000)

    def prompted(self, text: str) -> None:
        """The user's own words; kept here too, so that they are known again after the shelf was read anew."""
        self._prompts = [*self._prompts, text][-_PROMPTS:]
        self.memory.remember_prompt(text)

    def overheard(self, texts: Sequence[str]) -> None:
        """What a server said beside its answers; kept until the next result is written down."""
        self.memory.overhear(texts)

    async def refresh(self) -> None:
        """Read what others have added; Refused where the shelf does not answer."""
        try:
            async with self._turn:
                await self._refresh()
        except Refused:
            raise
        except CallgateError as error:
            log.error("the agent's session cannot be read: %s", error)
            raise Refused(Reason.STORE_UNAVAILABLE) from None

    async def _refresh(self) -> None:
        known = self._session
        if known is None:
            await self._load(await self._shelf.open(self.key, self._agent, self.now(), 0))
            return
        version = self._shelf.peek(self.key)
        if version is None:
            version = await self._shelf.version(self.key)
        if version != known.version:
            await self._load(await self._shelf.session(self.key) or await self._restored(known))

    async def _restored(self, known: Session) -> Session:
        """The shelf has parted with the session, and it goes on here: with the labels that it had."""
        opened = await self._shelf.open(self.key, self._agent, self.now(), 0)
        if not known.steps:
            return opened
        return await self._shelf.add(restored(known, self.now()), keep=_KEPT, expires_at=self.now())

    async def _load(self, session: Session) -> None:
        """From the beginning: what an operator took away must be gone here too."""
        memory = Memory(self._fingerprints)
        for step in await self._shelf.steps(session.key):
            memory.take(step)
        memory.endorse(await self._shelf.endorsed(session.key))
        for text in self._prompts:
            memory.remember_prompt(text)
        if self.memory.overheard:
            memory.overhear(self.memory.overheard)
        self.memory, self._session = memory, session

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """A result is taken into memory and written down by one at a time. Where that fails, nobody gets the result:
        an agent that has read something and does not know it would be worse off than one without an answer."""
        async with self._turn:
            try:
                await self._refresh()
                yield
            except BaseException as error:
                # Memory may know of something by now that the shelf does not.
                self._session = None
                if isinstance(error, CallgateError) and not isinstance(error, Refused):
                    log.error("a result was not written down: %s", error)
                    raise Refused(Reason.RESULT_WITHHELD) from None
                raise

    async def add(self, new: NewStep, *, keep: int, expires_at: int) -> None:
        """A step, durable when this returns; only inside `writing`."""
        before = self._session
        after = await self._shelf.add(new, keep=keep, expires_at=expires_at)
        if before is not None and (after.version, after.opened_at) == (before.version + 1, before.opened_at):
            self.memory.endorse(new.endorsed)
            self._session = after
        elif before is not None and (after.opened_at != before.opened_at or after.version <= before.version):
            await self._load(await self._restored(before))
        else:
            await self._load(after)
