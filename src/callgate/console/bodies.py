"""What scripts of our pages send: small JSON objects of a known shape."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import ClientDisconnect, Request

from callgate.errors import Reason, Refused

BODY_BYTES: Final = 65_536
BODY_SECONDS: Final = 10.0

Word = Annotated[str, Meta(min_length=1, max_length=256)]
Secret = Annotated[str, Meta(min_length=1, max_length=512)]
Name = Annotated[str, Meta(max_length=64)]
Note = Annotated[str, Meta(max_length=500)]

_Body = TypeVar("_Body", bound="Body")


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of them all; by itself an empty object."""


class Signed(Body, frozen=True, rename="camel"):
    """What a passkey answered to a challenge."""

    challenge_id: Word
    response: dict[str, Any]

    @property
    def evidence(self) -> dict[str, Any]:
        """In the form of SEP-2672 §4.5."""
        return {"method": "webauthn", "challengeId": self.challenge_id, "response": self.response}


async def read(request: Request, kind: type[_Body]) -> _Body:
    """The body as what it has to be; refused where it is too large, too slow, no JSON or of another shape."""
    raw = await _bytes(request)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _misshapen(error) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Refused(Reason.PARSE_ERROR, "The body is not JSON.", advice="Send one JSON object in UTF-8.") from None


def refit(value: dict[str, Any], kind: type[_Body]) -> _Body:
    """A part of a body as what it has to be."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _misshapen(error) from None


def _misshapen(error: msgspec.ValidationError) -> Refused:
    return Refused(
        Reason.INVALID_PARAMS,
        f"The request has another shape than this page sends: {error}",
        advice="Load the page again, then use its buttons.",
    )


async def _bytes(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length[:12]) > BODY_BYTES:
        raise _too_large()
    parts = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                parts += chunk
                if len(parts) > BODY_BYTES:
                    raise _too_large()
    except TimeoutError:
        raise Refused(Reason.BODY_TIMEOUT, advice="Send it faster.") from None
    except ClientDisconnect:
        raise Refused(Reason.BODY_TIMEOUT, "The client left before its request was whole.") from None
    return bytes(parts)


def _too_large() -> Refused:
    return Refused(
        Reason.MESSAGE_TOO_LARGE, f"The console takes at most {BODY_BYTES} bytes.", advice="Send less at once."
    )
