"""`method: "device"`: an answer that a person's registered device has signed with its Ed25519 key.

The protocol of docs/reference/device-protocol.md: what exactly is signed, and how that is checked. Each message is an
object in canonical form (RFC 8785) behind a line that says what the message is for. So nothing that a device signs can
stand for something else. The gateway makes the object anew from what it knows, and takes from the device only what it
cannot know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from callgate import ed25519
from callgate.approval.action import from_base64url, to_base64url
from callgate.approval.model import Challenge, Credential
from callgate.approval.webauthn import MalformedResponse, NotVerified, SignedAssertion
from callgate.canonical import canonical
from callgate.errors import MessageError
from callgate.protocol import DEVICE

PROTOCOL: Final = "callgate-device/1"
# What a message is for; the first line of what is signed.
ENROL: Final = "enrol"
ASK: Final = "ask"
ANSWER: Final = "answer"

Decision: TypeAlias = Literal["yes", "no"]
# How far a device's clock may be off.
SKEW_MS: Final = 60_000
_LINE_BYTES: Final = 4_096
_KEY_BYTES: Final = 32
_THUMBPRINT_CHARS: Final = 43
_SIGNATURE_CHARS: Final = 86

# Milliseconds since 1970, up to the largest whole number that JSON's readers agree on.
Time = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Thumbprint = Annotated[str, Meta(min_length=_THUMBPRINT_CHARS, max_length=_THUMBPRINT_CHARS)]
SignatureText = Annotated[str, Meta(min_length=_SIGNATURE_CHARS, max_length=_SIGNATURE_CHARS)]


def signed_bytes(purpose: str, message: Mapping[str, Any]) -> bytes:
    """Exactly what a device signs."""
    return f"{PROTOCOL} {purpose}\n".encode() + canonical(dict(message))


def thumbprint(public_key: bytes) -> str:
    """RFC 7638 with SHA-256, of the key as a JWK (RFC 8037 §2): what a device is named by."""
    jwk = {"crv": "Ed25519", "kty": "OKP", "x": to_base64url(public_key)}
    return to_base64url(hashlib.sha256(canonical(jwk)).digest())


def gateway_id(deployment: str) -> str:
    """What devices know a deployment by: a hash, because its own id is never sent."""
    return to_base64url(hashlib.sha256(b"callgate device gateway\0" + deployment.encode()).digest())


def answer_message(
    *, gateway: str, key: str, challenge: str, nonce: bytes, action_hash: bytes, decision: str, time: int
) -> dict[str, Any]:
    return {
        "actionHash": to_base64url(action_hash),
        "challengeId": challenge,
        "decision": decision,
        "gateway": gateway,
        "key": key,
        "method": DEVICE,
        "nonce": to_base64url(nonce),
        "time": time,
    }


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: Thumbprint
    time: Time
    decision: Decision
    signature: SignatureText


class DeviceAnswer(msgspec.Struct, frozen=True):
    """The `response` of evidence, decoded; `id` is the key that it says it was made with."""

    id: str
    time: int
    decision: Decision
    signature: bytes


def read_answer(response: Mapping[str, Any]) -> DeviceAnswer:
    """Malformed for every other shape."""
    try:
        read = msgspec.convert(response, _Answer)
        return DeviceAnswer(read.key, read.time, read.decision, exact_base64url(read.signature))
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise MalformedResponse(str(error)) from None


def check_answer(answer: DeviceAnswer, challenge: Challenge, device: Credential) -> SignedAssertion:
    """The signature over everything that the gateway knows of this challenge, and the device's own time."""
    if not challenge.gateway:
        raise NotVerified("this challenge was not made for a device")
    if answer.id != device.id or thumbprint(device.public_key) != device.id:
        raise NotVerified("the answer names another key")
    message = answer_message(
        gateway=challenge.gateway,
        key=device.id,
        challenge=challenge.id,
        nonce=challenge.nonce,
        action_hash=challenge.action_hash,
        decision=answer.decision,
        time=answer.time,
    )
    if not ed25519.verifies(device.public_key, answer.signature, signed_bytes(ANSWER, message)):
        raise NotVerified("the signature does not match")
    if not challenge.created_at - SKEW_MS <= answer.time <= challenge.expires_at + SKEW_MS:
        raise NotVerified("the device's clock is wrong")
    return SignedAssertion(
        counter=answer.time, backup_eligible=False, backed_up=False, origin="", yes=answer.decision == "yes"
    )


class AskBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device asks for what waits, or for one call."""

    key: Thumbprint
    time: Time
    signature: SignatureText
    request: Annotated[str, Meta(max_length=64)] = ""


def check_ask(body: AskBody, what: str, gateway: str, device: Credential, now: int) -> None:
    """Verify that the device asks for exactly this, now; NotVerified says why not."""
    message = {"ask": what, "gateway": gateway, "key": device.id, "request": body.request, "time": body.time}
    try:
        signature, text = exact_base64url(body.signature), signed_bytes(ASK, message)
    except (ValueError, MessageError):
        raise NotVerified("the signature is not base64url") from None
    if not ed25519.verifies(device.public_key, signature, text):
        raise NotVerified("the signature does not match")
    if abs(body.time - now) > SKEW_MS:
        raise NotVerified("the device's clock is wrong")


class _Enrolment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    gateway: Annotated[str, Meta(max_length=64)]
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    public_key: Annotated[str, Meta(min_length=_THUMBPRINT_CHARS, max_length=_THUMBPRINT_CHARS)]
    time: Time
    user: Annotated[str, Meta(min_length=1, max_length=64)]
    signature: SignatureText


class NewDevice(msgspec.Struct, frozen=True):
    """A device that wants to answer for a person, and has shown that it has the key."""

    id: str
    public_key: bytes
    name: str
    time: int


def read_enrolment(line: str, gateway: str, user: str) -> NewDevice:
    """The line that a device shows to its person (base64url of JSON); Malformed or NotVerified say what is wrong."""
    if len(line) > _LINE_BYTES:
        raise MalformedResponse("the line is too long")
    try:
        read = msgspec.json.decode(exact_base64url(line), type=_Enrolment)
        key, signature = exact_base64url(read.public_key), exact_base64url(read.signature)
        ed25519.public_key(key)
        members = {
            "gateway": read.gateway,
            "name": read.name,
            "publicKey": read.public_key,
            "time": read.time,
            "user": read.user,
        }
        message = signed_bytes(ENROL, members)
    except (msgspec.MsgspecError, ValueError, MessageError, RecursionError):
        raise MalformedResponse("it is not the line of a device, or not all of it") from None
    if read.gateway != gateway:
        raise NotVerified("the device made it for another gateway")
    if read.user != user:
        raise NotVerified("the device made it for somebody else")
    if not ed25519.verifies(key, signature, message):
        raise NotVerified("the device does not have the key that it names")
    return NewDevice(thumbprint(key), key, read.name, read.time)


_Text = Annotated[str, Meta(min_length=1)]


class _Record(msgspec.Struct, frozen=True):
    """What is on record of an answer, as far as it is needed to verify it."""

    user: _Text
    credential: _Text
    public_key: str
    nonce: str
    action_hash: str
    challenge: _Text
    gateway: _Text
    counter: int
    decision: Literal["yes"]
    signature: str
    device: _Text


def facts(answer: DeviceAnswer, challenge: Challenge, device: Credential) -> dict[str, Any]:
    """What goes on record beside what all methods have. The voucher is the passkey that enrolled the device."""
    return {
        "device": device.name,
        "gateway": challenge.gateway,
        "decision": answer.decision,
        "signature": to_base64url(answer.signature),
        "voucher": device.voucher,
    }


class ProvenAnswer(msgspec.Struct, frozen=True):
    """A yes on record that holds."""

    user: str
    credential: str
    public_key: bytes
    counter: int
    device: str
    action_hash: bytes


def prove(record: object) -> ProvenAnswer:
    """Verify the yes of a device from a record alone; NotVerified or Malformed say what does not hold."""
    try:
        read = msgspec.convert(record, _Record)
        key, action = from_base64url(read.public_key), from_base64url(read.action_hash)
        signature, nonce = from_base64url(read.signature), from_base64url(read.nonce)
    except (msgspec.ValidationError, ValueError) as error:
        raise MalformedResponse(f"the approval on record lacks something: {error}") from None
    if len(key) != _KEY_BYTES or thumbprint(key) != read.credential:
        raise NotVerified("the record names another key than the one that signed")
    message = answer_message(
        gateway=read.gateway,
        key=read.credential,
        challenge=read.challenge,
        nonce=nonce,
        action_hash=action,
        decision=read.decision,
        time=read.counter,
    )
    if not ed25519.verifies(key, signature, signed_bytes(ANSWER, message)):
        raise NotVerified("the signature does not match")
    return ProvenAnswer(read.user, read.credential, key, read.counter, read.device, action)


def exact_base64url(text: str) -> bytes:
    """The bytes; ValueError for anything but their one spelling."""
    raw = from_base64url(text)
    if to_base64url(raw) != text:
        raise ValueError("not base64url, or not spelt as it has to be")
    return raw
