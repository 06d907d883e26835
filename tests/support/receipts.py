"""Receipts that hold, and the same ones with one thing changed, for everything that verifies receipts."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from callgate.approval import ApprovalPolicy, device
from callgate.approval.action import from_base64url, to_base64url
from callgate.approval.delegation import GrantCondition, GrantedAgent, GrantTerms
from callgate.audit import ArgumentsPolicy, note, receipt
from callgate.audit.cosigning import Witnesses
from callgate.audit.note import VerifierKey
from callgate.audit.storage import Archived
from support.auditing import decision, fill, open_log, outcome
from support.enrolling import approve, enrol, service
from support.memory import MemoryShelf
from support.witnessing import log_key

ARGUMENTS: dict[str, Any] = {"name": "shopping \u20ac", "count": 1.5, "parts": [2, None, {"b": 1, "a": True}]}
# Numbers that RFC 8785 writes otherwise than most.
ODD: dict[str, Any] = {
    "n": [1e21, 1e-7, 5e-324, -0.0, 123456789012345680000.0, 1e20, 0.000001, 100.0],
    "\U0001f600": 1,
    "\uffff": 2,
}
SECRET = {"name": "shopping", "api_key": "hunter2"}


class ReceiptCase(NamedTuple):
    """A receipt, and what is given to whoever verifies it."""

    name: str
    document: bytes
    holds: bool
    options: dict[str, Any]


def approvals_of(*users: str, arguments: Any = ARGUMENTS) -> list[dict[str, Any]]:
    """What is on record of approvals of one call by these people."""

    async def make() -> list[dict[str, Any]]:
        approvals = service(MemoryShelf())
        found = []
        for user in users:
            _, key = await enrol(approvals, await approvals.ticket(user, by="operator"))
            found.append(dict((await approve(approvals, key, arguments, user=user)).facts))
        return found

    return asyncio.run(make())


def by_device(user: str, like: dict[str, Any], secret: int, **bend: Any) -> dict[str, Any]:
    """What is on record where a device approved the same call; `bend` changes what it signs."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([secret]) * 32)
    public = key.public_key().public_bytes_raw()
    facts = {
        "method": "device",
        "user": user,
        "credential": device.thumbprint(public),
        "public_key": to_base64url(public),
        "counter": 1_800_000_000_000,
        "challenge": like["challenge"],
        "nonce": like["nonce"],
        "action_hash": like["action_hash"],
        "device": "Pixel",
        "gateway": "A" * 43,
        "decision": "yes",
        "voucher": like["credential"],
        "server_id": like["server_id"],
    }
    message = device.answer_message(
        gateway=facts["gateway"],
        key=facts["credential"],
        challenge=facts["challenge"],
        nonce=from_base64url(facts["nonce"]),
        action_hash=from_base64url(facts["action_hash"]),
        decision="yes",
        time=facts["counter"],
    )
    purpose = bend.pop("purpose", "answer")
    return facts | {"signature": to_base64url(key.sign(device.signed_bytes(purpose, message | bend)))}


def _devices(phone: dict[str, Any], other: dict[str, Any], ann: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Answers of devices that do not hold."""
    texts = ("challenge", "gateway", "credential")
    small = to_base64url((1).to_bytes(32, "little"))
    made_up = to_base64url((1).to_bytes(32, "little") + bytes(32))
    found = {f"another {name} of the device": {**phone, name: _flipped(phone[name])} for name in texts}
    found |= {f"no {name} of the device": {**phone, name: ""} for name in ("user", "device", *texts)}
    return found | {
        "another key of the device": {**phone, "public_key": other["public_key"]},
        "another device's key": {**phone, "public_key": other["public_key"], "credential": other["credential"]},
        "another signature of the device": {**phone, "signature": _flipped(phone["signature"])},
        "another nonce of the device": {**phone, "nonce": _flipped(phone["nonce"])},
        "another action of the device": {**phone, "action_hash": _flipped(phone["action_hash"])},
        "another time of the device": {**phone, "counter": phone["counter"] + 1},
        "no time of the device": {**phone, "counter": "1800000000000"},
        "a no of the device": {**phone, "decision": "no"},
        "a no that was signed": {**by_device("ann", ann, 1, decision="no"), "decision": "yes"},
        "signed for asking": by_device("ann", ann, 1, purpose="ask"),
        "signed for another method": by_device("ann", ann, 1, method="webauthn"),
        "a small key of the device": {
            **phone,
            "public_key": small,
            "credential": device.thumbprint((1).to_bytes(32, "little")),
            "signature": made_up,
        },
        "a passkey's key as a device's": {**phone, "public_key": ann["public_key"]},
        "another server of the device": {**phone, "server_id": "urn:other"},
        "one person with passkey and device": several(ann, phone, wanted=2),
        "one device twice": several(phone, {**phone, "user": "ben"}, wanted=2),
    }


def several(*signed: dict[str, Any], wanted: int) -> dict[str, Any]:
    """The same for a call that several people had to approve."""
    alone = [{name: value for name, value in one.items() if name != "server_id"} for one in signed]
    return {"user": "ops", "server_id": signed[0]["server_id"], "approvals": wanted, "signatures": alone}


BOUNDS: Final = (
    ("name", "one_of", ["shopping", "diary"]),
    ("old", "equals", {"n": [1, 0.5]}),
    ("days", "at_most", "30.5"),
    ("days", "at_least", "-1"),
    ("path", "starts_with", "/srv/"),
    ("note", "anything", None),
)
GRANTED: Final = {"name": "shopping", "old": {"n": [1, 0.5]}, "days": 30.5, "path": "/srv/x", "note": "\U0001f600"}
# Each is not within.
BEYOND: Final = (
    {"name": "other"},
    {"old": {"n": [1, 0.25]}},
    {"days": 30.500001},
    {"days": -1.5},
    {"days": "1"},
    {"path": "/srx"},
    {"more": 1},
)


def granted(*, conditions: Sequence[tuple[str, Any, Any]] = BOUNDS, **changes: Any) -> dict[str, Any]:
    """What is on record of a call under a grant; `changes` are of the terms."""

    async def make() -> dict[str, Any]:
        approvals = service(MemoryShelf())
        _, key = await enrol(approvals, await approvals.ticket("ann", by="operator"))
        arguments = tuple(GrantCondition(*one) for one in conditions)
        # Who is the server of the ceremonies.
        server_id = (await approve(approvals, key, ARGUMENTS, user="ann")).facts["server_id"]
        now = approvals.now()
        terms = GrantTerms(
            **{
                "id": "grant-1",
                "person": "ann",
                "agent": GrantedAgent("api-key", "reports", "0123456789ab"),
                "server": "notes",
                "server_id": server_id,
                "tool": "delete_note",
                "tool_hash": "ab" * 32,
                "arguments": arguments,
                "calls": 3,
                "begins": now,
                "ends": now + 86_400_000,
            }
            | changes
        )
        issued = await approvals.begin_grant(terms, ApprovalPolicy("platform"))
        response = key.get(dict(issued.result["requestOptions"], allowCredentials=[]))
        evidence = {"method": "webauthn", "challengeId": issued.challenge.id, "response": response}
        made = await approvals.finish_grant("ann", evidence, terms)
        return {
            "method": "grant",
            "grant": terms.id,
            "user": "ann",
            "server_id": server_id,
            "terms": terms.canonical.decode(),
            "signature": made.evidence,
            "used": {"calls": 1},
            "left": {"calls": 2},
        }

    return asyncio.run(make())


def cases(folder: Path) -> list[ReceiptCase]:
    """Good ones first; each other has one thing changed, by whoever has the file or by whoever has the log's keys."""
    log = open_log(f"sqlite:///{folder / 'store.db'}", folder / "keys")
    ann, ben, cid = approvals_of("ann", "ben", "cid")
    (hidden,), (odd,) = approvals_of("ann", arguments=SECRET), approvals_of("ann", arguments=ODD)
    phone, tablet = by_device("ann", ann, 1), by_device("ann", ann, 2)
    whole = ArgumentsPolicy("whole").store("notes", "delete_note", ARGUMENTS)
    told = {
        "approved": ({"approval": ann, "trust": {"rule": "ask-first"}}, whole),
        "two people": ({"approval": several(ann, ben, wanted=2)}, whole),
        "hashed": ({"approval": hidden}, ArgumentsPolicy("hashed").store("notes", "delete_note", SECRET)),
        "odd numbers": ({"approval": odd}, ArgumentsPolicy("redacted").store("notes", "delete_note", ODD)),
        "nobody asked": (None, whole),
        "another way": ({"approval": {"method": "spoken", "user": "ann"}}, whole),
        "device": ({"approval": phone}, whole),
        "device and passkey": ({"approval": several(phone, ben, wanted=2)}, whole),
    }
    beyond = {
        name: ArgumentsPolicy("whole").store("notes", "delete_note", GRANTED | one) for name, one in _named(BEYOND)
    }
    within = ArgumentsPolicy("whole").store("notes", "delete_note", GRANTED)
    grant = granted()
    told |= {
        "a grant": ({"approval": grant}, within),
        "a grant, hashed": ({"approval": grant}, ArgumentsPolicy("hashed").store("notes", "delete_note", GRANTED)),
    }
    under = {
        "another grant": {**grant, "terms": granted(id="grant-2")["terms"]},
        "a wider grant": {**grant, "terms": grant["terms"].replace('"30.5"', '"99.5"')},
        "a grant of another number": {**grant, "grant": "grant-2"},
        "a grant of somebody else": {**grant, "user": "ben"},
        "a grant for another tool": granted(tool="read_note"),
        "a grant for another server": granted(server_id="urn:other") | {"server_id": grant["server_id"]},
        "a grant with the signature of a call": {**grant, "signature": ann},
        "a grant without terms": {**grant, "terms": None},
        "a grant that is no object": {**grant, "terms": "1"},
    }
    bad = {
        f"{part} of the assertion": {**ann, "assertion": {**ann["assertion"], part: _flipped(ann["assertion"][part])}}
        for part in ann["assertion"]
    }
    bad |= {
        "another's key": {**ann, "public_key": ben["public_key"]},
        "another counter": {**ann, "counter": ann["counter"] + 1},
        "backed up": {**ann, "backed_up": True},
        "another origin": {**ann, "origin": "http://localhost:1"},
        "another site": {**ann, "rp_id": "example.com"},
        "another nonce": {**ann, "nonce": _flipped(ann["nonce"])},
        "another action": {**ann, "action_hash": _flipped(ann["action_hash"])},
        "another server": {**ann, "server_id": "urn:other"},
        "one person twice": several(ann, ann, wanted=2),
        "one of two": several(ann, wanted=2),
        "one of two is false": several(ann, {**ben, "public_key": cid["public_key"]}, wanted=2),
        **_devices(phone, tablet, ann),
        "another call of another": several(ann, hidden | {"user": "eve"}, wanted=2),
    }
    records = [(extra, kept, True) for extra, kept in told.values()]
    records += [({"approval": one}, whole, False) for one in bad.values()]
    records += [({"approval": one}, within, False) for one in under.values()]
    records += [({"approval": grant}, one, False) for one in beyond.values()]
    records += [({"approval": ann}, ArgumentsPolicy("whole").store("notes", "delete_note", {"name": "all"}), False)]
    with log.store.audit_writing() as tables:
        for number, (extra, (kept, args_hash), _) in enumerate(records, 1):
            record = decision(
                number, tool="delete_note", server="notes", arguments=kept, args_hash=args_hash, extra=extra
            )
            tables.insert(log.row(record))
            tables.insert(log.row(outcome(number)))
    fill(log, 5, first=100)
    log.catch_up()
    witnesses = _cosign(log)
    given = {"key": str(log_key(log)), "witnesses": [str(key) for key in witnesses.keys], "quorum": 2}
    found: list[ReceiptCase] = []
    with log.store.audit_reading() as tables:
        keys = log.keyring.public_keys()
        for number, (name, (_, _, holds)) in enumerate(
            zip([*told, *bad, *under, *beyond, "another call"], records, strict=True), 1
        ):
            made = receipt.encode(receipt.make(tables, decision(number).call, keys, witnesses))
            found.append(ReceiptCase(name, made, holds, given))
    log.store.close_sync()  # type: ignore[attr-defined]
    return [*found, *_by_options(found, given), *_by_hand(found[0], found[1], given)]


def _named(changes: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"beyond a grant: {one}", one) for one in changes]


def _cosign(log: Any) -> Witnesses:
    with log.store.audit_writing() as tables:
        head = tables.head()
        signed, keys = head.note, []
        for name in ("w.example/one", "w.example/two"):
            signer = Ed25519PrivateKey.generate()
            signed = note.with_lines(signed, note.cosign(head.note, name, signer, 1_800_000_000))
            keys.append(VerifierKey(name, signer.public_key().public_bytes_raw(), note.WITNESS))
        tables.put_archived(Archived(head.size, note.parse(head.note).at, signed))
    return Witnesses(tuple(keys), 2)


def _by_options(found: list[ReceiptCase], given: dict[str, Any]) -> Iterator[ReceiptCase]:
    document, stranger = found[0].document, Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    other = str(VerifierKey("w.example/three", stranger, note.WITNESS))
    own = VerifierKey.parse(given["key"])
    yield ReceiptCase("nothing given", document, True, {})
    yield ReceiptCase(
        "one of three witnesses missing", document, True, {"witnesses": [*given["witnesses"], other], "quorum": 2}
    )
    yield ReceiptCase("all of three witnesses", document, False, {"witnesses": [*given["witnesses"], other]})
    yield ReceiptCase("more witnesses than keys", document, False, {**given, "quorum": 3})
    yield ReceiptCase("one witness twice", document, False, {"witnesses": given["witnesses"][:1] * 2, "quorum": 2})
    yield ReceiptCase(
        "the log as a witness", document, False, {"witnesses": [str(VerifierKey("w", own.public, note.WITNESS))]}
    )
    yield ReceiptCase("a log's key as a witness", document, False, {"witnesses": [given["key"]]})
    yield ReceiptCase("another log's key", document, False, {"key": str(VerifierKey(own.name, stranger))})
    hidden = found[2].document
    yield ReceiptCase("hashed arguments given", hidden, True, {**given, "arguments": json.dumps(SECRET)})
    yield ReceiptCase("other arguments given", hidden, False, {**given, "arguments": '{"name": "x"}'})


def _by_hand(good: ReceiptCase, other: ReceiptCase, given: dict[str, Any]) -> Iterator[ReceiptCase]:
    """Every member changed, one at a time."""
    value = json.loads(good.document)
    for path in _paths(value):
        for what, changed in _changes(value, path):
            yield ReceiptCase(f"{what} at {'.'.join(map(str, path))}", json.dumps(changed).encode(), False, given)
    text = good.document.decode()
    exact = json.dumps(value)
    yield ReceiptCase("written in one line", exact.encode(), True, given)
    assert '"ms": 5.0' in exact
    yield ReceiptCase("5.0 as 5", exact.replace('"ms": 5.0', '"ms": 5').encode(), False, given)
    yield ReceiptCase("1 as true", exact.replace('"v": 1,', '"v": true,', 1).encode(), False, given)
    yield ReceiptCase("a member twice", exact.replace('"call":', '"call": "x", "call":', 1).encode(), False, given)
    yield ReceiptCase("cut off", text[:-3].encode(), False, given)
    yield ReceiptCase("something behind it", (text + "{}").encode(), False, given)
    yield ReceiptCase("nothing", b"", False, given)
    yield ReceiptCase("deep", b"[" * 100_000, False, given)
    yield ReceiptCase(
        "another's outcome", _with(value, ["outcome"], json.loads(other.document)["outcome"]), False, given
    )
    bare = copy.deepcopy(value)
    bare["outcome"], bare["summary"][-1] = None, "Outcome: not in this receipt"
    yield ReceiptCase("without its outcome", json.dumps(bare).encode(), True, given)
    lines = value["checkpoint"].split("\n")
    yield ReceiptCase(
        "without the log's line", _with(value, ["checkpoint"], "\n".join(lines[:5] + lines[6:])), False, given
    )
    yield ReceiptCase(
        "without a witness's line", _with(value, ["checkpoint"], "\n".join([*lines[:-2], ""])), False, given
    )


def _with(value: Any, path: list[Any], new: Any) -> bytes:
    return json.dumps(_put(value, path, new)).encode()


def _put(value: Any, path: list[Any], new: Any) -> Any:
    changed = copy.deepcopy(value)
    at = changed
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = new
    return changed


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[list[Any]]:
    if path:
        yield list(path)
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in steps:
        yield from _paths(inner, (*path, name))


def _changes(value: Any, path: list[Any]) -> Iterator[tuple[str, Any]]:
    at: Any = value
    for step in path:
        at = at[step]
    if isinstance(at, bool):
        yield "the opposite", _put(value, path, not at)
    elif isinstance(at, str):
        last = at[-1:]
        yield "another text", _put(value, path, at[:-1] + ("A" if last != "A" else "B"))
        yield "more text", _put(value, path, at + "=")
    elif isinstance(at, int | float):
        yield "another number", _put(value, path, at + 1)
    elif at is None:
        yield "something", _put(value, path, 0)
    elif isinstance(at, dict):
        yield "a member more", _put(value, path, {**at, "zz": 1})
    else:
        yield "an item less", _put(value, path, at[:-1])
    removed = copy.deepcopy(value)
    holder = removed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    yield "nothing", removed


def _flipped(text: str) -> str:
    data = bytearray(from_base64url(text))
    data[-1] ^= 1
    return to_base64url(bytes(data))
