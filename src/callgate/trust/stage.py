"""Trust in the pipeline: the check of a call, labels on what leaves, a label for what comes back, and what is kept."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from callgate.caching import BoundedCache
from callgate.errors import CallgateError, MessageError, Reason, Refused, place
from callgate.gate import Ask, Call, Context, Pass, Refuse, Verdict, in_step
from callgate.jsonrpc import (
    TOOLS_CALL,
    Batch,
    Message,
    MessageKind,
    Peek,
    RequestId,
    drop_member,
    elements,
    error_reply,
    member_span,
    peek,
    put_member,
)
from callgate.jsonrpc.reading import decode_leniently
from callgate.pipeline.context import ClientInfo, RequestContext
from callgate.pipeline.dispatcher import AllowedCall, AsyncTransform, Transform
from callgate.pipeline.replies import ToolListReply, TransformById
from callgate.protocol import METHODS, SESSION_META
from callgate.trust.commands import CommandEffect, known
from callgate.trust.effects import Effects, decode, encode, ordered
from callgate.trust.labels import Labels
from callgate.trust.model import (
    ANNOTATIONS_META,
    CONSENT_META,
    PROMPT_META,
    DataLabel,
    Provenance,
    Quarantined,
    SessionLabel,
    Step,
    ToolLabel,
    Traced,
)
from callgate.trust.policy.engine import Policy, Ruling
from callgate.trust.policy.facts import Facts, to_record
from callgate.trust.propagation import Share, adds, asked, honour, joined, outgoing
from callgate.trust.proposing import effects_of_call, verbs_of
from callgate.trust.provenance import guarded, to_endorse, trace
from callgate.trust.provenance import objects as objects_in
from callgate.trust.provenance.asking import asks_for
from callgate.trust.provenance.memory import Memory
from callgate.trust.provenance.names import strangers
from callgate.trust.provenance.records import is_id
from callgate.trust.quarantine import Seals, expires_at, new_handle
from callgate.trust.released_results import RESULT_TOOL, offered, offered_on, released
from callgate.trust.resolving import answer as resolved
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
from callgate.trust.session_cache import LiveSession, SessionName, SessionNaming, TrustSessionCache
from callgate.trust.storage import NewStep, TrustShelf
from callgate.trust.user_prompts import ReportedPrompts
from callgate.trust.vocabulary import Vocabulary
from callgate.trust.words import why

_PROMPT_CHARS: Final = 65_536

_UNDER_WAY: Final = 20_000

# What a session may have read that nobody here knows of.
_ANYTHING: Final = SessionLabel(open_world=True)


class JudgedCall(msgspec.Struct):
    """A call that trust has an opinion of, until it is answered."""

    call: Call
    name: SessionName
    live: LiveSession
    facts: Facts
    ruling: Ruling
    # Whether the policy asked for a person; an approval then endorses the values that it asked about.
    asked: bool = False
    # Whether a person has looked at these values; nobody has where a grant let the call through.
    seen: bool = True

    @property
    def label(self) -> ToolLabel:
        return self.facts.tool


class TrustCheck:
    """The check that `Gate(trust=…)` takes."""

    def __init__(
        self,
        sessions: TrustSessionCache,
        *,
        naming: SessionNaming,
        labels: Labels,
        policy: Policy,
        vocabulary: Vocabulary,
        enforcing: bool,
        consent: bool = False,
        secret: Callable[[str], bool] = lambda _text: False,
        approved: Callable[[Context, str], str | None] = lambda _context, _tool: None,
        resolve: Callable[[Call, ToolLabel], Awaitable[ToolLabel]] | None = None,
        resolves: Callable[[str], bool] = lambda _server: False,
        prompts: ReportedPrompts | None = None,
    ) -> None:
        self.sessions = sessions
        self.naming = naming
        self.labels = labels
        self.policy = policy
        self._vocabulary = vocabulary
        # Otherwise nothing is asked, blocked or held back: what would have been done is recorded.
        self.enforcing = enforcing
        # Whether a text holds what looks like a credential.
        self._secret = secret
        # Where data came from is kept only of users who agreed.
        self._consent = consent
        # The label that was approved with a tool.
        self.approved = approved
        # Asks the server what a call of these arguments would do (`tools/resolve`), where the operator wants that.
        self._resolve = resolve
        self._resolves = resolves
        # What hooks of the one client said that this process serves.
        self._prompts = prompts
        self._judged: OrderedDict[str, JudgedCall] = OrderedDict()

    def at_once(self, call: Call) -> Verdict | None:
        """The answer where the session is at hand and nobody has to be asked; None where it takes longer."""
        if self._resolves(call.context.server):
            return None
        try:
            name, client = self.naming.met(call.context, call.meta)
        except Refused:
            return None
        live = self.sessions.at_once(name)
        if live is None:
            return None
        context, tool = call.context, call.tool
        label = self.labels.of(context.server, tool, call.arguments, self.approved(context, tool))
        return self._judge(call, name, client, live, label)

    async def __call__(self, call: Call) -> Verdict:
        try:
            name, client = self.naming.met(call.context, call.meta)
            live = await self.sessions.get(name)
            server = call.context.server
            label = self.label(call.context, call.tool, call.arguments)
            if self._resolve is None or not self._resolves(server):
                return self._judge(call, name, client, live, label)
            # Asking shows the server the arguments: one that is not trusted sees them once they may pass without it.
            if not self.labels.trusted(server):
                verdict = self._judge(call, name, client, live, label)
                if not isinstance(verdict, Pass):
                    return verdict
            return self._judge(call, name, client, live, await self._resolve(call, label))
        except Refused as refused:
            return Refuse(refused.reason, refused.message, data=refused.data, advice=refused.advice)

    def _judge(self, call: Call, name: SessionName, client: ClientInfo, live: LiveSession, label: ToolLabel) -> Verdict:
        meta, session = call.meta, live.session.label
        prompt = meta.get(PROMPT_META)
        if isinstance(prompt, str) and prompt:
            live.memory.remember_prompt(prompt[:_PROMPT_CHARS])
        if self._prompts is not None and call.context.transport == "stdio":
            self._prompts.give(live.memory, meta)
        request = self._vocabulary.of_meta(meta) if ANNOTATIONS_META in meta else None
        if request is not None:
            if not self.consents(meta):
                request = msgspec.structs.replace(request, attribution=())
            session = honour(session, request)
        if name.unmet:
            session = joined(session, _ANYTHING)
            live.memory.overflowed = True
        label = self._of_this_call(call, label, live.memory, doubtful=session.open_world)
        facts = Facts(label, session, args=call.arguments, request=request, size=len(call.canonical))
        facts.agent, facts.steps = agent_facts(call.context, name, client), live.session.steps
        # Where values come from is a question worth its time only if some rule may ask it, or if the call changes
        # something: what is written with a stranger's words stays the stranger's.
        settled = self.policy.indifferent(facts)
        if not settled or label.outcome != "benign":
            facts.provenance = trace(live.memory, label, call.arguments)
        if not settled:
            facts.secrets = self._secret(call.canonical.decode("utf-8", "replace"))
        ruling = self.policy.decide(facts)
        if ruling.effect != "allow":
            facts.provenance = live.memory.readings.located(facts.provenance)
        judged = JudgedCall(call, name, live, facts, ruling, asked=self.enforcing and ruling.effect == "ask")
        self._judged[call.id] = judged
        if len(self._judged) > _UNDER_WAY:
            self._judged.popitem(last=False)
        record = {"trust": {"session": name.key, "effect": ruling.effect, "rule": ruling.rule, **to_record(facts)}}
        if ruling.effect == "allow" or not self.enforcing:
            return Pass(record)
        if ruling.effect == "ask":
            return Ask(why(ruling, facts, live.memory.readings), record, ruling.quorums)
        data = {"rule": ruling.rule, "session": name.key}
        return Refuse(Reason.RULE_BLOCKED, f"{ruling.say.rstrip('.')} (rule: {ruling.rule})", record, data)

    def label(self, context: Context, tool: str, arguments: Mapping[str, Any]) -> ToolLabel:
        """The label of a call."""
        return self.labels.of(context.server, tool, arguments, self.approved(context, tool))

    def _of_this_call(self, call: Call, label: ToolLabel, memory: Memory, *, doubtful: bool) -> ToolLabel:
        """The label of what this call does: milder, where its tool runs whatever it is given and this is known; graver,
        where an argument of a change says that more is done. Only what a proposal said is made more exact."""
        if label.origins.get("outcomes") != "review" or label.outcome == "benign":
            return label
        reviewed = decode(self.approved(call.context, call.tool) or "")
        if reviewed is None or reviewed.chosen:
            return label
        server, tool, arguments = call.context.server, call.tool, call.arguments
        exact = effects_of_call(label, reviewed, arguments)
        if exact != reviewed:
            return self.labels.of(server, tool, arguments, encode(exact))
        if not label.may_be_irreversible:
            return label
        # What is named for deleting or sending does that with whatever a query finds.
        found = known(arguments) if verbs_of(tool)[1].isdisjoint(("destroys", "sends")) else None
        strange = [one for name, one in arguments.items() if is_id(name) and memory.is_strange(str(one))]
        if (
            found is None
            or strange
            or ((doubtful or memory.strange or memory.overflowed) and not wanted(memory, found))
        ):
            return label
        milder = self.labels.of(server, tool, arguments, encode(Effects(ordered(found.effects))))
        return msgspec.structs.replace(milder, sources=frozenset({found.source}))

    def consents(self, meta: Mapping[str, Any]) -> bool:
        """Whether the sources of a call's data may be kept."""
        return not self._consent or meta.get(CONSENT_META) is True

    def take(self, call: Call) -> JudgedCall | None:
        """What was thought of a call; once."""
        return self._judged.pop(call.id, None)

    def look(self, call: Call) -> JudgedCall | None:
        return self._judged.get(call.id)


def wanted(memory: Memory, found: CommandEffect) -> bool:
    """Whether a command may count as what it does, after a stranger's text was read. A read may. A change may not be
    the stranger's own words, nor have an address of theirs in it, and the user's words have to ask for some."""
    if "changes" in found.effects:
        if memory.overflowed or memory.is_strange(found.text):
            return False
        meant = any(memory.prompt.says(memory.words(word)) for word in found.named)
        if not (meant and asks_for("changes", memory.asks)) and _leads_to_a_stranger(memory, found.text):
            return False
    if any(map(memory.is_strange, found.programs)):
        return False
    # Who is not heard has asked for whatever a check of the project is, and for what the agent wrote here.
    heard = memory.prompt_known or not found.asks <= {"any", "runs"} or not _wrote(memory, found.programs)
    if heard and not all(asks_for(effect, memory.asks) for effect in found.asks):
        return False
    if found.values and all(memory.prompt.says(memory.words(one)) for one in found.values):
        return any(len(one) > 2 for one in found.values)
    if found.needs and any(memory.is_strange(one) or memory.named_another(one) for one in found.values):
        # Rows that are there are changed, and by a stranger's value or another one than the user named.
        return False
    return all(any(memory.prompt.says(memory.words(word)) for word in group) for group in found.needs)


def _wrote(memory: Memory, programs: Sequence[str]) -> bool:
    """Whether the agent wrote all of some programs in this session."""
    return all(memory.written.issuperset(memory.pieces(program)) for program in programs)


def _leads_to_a_stranger(memory: Memory, text: str) -> bool:
    """Whether a command has a link, a host, an address, or the number of an account or a card that is a stranger's."""
    names = strangers(memory, text, critical=False)[0]
    return any("." in name or "@" in name or guarded.numbers(name) for name in names)


def agent_facts(context: Context, name: SessionName, client: ClientInfo) -> dict[str, str]:
    # Of one that only listens, nobody knows whether it is the one that calls.
    said = client.name if isinstance(context, RequestContext) else ""
    caller, transport = context.caller, context.transport
    if caller is None:
        source = "local" if transport == "stdio" else "none"
        return {"id": name.agent, "client": said, "transport": transport, "source": source}
    return {
        "id": caller.id,
        "client": said,
        "transport": transport,
        "source": caller.source,
        "key": caller.key,
        "directory": caller.directory,
        "principal": caller.principal,
    }


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
        # Sessions, and by which method something suspicious came that was no result of a call.
        self._flagged: BoundedCache[tuple[str, str], str] = BoundedCache(_LABELS)
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
        if data.malicious and self._flagged.get((name.key, tool)) is None:
            # Once for each session: a server may say it in a thousand notifications.
            self._flagged.put((name.key, tool), server)
            detail = {"call": "", "session": name.key, "warnings": list(data.warnings)}
            self._tell(server, "flagged", {"tool": tool, **detail})
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
        # Without sources where the user did not agree to that.
        kept = data if self._check.consents(meta) else msgspec.structs.replace(data, attribution=())

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
            # Most results are texts and nothing else.
            named = readable = result.texts
            if result.has_structured:
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
        # Without sources where the user did not agree to that.
        kept = data if self._check.consents(call.meta) else msgspec.structs.replace(data, attribution=())

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
                to_endorse(live.memory, label, call.arguments, facts.provenance)
                if judged.asked and judged.seen
                else (),
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


# Members of `_meta` that are for the gateway alone.
PRIVATE: Final = (PROMPT_META, SESSION_META, CONSENT_META)
_scan: Final = json.JSONDecoder().raw_decode
_SPACE: Final = b" \t\r\n"
_OBJECT: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*\{")


def for_the_server(message: Message) -> bytes:
    """A message without what it told the gateway alone; the same bytes where there is no such thing."""
    raw, meta = message.raw, message.meta
    for name in PRIVATE:
        if name in meta:
            raw = drop_member(raw, ("params", "_meta", name))
    return raw


def labelled(message: Message, annotations: Mapping[str, Any] | None, *, as_it_came: bool) -> bytes:
    """The same with these annotations, and without any others; `as_it_came` where nobody has changed its bytes."""
    meta = message.meta
    dropped = [name for name in PRIVATE if name in meta]
    if annotations is None and ANNOTATIONS_META in meta:
        # What the client wrote there is in the session's labels by now, and those are not for this server.
        dropped.append(ANNOTATIONS_META)
    if annotations is None and not dropped:
        return message.raw
    span = _certain(message) if as_it_came else None
    if span is None:
        return _slowly(message, annotations, dropped)
    raw = message.raw
    if span[0] == span[1]:
        comma = b"," if message.params else b""
        return raw[: span[0]] + b'"_meta":{"annotations":' + _encode(annotations) + b"}" + comma + raw[span[1] :]
    if meta.keys() <= {*dropped, ANNOTATIONS_META}:
        inner = b"{}" if annotations is None else b'{"annotations":' + _encode(annotations) + b"}"
    else:
        inner = raw[span[0] : span[1]]
        for name in dropped:
            inner = _without(inner, name)
        if annotations is not None and ANNOTATIONS_META in meta:
            inner = put_member(inner, ANNOTATIONS_META, _encode(annotations))
        elif annotations is not None:
            # Something else is in there, so a comma comes before it.
            inner = inner[:-1].rstrip(_SPACE) + b',"annotations":' + _encode(annotations) + b"}"
    return raw[: span[0]] + inner + raw[span[1] :]


def _certain(message: Message) -> tuple[int, int] | None:
    """Where `_meta` stands, or where it can be put in; None where that takes a closer look.

    Without such escapes a name is written as it is, and quotes around it are no part of a string: what occurs once, and
    is known to be there, is there.
    """
    raw, params = message.raw, message.params
    if not isinstance(params, dict) or (b"\\" in raw and b"\\u" in raw):
        return None
    at = _once(raw, b'"params"')
    if at < 0:
        return None
    if "_meta" not in params:
        found = _OBJECT.match(raw, at)
        return None if found is None else (found.end(), found.end())
    at = _once(raw, b'"_meta"')
    if at < 0 or not isinstance(params["_meta"], dict):
        return None
    rest = raw[raw.index(b"{", at) :]
    if not rest.isascii():
        return None
    start = len(raw) - len(rest)
    return start, start + _scan(rest.decode("ascii"))[1]


def _once(raw: bytes, name: bytes) -> int:
    """Where a name ends that occurs once; -1 where it occurs more or less often."""
    at = raw.find(name)
    end = at + len(name)
    return end if at >= 0 and raw.find(name, end) < 0 else -1


def _without(inner: bytes, name: str) -> bytes:
    """An object of ASCII without this member, which it is known to have, and the comma that goes with it.

    Without escapes a name is written as it is: one that occurs once is that member's.
    """
    written = b'"' + name.encode() + b'"'
    end = _once(inner, written)
    if b"\\" in inner or end < 0:
        return drop_member(inner, (name,))
    start = end - len(written)
    colon = inner.index(b":", end) + 1
    while inner[colon] in _SPACE:
        colon += 1
    end = _scan(inner.decode("ascii"), colon)[1]
    before, behind = inner[:start].rstrip(_SPACE), inner[end:]
    if before != b"{":
        return before[:-1].rstrip(_SPACE) + behind
    rest = behind.lstrip(_SPACE)
    return inner[:start] + (rest[1:].lstrip(_SPACE) if rest[:1] == b"," else behind)


def _slowly(message: Message, annotations: Mapping[str, Any] | None, dropped: list[str]) -> bytes:
    raw = message.raw
    for name in dropped:
        raw = drop_member(raw, ("params", "_meta", name))
    if annotations is None:
        return raw
    span = member_span(raw, ("params",))
    if span is None:
        return raw
    params = raw[span[0] : span[1]]
    inner = member_span(params, ("_meta",))
    meta = b"{}" if inner is None else params[inner[0] : inner[1]]
    meta = put_member(meta if meta[:1] == b"{" else b"{}", ANNOTATIONS_META, _encode(annotations))
    return raw[: span[0]] + put_member(params, "_meta", meta) + raw[span[1] :]


RESOLVE: Final = "tools/resolve"
LIST: Final = "tools/list"
# Requests whose answers are the protocol's own business. The answer to every other is data of its server, which may
# reach a model: a resource, a prompt, a result that was waited for.
_PROTOCOL: Final = frozenset(
    {
        "initialize",
        "server/discover",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        LIST,
        RESOLVE,
    }
)


# Members of requests and notifications that say what they belong to.
_ADDRESSING: Final = frozenset({"_meta", "elicitationId", "level", "mode", "progressToken", "requestId", "taskId"})

_Settles: TypeAlias = Mapping[RequestId, Callable[[bytes], Awaitable[bytes]]]


async def _as_it_is(raw: bytes) -> bytes:
    return raw


class TrustStage:
    """What the gateway does for servers and clients so that labels travel."""

    methods: Final = frozenset({RESOLVE})
    # Asked about where results may be held back.
    tools: Final = frozenset({RESULT_TOOL})

    def __init__(
        self,
        check: TrustCheck,
        results: ResultRecorder,
        *,
        learn: Callable[[str, object], None],
        share: Share,
        shares: Mapping[str, Share | None],
        relays_resolve: Callable[[str], bool],
    ) -> None:
        self._check = check
        self._results = results
        self._learn = learn
        # How attribution is given to servers, and to some in another way; None where labels are not sent on at all.
        self._share = share
        self._shares = shares
        self._relays_resolve = relays_resolve
        self._writing: set[asyncio.Task[None]] = set()

    # ---- what is for the gateway itself ----

    async def incoming(
        self, message: Message | Batch, context: Context, call: Call | None = None
    ) -> dict[str, Any] | None:
        """`tools/resolve`, a result that was held back, and answers to our own elicitations."""
        if call is not None:
            return await self._released(call)
        if not isinstance(message, Message):
            return None
        if message.method == RESOLVE and message.kind is MessageKind.REQUEST:
            return self._resolved(message, context)
        # Whatever the client answers, the page decides.
        return {} if message.kind is MessageKind.RESPONSE and self._results.asked(message.id) else None

    def _resolved(self, message: Message, context: Context) -> dict[str, Any] | None:
        """What a call with these arguments would do, from the operator's rules; None where the server answers."""
        params = message.params if isinstance(message.params, dict) else {}
        tool, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(tool, str) or not tool or not isinstance(arguments, dict):
            raise Refused(Reason.INVALID_PARAMS, "tools/resolve needs a tool's name and an object of arguments")
        if self._relays_resolve(context.server):
            return None
        labels = self._check.labels
        listed = labels.listed(context.server, tool, self._check.approved(context, tool))
        return resolved(tool, self._check.label(context, tool, arguments), listed)

    async def _released(self, call: Call) -> dict[str, Any] | None:
        """The gateway's own tool; None for every other."""
        if call.tool != RESULT_TOOL or not self._check.policy.holds_back:
            return None
        name = self._check.naming.name(call.context, call.meta)
        modern = isinstance(call.context, RequestContext) and call.context.modern
        handle = call.arguments.get("handle")
        return await self._results.released(handle, name, call, modern=modern)

    # ---- what a list gets in addition ----

    def offer(self, message: Message | Batch) -> Transform | None:
        """The tool at the end of a list, where results may be held back."""
        if not self._check.policy.holds_back:
            return None
        asked = message.messages if isinstance(message, Batch) else (message,)
        found = {one.id: offered for one in asked if one.method == LIST and one.id is not None}
        return TransformById(found) if found else None

    def offer_on(self, reply: ToolListReply) -> ToolListReply:
        """The same for a list that was read before."""
        return offered_on(reply) if self._check.policy.holds_back else reply

    # ---- what leaves ----

    def outgoing(self, message: Message, call: Call, *, seen: bool = True) -> tuple[Message, AsyncTransform]:
        """A call that may go on, as the server is to see it, and what to do with its reply. `seen` says that a person
        has looked at this very call, where one was asked for."""
        judged = self._check.take(call)
        if judged is not None:
            judged.seen = seen
        sent = self._labelled(message, call, judged)
        assert message.id is not None
        by_id = {message.id: partial(self._results.of_call, call, judged)}
        return sent, partial(self._passing, by_id, call.context)

    def _labelled(self, message: Message, call: Call, judged: JudgedCall | None) -> Message:
        """With the session's labels, and without what was meant for the gateway alone."""
        share = self._shares.get(call.context.server, self._share)
        annotations = None if judged is None or share is None else outgoing(judged.facts.session, share=share)
        if annotations is None and not call.meta:
            return message
        raw = labelled(message, annotations, as_it_came=message.raw is call.raw)
        return message if raw is message.raw else msgspec.structs.replace(message, raw=raw)

    def leaving(self, message: Message | Batch, calls: Sequence[AllowedCall] = ()) -> Message | Batch:
        """The same for what is no call, and for each message of a batch."""
        if isinstance(message, Message):
            raw = for_the_server(message)
            return message if raw is message.raw else msgspec.structs.replace(message, raw=raw)
        by_id = {one.message.id: one.call for one in calls}
        slices = elements(message.raw) or []
        parts = [msgspec.structs.replace(one, raw=raw) for one, raw in zip(message.messages, slices, strict=True)]
        sent = [
            self._labelled(one, by_id[one.id], self._check.look(by_id[one.id]))
            if one.method == TOOLS_CALL and one.id in by_id
            else self.leaving(one)
            for one in parts
        ]
        if all(after is before for before, after in zip(parts, sent, strict=True)):
            return message
        return Batch(b"[" + b",".join([one.raw for one in sent]) + b"]", message.messages)

    # ---- what comes back ----

    def amend(self, message: Message | Batch, context: Context) -> Transform | None:
        """Lists of tools are learnt from as they pass."""
        found: dict[RequestId, Transform] = {}
        for one in message.messages if isinstance(message, Batch) else (message,):
            if one.kind is MessageKind.REQUEST and one.method == LIST and one.id is not None:
                found[one.id] = partial(self._listed, context.server)
        return TransformById(found) if found else None

    def learn(self, server: str, reply: ToolListReply) -> None:
        """A list as it came."""
        self._learn(server, reply.result)

    def _listed(self, server: str, raw: bytes) -> bytes:
        message = decode_leniently(raw)
        if isinstance(message, dict):
            self._learn(server, message.get("result"))
        return raw

    def after(self, message: Message | Batch, context: Context, calls: Sequence[AllowedCall] = ()) -> AsyncTransform:
        """What to do with the replies to what is no call, or to a batch that may have calls in it."""
        by_id: dict[RequestId, Callable[[bytes], Awaitable[bytes]]] = {}
        for allowed in calls:
            judged = self._check.take(allowed.call)
            if allowed.message.id is not None:
                by_id[allowed.message.id] = partial(self._results.of_call, allowed.call, judged)
        for one in message.messages if isinstance(message, Batch) else (message,):
            if one.kind is MessageKind.REQUEST and one.id is not None and one.method != TOOLS_CALL:
                read = one.method not in _PROTOCOL and one.method not in METHODS
                by_id[one.id] = partial(self._results.of_read, one, context) if read else _as_it_is
        return partial(self._passing, by_id, context)

    def unasked(self, context: Context) -> AsyncTransform:
        """What to do with messages that answer nothing."""
        return partial(self._passing, None, context)

    def _passing(
        self, by_id: _Settles | None, context: Context, raw: bytes, seen: Peek | None = None, /
    ) -> Awaitable[bytes]:
        """`by_id` has what was asked for; None where nothing was."""
        if raw[:1] == b"{":
            return self._one(by_id, context, raw, seen)
        try:
            several = elements(raw)
        except CallgateError:
            several = None
        return self._one(by_id, context, raw) if several is None else self._each(by_id, context, raw, several)

    async def _each(self, by_id: _Settles | None, context: Context, raw: bytes, several: list[bytes]) -> bytes:
        passed = [await self._one(by_id, context, part) for part in several]
        return raw if passed == several else b"[" + b",".join(passed) + b"]"

    async def _one(self, by_id: _Settles | None, context: Context, raw: bytes, seen: Peek | None = None) -> bytes:
        seen = seen or peek(raw)
        if seen is None or (seen.method is None and seen.outcome is None):
            # What is no message reaches nobody on a stream of the server's own; as an answer, in whatever form, it may.
            if by_id is None:
                return raw
        elif seen.method is not None:
            message = decode_leniently(raw)
            if not _answers(message):
                return await self._said(context, seen.method, raw) if _speaks(message) else raw
        rpc_id = seen.id if seen is not None else None
        settle = by_id.get(rpc_id) if by_id is not None and rpc_id is not None else None
        try:
            if settle is not None:
                return await settle(raw)
            # It answers nothing that was asked here, and a client may take it for an answer all the same.
            return await self._results.unasked(context, raw)
        except Refused as refused:
            return error_reply(rpc_id, refused)
        except Exception as error:  # noqa: BLE001 - what nobody could label is not passed on, whatever broke
            log.error("result not passed on", extra={"fields": {"server": context.server, "error": place(error)}})
            return error_reply(rpc_id, Refused(Reason.RESULT_WITHHELD))

    async def _said(self, context: Context, method: str, raw: bytes) -> bytes:
        """What a server says or asks by itself. Its id is the server's, so a refusal has none."""
        try:
            return await self._results.unasked(context, raw, method)
        except Refused as refused:
            return error_reply(None, refused)
        except Exception as error:  # noqa: BLE001 - as above
            log.error("message not passed on", extra={"fields": {"server": context.server, "error": place(error)}})
            return error_reply(None, Refused(Reason.RESULT_WITHHELD))

    # ---- what was refused ----

    def refused(self, call: Call, refused: Refused) -> None:
        """A call that goes no further is part of the session's picture too."""
        judged = self._check.take(call)
        if judged is None or judged.ruling.effect == "allow":
            return
        task = asyncio.get_running_loop().create_task(self._write_refused(judged, refused))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_refused(self, judged: JudgedCall, refused: Refused) -> None:
        try:
            await self._results.refused(judged, refused)
        except CallgateError as error:
            log.warning("refusal missing in the session's picture", extra={"fields": {"error": str(error)}})


def _answers(message: object) -> bool:
    """Whether what asks or notifies answers as well: readers decide for themselves which of the two it is."""
    return isinstance(message, dict) and not message.keys().isdisjoint(("result", "error"))


def _speaks(message: object) -> bool:
    """Whether what asks or notifies has words in it."""
    if not isinstance(message, dict):
        return True
    params = message.get("params")
    if not isinstance(params, dict):
        return bool(params)
    return any(
        isinstance(value, str | dict | list) and value for name, value in params.items() if name not in _ADDRESSING
    )
