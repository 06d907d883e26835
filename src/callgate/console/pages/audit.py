"""The log: search in it, one call with everything on record, its proof, and its receipt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.app.extracts import demanded_witnesses
from callgate.approval.evidence import Proven, check_proofs, proofs_in
from callgate.approval.model import ConsoleSession
from callgate.approval.webauthn import MalformedResponse, NotVerified
from callgate.audit import note, receipt, records
from callgate.audit.cosigning import cosigned_head
from callgate.audit.note import parse
from callgate.audit.proofs import climb
from callgate.audit.reading import CallEntry, Search, entry, part, search
from callgate.audit.records import DECISION, OUTCOME, DecisionRecord, OutcomeRecord
from callgate.audit.storage import Filter, Tables, TreeHead
from callgate.audit.verify import verify
from callgate.canonical import canonical
from callgate.console.context import ConsoleContext, GatewayPage, GatewayParts
from callgate.console.pages.home import reason_meaning
from callgate.console.rendering import EscapedText, TreeLine, exact, json_tree
from callgate.console.requests import change
from callgate.console.statistics import in_log, out_of_time
from callgate.errors import AuditError, CallgateError, Reason, Refused, StoreError, Tampered

# A log of more records takes too long for a page; the command line has a progress bar.
SMALL: Final = 20_000
_ID_CHARS: Final = 128
_FRESH_MS: Final = 10_000
_KNOWN: Final = ("trust", "approval", "pin")
FIELDS: Final = ("q", "server", "tool", "verdict", "reason", "agent", "session", "person", "call", "since", "until")
VERDICTS: Final = ("allow", "refuse", "approved")
_CHARS: Final = 256
_SPAN: Final = re.compile(r"([0-9]{1,6})([mhdw])")
_MS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_CURSOR: Final = re.compile(r"[1-9][0-9]{0,17}")


class AuditPage(GatewayPage):
    """Whoever signs in may read; nothing can be changed here."""

    def __init__(self, context: ConsoleContext, gateway: GatewayParts) -> None:
        super().__init__(context, gateway)
        # What the last verification from here found.
        self._verified: dict[str, Any] | None = None
        self._verifying = asyncio.Lock()

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        query = dict(request.query_params.items())
        status, asked, found = 200, None, None
        problem: CallgateError | None = None
        try:
            asked = read_query(query, self._context.now())
            wanted, enough = asked, out_of_time()
            found = await in_log(
                self._gateway.store,
                lambda tables: search(tables, wanted.search, before=wanted.before, after=wanted.after, tired=enough),
            )
        except Refused as refused:
            status, problem = 400, refused
        except AuditError as error:
            status, problem = 500, error
        fields = {name: query.get(name, "")[:300] for name in FIELDS}
        return await self._context.show(
            "audit",
            session,
            status=status,
            problem=problem,
            asked=asked,
            found=found,
            fields=fields,
            narrowed=any(fields[name] for name in fields if name != "q"),
            servers=list(self._gateway.config.servers),
            reasons=[one.value for one in Reason],
            head=await self._state(),
            verified=self._verified,
        )

    async def _state(self) -> dict[str, Any]:
        """How the log stands: its signed head, and whether anything odd was noticed in it."""
        head = await in_log(self._gateway.store, lambda tables: tables.head())
        return {
            "size": 0 if head is None else head.size,
            "at": _signed_at(head),
            "tampered": self._gateway.log.tampered,
            "small": head is not None and head.size <= SMALL,
            "most": SMALL,
            **await self._cosigned(),
        }

    async def _cosigned(self) -> dict[str, Any]:
        """How far witnesses have cosigned the log, where some are configured."""
        demanded = demanded_witnesses(self._gateway.config)
        try:
            found = await in_log(self._gateway.store, lambda tables: cosigned_head(tables, demanded))
        except Tampered:
            found = None
        return {"quorum": demanded.quorum, "cosigned": found}

    async def one(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        account = await self._account(request)
        passkey = await self._passkey(account)
        return await self._context.show(
            "audit_call", session, one=account, reason=reason_meaning(account.decision.reason), passkey=passkey
        )

    async def receipt(self, request: Request) -> Response:
        """What `callgate audit receipt` writes, byte for byte."""
        await self._context.signed_in(request)
        account = await self._account(request)
        keys = self._gateway.log.keyring.public_keys()
        demanded, call = demanded_witnesses(self._gateway.config), account.decision.call
        try:
            made = await in_log(
                self._gateway.store,
                lambda tables: receipt.encode(receipt.make(tables, call, keys, demanded)),
            )
        except AuditError as error:
            raise Refused(Reason.AUDIT_UNAVAILABLE, str(error), advice=error.advice) from error
        name = "".join(char for char in account.decision.call if char.isascii() and (char.isalnum() or char in "-_"))
        attached = {"content-disposition": f'attachment; filename="receipt-{name[:64]}.json"'}
        return Response(made, media_type="application/json", headers=attached)

    async def _account(self, request: Request) -> CallAccount:
        call = request.path_params["call"]
        if not 0 < len(call) <= _ID_CHARS or "\0" in call:
            raise Refused(Reason.PAGE_UNKNOWN)
        log = self._gateway.log
        keys = log.keyring.public_keys()
        try:
            found = await in_log(self._gateway.store, lambda tables: entry(tables, call))
        except Tampered:
            raise
        except AuditError as error:
            raise Refused(
                Reason.PAGE_UNKNOWN, _sentence(str(error)), advice="Look for it on the audit page."
            ) from error
        account = await in_log(self._gateway.store, lambda tables: call_account(tables, found, keys))
        if account.waits:
            # As the command does it: bring the newest records into the tree, if that can be done now.
            await asyncio.get_running_loop().run_in_executor(None, self._catch_up)
            account = await in_log(self._gateway.store, lambda tables: call_account(tables, found, keys))
        return account

    def _catch_up(self) -> None:
        try:
            self._gateway.log.catch_up()
        except CallgateError:
            return  # the page says that the proof is not there yet

    async def _passkey(self, account: CallAccount) -> str:
        """What its person calls the passkey that approved a call, where it is still known."""
        held = account.approval.get("credential")
        found = await self._context.approvals.shelf.credential(held) if isinstance(held, str) else None
        return "" if found is None else found.name

    async def verify(self, session: ConsoleSession) -> Response:
        """Verify every stored byte of a small log; one at a time, and not again at once."""
        state = await self._state()
        if not state["small"]:
            raise Refused(
                Reason.INVALID_REQUEST,
                "The log is too long for a page.",
                advice="Type `callgate audit verify` where the gateway runs.",
            )
        async with self._verifying:
            now = self._context.now()
            if self._verified is None or not 0 <= now - self._verified["at"] < _FRESH_MS:
                loop = asyncio.get_running_loop()
                self._verified = await loop.run_in_executor(None, self._verify, now, session.user)
        return JSONResponse({"ok": self._verified["report"] is not None})

    def _verify(self, now: int, by: str) -> dict[str, Any]:
        log = self._gateway.log
        self._catch_up()
        try:
            with log.store.audit_reading() as tables:
                head = tables.head()
            beside = None if head is None else note.noted_checkpoint(log.keyring, parse(head.note).origin)
            report = verify(log.store, log.keyring, earlier=[] if beside is None else [beside])
        except StoreError:
            raise
        except CallgateError as error:
            return {"at": now, "by": by, "report": None, "problem": _sentence(str(error)), "advice": error.advice}
        return {"at": now, "by": by, "report": report}


def _signed_at(head: TreeHead | None) -> int | None:
    try:
        return None if head is None else parse(head.note).at
    except Tampered:
        return None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def routes(context: ConsoleContext) -> list[Route]:
    if context.gateway is None:
        return []
    page = AuditPage(context, context.gateway)
    return [
        Route("/audit", page.show),
        change(context, "/audit/verify", page.verify),
        Route("/audit/{call}", page.one),
        Route("/audit/{call}/receipt.json", page.receipt),
    ]


class CallAccount(msgspec.Struct, frozen=True):
    """A call as its page tells it."""

    decision: DecisionRecord
    outcome: OutcomeRecord | None
    record: int
    arguments: list[TreeLine] | None
    raw: EscapedText
    trust: Mapping[str, Any]
    approval: Mapping[str, Any]
    pin: Mapping[str, Any]
    # What other checks have put on record.
    others: list[TreeLine] | None
    trust_tree: list[TreeLine] | None
    # Each record's way to the signed root; its `problem` where there is none, which may be `bad`.
    proofs: Sequence[Mapping[str, Any]]
    # The passkey's signature, verified again from the record alone; or why it does not hold.
    proven: Sequence[Proven] = ()
    unproven: str = ""

    @property
    def waits(self) -> bool:
        """Whether a record is not in the tree yet."""
        return any(one["climb"] is None and not one["bad"] for one in self.proofs)

    @property
    def holds(self) -> bool:
        return all(one["climb"] is not None and one["climb"].holds for one in self.proofs)


def call_account(tables: Tables, found: CallEntry, public_keys: list[bytes]) -> CallAccount:
    """The account of a call, in one view of the log."""
    decision = found.decision
    bodies: dict[int, tuple[int, bytes]] = {}
    for number, kind, body in tables.of_call(decision.call):
        bodies.setdefault(kind, (number, body))
    proofs = [
        _proof(tables, name, bodies[kind], public_keys)
        for name, kind in (("decision", DECISION), ("outcome", OUTCOME))
        if kind in bodies
    ]
    extra = decision.extra or {}
    proven, unproven = _proven(decision)
    trust = part(decision, "trust")
    return CallAccount(
        decision=decision,
        outcome=found.outcome,
        record=found.record,
        arguments=_tree(decision.arguments.value),
        raw=exact(msgspec.json.format(records.encode(decision), indent=2)),
        trust=trust,
        approval=part(decision, "approval"),
        pin=part(decision, "pin"),
        others=_tree({name: value for name, value in extra.items() if name not in _KNOWN}),
        trust_tree=_tree({name: value for name, value in trust.items() if name not in ("session", "effect", "rule")}),
        proofs=proofs,
        proven=proven,
        unproven=unproven,
    )


def _proof(tables: Tables, name: str, found: tuple[int, bytes], public_keys: list[bytes]) -> dict[str, Any]:
    try:
        return {"name": name, "climb": climb(tables, *found, public_keys)}
    except AuditError as error:
        return {"name": name, "climb": None, "problem": str(error), "bad": isinstance(error, Tampered)}


def _proven(decision: DecisionRecord) -> tuple[Sequence[Proven], str]:
    facts = part(decision, "approval")
    if decision.verdict != "allow" or not proofs_in(facts):
        return (), ""
    whole = decision.arguments.mode == "whole" and isinstance(decision.arguments.value, dict)
    try:
        form = canonical(decision.arguments.value) if whole else None
        return check_proofs(facts, decision.tool, form), ""
    except (MalformedResponse, NotVerified, CallgateError) as error:
        return (), str(error)


def _tree(value: object) -> list[TreeLine] | None:
    return json_tree(msgspec.json.encode(value)) if isinstance(value, dict) and value else None


class AuditQuery(msgspec.Struct, frozen=True):
    """The fields as they were filled in, what they mean, and where to go on."""

    fields: Mapping[str, str]
    search: Search
    before: int | None
    after: int | None

    def address(self, **cursor: int) -> str:
        """The same search from another place."""
        return f"/audit?{urlencode({**self.fields, **cursor})}"


def read_query(query: Mapping[str, str], now: int) -> AuditQuery:
    """What an address asks for; refused where it cannot be meant."""
    fields = {name: value for name in FIELDS if (value := query.get(name, "").strip())}
    for name, value in fields.items():
        if len(value) > _CHARS or "\0" in value or not _writable(value):
            raise _invalid(f"What is looked for in “{name}” is too long, or no text.", "Look for less.")
    if fields.get("verdict", "allow") not in VERDICTS:
        raise _invalid("A verdict is allow, refuse or approved.", "Choose one of them.")
    approved = fields.get("verdict") == "approved"
    wanted = Filter(
        server=fields.get("server"),
        tool=fields.get("tool"),
        verdict="allow" if approved else fields.get("verdict"),
        reason=fields.get("reason"),
        call=fields.get("call"),
        since=_time(fields.get("since"), now),
        until=_time(fields.get("until"), now),
        text=fields.get("q"),
    )
    within = Search(wanted, fields.get("agent"), fields.get("session"), fields.get("person"), approved)
    return AuditQuery(fields, within, _cursor(query.get("before")), _cursor(query.get("after")))


def _cursor(text: str | None) -> int | None:
    if text is None:
        return None
    if not _CURSOR.fullmatch(text):
        raise _invalid("This is no place in the log.", "Go on with the buttons below the calls.")
    return int(text)


def _time(text: str | None, now: int) -> int | None:
    """`24h`, `7d` ago, or a date or time, in UTC unless it says otherwise."""
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    if span is not None:
        return max(0, now - int(span[1]) * _MS[span[2]])
    try:
        moment = datetime.fromisoformat(text)
        at = int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise _invalid(
            "That is no time.", "Write 24h or 7d for so long ago, or 2026-11-15, or 2026-11-15T14:00 in UTC."
        ) from None
    return min(max(at, 0), 2**53)


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(detail: str, advice: str) -> Refused:
    return Refused(Reason.INVALID_PARAMS, detail, advice=advice)
