"""An agent's key directory over HTTP, signed anew for each answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from callgate.agents.components import SignedResponse
from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN, Signed
from callgate.cli.common import say
from callgate.errors import ConfigError

if TYPE_CHECKING:
    from callgate.sdk.agent_keys import AgentKey


class Published:
    """A directory as it is published: the document, and the headers in which its keys stand for it.

    It is signed for `origin` and for no other host, whatever a request calls us: otherwise anybody could point a name
    of theirs here and have our keys vouch for it.
    """

    def __init__(self, keys: Sequence[AgentKey], origin: str | None, expires_in: int) -> None:
        self.document = json.dumps({"keys": [dict(key.jwk) for key in keys]}, indent=2).encode() + b"\n"
        self._keys = keys
        self._expires_in = expires_in
        self._authority: str | None = None
        if origin is not None:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
                raise ConfigError(f"{origin!r} is no origin", advice="Write it as https://agent.example.")
            self._scheme = parts.scheme
            self._authority = parts.netloc.lower()

    def headers(self) -> dict[str, str]:
        """The headers of an answer, signed now."""
        made: dict[str, str] = {"Content-Type": DIRECTORY_TYPE, "Cache-Control": "max-age=300"}
        if self._authority is None:
            return made
        request = Signed("GET", self._scheme, self._authority, WELL_KNOWN, None, ())
        signed: dict[str, list[str]] = {}
        for at, key in enumerate(self._keys, 1):
            answer = SignedResponse(200, (), request, self.document)
            for name, value in key.signer(label=f"sig{at}").sign_answer(answer, expires_in=self._expires_in).items():
                signed.setdefault(name, []).append(value)
        return made | {
            name: values[0] if name == "Content-Digest" else ", ".join(values) for name, values in signed.items()
        }


def serve_directory(published: Published, listen: str, certificate: Path | None) -> None:
    """Serve it until Ctrl-C."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answer(_: Request) -> Response:
        return Response(published.document, headers=published.headers())

    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{listen!r} is no address", advice="Write it as 127.0.0.1:8421.")
    app = Starlette(routes=[Route(WELL_KNOWN, answer)])
    options: dict[str, Any] = {} if certificate is None else {"ssl_certfile": str(certificate)}
    settings = uvicorn.Config(
        app, host=host.strip("[]") or "127.0.0.1", port=int(port), log_level="warning", lifespan="off", **options
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            for server in self.servers:
                for one in server.sockets:
                    found = one.getsockname()
                    scheme = "http" if certificate is None else "https"
                    shown = f"[{found[0]}]" if ":" in found[0] else found[0]
                    say(f"Serving {scheme}://{shown}:{found[1]}{WELL_KNOWN}. Ctrl-C stops it.")

    try:
        Server(settings).run()
    except KeyboardInterrupt:
        say("Stopped.")
