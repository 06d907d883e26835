"""Addresses of the console for people: made, tried, and opened in a browser."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from callgate.config import Config

_PORTS: Final = {"http": 80, "https": 443}
_CONNECT_SECONDS: Final = 1.0


def console_url(config: Config) -> str | None:
    """Where browsers find the console; None where the gateway takes any free port."""
    if config.approval.url is not None:
        return config.approval.url.rstrip("/")
    port = config.gateway.address.port
    return f"http://localhost:{port}" if port else None


def enrolment_link(url: str, ticket: str) -> str:
    # Behind the #, where browsers keep it to themselves: no log of a server or a proxy sees the ticket.
    return f"{url}/enrol#{ticket}"


def approval_link(url: str, request: str) -> str:
    return f"{url}/approve/{request}"


def is_listening(url: str) -> bool:
    """Whether somebody takes connections there."""
    parts = urlsplit(url)
    address = (parts.hostname or "localhost", parts.port or _PORTS.get(parts.scheme, 443))
    try:
        with socket.create_connection(address, timeout=_CONNECT_SECONDS):
            return True
    except OSError:
        return False


def how_to_serve(config: Config, path: Path | None, store: str | None, url: str | None) -> str:
    """What is left to do before a link of the console opens; empty if nothing is."""
    if not config.has_console:
        return "The console is off here: write `enabled = true` under [approval] in callgate.toml first."
    if url is None:
        return "The gateway takes any free port here: put the one that it names at its start in the place of PORT."
    if is_listening(url):
        return ""
    # An address of another kind may hold a password, which is not repeated.
    named = store is None or store.startswith("sqlite:")
    where = "" if named else " on this store, which CALLGATE_STORE_URL has to name,"
    return f"Nothing answers at {url} yet: start the gateway{where} with `{serve_command(path, store)}`."


def serve_command(path: Path | None, store: str | None) -> str:
    """The command that starts the gateway of a configuration; its store is named by the environment."""
    words = shlex.join(["callgate", "serve", *(["-c", str(path)] if path is not None else [])])
    if store is not None and store.startswith("sqlite:"):
        return f"CALLGATE_STORE_URL={shlex.quote(store)} {words}"
    return words


def has_display() -> bool:
    """Whether a browser would open before whoever reads this terminal."""
    if not sys.stdout.isatty() or "SSH_CONNECTION" in os.environ:
        return False
    return os.name == "nt" or sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def open_page(url: str) -> None:
    """Show a page in the user's browser; what that prints stays out of this terminal."""
    with suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "webbrowser", "-t", url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
