"""The last check: did a person approve exactly this call?

Evidence of SEP-2672 is verified at once. Without it a person is asked on the approval page, in the best way that the
client supports: URL elicitation as its era has it, else the call is kept waiting, and at last the client is told of
the page. An approval given there lets the same call of the same caller pass, once.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from callgate.approval import Approvals, Gated, Request, escape
from callgate.approval.ceremony import action_hash_of
from callgate.approval.encoding import to_iso
from callgate.approval.names import META
from callgate.errors import Reason, Refused, Spent
from callgate.gate import Ask, Call, Pass, Refuse, Verdict
from callgate.gateway.catalogue import decode_leniently
from callgate.gateway.door import Instead
from callgate.gateway.gating import Deployment, Gating, Ruling
from callgate.gateway.line import Visit, agent_of, caller_of, own_request
from callgate.gateway.rounds import Rounds
from callgate.gateway.seals import Seals, State
from callgate.gateway.waiting import Beat, Decisions, End, Lobby, Place, notification, wait
from callgate.jsonrpc import RequestId

STATE: Final = "state"
QUESTION: Final = "question"
INPUT: Final = "callgate-approval"
_PASS: Final = Pass()
_encode: Final = msgspec.json.Encoder().encode


class Times(msgspec.Struct, frozen=True):
    """How long a call is kept waiting, how long for an elicitation, and how long the server may be asked (seconds)."""

    park: float
    request: float
    ask: float


class Approving:
    """The check that `Gate(approval=…)` takes."""

    def __init__(
        self,
        approvals: Approvals,
        *,
        gating: Callable[[str], Gating],
        deployment: Deployment,
        approver: Callable[[str], Awaitable[str | None]],
        page: Callable[[str], Awaitable[str]],
        closed: Callable[[], Refused | None],
        seals: Seals,
        rounds: Rounds,
        lobby: Lobby,
        decisions: Decisions,
        times: Times,
    ) -> None:
        self._approvals = approvals
        self._gating = gating
        self._deployment = deployment
        self._approver = approver
        self._page = page
        self._closed = closed
        self._seals = seals
        self._rounds = rounds
        self._lobby = lobby
        self._decisions = decisions
        self._times = times

    async def __call__(self, call: Call, asks: tuple[Ask, ...]) -> Verdict:
        gating = self._gating(call.context.server)
        try:
            if not self._deployment.known:
                await self._deployment.find_out()
            ruling = gating.known(call.tool)
            if ruling is None:
                ruling = await self._ask_server(call, gating)
            if ruling.gated is None and not ruling.problem and not asks:
                return _PASS
            return await self._judge(call, gating, ruling, asks)
        except Refused as refused:
            return Refuse(refused.reason, refused.message, data=refused.data, advice=refused.advice)

    async def _ask_server(self, call: Call, gating: Gating) -> Ruling:
        visit = call.context
        assert isinstance(visit, Visit)

        async def ask(method: str, params: dict[str, Any]) -> bytes:
            return await visit.line.ask(own_request(method, params, call.meta if visit.modern else {}))

        # Before the turn at asking: whoever has that must not wait for a message behind another who wants it.
        await visit.line.turn()
        return await gating.ask(call.tool, ask, self._times.ask, modern=visit.modern)

    async def _judge(self, call: Call, gating: Gating, ruling: Ruling, asks: tuple[Ask, ...]) -> Verdict:
        visit = call.context
        assert isinstance(visit, Visit)
        if not visit.alone:
            text = "a call that needs a person's approval cannot be part of a batch"
            return Refuse(Reason.BATCH_REFUSED, text, advice="Send this call alone.")
        if ruling.problem:
            return Refuse(Reason.APPROVAL_UNAVAILABLE, f"nobody can approve this call: {ruling.problem}")
        gated = ruling.gated or gating.asked_for(call.tool)
        asked = Asked(call, visit, gated, decode_leniently(call.raw))
        state = asked.params.get("requestState")
        if self._rounds.seals.is_ours(state):
            going_on = self._rounds.go_on(state, asked.action, asked.caller)
            return Pass({"approval": {"continues": going_on.request}})
        if META in call.meta and not ruling.relayed:
            verified = await self._approvals.verify(gated, call.arguments, call.canonical, call.meta[META])
            return Pass({"approval": verified.facts}, verified.use)
        if self._seals.is_ours(state):
            return await self._resume(asked, self._seals.open(state, STATE))
        return await self._begin(asked, asks, ceremony=visit.client.ceremony and ruling.gated is not None)

    async def _begin(self, asked: Asked, asks: tuple[Ask, ...], *, ceremony: bool) -> Verdict:
        """A call without evidence: an approval may be there; else its person is asked."""
        call, gated = asked.call, asked.gated
        grant = await self._approvals.grant(gated, call.canonical, caller=asked.caller)
        if grant is not None:
            return self._granted(call, grant)
        if ceremony:
            return Refuse(Reason.MISSING_EVIDENCE)
        user = await self._approver(gated.server)
        if user is None:
            return _nobody("nobody is enrolled who could give it", "NAME")
        try:
            request = await self._approvals.ask(
                gated,
                call.arguments,
                call.canonical,
                user,
                caller=asked.caller,
                agent=agent_of(asked.visit),
                why="; ".join(ask.why for ask in asks),
            )
        except Refused as refused:
            if refused.reason is not Reason.NO_ELIGIBLE_CREDENTIAL:
                raise
            return _nobody(f"{user} has no passkey that this tool takes", user)
        client, modern = asked.visit.client, asked.visit.modern
        if request.state == "approved":
            return self._granted(call, request)
        if modern and client.opens_urls:
            return await self._ask_for_input(asked, request)
        if client.opens_urls and asked.visit.line.can_say:
            return await self._elicit(asked, request)
        return await self._park(asked, request)

    async def _resume(self, asked: Asked, state: State) -> Verdict:
        """The modern client is back with our `requestState`; it has to be this call's and this caller's."""
        if state.action != asked.action or state.caller != asked.caller or state.expires_at <= self._approvals.now():
            raise Refused(Reason.REQUEST_STATE_INVALID)
        request = await self._approvals.request(state.request)
        if request is None or request.state == "used" or request.action_hash != asked.action:
            raise Refused(Reason.REQUEST_STATE_INVALID)
        if _declined(asked.params) and request.state == "waiting":
            request = await self._take_no(request)
        return self._decided(asked.call, request) or await self._park(asked, request, again=True)

    # ---- the ways to ask ----

    async def _ask_for_input(self, asked: Asked, request: Request, *, again: bool = False) -> Refuse:
        """`input_required` with an elicitation; only the state if the person was sent to the page before."""
        result: dict[str, Any] = {"resultType": "input_required"}
        if not again:
            params = {"mode": "url", "message": _message(request), "url": await self._page(request.id)}
            result["inputRequests"] = {INPUT: {"method": "elicitation/create", "params": params}}
        result["requestState"] = self._seals.seal(self._state(STATE, asked, request))
        facts = {"approval": {"request": request.id, "asked": "input_required"}}
        return Refuse(Reason.MISSING_EVIDENCE, "a person is asked to approve the call", facts, Instead(result))

    async def _elicit(self, asked: Asked, request: Request) -> Verdict:
        """`elicitation/create` on the call's own stream; then wait for as long as the request lives."""
        question = self._seals.seal(self._state(QUESTION, asked, request))
        params = {
            "mode": "url",
            "message": _message(request),
            "url": await self._page(request.id),
            "elicitationId": request.id,
        }
        line = asked.visit.line
        if self._lobby.full:
            return await self._told(request)
        with (
            self._lobby.enter(request.server, asked.caller, asked.rpc_id, self._times.request) as place,
            self._lobby.asking(question, place),
        ):
            await line.say(
                _encode({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params})
            )
            end = await self._wait(asked, request, place)
            if end is End.ANSWERED and place.answered == "error":
                # It said that it can, and could not: then as for a client that cannot.
                place.fall_back(self._times.park)
                end = await self._wait(asked, request, place)
            elif end is End.ANSWERED:
                end = await self._take_no(request)
            if end not in (End.LEFT, End.TAKEN_BACK):
                if place.answered is None:
                    await line.say(notification("notifications/cancelled", {"requestId": question}))
                await line.say(notification("notifications/elicitation/complete", {"elicitationId": request.id}))
        return await self._ended(asked, request, end)

    async def _park(self, asked: Asked, request: Request, *, again: bool = False) -> Verdict:
        """Keep the client waiting for a while; then tell it of the page."""
        if self._lobby.full or self._times.park <= 0:
            return await (self._ask_for_input(asked, request, again=True) if again else self._told(request))
        with self._lobby.enter(request.server, asked.caller, asked.rpc_id, self._times.park) as place:
            end = await self._wait(asked, request, place)
        if again and end is End.TIME:
            return await self._ask_for_input(asked, request, again=True)
        return await self._ended(asked, request, end)

    async def _wait(self, asked: Asked, request: Request, place: Place) -> Request | End | None:
        text = f"Waiting for a person to approve this call at {await self._page(request.id)}"
        beat = Beat(asked.visit.line, asked.call.meta.get("progressToken"), text)
        return await wait(self._decisions.of(request), asked.visit.line, place, beat, self._closed)

    # ---- what came of it ----

    async def _ended(self, asked: Asked, request: Request, end: Request | End | None) -> Verdict:
        if end is None:
            return Refuse(Reason.APPROVAL_EXPIRED)
        if isinstance(end, Request):
            return self._decided(asked.call, end) or Refuse(Reason.APPROVAL_EXPIRED)
        if end is End.TAKEN_BACK:
            text = "the client took the call back while it waited for approval"
            return Refuse(Reason.MISSING_EVIDENCE, text, _facts(request), Instead(None))
        return await self._told(request)

    async def _told(self, request: Request) -> Refuse:
        url = await self._page(request.id)
        return Refuse(
            Reason.MISSING_EVIDENCE,
            f"the call needs a person's approval: have them open {url}, then send the same call again",
            _facts(request),
            {"approval": {"url": url, "request": request.id, "expiresAt": to_iso(request.expires_at)}},
            f"Ask a person to open {url} and approve there, then send exactly the same call again.",
        )

    def _decided(self, call: Call, request: Request) -> Verdict | None:
        """What a request's state means for its call; None while it is open."""
        if request.state == "refused":
            note = f": {request.note}" if request.note else ""
            text = f"{Reason.APPROVAL_REFUSED.meaning.rstrip('.')}{note}"
            data = {"approval": {"request": request.id, "note": request.note or ""}}
            return Refuse(Reason.APPROVAL_REFUSED, text, _facts(request), data)
        if request.state == "used":
            return Refuse(Reason.APPROVAL_EXPIRED, "the approval let another call of the same kind through")
        if self._approvals.expired(request):
            return Refuse(Reason.APPROVAL_EXPIRED, facts=_facts(request))
        return self._granted(call, request) if request.state == "approved" else None

    def _granted(self, call: Call, request: Request) -> Pass:
        # With the server id the signature can be verified from the record alone.
        server_id = self._deployment.server_id(request.server)
        facts = {"request": request.id, "user": request.user, "server_id": server_id, **(request.evidence or {})}
        return Pass({"approval": facts}, self._approvals.grant_use(request, call.id))

    async def _take_no(self, request: Request) -> Request:
        """The client's person said no without opening the page."""
        try:
            return await self._approvals.refuse(request.id, by="client", note="declined in the client")
        except Spent:
            # Decided on the page at the same time, or over: that counts.
            return await self._approvals.request(request.id) or request

    def _state(self, purpose: str, asked: Asked, request: Request) -> State:
        return State(purpose, request.id, asked.action, asked.caller, request.expires_at, secrets.token_bytes(16))


class Asked:
    """A call that needs a person."""

    __slots__ = ("action", "call", "caller", "gated", "params", "rpc_id", "visit")

    def __init__(self, call: Call, visit: Visit, gated: Gated, message: dict[str, Any]) -> None:
        self.call = call
        self.visit = visit
        self.gated = gated
        self.params: Mapping[str, Any] = message["params"]
        self.rpc_id: RequestId = message["id"]
        self.caller = caller_of(visit)
        self.action = action_hash_of(gated, call.canonical)


def _nobody(why: str, name: str) -> Refuse:
    return Refuse(
        Reason.APPROVAL_UNAVAILABLE,
        f"the call needs a person's approval, and {why}",
        advice=f"The operator enrols a passkey with `callgate enroll {name}`; then send the call again.",
    )


def _declined(params: Mapping[str, Any]) -> bool:
    responses = params.get("inputResponses")
    ours = responses.get(INPUT) if isinstance(responses, dict) else None
    return isinstance(ours, dict) and ours.get("action") in ("decline", "cancel")


def _facts(request: Request) -> dict[str, Any]:
    return {"approval": {"request": request.id}}


def _message(request: Request) -> str:
    return (
        f"The tool {escape(request.tool)} of {request.server} needs your approval. Open the page, read what will be "
        "done, and sign with your passkey or refuse."
    )
