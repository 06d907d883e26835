"""Verified approval at the door: the three methods of SEP-2672, and what changes in messages that pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final

import msgspec

from callgate.approval import Approvals
from callgate.approval.action import action_hash
from callgate.approval.names import CHALLENGE_CREATE, ENROLL_BEGIN, META, METHODS, TICKET
from callgate.canonical import canonical
from callgate.errors import INVALID_PARAMS, MessageError, Reason, Refused, Spent
from callgate.gate import Call, Context, Decision, Pass, Verdict
from callgate.gateway.amending import Amends, add_capability, mark_tools
from callgate.gateway.approving import QUESTION
from callgate.gateway.asked import Options, PassAsIs, with_options
from callgate.gateway.catalogue import declares, decode_leniently, read_tools
from callgate.gateway.enrolling import is_ours
from callgate.gateway.entering import After, Amend, Decided
from callgate.gateway.gating import Deployment, Gating, Ruling
from callgate.gateway.line import Visit, caller_of, has_session, own_request
from callgate.gateway.rounds import Rounds
from callgate.gateway.seals import Seals
from callgate.gateway.waiting import Lobby
from callgate.jsonrpc import Batch, Kind, Message, RequestId, drop_member, replace_member

_GREETINGS: Final = frozenset({"initialize", "server/discover"})
_CANCELLED: Final = "notifications/cancelled"
_encode: Final = msgspec.json.Encoder().encode


class ApprovalDesk:
    """What the gateway does as the verifier. Where the server verifies by itself, its messages pass untouched."""

    methods = METHODS
    prepares: frozenset[str] = frozenset()

    def __init__(
        self,
        approvals: Approvals,
        *,
        gating: Callable[[str], Gating],
        deployment: Deployment,
        approver: Callable[[str], Awaitable[str | None]],
        first_use: str | None,
        seals: Seals,
        rounds: Rounds,
        lobby: Lobby,
        ask_seconds: float,
        options: Callable[[], Options] = Options,
    ) -> None:
        self._options = options
        self._approvals = approvals
        self._gating = gating
        self._deployment = deployment
        self._approver = approver
        self._first_use = first_use
        self._seals = seals
        self._rounds = rounds
        self._lobby = lobby
        self._ask_seconds = ask_seconds

    # ---- the three methods ----

    async def answer(self, message: Message, context: Context) -> dict[str, Any] | None:
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

    async def _begin_enrolment(self, ticket: object, gating: Gating) -> dict[str, Any] | None:
        """§4.4.1: of the params only our ticket is read."""
        given = ticket if isinstance(ticket, str) else None
        if gating.relays and (given is None or await self._approvals.look_at_ticket(given) is None):
            return None
        first = None
        if given is None and self._first_use is not None:
            first = await self._approver(gating.name) or self._first_use
        return await self._approvals.begin_enrolment(given, first_use=first)

    async def _challenge(
        self, params: dict[str, Any], message: Message, context: Context, gating: Gating
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
        ruling = await self._ruling(tool, message, context, gating)
        if ruling.problem:
            raise Refused(Reason.APPROVAL_UNAVAILABLE, f"nobody can approve this call: {ruling.problem}")
        if ruling.gated is None:
            raise self._approvals.localise(Refused(Reason.TOOL_NOT_APPROVED_REQUIRED))
        user = await self._approver(gating.name)
        try:
            return (await self._approvals.challenge(ruling.gated, arguments, text, user)).result
        except Refused as refused:
            advice = with_options(refused.advice, self._options().told)
            raise Refused(
                refused.reason, refused.message, code=refused.code, advice=advice, data=refused.data
            ) from None

    async def _ruling(self, tool: str, message: Message, context: Context, gating: Gating) -> Ruling:
        if not self._deployment.known:
            await self._deployment.find_out()
        known = gating.known(tool)
        if known is not None:
            return known
        assert isinstance(context, Visit)
        line, meta, modern = context.line, message.meta if context.modern else {}, context.modern

        async def ask(method: str, params: dict[str, Any]) -> bytes:
            return await line.ask(own_request(method, params, meta))

        await line.turn()
        return await gating.ask(tool, ask, self._ask_seconds, modern=modern)

    async def prepare(self, message: Message, context: Context) -> None:
        """Nothing to do."""

    def owns(self, _tool: str) -> bool:
        return False

    async def answer_call(self, _message: Message, _call: Call) -> dict[str, Any] | None:
        """No tool is ours."""
        return None

    async def look_anew(self, _call: Call) -> Refused | None:
        """The tool was looked at again when its person had decided."""
        return None

    async def settle(self, _call: Call) -> Refused | None:
        """The list is not held against anything here."""
        return None

    def last_look(self, _call: Call) -> Refused | None:
        """What an approval stood on is used up with the decision's record."""
        return None

    def screen(self, _context: Context) -> Amend | None:
        return None

    def heard_by(
        self, _context: Context, _push: Callable[[bytes], None], _subscription: RequestId | None = None
    ) -> AbstractContextManager[None]:
        """Nothing to tell."""
        return nullcontext()

    # ---- what passes ----

    def going_on(self, message: Message, call: Call, decision: Decision) -> tuple[Message, Amend | None, After | None]:
        return self.outgoing(message, call, decision), self.amend_call(message, call, decision), None

    def outgoing(self, message: Message, call: Call, decision: Decision) -> Message:
        """Without our evidence and our state: the server gets the call as if nothing stood in front of it."""
        state = message.params.get("requestState")
        if state is None and META not in call.meta:
            return message
        raw = message.raw
        # As it was decided: what is known of the server may have changed since.
        if not isinstance(_verdict(decision), PassAsIs):
            raw = drop_member(raw, ("params", "_meta", META))
        if self._rounds.seals.is_ours(state):
            inner = self._rounds.inner(state)
            path = ("params", "requestState")
            raw = drop_member(raw, path) if inner is None else replace_member(raw, path, _encode(inner))
        elif self._seals.is_ours(state):
            raw = drop_member(drop_member(raw, ("params", "requestState")), ("params", "inputResponses"))
        return message if raw is message.raw else msgspec.structs.replace(message, raw=raw)

    def amend(self, message: Message | Batch, context: Context) -> Amend | None:
        """The capability in a greeting, marks in a list of tools; both are learnt from as they pass."""
        messages = message.messages if isinstance(message, Batch) else (message,)
        found: dict[RequestId, Amend] = {}
        for one in messages:
            if one.kind is Kind.REQUEST and one.id is not None:
                if one.method in _GREETINGS:
                    found[one.id] = partial(_amend_greeting, self._gating(context.server))
                elif one.method == "tools/list":
                    found[one.id] = partial(_amend_list, self._gating(context.server))
        return Amends(found) if found else None

    def amend_call(self, message: Message, call: Call, decision: Decision) -> Amend | None:
        """An approved call of the modern era may be answered with a question, and go on under the same approval."""
        verdict = _verdict(decision)
        if not isinstance(verdict, Pass) or "approval" not in verdict.facts or message.id is None:
            return None
        action = action_hash(call.tool, call.canonical, self._deployment.server_id(call.context.server))
        wrap = partial(self._rounds.wrap, call=call.id, action=action, caller=caller_of(call.context))
        return Amends({message.id: wrap})

    def refused(self, _call: Call, _refused: Refused) -> None:
        """What an approval stood on is on record with the decision."""

    def after(self, _message: Message | Batch, _context: Context, _calls: Sequence[Decided] = ()) -> After | None:
        """Nothing to write down."""
        return None

    def after_others(self, _context: Context) -> After | None:
        return None

    def leaving(self, message: Message | Batch, _calls: Sequence[Decided] = ()) -> Message | Batch:
        return message

    # ---- what is for the gateway itself ----

    async def takes(self, message: Message | Batch, context: Context) -> bool:
        """Answers to our own questions, and cancellations of calls that the server has not seen."""
        if isinstance(message, Batch):
            if any(one.kind is Kind.RESPONSE and self._seals.is_ours(one.id) for one in message.messages):
                raise Refused(Reason.INVALID_REQUEST, "an answer to the gateway has to be sent alone")
            return False
        if message.kind is Kind.RESPONSE:
            if not self._seals.is_ours(message.id):
                return False
            await self._hear(message, context)
            return True
        if message.method != _CANCELLED or not isinstance(message.params, dict):
            return False
        # Without a session anybody at that address could end another's wait; there, whoever leaves closes the stream.
        if not has_session(context):
            return False
        return self._lobby.take_back(context.server, caller_of(context), message.params.get("requestId"))

    async def _hear(self, message: Message, context: Context) -> None:
        """A client's answer to an elicitation of ours; that of another session is not heard."""
        try:
            state = self._seals.open(message.id, QUESTION)
        except Refused:
            return
        if state.caller != caller_of(context):
            return
        body = decode_leniently(message.raw)
        result = body.get("result") if isinstance(body, dict) else None
        action = result.get("action") if isinstance(result, dict) else "error"
        action = action if action in ("accept", "decline", "cancel") else "error"
        place = self._lobby.asked(str(message.id))
        if place is not None:
            place.answer(action)
        elif action in ("decline", "cancel"):
            # The call waits in another process of this deployment, and learns of it from the store.
            try:
                await self._approvals.refuse(state.request, by="client", note="declined in the client")
            except Spent:
                return


def _verdict(decision: Decision) -> Verdict | None:
    return decision.answers[-1].verdict if decision.answers else None


def _amend_greeting(gating: Gating, reply: bytes) -> bytes:
    message = decode_leniently(reply)
    gating.catalogue.greeted(capable=declares(message.get("result") if isinstance(message, dict) else None))
    return add_capability(reply) if gating.verifies else reply


def _amend_list(gating: Gating, reply: bytes) -> bytes:
    message = decode_leniently(reply)
    gating.catalogue.learn(read_tools(message.get("result") if isinstance(message, dict) else None))
    return mark_tools(reply, gating.operators_policy) if gating.section.tools else reply
