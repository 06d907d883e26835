"""The vectors of docs/reference/device-vectors.json: the gateway and the reference client both make them, and every other
message is refused."""

import json
from pathlib import Path

import msgspec
import pytest

from callgate import ed25519
from callgate.approval import device
from callgate.approval.action import action_hash, from_base64url, to_base64url
from callgate.approval.model import Challenge, Credential
from callgate.approval.webauthn import NotVerified
from support.devices import client
from support.registry import requirement
from support.table import rows

VECTORS = json.loads((Path(__file__).resolve().parents[3] / "docs/reference/device-vectors.json").read_text("utf-8"))
KEY, GATEWAY, SIGNED = VECTORS["key"], VECTORS["gateway"]["gateway"], VECTORS["signed"]
PUBLIC = bytes.fromhex(KEY["public"])


def reference():
    return client.Device(GATEWAY, "http://localhost", "ann", "Pixel €", KEY["secret"])


@requirement("VA-181")
def test_names_and_hashes():
    made = reference()
    assert (made.public, made.thumbprint) == (KEY["publicKey"], KEY["thumbprint"])
    assert device.thumbprint(PUBLIC) == KEY["thumbprint"]
    assert device.gateway_id(VECTORS["gateway"]["deployment"]) == GATEWAY
    action = VECTORS["action"]
    hashed = action_hash(action["tool"], action["arguments"].encode(), action["server_id"])
    assert to_base64url(hashed) == action["actionHash"]


@rows("vector", SIGNED)
def test_what_is_signed(vector):
    text = device.signed_bytes(vector["purpose"], vector["message"])
    assert text == vector["signed"].encode()
    assert reference().sign(vector["purpose"], vector["message"]) == vector["signature"]
    assert ed25519.verifies(PUBLIC, from_base64url(vector["signature"]), text)
    for other in {"enrol", "ask", "answer"} - {vector["purpose"]}:
        wrong = device.signed_bytes(other, vector["message"])
        assert not ed25519.verifies(PUBLIC, from_base64url(vector["signature"]), wrong)


def test_the_line():
    found = device.read_enrolment(VECTORS["line"], GATEWAY, "ann")
    assert found == device.NewDevice(KEY["thumbprint"], PUBLIC, "Pixel €", SIGNED[0]["message"]["time"])
    for gateway, user in ((GATEWAY, "ben"), ("A" * 43, "ann")):
        with pytest.raises(NotVerified):
            device.read_enrolment(VECTORS["line"], gateway, user)


@rows("vector", [one for one in SIGNED if one["purpose"] == "answer"])
def test_answers(vector):
    message = vector["message"]
    challenge = Challenge(
        id=message["challengeId"],
        user="ann",
        server="notes",
        tool="delete_note",
        canonical=b"{}",
        nonce=from_base64url(message["nonce"]),
        action_hash=from_base64url(message["actionHash"]),
        allowed=(KEY["thumbprint"],),
        display_text="",
        created_at=message["time"] - 1,
        expires_at=message["time"] + 60_000,
        gateway=GATEWAY,
    )
    held = Credential(KEY["thumbprint"], "ann", b"", PUBLIC, 1, (), method="device", voucher="x")
    response = {name: message[name] for name in ("key", "time", "decision")} | {"signature": vector["signature"]}
    answer = device.read_answer(response)
    signed = device.check_answer(answer, challenge, held)
    assert (signed.yes, signed.counter) == (message["decision"] == "yes", message["time"])
    # A challenge that is for passkeys is none for a device.
    with pytest.raises(NotVerified):
        device.check_answer(answer, msgspec.structs.replace(challenge, gateway=""), held)


@rows("ask", [one for one in SIGNED if one["purpose"] == "ask"])
def test_asking(ask):
    message = ask["message"]
    held = Credential(KEY["thumbprint"], "ann", b"", PUBLIC, 1, (), method="device")
    body = device.AskBody(KEY["thumbprint"], message["time"], ask["signature"], message["request"])
    device.check_ask(body, message["ask"], GATEWAY, held, message["time"])
    other = "call" if message["ask"] == "waiting" else "waiting"
    for what, gateway, now in (
        (other, GATEWAY, message["time"]),
        (message["ask"], "A" * 43, message["time"]),
        (message["ask"], GATEWAY, message["time"] + 60_001),
        (message["ask"], GATEWAY, message["time"] - 60_001),
    ):
        with pytest.raises(NotVerified):
            device.check_ask(body, what, gateway, held, now)


@rows("key", VECTORS["refused_keys"])
def test_keys_that_nobody_may_enrol(key):
    with pytest.raises(ValueError, match="Ed25519"):
        ed25519.public_key(bytes.fromhex(key))
