"""What a signature says of itself: by which key, from when to when, which nonce (RFC 9421 §2.3)."""

from __future__ import annotations

from typing import NamedTuple

from callgate.agents.fields import MAX_TEXT, Input, Params
from callgate.errors import Reason, Refused


class Terms(NamedTuple):
    """The parameters of a signature, each of the type that it has to be."""

    keyid: str
    created: int
    expires: int
    nonce: str | None
    algorithm: str | None


def read_terms(given: Input, *, nonce: bool) -> Terms:
    """The parameters that are needed, and a nonce where that is needed too."""
    params = given.params
    keyid, created, expires = _text(params, "keyid"), params.get("created"), params.get("expires")
    once = _text(params, "nonce")
    if keyid is None or created is None or expires is None or (nonce and once is None):
        needed = ("keyid", "created", "expires", "nonce") if nonce else ("keyid", "created", "expires")
        missing = ", ".join(name for name in needed if name not in params)
        raise Refused(Reason.MISSING_REQUIRED_PARAM, f"The signature lacks the parameter {missing}.")
    # Not isinstance: true is an int as well.
    if type(created) is not int or type(expires) is not int:
        raise Refused(Reason.TIMESTAMP_NOT_INTEGER)
    return Terms(keyid, created, expires, once, _text(params, "alg"))


def check_window(terms: Terms, now: float, longest: int, skew: int) -> None:
    """created ≤ now ≤ expires, and not too far apart. Only a clock that is ahead is forgiven, by `skew` seconds."""
    if terms.expires <= terms.created:
        raise Refused(Reason.SIGNATURE_EXPIRED, "The signature expires before it was created, or at once.")
    if terms.expires - terms.created > longest:
        raise Refused(
            Reason.WINDOW_TOO_LARGE,
            f"The signature is valid for {terms.expires - terms.created} seconds; {longest} are taken here.",
        )
    if terms.created > now + skew:
        raise Refused(Reason.CREATED_IN_FUTURE)
    if terms.expires < now:
        raise Refused(Reason.SIGNATURE_EXPIRED)


def _text(params: Params, name: str) -> str | None:
    value = params.get(name)
    if value is None:
        return None
    # Tokens and display strings are no str; strings of structured fields are ASCII.
    if type(value) is not str or not 0 < len(value) <= MAX_TEXT:
        raise Refused(
            Reason.SIGNATURE_INPUT_MALFORMED,
            f"The parameter {name} has to be a string of at most {MAX_TEXT} characters.",
        )
    return value
