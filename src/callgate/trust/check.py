"""The check: what data is about to flow where? The session's labels, the tool's, and where the values come from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.gate import Ask, Call, Context, Pass, Refuse, Verdict
from callgate.pipeline.context import ClientInfo, RequestContext
from callgate.trust.commands import CommandEffect, known
from callgate.trust.effects import Effects, decode, encode, ordered
from callgate.trust.labels import Labels
from callgate.trust.model import ANNOTATIONS_META, CONSENT_META, PROMPT_META, SessionLabel, ToolLabel
from callgate.trust.policy.engine import Policy, Ruling
from callgate.trust.policy.facts import Facts, to_record
from callgate.trust.propagation import honour, joined
from callgate.trust.proposing import goes_further, mode_of, verbs_of
from callgate.trust.provenance import guarded, trace
from callgate.trust.provenance.asking import asks_for
from callgate.trust.provenance.memory import Memory
from callgate.trust.provenance.names import strangers
from callgate.trust.session_cache import LiveSession, SessionName, SessionNaming, TrustSessionCache
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
            return Ask(why(ruling, facts, live.memory.readings), record)
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
        if (mode := mode_of(label, arguments)) is not None:
            # One tool for several acts, of which the schema has the names: this call is one of them.
            kept = [one for one in reviewed.effects if one == "reads_others" or (one == "sends" and mode != "reads")]
            effects = {"reads": ["reads_own"] if not kept else []}.get(mode, [mode])
            exact = Effects(ordered((*kept, *effects)), reviewed.critical)
            return self.labels.of(server, tool, arguments, encode(exact))
        if not label.may_be_irreversible:
            if not any(goes_further(name, value) for name, value in arguments.items()):
                return label
            graver = Effects(ordered((*reviewed.effects, "destroys")), reviewed.critical)
            return self.labels.of(server, tool, arguments, encode(graver))
        # What is named for deleting or sending does that with whatever a query finds.
        found = known(arguments) if verbs_of(tool)[1].isdisjoint(("destroys", "sends")) else None
        if found is None or ((doubtful or memory.strange or memory.overflowed) and not wanted(memory, found)):
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
    if found.values and all(memory.prompt.says(memory.words(one)) for one in found.values):
        return any(len(one) > 2 for one in found.values)
    # Who is not heard has asked for whatever a check of the project is, and for what the agent wrote here.
    heard = memory.prompt_known or not found.asks <= {"any", "runs"} or not _wrote(memory, found.programs)
    if heard and not all(asks_for(effect, memory.asks) for effect in found.asks):
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
