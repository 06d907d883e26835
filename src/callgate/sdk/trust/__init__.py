"""Labels that follow an agent through its own code, and a policy that reads them: the gateway's trust as a library.

    tracker = TrustTracker(ask=confirm, alert=warn)
    async with TrackedClient(Client(url), tracker, server="mail") as mail:
        result = await mail.call_tool("send_email", {...})

One tracker is one agent's session; all the clients of that agent share it.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import inspect
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from callgate.canonical import canonical
from callgate.errors import CallgateError, ConfigError, Reason, Refused
from callgate.sdk.trust.results import OF_READERS, Detector, scan, secret
from callgate.sdk.trust.results import secrets as secrets_in
from callgate.trust.keeping import restored
from callgate.trust.model import Annotations, DataLabel, Session, SessionLabel, Step, ToolLabel, Traced
from callgate.trust.policy import Facts, Policy, Ruling
from callgate.trust.propagation import adds, asked, honour, joined
from callgate.trust.provenance import Fingerprints, Memory, objects, to_endorse, trace
from callgate.trust.results import of_result, taints, things, told
from callgate.trust.storage import NewStep, TrustShelf
from callgate.trust.vocabulary import Vocabulary
from callgate.trust.words import plain
from callgate.trust.words import told as told_in_words

if TYPE_CHECKING:
    from callgate.sdk.trust.results import ReadResult

log = logging.getLogger("callgate.trust")

_PROMPTS: Final = 100
_KEPT: Final = 1000
# How often one call is put before a person because something changed while they thought about it.
_ROUNDS: Final = 3


def session_key(name: str) -> str:
    """The key of a session; the name that an author gives it is not kept."""
    return hashlib.sha256(b"callgate library session\x00" + name.encode("utf-8", "surrogatepass")).hexdigest()


class AgentSession:
    """One agent's conversation or task, over all the servers it uses."""

    def __init__(
        self,
        repository: TrustShelf,
        name: str,
        agent: str,
        fingerprints: Fingerprints,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.key: Final = session_key(name)
        self.memory = Memory(fingerprints)
        self._repository = repository
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
        """The user's own words; kept here too, so that they are known again after the repository was read anew."""
        self._prompts = [*self._prompts, text][-_PROMPTS:]
        self.memory.remember_prompt(text)

    def overheard(self, texts: Sequence[str]) -> None:
        """What a server said beside its answers; kept until the next result is written down."""
        self.memory.overhear(texts)

    async def refresh(self) -> None:
        """Read what others have added; Refused where the repository does not answer."""
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
            await self._load(await self._repository.open(self.key, self._agent, self.now(), 0))
            return
        version = self._repository.peek(self.key)
        if version is None:
            version = await self._repository.version(self.key)
        if version != known.version:
            await self._load(await self._repository.session(self.key) or await self._restored(known))

    async def _restored(self, known: Session) -> Session:
        """The repository has no such session any more, and it goes on here: with the labels that it had."""
        opened = await self._repository.open(self.key, self._agent, self.now(), 0)
        if not known.steps:
            return opened
        return await self._repository.add(restored(known, self.now()), keep=_KEPT, expires_at=self.now())

    async def _load(self, session: Session) -> None:
        """From the beginning: what an operator took away must be gone here too."""
        memory = Memory(self._fingerprints)
        for step in await self._repository.steps(session.key):
            memory.take(step)
        memory.endorse(await self._repository.endorsed(session.key))
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
                # Memory may know of something by now that the repository does not.
                self._session = None
                if isinstance(error, CallgateError) and not isinstance(error, Refused):
                    log.error("a result was not written down: %s", error)
                    raise Refused(Reason.RESULT_WITHHELD) from None
                raise

    async def add(self, new: NewStep, *, keep: int, expires_at: int) -> None:
        """A step, durable when this returns; only inside `writing`."""
        before = self._session
        after = await self._repository.add(new, keep=keep, expires_at=expires_at)
        if before is not None and (after.version, after.opened_at) == (before.version + 1, before.opened_at):
            self.memory.endorse(new.endorsed)
            self._session = after
        elif before is not None and (after.opened_at != before.opened_at or after.version <= before.version):
            await self._load(await self._restored(before))
        else:
            await self._load(after)


class Judged(msgspec.Struct, frozen=True):
    """A call that may go on; `asked`: because a person said so."""

    facts: Facts
    ruling: Ruling
    asked: bool = False

    @property
    def session(self) -> SessionLabel:
        return self.facts.session


class LabelledResult(NamedTuple):
    """A result that was labelled and written down; `secrets` are those to mask in it, with the words for each."""

    data: DataLabel
    ruling: Ruling
    secrets: Mapping[str, str]


class TrustTracker:
    """What one agent has read, and what it may do after that.

    `policy` is the shipped one by default, `Policy.load([PATH])` reads more rules. `ask` puts a `Question` before the
    person and says whether they agree; without it such calls are refused. `alert` is told of results that were flagged.
    `detectors` look through results for orders to a model. `labels` are an organisation's own classes of data.

    `session` names the agent's conversation; without it each tracker is a new one. Everything is kept in this process,
    or on a `shelf` that several share, with a `key` of theirs of at least 16 bytes. `sources` off keeps no attribution.
    """

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        ask: Ask | None = None,
        alert: Tell | None = None,
        detectors: Iterable[Detector] = OF_READERS,
        labels: Collection[str] = (),
        session: str | None = None,
        agent: str = "library",
        shelf: TrustShelf | None = None,
        key: bytes | None = None,
        sources: bool = True,
        remember_results: int = 200,
        remember_seconds: float = 86_400.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if shelf is not None and (key is None or session is None):
            raise ConfigError(
                "a shelf that outlives the process needs a session's name and the key of what is remembered there",
                advice="Give `session` and `key` as well: the same ones in every process that shares the shelf.",
            )
        if key is not None and len(key) < 16:
            raise ConfigError("the key has fewer than 16 bytes", advice="Make one with secrets.token_bytes(32).")
        self.vocabulary: Final = Vocabulary(labels)
        self.policy: Final = policy or Policy.load()
        self._ask = ask
        self._alert = alert
        self._detectors = tuple(detectors)
        self._agent = agent
        self._sources = sources
        self._keep = remember_results
        self._lasts_ms = round(remember_seconds * 1000)
        self._repository: TrustShelf = shelf or _in_memory()
        self._session = AgentSession(
            self._repository,
            session or secrets.token_hex(16),
            agent,
            Fingerprints(key or secrets.token_bytes(32)),
            clock=clock,
        )

    # ---- what an author sees ----

    def prompt(self, text: str) -> None:
        """What the user wrote, word for word, and nothing else: values in it are theirs."""
        self._session.prompted(text)

    def overhear(self, label: ToolLabel, texts: Sequence[str]) -> None:
        """What a server said beside its answers: log lines, progress, questions."""
        if texts and not label.trusted_source:
            self._session.overheard(texts)

    async def label(self) -> SessionLabel:
        """What the session has taken in so far."""
        await self._session.refresh()
        return self._session.label

    async def steps(self) -> Sequence[Step]:
        """The calls of the session, with their labels and the decision on each."""
        return await self._repository.steps(self._session.key)

    async def declassify(self, *, by: str, note: str) -> Session | None:
        """Take all labels off the session. A person's act, and a step of the session with their name and reason."""
        if not by.strip() or not note.strip():
            raise Refused(Reason.INVALID_PARAMS, "a session is not declassified without a name and a reason")
        return await self._repository.declassify(self._session.key, SessionLabel(), by, note, self._session.now())

    # ---- before a call ----

    async def decide(
        self, label: ToolLabel, arguments: Mapping[str, Any], request: Annotations | None = None
    ) -> Judged:
        """Whether a call may be made; Refused where the policy blocks it, or nobody agrees to it."""
        agreed: tuple[object, ...] | None = None
        for _ in range(_ROUNDS + 1):
            await self._session.refresh()
            judged = self._judge(label, arguments, request)
            ruling = judged.ruling
            if ruling.effect == "allow":
                return judged
            if ruling.effect != "ask":
                raise await self._refused(judged, Reason.RULE_BLOCKED, _because(ruling))
            # The session may have read more while the person thought: what they agreed to has to be what goes on.
            shown = (ruling.matched, judged.facts.provenance)
            if shown == agreed:
                return msgspec.structs.replace(judged, asked=True)
            await self._put(judged)
            agreed = shown
        raise await self._refused(judged, Reason.APPROVAL_EXPIRED, "the session changes while the person decides")

    async def note(self, label: ToolLabel, arguments: Mapping[str, Any]) -> Judged:
        """Something that is read and not called: nothing to decide, but what comes back is taken in."""
        await self._session.refresh()
        judged = self._judge(label, arguments, None)
        return msgspec.structs.replace(judged, ruling=Ruling("allow"))

    def _judge(self, label: ToolLabel, arguments: Mapping[str, Any], request: Annotations | None) -> Judged:
        session = self._session
        facts = Facts(
            label,
            honour(session.label, request, consent=self._sources),
            trace(session.memory, label, arguments),
            arguments,
            request,
            {"id": self._agent},
            steps=session.steps,
        )
        # Where the gateway looks too: among all that is about to leave.
        facts.secrets = secret(canonical(arguments).decode("utf-8", "replace"))
        return Judged(facts, self.policy.decide(facts))

    async def _put(self, judged: Judged) -> None:
        """Ask the person; Refused unless they agree."""
        if self._ask is None:
            advice = "Give TrustTracker an `ask` that puts the question before a person."
            raise await self._refused(judged, Reason.APPROVAL_UNAVAILABLE, _because(judged.ruling), advice)
        if await self._ask(_question(judged)) is not True:
            raise await self._refused(judged, Reason.APPROVAL_REFUSED, "")

    async def _refused(self, judged: Judged, reason: Reason, detail: str, advice: str = "") -> Refused:
        """The refusal; part of the session's picture too, where that can be written."""
        facts, ruling = judged.facts, judged.ruling
        step = self._step(facts, "refuse", ruling, why=f"{reason.value}: {ruling.say}")
        try:
            async with self._session.writing():
                await self._session.add(NewStep(self._session.key, step), keep=self._keep, expires_at=step.at)
        except CallgateError as error:
            log.warning("a refusal is missing in the session's picture: %s", error)
        return Refused(reason, detail, data={"rule": ruling.rule}, advice=advice)

    # ---- after it ----

    async def take(self, judged: Judged, came: ReadResult, *, trusted: bool) -> LabelledResult:
        """Label what came back and write it down; only then may anybody read it."""
        facts, label, session = judged.facts, judged.facts.tool, self._session
        arguments = dict(facts.args or {})
        found_secrets = secrets_in(came.named)
        warnings = scan(self._detectors, came.texts)
        async with session.writing():
            memory = session.memory
            writes = taints(label, facts.session, facts.provenance)
            there, ids = things(came.structured, came.texts, writes=writes)
            found = objects(memory.fingerprints, label.server, label.tool, there, arguments, ids=ids)
            data = of_result(
                label,
                told(came.body, self.vocabulary),
                trusted=trusted,
                found=warnings,
                # What was not read whole, or is flagged, may hold anything.
                tainted=came.cut or bool(warnings) or await self._tainted(found),
                secrets=found_secrets.values(),
            )
            ruling = self.policy.decide_result(facts.with_result(data))
            masks = found_secrets if ruling.has("mask") else {}
            if masks:
                data = msgspec.structs.replace(data, masked=len(masks))
            # The session's label now: another call's result may have come in meanwhile.
            before = session.label.open_world or facts.session.open_world
            packed = memory.remember_result(
                label,
                data,
                came.structured,
                came.texts,
                arguments,
                open_world=before,
                secrets=found_secrets,
                unread=came.unread,
            )
            step = self._step(facts, "ask" if judged.asked else "allow", judged.ruling, data=data, memory=packed)
            new = NewStep(
                session.key,
                step,
                # What the caller says of their own data stays with the session too.
                joined(asked(facts.request, consent=self._sources), adds(data, consent=self._sources)),
                found if writes else (),
                to_endorse(memory, label, arguments, facts.provenance) if judged.asked else (),
            )
            await session.add(new, keep=self._keep, expires_at=step.at + self._lasts_ms)
        if data.malicious:
            await self._tell(label, data)
        return LabelledResult(data, ruling, masks)

    async def _tainted(self, found: Collection[str]) -> bool:
        """Whether something in it was written with a stranger's words, by whomever."""
        return bool(found) and bool(await self._repository.tainted(found, self._session.now()))

    async def release(self, judged: Judged, data: DataLabel, ruling: Ruling) -> None:
        """Whether the agent may read a result; Refused where a rule keeps it back or the person does not agree."""
        if ruling.effect in ("allow", "warn", "mask"):
            return
        if ruling.effect == "ask" and self._ask is not None:
            shown = msgspec.structs.replace(judged, facts=judged.facts.with_result(data), ruling=ruling)
            if await self._ask(_question(shown)) is True:
                return
        raise Refused(
            Reason.RESULT_WITHHELD,
            f"the call was made, but its result is kept back: {ruling.say} (rule: {ruling.rule})",
            advice="Do not send the call again unread: it has happened. Tell the user.",
            data={"rule": ruling.rule},
        )

    async def _tell(self, label: ToolLabel, data: DataLabel) -> None:
        log.warning("a result of %s on %s was flagged", ascii(label.tool)[:100], label.server)
        if self._alert is not None:
            alert = Alert(server=label.server, tool=label.tool, warnings=data.warnings, attribution=data.attribution)
            answer = self._alert(alert)
            if inspect.isawaitable(answer):
                await answer

    def _step(
        self,
        facts: Facts,
        verdict: str,
        ruling: Ruling,
        *,
        why: str = "",
        data: DataLabel | None = None,
        memory: bytes = b"",
    ) -> Step:
        label = facts.tool
        now = self._session.now()
        return Step(
            0,
            now,
            f"{now:012x}{secrets.token_hex(10)}",
            label.server,
            label.tool,
            verdict,
            ruling.rule,
            (why or ruling.say)[:1000],
            data,
            {
                "destination": label.destination,
                "outcomes": label.outcome,
                "sources": sorted(label.sources),
                "returns": sorted(label.returns),
            },
            facts.provenance.values,
            memory,
        )


def _because(ruling: Ruling) -> str:
    return f"{ruling.say.rstrip('.')} (rule: {ruling.rule})"


def _question(judged: Judged) -> Question:
    facts, label = judged.facts, judged.facts.tool
    return Question(
        server=label.server,
        tool=label.tool,
        # Of its own: what is shown must not become what is sent.
        arguments=copy.deepcopy(dict(facts.args or {})),
        rule=judged.ruling.rule,
        say=judged.ruling.say,
        destination=label.destination,
        outcomes="irreversible" if label.may_be_irreversible else label.outcome,
        source=tuple(sorted(label.sources)),
        values=facts.provenance.values,
        links=facts.provenance.foreign_links,
        sensitivity=tuple(sorted(facts.session.sensitivity - {"none"})),
        attribution=facts.session.attribution,
        result=facts.result,
    )


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a person has to agree to, or, where `result` is set, a result before the agent reads it.

    `values` has each value among the arguments and where it was met before; `attribution` where the session's data
    comes from. `text` is all of it in words, ready to be shown.
    """

    server: str
    tool: str
    arguments: Mapping[str, Any]
    rule: str
    say: str
    destination: str
    outcomes: str
    source: tuple[str, ...]
    values: tuple[Traced, ...] = ()
    links: tuple[Traced, ...] = ()
    sensitivity: tuple[str, ...] = ()
    attribution: tuple[str, ...] = ()
    result: DataLabel | None = None

    @property
    def text(self) -> str:
        what = "The result of" if self.result is not None else "Call"
        return told_in_words(
            f"{what} {plain(self.tool)} on {plain(self.server)}: {self.say} (rule: {self.rule})",
            does=(self.destination, self.outcomes, self.source),
            values=self.values,
            links=self.links,
            sensitivity=self.sensitivity,
            attribution=self.attribution,
            warnings=() if self.result is None else self.result.warnings,
        )


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A result that was flagged as malicious, by its server or by a detector here. The user should know of it."""

    server: str
    tool: str
    warnings: tuple[str, ...]
    attribution: tuple[str, ...] = ()


# True lets it pass; anything else does not.
Ask: TypeAlias = Callable[[Question], Awaitable[bool]]
Tell: TypeAlias = Callable[[Alert], Awaitable[None] | None]


def _in_memory() -> TrustShelf:
    """Loaded here: who has a place of their own for sessions needs no database."""
    from callgate.store.memory import MemoryStore
    from callgate.store.trust import SqlTrust

    return SqlTrust(MemoryStore())
