"""Whoever holds the log's keys writes down an approval that no passkey gave."""

import asyncio
import hashlib
import json

import msgspec
import pytest

from callgate.approval.action import from_base64url, to_base64url
from callgate.approval.evidence import check_proof
from callgate.approval.webauthn import MalformedResponse, NotVerified
from callgate.audit import ArgumentsPolicy, receipt
from callgate.canonical import canonical
from callgate.cli import run
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.auditing import decision, open_log
from support.enrolling import ORIGIN, approve, enrol, service
from support.memory import MemoryShelf
from support.table import rows

ARGUMENTS = {"name": "shopping"}
FORM = canonical(ARGUMENTS)


@pytest.fixture(scope="module")
def genuine():
    """What is on record of an approval by alice, and of one by mallory."""

    async def make():
        approvals = service(MemoryShelf())
        found = []
        for user in ("alice", "mallory"):
            _, key = await enrol(approvals, await approvals.ticket(user, by="operator"))
            found.append((await approve(approvals, key, ARGUMENTS, user=user)).facts)
        return found

    return asyncio.run(make())


@pytest.fixture
def facts(genuine):
    return json.loads(json.dumps(genuine[0]))


@pytest.fixture
def copied(facts):
    """Facts of its own for each row of a table."""
    return lambda: json.loads(json.dumps(facts))


def flipped(text):
    data = bytearray(from_base64url(text))
    data[-1] ^= 1
    return to_base64url(bytes(data))


def refused(facts, tool="delete_note", form=FORM):
    with pytest.raises((NotVerified, MalformedResponse)) as found:
        check_proof(facts, tool, form)
    return str(found.value)


def test_the_genuine_one_holds(facts):
    assert check_proof(facts, "delete_note", FORM).whole


@rows("part", ["client_data", "authenticator_data", "signature"])
def test_a_changed_assertion(copied, part):
    facts = copied()
    facts["assertion"][part] = flipped(facts["assertion"][part])
    refused(facts)


def test_another_persons_public_key(facts, genuine):
    facts["public_key"] = genuine[1]["public_key"]
    assert "the signature does not match" in refused(facts)


def test_another_calls_signature(facts, genuine):
    facts["assertion"] = genuine[1]["assertion"]
    assert "another challenge was signed" in refused(facts)


def test_other_arguments_on_record(facts):
    assert "another call" in refused(facts, form=canonical({"name": "everything"}))


def test_another_tool_on_record(facts):
    assert "another call" in refused(facts, tool="delete_all")


def test_another_server_on_record(facts):
    facts["server_id"] = "urn:test:other"
    assert "another call" in refused(facts)


def test_an_action_hash_that_fits_the_record_and_not_the_signature(facts):
    facts["action_hash"] = to_base64url(hashlib.sha256(b"x").digest())
    assert "another challenge was signed" in refused(facts)


def test_the_border_between_nonce_and_hash_moved(facts):
    both = from_base64url(facts["nonce"]) + from_base64url(facts["action_hash"])
    facts["nonce"], facts["action_hash"] = to_base64url(both[:31]), to_base64url(both[31:])
    assert "another call" in refused(facts)


def test_a_signature_of_a_sign_in_is_no_approval_of_a_call():
    async def make():
        approvals = service(MemoryShelf())
        _, key = await enrol(approvals, await approvals.ticket("alice", by="operator"))
        approved = await approve(approvals, key, ARGUMENTS)
        issued = await approvals.begin_sign_in("alice")
        return approved.facts, issued, key.get(issued.result["requestOptions"])

    facts, issued, answer = asyncio.run(make())
    facts["nonce"] = to_base64url(issued.challenge.nonce)
    facts["action_hash"] = to_base64url(issued.challenge.action_hash)
    facts["assertion"] = {
        "client_data": answer["response"]["clientDataJSON"],
        "authenticator_data": answer["response"]["authenticatorData"],
        "signature": answer["response"]["signature"],
    }
    facts["counter"] = int.from_bytes(from_base64url(answer["response"]["authenticatorData"])[33:37], "big")
    assert "another call" in refused(facts)


@rows(
    ("bend", "why"),
    [
        ({"uv": False}, "not verified"),
        ({"up": False}, "no person"),
        ({"rp_id": "evil.example"}, "relying party"),
        ({"origin": "https://evil.example"}, "another origin"),
        ({"type": "webauthn.create"}, "something else"),
        ({"cross_origin": True}, "inside a page"),
        ({"tamper_signature": True}, "the signature does not match"),
    ],
)
def test_a_signature_that_the_gateway_would_have_refused(copied, bend, why):
    facts = copied()
    key = SoftwareAuthenticator(ORIGIN)
    created = key.create(
        {
            "rp": {"id": "localhost"},
            "user": {"id": "AAAA"},
            "challenge": "AAAA",
            "pubKeyCredParams": [{"type": "public-key", "alg": -7}],
        }
    )
    challenge = to_base64url(from_base64url(facts["nonce"]) + from_base64url(facts["action_hash"]))
    answer = key.get({"challenge": challenge, "rpId": "localhost"}, **bend)["response"]
    data = from_base64url(created["response"]["authenticatorData"])
    facts["public_key"] = to_base64url(data[37 + 16 + 2 + 32 :])
    facts["credential"] = created["id"]
    facts["counter"] = 2
    facts["assertion"] = {
        "client_data": answer["clientDataJSON"],
        "authenticator_data": answer["authenticatorData"],
        "signature": answer["signature"],
    }
    assert why in refused(facts)


@rows("name", ["counter", "backed_up", "origin", "rp_id"])
def test_what_the_record_says_of_the_signature_is_what_was_signed(copied, name):
    facts = copied()
    facts[name] = {"counter": 99, "backed_up": True, "origin": "http://localhost:1", "rp_id": "example.com"}[name]
    refused(facts)


@rows(
    "change",
    [
        *({name: None} for name in ("public_key", "nonce", "action_hash", "assertion", "credential", "counter")),
        {"public_key": "AAAA"},
        {"public_key": "%"},
        {"nonce": 1},
        {"assertion": []},
        {"assertion": {"client_data": "e30", "authenticator_data": "", "signature": ""}},
        {"origin": "http://["},
        {"rp_id": ""},
    ],
)
def test_malformed_facts_are_refused_and_never_crash(facts, change):
    refused(facts | change)


def test_facts_of_any_shape():
    for odd in (None, 1, [], "x", {}, {"assertion": {}}, {"method": "webauthn"}):
        refused(odd)


def test_every_byte_of_the_signed_parts(facts):
    for part in ("client_data", "authenticator_data", "signature"):
        data = from_base64url(facts["assertion"][part])
        for at in range(len(data)):
            changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            one = facts | {"assertion": facts["assertion"] | {part: to_base64url(changed)}}
            refused(one)


def test_a_log_with_a_forged_approval_signed_by_its_own_key(facts, tmp_path, monkeypatch, capsys):
    """The log's signature is right, the record is in the tree: only the passkey tells."""
    monkeypatch.chdir(tmp_path)
    facts["assertion"]["signature"] = flipped(facts["assertion"]["signature"])
    kept, args_hash = ArgumentsPolicy("whole").store("notes", "delete_note", ARGUMENTS)
    record = decision(1, tool="delete_note", arguments=kept, args_hash=args_hash, extra={"approval": facts})
    log = open_log(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "keys")
    with log.store.audit_writing() as tables:
        tables.insert(log.row(record))
    log.catch_up()
    with log.store.audit_reading() as tables:
        made = receipt.encode(receipt.make(tables, record.call, log.keyring.public_keys()))
    log.store.close_sync()
    (tmp_path / "receipt.json").write_bytes(made)
    assert receipt.verify(made).decision == msgspec.json.decode(msgspec.json.encode(record), type=type(record)), (
        "the log by itself holds"
    )
    assert run(["audit", "verify", "--receipt", "receipt.json"]) == 1
    said = capsys.readouterr()
    assert "The receipt holds" not in said.out
    assert "the approval in the receipt does not hold: the signature does not match" in said.err
