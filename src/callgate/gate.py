"""The gate: which checks a call has to pass, and in which order.

The tuple in `Gate.__init__` is the order, and `Gate.decide` runs it. Each check answers with a value and never touches
the wire. A check that raises, hangs past the limit, answers with something else, or cannot reach the store refuses the
call: fail closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import msgspec

from callgate.errors import Reason, Refused, SentBefore, Spent, StoreError, StoreUnavailable, place

log = logging.getLogger("callgate.gate")


class _Turn(tuple[None]):
    """One turn of the event loop, awaited without a call of a function."""

    __slots__ = ()
    __await__ = cast("Callable[[_Turn], Generator[None]]", tuple.__iter__)


# Let the calls that came together do one thing after the other together: what it works with is still in the processor's
# cache then, and fetching that anew for each call is half of the work. A call alone hardly notices.
in_step: Final = _Turn((None,))


Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
_NO_HEADERS: Final[Headers] = ()


class Use(msgspec.Struct, frozen=True):
    """What a caller uses up by calling, whatever is decided. A store writes it together with others of its kind.

    `holds` says from what became of it whether there was something left, `refusal` what is said where there was not,
    and `headers` what the answer says of it.
    """

    write: Callable[[Any, Sequence[Any]], Sequence[Any]]
    item: Any
    holds: Callable[[Any], bool]
    refusal: Callable[[Any], Spent]
    headers: Callable[[Any], Headers] | None = None


class Context(msgspec.Struct, frozen=True):
    """Where a call came from, as far as the transport knows."""

    server: str
    transport: str
    session: str | None = None
    protocol: str | None = None
    peer: str | None = None
    headers: Mapping[bytes, bytes] = {}
    # Who calls, where that was verified; and what the transport found against them that is for the gate to say.
    caller: Caller | None = None
    barred: Refused | None = None
    # What is used up with the decision, whatever it is: the nonce of a signature, calls of a budget.
    uses: tuple[Use, ...] = ()


class Call(msgspec.Struct, frozen=True):
    """One `tools/call` before the gate; `canonical` is the RFC 8785 form of its arguments, `raw` the message itself."""

    id: str
    at: int
    tool: str
    arguments: dict[str, Any]
    canonical: bytes
    raw: bytes
    meta: Mapping[str, Any]
    context: Context
    # A caller that was verified, in words for people.
    agent: Mapping[str, str] = {}


class Pass(msgspec.Struct, frozen=True):
    """This check has no objection; `facts` go into the record (a pin, a caller, labels, an approval).

    `use` is something that lets one call through only: it is used up in the transaction that makes the decision
    durable, so that of two calls with the same approval one passes, whatever happens.
    """

    facts: Mapping[str, Any] = {}
    use: Any = None
    # Whether nothing in the message is for the gateway, so that it need not be changed for this check.
    untouched: bool = False


class Refuse(msgspec.Struct, frozen=True):
    """This check says no."""

    reason: Reason
    detail: str = ""
    facts: Mapping[str, Any] = {}
    # Further members for the error's `data`, and advice instead of the reason's own.
    data: Mapping[str, Any] = {}
    advice: str = ""
    # Another HTTP status than the reason's own.
    status: int | None = None


class Quorum(msgspec.Struct, frozen=True):
    """How many people have to approve, each of them once, and of which groups; without groups, anybody who may.

    `methods` are the ways to answer that count; none given: those that count for the tool.
    """

    approvals: int = 1
    of: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()


class Ask(msgspec.Struct, frozen=True):
    """This check says: only if a person approves exactly this call; `quorums` has what each rule that asks demands."""

    why: str
    facts: Mapping[str, Any] = {}
    quorums: tuple[Quorum, ...] = ()


Verdict: TypeAlias = Pass | Refuse | Ask
Check: TypeAlias = Callable[[Call], Awaitable[Verdict]]
Approve: TypeAlias = Callable[[Call, tuple[Ask, ...]], Awaitable[Verdict]]


class Answer(msgspec.Struct, frozen=True):
    """What one check said."""

    check: str
    verdict: Verdict


class Decision(msgspec.Struct, frozen=True):
    """What the gate said of a call, and why.

    `consumes` is used up in the transaction that records it, allowed or refused. `headers` say in the answer what is
    left. A request that was sent before (`SentBefore`) is on no record: it is counted with its sender's others.
    """

    answers: tuple[Answer, ...]
    refused: Refused | None = None
    consumes: tuple[Use, ...] = ()
    headers: Headers = ()

    @property
    def allowed(self) -> bool:
        return self.refused is None

    @property
    def uses(self) -> tuple[Any, ...]:
        """What the decision uses up; nothing where the call is refused."""
        if self.refused is not None:
            return ()
        used: tuple[Any, ...] = ()
        # Nearly always nothing: a plain loop is the cheapest way to find that.
        for answer in self.answers:
            verdict = answer.verdict
            if isinstance(verdict, Pass) and verdict.use is not None:
                used += (verdict.use,)
        return used


class Count(Protocol):
    """A number that goes up, for whoever watches the gate."""

    value: float


class Record(Protocol):
    """Makes a decision durable together with what it uses up; raises if it cannot.

    `Spent` says that somebody else was faster: then nothing is on record yet. What the caller used up stays used up.
    """

    async def __call__(self, call: Call, decision: Decision) -> Headers | None: ...


class UseUp(Protocol):
    """Uses up ahead of the decision what a caller uses up by calling; raises Spent, or if it cannot."""

    async def __call__(self, uses: tuple[Use, ...], /) -> Headers: ...


async def nobody_to_ask(_call: Call, asks: tuple[Ask, ...]) -> Verdict:
    """The approval of a gate that has none: what needs a person is refused."""
    return Refuse(Reason.APPROVAL_UNAVAILABLE, asks[0].why) if asks else Pass()


async def no_objection(_call: Call) -> Verdict:
    """The check of a room that is not furnished."""
    return Pass()


async def nowhere_to_use_up(_uses: tuple[Use, ...]) -> Headers:
    """Of a gate whose callers use nothing up."""
    raise StoreUnavailable("there is no store to use a caller's nonce or budget up in")


async def nothing_overdue() -> None:
    """Of a gate that knows the store's state at any time."""


def _not_at_once(_call: Call) -> None:
    """A check that has to be waited for."""


class Gate:
    """The order of the checks. One gate serves every transport and the library."""

    def __init__(
        self,
        *,
        kill_switch: Callable[[], Refused | None],
        record: Record,
        agents: Check = no_objection,
        pinning: Check = no_objection,
        trust: Check = no_objection,
        approval: Approve = nobody_to_ask,
        limit: float = 5.0,
        patience: float | None = None,
        catch_up: Callable[[], Awaitable[None]] = nothing_overdue,
        use_up: UseUp = nowhere_to_use_up,
    ) -> None:
        self.closed = kill_switch
        self.use_up = use_up
        # Waits, within a bound, until what is known of the store is not out of date.
        self._catch_up = catch_up
        self._record = record
        # A check may have an answer at once (`at_once`), and then needs no clock.
        self._checks = tuple(
            (name, check, getattr(check, "at_once", _not_at_once))
            for name, check in (("agents", agents), ("pinning", pinning), ("trust", trust))
            if check is not no_objection
        )
        self._approval = approval
        self._freely = getattr(approval, "at_once", _not_at_once)
        # How long the checks of a call may take together.
        self.limit = limit
        # An approval may wait for a person; everything else in it is bounded by the store's own patience.
        self._patience = limit if patience is None else patience

    async def decide(self, call: Call) -> Decision:
        """kill switch → agents → pinning → trust → approval → record; the first refusal ends it.

        What the caller uses up goes with the record. Before a check that takes longer it is used up first: nobody is
        asked, and no server, because of a request that was sent before.
        """
        answers: list[Answer] = []
        uses, headers = call.context.uses, _NO_HEADERS
        refused = self.closed()
        if refused is not None:
            refused = await self.still_closed(refused)
        if refused is None:
            refused, waits = await self._ask_at_once(call, answers)
            if waits and uses:
                try:
                    uses, headers = (), await self.use_up(uses)
                except Spent as spent:
                    return await self._spent(call, Decision((), spent), spent)
                except Exception as error:  # noqa: BLE001 - refused, and nothing was used up: it goes with the record
                    waits, refused = False, _broken(call, "agents", error)
            if waits:
                refused = await self._ask_the_rest(call, answers)
        else:
            answers.append(Answer("kill_switch", Refuse(refused.reason, refused.message)))
        await in_step
        return await self._recorded(call, Decision(tuple(answers), refused, uses, headers))

    async def still_closed(self, refused: Refused) -> Refused | None:
        """What the kill switch says once a reading of it that was overdue has come."""
        if refused.reason is not Reason.STORE_UNAVAILABLE:
            return refused
        await self._catch_up()
        return self.closed()

    async def _recorded(self, call: Call, decision: Decision) -> Decision:
        """The decision, once it is on record; another one, where something it stands on was used up meanwhile."""
        try:
            headers = await self._record(call, decision)
        except Spent as spent:
            return await self._spent(call, decision, spent)
        except Exception as error:  # noqa: BLE001 - what is not on record does not leave, whatever broke
            return _unrecorded(call, decision, error)
        if headers:
            return msgspec.structs.replace(decision, headers=headers)
        return decision

    async def _spent(self, call: Call, decision: Decision, spent: Spent) -> Decision:
        """The refusal of a call that somebody else was faster with, or that is one too many."""
        answer = Answer(spent.check, Refuse(spent.reason, spent.message))
        # What a caller may do comes before all other checks.
        before = () if spent.check == "agents" else decision.answers
        decision = Decision((*before, answer), spent, headers=spent.headers or decision.headers)
        if isinstance(spent, SentBefore):
            return decision
        try:
            await self._record(call, decision)
        except Exception as error:  # noqa: BLE001 - refused either way
            return _unrecorded(call, decision, error)
        return decision

    async def _ask_at_once(self, call: Call, answers: list[Answer]) -> tuple[Refused | None, bool]:
        """The answers of the checks that have them at once, in their order; and whether the others are to be asked."""
        name = ""
        try:
            for name, _, at_once in self._checks:
                await in_step
                verdict = at_once(call)
                if verdict is None:
                    return None, True
                answers.append(Answer(name, verdict))
                if not isinstance(verdict, Pass):
                    return (None, True) if isinstance(verdict, Ask) else (_refusal(name, verdict), False)
            name = "approval"
            if self._approval is nobody_to_ask:
                return None, False
            # Most calls need nobody's approval, and that is known without waiting.
            verdict = self._freely(call)
            if verdict is None:
                return None, True
            answers.append(Answer(name, verdict))
            return None if isinstance(verdict, Pass) else _refusal(name, verdict), False
        except Exception as error:  # noqa: BLE001 - a check that breaks must refuse, whatever broke
            return _broken(call, name, error), False

    async def _ask_the_rest(self, call: Call, answers: list[Answer]) -> Refused | None:
        """The checks that have not answered yet. One clock runs for all of them, from the first that has to wait."""
        running = "approval"
        deadline: float | None = None
        try:
            for running, check, at_once in self._checks[len(answers) :]:
                verdict = at_once(call)
                if verdict is None:
                    deadline = deadline or asyncio.get_running_loop().time() + self.limit
                    async with asyncio.timeout_at(deadline):
                        verdict = await check(call)
                answers.append(Answer(running, verdict))
                if not isinstance(verdict, Pass | Ask):
                    return _refusal(running, verdict)
                await in_step
            running = "approval"
            asks = tuple(answer.verdict for answer in answers if isinstance(answer.verdict, Ask))
            if asks or self._approval is not nobody_to_ask:
                verdict = None if asks else self._freely(call)
                if verdict is None:
                    async with asyncio.timeout(self._patience):
                        verdict = await self._approval(call, asks)
                answers.append(Answer(running, verdict))
                if not isinstance(verdict, Pass):
                    return _refusal(running, verdict)
        except Exception as error:  # noqa: BLE001 - a check that breaks must refuse, whatever broke
            return _broken(call, running, error)
        return None


def _broken(call: Call, name: str, error: Exception) -> Refused:
    """The refusal of a call that a check could not decide."""
    if isinstance(error, TimeoutError):
        return _undecided(call, name, Reason.CHECK_TIMEOUT, "took too long")
    if isinstance(error, StoreError):
        return _undecided(call, name, Reason.STORE_UNAVAILABLE, str(error))
    return _undecided(call, name, Reason.CHECK_FAILED, place(error))


def _unrecorded(call: Call, decision: Decision, error: Exception) -> Decision:
    log.error("decision not recorded", extra={"fields": {"call": call.id, "error": place(error)}})
    return Decision(decision.answers, decision.refused or Refused(Reason.AUDIT_UNAVAILABLE))


def _refusal(name: str, verdict: object) -> Refused:
    if isinstance(verdict, Refuse):
        return Refused(verdict.reason, verdict.detail, advice=verdict.advice, data=verdict.data, status=verdict.status)
    return Refused(Reason.CHECK_FAILED, f"the check {name} gave no verdict")


def _undecided(call: Call, name: str, reason: Reason, why: str) -> Refused:
    # What broke goes to the operator's log; the caller learns only which check could not decide.
    log.error("check failed", extra={"fields": {"call": call.id, "check": name, "reason": reason.value, "error": why}})
    return Refused(reason, f"{reason.meaning} (check: {name})")


Source: TypeAlias = Literal["web-bot-auth", "oauth", "api-key", "local"]


class Caller(msgspec.Struct, frozen=True):
    """Who is calling, once that is verified."""

    id: str
    source: Source
    # Thumbprint of the key, id of the API key, or subject of the token.
    key: str = ""
    directory: str = ""
    name: str = ""
    digest_verified: bool = False
    claims: Mapping[str, Any] = {}
    # On whose behalf, by a KYA token.
    principal: str = ""
    # Whether somebody listed this agent; otherwise its key is all that names it.
    listed: bool = True


class Identity(msgspec.Struct, frozen=True):
    """What was found out about who sends a request, and what follows from it for the answer and for the server."""

    caller: Caller | None = None
    # What is held against their calls all the same, for the gate to say.
    barred: Refused | None = None
    # What their call uses up, where that goes with its decision.
    uses: tuple[Use, ...] = ()
    # Headers that were for the gateway alone, those that tell the server who calls, and those of the answer.
    spent: frozenset[bytes] = frozenset()
    told: Headers = ()
    answering: Headers = ()


NOBODY: Final = Identity()


class CallerRefused(Exception):
    """A sender who is refused before the gate; `identity` has what was found out, and headers for the answer."""

    def __init__(self, refused: Refused, identity: Identity) -> None:
        super().__init__(str(refused))
        self.refused = refused
        self.identity = identity
