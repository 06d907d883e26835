"""The log: search in it, one call with everything on record, its proof, and its receipt."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.audit import note, receipt
from callgate.audit.note import parse
from callgate.audit.reading import entry, search
from callgate.audit.storage import TreeHead
from callgate.audit.verify import VerifyReport, verify
from callgate.console import audit_query
from callgate.console.audit_call import Account, look
from callgate.console.bodies import Body
from callgate.console.desk import Desk
from callgate.console.logbook import in_log, tired
from callgate.console.pages.home import meaning
from callgate.console.rooms import Rooms
from callgate.errors import AuditError, CallgateError, Reason, Refused, StoreError, Tampered

# A log of more records takes too long for a page; the command line has a progress bar.
SMALL: Final = 20_000
_ID_CHARS: Final = 128
_FRESH_MS: Final = 10_000


class Verdict(msgspec.Struct, frozen=True):
    """What the last verification from this console found."""

    at: int
    by: str
    report: VerifyReport | None = None
    problem: str = ""
    advice: str = ""


class Audit:
    """Whoever signs in may read; nothing can be changed here."""

    def __init__(self, desk: Desk, rooms: Rooms) -> None:
        self._desk = desk
        self._rooms = rooms
        self._verified: Verdict | None = None
        self._verifying = asyncio.Lock()

    async def show(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        query = dict(request.query_params.items())
        status, asked, found = 200, None, None
        problem: CallgateError | None = None
        try:
            asked = audit_query.read(query, self._desk.now())
            wanted, enough = asked, tired()
            found = await in_log(
                self._rooms.store,
                lambda tables: search(tables, wanted.search, before=wanted.before, after=wanted.after, tired=enough),
            )
        except Refused as refused:
            status, problem = 400, refused
        except AuditError as error:
            status, problem = 500, error
        fields = {name: query.get(name, "")[:300] for name in audit_query.FIELDS}
        return await self._desk.show(
            "audit",
            session,
            status=status,
            problem=problem,
            asked=asked,
            found=found,
            fields=fields,
            narrowed=any(fields[name] for name in fields if name != "q"),
            servers=list(self._rooms.config.servers),
            reasons=[one.value for one in Reason],
            head=await self._state(),
            verified=self._verified,
        )

    async def _state(self) -> dict[str, Any]:
        """How the log stands: its signed head, and whether anything odd was noticed in it."""
        head = await in_log(self._rooms.store, lambda tables: tables.head())
        return {
            "size": 0 if head is None else head.size,
            "at": _signed_at(head),
            "tampered": self._rooms.log.tampered,
            "small": head is not None and head.size <= SMALL,
            "most": SMALL,
        }

    async def one(self, request: Request) -> Response:
        session = await self._desk.visitor(request)
        account = await self._account(request)
        passkey = await self._passkey(account)
        return await self._desk.show(
            "audit_call", session, one=account, reason=meaning(account.decision.reason), passkey=passkey
        )

    async def receipt(self, request: Request) -> Response:
        """What `callgate audit receipt` writes, byte for byte."""
        await self._desk.signed_in(request)
        account = await self._account(request)
        keys = self._rooms.log.keyring.public_keys()
        try:
            made = await in_log(
                self._rooms.store, lambda tables: receipt.encode(receipt.make(tables, account.decision.call, keys))
            )
        except AuditError as error:
            raise Refused(Reason.AUDIT_UNAVAILABLE, str(error), advice=error.advice) from error
        name = "".join(char for char in account.decision.call if char.isascii() and (char.isalnum() or char in "-_"))
        attached = {"content-disposition": f'attachment; filename="receipt-{name[:64]}.json"'}
        return Response(made, media_type="application/json", headers=attached)

    async def _account(self, request: Request) -> Account:
        call = request.path_params["call"]
        if not 0 < len(call) <= _ID_CHARS or "\0" in call:
            raise Refused(Reason.PAGE_UNKNOWN)
        log = self._rooms.log
        keys = log.keyring.public_keys()
        try:
            found = await in_log(self._rooms.store, lambda tables: entry(tables, call))
        except Tampered:
            raise
        except AuditError as error:
            raise Refused(
                Reason.PAGE_UNKNOWN, _sentence(str(error)), advice="Look for it on the audit page."
            ) from error
        account = await in_log(self._rooms.store, lambda tables: look(tables, found, keys))
        if account.waits:
            # As the command does it: bring the newest records into the tree, if that can be done now.
            await asyncio.get_running_loop().run_in_executor(None, self._catch_up)
            account = await in_log(self._rooms.store, lambda tables: look(tables, found, keys))
        return account

    def _catch_up(self) -> None:
        try:
            self._rooms.log.catch_up()
        except CallgateError:
            return  # the page says that the proof is not there yet

    async def _passkey(self, account: Account) -> str:
        """What its person calls the passkey that approved a call, where it is still known."""
        held = account.approval.get("credential")
        found = await self._desk.approvals.shelf.credential(held) if isinstance(held, str) else None
        return "" if found is None else found.name

    async def verify(self, request: Request) -> Response:
        """Verify every stored byte of a small log; one at a time, and not again at once."""
        session, _ = await self._desk.change(request, Body)
        state = await self._state()
        if not state["small"]:
            raise Refused(
                Reason.INVALID_REQUEST,
                "The log is too long for a page.",
                advice="Type `callgate audit verify` where the gateway runs.",
            )
        async with self._verifying:
            now = self._desk.now()
            if self._verified is None or not 0 <= now - self._verified.at < _FRESH_MS:
                loop = asyncio.get_running_loop()
                self._verified = await loop.run_in_executor(None, self._verify, now, session.user)
        return JSONResponse({"ok": self._verified.report is not None})

    def _verify(self, now: int, by: str) -> Verdict:
        log = self._rooms.log
        self._catch_up()
        try:
            with log.store.audit_reading() as tables:
                head = tables.head()
            beside = None if head is None else note.noted_checkpoint(log.keyring, parse(head.note).origin)
            report = verify(log.store, log.keyring, earlier=[] if beside is None else [beside])
        except StoreError:
            raise
        except CallgateError as error:
            return Verdict(now, by, problem=_sentence(str(error)), advice=error.advice)
        return Verdict(now, by, report)


def _signed_at(head: TreeHead | None) -> int | None:
    try:
        return None if head is None else parse(head.note).at
    except Tampered:
        return None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def routes(desk: Desk) -> list[Route]:
    if desk.rooms is None:
        return []
    page = Audit(desk, desk.rooms)
    return [
        Route("/audit", page.show),
        Route("/audit/verify", page.verify, methods=["POST"]),
        Route("/audit/{call}", page.one),
        Route("/audit/{call}/receipt.json", page.receipt),
    ]
