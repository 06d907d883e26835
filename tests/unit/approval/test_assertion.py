"""Step 10 of SEP-2672 §4.8: everything that a passkey's answer has to say before its signature counts."""

import json

import cbor2
import pytest

from callgate.approval.action import from_base64url, to_base64url
from callgate.approval.model import RelyingParty
from callgate.approval.webauthn import MalformedResponse, check_public_key
from callgate.errors import Reason, Refused
from support.ceremonies import ORIGIN, Scene, authenticator, evidence, resigned
from support.registry import requirement
from support.table import rows

FRAME = "https://frame.example"


async def enrolled(party=None, **more):
    scene = Scene(**({"party": party} if party else {}))
    key = authenticator(**more)
    await scene.enrol(key)
    return scene, key


async def refused_because(scene, given):
    """What the record says of a refusal; the caller hears only that the signature does not hold."""
    with pytest.raises(Refused) as refused:
        await scene.call(given)
    assert refused.value.reason is Reason.SIGNATURE_VERIFICATION_FAILED
    assert refused.value.message == Reason.SIGNATURE_VERIFICATION_FAILED.meaning
    return str(refused.value.__cause__)


@rows(
    ("bend", "why"),
    [
        pytest.param({"tamper_signature": True}, "signature", id="signature", marks=requirement("VA-114")),
        pytest.param({"type": "webauthn.create"}, "something else", id="type", marks=requirement("VA-115")),
        pytest.param({"challenge": bytes(64)}, "another challenge", id="challenge", marks=requirement("VA-116")),
        pytest.param({"origin": "http://evil.example"}, "another origin", id="origin", marks=requirement("VA-117")),
        pytest.param({"origin": ORIGIN + "0"}, "another origin", id="origin-prefix", marks=requirement("VA-117")),
        pytest.param({"cross_origin": True}, "inside a page", id="cross-origin", marks=requirement("VA-118")),
        pytest.param({"top_origin": FRAME}, "inside a page", id="top-origin", marks=requirement("VA-118")),
        pytest.param(
            {"cross_origin": True, "top_origin": FRAME}, "inside a page", id="frame", marks=requirement("VA-118")
        ),
        pytest.param({"rp_id": "evil.example"}, "another relying party", id="rp-id", marks=requirement("VA-119")),
        pytest.param({"up": False}, "no person was present", id="presence", marks=requirement("VA-120")),
        pytest.param({"uv": False}, "not verified", id="verification", marks=requirement("VA-121")),
        pytest.param({"backed_up": True}, "cannot be backed up", id="backed-up-without-eligible"),
        pytest.param({"user_handle": b"bob"}, "another person's", id="user-handle"),
        pytest.param({"client_data": {"crossOrigin": "no"}}, "cannot be read", id="client-data-types"),
        pytest.param({"client_data": {"origin": None}}, "cannot be read", id="client-data-without-origin"),
    ],
)
async def test_a_part_that_does_not_hold_is_refused(bend, why):
    scene, key = await enrolled()
    issued = await scene.issue()
    assert why in await refused_because(scene, evidence(issued, key, **bend))
    await scene.call(evidence(issued, key))


@requirement("VA-118")
async def test_a_frame_counts_where_its_page_is_listed_and_only_there():
    scene, key = await enrolled(RelyingParty("localhost", origins=(ORIGIN,), top_origins=(FRAME,)))
    await scene.call(evidence(await scene.issue(), key, cross_origin=True, top_origin=FRAME))
    other = evidence(await scene.issue(), key, cross_origin=True, top_origin="https://other.example")
    assert "inside a page" in await refused_because(scene, other)
    unnamed = evidence(await scene.issue(), key, cross_origin=True)
    assert "inside a page" in await refused_because(scene, unnamed)


async def test_a_rawid_of_another_credential_is_refused():
    scene, key = await enrolled()
    given = evidence(await scene.issue(), key)
    given["response"]["rawId"] = to_base64url(bytes(32))
    assert "different credentials" in await refused_because(scene, given)


def authenticator_data(response):
    return from_base64url(response["response"]["authenticatorData"])


def with_flags(data, *, on, rest=b""):
    return data[:32] + bytes([data[32] | on]) + data[33:] + rest


@rows(
    ("on", "rest", "why"),
    [
        pytest.param(0, b"\0", "bytes that nothing announces", id="unannounced"),
        pytest.param(0, cbor2.dumps({}), "bytes that nothing announces", id="unannounced-map"),
        pytest.param(0x80, b"", "extensions cannot be read", id="announced-and-missing"),
        pytest.param(0x80, b"\xff", "extensions cannot be read", id="not-cbor"),
        pytest.param(0x80, cbor2.dumps([1]), "not a map", id="not-a-map"),
        pytest.param(0x80, cbor2.dumps({"a": 1}) + b"\0", "extensions cannot be read", id="bytes-after-extensions"),
        pytest.param(0x40, bytes(18) + cbor2.dumps({1: 2}), "brings a new credential", id="attested-credential"),
    ],
)
async def test_nothing_unknown_follows_the_authenticator_data(on, rest, why):
    scene, key = await enrolled()
    given = evidence(await scene.issue(), key)
    data = with_flags(authenticator_data(given["response"]), on=on, rest=rest)
    assert why in await refused_because(scene, given | {"response": resigned(key, given["response"], data=data)})


async def test_extensions_are_taken_and_not_read():
    scene, key = await enrolled()
    given = evidence(await scene.issue(), key)
    data = with_flags(authenticator_data(given["response"]), on=0x80, rest=cbor2.dumps({"hmac-secret": b"x"}))
    await scene.call(given | {"response": resigned(key, given["response"], data=data)})


@rows("length", [0, 36])
async def test_authenticator_data_that_is_too_short_is_refused(length):
    scene, key = await enrolled()
    given = evidence(await scene.issue(), key)
    short = resigned(key, given["response"], data=authenticator_data(given["response"])[:length])
    if length:
        assert "too short" in await refused_because(scene, given | {"response": short})
    else:
        with pytest.raises(Refused) as refused:
            await scene.call(given | {"response": short})
        assert refused.value.reason is Reason.MISSING_EVIDENCE


@rows("algorithm", ["ES256", "EdDSA", "RS256"])
@requirement("VA-114")
async def test_each_algorithm_verifies_and_fails(algorithm):
    scene, key = await enrolled(algorithm=algorithm)
    issued = await scene.issue()
    assert "signature" in await refused_because(scene, evidence(issued, key, tamper_signature=True))
    for length in (1, 63, 300):
        given = evidence(issued, key)
        given["response"]["response"]["signature"] = to_base64url(bytes(length))
        assert "signature" in await refused_because(scene, given)
    await scene.call(evidence(issued, key))


async def test_the_signature_of_another_key_is_refused():
    scene, key = await enrolled()
    thief = authenticator()
    held = await scene.enrol(thief, "bob")
    issued = await scene.issue()
    mine = evidence(issued, key)
    stolen = thief.get({"challenge": issued.result["requestOptions"]["challenge"], "rpId": "localhost"})
    assert stolen["id"] == held.id
    mine["response"]["response"] = stolen["response"] | {"userHandle": mine["response"]["response"]["userHandle"]}
    assert "signature" in await refused_because(scene, mine)


async def test_a_stored_key_that_cannot_be_read_refuses_as_a_signature_that_fails():
    scene, key = await enrolled()
    (held,) = await scene.shelf.credentials("ann")
    scene.shelf.execute("UPDATE passkey SET public_key = ? WHERE id = ?", b"\xa0", held.id)
    assert "public key" in await refused_because(scene, evidence(await scene.issue(), key))


@rows(
    "cose",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x04", id="an-integer"),
        pytest.param(cbor2.dumps({}), id="empty"),
        pytest.param(cbor2.dumps([1, 2]), id="a-list"),
        pytest.param(cbor2.dumps({1: 2, 3: -7, -1: 1, -2: bytes(32), -3: bytes(32)}), id="not-on-the-curve"),
        pytest.param(cbor2.dumps({1: 2, 3: -7, -1: 1, -2: "text", -3: True}), id="not-bytes"),
        pytest.param(cbor2.dumps({1: 2, 3: -7, -1: 99, -2: bytes(32), -3: bytes(32)}), id="unknown-curve"),
        pytest.param(cbor2.dumps({1: 1, 3: -8, -1: 6, -2: bytes(31)}), id="short-ed25519"),
        pytest.param(cbor2.dumps({1: 3, 3: -257, -1: b"\xc1" * 128, -2: b"\1\0\1"}), id="rsa-1024"),
        pytest.param(cbor2.dumps({1: 3, 3: -37, -1: b"\xc1" * 256, -2: b"\1\0\1"}), id="rsa-pss"),
        pytest.param(cbor2.dumps({1: 99, 3: -7}), id="unknown-kind"),
    ],
)
def test_a_public_key_of_another_kind_is_malformed(cose):
    with pytest.raises(MalformedResponse):
        check_public_key(cose)


def test_an_algorithm_that_belongs_to_another_kind_of_key_is_malformed():
    key = authenticator()
    created = key.create(
        {"rp": {"id": "localhost"}, "user": {"id": "AA"}, "challenge": "AA", "pubKeyCredParams": [{"alg": -7}]}
    )
    data = cbor2.loads(from_base64url(created["response"]["attestationObject"]))["authData"]
    cose = cbor2.loads(data[55 + 32 :])
    check_public_key(cbor2.dumps(cose))
    for number in (-8, -35, -257, 0):
        with pytest.raises(MalformedResponse):
            check_public_key(cbor2.dumps(cose | {3: number}))


async def test_client_data_may_say_more_than_is_read():
    scene, key = await enrolled()
    more = {"other_keys_can_be_added_here": "x", "tokenBinding": {"status": "supported"}}
    await scene.call(evidence(await scene.issue(), key, client_data=more))


@rows("raw", [b"", b"[]", b'"x"', b"{", b"\xff\xfe", b"{}" + b" " * 12_000, b"[" * 10_000], ids=range(7))
async def test_client_data_that_cannot_be_read_is_refused(raw):
    scene, key = await enrolled()
    given = evidence(await scene.issue(), key)
    response = resigned(key, given["response"], client=raw or b"\0")
    assert "cannot be read" in await refused_because(scene, given | {"response": response})


async def test_client_data_is_utf_8_in_every_place():
    scene, key = await enrolled()
    given = evidence(await scene.issue(), key)
    said = from_base64url(given["response"]["response"]["clientDataJSON"])
    for more in (b'"x":"\xff",', b'"\xff":1,', b'"x":"\xed\xa0\x80",'):
        response = resigned(key, given["response"], client=b"{" + more + said[1:])
        assert "cannot be read" in await refused_because(scene, given | {"response": response})


async def test_client_data_with_a_padded_challenge_is_refused():
    scene, key = await enrolled()
    given = evidence(await scene.issue(), key)
    said = json.loads(from_base64url(given["response"]["response"]["clientDataJSON"]))
    padded = json.dumps(said | {"challenge": said["challenge"] + "=="}).encode()
    response = resigned(key, given["response"], client=padded)
    assert "another challenge" in await refused_because(scene, given | {"response": response})
