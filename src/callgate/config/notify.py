"""Who is told when something waits for a person: `[notify]`."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterator
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from callgate.config import rules
from callgate.config.rules import Clash, KeyRule, Section
from callgate.config.secret import Secret, mask_url

# What Standard Webhooks writes in front of a key in base64.
PREFIX: Final = "whsec_"
_KEY_BYTES: Final = 24


def webhook_key(text: str) -> bytes:
    """The bytes that a secret stands for; ValueError where it is none, without repeating it."""
    if not text.startswith(PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f'after "{PREFIX}" a key in base64 is expected') from None


def _check_secret(text: str) -> str | None:
    try:
        key = webhook_key(text)
    except ValueError as error:
        return str(error)
    if len(key) < _KEY_BYTES:
        return f"a key of fewer than {_KEY_BYTES} bytes can be guessed; make one with `openssl rand -hex 32`"
    return None


class Notify(Section, frozen=True):
    """Telling people that something waits for them: a signed message to an address of yours."""

    webhook: Annotated[Secret | None, KeyRule(check=rules.http_url, expand=True, shown=mask_url)] = None
    """Posts JSON to this address when a call starts to wait for a person, and on what else `events` names. https, or
    http to this machine. `${NAME}` is expanded."""
    secret: Annotated[Secret | None, KeyRule(check=_check_secret, expand=True)] = None
    """Key that the messages are signed with (HMAC-SHA256, as Standard Webhooks has it): `whsec_` and base64, or at
    least 24 characters, such as `openssl rand -hex 32` makes. `${NAME}` is expanded."""
    events: tuple[Literal["approval_waiting", "tool_pending", "result_held", "kill_switch"], ...] = (
        "approval_waiting",
    )
    """What to tell of: `approval_waiting`: a call waits for a person. `tool_pending`: tools are new or changed, and
    wait for review. `result_held`: a result is kept from the agent. `kill_switch`: it was turned."""
    arguments: bool = False
    """Send the arguments of calls that wait, too. They may hold secrets, and whoever reads the message sees them."""
    plain_http: bool = False
    """Allow `webhook` to be http on another machine. Everybody on the way can read what is sent."""

    def clashes(self) -> Iterator[Clash]:
        if self.webhook is not None and self.secret is None:
            text = (
                "messages that anybody could have sent are worth nothing: add a secret, "
                'such as secret = "${CALLGATE_WEBHOOK_SECRET}"'
            )
            yield Clash("webhook", text, ("webhook", "secret"))
        if self.webhook is not None and not self.plain_http and _is_exposed(self.webhook.reveal()):
            text = "this would send what waits in the clear; write https, or set plain_http = true"
            yield Clash("webhook", text, ("webhook", "plain_http"))


def _is_exposed(url: str) -> bool:
    """Whether what is sent there leaves this machine in the clear."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if parts.scheme == "https" or host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
