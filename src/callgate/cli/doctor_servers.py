"""`callgate doctor` on the servers behind the gateway: each is started or reached, greeted, and asked for its tools."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from callgate.cli.doctor_config import obstacles
from callgate.cli.doctor_findings import Finding, Setup, count, ok
from callgate.cli.doctor_peers import HANDSHAKE, MODERN, Peer, Silent, connect
from callgate.cli.people import plain

if TYPE_CHECKING:
    from callgate.config import Server
    from callgate.jsonrpc import Message

_AT_ONCE: Final = 8
_MORE_SECONDS: Final = 10.0
_MOST_SECONDS: Final = 60.0
_SAID: Final = 200
_SECRET_CHARS: Final = 4


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
    with hearing() as heard:
        found = asyncio.run(_all(setup, chosen, heard))
    yield from found


async def _all(setup: Setup, chosen: dict[str, Server], heard: dict[str, str]) -> list[Finding]:
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str, server: Server) -> Finding:
        async with room:
            return await _look(setup, name, server, heard)

    return list(await asyncio.gather(*(one(name, server) for name, server in chosen.items())))


async def _look(setup: Setup, name: str, server: Server, heard: dict[str, str]) -> Finding:
    from callgate.errors import Refused, place

    began = time.monotonic()
    seconds = min(_MOST_SECONDS, server.connect_seconds + _MORE_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            said = await _greet(name, server)
    except TimeoutError:
        text = f"{name} did not answer within {seconds:.0f} seconds"
        advice = f"If it needs longer to start, raise `connect_seconds` under [servers.{name}]. Then look again:"
    except (Silent, Refused) as error:
        text = f"{name}: {str(error).rstrip('.')}"
        told = error.advice if isinstance(error, Refused) and server.url is not None else "Put this right."
        advice = f"{told} Then look again:"
    except Exception as error:  # noqa: BLE001 - one server that breaks us must not hide what is wrong with the others
        text, advice = f"{name} could not be asked ({place(error)})", "Look again:"
    else:
        return ok(f"{name} answers: {said}, after {time.monotonic() - began:.1f} s.")
    last = without_secrets(heard.get(name, ""), server)
    text = f"{text}; its last words: {last}" if last else f"{text}."
    return Finding("problem", without_secrets(text, server), advice, (setup.command("doctor", "--server", name),))


async def _greet(name: str, server: Server) -> str:
    """Who it says it is and how many tools it has."""
    peer = await connect(name, server)
    try:
        modern, greeting = await open_session(peer)
        reply = await peer.ask(session_request("tools/list", {}, modern=modern), modern=modern)
        result = _result(reply)
        tools = result.get("tools") if isinstance(result, dict) else None
        about = _about(greeting)
        if isinstance(tools, list):
            more = " on the first page" if result.get("nextCursor") else ""
            return f"{about}, {count(len(tools), 'tool')}{more}"
        return f"{about}, no tools"
    finally:
        await peer.close()


async def open_session(peer: Peer) -> tuple[bool, dict[str, Any]]:
    """The greeting, in the era that the server speaks: older ones know the first way only, the newest the second."""
    hello = {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "callgate-doctor", "version": "1"},
    }
    reply = await peer.ask(session_request("initialize", hello, modern=False), modern=False)
    greeting = _result(reply)
    if isinstance(greeting, dict):
        await peer.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return False, greeting
    found = await peer.ask(session_request("server/discover", {}, modern=True), modern=True)
    if isinstance(discovered := _result(found), dict):
        return True, discovered
    error = reply.get("error")
    said = error.get("message") if isinstance(error, dict) else None
    raise Silent(f"it refuses to be greeted: {plain(str(said), _SAID)}" if said else "it does not answer a greeting")


def session_request(method: str, params: dict[str, Any], *, modern: bool) -> Message:
    from callgate.pipeline.context import own_request
    from callgate.protocol import CAPABILITIES_META, CLIENT_INFO_META, VERSION_META

    about = {"name": "callgate-doctor", "version": "1"}
    meta = {VERSION_META: MODERN, CAPABILITIES_META: {}, CLIENT_INFO_META: about} if modern else {}
    return own_request(method, params, meta)


def _result(reply: dict[str, Any]) -> Any:
    return reply.get("result")


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
def hearing(lines: int = 1) -> Iterator[dict[str, str]]:
    """The last line, or lines, that each server writes on stderr, which otherwise goes to the gateway's log."""
    heard: dict[str, str] = {}
    last: dict[str, list[str]] = {}

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = getattr(record, "fields", {})
            if line := str(said.get("stderr", "")).strip():
                name = str(said.get("server"))
                last[name] = [*last.get(name, []), line][-lines:]
                heard[name] = " ".join(last[name])

    log, ear = logging.getLogger("callgate.process"), Ear()
    before = log.level, log.propagate
    log.addHandler(ear)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield heard
    finally:
        log.removeHandler(ear)
        log.level, log.propagate = before


def without_secrets(text: str, server: Server) -> str:
    """Nothing of what the configuration keeps secret, even if the server repeats it."""
    from callgate.config.secret import MASK
    from callgate.telemetry import redact

    held = [*server.env.values(), *server.headers.values(), *server.command, *([server.url] if server.url else [])]
    for secret in held:
        value = secret.reveal()
        if len(value) >= _SECRET_CHARS and str(secret) != value:
            text = text.replace(value, MASK)
    return redact.text(plain(text, 2 * _SAID))
