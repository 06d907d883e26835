"""The last check: did a person approve exactly this call?

Evidence of SEP-2672 is verified at once. Without it a person is asked on the approval page, in the best way that the
client supports: URL elicitation as its era has it, else the call is kept waiting, and at last the client is told of
the page. An approval given there lets the same call of the same caller pass, once.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from callgate.approval import Approvals, Gated, GrantUse, Request
from callgate.approval.encoding import to_iso
from callgate.approval.model import WITHDRAWN
from callgate.approval.names import META
from callgate.errors import Reason, Refused, Spent
from callgate.gate import Ask, Call, Pass, Refuse, Verdict
from callgate.gateway.asked import (
    GATEWAY,
    INPUT,
    Asked,
    Options,
    PassAsIs,
    changed,
    declined,
    facts_of,
    message_of,
    needed,
    nobody,
    with_options,
)
from callgate.gateway.catalogue import decode_leniently
from callgate.gateway.entering import Instead
from callgate.gateway.exactness import check_characters, check_members, check_name, state_in
from callgate.gateway.gating import FREE, Deployment, Gating, Ruling
from callgate.gateway.line import Visit, agent_of, own_request
from callgate.gateway.rounds import Rounds
from callgate.gateway.seals import Seals, State
from callgate.gateway.waiting import Beat, Decisions, End, Lobby, Place, notification, wait

log = logging.getLogger("callgate.approval")

STATE: Final = "state"
QUESTION: Final = "question"
_PASS: Final = Pass()
_PASS_AS_IS: Final = PassAsIs()
_TRIES: Final = 3
_OUT_OF_DATE: Final = "the tool, or what is asked of its approvals, has changed since the approval was asked for"
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
        named: Callable[[str], str | None] = lambda _server: None,
        page: Callable[[str], Awaitable[str]],
        closed: Callable[[], Refused | None],
        seals: Seals,
        rounds: Rounds,
        lobby: Lobby,
        decisions: Decisions,
        times: Times,
        opened: Callable[[Request, str], None] = lambda _request, _page: None,
        options: Callable[[], Options] = Options,
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

    def at_once(self, call: Call) -> Verdict | None:
        """The answer to a call that nobody asks about, of a tool that needs no person; None for any other."""
        gating = self._gating(call.context.server)
        if not self._deployment.known or not call.tool.isprintable() or gating.known(call.tool) is not FREE:
            return None
        if state_in(call) is not None:
            return None
        return _PASS_AS_IS if gating.relays else _PASS

    async def __call__(self, call: Call, asks: tuple[Ask, ...]) -> Verdict:
        gating = self._gating(call.context.server)
        try:
            check_characters(call.tool)
            if not self._deployment.known:
                await self._deployment.find_out()
            ruling = await self._rule(call, gating)
            check_name(call.tool, gating)
            state = state_in(call)
            if ruling.gated is None and not ruling.problem and not asks and not self._is_ours(state):
                return _PASS_AS_IS if gating.relays else _PASS
            return await self._judge(call, gating, ruling, asks, state)
        except Refused as refused:
            advice = with_options(refused.advice, self._options().told)
            return Refuse(refused.reason, refused.message, data=refused.data, advice=advice)

    async def _rule(self, call: Call, gating: Gating) -> Ruling:
        return gating.known(call.tool) or await self._ask_server(call, gating)

    def _is_ours(self, state: object) -> bool:
        return self._rounds.seals.is_ours(state) or self._seals.is_ours(state)

    async def _ask_server(self, call: Call, gating: Gating) -> Ruling:
        visit = call.context
        assert isinstance(visit, Visit)

        async def ask(method: str, params: dict[str, Any]) -> bytes:
            return await visit.line.ask(own_request(method, params, call.meta if visit.modern else {}))

        # Before the turn at asking: whoever has that must not wait for a message behind another who wants it.
        await visit.line.turn()
        return await gating.ask(call.tool, ask, self._times.ask, modern=visit.modern)

    async def _judge(self, call: Call, gating: Gating, ruling: Ruling, asks: tuple[Ask, ...], state: object) -> Verdict:
        visit = call.context
        assert isinstance(visit, Visit)
        if not visit.alone:
            text = "a call that needs a person's approval cannot be part of a batch"
            return Refuse(Reason.BATCH_REFUSED, text, advice="Send this call alone.")
        asked = Asked(call, visit, _gated(call, gating, ruling), decode_leniently(call.raw), relayed=ruling.relayed)
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
            user = await self._approver(asked.gated.server)
            verified = await self._approvals.verify(
                asked.gated, call.arguments, call.canonical, call.meta[META], user=user or ""
            )
            return asked.passes(verified.facts, verified.use)
        if waited is not None:
            return await self._resume(asked, waited)
        return await self._begin(asked, asks, ceremony=visit.client.ceremony and ruling.gated is not None)

    async def _begin(self, asked: Asked, asks: tuple[Ask, ...], *, ceremony: bool) -> Verdict:
        """A call without evidence: an approval or a refusal may be there; else its person is asked."""
        grant = await self._grant(asked)
        if grant is not None:
            return self._granted(asked, grant)
        if ceremony:
            return Refuse(Reason.MISSING_EVIDENCE)
        refusal = await self._hear_refusal(asked)
        if refusal is not None:
            return _refused(refusal)
        request = await self._open_request(asked, asks)
        client, modern = asked.visit.client, asked.visit.modern
        if request.state == "approved":
            return self._granted(asked, request)
        if modern and client.opens_urls:
            return await self._ask_for_input(asked, request)
        if client.opens_urls and asked.visit.line.can_say:
            return await self._elicit(asked, request)
        return await self._park(asked, request)

    async def _open_request(self, asked: Asked, asks: tuple[Ask, ...]) -> Request:
        """A question to whoever approves for this server, about the tool as it is now."""
        call, gated = asked.call, asked.gated
        why = "\n".join(ask.why for ask in asks) or self._why(gated)
        user = await self._approver(gated.server)
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

    async def _grant(self, asked: Asked) -> Request | None:
        """An approval of this call that still stands; one for another version, policy or person is withdrawn."""
        call, gated = asked.call, asked.gated
        while (grant := await self._approvals.grant(gated, call.canonical, caller=asked.caller)) is not None:
            if not changed(grant, gated, await self._approver(gated.server)):
                return grant
            await self._withdraw(asked, grant)
        return None

    async def _withdraw(self, asked: Asked, request: Request) -> None:
        """End a request that is not about the tool as it is now, decided or not."""
        with contextlib.suppress(Spent):
            if request.state == "approved":
                await self._approvals.shelf.use(GrantUse(request.id, WITHDRAWN, self._approvals.now()))
            else:
                await self._approvals.refuse(request.id, by=GATEWAY, note="what it asks about has changed")
                await self._hear_refusal(asked)

    async def _hear_refusal(self, asked: Asked) -> Request | None:
        """A person's no that no call has heard of yet; from now on this one has."""
        call = asked.call
        return await self._approvals.unheard_refusal(asked.gated, call.canonical, caller=asked.caller, call=call.id)

    def _open_state(self, asked: Asked, text: object) -> State:
        """What a `requestState` of ours says; it has to be this call's and this caller's."""
        state = self._seals.open(text, STATE)
        if state.action != asked.action or state.caller != asked.caller or state.expires_at <= self._approvals.now():
            raise Refused(Reason.REQUEST_STATE_INVALID)
        return state

    async def _resume(self, asked: Asked, state: State) -> Verdict:
        """The modern client is back with our `requestState`."""
        request = await self._approvals.request(state.request)
        if request is None or request.state == "used" or request.action_hash != asked.action:
            raise Refused(Reason.REQUEST_STATE_INVALID)
        if declined(asked.params) and request.state == "waiting":
            request = await self._take_no(request)
        return await self._decided(asked, request) or await self._park(asked, request, again=True)

    # ---- the ways to ask ----

    async def _ask_for_input(self, asked: Asked, request: Request, *, again: bool = False) -> Refuse:
        """`input_required` with an elicitation; only the state if the person was sent to the page before."""
        result: dict[str, Any] = {"resultType": "input_required"}
        if not again:
            params = {"mode": "url", "message": message_of(request), "url": await self._page(request.id)}
            result["inputRequests"] = {INPUT: {"method": "elicitation/create", "params": params}}
        result["requestState"] = self._seals.seal(self._state(STATE, asked, request))
        facts = {"approval": {"request": request.id, "asked": "input_required"}}
        return Refuse(Reason.MISSING_EVIDENCE, "a person is asked to approve the call", facts, Instead(result))

    async def _elicit(self, asked: Asked, request: Request) -> Verdict:
        """`elicitation/create` on the call's own stream; then wait for as long as the request lives."""
        question = self._seals.seal(self._state(QUESTION, asked, request))
        params = {
            "mode": "url",
            "message": message_of(request),
            "url": await self._page(request.id),
            "elicitationId": request.id,
        }
        line = asked.visit.line
        if not self._lobby.has_room(asked.caller):
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
        if not self._lobby.has_room(asked.caller) or self._times.park <= 0:
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
            return await self._decided(asked, end) or Refuse(Reason.APPROVAL_EXPIRED)
        if end is End.TAKEN_BACK:
            text = "the client took the call back while it waited for approval"
            return Refuse(Reason.MISSING_EVIDENCE, text, facts_of(request), Instead(None))
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

    async def _decided(self, asked: Asked, request: Request) -> Verdict | None:
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
        if why := changed(request, await self._gated_now(asked), await self._approver(request.server)):
            await self._withdraw(asked, request)
            return Refuse(Reason.APPROVAL_EXPIRED, why, facts_of(request))
        return self._granted(asked, request)

    async def _gated_now(self, asked: Asked) -> Gated:
        """The tool as it is after the wait."""
        gating = self._gating(asked.gated.server)
        return _gated(asked.call, gating, await self._rule(asked.call, gating))

    def _granted(self, asked: Asked, request: Request) -> Pass:
        # With the server id the signature can be verified from the record alone.
        server_id = self._deployment.server_id(request.server)
        facts = {"request": request.id, "user": request.user, "server_id": server_id, **(request.evidence or {})}
        return asked.passes(facts, self._approvals.grant_use(request, asked.call.id))

    async def _take_no(self, request: Request) -> Request:
        """The client's person said no without opening the page."""
        try:
            return await self._approvals.refuse(request.id, by="client", note="declined in the client")
        except Spent:
            # Decided on the page at the same time, or over: that counts.
            return await self._approvals.request(request.id) or request

    def _state(self, purpose: str, asked: Asked, request: Request) -> State:
        return State(purpose, request.id, asked.action, asked.caller, request.expires_at, secrets.token_bytes(16))


def _gated(call: Call, gating: Gating, ruling: Ruling) -> Gated:
    if ruling.problem:
        raise Refused(Reason.APPROVAL_UNAVAILABLE, f"nobody can approve this call: {ruling.problem}")
    return ruling.gated or gating.asked_for(call.tool)


def _refused(request: Request) -> Refuse:
    note = f": {request.note}" if request.note else ""
    text = f"{Reason.APPROVAL_REFUSED.meaning.rstrip('.')}{note}"
    data = {"approval": {"request": request.id, "note": request.note or ""}}
    return Refuse(Reason.APPROVAL_REFUSED, text, facts_of(request), data)
