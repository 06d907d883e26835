"""What a request has to show before the console listens to it, and the headers of every answer."""

from __future__ import annotations

import hmac
from typing import Final

from starlette.requests import Request

from callgate.approval.model import ConsoleSession
from callgate.console.address import Address
from callgate.errors import Reason, Refused

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


def check_host(request: Request, address: Address) -> None:
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


def check_change(request: Request, address: Address) -> None:
    """Anything that changes something comes from a script of one of our own pages.

    A form of another site can send neither this content type nor our Origin; a script of another site would need
    permission (CORS) that is never given.
    """
    if request.headers.get("origin") != address.origin:
        raise Refused(Reason.FORGED_REQUEST, "The request does not say that it comes from a page of this console.")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refused(Reason.FORGED_REQUEST, "The browser says that another site sent this request.")
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
