"""Static keys for callers that cannot sign: `cgk_<id>_<secret>`, shown once, kept as a digest.

The secret has 256 bits of its own, so one SHA-256 is enough: there is nothing to guess that a slow hash would protect.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final

import msgspec

from callgate.agents.model import ApiKey
from callgate.agents.storage import AgentRepository
from callgate.errors import ConfigError, Reason, Refused
from callgate.gate import Caller

PREFIX: Final = "cgk_"
_FORM: Final = re.compile(r"cgk_(?P<id>[0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NOBODY: Final = bytes(32)
MAX_AGENT: Final = 256


def shown_id(text: str) -> str:
    """The part of a key that may be shown, wherever in a text a key stands; empty where there is none."""
    found = _FORM.search(text)
    return "" if found is None else found["id"]


class Made(msgspec.Struct, frozen=True):
    """A new key: `text` is what its holder gets, and nobody sees it again."""

    text: str
    key: ApiKey

    def __repr__(self) -> str:
        return f"Made({self.key.id})"


class ApiKeys:
    """Makes keys and tells whose a key is."""

    def __init__(
        self,
        shelf: AgentRepository,
        clock: Callable[[], int],
        *,
        token: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._repository = shelf
        self._clock = clock
        self._token = token

    async def create(self, agent: str, *, by: str = "", expires_at: int | None = None) -> Made:
        """A new key for an agent; only its digest is kept."""
        now = self._clock()
        if not agent or len(agent) > MAX_AGENT or not agent.isprintable():
            raise ConfigError("an agent's name has 1 to 256 printable characters", advice="Give it another name.")
        if expires_at is not None and expires_at <= now:
            raise ConfigError("the key would have expired already", advice="Give a time that is still to come.")
        made = make(agent, now, by=by, expires_at=expires_at, token=self._token)
        await self._repository.add_key(made.key)
        return made

    async def verify(self, text: str) -> Caller:
        """Whose key this is; raises Refused. Unknown and wrong keys get one answer, in the same time."""
        form = _FORM.fullmatch(text)
        if form is None:
            raise Refused(Reason.CREDENTIALS_INVALID, "this is no API key of a gateway")
        key = await self._repository.key(form["id"])
        fits = hmac.compare_digest(digest(text), key.digest if key is not None else _NOBODY)
        if key is None or not fits:
            raise Refused(Reason.CREDENTIALS_INVALID, "the API key is not known here")
        if key.revoked_at is not None:
            raise Refused(Reason.CREDENTIALS_INVALID, f"the API key {key.id} was revoked")
        if key.expires_at is not None and key.expires_at <= self._clock():
            raise Refused(Reason.CREDENTIALS_INVALID, f"the API key {key.id} has expired")
        return Caller(id=key.agent, source="api-key", key=key.id)


def make(
    agent: str,
    now: int,
    *,
    by: str = "",
    expires_at: int | None = None,
    token: Callable[[int], bytes] = secrets.token_bytes,
) -> Made:
    """A key and what is kept of it."""
    key_id = token(6).hex()
    secret = urlsafe_b64encode(token(32)).rstrip(b"=").decode()
    text = f"{PREFIX}{key_id}_{secret}"
    kept = ApiKey(key_id, agent, digest(text), created_at=now, created_by=by, expires_at=expires_at)
    return Made(text, kept)


def digest(text: str) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(text.encode()).digest()
