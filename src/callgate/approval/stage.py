"""Approval in the pipeline: did a person approve exactly this call?

The last check of the gate, the three methods of SEP-2672, and what changes in messages that pass.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from callgate.approval import Approvals, Gated, GrantUse, Request, escape
from callgate.approval.action import action_hash, to_iso
from callgate.approval.annotation import add_capability, mark_tools, marked
from callgate.approval.delegation import LOCAL, METHOD, Covering, DelegationUse, GrantedAgent, covering, written
from callgate.approval.evidence import check_proofs
from callgate.approval.model import WITHDRAWN
from callgate.approval.overview import fingerprint
from callgate.approval.pending import (
    KeepAlive,
    PendingApprovals,
    PendingSlot,
    RequestDecisions,
    WaitEnd,
    notification,
    wait,
)
from callgate.approval.request_state import MultiRoundState, RequestStateSigner, SignedState
from callgate.approval.requirements import (
    FREE,
    ApprovalRequirement,
    Deployment,
    ServerApprovalPolicy,
    check_characters,
    check_members,
    check_name,
    declares,
    is_ours,
    read_tools,
    state_in,
)
from callgate.approval.service import action_hash_of
from callgate.approval.webauthn import MalformedResponse, NotVerified
from callgate.canonical import canonical
from callgate.errors import INVALID_PARAMS, MessageError, Reason, Refused, Spent
from callgate.gate import Ask, Call, Context, Decision, Pass, Refuse, Verdict
from callgate.jsonrpc import Batch, Message, MessageKind, RequestId, drop_member, drop_members, replace_member
from callgate.jsonrpc.reading import decode_leniently
from callgate.pipeline.context import RequestContext, agent_of, caller_of, has_session, line_of, own_request
from callgate.pipeline.dispatcher import SubstituteResult, Transform
from callgate.pipeline.replies import ToolListReply, TransformById
from callgate.protocol import CHALLENGE_CREATE, ENROLL_BEGIN, META, METHODS, PROTOCOL_META, TICKET

INPUT: Final = "callgate-approval"
# What a client answers whose person does not want the call.
_NO: Final = ("decline", "cancel")
# Who takes back a question that is out of date. No person can have this name.
GATEWAY: Final = "the gateway"
_COMMAND: Final = re.compile(r"`(callgate [^`]*)`")


class PassAsIs(Pass, frozen=True):
    """The call may pass, and evidence in it is for the server, which verifies it itself."""


class NeededApproval:
    """A call that needs a person."""

    __slots__ = ("action", "asks", "call", "caller", "gated", "line", "params", "relayed", "rpc_id", "visit")

    def __init__(
        self,
        call: Call,
        visit: RequestContext,
        gated: Gated,
        asks: tuple[Ask, ...],
        message: dict[str, Any],
        *,
        relayed: bool,
    ) -> None:
        self.call = call
        self.visit = visit
        self.asks = asks
        self.gated = demanded(gated, asks)
        self.relayed = relayed
        self.params: Mapping[str, Any] = message["params"]
        self.rpc_id: RequestId = message["id"]
        self.caller = caller_of(visit)
        # Whose places for waiting it takes: naming sessions makes no more of them.
        self.line = line_of(visit)
        self.action = action_hash_of(gated, call.canonical)

    @property
    def several(self) -> bool:
        """Whether several people approve it, or one of a group, instead of the one who is named."""
        return bool(self.gated.policy.quorums)

    def passes(self, facts: Mapping[str, Any], use: Any = None) -> Pass:
        return (PassAsIs if self.relayed else Pass)({"approval": facts}, use)


def demanded(gated: Gated, asks: tuple[Ask, ...]) -> Gated:
    """The tool with whom the rules that ask want to approve it."""
    policy = gated.policy.demanding(one for ask in asks for one in ask.quorums)
    return gated if policy == gated.policy else msgspec.structs.replace(gated, policy=policy)


def changed(request: Request, gated: Gated, user: str | None) -> str:
    """Why an approval of this request is none for the tool as it is now; empty where it is one."""
    if request.version != gated.version:
        return "the tool has changed since the approval was asked for"
    if request.policy != gated.policy:
        return "what is asked of approvals of this tool has changed since this one was asked for"
    if request.user != user:
        return "somebody else approves calls of this server now"
    return ""


def needed(why: str) -> str:
    """That a person has to approve, and the sentence that says why, without what comes after it."""
    sentence = why.partition("\n")[0].partition(" (rule:")[0].rstrip(".")
    return f"the call needs a person's approval ({sentence})" if sentence else "the call needs a person's approval"


def nobody(problem: str, why: str, advice: str) -> Refused:
    """Whoever would be asked cannot approve; `advice` is what the operator does about it."""
    return Refused(
        Reason.APPROVAL_UNAVAILABLE, f"{needed(why)}, and {problem}", advice=f"{advice} Then send the call again."
    )


class CommandOptions(NamedTuple):
    """What names this configuration behind a command that is to be typed: as callers are told it, who may be anywhere,
    and as the operator's log has it."""

    told: str = ""
    logged: str = ""


def with_options(advice: str, options: str) -> str:
    """The advice with options at the end of each command in it, so that it is about the same store when it is typed."""
    return _COMMAND.sub(lambda found: f"`{found[1]}{options}`", advice)


def agent_key(visit: RequestContext) -> GrantedAgent | None:
    """As whom a caller can have grants; None for who has proved nothing and may be anybody at an address."""
    caller = visit.caller
    if caller is not None and caller.source != LOCAL:
        return GrantedAgent(caller.source, caller.id, caller.key, caller.directory)
    return GrantedAgent(LOCAL) if visit.transport == "stdio" else None


def declined(params: Mapping[str, Any]) -> bool:
    """Whether the client's person said no to our elicitation."""
    responses = params.get("inputResponses")
    ours = responses.get(INPUT) if isinstance(responses, dict) else None
    return isinstance(ours, dict) and ours.get("action") in _NO


def facts_of(request: Request) -> dict[str, Any]:
    return {"approval": {"request": request.id}}


def message_of(request: Request) -> str:
    if request.policy.quorums:
        return (
            f"The tool {escape(request.tool)} of {request.server} needs the approval of {request.user}. Each opens the "
            "page, reads what will be done, and signs with a passkey or refuses. One refusal ends it."
        )
    return (
        f"The tool {escape(request.tool)} of {request.server} needs your approval. Open the page, read what will be "
        "done, and sign with your passkey or refuse."
    )


log = logging.getLogger("callgate.approval")

STATE: Final = "state"
QUESTION: Final = "question"
_PASS: Final = Pass()
_PASS_UNTOUCHED: Final = Pass(untouched=True)
_PASS_AS_IS: Final = PassAsIs()
_TRIES: Final = 3
_OUT_OF_DATE: Final = "the tool, or what is asked of its approvals, has changed since the approval was asked for"
_encode: Final = msgspec.json.Encoder().encode


class ApprovalTimes(msgspec.Struct, frozen=True):
    """How long a call is kept waiting, how long for an elicitation, and how long the server may be asked (seconds)."""

    park: float
    request: float
    ask: float


_GREETINGS: Final = frozenset({"initialize", "server/discover"})
_CANCELLED: Final = "notifications/cancelled"


class ApprovalStage:
    """Approval of one configuration: the check that `Gate(approval=…)` takes, and what the gateway does as the
    verifier. Where the server verifies by itself, its messages pass untouched."""

    methods = METHODS

    def __init__(
        self,
        approvals: Approvals,
        *,
        gating: Callable[[str], ServerApprovalPolicy],
        deployment: Deployment,
        approver: Callable[[str], Awaitable[str | None]],
        named: Callable[[str], str | None] = lambda _server: None,
        page: Callable[[str], Awaitable[str]],
        closed: Callable[[], Refused | None],
        seals: RequestStateSigner,
        rounds: MultiRoundState,
        lobby: PendingApprovals,
        decisions: RequestDecisions,
        times: ApprovalTimes,
        opened: Callable[[Request, str], None] = lambda _request, _page: None,
        options: Callable[[], CommandOptions] = CommandOptions,
        first_use: str | None = None,
    ) -> None:
        self._options = options
        self._approvals = approvals
        self._gating = gating
        self._deployment = deployment
        self._approver = approver
        self._named = named
        self._page = page
        self._closed = closed
        self._seals = seals
        self._rounds = rounds
        self._lobby = lobby
        self._decisions = decisions
        self._times = times
        self._opened = opened
        self._first_use = first_use

    def at_once(self, call: Call) -> Verdict | None:
        """The answer to a call that nobody asks about, of a tool that needs no person; None for any other."""
        gating = self._gating(call.context.server)
        if not self._deployment.known or not call.tool.isprintable() or gating.known(call.tool) is not FREE:
            return None
        if state_in(call) is not None:
            return None
        if META not in call.meta:
            # Nothing in it is for the gateway: so are nearly all.
            return _PASS_UNTOUCHED
        return _PASS_AS_IS if gating.relays else _PASS

    async def __call__(self, call: Call, asks: tuple[Ask, ...]) -> Verdict:
        gating = self._gating(call.context.server)
        try:
            check_characters(call.tool)
            if not self._deployment.known:
                await self._deployment.find_out()
            ruling = gating.known(call.tool) or await self._ask_server(call.tool, call.context, call.meta, gating)
            check_name(call.tool, gating)
            state = state_in(call)
            if ruling.gated is None and not ruling.problem and not asks and not self._is_ours(state):
                return _PASS_AS_IS if gating.relays else _PASS
            return await self._judge(call, gating, ruling, asks, state)
        except Refused as refused:
            advice = with_options(refused.advice, self._options().told)
            return Refuse(refused.reason, refused.message, data=refused.data, advice=advice)

    def _is_ours(self, state: object) -> bool:
        return self._rounds.seals.is_ours(state) or self._seals.is_ours(state)

    async def _ask_server(
        self, tool: str, context: Context, meta: Mapping[str, Any], gating: ServerApprovalPolicy
    ) -> ApprovalRequirement:
        assert isinstance(context, RequestContext)
        line, modern = context.line, context.modern

        async def ask(method: str, params: dict[str, Any]) -> bytes:
            return await line.ask(own_request(method, params, meta if modern else {}))

        # Before the turn at asking: whoever has that must not wait for a message behind another who wants it.
        await line.turn()
        return await gating.ask(tool, ask, self._times.ask, modern=modern)

    async def _judge(
        self,
        call: Call,
        gating: ServerApprovalPolicy,
        ruling: ApprovalRequirement,
        asks: tuple[Ask, ...],
        state: object,
    ) -> Verdict:
        visit = call.context
        assert isinstance(visit, RequestContext)
        if not visit.alone:
            text = "a call that needs a person's approval cannot be part of a batch"
            return Refuse(Reason.BATCH_REFUSED, text, advice="Send this call alone.")
        asked = NeededApproval(
            call, visit, _gated(call, gating, ruling), asks, decode_leniently(call.raw), relayed=ruling.relayed
        )
        needed = ruling.gated is not None or bool(asks)
        if needed:
            check_members(asked.params, ours=self._is_ours(state))
        if self._rounds.seals.is_ours(state):
            return asked.passes({"continues": self._rounds.go_on(state, asked.action, asked.caller).request})
        waited = self._open_state(asked, state) if self._seals.is_ours(state) else None
        if not needed:
            # Nobody has to be asked any more; the state was good, and the server has no use for it.
            return _PASS_AS_IS if gating.relays else _PASS
        if META in call.meta and not ruling.relayed:
            if asked.several:
                return await self._on_page(asked)
            user = await self._approver(asked.gated.server)
            verified = await self._approvals.verify(
                asked.gated, call.arguments, call.canonical, call.meta[META], user=user or "", caller=asked.caller
            )
            return asked.passes(verified.facts, verified.use)
        if waited is not None:
            return await self._resume(asked, waited)
        ceremony = visit.client.ceremony and ruling.gated is not None and not asked.several
        return await self._begin(asked, ceremony=ceremony)

    async def _on_page(self, asked: NeededApproval) -> Refuse:
        """Evidence of a client is one signature of one person, and nobody could tell which of them it was for."""
        request = await self._open_request(asked)
        told = await self._told(request)
        url = told.data["approval"]["url"]
        text = f"{request.user} approve this call, each on the approval page: have them open {url}"
        return Refuse(
            Reason.APPROVAL_ON_PAGE, text, told.facts, told.data, f"{Reason.APPROVAL_ON_PAGE.advice} {told.advice}"
        )

    async def _begin(self, asked: NeededApproval, *, ceremony: bool) -> Verdict:
        """A call without evidence: an approval or a refusal may be there; else its person is asked."""
        grant = await self._grant(asked)
        if grant is not None:
            return self._granted(asked, grant)
        beforehand = await self._covering(asked)
        if ceremony and beforehand.delegation is None:
            return Refuse(Reason.MISSING_EVIDENCE)
        # A person who said no to exactly this call is heard before whoever allowed its kind.
        refusal = await self._hear_refusal(asked)
        if refusal is not None:
            return _refused(refusal)
        if beforehand.delegation is not None:
            return self._delegated(asked, beforehand)
        request = await self._open_request(asked, beforehand.notes)
        client, modern = asked.visit.client, asked.visit.modern
        if request.state == "approved":
            return self._granted(asked, request)
        if modern and client.opens_urls:
            return await self._ask_for_input(asked, request)
        if client.opens_urls and asked.visit.line.can_say:
            return await self._elicit(asked, request)
        return await self._park(asked, request)

    async def _covering(self, asked: NeededApproval) -> Covering:
        """A grant of this agent that the call is within; none where it has none, or the tool takes none."""
        agent, gated, gating = agent_key(asked.visit), asked.gated, self._gating(asked.gated.server)
        tool = gating.catalogue.tool(gated.tool)
        if agent is None or tool is None or gating.takes_no_grants(gated.tool, gated.policy):
            return Covering()
        return await covering(
            self._approvals.shelf,
            agent,
            server_id=gated.server_id,
            tool=gated.tool,
            tool_hash=tool.hash,
            policy=gated.policy,
            raw=asked.call.raw,
            ruled=bool(asked.asks),
            asked=partial(self._asked, gated),
            now=self._approvals.now(),
        )

    def _delegated(self, asked: NeededApproval, found: Covering) -> Pass:
        one, held = found.delegation, found.credential
        assert one is not None
        assert held is not None
        # What a person signs for is of the shape that the tool takes; so is what they signed for beforehand.
        self._approvals.check_call(asked.gated, asked.call.arguments, asked.call.canonical)
        used: dict[str, Any] = {"calls": 1}
        if one.terms.sum_of:
            used["amount"] = written(found.amount)
        facts = {
            "method": METHOD,
            "grant": one.terms.id,
            "user": one.terms.person,
            "server_id": one.terms.server_id,
            "terms": one.terms.canonical.decode(),
            "signature": one.evidence,
            "used": used,
        }
        # As a receipt is verified later: nothing counts that the person's passkey did not sign.
        try:
            [proven] = check_proofs(facts, asked.gated.tool, asked.call.canonical)
        except (NotVerified, MalformedResponse, ValueError) as error:
            raise Refused(Reason.SIGNATURE_VERIFICATION_FAILED) from error
        if (proven.credential, proven.fingerprint) != (held.id, fingerprint(held.public_key)):
            raise Refused(Reason.SIGNATURE_VERIFICATION_FAILED)
        return asked.passes(facts, DelegationUse(one.terms.id, found.amount, self._approvals.now()))

    async def _asked(self, gated: Gated) -> str | None:
        """Who is asked: the person for the server, or those whom the tool or a rule demands."""
        return gated.policy.people or await self._approver(gated.server)

    async def _open_request(self, asked: NeededApproval, notes: Sequence[str] = ()) -> Request:
        """A question to whoever approves for this server, about the tool as it is now; `notes` are further lines for
        the person."""
        call, gated = asked.call, asked.gated
        why = "\n".join(["\n".join(ask.why for ask in asked.asks) or self._why(gated), *notes])
        user = await self._asked(gated)
        if user is None:
            named = self._named(gated.server)
            who = f"there is no {named} yet, who would be asked" if named else "nobody is enrolled who could give it"
            raise self._nobody(gated, who, why, named or "NAME")
        for _ in range(_TRIES):
            began = self._approvals.now()
            try:
                request = await self._approvals.ask(
                    gated,
                    call.arguments,
                    call.canonical,
                    user,
                    caller=asked.caller,
                    agent=agent_of(asked.visit),
                    why=why,
                    page=(await self._page("")).removesuffix("/approve/"),
                )
            except Refused as refused:
                if refused.reason is not Reason.NO_ELIGIBLE_CREDENTIAL:
                    raise
                raise self._nobody(gated, refused.message, why, user, refused.advice) from None
            if not changed(request, gated, user):
                page = await self._page(request.id)
                fields = {"user": user, "server": gated.server, "tool": gated.tool, "page": page}
                log.warning("a call waits for a person", extra={"fields": fields})
                if request.created_at >= began:
                    self._opened(request, page)
                return request
            await self._withdraw(asked, request)
        raise Refused(Reason.APPROVAL_EXPIRED, "the tool changes faster than a person can be asked about it")

    def _nobody(self, gated: Gated, problem: str, why: str, name: str, advice: str = "") -> Refused:
        """Nobody can approve. The operator's log has the command with the path of the configuration, which a caller
        is told only on the same machine.
        """
        advice = advice or f"The operator enrols a passkey with `callgate enroll {name}`."
        fields = {"user": name, "server": gated.server, "tool": gated.tool, "problem": problem}
        typed = with_options(advice, self._options().logged)
        log.warning("nobody can approve a call", extra={"fields": fields | {"advice": typed}})
        return nobody(problem, why, advice)

    def _why(self, gated: Gated) -> str:
        listed = self._gating(gated.server).listed(gated.tool)
        return "The operator lists this tool." if listed else "Its server marks this tool."

    async def _grant(self, asked: NeededApproval) -> Request | None:
        """An approval of this call that still stands; one for another version, policy or person is withdrawn."""
        call, gated = asked.call, asked.gated
        while (grant := await self._approvals.grant(gated, call.canonical, caller=asked.caller)) is not None:
            if not changed(grant, gated, await self._asked(gated)):
                return grant
            await self._withdraw(asked, grant)
        return None

    async def _withdraw(self, asked: NeededApproval, request: Request) -> None:
        """End a request that is not about the tool as it is now, decided or not."""
        with contextlib.suppress(Spent):
            if request.state == "approved":
                await self._approvals.shelf.use(GrantUse(request.id, WITHDRAWN, self._approvals.now()))
            else:
                await self._approvals.refuse(request.id, by=GATEWAY, note="what it asks about has changed")
                await self._hear_refusal(asked)

    async def _hear_refusal(self, asked: NeededApproval) -> Request | None:
        """A person's no that no call has heard of yet; from now on this one has."""
        call = asked.call
        return await self._approvals.unheard_refusal(asked.gated, call.canonical, caller=asked.caller, call=call.id)

    def _open_state(self, asked: NeededApproval, text: object) -> SignedState:
        """What a `requestState` of ours says; it has to be this call's and this caller's."""
        state = self._seals.open(text, STATE)
        if state.action != asked.action or state.caller != asked.caller or state.expires_at <= self._approvals.now():
            raise Refused(Reason.REQUEST_STATE_INVALID)
        return state

    async def _resume(self, asked: NeededApproval, state: SignedState) -> Verdict:
        """The modern client is back with our `requestState`."""
        request = await self._approvals.request(state.request)
        if request is None or request.state == "used" or request.action_hash != asked.action:
            raise Refused(Reason.REQUEST_STATE_INVALID)
        if declined(asked.params):
            request = await self._take_no(request)
        return await self._decided(asked, request) or await self._park(asked, request, again=True)

    # ---- the ways to ask ----

    async def _ask_for_input(self, asked: NeededApproval, request: Request, *, again: bool = False) -> Refuse:
        """`input_required` with an elicitation; only the state if the person was sent to the page before."""
        result: dict[str, Any] = {"resultType": "input_required"}
        if not again:
            params = {"mode": "url", "message": message_of(request), "url": await self._page(request.id)}
            result["inputRequests"] = {INPUT: {"method": "elicitation/create", "params": params}}
        result["requestState"] = self._seals.seal(self._state(STATE, asked, request))
        facts = {"approval": {"request": request.id, "asked": "input_required"}}
        return Refuse(Reason.MISSING_EVIDENCE, "a person is asked to approve the call", facts, SubstituteResult(result))

    async def _elicit(self, asked: NeededApproval, request: Request) -> Verdict:
        """`elicitation/create` on the call's own stream; then wait for as long as the request lives."""
        question = self._seals.seal(self._state(QUESTION, asked, request))
        params = {
            "mode": "url",
            "message": message_of(request),
            "url": await self._page(request.id),
            "elicitationId": request.id,
        }
        line = asked.visit.line
        if not self._lobby.has_room(asked.line):
            return await self._told(request)
        with (
            self._lobby.enter(request.server, asked.line, asked.rpc_id, self._times.request) as place,
            self._lobby.asking(question, place),
        ):
            await line.say(
                _encode({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params})
            )
            end = await self._wait(asked, request, place)
            if end is WaitEnd.ANSWERED and place.answered == "error":
                # It said that it can, and could not: then as for a client that cannot.
                place.fall_back(self._times.park)
                end = await self._wait(asked, request, place)
            if place.answered in _NO and end not in (WaitEnd.LEFT, WaitEnd.TAKEN_BACK):
                # Also where the page said yes a moment before.
                end = await self._take_no(request)
            if end not in (WaitEnd.LEFT, WaitEnd.TAKEN_BACK):
                if place.answered is None:
                    await line.say(notification("notifications/cancelled", {"requestId": question}))
                await line.say(notification("notifications/elicitation/complete", {"elicitationId": request.id}))
        return await self._ended(asked, request, end)

    async def _park(self, asked: NeededApproval, request: Request, *, again: bool = False) -> Verdict:
        """Keep the client waiting for a while; then tell it of the page."""
        if not self._lobby.has_room(asked.line) or self._times.park <= 0:
            return await (self._ask_for_input(asked, request, again=True) if again else self._told(request))
        with self._lobby.enter(request.server, asked.line, asked.rpc_id, self._times.park) as place:
            end = await self._wait(asked, request, place)
        if again and end is WaitEnd.TIME:
            return await self._ask_for_input(asked, request, again=True)
        return await self._ended(asked, request, end)

    async def _wait(self, asked: NeededApproval, request: Request, place: PendingSlot) -> Request | WaitEnd | None:
        text = f"Waiting for a person to approve this call at {await self._page(request.id)}"
        beat = KeepAlive(asked.visit.line, asked.call.meta.get("progressToken"), text)
        return await wait(self._decisions.of(request), asked.visit.line, place, beat, self._closed)

    # ---- what came of it ----

    async def _ended(self, asked: NeededApproval, request: Request, end: Request | WaitEnd | None) -> Verdict:
        if end is None:
            return Refuse(Reason.APPROVAL_EXPIRED)
        if isinstance(end, Request):
            return await self._decided(asked, end) or Refuse(Reason.APPROVAL_EXPIRED)
        if end is WaitEnd.TAKEN_BACK:
            text = "the client took the call back while it waited for approval"
            return Refuse(Reason.MISSING_EVIDENCE, text, facts_of(request), SubstituteResult(None))
        return await self._told(request)

    async def _told(self, request: Request) -> Refuse:
        url = await self._page(request.id)
        return Refuse(
            Reason.MISSING_EVIDENCE,
            f"{needed(request.why)}: have them open {url}, then send the same call again",
            facts_of(request),
            {"approval": {"url": url, "request": request.id, "expiresAt": to_iso(request.expires_at)}},
            f"Ask a person to open {url} and approve there, then send exactly the same call again.",
        )

    async def _decided(self, asked: NeededApproval, request: Request) -> Verdict | None:
        """What a request's state means for its call; None while it is open."""
        if request.decided_by == GATEWAY or request.call == WITHDRAWN:
            return Refuse(Reason.APPROVAL_EXPIRED, _OUT_OF_DATE, facts_of(request))
        if request.state == "refused":
            # Heard, so that the same call may ask again.
            await self._hear_refusal(asked)
            return _refused(request)
        if request.state == "used":
            return Refuse(Reason.APPROVAL_EXPIRED, "the approval let another call of the same kind through")
        if self._approvals.expired(request):
            return Refuse(Reason.APPROVAL_EXPIRED, facts=facts_of(request))
        if request.state != "approved":
            return None
        gated = await self._gated_now(asked)
        if why := changed(request, gated, await self._asked(gated)):
            await self._withdraw(asked, request)
            return Refuse(Reason.APPROVAL_EXPIRED, why, facts_of(request))
        return self._granted(asked, request)

    async def _gated_now(self, asked: NeededApproval) -> Gated:
        """The tool as it is after the wait."""
        call, gating = asked.call, self._gating(asked.gated.server)
        ruling = gating.known(call.tool) or await self._ask_server(call.tool, call.context, call.meta, gating)
        return demanded(_gated(call, gating, ruling), asked.asks)

    def _granted(self, asked: NeededApproval, request: Request) -> Pass:
        # With the server id the signature can be verified from the record alone.
        server_id = self._deployment.server_id(request.server)
        facts = {"request": request.id, "user": request.user, "server_id": server_id, **(request.evidence or {})}
        if request.policy.quorums:
            facts["approvals"] = max(one.approvals for one in request.policy.quorums)
        return asked.passes(facts, self._approvals.grant_use(request, asked.call.id))

    async def _take_no(self, request: Request) -> Request:
        """The client's person said no: that holds, also after a yes on the page that no call has used."""
        try:
            return await self._approvals.refuse(
                request.id, by="client", note="declined in the client", even_approved=True
            )
        except Spent:
            # Refused on the page at the same time, used, or over: that counts.
            return await self._approvals.request(request.id) or request

    def _state(self, purpose: str, asked: NeededApproval, request: Request) -> SignedState:
        return SignedState(purpose, request.id, asked.action, asked.caller, request.expires_at, secrets.token_bytes(16))

    # ---- the three methods ----

    async def incoming(self, message: Message | Batch, context: Context) -> dict[str, Any] | None:
        """The three methods, answers to our own questions, and cancellations of calls that the server has not seen."""
        if isinstance(message, Message) and message.kind is MessageKind.REQUEST:
            return await self._answer(message, context) if message.method in METHODS else None
        return {} if await self._takes(message, context) else None

    async def _answer(self, message: Message, context: Context) -> dict[str, Any] | None:
        """SEP-2672 §4.4; None where the server is the one to answer."""
        gating = self._gating(context.server)
        if not gating.verifies:
            return None
        if message.method == ENROLL_BEGIN:
            return await self._begin_enrolment(message.meta.get(TICKET), gating)
        params = message.params if message.params is not None else {}
        if not isinstance(params, dict):
            raise Refused(Reason.INVALID_PARAMS, f"{message.method} needs an object as params")
        if message.method == CHALLENGE_CREATE:
            return await self._challenge(params, message, context, gating)
        response = params.get("response")
        if gating.relays and not await is_ours(self._approvals, response):
            return None
        return (await self._approvals.finish_enrolment(response)).result

    async def _begin_enrolment(self, ticket: object, gating: ServerApprovalPolicy) -> dict[str, Any] | None:
        """§4.4.1: of the params only our ticket is read."""
        given = ticket if isinstance(ticket, str) else None
        if gating.relays and (given is None or await self._approvals.look_at_ticket(given) is None):
            return None
        first = None
        if given is None and self._first_use is not None:
            first = await self._approver(gating.name) or self._first_use
        return await self._approvals.begin_enrolment(given, first_use=first)

    async def _challenge(
        self, params: dict[str, Any], message: Message, context: Context, gating: ServerApprovalPolicy
    ) -> dict[str, Any] | None:
        """§4.4.3: a challenge over exactly these arguments; none given are an empty object."""
        tool, arguments = params.get("toolName"), params.get("arguments", {})
        if not isinstance(tool, str) or not tool:
            raise Refused(Reason.INVALID_PARAMS, "approval/challenge/create needs a tool name in params.toolName")
        if not isinstance(arguments, dict):
            raise Refused(Reason.INVALID_PARAMS, "params.arguments has to be an object")
        try:
            text = canonical(arguments)
        except MessageError as error:
            raise Refused(error.reason, f"params.arguments: {error}", code=INVALID_PARAMS) from None
        if gating.relays and not gating.listed(tool):
            return None
        if not self._deployment.known:
            await self._deployment.find_out()
        ruling = gating.known(tool) or await self._ask_server(tool, context, message.meta, gating)
        if ruling.problem:
            raise Refused(Reason.APPROVAL_UNAVAILABLE, f"nobody can approve this call: {ruling.problem}")
        if ruling.gated is None:
            raise self._approvals.localise(Refused(Reason.TOOL_NOT_APPROVED_REQUIRED))
        if ruling.gated.policy.quorums:
            # What rules demand besides is known when the call comes; then it is refused as this is.
            people = ruling.gated.policy.people
            url = (await self._page("")).removesuffix("approve/") + "approvals"
            raise Refused(Reason.APPROVAL_ON_PAGE, f"{people} approve calls of this tool, each on the page {url}")
        user = await self._approver(gating.name)
        try:
            caller = caller_of(context)
            return (await self._approvals.challenge(ruling.gated, arguments, text, user, caller=caller)).result
        except Refused as refused:
            advice = with_options(refused.advice, self._options().told)
            raise Refused(
                refused.reason, refused.message, code=refused.code, advice=advice, data=refused.data
            ) from None

    # ---- what passes ----

    def outgoing(self, message: Message, call: Call, decision: Decision) -> tuple[Message, Transform | None]:
        """A call that may go on, as the server is to see it, and what to do with its reply.

        It goes without our evidence and our state: as if nothing stood in front of the server.
        """
        # As it was decided: what is known of the server may have changed since.
        verdict = decision.answers[-1].verdict if decision.answers else None
        amend, raw = None, message.raw
        if isinstance(verdict, Pass) and "approval" in verdict.facts:
            amend = self._amend_call(message, call)
            raw = _only_what_was_shown(message)
        state = message.params.get("requestState")
        if state is None and META not in call.meta:
            # Nothing in it is for the gateway: so are nearly all.
            return message if raw is message.raw else msgspec.structs.replace(message, raw=raw), amend
        if not isinstance(verdict, PassAsIs):
            raw = drop_member(raw, ("params", "_meta", META))
        if self._rounds.seals.is_ours(state):
            inner = self._rounds.inner(state)
            path = ("params", "requestState")
            raw = drop_member(raw, path) if inner is None else replace_member(raw, path, _encode(inner))
        elif self._seals.is_ours(state):
            raw = drop_member(drop_member(raw, ("params", "requestState")), ("params", "inputResponses"))
        return message if raw is message.raw else msgspec.structs.replace(message, raw=raw), amend

    def amend(self, message: Message | Batch, context: Context) -> Transform | None:
        """The capability in a greeting, marks in a list of tools; both are learnt from as they pass."""
        messages = message.messages if isinstance(message, Batch) else (message,)
        found: dict[RequestId, Transform] = {}
        for one in messages:
            if one.kind is MessageKind.REQUEST and one.id is not None:
                if one.method in _GREETINGS:
                    found[one.id] = partial(_amend_greeting, self._gating(context.server))
                elif one.method == "tools/list":
                    found[one.id] = partial(_amend_list, self._gating(context.server))
        return TransformById(found) if found else None

    def mark_list(self, server: str, reply: ToolListReply) -> ToolListReply:
        """A list with its marks; it is learnt from as it passes."""
        gating = self._gating(server)
        gating.catalogue.learn(read_tools(reply.result))
        if not gating.section.patterns:
            return reply
        return reply.with_result(tools=[marked(tool, gating.operators_policy) for tool in reply.result["tools"]])

    def _amend_call(self, message: Message, call: Call) -> Transform | None:
        """An approved call of the modern era may be answered with a question, and go on under the same approval."""
        if message.id is None:
            return None
        action = action_hash(call.tool, call.canonical, self._deployment.server_id(call.context.server))
        wrap = partial(self._rounds.wrap, call=call.id, action=action, caller=caller_of(call.context))
        return TransformById({message.id: wrap})

    # ---- what is for the gateway itself ----

    async def _takes(self, message: Message | Batch, context: Context) -> bool:
        if isinstance(message, Batch):
            if any(one.kind is MessageKind.RESPONSE and self._seals.is_ours(one.id) for one in message.messages):
                raise Refused(Reason.INVALID_REQUEST, "an answer to the gateway has to be sent alone")
            return False
        if message.kind is MessageKind.RESPONSE:
            if not self._seals.is_ours(message.id):
                return False
            await self._hear(message, context)
            return True
        if message.method != _CANCELLED or not isinstance(message.params, dict):
            return False
        # Without a session anybody at that address could end another's wait; there, whoever leaves closes the stream.
        if not has_session(context):
            return False
        return self._lobby.take_back(context.server, line_of(context), message.params.get("requestId"))

    async def _hear(self, message: Message, context: Context) -> None:
        """A client's answer to an elicitation of ours; that of another session is not heard."""
        try:
            state = self._seals.open(message.id, QUESTION)
        except Refused:
            return
        # An answer names no session; the one of the transport is the call's.
        if state.caller.partition("\n")[0] != line_of(context):
            return
        body = decode_leniently(message.raw)
        result = body.get("result") if isinstance(body, dict) else None
        action = result.get("action") if isinstance(result, dict) else "error"
        action = action if action in ("accept", "decline", "cancel") else "error"
        place = self._lobby.asked(str(message.id))
        if place is not None:
            place.answer(action)
        elif action in _NO:
            # The call waits in another process of this deployment, and learns of it from the store.
            with contextlib.suppress(Spent):
                await self._approvals.refuse(
                    state.request, by="client", note="declined in the client", even_approved=True
                )


def _only_what_was_shown(message: Message) -> bytes:
    """An approved call without what nobody saw or signed beside its arguments: of `_meta` only what the protocol reads
    itself reaches the server, and `task` does not."""
    raw = drop_member(message.raw, ("params", "task")) if "task" in message.params else message.raw
    return drop_members(raw, ("params", "_meta"), {name for name in message.meta if name not in PROTOCOL_META})


def _gated(call: Call, gating: ServerApprovalPolicy, ruling: ApprovalRequirement) -> Gated:
    if ruling.problem:
        raise Refused(Reason.APPROVAL_UNAVAILABLE, f"nobody can approve this call: {ruling.problem}")
    return ruling.gated or gating.asked_for(call.tool)


def _refused(request: Request) -> Refuse:
    note = f": {request.note}" if request.note else ""
    text = f"{Reason.APPROVAL_REFUSED.meaning.rstrip('.')}{note}"
    data = {"approval": {"request": request.id, "note": request.note or ""}}
    return Refuse(Reason.APPROVAL_REFUSED, text, facts_of(request), data)


def _amend_greeting(gating: ServerApprovalPolicy, reply: bytes) -> bytes:
    message = decode_leniently(reply)
    gating.catalogue.greeted(capable=declares(message.get("result") if isinstance(message, dict) else None))
    return add_capability(reply) if gating.verifies else reply


def _amend_list(gating: ServerApprovalPolicy, reply: bytes) -> bytes:
    message = decode_leniently(reply)
    gating.catalogue.learn(read_tools(message.get("result") if isinstance(message, dict) else None))
    return mark_tools(reply, gating.operators_policy) if gating.section.patterns else reply
