"""Delegation (SEP-2672 §8.4.4): what a person signs beforehand, so that an agent can call within bounds without them.

A grant is one document. Its RFC 8785 form is signed with a passkey like a call is, and everything in it is shown. It
says which agent, which server and tool as it is now, what each argument may be, how many calls, how much in sum, and
from when until when. What it does not name it does not allow.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from callgate.approval.action import action_hash, to_iso
from callgate.approval.display import escape
from callgate.approval.model import ApprovalPolicy, Credential
from callgate.approval.webauthn import NotVerified
from callgate.canonical import MAX_SAFE_INTEGER, canonical, parts_hash
from callgate.errors import MessageError, Reason, Refused

FORMAT: Final = 1
# Stands in the place of a tool's name in what is signed; the relying party stands in the place of the server's id,
# which no server has (`Deployment.server_id`). So no signature over a call is one over a grant.
SIGNED_AS: Final = "callgate/grant"
METHOD: Final = "grant"
LOCAL: Final = "local"

_DAY_MS: Final = 86_400_000
MOST_DAYS: Final = 366
MOST_CALLS: Final = 100_000
MOST_CONDITIONS: Final = 50
_MOST_VALUES: Final = 50
_MOST_NOTES: Final = 5
# A person reads all of it before they sign.
MOST_BYTES: Final = 16_384
# Amounts are counted in millionths, in whole numbers that both databases hold.
_PLACES: Final = 6
_UNIT: Final = 10**_PLACES
MOST_AMOUNT: Final = 10**12
# Ways to leave the folder or the host that a text begins with.
_ESCAPES: Final = ("..", "\\", "%2e", "%2f", "%5c", "//")

Rule: TypeAlias = Literal["equals", "one_of", "at_most", "at_least", "starts_with", "anything"]
_Text = Annotated[str, Meta(min_length=1, max_length=512)]


class GrantedAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose calls: a verified caller with one key of theirs; or `local`, the programs of the person whose gateway it
    is, on their own computer, which prove nothing further."""

    source: Literal["web-bot-auth", "oauth", "api-key", "local"]
    id: Annotated[str, Meta(max_length=512)] = ""
    key: Annotated[str, Meta(max_length=512)] = ""
    directory: Annotated[str, Meta(max_length=2048)] = ""

    @property
    def words(self) -> str:
        if self.source == LOCAL:
            return "any program of yours that uses this server through the gateway on this computer"
        proved = {"web-bot-auth": "signs with the key", "api-key": "uses the API key", "oauth": "has a token of"}
        by = f"{escape(self.id)}, which {proved[self.source]} {escape(self.key)}"
        return f"{by}, from {escape(self.directory)}" if self.directory else by


class GrantCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one argument has to be. `value` is JSON for `equals`, a list for `one_of`, a text for the rest: numbers are
    written as texts, so that none is rounded."""

    argument: Annotated[str, Meta(min_length=1, max_length=256)]
    rule: Rule
    value: Any = None

    @property
    def words(self) -> str:
        if self.rule == "anything":
            return "anything, or nothing at all"
        if self.rule == "equals":
            return f"exactly {shown(self.value)}"
        if self.rule == "one_of":
            return f"one of {', '.join(map(shown, self.value))}"
        if self.rule == "starts_with":
            return f"a text that starts with {shown(self.value)}"
        return f"a number, {self.rule.replace('_', ' ')} {escape(str(self.value))}"


class GrantTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is signed. Times are ms since 1970; `tool_hash` is the tool as its server lists it."""

    id: _Text
    person: _Text
    agent: GrantedAgent
    server: _Text
    server_id: Annotated[str, Meta(min_length=1, max_length=2048)]
    tool: Annotated[str, Meta(min_length=1, max_length=1024)]
    tool_hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    arguments: Annotated[tuple[GrantCondition, ...], Meta(max_length=MOST_CONDITIONS)]
    calls: Annotated[int, Meta(ge=1, le=MOST_CALLS)]
    begins: Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
    ends: Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
    sum_of: Annotated[str, Meta(max_length=256)] = ""
    sum_at_most: Annotated[str, Meta(max_length=32)] = ""
    format: Literal[1] = FORMAT

    @property
    def canonical(self) -> bytes:
        return canonical(msgspec.to_builtins(self))

    @property
    def most_amount(self) -> int | None:
        """In millionths; None where nothing is summed."""
        return units(Decimal(self.sum_at_most)) if self.sum_of else None

    @property
    def open(self) -> tuple[str, ...]:
        """The arguments that somebody else can have written, all of them or the rest behind a fixed beginning."""
        free = (one for one in self.arguments if one.rule in ("anything", "starts_with"))
        return tuple(one.argument for one in free if one.argument != self.sum_of)


class Delegable(msgspec.Struct, frozen=True):
    """A tool that a grant can be signed for now; `problem` says why none can. `local`: the server is one that the
    person's own programs start. `person` is the only one who can sign: their calls wait for them."""

    server: str
    server_id: str
    tool: str
    tool_hash: str
    policy: ApprovalPolicy
    schema: Any = None
    local: bool = False
    person: str = ""
    problem: str = ""

    def for_person(self, name: str) -> Delegable:
        """The same, with why this person can sign no grant for it."""
        if self.problem or name == self.person:
            return self
        return replace(self, problem=f"calls of {self.server} wait for {self.person or 'nobody who is named'}")

    @property
    def key(self) -> str:
        """What names it in an address."""
        return parts_hash(self.server_id, self.tool, LOCAL if self.local else "").hex()[:16]

    @property
    def properties(self) -> Mapping[str, Any]:
        found = self.schema.get("properties") if isinstance(self.schema, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def required(self) -> list[str]:
        found = self.schema.get("required") if isinstance(self.schema, dict) else None
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


class Delegation(msgspec.Struct, frozen=True):
    """A signed grant, and what was used of it. `evidence` is the signature as it goes on record."""

    terms: GrantTerms
    credential: str
    at: int
    evidence: dict[str, Any]
    calls: int = 0
    amount: int = 0
    revoked_at: int | None = None
    revoked_by: str | None = None

    @property
    def left(self) -> dict[str, Any]:
        return left(self.terms, self.calls, self.amount)

    def state(self, now: int) -> str:
        """In one word, for lists."""
        if self.revoked_at is not None:
            return "revoked"
        if now >= self.terms.ends:
            return "ended"
        if self.calls >= self.terms.calls:
            return "used up"
        return "in force" if now >= self.terms.begins else "not begun"


class DelegationUse(msgspec.Struct, frozen=True):
    """One call's part of a grant, to be used up together with the decision. `counts`: the record of it is written with
    what is left afterwards, which only the transaction knows."""

    grant: str
    amount: int
    at: int
    counts: bool = True


def left(terms: GrantTerms, calls: int, amount: int) -> dict[str, Any]:
    """What is left once so much is used, as records and people have it."""
    found: dict[str, Any] = {"calls": terms.calls - calls}
    if terms.most_amount is not None:
        found["amount"] = written(terms.most_amount - amount)
    return found


def read_terms(form: bytes) -> GrantTerms:
    """Terms from their signed form; a form that is not the one they have again is none."""
    try:
        terms = msgspec.json.decode(form, type=GrantTerms)
        if terms.canonical == form:
            return terms
    except (msgspec.MsgspecError, MessageError, RecursionError):
        pass
    raise Refused(Reason.GRANT_INVALID)


def hash_of(form: bytes, rp_id: str) -> bytes:
    """What a passkey signs over, with the nonce before it."""
    return action_hash(SIGNED_AS, form, rp_id)


# ---- numbers ----


def units(number: Decimal) -> int | None:
    """An amount in millionths; None for one that is negative, has more places, or is too large to be counted."""
    if number.is_signed() or not number.is_finite() or number > MOST_AMOUNT:
        return None
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    # Not with the context's arithmetic, which rounds.
    text = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(text)
    if not text:
        return 0
    return int(text) * 10 ** (exponent + _PLACES) if exponent >= -_PLACES else None


def written(amount: int) -> str:
    """Millionths as people write the amount."""
    whole, rest = divmod(amount, _UNIT)
    return f"{whole}.{rest:0{_PLACES}d}".rstrip("0") if rest else str(whole)


def number(value: object) -> Decimal | None:
    """A JSON number as it is written; None for anything else, true and false too, and for digits that no reader of
    JSON numbers is sure to keep."""
    if type(value) is int:
        return Decimal(value) if abs(value) <= MAX_SAFE_INTEGER else None
    if type(value) is not Decimal or not value.is_finite():
        return None
    return value if Decimal(repr(float(value))) == value and abs(value) <= MAX_SAFE_INTEGER else None


def exact_arguments(raw: bytes) -> dict[str, Any]:
    """The arguments of a call as they are written, which is what its server reads; no number is rounded."""
    return _object(exact(raw)["params"].get("arguments"))


def exact(text: bytes) -> Any:
    """JSON with its numbers as they are written."""
    return json.loads(text, parse_float=Decimal)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rounded(value: Any) -> Any:
    """The same as JSON readers have it."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def _same(one: Any, other: Any) -> bool:
    try:
        return canonical(_rounded(one)) == canonical(_rounded(other))
    except MessageError:
        return False


# ---- whether a call is within ----


def outside(terms: GrantTerms, arguments: Mapping[str, Any]) -> str:
    """Why a call with these arguments (`exact_arguments`) is not within the grant; empty where it is."""
    named = {one.argument for one in terms.arguments}
    for name in arguments:
        if name not in named:
            return f"it does not name the argument {escape(name[:60])}"
    for one in terms.arguments:
        if one.rule == "anything":
            continue
        if one.argument not in arguments or not _holds(one, arguments[one.argument]):
            return f"{escape(one.argument)} has to be {one.words}"
    if terms.sum_of and amount_in(terms, arguments) is None:
        return f"{escape(terms.sum_of)} has to be a plain amount with at most {_PLACES} decimal places"
    return ""


def amount_in(terms: GrantTerms, arguments: Mapping[str, Any]) -> int | None:
    """What this call adds to the sum, in millionths; None for what cannot be counted."""
    found = number(arguments.get(terms.sum_of))
    return None if found is None else units(found)


def _holds(one: GrantCondition, value: Any) -> bool:
    if one.rule == "equals":
        return _same(value, one.value)
    if one.rule == "one_of":
        return any(_same(value, allowed) for allowed in one.value)
    if one.rule == "starts_with":
        return isinstance(value, str) and value.startswith(one.value) and _stays(one.value, value[len(one.value) :])
    found = number(value)
    if found is None:
        return False
    return found <= Decimal(one.value) if one.rule == "at_most" else found >= Decimal(one.value)


def _stays(beginning: str, rest: str) -> bool:
    """Whether what follows a fixed beginning cannot lead out of what the beginning names, also not by going on from
    its last characters."""
    return rest.isprintable() and not any(way in f"{beginning[1 - len(way) :]}{rest}".lower() for way in _ESCAPES)


class Covering(msgspec.Struct, frozen=True):
    """The grant that a call is within, if one is; else why each grant of its agent for this tool is not it."""

    delegation: Delegation | None = None
    credential: Credential | None = None
    amount: int = 0
    notes: tuple[str, ...] = ()


class Grants(Protocol):
    """Where grants are kept."""

    async def delegations_of(self, agent: GrantedAgent, server_id: str, now: int) -> Sequence[Delegation]:
        """Those of this agent on this server that are not revoked and have not ended; those that end first, first."""

    async def credential(self, credential_id: str) -> Credential | None: ...


async def covering(
    shelf: Grants,
    agent: GrantedAgent,
    *,
    server_id: str,
    tool: str,
    tool_hash: str,
    policy: ApprovalPolicy,
    raw: bytes,
    ruled: bool,
    asked: Callable[[], Awaitable[str | None]],
    now: int,
) -> Covering:
    """Look for a grant for a call; `ruled` says that a rule of the policy asks about it, and `asked` who is asked
    about calls of this server.

    Nothing is used up yet: the transaction that records the call has the last word on calls, sum, time and person.
    """
    notes: list[str] = []
    arguments: dict[str, Any] | None = None
    for one in await shelf.delegations_of(agent, server_id, now):
        terms = one.terms
        if (terms.agent, terms.server_id, terms.tool) != (agent, server_id, tool):
            continue
        arguments = exact_arguments(raw) if arguments is None else arguments
        amount = amount_in(terms, arguments) or 0
        why = _not_now(one, tool_hash, amount, now) or outside(terms, arguments)
        if not why and ruled and (free := [name for name in terms.open if name in arguments]):
            why = f"a rule of the policy asks about this call, and it leaves open what {escape(free[0])} is"
        if not why and terms.person != await asked():
            # Somebody could sign for what nobody asks them about, or is asked no longer.
            why = f"calls of this server do not wait for {escape(terms.person)}"
        if not why:
            held = await shelf.credential(one.credential)
            if held is not None and held.revoked_at is None and policy.takes(held):
                return Covering(one, held, amount)
            why = "the passkey that signed it cannot approve this tool any more"
        if len(notes) < _MOST_NOTES:
            notes.append(f"Grant {terms.id} of {terms.person} does not cover it: {why}.")
    return Covering(notes=tuple(notes))


def _not_now(one: Delegation, tool_hash: str, amount: int, now: int) -> str:
    terms = one.terms
    if terms.tool_hash != tool_hash:
        return "the tool has changed since it was signed"
    if now < terms.begins:
        return f"it begins {to_iso(terms.begins)}"
    if one.calls >= terms.calls:
        return "all its calls are used"
    if terms.most_amount is not None and one.amount + amount > terms.most_amount:
        return f"{written(terms.most_amount - one.amount)} of its sum is left"
    return ""


# ---- what a record proves ----


def is_grant(facts: object) -> bool:
    """Whether a record says that a grant let its call through."""
    return isinstance(facts, Mapping) and facts.get("method") == METHOD


def check_grant(facts: Mapping[str, Any], action: bytes, rp_id: str, tool: str, form: bytes | None) -> None:
    """That a call on record is within the grant on record, and that this is what was signed; NotVerified where not.

    `action` is what the passkey signed, `form` the RFC 8785 form of the arguments where they are known.
    """
    text = facts.get("terms")
    try:
        terms = read_terms(text.encode() if isinstance(text, str) else b"")
    except (Refused, UnicodeEncodeError):
        raise NotVerified("the grant on record cannot be read") from None
    if not hmac.compare_digest(action, hash_of(terms.canonical, rp_id)):
        raise NotVerified("the passkey signed another grant than the one on record")
    said = (facts.get("grant"), facts.get("user"), facts.get("server_id"), tool)
    if said != (terms.id, terms.person, terms.server_id, terms.tool):
        raise NotVerified("the grant on record is for another call")
    if form is not None and (why := outside(terms, _object(exact(form)))):
        raise NotVerified(f"the call is not within the grant: {why}")


# ---- whether terms can be signed ----


def check_terms(terms: GrantTerms, now: int) -> GrantTerms:
    """Refused(GRANT_INVALID) with a sentence for the person who makes it."""
    problem = next(_problems(terms, now), "")
    if problem:
        raise Refused(Reason.GRANT_INVALID, problem)
    return terms


def _problems(terms: GrantTerms, now: int) -> Iterator[str]:
    if terms.ends <= max(now, terms.begins):
        yield "The end has to be later than the beginning, and than now."
    if terms.ends - now > MOST_DAYS * _DAY_MS:
        yield f"A grant ends after {MOST_DAYS} days at most."
    if terms.agent.source != LOCAL and not (terms.agent.id and terms.agent.key):
        yield "A grant is for an agent that proves who it is: it needs the agent's name and key."
    yield from _wrong_conditions(terms.arguments)
    if bool(terms.sum_of) != bool(terms.sum_at_most):
        yield "A sum needs the argument that is added up, and the most that it may come to."
    elif terms.sum_of:
        if terms.sum_of not in {one.argument for one in terms.arguments}:
            yield f"{escape(terms.sum_of)} is to be added up: say what it may be, too."
        most = _decimal(terms.sum_at_most)
        if most is None or units(most) is None:
            yield f"The sum is a number from 0 to {MOST_AMOUNT} with at most {_PLACES} decimal places."
    try:
        if len(terms.canonical) > MOST_BYTES:
            yield f"This grant is longer than the {MOST_BYTES} bytes that a person can be asked to read."
    except MessageError as error:
        yield f"A value in it cannot be signed: {error}"


def _wrong_conditions(conditions: Iterable[GrantCondition]) -> Iterator[str]:
    seen: dict[str, set[str]] = {}
    for one in conditions:
        rules = seen.setdefault(one.argument, set())
        if one.rule in rules or (rules and not {one.rule, *rules} <= {"at_most", "at_least"}):
            yield f"{escape(one.argument)} has two conditions of which one is enough."
        rules.add(one.rule)
        if one.rule == "anything" and one.value is not None:
            yield f"{escape(one.argument)} may be anything: then it needs no value."
        if one.rule in ("at_most", "at_least") and _decimal(one.value) is None:
            yield f"{escape(one.argument)} needs a number."
        if one.rule == "one_of" and not (isinstance(one.value, list) and 0 < len(one.value) <= _MOST_VALUES):
            yield f"{escape(one.argument)} needs from 1 to {_MOST_VALUES} values."
        if one.rule == "starts_with" and (problem := _open_start(one.value)):
            yield f"{escape(one.argument)}: {problem}"


def _open_start(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        return "the beginning has to be a text that can be read."
    _, scheme, rest = value.partition("://")
    if scheme and "/" not in rest:
        return "a web address has to go on beyond the host, at least with a slash: others own what begins like it."
    return ""


def _decimal(text: object) -> Decimal | None:
    """A number that a person wrote: digits, at most one point, perhaps a minus; within what JSON readers keep."""
    if not isinstance(text, str) or len(text) > 32 or not text.isascii():
        return None
    bare = text.removeprefix("-")
    whole, point, places = bare.partition(".")
    if not whole.isdigit() or (point and not places.isdigit()):
        return None
    found = Decimal(text)
    return found if abs(found) <= MAX_SAFE_INTEGER else None


# ---- in words ----


def shown(value: Any) -> str:
    """A value as it is signed, with what cannot be seen spelt out."""
    return escape(canonical(_rounded(value)).decode()) if not isinstance(value, str) else f'"{escape(value)}"'


def _below_zero(terms: GrantTerms, name: str) -> bool:
    """Whether only an upper bound keeps this number."""
    rules = [one.rule for one in terms.arguments if one.argument == name]
    return rules == ["at_most"] and name != terms.sum_of


def lines(terms: GrantTerms) -> list[tuple[str, str]]:
    """All that is signed, for the person who signs: what it is about, and what is said of it."""
    found = [
        ("Agent", terms.agent.words),
        ("Server", f"{escape(terms.server)}, as it is set up now ({escape(terms.server_id)})"),
        ("Tool", f"{escape(terms.tool)}, as its server lists it now (hash {terms.tool_hash})"),
    ]
    arguments: dict[str, list[str]] = {}
    for one in terms.arguments:
        summed = one.rule == "anything" and one.argument == terms.sum_of
        arguments.setdefault(one.argument, []).append("any amount, within the sum below" if summed else one.words)
    for name, words in arguments.items():
        # Who signs for an amount may think of no other direction.
        below = ", also below zero" if _below_zero(terms, name) else ""
        found.append((f"Argument {escape(name)}", f"{', and '.join(words)}{below}"))
    none = "No other argument may be there." if arguments else "No argument may be there."
    found.append(("Other arguments", none))
    found.append(("Calls", f"at most {terms.calls}"))
    if terms.sum_of:
        found.append(("Sum", f"{escape(terms.sum_of)} of all these calls together: at most {terms.sum_at_most}"))
    found.append(("Time", f"from {to_iso(terms.begins)} until {to_iso(terms.ends)}"))
    found.append(("Signed by", escape(terms.person)))
    found.append(("Number", terms.id))
    return found


def text_of(terms: GrantTerms) -> str:
    """The same as one text, as a challenge keeps it."""
    return "\n".join(f"{name}: {text}" for name, text in lines(terms))
