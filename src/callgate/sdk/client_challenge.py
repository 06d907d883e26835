"""Reading what a server answers to the methods of SEP-2672 §4.4, which may be anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from callgate.approval.action import from_base64url

# More than any arguments a server takes would fill, and less than would drown the person's screen and memory.
DISPLAY_CHARS: Final = 4_000_000
CREDENTIALS: Final = 100


class _Descriptor(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=1366)]
    type: str


class _RequestOptions(msgspec.Struct, frozen=True, rename="camel"):
    challenge: Annotated[str, Meta(min_length=22, max_length=1366)]
    rp_id: Annotated[str, Meta(max_length=253)] | None = None
    allow_credentials: Annotated[list[_Descriptor], Meta(max_length=CREDENTIALS)] = []
    timeout: Annotated[float, Meta(gt=0)] | None = None


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    challenge_id: Annotated[str, Meta(min_length=1, max_length=1024)]
    display_text: Annotated[str, Meta(min_length=1, max_length=DISPLAY_CHARS)]
    expires_at: Annotated[str, Meta(max_length=64)]
    request_options: dict[str, Any]


class _User(msgspec.Struct, frozen=True, rename="camel"):
    id: Annotated[str, Meta(min_length=1, max_length=88)]
    name: Annotated[str, Meta(max_length=1024)]


class _CreationOptions(msgspec.Struct, frozen=True, rename="camel"):
    rp: dict[str, Any]
    user: _User
    challenge: Annotated[str, Meta(min_length=22, max_length=1366)]
    pub_key_cred_params: Annotated[list[dict[str, Any]], Meta(max_length=CREDENTIALS)]
    exclude_credentials: Annotated[list[_Descriptor], Meta(max_length=CREDENTIALS)] = []
    timeout: Annotated[float, Meta(gt=0)] | None = None


class _Begun(msgspec.Struct, frozen=True):
    options: dict[str, Any]


class Malformed(ValueError):
    """The server's answer is not what it has to be."""


class Received(msgspec.Struct, frozen=True):
    """A challenge as it came; `seconds` is how long it can be used from now on."""

    challenge_id: str
    display_text: str
    request_options: dict[str, Any]
    seconds: float


def read_challenge(raw: object, now: float) -> Received:
    """The challenge, its request options untouched; raises Malformed."""
    try:
        envelope = msgspec.convert(raw, _Envelope)
        options = msgspec.convert(envelope.request_options, _RequestOptions)
        from_base64url(options.challenge)
        expires_at = _moment(envelope.expires_at)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise Malformed(str(error)) from None
    left = expires_at - now
    if options.timeout is not None and not 0 < left <= options.timeout / 1000:
        # The clocks here and there differ: the span that the server gives beside the moment holds on both.
        left = options.timeout / 1000
    return Received(envelope.challenge_id, envelope.display_text, envelope.request_options, left)


def read_creation(raw: object) -> tuple[dict[str, Any], str, float | None]:
    """The creation options of §4.4.1 untouched, the user they are for, and the seconds they last; raises Malformed."""
    try:
        whole = msgspec.convert(raw, _Begun).options
        options = msgspec.convert(whole, _CreationOptions)
        from_base64url(options.challenge)
    except (msgspec.ValidationError, ValueError) as error:
        raise Malformed(str(error)) from None
    return whole, options.user.name, options.timeout / 1000 if options.timeout is not None else None


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
