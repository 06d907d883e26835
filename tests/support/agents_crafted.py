"""Signed requests to a real gateway, crafted part by part: what no signer of ours would send."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from callgate.agents.keys import public_jwk
from callgate.agents.model import Signed
from support import signed_requests
from support.agents_gate import PLAIN, Site
from support.signed_requests import private

_COUNT = itertools.count()


def nonce() -> str:
    """One that nobody used before."""
    return f"{os.getpid()}-{time.time_ns()}-{next(_COUNT)}"


def jwk(kind: str = "ed25519", which: int = 0, **more: str) -> dict[str, str]:
    """The public half of a key that `crafted` signs with."""
    return {**public_jwk(private(kind, which).public_key()), **more}


def crafted(
    running: Site,
    body: bytes = PLAIN,
    covered: str = '"@method" "@authority" "@path"',
    *,
    headers: Mapping[str, str] | None = None,
    server: str = "one",
    ago: int = 0,
    lasts: int = 60,
    **how: Any,
) -> dict[str, str]:
    """The headers of a request that was signed `ago` seconds ago; `how` is what `signed_requests.sign` takes."""
    url = urlsplit(running.gateway.url(server))
    raw = tuple((name.lower().encode(), value.encode()) for name, value in (headers or {}).items())
    plain = Signed("POST", url.scheme, url.netloc, url.path, None, raw, body)
    created = int(time.time()) - ago
    parts = {"created": created, "expires": created + lasts, "nonce": nonce(), **how}
    signed = signed_requests.sign(plain, covered, **parts)
    return {**(headers or {}), **{name.decode(): value.decode() for name, value in signed.headers[len(raw) :]}}
