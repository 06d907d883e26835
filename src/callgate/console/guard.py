"""What a request has to show before the console listens to it: the right origin, a token, not too many tries."""

from __future__ import annotations

import hmac
import math
from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from callgate.approval.model import ConsoleSession
from callgate.errors import ConfigError, Reason, Refused

CSRF: Final = "x-callgate-csrf"

# Everything a page could ask the browser for and never does; passkeys are what is left.
_DENIED: Final = (
    "accelerometer",
    "autoplay",
    "camera",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "geolocation",
    "gyroscope",
    "hid",
    "idle-detection",
    "local-fonts",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "picture-in-picture",
    "screen-wake-lock",
    "serial",
    "usb",
    "xr-spatial-tracking",
)
_ALLOWED: Final = ("clipboard-write", "publickey-credentials-create", "publickey-credentials-get")

_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: Final = (
    ("content-security-policy", _CSP),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        ", ".join([f"{name}=()" for name in _DENIED] + [f"{name}=(self)" for name in _ALLOWED]),
    ),
)

_SINGLE: Final = ("host", "origin", "content-type", "content-length", "sec-fetch-site", CSRF)
_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
WINDOW: Final = 60.0


def check_host(request: Request, address: ConsoleOrigin) -> None:
    """A page of another name that resolves to us (DNS rebinding) would read what this one shows."""
    for name in _SINGLE:
        if len(request.headers.getlist(name)) > 1:
            raise Refused(Reason.INVALID_REQUEST, f"the header {name} appears more than once", advice="Send it once.")
    if not address.is_ours(request.headers.get("host", "")):
        raise Refused(
            Reason.HOST_NOT_ALLOWED,
            "This console does not answer under the name in the Host header.",
            advice=f"Open {address.origin}; a proxy in front of it has to pass the Host header on.",
        )


def check_change(request: Request, address: ConsoleOrigin) -> None:
    """Anything that changes something comes from a script of one of our own pages.

    A form of another site can send neither this content type nor our Origin; a script of another site would need
    permission (CORS) that is never given.
    """
    if request.headers.get("origin") != address.origin:
        raise Refused(Reason.FORGED_REQUEST, "The request does not say that it comes from a page of this console.")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refused(Reason.FORGED_REQUEST, "The browser says that another site sent this request.")
    check_json(request)


def check_program(request: Request, address: ConsoleOrigin) -> None:
    """What a program sends says nothing of an origin; a browser says it of every page, and only ours may ask."""
    if request.headers.get("origin", address.origin) != address.origin:
        raise Refused(Reason.FORGED_REQUEST, "The browser says that another site sent this request.")
    check_json(request)


def check_json(request: Request) -> None:
    """A page of another site cannot send this content type without permission."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(Reason.UNSUPPORTED_MEDIA_TYPE)


def check_token(request: Request, session: ConsoleSession) -> None:
    """The session's token, which only pages that this session was shown can know."""
    given = request.headers.get(CSRF, "")
    if not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise Refused(
            Reason.FORGED_REQUEST,
            "The request does not carry this session's token.",
            advice="Load the page again, then use its buttons.",
        )


class ConsoleOrigin(msgspec.Struct, frozen=True, dict=True):
    """The console's own origin, such as `http://localhost:8700`; `secure` says that browsers reach it by https."""

    origin: str
    secure: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.origin)
        if parts.scheme not in _PORTS or not parts.hostname or f"{parts.scheme}://{parts.netloc}" != self.origin:
            raise ConfigError(
                f"{self.origin!r} is not an origin", advice="Give scheme, host and port only: http://localhost:8700."
            )

    @cached_property
    def port(self) -> int:
        parts = urlsplit(self.origin)
        return parts.port or _PORTS[parts.scheme]

    @cached_property
    def _hosts(self) -> frozenset[str]:
        netloc = urlsplit(self.origin).netloc.lower()
        name = _name(netloc)
        usual = self.port == _PORTS[urlsplit(self.origin).scheme]
        return frozenset({netloc, f"{name}:{self.port}", *([name] if usual else [])})

    @cached_property
    def cookie(self) -> str:
        """Cookies do not know ports (RFC 6265 §8.5), so two gateways on one machine need two names."""
        return "__Host-callgate_session" if self.secure else f"callgate_session_{self.port}"

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this console."""
        return host.strip().lower() in self._hosts

    @staticmethod
    def is_this_machine(host: str) -> bool:
        """Whether a Host header names the machine itself: a harmless mistake, where others are an attack."""
        return _name(host.strip().lower()) in _LOOPBACK


def _name(netloc: str) -> str:
    name, colon, port = netloc.rpartition(":")
    return name if colon and port.isdigit() else netloc


class AttemptLimit:
    """At most `each` tries a minute with one name, and `in_all` with any from one address.

    Of all addresses together it takes twice as many, and from one at most half of those that others leave: a flood from
    one keeps nobody out elsewhere.
    Kept in memory, by process: it slows guessing down, while what is guessed is long enough to stand by itself.
    """

    def __init__(self, each: int, in_all: int, clock: Callable[[], float]) -> None:
        self._each = each
        self._in_all = in_all
        self._clock = clock
        self._tries: deque[tuple[float, str, str]] = deque()

    def step(self, name: str = "", address: str = "") -> None:
        """Count one try, or refuse it; without a name only all together count. `in_all` bounds what is remembered too.

        What is refused is not counted: trying on does not make the wait longer.
        """
        now = self._clock()
        while self._tries and self._tries[0][0] <= now - WINDOW:
            self._tries.popleft()
        same = [at for at, tried, _ in self._tries if tried == name] if name else []
        own = [at for at, _, by in self._tries if by == address]
        left = 2 * self._in_all - (len(self._tries) - len(own))
        if len(own) >= (left + 1) // 2:
            raise _too_many_attempts((own or [self._tries[0][0]])[0] + WINDOW - now)
        if len(same) >= self._each:
            raise _too_many_attempts(same[0] + WINDOW - now)
        self._tries.append((now, name, address))


def _too_many_attempts(seconds: float) -> Refused:
    return Refused(
        Reason.APPROVAL_LIMIT,
        "This was tried too often.",
        advice="Wait a minute, then try once more.",
        data={"retryAfter": max(1, math.ceil(seconds))},
    )
