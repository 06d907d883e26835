"""What comes back of a call: its label, what is suspicious in it, what is remembered of it, what is held back."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from callgate.errors import CallgateError, MessageError, Reason, Refused
from callgate.gate import Call, Context, in_step
from callgate.jsonrpc import Message, RequestId
from callgate.pipeline.context import RequestContext
from callgate.trust.check import JudgedCall, TrustCheck
from callgate.trust.model import DataLabel, Provenance, Quarantined, SessionLabel, Step, ToolLabel, Traced
from callgate.trust.policy.engine import Ruling
from callgate.trust.policy.facts import Facts
from callgate.trust.propagation import adds, asked, joined
from callgate.trust.provenance import objects as objects_in
from callgate.trust.provenance import to_endorse
from callgate.trust.quarantine import Seals, expires_at, new_handle
from callgate.trust.released_results import released
from callgate.trust.results import (
    Expectations,
    ReplyContent,
    Stripped,
    of_result,
    quarantined,
    read_result,
    read_whole,
    tainted,
    taints,
    things,
    told,
    with_warning,
    without_secrets,
)
from callgate.trust.session_cache import LiveSession, SessionName, TrustSessionCache
from callgate.trust.storage import NewStep, TrustShelf
from callgate.trust.vocabulary import Vocabulary
from callgate.trust.words import why

log = logging.getLogger("callgate.trust")

QUESTION: Final = "callgate-flagged-"
_HIDDEN: Final = "(not kept)"
_LABELS: Final = 1_024
NOTICES: Final = "notifications/"
_TOGETHER_SECONDS: Final = 10.0
LISTINGS: Final = frozenset({"resources/list", "resources/templates/list", "prompts/list", "completion/complete"})
_encode: Final = msgspec.json.Encoder().encode


class Scan(Protocol):
    def steering(self, texts: Sequence[str]) -> tuple[str, ...]: ...

    def secrets(self, texts: Sequence[str]) -> dict[str, str]: ...


class ResultSettings(msgspec.Struct, frozen=True):
    """How much is kept, and for how long; and what is done with what is suspicious."""

    results: int
    seconds: float
    warn: bool = True
    elicit: bool = False


class ResultRecorder:
    """Labels results and writes them down. `tell` is told of suspicious ones: server, tool, what about it."""

    def __init__(
        self,
        check: TrustCheck,
        sessions: TrustSessionCache,
        shelf: TrustShelf,
        *,
        keeping: ResultSettings,
        vocabulary: Vocabulary,
        scan: Scan | None,
        seals: Callable[[], Seals],
        where: Callable[[str], Awaitable[str]],
        tell: Callable[[str, str, dict[str, Any]], None],
        held: Callable[[Quarantined], None] = lambda _held: None,
        has_schema: Callable[[str, str], bool] = lambda _server, _tool: False,
        hides: Callable[[str, str, str], bool] = lambda _server, _tool, _path: False,
        expectations: Expectations,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._check = check
        self._sessions = sessions
        self._shelf = shelf
        self._keeping = keeping
        self._vocabulary = vocabulary
        self._scan = scan
        self._seals = seals
        self._where = where
        self._tell = tell
        self._held = held
        self._has_schema = has_schema
        # Whether the log keeps the value at a path of a call's arguments to itself; then a step does so too.
        self._hides = hides
        # Notices tools that used to send labels and do not any more.
        self._expectations = expectations
        self._clock = clock
        self._asked: set[RequestId] = set()
        # What steps say of labels, and what results of a label add to sessions.
        self._facts: dict[int, tuple[ToolLabel, dict[str, Any]]] = {}
        self._adding: dict[int, tuple[DataLabel, SessionLabel]] = {}

    # ---- replies ----

    async def of_call(self, call: Call, judged: JudgedCall | None, raw: bytes) -> bytes:
        """A reply to a call, as the client is to see it; Refused where it cannot be passed on."""
        if judged is None:
            # Nobody looked at the call (too many were under way): then nobody passes its result on either.
            raise Refused(Reason.RESULT_WITHHELD)
        await in_step
        facts = judged.facts
        found, label = read_result(raw), facts.tool
        # Of an error, of what asks for input and of what reads in two ways, a model may read all.
        result = read_whole(raw) if found is None or found.ambiguous else found
        data, secrets = self._label(label, result)
        writes = taints(label, facts.session, facts.provenance)
        objects: tuple[str, ...] = ()
        if writes or not data.open_world:
            memory, server = judged.live.memory, call.context.server
            there, ids = things(result.structured, result.texts, writes=writes)
            objects = objects_in(memory.fingerprints, server, call.tool, there, call.arguments, ids=ids)
        if objects and not data.open_world and await self._tainted(objects, call.at):
            data = tainted(data)
        ruling = self._check.policy.decide_result(msgspec.structs.replace(facts, result=data))
        plain = self._masked(raw, secrets, ruling) if secrets else raw
        if plain is not None and plain is not raw:
            data = msgspec.structs.replace(data, masked=len(secrets))
        await in_step
        await self._write(judged, data, result, objects if writes else (), secrets)
        if data.malicious:
            self._alert(judged, data)
        if data.masked:
            self._tell_masked(judged.name, call.context.server, call.tool, data, call=call.id)
        if not self._check.enforcing:
            return raw
        if plain is None or ruling.effect in ("quarantine", "ask"):
            raw = await self._hold(judged, data, raw if plain is None else plain, result)
        elif data.warnings and (self._keeping.warn or ruling.has("warn")):
            try:
                raw = with_warning(plain, data.warnings)
            except MessageError:
                # A reply that reads in two ways has no place for a warning that everybody would see.
                raw = await self._hold(judged, data, plain, result)
        else:
            raw = plain
        if data.malicious and self._keeping.elicit:
            await self._elicit(judged.call, data)
        return raw

    async def of_read(self, message: Message, context: Context, raw: bytes) -> bytes:
        """A resource or prompt: its server's data all the same."""
        name = self._check.naming.name(context, message.meta)
        return await self._taken_in(name, context.server, message.meta, message.method or "", raw)

    async def unasked(self, context: Context, raw: bytes, method: str = "") -> bytes:
        """What a server sends without being asked, or a reply to nothing known: unlabelled data of that server, for all
        who may read it there."""
        meta = context.meta if isinstance(context, RequestContext) else {}
        naming, given = self._check.naming, raw
        for name in dict.fromkeys((naming.name(context, meta), *naming.on_line(context))):
            given = await self._taken_in(name, context.server, meta, method, raw)
        return given

    async def _taken_in(
        self, name: SessionName, server: str, meta: Mapping[str, Any], method: str, raw: bytes
    ) -> bytes:
        """What nobody called, as the client is to see it; Refused where it cannot be passed on."""
        live = await self._sessions.get(name)
        label = self._check.labels.of(server, method or "unasked", {})
        result = read_whole(raw)
        data, secrets = self._label(label, result)
        if method.startswith(NOTICES) and not data.malicious and not secrets:
            await self._overheard(live, name, label, data, result, method=method, meta=meta)
            return raw
        plain: bytes | None = raw
        if secrets:
            facts = Facts(label, live.session.label, result=data)
            plain = self._masked(raw, secrets, self._check.policy.decide_result(facts))
            if plain is not None and plain is not raw:
                data = msgspec.structs.replace(data, masked=len(secrets))
        # These reach people more than models: their words are a stranger's, and that is all.
        quiet = (method in LISTINGS or method.startswith(NOTICES)) and not data.malicious
        tool = method or "(unasked)"
        await self._remember(live, name, label, data, result, tool=tool, meta=meta, quiet=quiet, secrets=secrets)
        if data.masked:
            self._tell_masked(name, server, tool, data)
        if plain is None:
            raise Refused(Reason.RESULT_WITHHELD)
        return plain

    async def _overheard(
        self,
        live: LiveSession,
        name: SessionName,
        label: ToolLabel,
        data: DataLabel,
        result: ReplyContent,
        *,
        method: str,
        meta: Mapping[str, Any],
    ) -> None:
        """A notification. A server may send hundreds for one call, so they are written down together: with the next
        result, or after a while."""
        if not data.open_world:
            return
        due, now = live.memory.overhear(result.readable()), self._clock()
        if due or now - live.overheard >= _TOGETHER_SECONDS:
            live.overheard = now
            await self._remember(live, name, label, data, ReplyContent(), tool=method, meta=meta, quiet=True)

    def _masked(self, raw: bytes, secrets: Mapping[str, str], ruling: Ruling) -> bytes | None:
        """What the client is to see where a rule masks secrets; None where that cannot be done for every reader."""
        if not secrets or not ruling.has("mask") or not self._check.enforcing:
            return raw
        try:
            plain = without_secrets(raw, secrets)
        except MessageError:
            return None
        return None if self._scan is None or self._scan.secrets(read_whole(plain).named()) else plain

    async def _remember(
        self,
        live: LiveSession,
        name: SessionName,
        label: ToolLabel,
        data: DataLabel,
        result: ReplyContent,
        *,
        tool: str,
        meta: Mapping[str, Any],
        quiet: bool = False,
        secrets: Collection[str] = (),
    ) -> None:
        """`quiet` leaves the session's label as it is."""
        now = round(self._clock() * 1000)
        kept = self._kept(data, meta)

        def make(live: LiveSession) -> NewStep:
            packed = live.memory.remember_result(
                label,
                data,
                None,
                result.readable(),
                {},
                open_world=live.session.label.open_world,
                secrets=secrets,
                unread=result.unread,
            )
            step = Step(0, now, "", label.server, tool, "allow", label=kept, memory=packed)
            return NewStep(name.key, step, adds=SessionLabel() if quiet else self._adds(kept))

        await self._add(live, make, label.server, now)

    async def refused(self, judged: JudgedCall, refused: Refused) -> None:
        """A call that goes no further, for the picture of its session."""
        now = round(self._clock() * 1000)
        call, facts = judged.call, judged.facts
        kept = msgspec.structs.replace(facts, provenance=self._kept_values(call, facts.provenance))
        step = Step(
            0,
            now,
            call.id,
            call.context.server,
            call.tool,
            "refuse",
            judged.ruling.rule,
            f"{refused.reason.value}: {why(judged.ruling, kept)}"[:1000],
            None,
            self._label_facts(judged.label),
            kept.provenance.values,
        )
        new = NewStep(judged.name.key, step, asked(judged.facts.request))
        await self._add(judged.live, lambda _live: new, step.server, now)

    async def released(self, handle: object, name: SessionName, call: Call, *, modern: bool) -> dict[str, Any]:
        """A held result, for the agent, once a person has released it. It may read it only now: the session that it
        was held for may be over."""
        server = call.context.server
        given = await released(self._shelf, self._seals(), handle, session=name.key, server=server, modern=modern)
        if given.tool:
            label = self._check.label(call.context, given.tool, {})
            whole = ReplyContent(structured=given.result, has_structured=True, body=given.result)
            found, secrets = self._label(label, whole)
            data = msgspec.structs.replace(tainted(found), malicious=True)
            live = await self._sessions.get(name)
            await self._remember(live, name, label, data, whole, tool=given.tool, meta=call.meta, secrets=secrets)
        return given.result

    # ---- labels ----

    def _label(self, label: ToolLabel, result: ReplyContent) -> tuple[DataLabel, dict[str, str]]:
        """The label of a result, and each key, token and password in it."""
        said = told(result.body, self._vocabulary)
        warnings: tuple[str, ...] = ()
        secrets: dict[str, str] = {}
        if self._scan is not None:
            named, readable = result.named(), result.readable()
            secrets, warnings = self._scan.secrets(named), self._scan.steering(readable)
        expected = self._expectations
        if (said.kinds or expected.sent) and (
            stripped := expected.met(label.server, label.tool, said.kinds)
        ) is not None:
            self._tell_stripped(stripped)
        data = of_result(
            label,
            said,
            # Only of what it says is it asked whether its server is believed.
            trusted=bool(said.kinds) and not result.ambiguous and self._check.labels.trusted(label.server),
            found=warnings,
            # What was not read whole, or reads in two ways, may hold anything.
            tainted=result.ambiguous or result.cut or bool(warnings),
            secrets=secrets.values(),
        )
        return data, secrets

    def _tell_stripped(self, stripped: Stripped) -> None:
        self._tell(stripped.server, "labels_missing", {"tool": stripped.tool, "missing": list(stripped.missing)})
        log.warning("labels are missing", extra={"fields": {"server": stripped.server, "problem": stripped.text}})

    def _kept(self, data: DataLabel, meta: Mapping[str, Any]) -> DataLabel:
        """The label as it is written down: without sources where the user did not agree to that."""
        return data if self._check.consents(meta) else msgspec.structs.replace(data, attribution=())

    def _kept_values(self, call: Call, provenance: Provenance) -> Provenance:
        """The values as they are written down: what the log does not keep is not kept here."""
        if not provenance.values and not provenance.foreign_links:
            return provenance
        server, tool = call.context.server, call.tool
        every = (*provenance.values, *provenance.foreign_links)
        hidden = {one.path for one in every if self._hides(server, tool, one.path)}
        if not hidden:
            return provenance

        def kept(values: tuple[Traced, ...]) -> tuple[Traced, ...]:
            return tuple(msgspec.structs.replace(one, shown=_HIDDEN) if one.path in hidden else one for one in values)

        return msgspec.structs.replace(
            provenance, values=kept(provenance.values), foreign_links=kept(provenance.foreign_links)
        )

    # ---- what is written down ----

    async def _tainted(self, objects: Sequence[str], now: int) -> frozenset[str]:
        try:
            return await self._shelf.tainted(objects, now)
        except CallgateError as error:
            log.error("objects not looked up", extra={"fields": {"error": str(error)}})
            raise Refused(Reason.RESULT_WITHHELD) from None

    def _write(
        self,
        judged: JudgedCall,
        data: DataLabel,
        result: ReplyContent,
        objects: tuple[str, ...],
        secrets: Collection[str],
    ) -> Awaitable[None]:
        call, facts = judged.call, judged.facts
        label = facts.tool
        now = round(self._clock() * 1000)
        kept = self._kept(data, call.meta)

        def make(live: LiveSession) -> NewStep:
            packed = live.memory.remember_result(
                label,
                data,
                result.structured,
                result.texts + result.links,
                call.arguments,
                open_world=facts.session.open_world,
                secrets=secrets,
                unread=result.unread,
            )
            step = Step(
                0,
                now,
                call.id,
                call.context.server,
                call.tool,
                "ask" if judged.asked else "allow",
                judged.ruling.rule,
                judged.ruling.say,
                kept,
                self._label_facts(label),
                self._kept_values(call, facts.provenance).values,
                packed,
            )
            return NewStep(
                judged.name.key,
                step,
                # What the client says of its own data stays with the session too.
                self._adds(kept) if facts.request is None else joined(asked(facts.request), adds(kept)),
                objects,
                to_endorse(live.memory, label, call.arguments, facts.provenance) if judged.asked else (),
            )

        return self._add(judged.live, make, call.context.server, now)

    def _adds(self, data: DataLabel) -> SessionLabel:
        """What a result adds; the same object for the same label, which is quickly known to add nothing more."""
        known = self._adding.get(id(data))
        if known is not None and known[0] is data:
            return known[1]
        made = adds(data)
        if len(self._adding) >= _LABELS:
            self._adding.clear()
        self._adding[id(data)] = data, made
        return made

    def _label_facts(self, label: ToolLabel) -> dict[str, Any]:
        known = self._facts.get(id(label))
        # The label is kept beside them, so its id cannot come to mean another.
        if known is not None and known[0] is label:
            return known[1]
        facts = {
            "destination": label.destination,
            "outcomes": label.outcome,
            "sources": sorted(label.sources),
            "returns": sorted(label.returns),
        }
        if len(self._facts) >= _LABELS:
            self._facts.clear()
        self._facts[id(label)] = label, facts
        return facts

    async def _add(self, live: LiveSession, make: Callable[[LiveSession], NewStep], server: str, now: int) -> None:
        keeping = self._keeping
        try:
            await self._sessions.add(live, make, keep=keeping.results, expires_at=now + round(keeping.seconds * 1000))
        except CallgateError as error:
            log.error("result not written down", extra={"fields": {"server": server, "error": str(error)}})
            raise Refused(Reason.RESULT_WITHHELD) from None

    # ---- what is suspicious ----

    def _alert(self, judged: JudgedCall, data: DataLabel) -> None:
        call = judged.call
        detail = {"call": call.id, "session": judged.name.key, "warnings": list(data.warnings)}
        self._tell(call.context.server, "flagged", {"tool": call.tool, **detail})

    def _tell_masked(self, name: SessionName, server: str, tool: str, data: DataLabel, *, call: str = "") -> None:
        detail = {"call": call, "session": name.key, "secrets": list(data.secrets), "masked": data.masked}
        self._tell(server, "masked", {"tool": tool, **detail})

    async def _hold(self, judged: JudgedCall, data: DataLabel, raw: bytes, result: ReplyContent) -> bytes:
        call = judged.call
        handle, now = new_handle(), round(self._clock() * 1000)
        held = Quarantined(
            handle,
            judged.name.key,
            call.id,
            call.context.server,
            call.tool,
            now,
            data.warnings or tuple(f"It holds {what}." for what in data.secrets),
            self._seals().seal(raw, handle),
        )
        try:
            await self._shelf.hold(held, expires_at(now))
        except CallgateError as error:
            log.error("result not kept", extra={"fields": {"call": call.id, "error": str(error)}})
            raise Refused(Reason.RESULT_WITHHELD) from None
        self._held(held)
        has_schema = result.has_structured or self._has_schema(call.context.server, call.tool)
        where = await self._where(handle)
        return quarantined(raw, handle, call.context.server, call.tool, where, has_schema=has_schema)

    async def _elicit(self, call: Call, data: DataLabel) -> None:
        """Have the user look at it, where the client can be asked something before the reply."""
        visit = call.context
        if (
            not isinstance(visit, RequestContext)
            or visit.modern
            or not visit.client.opens_urls
            or not visit.line.can_say
        ):
            return
        question = f"{QUESTION}{call.id}"
        if len(self._asked) > 10_000:
            self._asked.clear()
        self._asked.add(question)
        params = {
            "mode": "url",
            "message": f"A result of {call.tool} was flagged: {' '.join(data.warnings)[:500]}",
            "url": await self._where(""),
            "elicitationId": question,
        }
        await visit.line.say(
            _encode({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params})
        )

    def asked(self, rpc_id: RequestId | None) -> bool:
        if rpc_id in self._asked:
            self._asked.discard(rpc_id)
            return True
        return False
