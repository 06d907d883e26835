"""A witness over HTTP: `POST /add-checkpoint` and `GET /HASH/checkpoint` (C2SP tlog-witness)."""

from __future__ import annotations

import asyncio
import re
import socket
import sqlite3
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

from callgate.audit.witness import MAX_REQUEST, Witness, WitnessAnswer
from callgate.config import Address
from callgate.errors import AuditError, ConfigError
from callgate.telemetry.logs import get
from callgate.transport.http.server import bounded, quiet

_CONNECTIONS: Final = 256
_SECONDS: Final = 10.0
_LATEST: Final = re.compile(r"/([0-9a-f]{64})/checkpoint\Z")

Message = MutableMapping[str, Any]


class WitnessApp:
    """The two things that a witness answers; everything is bounded in size and time."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope["method"], scope["path"], receive)
        except TimeoutError:
            answer = WitnessAnswer(408, "the request did not come in time\n")
        except (sqlite3.Error, AuditError, OSError) as error:
            # Nothing was cosigned, or nobody hears of it: the next request begins from what the file says.
            get("callgate.witness").error("nothing is cosigned", error=error)
            answer = WitnessAnswer(503, "try again later\n")
        head = [(b"content-type", answer.kind.encode()), (b"x-content-type-options", b"nosniff")]
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": answer.body.encode()})

    async def _answer(self, method: str, path: str, receive: Callable[[], Awaitable[Message]]) -> WitnessAnswer:
        if path == "/add-checkpoint":
            if method != "POST":
                return WitnessAnswer(405, "use POST\n")
            async with asyncio.timeout(_SECONDS):
                body = await _body(receive)
            if body is None:
                return WitnessAnswer(413, "the request is too large\n")
            return await asyncio.to_thread(self._witness.add_checkpoint, body)
        found = _LATEST.match(path)
        if found is None or method not in ("GET", "HEAD"):
            return WitnessAnswer(404, "nothing is here\n")
        return await asyncio.to_thread(self._witness.latest, found[1])


async def _body(receive: Callable[[], Awaitable[Message]]) -> bytes | None:
    """The body, None where it is too large."""
    found = bytearray()
    while True:
        message = await receive()
        found += message.get("body", b"")
        if len(found) > MAX_REQUEST:
            return None
        if not message.get("more_body"):
            return bytes(found)


async def serve_witness(witness: Witness, address: Address, on_listening: Callable[[str], None]) -> None:
    """Run until SIGINT or SIGTERM."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {address}: {error.strerror}", advice="Choose another address with --listen."
            ) from None
        listener.setblocking(False)  # noqa: FBT003
        server = uvicorn.Server(quiet(WitnessApp(witness), bounded(_CONNECTIONS, _SECONDS), timeout_keep_alive=75))
        listener.listen(128)
        host, port = listener.getsockname()[:2]
        on_listening(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        await server.serve(sockets=[listener])
