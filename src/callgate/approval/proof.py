"""An approval on record, verified once more by somebody who has nothing but the record.

What the gateway checked against its store (that the challenge was its own, unused and in time, that the passkey was
enrolled for this person) cannot be checked here. What the passkey signed can.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from callgate.approval.action import action_hash, from_base64url
from callgate.approval.model import Credential
from callgate.approval.overview import fingerprint
from callgate.approval.settings import RelyingParty
from callgate.approval.webauthn import Assertion, MalformedResponse, NotVerified, check_assertion, read_client_data
from callgate.protocol import WEBAUTHN

_HASH: Final = 32


class _Signature(msgspec.Struct, frozen=True):
    client_data: str
    authenticator_data: str
    signature: str


class _Facts(msgspec.Struct, frozen=True):
    """What verify.py has put on record, as far as it is needed to verify it."""

    user: str
    credential: str
    public_key: str
    nonce: str
    action_hash: str
    assertion: _Signature
    origin: str
    counter: int
    backed_up: bool
    rp_id: str | None = None
    server_id: str | None = None


class Proven(msgspec.Struct, frozen=True):
    """What a passkey has signed. `whole` says that tool, arguments and server were found in it, not only a hash."""

    user: str
    credential: str
    fingerprint: str
    origin: str
    rp_id: str
    framed_in: str | None
    counter: int
    backed_up: bool
    action_hash: str
    whole: bool


def is_proof(facts: object) -> bool:
    """Whether a record holds a passkey's signature."""
    return isinstance(facts, Mapping) and facts.get("method") == WEBAUTHN and "assertion" in facts


def check_proof(facts: object, tool: str, canonical: bytes | None) -> Proven:
    """Verify the signature in a record; NotVerified or Malformed say what does not hold.

    `canonical` is the RFC 8785 form of the arguments, where the record or somebody else has them whole.
    """
    read = _read(facts)
    assertion = _assertion(read)
    client = read_client_data(assertion.client_data)
    if client.origin != read.origin:
        raise NotVerified("the record names another origin than the browser did")
    framed_in = client.topOrigin
    party = RelyingParty(
        id=_relying_party(read, assertion.authenticator_data),
        origins=(client.origin,),
        top_origins=() if framed_in is None else (framed_in,),
    )
    action = _bytes(read.action_hash, "action_hash")
    challenge = _bytes(read.nonce, "nonce") + action
    signed = check_assertion(assertion, challenge, _credential(read), party)
    if (signed.counter, signed.backed_up) != (read.counter, read.backed_up):
        raise NotVerified("the record names another counter or backup state than the passkey signed")
    whole = canonical is not None and read.server_id is not None
    if canonical is not None and read.server_id is not None:
        _check_action(action, tool, canonical, read.server_id)
    return Proven(
        user=read.user,
        credential=read.credential,
        fingerprint=fingerprint(_credential(read).public_key),
        origin=client.origin,
        rp_id=party.id,
        framed_in=framed_in,
        counter=signed.counter,
        backed_up=signed.backed_up,
        action_hash=action.hex(),
        whole=whole,
    )


def _check_action(signed: bytes, tool: str, canonical: bytes, server_id: str) -> None:
    """SEP-2672 §4.6, from the call on record."""
    if not hmac.compare_digest(signed, action_hash(tool, canonical, server_id)):
        raise NotVerified("the passkey signed for another call than the one on record")


def _read(facts: object) -> _Facts:
    try:
        return msgspec.convert(facts, _Facts)
    except msgspec.ValidationError as error:
        raise MalformedResponse(f"the approval on record lacks something: {error}") from None


def _assertion(read: _Facts) -> Assertion:
    return Assertion(
        id=read.credential,
        raw_id=read.credential,
        client_data=_bytes(read.assertion.client_data, "client_data"),
        authenticator_data=_bytes(read.assertion.authenticator_data, "authenticator_data"),
        signature=_bytes(read.assertion.signature, "signature"),
        # The record leaves it out: it adds nothing to the public key that is in the record.
        user_handle=None,
        attachment=None,
    )


def _credential(read: _Facts) -> Credential:
    return Credential(read.credential, read.user, b"", _bytes(read.public_key, "public_key"), 0, ())


def _relying_party(read: _Facts, data: bytes) -> str:
    """The domain that was signed for: the one on record, or else the origin's host or a domain above it."""
    candidates = [read.rp_id] if read.rp_id is not None else [*_domains(read.origin)]
    for domain in candidates:
        if domain and hmac.compare_digest(RelyingParty(domain, origins=(read.origin,)).hash, data[:_HASH]):
            return domain
    raise NotVerified("signed for another relying party")


def _domains(origin: str) -> Iterator[str]:
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        return
    while host:
        yield host
        host = host.partition(".")[2]


def _bytes(text: str, name: str) -> bytes:
    try:
        return from_base64url(text)
    except ValueError:
        raise MalformedResponse(f"{name} is not base64url") from None
