"""The stylesheet, the scripts and the icon: read once, served under a name that changes with their content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from callgate.errors import Reason, Refused

_FOLDER: Final = Path(__file__).resolve().parent / "static"
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Assets:
    """All static files; `path(name)` is the address of one.

    One digest stands for the whole set: scripts import each other by relative addresses, and a page never gets
    a script of one version and a stylesheet of another.
    """

    def __init__(self) -> None:
        self._files = {file.name: file.read_bytes() for file in sorted(_FOLDER.iterdir()) if file.suffix in _KINDS}
        digest = hashlib.sha256()
        for name, content in self._files.items():
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
        self._digest = digest.hexdigest()[:16]

    def path(self, name: str) -> str:
        if name not in self._files:
            raise KeyError(name)
        return f"/static/{self._digest}/{name}"

    def routes(self) -> list[Route]:
        return [Route("/static/{digest}/{name}", self._serve)]

    async def _serve(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = self._files.get(name)
        if content is None or request.path_params["digest"] != self._digest:
            raise Refused(Reason.PAGE_UNKNOWN)
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(content, media_type=_KINDS[Path(name).suffix], headers=headers)
