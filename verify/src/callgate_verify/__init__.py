"""Verifies a receipt of Callgate's audit log, with the standard library and `cryptography` only.

It shares no code with Callgate. What it checks, in this order: the document has every member of a receipt and no other
(`read`); the log's key has signed the checkpoint, and enough witnesses have cosigned it (`Note`); decision and outcome
are in the tree under it (`included`); the sentences of the summary are what the records say (`summary`); the passkeys
of an approval have signed this very call (`check_approval`).
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

FORMAT: Final = "callgate-receipt/2"
MAX_RECEIPT: Final = 128 * 2**20
LOG: Final = 1
WITNESS: Final = 4
_MAX_NOTE: Final = 16_384
_MAX_SIZE: Final = 2**62
_NUMBER: Final = re.compile(r"(0|[1-9][0-9]{0,18})\Z")
_INTEGER: Final = re.compile(r"-?[0-9]+\Z")
_NAME: Final = re.compile(r"[^\s+]{1,255}\Z")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,31}(\.[0-9]{1,31})?\Z")
_URL64: Final = re.compile(r"[A-Za-z0-9_-]*\Z")
_SAFE: Final = 2**53 - 1


class DoesNotHold(Exception):
    """Why a receipt does not hold, in plain words."""


class Verdict(NamedTuple):
    """What came of it. `verified` and `not_verified` are pairs of a code and a sentence."""

    holds: bool
    problem: str
    summary: list[str]
    verified: list[tuple[str, str]]
    not_verified: list[tuple[str, str]]


# -- JSON, strictly ------------------------------------------------------------------------------------------------


class Number(str):
    """A number as it is written: 1, 1.0 and true are three things."""

    __slots__ = ()


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a member is there twice")
    return found


def _constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def read(text: bytes) -> Any:
    """JSON in which no member is there twice, with numbers as they are written."""
    try:
        return json.loads(
            text.decode(), object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_constant
        )
    except (ValueError, RecursionError) as error:
        raise DoesNotHold(f"this is no JSON that every reader reads alike: {error}") from None


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def canonical(value: Any) -> bytes:
    """RFC 8785."""
    try:
        return _canonical(value).encode()
    except (ValueError, RecursionError):
        raise DoesNotHold("the arguments have no canonical form") from None


def _canonical(value: Any) -> str:
    if isinstance(value, Number):
        return _number(value)
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_canonical(name)}:{_canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _number(text: str) -> str:
    """RFC 8785 §3.2.2.3: as ECMAScript writes it."""
    if _INTEGER.match(text):
        if abs(int(text)) > _SAFE:
            raise ValueError(text)
        return str(int(text))
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(text)
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, part = mantissa.partition(".")
    part = "" if part == "0" else part
    point = len(whole) + int(exponent or 0)
    digits = (whole + part).lstrip("0")
    point -= len(whole + part) - len(digits)
    digits = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"{point - 1:+d}"
    return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{power}"


def _base64(text: Any) -> bytes:
    """Standard base64 in its one spelling; empty bytes for everything else."""
    try:
        raw = base64.b64decode(text, validate=True) if type(text) is str else b""
    except (binascii.Error, ValueError):
        return b""
    return raw if base64.b64encode(raw).decode() == text else b""


def _base64url(text: Any, name: str) -> bytes:
    bare = text.rstrip("=") if type(text) is str else "!"
    if not _URL64.match(bare) or len(bare) % 4 == 1:
        raise DoesNotHold(f"the approval's {name} is not base64url")
    return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))


# -- keys, notes, tree ---------------------------------------------------------------------------------------------


class VKey(NamedTuple):
    """A public key of a log or a witness (C2SP signed-note)."""

    name: str
    public: bytes
    kind: int

    @property
    def id(self) -> bytes:
        return hashlib.sha256(self.name.encode() + b"\n" + bytes((self.kind,)) + self.public).digest()[:4]

    @property
    def fingerprint(self) -> str:
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.public).digest()).decode().rstrip("=")


def vkey(text: str, kind: int) -> VKey:
    """Read a key of that kind."""
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    raw = _base64(encoded)
    if not _NAME.match(name) or len(raw) != 33 or raw[0] != kind:
        raise DoesNotHold(f"that is not a public key of a {'log' if kind == LOG else 'witness'}")
    key = VKey(name, raw[1:], kind)
    if key.id.hex() != key_id:
        raise DoesNotHold("the hash in a key does not fit the key")
    return key


class Note:
    """A signed checkpoint (C2SP tlog-checkpoint) with one extension line, `time MILLISECONDS`."""

    def __init__(self, text: str) -> None:
        body, separator, tail = text.partition("\n\n")
        lines = body.split("\n")
        if len(text) > _MAX_NOTE or not separator or len(lines) != 4 or not _NAME.match(lines[0]):
            raise DoesNotHold("the checkpoint is not origin, size, root and time")
        word, _, at = lines[3].partition(" ")
        self.origin, self.root = lines[0], _base64(lines[2])
        if not _NUMBER.match(lines[1]) or len(self.root) != 32 or word != "time" or not _NUMBER.match(at):
            raise DoesNotHold("the checkpoint is not origin, size, root and time")
        self.size, self.text = int(lines[1]), (body + "\n").encode()
        if self.size > _MAX_SIZE or any(byte < 0x20 and byte != 0x0A for byte in self.text) or not tail.endswith("\n"):
            raise DoesNotHold("the checkpoint is not origin, size, root and time")
        self.signatures = [_signature(line) for line in tail[:-1].split("\n")]

    def by(self, key: VKey) -> list[bytes]:
        return [raw for name, key_id, raw in self.signatures if (name, key_id) == (key.name, key.id)]

    def check_log(self, key: VKey) -> None:
        """That the log's key has signed it."""
        lines = self.by(key) if key.name == self.origin else []
        if not lines:
            raise DoesNotHold("the checkpoint is not signed by the log's key")
        for raw in lines:
            if not _ed25519(key.public, raw, self.text):
                raise DoesNotHold("the checkpoint's signature is wrong")

    def cosigned(self, witnesses: Sequence[VKey]) -> dict[bytes, tuple[str, int]]:
        """Which of these witnesses have cosigned it, by key, with name and time (C2SP tlog-cosignature)."""
        found: dict[bytes, tuple[str, int]] = {}
        for key in witnesses:
            for raw in self.by(key):
                at = int.from_bytes(raw[:8], "big")
                if not _ed25519(key.public, raw[8:], b"cosignature/v1\ntime %d\n" % at + self.text):
                    raise DoesNotHold(f"the cosignature of {key.name} is wrong")
                if not 0 < at < 2**63:
                    raise DoesNotHold(f"the cosignature of {key.name} has no time")
                if key.public not in found or found[key.public][1] < at:
                    found[key.public] = (key.name, at)
        return found


def _signature(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix("\u2014 ").partition(" ")
    raw = _base64(encoded)
    if not line.startswith("\u2014 ") or len(raw) < 5:
        raise DoesNotHold("the checkpoint has a line that is no signature")
    return name, raw[:4], raw[4:]


def _ed25519(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def included(body: bytes, leaf: int, size: int, path: list[bytes], root: bytes) -> bool:
    """RFC 9162 §2.1.3.2."""
    if leaf >= size or len(path) > 64 or any(len(step) != 32 for step in path):
        return False
    fn, sn, result = leaf, size - 1, hashlib.sha256(b"\0" + body).digest()
    for step in path:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            result = hashlib.sha256(b"\1" + step + result).digest()
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            result = hashlib.sha256(b"\1" + result + step).digest()
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and result == root


# -- records -------------------------------------------------------------------------------------------------------


def _text(holder: Any, *names: str) -> str:
    for name in names:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder if type(holder) is str else ""


def _moment(at: Any) -> str:
    try:
        number = int(at) if isinstance(at, Number) and _INTEGER.match(at) else None
        if number is None:
            raise ValueError(at)
        moment = datetime.fromtimestamp(number // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise DoesNotHold("a record has no time") from None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{number % 1000:03d}Z"


def summary(decision: dict[str, Any], outcome: dict[str, Any] | None) -> list[str]:
    """The same sentences as Callgate makes from these records."""
    reason, extra = _text(decision, "reason"), decision.get("extra")
    lines = [
        f"Call {_text(decision, 'call')}: {_text(decision, 'tool')} of {_text(decision, 'server')}",
        f"Decided: {_text(decision, 'verdict')}{f' ({reason})' if reason else ''}, {_moment(decision.get('at'))}",
        f"Arguments: {_text(decision, 'arguments', 'mode')}",
    ]
    approval = extra.get("approval") if isinstance(extra, dict) else None
    if isinstance(approval, dict) and _text(decision, "verdict") == "allow":
        several = approval.get("signatures")
        for one in several if isinstance(several, list) else [approval]:
            user = one.get("user") if isinstance(one, dict) else None
            if type(user) is str:
                device = one.get("device") if one.get("method") == "device" else None
                how = f", on the device “{device}”, without a passkey" if type(device) is str else ""
                grant = one.get("grant")
                beforehand = f"Granted beforehand by: {user}, grant {grant}"
                lines.append(beforehand if type(grant) is str else f"Approved by: {user}{how}")
    if rule := _text(extra, "trust", "rule"):
        lines.append(f"Rule: {rule}")
    ended = "not in this receipt"
    if outcome is not None:
        ended = f"{_text(outcome, 'outcome')}, {_moment(outcome.get('at'))}"
    return [*lines, f"Outcome: {ended}"]


def _members(found: Any, names: str) -> dict[str, Any]:
    if not isinstance(found, dict) or set(found) != set(names.split()):
        raise DoesNotHold("it has other members than a receipt")
    return found


def _record(found: Any, kind: str, call: str, note: Note) -> dict[str, Any]:
    proof = _members(found, "record body leaf path")
    body, path, leaf = _base64(proof["body"]), proof["path"], proof["leaf"]
    if not body or not isinstance(path, list) or not isinstance(leaf, Number) or not _NUMBER.match(leaf):
        raise DoesNotHold(f"the {kind} with its proof cannot be read")
    record = read(body)
    if not isinstance(record, dict) or record.get("kind") != kind or record.get("call") != call:
        raise DoesNotHold(f"the {kind} is of another call, or none")
    if record.get("v") != "1" or not isinstance(record.get("v"), Number):
        raise DoesNotHold(f"the {kind} is of a version that is not known here")
    if not same(record, proof["record"]):
        raise DoesNotHold(f"the readable text of the {kind} and its exact bytes tell two stories")
    if not included(body, int(leaf), note.size, [_base64(step) for step in path], note.root):
        raise DoesNotHold(f"the {kind} is not in the log under this checkpoint")
    return record


# -- the approval --------------------------------------------------------------------------------------------------


class _Signed(NamedTuple):
    user: str
    fingerprint: str
    action: bytes
    origin: str
    device: str = ""

    @property
    def account(self) -> str:
        if self.device:
            return f"key {self.fingerprint} of the device “{self.device}” has signed yes, without a passkey"
        return f"passkey {self.fingerprint} has signed, a person was there and verified, on {self.origin}"


# The member that has the signature, by the method.
_SIGNATURES: Final = {"webauthn": "assertion", "device": "signature"}


def _is_proof(facts: Any) -> bool:
    method = facts.get("method") if isinstance(facts, dict) else None
    return type(method) is str and _SIGNATURES.get(method, "") in facts


def _is_grant(facts: Any) -> bool:
    return isinstance(facts, dict) and facts.get("method") == "grant"


def _proofs(facts: Any) -> list[dict[str, Any]]:
    if _is_proof(facts):
        return [facts]
    if _is_grant(facts):
        signed = facts.get("signature")
        return [signed] if _is_proof(signed) and signed["method"] == "webauthn" else []
    several = facts.get("signatures") if isinstance(facts, dict) else None
    if not isinstance(several, list) or not all(map(_is_proof, several)):
        return []
    return [{**one, "server_id": facts.get("server_id")} for one in several]


def check_approval(facts: dict[str, Any], tool: str, form: bytes | None) -> tuple[list[_Signed], bool]:
    """Every signature of an approval, and whether they were found to be for this tool with these arguments."""
    signed = [_check_device(one) if one["method"] == "device" else _check_signature(one) for one in _proofs(facts)]
    if len({one.user for one in signed}) < len(signed) or len({one.fingerprint for one in signed}) < len(signed):
        raise DoesNotHold("the approval does not hold: one person, passkey or device signed twice")
    if len({one.action for one in signed}) > 1:
        raise DoesNotHold("the approval does not hold: the people on record signed for different calls")
    wanted = facts.get("approvals")
    if isinstance(wanted, Number) and _INTEGER.match(wanted) and len(signed) < int(wanted):
        raise DoesNotHold(f"the approval does not hold: {wanted} people had to sign, and {len(signed)} did")
    if _is_grant(facts):
        _check_grant(facts, signed[0], tool, form)
        return signed, form is not None
    server_id = facts.get("server_id")
    whole = form is not None and type(server_id) is str and bool(signed)
    if form is not None and type(server_id) is str:
        for one in signed:
            if one.action != hashlib.sha256(b"\0".join((tool.encode(), form, server_id.encode()))).digest():
                raise DoesNotHold("the approval does not hold: another call was signed")
    return signed, whole


def _check_grant(facts: dict[str, Any], signed: _Signed, tool: str, form: bytes | None) -> None:
    """What a person signed beforehand: for this tool on this server, and the arguments are within it."""
    text, site = _text(facts, "terms"), _text(facts, "signature", "rp_id")
    terms = read(text.encode())
    if signed.action != hashlib.sha256(b"\0".join((b"callgate/grant", text.encode(), site.encode()))).digest():
        raise DoesNotHold("the approval does not hold: the passkey signed another grant")
    said = (_text(facts, "grant"), _text(facts, "user"), _text(facts, "server_id"), tool)
    named = tuple(_text(terms, name) for name in ("id", "person", "server_id", "tool"))
    if said != named or signed.user != said[1] or terms.get("format") != "1" or not all(said):
        raise DoesNotHold("the approval does not hold: the grant is for another call")
    if form is not None and not _within(terms, read(form)):
        raise DoesNotHold("the approval does not hold: the call is not within the grant")


def _within(terms: dict[str, Any], arguments: Any) -> bool:
    conditions, summed = terms.get("arguments"), _text(terms, "sum_of")
    if not isinstance(conditions, list) or not all(isinstance(one, dict) for one in conditions):
        return False
    if not isinstance(arguments, dict) or not set(arguments) <= {_text(one, "argument") for one in conditions}:
        return False
    if summed and not (isinstance(arguments.get(summed), Number) and not arguments[summed].startswith("-")):
        return False
    return all(_holds(one, arguments) for one in conditions)


def _holds(condition: dict[str, Any], arguments: dict[str, Any]) -> bool:
    name, rule, wanted = _text(condition, "argument"), _text(condition, "rule"), condition.get("value")
    if rule == "anything":
        return True
    if name not in arguments:
        return False
    found = arguments[name]
    if rule == "equals":
        return canonical(found) == canonical(wanted)
    if rule == "one_of":
        return isinstance(wanted, list) and any(canonical(found) == canonical(one) for one in wanted)
    if rule == "starts_with":
        return type(found) is str and type(wanted) is str and found.startswith(wanted)
    if rule not in ("at_most", "at_least") or not isinstance(found, Number) or type(wanted) is not str:
        return False
    if not _DECIMAL.match(wanted):
        return False
    amount, bound = Decimal(found), Decimal(wanted)
    return amount <= bound if rule == "at_most" else amount >= bound


def _check_signature(facts: dict[str, Any]) -> _Signed:
    """WebAuthn Level 3 §7.2, as far as a record can tell."""
    assertion = facts.get("assertion")
    if not isinstance(assertion, dict):
        raise DoesNotHold("the approval on record has no signature")
    raw = {name: _base64url(assertion.get(name), name) for name in ("client_data", "authenticator_data", "signature")}
    key, action = _base64url(facts.get("public_key"), "public_key"), _base64url(facts.get("action_hash"), "action_hash")
    client, data = read(raw["client_data"]), raw["authenticator_data"]
    challenge = base64.urlsafe_b64encode(_base64url(facts.get("nonce"), "nonce") + action).decode().rstrip("=")
    origin, top = _text(client, "origin"), client.get("topOrigin") if isinstance(client, dict) else None
    if _text(client, "type") != "webauthn.get" or _text(client, "challenge") != challenge:
        raise DoesNotHold("the approval does not hold: another challenge was signed")
    if (
        not origin
        or origin != _text(facts, "origin")
        or (client.get("crossOrigin", False) is not False and top is None)
    ):
        raise DoesNotHold("the approval does not hold: it was signed on another page")
    if not _text(facts, "user") or not _text(facts, "credential"):
        raise DoesNotHold("the approval on record names no person or passkey")
    _check_authenticator(data, facts, origin)
    if not _verifies(key, raw["signature"], data + hashlib.sha256(raw["client_data"]).digest()):
        raise DoesNotHold("the approval does not hold: the signature does not match")
    print_of_key = "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return _Signed(_text(facts, "user"), print_of_key, action, origin)


def _check_device(facts: dict[str, Any]) -> _Signed:
    """The yes of a device (Callgate's device protocol, version 1): the message is made anew, and never read."""
    texts = {name: _text(facts, name) for name in ("user", "credential", "device", "challenge", "gateway")}
    if not all(texts.values()):
        raise DoesNotHold("the approval on record names no person or device")
    if facts.get("decision") != "yes":
        raise DoesNotHold("the approval does not hold: the device did not say yes")
    raw = {name: _base64url(facts.get(name), name) for name in ("public_key", "signature", "nonce", "action_hash")}
    url = {name: base64.urlsafe_b64encode(value).decode().rstrip("=") for name, value in raw.items()}
    name_of_key = hashlib.sha256(canonical({"crv": "Ed25519", "kty": "OKP", "x": url["public_key"]})).digest()
    if base64.urlsafe_b64encode(name_of_key).decode().rstrip("=") != texts["credential"]:
        raise DoesNotHold("the approval does not hold: another key has signed")
    time = facts.get("counter")
    if not isinstance(time, Number) or not _INTEGER.match(time):
        raise DoesNotHold("the approval on record has no time")
    message = canonical(
        {
            "actionHash": url["action_hash"],
            "challengeId": texts["challenge"],
            "decision": "yes",
            "gateway": texts["gateway"],
            "key": texts["credential"],
            "method": "device",
            "nonce": url["nonce"],
            "time": time,
        }
    )
    key = raw["public_key"]
    small = int.from_bytes(key, "little") & (2**255 - 1) in _SMALL
    if small or not _ed25519(key, raw["signature"], b"callgate-device/1 answer\n" + message):
        raise DoesNotHold("the approval does not hold: the signature does not match")
    print_of_key = "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    return _Signed(texts["user"], print_of_key, raw["action_hash"], "", texts["device"])


# The y of the points of Ed25519 that have a small order, and their second spellings: anybody can sign for these.
_P: Final = 2**255 - 19
_SMALL: Final = frozenset(
    {
        *(0, 1, _P - 1, _P, _P + 1),
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD83D3D706A17C7,
    }
)


def _check_authenticator(data: bytes, facts: dict[str, Any], origin: str) -> None:
    flags = data[32] if len(data) >= 37 else 0
    # Present, verified; backed up only if it can be; no new credential; nothing behind it that no flag announces.
    if not flags & 1 or not flags & 4 or (flags & 16 and not flags & 8) or flags & 64:
        raise DoesNotHold("the approval does not hold: no person was there and verified")
    if len(data) != 37 if not flags & 128 else (len(data) < 38 or data[37] >> 5 != 5):
        raise DoesNotHold("the approval does not hold: its authenticator data cannot be read")
    counter, backed = facts.get("counter"), facts.get("backed_up")
    if counter != str(int.from_bytes(data[33:37], "big")) or backed is not bool(flags & 16):
        raise DoesNotHold("the approval does not hold: the record names another counter or backup state")
    given = facts.get("rp_id")
    if not any(hashlib.sha256(one.encode()).digest() == data[:32] for one in ([given] if given else _domains(origin))):
        raise DoesNotHold("the approval does not hold: it was signed for another site")


def _domains(origin: str) -> list[str]:
    try:
        parts = (urlsplit(origin).hostname or "").split(".")
    except ValueError:
        return []
    return [".".join(parts[at:]) for at in range(len(parts)) if parts[at]]


def _verifies(cose: bytes, signature: bytes, message: bytes) -> bool:
    """With a public key as authenticators write it (RFC 9052 §7): ES256, EdDSA or RS256."""
    try:
        key = _cbor_map(cose)
        match key.get(3), key.get(1):
            case -7, 2 if key.get(-1) == 1:
                public = ec.EllipticCurvePublicNumbers(
                    int.from_bytes(key[-2], "big"), int.from_bytes(key[-3], "big"), ec.SECP256R1()
                ).public_key()
                public.verify(signature, message, ec.ECDSA(SHA256()))
            case -8, 1 if key.get(-1) == 6:
                return _ed25519(key[-2], signature, message)
            case -257, 3:
                numbers = rsa.RSAPublicNumbers(int.from_bytes(key[-2], "big"), int.from_bytes(key[-1], "big"))
                if numbers.n.bit_length() < 2048:
                    return False
                numbers.public_key().verify(signature, message, padding.PKCS1v15(), SHA256())
            case _:
                return False
    except (InvalidSignature, ValueError, LookupError, TypeError):
        return False
    return True


def _cbor_map(data: bytes) -> dict[int, Any]:
    """A map of small integers to integers and byte strings (RFC 8949), whole."""
    count, at = _head(data, 0, 5)
    found: dict[int, Any] = {}
    for _ in range(count):
        name, at = _item(data, at)
        found[name], at = _item(data, at)
    if at != len(data) or len(found) != count:
        raise ValueError("not one map")
    return found


def _head(data: bytes, at: int, wanted: int) -> tuple[int, int]:
    if data[at] >> 5 != wanted:
        raise ValueError("not the kind that is meant")
    value, at = data[at] & 31, at + 1
    if value < 24:
        return value, at
    if value > 26:
        raise ValueError("not a short length")
    width = 1 << (value - 24)
    return int.from_bytes(data[at : at + width], "big"), at + width


def _item(data: bytes, at: int) -> tuple[Any, int]:
    kind = data[at] >> 5
    value, at = _head(data, at, kind)
    if kind == 0:
        return value, at
    if kind == 1:
        return -1 - value, at
    if kind != 2 or at + value > len(data):
        raise ValueError("not a value of a key")
    return data[at : at + value], at + value


# -- all of it -----------------------------------------------------------------------------------------------------


def verify(
    document: bytes,
    key: str | None = None,
    witnesses: Sequence[str] = (),
    quorum: int | None = None,
    arguments: bytes | None = None,
) -> Verdict:
    """Whether a receipt holds, and what that proves; never raises for what a receipt says."""
    try:
        return _verify(document, key, witnesses, quorum, arguments)
    except DoesNotHold as error:
        return Verdict(holds=False, problem=str(error), summary=[], verified=[], not_verified=[])
    except (RecursionError, UnicodeError):
        return Verdict(holds=False, problem="the receipt cannot be read", summary=[], verified=[], not_verified=[])


def _verify(
    document: bytes, key: str | None, witnesses: Sequence[str], quorum: int | None, arguments: bytes | None
) -> Verdict:
    if len(document) > MAX_RECEIPT:
        raise DoesNotHold("the file is too large for a receipt")
    receipt = _members(read(document), "format call summary decision outcome checkpoint key")
    if receipt["format"] != FORMAT:
        raise DoesNotHold("it is no receipt of a format that is known here")
    if not all(type(receipt[name]) is str for name in ("call", "checkpoint", "key")):
        raise DoesNotHold("it has other members than a receipt")
    note, own = Note(receipt["checkpoint"]), vkey(receipt["key"], LOG)
    if key is not None and vkey(key.strip(), LOG) != own:
        raise DoesNotHold("the receipt is signed with another key than the one given")
    note.check_log(own)
    verified, not_verified = _keys(note, own, key, [vkey(one.strip(), WITNESS) for one in witnesses], quorum)
    decision = _record(receipt["decision"], "decision", receipt["call"], note)
    verified.append(("decision", "the decision is in the log, to the letter"))
    outcome = None
    if receipt["outcome"] is not None:
        outcome = _record(receipt["outcome"], "outcome", receipt["call"], note)
        verified.append(("outcome", "what became of the call is in the log, to the letter"))
    else:
        not_verified.append(("outcome", "what became of the call: the receipt has no outcome, or it was left out"))
    said = summary(decision, outcome)
    if not same(receipt["summary"], said):
        raise DoesNotHold("the summary and the exact bytes tell two stories")
    more = _approval(decision, arguments)
    return Verdict(
        holds=True, problem="", summary=said, verified=verified + more[0], not_verified=not_verified + more[1]
    )


Lines = list[tuple[str, str]]
_THIS_CALL = "this tool with these arguments on this server"


def _keys(note: Note, own: VKey, given: str | None, witnesses: list[VKey], quorum: int | None) -> tuple[Lines, Lines]:
    verified: Lines = []
    not_verified: Lines = []
    if given is not None:
        verified.append(("log", f"log {note.origin} has signed it, with the key that you gave"))
    else:
        not_verified.append(
            ("log", f"whose log it is: it was checked with the key in the receipt itself, {own.fingerprint}")
        )
    if any(one.public == own.public for one in witnesses):
        raise DoesNotHold("the log cannot be its own witness")
    different = len({one.public for one in witnesses})
    wanted = different if quorum is None else quorum
    if wanted > different:
        raise DoesNotHold(f"{wanted} witnesses have to have cosigned it, and {different} keys are given")
    found = note.cosigned(witnesses)
    if len(found) < wanted:
        raise DoesNotHold(f"{len(found)} of these witnesses have cosigned it, and {wanted} have to")
    for name, at in found.values():
        verified.append(("witnesses", f"{name} has cosigned the log, {_moment(Number(at * 1000))}"))
    if not found:
        not_verified.append(("witnesses", "that the log was not rewritten by whoever has its key: ask for witnesses"))
    held = {name for name, _ in found.values()}
    for name in dict.fromkeys(name for name, _, _ in note.signatures if name not in (note.origin, *held)):
        not_verified.append(("cosignature", f"the cosignature of {name}: its key was not given"))
    return verified, not_verified


def _approval(decision: dict[str, Any], given: bytes | None) -> tuple[Lines, Lines]:
    stored, extra = decision.get("arguments"), decision.get("extra")
    if not isinstance(stored, dict):
        raise DoesNotHold("the decision has no arguments")
    form = None
    if given is not None:
        form = canonical(read(given))
        if not _are_those(form, stored, decision):
            raise DoesNotHold("these are not the arguments on record")
    facts = extra.get("approval") if isinstance(extra, dict) else None
    if facts is None or decision.get("verdict") != "allow":
        return [], []
    if not _proofs(facts):
        return [], [("approval", "the approval: the record holds no signature that is known here")]
    if form is None and stored.get("mode") != "hashed" and "hash" not in stored:
        form = canonical(stored.get("value"))
        if not _are_those(form, stored, decision):
            raise DoesNotHold("the arguments on record are not the ones that were hashed")
    signed, whole = check_approval(facts, _text(decision, "tool"), form)
    verified = [("approval", one.account) for one in signed]
    not_verified: Lines = []
    granted = _is_grant(facts)
    if whole:
        what = "a grant for this tool on this server, and these arguments are within it" if granted else _THIS_CALL
        verified.append(("arguments", f"what was signed is {what}"))
    else:
        not_verified.append(("arguments", "tool and arguments: they, or the id of the server, are not on record"))
    for one in signed:
        what = "device" if one.device else "passkey"
        not_verified.append(("person", f"whose {what} it is: that it is {one.user}'s is the log's word"))
    fresh = "the approval was fresh and used once: the gateway checked that"
    counted = "the grant was in force, and its calls and its sum sufficed: the gateway counted that"
    not_verified.append(("fresh", f"that {counted if granted else fresh}"))
    return verified, not_verified


def _are_those(form: bytes, stored: dict[str, Any], decision: dict[str, Any]) -> bool:
    if type(stored.get("hash")) is str and type(stored.get("salt")) is str:
        try:
            salt = bytes.fromhex(stored["salt"])
        except ValueError:
            return False
        return bool(stored["hash"] == "sha256:" + hashlib.sha256(salt + form).hexdigest())
    return bool(decision.get("args_hash") == "sha256:" + hashlib.sha256(form).hexdigest())


def _given(texts: Sequence[str]) -> list[str]:
    """Keys, and the keys in files."""
    found: list[str] = []
    for text in texts:
        found += [text] if "+" in text else Path(text).read_text(encoding="utf-8").split("\n")
    return [one for one in found if one.strip()]


def _plain(text: str) -> str:
    """Nothing in a receipt acts on the terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def main(words: Sequence[str] | None = None) -> int:
    """The `callgate-verify` script."""
    reader = argparse.ArgumentParser(
        "callgate-verify", description="Verify a receipt of Callgate's audit log, offline."
    )
    reader.add_argument("receipt", type=Path, help="The file that `callgate audit receipt` made.")
    reader.add_argument("--key", help="The log's public key, or a file with it.")
    reader.add_argument("--witness", action="append", default=[], help="The key of a witness, or a file with it.")
    reader.add_argument("--quorum", type=int, help="So many witnesses have to have cosigned; by default all given.")
    reader.add_argument("--arguments", type=Path, help="The call's arguments as JSON, where the record lacks them.")
    reader.add_argument("--json", action="store_true", help="For machines.")
    asked = reader.parse_args(words)
    try:
        key = None if asked.key is None else _given([asked.key])[0]
        given = None if asked.arguments is None else asked.arguments.read_bytes()
        found = verify(asked.receipt.read_bytes(), key, _given(asked.witness), asked.quorum, given)
    except (OSError, UnicodeError, LookupError) as error:
        print(f"A file cannot be read: {error}", file=sys.stderr)  # noqa: T201
        return 2
    lines = [json.dumps(found._asdict())] if asked.json else _words(found)
    print("\n".join(lines))  # noqa: T201
    return 0 if found.holds else 1


def _words(found: Verdict) -> list[str]:
    if not found.holds:
        return [f"The receipt does not hold: {_plain(found.problem)}."]
    return [
        "The receipt holds.",
        *(f"  {_plain(line)}" for line in found.summary),
        *(f"  verified      {_plain(text)}" for _, text in found.verified),
        *(f"  not verified  {_plain(text)}" for _, text in found.not_verified),
    ]
