"""ContextForge in front of the echo server, which is registered over its REST API, on a database of its own."""

from __future__ import annotations

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from environments import CONTEXTFORGE, Say, ensure
from processes import Running, Unavailable, free_port, spawn, wait_ok


def _settings(folder: Path) -> dict[str, str]:
    return {
        "RATE_LIMITING_ENABLED": "false",
        "AUTH_REQUIRED": "false",
        # Registering a server is an administrator's act, and there is nobody to log in as.
        "ALLOW_UNAUTHENTICATED_ADMIN": "true",
        "SSRF_ALLOW_LOCALHOST": "true",
        "DATABASE_URL": f"sqlite:///{(folder / 'contextforge.db').as_posix()}",
        "CACHE_TYPE": "memory",
        "LOG_LEVEL": "ERROR",
        # It refuses to start with secrets that look weak.
        "JWT_SECRET_KEY": secrets.token_urlsafe(48),
        "AUTH_ENCRYPTION_SECRET": secrets.token_urlsafe(48),
        "CSRF_SECRET_KEY": secrets.token_urlsafe(48),
    }


def serve(stack: ExitStack, folder: Path, upstream: str, say: Say) -> Running:
    ensure(CONTEXTFORGE, say)
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    log = folder / "contextforge.log"
    # Its console script, because `python -m mcpgateway` takes no arguments.
    command = [str(CONTEXTFORGE.program("mcpgateway")), "--host", "127.0.0.1", "--port", str(port)]
    process = spawn(stack, [*command, "--no-access-log"], log, env=_settings(folder), cwd=folder)
    base = f"http://127.0.0.1:{port}"
    wait_ok(process, f"{base}/health", log, seconds=60)
    gateway = {"name": "echo", "url": upstream, "transport": "STREAMABLEHTTP", "visibility": "public"}
    _call(f"{base}/gateways", gateway)
    tools = [tool for tool in _call(f"{base}/tools") if tool["originalName"] == "echo"]
    if not tools:
        raise Unavailable("registered the echo server but lists no echo tool")
    server = {"server": {"name": "bench", "associated_tools": [tools[0]["id"]]}, "visibility": "public"}
    made = _call(f"{base}/servers", server)
    return Running(url=f"{base}/servers/{made['id']}/mcp", pid=process.pid, tool=tools[0]["name"])


def _call(url: str, body: Mapping[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)
    except (urllib.error.URLError, TimeoutError) as error:
        raise Unavailable(f"{url.rpartition('/')[2]}: {error}") from None
