"""Keys and signatures of devices that are no honest ones: points of small order, second spellings, other algorithms."""

import base64

import pytest

from callgate import ed25519
from callgate.approval.device import thumbprint
from support.devices import Phone, ask
from support.registry import requirement
from support.table import rows

ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19
EIGHTH = (
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
)
SMALL = [*(y.to_bytes(32, "little") for y in (0, 1, PRIME - 1, PRIME, PRIME + 1)), *map(bytes.fromhex, EIGHTH)]
SIGNED = [*SMALL, *(one[:31] + bytes([one[31] | 0x80]) for one in SMALL)]
# The identity, and zero: what verifies under a key of small order where nobody looks at the key.
MADE_UP = (1).to_bytes(32, "little") + bytes(32)


def b64(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.fixture
async def anna(console):
    return await console.sign_in("anna", role="approver")


@rows("key", SIGNED)
async def test_a_key_of_small_order(console, anna, key):
    """Whoever enrols one could be answered for by anybody."""
    phone = await Phone.made(console, "anna")
    phone.device.public = b64(key)
    phone.device.sign = lambda *_: b64(MADE_UP)
    answer = await phone.enrol(anna)
    assert answer.reason == "verification_failed"
    with pytest.raises(ValueError, match="Ed25519"):
        ed25519.public_key(key)
    assert not ed25519.verifies(key, MADE_UP, b"anything")


@rows("key", [b"", bytes(31), b"\x07" * 33, (PRIME + 5).to_bytes(32, "little")])
async def test_a_key_of_another_length_or_spelling(console, anna, key):
    phone = await Phone.made(console, "anna")
    phone.device.public = b64(key)
    assert (await phone.enrol(anna)).reason == "verification_failed"


def test_small_keys_can_be_made_to_verify_by_others():
    """So the test above tests something: the library alone takes such a signature."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    identity = (1).to_bytes(32, "little")
    Ed25519PublicKey.from_public_bytes(identity).verify(MADE_UP, b"anything")


@requirement("VA-181")
async def test_a_signature_spelt_otherwise(console, anna):
    phone = await Phone.enrolled(console, anna)
    asked = await ask(console)
    good = phone.signed(await phone.call(asked))
    response = good["evidence"]["response"]
    raw = base64.urlsafe_b64decode(response["signature"] + "==")
    scalar = int.from_bytes(raw[32:], "little")
    last = response["signature"][-1]
    spelt = {
        "another scalar": (b64(raw[:32] + (scalar + ORDER).to_bytes(32, "little")), "signature_verification_failed"),
        "a byte more": (b64(raw + b"\0"), "missing_evidence"),
        "a byte less": (b64(raw[:-1]), "missing_evidence"),
        "padded": (response["signature"] + "==", "missing_evidence"),
        "other last bits": (response["signature"][:-1] + chr(ord(last) + 1), "missing_evidence"),
        "other alphabet": ("+" + response["signature"][1:], "missing_evidence"),
        "none": ("", "missing_evidence"),
        "a number": (7, "missing_evidence"),
    }
    for name, (signature, reason) in spelt.items():
        body = {**good, "evidence": good["evidence"] | {"response": response | {"signature": signature}}}
        assert (await phone.send("answer", body)).reason == reason, name
    assert (await phone.send("answer", good)).json == {"state": "approved"}


async def test_members_of_other_kinds(console, anna):
    """Nothing is guessed: what has another shape is no evidence."""
    phone = await Phone.enrolled(console, anna)
    good = phone.signed(await phone.call(await ask(console)))
    response = good["evidence"]["response"]
    for name, value in (
        *(("decision", value) for value in (True, "Yes", "YES", "y", "", None, 1, ["yes"])),
        *(("time", value) for value in (True, "1", -1, 0, 1.5, 2**53, 2**70, None)),
        *(("alg", value) for value in ("none", "HS256", "ES256")),
        ("public_key", phone.device.public),
    ):
        body = {**good, "evidence": good["evidence"] | {"response": response | {name: value}}}
        assert (await phone.send("answer", body)).reason == "missing_evidence", (name, value)
    for name in response:
        less = {key: value for key, value in response.items() if key != name}
        answer = await phone.send("answer", {**good, "evidence": good["evidence"] | {"response": less}})
        assert answer.status >= 400, name
    assert (await phone.send("answer", good)).json == {"state": "approved"}


async def test_a_passkeys_key_as_a_devices(console, anna):
    """A passkey's id where a device's belongs, and a device's where a passkey's belongs."""
    asked = await ask(console)
    phone = await Phone.enrolled(console, anna)
    call = await phone.call(asked)
    body = phone.signed(call)
    body["evidence"]["response"]["key"] = anna.credential.id
    assert (await phone.send("answer", body)).status >= 400
    passkey = await console.signed(asked, anna)
    for evidence in (
        {"method": "webauthn", "challengeId": passkey["challengeId"], "response": passkey["response"]},
        {"method": "device", "challengeId": passkey["challengeId"], "response": passkey["response"]},
    ):
        assert (await phone.send("answer", {"request": asked.id, "evidence": evidence})).status >= 400
    # The device's challenge, answered by the passkey on the page.
    crossed = {"challengeId": call["challengeId"], "response": passkey["response"]}
    assert (await console.post(f"/approve/{asked.id}/approve", crossed, anna)).reason == "unknown_credential"
    # The device's own id in a passkey's answer: its key is read as what it is, and never as a passkey's.
    named = {"challengeId": call["challengeId"], "response": passkey["response"] | {"id": phone.id, "rawId": phone.id}}
    assert (await console.post(f"/approve/{asked.id}/approve", named, anna)).reason == "unknown_credential"
    assert (await console.stored(asked)).state == "waiting"


def test_the_name_of_a_key():
    """RFC 8037, appendix A.3."""
    key = base64.urlsafe_b64decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
    assert thumbprint(key) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
