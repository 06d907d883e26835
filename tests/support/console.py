"""The console under a real uvicorn, with people, passkeys and calls that wait."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvicorn

from callgate.approval import (
    ApprovalPolicy,
    ApprovalRepository,
    Approvals,
    ApprovalSettings,
    Credential,
    Gated,
    RelyingParty,
    Request,
)
from callgate.approval.model import Role
from callgate.audit import AuditLog
from callgate.canonical import canonical
from callgate.config import parse
from callgate.console import console_app
from callgate.console.context import GatewayParts
from callgate.keyring import Keyring
from callgate.pinning.service import Pins
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.store import KillSwitch, SqlAgents, SqlApprovals, Store
from callgate.trust.service import TrustService
from support import agent_sessions, reviewing
from support.memory import MemoryPins, MemoryShelf, MemoryTrust
from support.reviewing import pins_over
from support.stores import ready, write_ready

PARTY: Final = RelyingParty("localhost", origins=("http://localhost:*",))
AGENT: Final = {"client": "Helper 1.4.2", "transport": "http", "peer": "127.0.0.1", "session": "b0f1c2aa"}
ARGUMENTS: Final[dict[str, Any]] = {"resourceId": "prod/customers-eu", "cascade": True, "limit": 250}
VERSION: Final = "sha256:9f2c1be08a7d4f1192ab33c0d1e2f3a4b5c6d7e8f90123456789abcdef012345"
HTML: Final = {"accept": "text/html"}


class Clock:
    """The time of day, which a test can move on, or stop."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._stopped: float | None = None

    def stop(self) -> None:
        """From now on only a test moves it."""
        self._stopped = time.time()

    def __call__(self) -> float:
        return (time.time() if self._stopped is None else self._stopped) + self.ahead


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals belong to pytest.
        yield


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    text: str
    json: Any = None

    @property
    def reason(self) -> str:
        return str(self.json["error"]["reason"])


@dataclass(frozen=True)
class Browsing:
    """Somebody who is signed in: their cookie, their token, the passkey in their hand."""

    user: str
    cookie: dict[str, str]
    csrf: str
    credential: Credential
    key: SoftwareAuthenticator


@dataclass
class LiveConsole:
    """A console on its own port, over a shelf in memory."""

    port: int
    approvals: Approvals
    clock: Clock
    http: aiohttp.ClientSession
    people: dict[str, Browsing] = field(default_factory=dict)
    gateway: GatewayParts | None = None
    pins: Pins | None = None
    trust: TrustService | None = None

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def cookie(self) -> str:
        return f"callgate_session_{self.port}"

    async def sign_in(
        self, user: str = "anna", *, role: Role = "operator", transports: tuple[str, ...] = ("usb",)
    ) -> Browsing:
        """A person with a passkey and a session; made by the service itself, without a page."""
        key = SoftwareAuthenticator(self.origin, transports=transports)
        if await self.approvals.shelf.user(user) is None:
            await self.approvals.add_user(user, by="operator", role=role)
        begun = await self.approvals.begin_enrolment(await self.approvals.ticket(user, by="operator"))
        enrolled = await self.approvals.finish_enrolment(key.create(begun["options"]), name="Test key", codes=True)
        session, secret = await self.approvals.session_for(enrolled.credential)
        person = Browsing(user, {self.cookie: secret}, session.csrf, enrolled.credential, key)
        self.people[user] = person
        return person

    async def ask(
        self,
        arguments: dict[str, Any] = ARGUMENTS,
        *,
        user: str = "anna",
        tool: str = "delete_resource",
        server: str = "files",
        agent: dict[str, str] = AGENT,
        why: str = "The operator listed this tool.",
        **options: Any,
    ) -> Request:
        """A call that waits for its person."""
        gated = Gated(server, "urn:test:files", tool, ApprovalPolicy("cross-platform"), version=VERSION)
        return await self.approvals.ask(
            gated, arguments, canonical(arguments), user, caller="caller", agent=agent, why=why, **options
        )

    async def stored(self, request: Request) -> Request:
        """The same request as it is by now."""
        found = await self.approvals.shelf.request(request.id)
        assert found is not None
        return found

    async def get(self, path: str, person: Browsing | None = None, **headers: str) -> Answer:
        return await self._send("GET", path, person, headers or HTML)

    async def post(
        self,
        path: str,
        body: object = None,
        person: Browsing | None = None,
        *,
        headers: dict[str, str | None] | None = None,
    ) -> Answer:
        """As a script of our page would send it; `headers` changes some, None leaves one out."""
        sent: dict[str, str | None] = {"origin": self.origin, "sec-fetch-site": "same-origin"}
        if person is not None:
            sent["x-callgate-csrf"] = person.csrf
        sent |= headers or {}
        kept = {name: value for name, value in sent.items() if value is not None}
        if isinstance(body, bytes):
            return await self._send("POST", path, person, {"content-type": "application/json"} | kept, data=body)
        return await self._send("POST", path, person, kept, json={} if body is None else body)

    async def signed(self, request: Request, person: Browsing, **bend: Any) -> dict[str, Any]:
        """A fresh challenge of the page for this request, signed with the person's passkey."""
        issued = (await self.post(f"/approve/{request.id}/options", {}, person)).json
        return {"challengeId": issued["challengeId"], "response": person.key.get(issued["requestOptions"], **bend)}

    async def signed_for(self, path: str, person: Browsing, **bend: Any) -> dict[str, Any]:
        """A fresh challenge from this path, signed with the person's own passkey."""
        issued = (await self.post(path, {}, person)).json
        own = dict(issued["requestOptions"], allowCredentials=[])
        return {"challengeId": issued["challengeId"], "response": person.key.get(own, **bend)}

    async def challenge(self, path: str, body: object, person: Browsing, **bend: Any) -> dict[str, Any]:
        """What `signedPost` sends in the end: the body, and a passkey's signature over the challenge for it."""
        issued = await self.post(f"{path}/options", body, person)
        assert issued.status == 200, issued.text
        response = person.key.get(issued.json["requestOptions"], **bend)
        return {"body": body, "challengeId": issued.json["challengeId"], "response": response}

    async def act(self, path: str, body: object, person: Browsing, **bend: Any) -> Answer:
        """Something that lasts, as the page does it: signed with the person's passkey; or the refusal to begin."""
        issued = await self.post(f"{path}/options", body, person)
        if issued.status != 200:
            return issued
        response = person.key.get(issued.json["requestOptions"], **bend)
        return await self.post(
            path, {"body": body, "challengeId": issued.json["challengeId"], "response": response}, person
        )

    async def revoke(self, credential_id: str, person: Browsing) -> Answer:
        """As the page does it: the passkey signs for exactly this."""
        place = f"/passkeys/{credential_id}/revoke"
        return await self.post(place, await self.signed_for(f"{place}/options", person), person)

    async def _send(
        self, method: str, path: str, person: Browsing | None, headers: dict[str, str], **options: Any
    ) -> Answer:
        cookies = person.cookie if person else None
        async with self.http.request(
            method, f"{self.origin}{path}", headers=headers, cookies=cookies, allow_redirects=False, **options
        ) as answer:
            text = await answer.text()
            fields = {name.lower(): value for name, value in answer.headers.items()}
            parsed = await answer.json() if answer.content_type == "application/json" else None
            return Answer(answer.status, fields, text, parsed)


@contextlib.asynccontextmanager
async def live_console(
    settings: ApprovalSettings | None = None, *, shelf: ApprovalRepository | None = None, **options: Any
) -> AsyncIterator[LiveConsole]:
    """A console that runs; `options` are those of console_app."""
    clock = Clock()
    approvals = Approvals(shelf or MemoryShelf(), PARTY, settings, clock=clock)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        # From now on who connects is kept waiting, not turned away, until the server is up.
        listener.listen(128)
        port = listener.getsockname()[1]
        app = console_app(approvals, origin=f"http://localhost:{port}", secure=False, clock=clock, **options)
        server = _Server(uvicorn.Config(app, lifespan="on", log_level="warning", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        jar = aiohttp.DummyCookieJar()
        try:
            async with aiohttp.ClientSession(cookie_jar=jar, timeout=aiohttp.ClientTimeout(100)) as http:
                kept: dict[str, Any] = {name: options.get(name) for name in ("gateway", "pins", "trust")}
                yield LiveConsole(port, approvals, clock, http, **kept)
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, 10)


@contextlib.asynccontextmanager
async def furnished(
    folder: Path, text: str = "", *, environ: Mapping[str, str] | None = None
) -> AsyncIterator[GatewayParts]:
    """What a whole gateway has for its console, on a store of its own; `text` is its configuration."""
    store = Store.open(f"sqlite:///{write_ready(folder / 'store.db')}", busy_seconds=60)
    switch = KillSwitch(store, environ=environ or {})
    try:
        log = await asyncio.to_thread(AuditLog, store, Keyring(folder / "keys", environ={}))
        await switch.start()
        yield GatewayParts(
            store=store,
            log=log,
            agents=SqlAgents(store),
            switch=switch,
            config=parse(text, environ={}, base=folder),
            path=folder / "callgate.toml",
        )
    finally:
        await switch.stop()
        await store.close()


@contextlib.asynccontextmanager
async def whole_console(folder: Path, text: str = "", **options: Any) -> AsyncIterator[LiveConsole]:
    """A console with everything that a gateway shows, and something in each place."""
    pins = pins_over(MemoryPins())
    await reviewing.furnish(pins)
    kept = MemoryTrust()
    await agent_sessions.furnish(kept)
    async with furnished(folder, text) as rooms:
        trust, shelf = agent_sessions.trust_over(kept), SqlApprovals(rooms.store)
        given: dict[str, Any] = {"gateway": rooms, "pins": pins, "trust": trust, "shelf": shelf}
        async with live_console(**(given | options)) as console:
            yield console


@contextlib.asynccontextmanager
async def console_over(kind: str, folder: Path) -> AsyncIterator[LiveConsole]:
    """A console over a shelf in memory, on SQLite or on PostgreSQL."""
    if kind == "memory":
        async with live_console() as console:
            yield console
        return
    with ready(kind, folder) as url:
        store = Store.open(url, busy_seconds=60)
        try:
            async with live_console(shelf=SqlApprovals(store)) as console:
                yield console
        finally:
            await store.close()
