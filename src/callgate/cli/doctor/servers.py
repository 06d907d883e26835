"""`callgate doctor` on the servers behind the gateway: each is started or reached, greeted, and asked for its tools."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from callgate.cli.doctor.findings import Finding, Setup, ok
from callgate.cli.doctor.setup import obstacles
from callgate.cli.printing import count, plain
from callgate.config import ServerSection
from callgate.config.secret import MASK
from callgate.errors import Refused, place
from callgate.jsonrpc import Message
from callgate.jsonrpc.reading import decode_leniently
from callgate.pipeline.context import own_request
from callgate.protocol import CAPABILITIES_META, CLIENT_INFO_META, VERSION_META
from callgate.telemetry import redact

if TYPE_CHECKING:
    from callgate.transport.upstream.http import HttpClient
    from callgate.transport.upstream.process import ServerProcess

_AT_ONCE: Final = 8
_MORE_SECONDS: Final = 10.0
_MOST_SECONDS: Final = 60.0
_SAID: Final = 200
_SECRET_CHARS: Final = 4
MODERN: Final = "2026-07-28"
HANDSHAKE: Final = "2025-11-25"
_BYTES: Final = 8 * 2**20


def servers(setup: Setup) -> Iterator[Finding]:
    """Does each server start and answer?"""
    chosen = {name: server for name, server in setup.settings.servers.items() if not setup.only or name in setup.only}
    for name in [name for name, server in chosen.items() if list(obstacles(name, server))]:
        yield from obstacles(name, chosen.pop(name))
    if not chosen:
        return
    if not setup.start:
        yield Finding("note", f"{count(len(chosen), 'server')} not started, as --no-start says.")
        return
    with capturing_stderr() as heard:
        found = asyncio.run(_all(setup, chosen, heard))
    yield from found


async def _all(setup: Setup, chosen: dict[str, ServerSection], heard: dict[str, str]) -> list[Finding]:
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str, server: ServerSection) -> Finding:
        async with room:
            return await _check_server(setup, name, server, heard)

    return list(await asyncio.gather(*(one(name, server) for name, server in chosen.items())))


async def _check_server(setup: Setup, name: str, server: ServerSection, heard: dict[str, str]) -> Finding:
    began = time.monotonic()
    seconds = min(_MOST_SECONDS, server.connect_seconds + _MORE_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            said = await _greet(name, server)
    except TimeoutError:
        text = f"{name} did not answer within {seconds:.0f} seconds"
        advice = f"If it needs longer to start, raise `connect_seconds` under [servers.{name}]. Then look again:"
    except (NoAnswer, Refused) as error:
        text = f"{name}: {str(error).rstrip('.')}"
        first = error.advice if isinstance(error, Refused) and server.url is not None else "Put this right."
        advice = f"{first} Then look again:"
    except Exception as error:  # noqa: BLE001 - one server that breaks us must not hide what is wrong with the others
        text, advice = f"{name} could not be asked ({place(error)})", "Look again:"
    else:
        return ok(f"{name} answers: {said}, after {time.monotonic() - began:.1f} s.")
    last = without_secrets(heard.get(name, ""), server)
    text = f"{text}; its last words: {last}" if last else f"{text}."
    return Finding("problem", without_secrets(text, server), advice, (setup.command("doctor", "--server", name),))


async def _greet(name: str, server: ServerSection) -> str:
    """Who it says it is and how many tools it has."""
    peer = await connect(name, server)
    try:
        modern, greeting = await open_session(peer)
        reply, _ = await peer.ask(session_request("tools/list", {}, modern=modern), modern=modern)
        result: Any = reply.get("result")
        tools = result.get("tools") if isinstance(result, dict) else None
        about = _about(greeting)
        if isinstance(tools, list):
            more = " on the first page" if result.get("nextCursor") else ""
            return f"{about}, {count(len(tools), 'tool')}{more}"
        return f"{about}, no tools"
    finally:
        await peer.close()


async def open_session(peer: StdioPeer | HttpPeer) -> tuple[bool, dict[str, Any]]:
    """The greeting, in the era that the server speaks: older ones know the first way only, the newest the second."""
    hello = {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "callgate-doctor", "version": "1"},
    }
    reply, _ = await peer.ask(session_request("initialize", hello, modern=False), modern=False)
    greeting = reply.get("result")
    if isinstance(greeting, dict):
        await peer.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return False, greeting
    found, _ = await peer.ask(session_request("server/discover", {}, modern=True), modern=True)
    if isinstance(discovered := found.get("result"), dict):
        return True, discovered
    error = reply.get("error")
    said = error.get("message") if isinstance(error, dict) else None
    raise NoAnswer(f"it refuses to be greeted: {plain(str(said), _SAID)}" if said else "it does not answer a greeting")


def session_request(method: str, params: dict[str, Any], *, modern: bool) -> Message:
    about = {"name": "callgate-doctor", "version": "1"}
    meta = {VERSION_META: MODERN, CAPABILITIES_META: {}, CLIENT_INFO_META: about} if modern else {}
    return own_request(method, params, meta)


def server_info(greeting: dict[str, Any]) -> dict[str, Any]:
    """What a server says of itself, in either era."""
    meta = greeting.get("_meta")
    info = greeting.get("serverInfo") or (
        meta.get("io.modelcontextprotocol/serverInfo") if isinstance(meta, dict) else None
    )
    return info if isinstance(info, dict) else {}


def _about(greeting: dict[str, Any]) -> str:
    info = server_info(greeting)
    words = [plain(str(info.get(key)), 60) for key in ("name", "version") if info.get(key)]
    return " ".join(words) or "it does not say who it is"


@contextmanager
def capturing_stderr(lines: int = 1) -> Iterator[dict[str, str]]:
    """The last line, or lines, that each server writes on stderr, which otherwise goes to the gateway's log."""
    heard: dict[str, str] = {}
    last: dict[str, list[str]] = {}

    class _Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = getattr(record, "fields", {})
            if line := str(said.get("stderr", "")).strip():
                name = str(said.get("server"))
                last[name] = [*last.get(name, []), line][-lines:]
                heard[name] = " ".join(last[name])

    log, handler = logging.getLogger("callgate.process"), _Handler()
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield heard
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before


def without_secrets(text: str, server: ServerSection) -> str:
    """Nothing of what the configuration keeps secret, even if the server repeats it."""
    held = [*server.env.values(), *server.headers.values(), *server.command, *([server.url] if server.url else [])]
    for secret in held:
        value = secret.reveal()
        if len(value) >= _SECRET_CHARS and str(secret) != value:
            text = text.replace(value, MASK)
    return redact.text(plain(text, 2 * _SAID))


class NoAnswer(Exception):
    """The server did not answer as MCP wants it; the text says how, without secrets."""


async def connect(name: str, server: ServerSection) -> StdioPeer | HttpPeer:
    from callgate.transport.upstream.http import HttpClient
    from callgate.transport.upstream.process import ServerProcess

    if server.url is not None:
        return HttpPeer(HttpClient(server, _BYTES), server)
    process = await ServerProcess.start(name, server.argv, server.environment(os.environ), server.cwd, _BYTES)
    return StdioPeer(process)


class StdioPeer:
    """A process and the one answer that is waited for."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._waiting: dict[Any, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        process.listen(self._heard, lambda _large: None)

    async def ask(self, message: Message, *, modern: bool) -> tuple[dict[str, Any], bytes]:
        """The reply, decoded and as it came."""
        del modern
        answer: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[message.id] = answer
        await self.tell(message.raw)
        ended: asyncio.Future[Any] = asyncio.ensure_future(self._process.ended.wait())
        try:
            await asyncio.wait([answer, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if not answer.done():
            # What it said on its way out comes on another pipe.
            await asyncio.sleep(0.1)
            raise NoAnswer("its command ended before it answered")
        return answer.result()

    async def tell(self, line: bytes) -> None:
        await self._process.send(line + b"\n")

    async def close(self) -> None:
        await self._process.stop(0.5)

    async def _heard(self, line: bytes) -> None:
        message = decode_leniently(line)
        if not isinstance(message, dict) or "method" in message:
            return
        rpc_id = message.get("id")
        answer = self._waiting.get(rpc_id) if isinstance(rpc_id, str) else None
        if answer is not None and not answer.done():
            answer.set_result((message, line))


class HttpPeer:
    """An endpoint of Streamable HTTP, spoken to as the gateway speaks to it."""

    def __init__(self, client: HttpClient, server: ServerSection) -> None:
        self._client = client
        self._server = server
        self._session: bytes | None = None

    async def ask(self, message: Message, *, modern: bool) -> tuple[dict[str, Any], bytes]:
        """The reply, decoded and as it came."""
        body, status = await self._post(message, modern=modern)
        reply = decode_leniently(body)
        if isinstance(reply, dict) and ("result" in reply or "error" in reply):
            return reply, body
        if status in (401, 403):
            whose = "the client's own credentials" if self._server.forward_authorization else "other credentials"
            raise NoAnswer(f"it wants {whose} (HTTP status {status}); see `headers` in its table")
        if status >= 400 and message.method == "initialize":
            return {}, b""  # it may speak only the newest version, which has no such method
        raise NoAnswer(f"it answers with HTTP status {status} and nothing that is MCP; check its `url`")

    async def _post(self, message: Message, *, modern: bool) -> tuple[bytes, int]:
        headers = self._headers(MODERN if modern else HANDSHAKE)
        if modern:
            headers.append((b"mcp-method", str(message.method).encode()))
        answer = await self._client.open(b"POST", message.raw, headers)
        self._session = answer.fields.get(b"mcp-session-id", self._session)
        try:
            if not answer.is_stream:
                return await self._client.read(answer), answer.status
            async for event in self._client.events(answer):
                if event.data is not None and str(message.id).encode() in event.data:
                    return event.data, answer.status
            return b"", answer.status
        finally:
            answer.close()

    def _headers(self, version: str) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
            (b"mcp-protocol-version", version.encode()),
            *self._client.own_headers,
        ]
        return headers if self._session is None else [*headers, (b"mcp-session-id", self._session)]

    async def tell(self, line: bytes) -> None:
        answer = await self._client.open(b"POST", line, self._headers(HANDSHAKE))
        answer.close()

    async def close(self) -> None:
        try:
            if self._session is not None:
                answer = await self._client.open(b"DELETE", None, self._headers(HANDSHAKE))
                answer.close()
        finally:
            self._client.close()
            await asyncio.sleep(0)  # a connection is closed in the loop's next round
