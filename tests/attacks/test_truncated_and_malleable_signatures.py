"""Cut a signature, lengthen it, or turn it into another one that verifies as well, to pass for a new request."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from callgate.agents.keys import PublicKey
from callgate.errors import Refused
from callgate.store.memory import MemoryAgents
from support.registry import requirement
from support.signed_requests import public, refusal, replacing, request, sign, verify
from support.table import rows

N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
L = 2**252 + 27742317777372353535851937790883648493


def resigned(signed, edit):
    """With the bytes of the signature edited."""

    def changed(text):
        raw = base64.b64decode(text.removeprefix(b"sig1=:").removesuffix(b":"))
        return b"sig1=:" + base64.b64encode(edit(raw)) + b":"

    return replacing(signed, "signature", changed)


@rows("kind", ["ed25519", "p256", "rsa"])
@requirement("WB-071")
async def test_cut_and_lengthened(kind):
    signed = sign(request(), kind=kind)
    keys = [public(kind)]
    assert await verify(signed, keys=keys)
    edits = [lambda raw, at=at: raw[:at] for at in (1, 32, 63, -1)]
    edits += [lambda raw: raw + b"\0", lambda raw: b"\0" + raw, lambda raw: raw + raw, lambda raw: raw[::-1]]
    edits += [lambda raw: raw[1:], lambda raw: b"\0" * len(raw), lambda raw: b"\xff" * len(raw)]
    for edit in edits:
        assert await refusal(resigned(signed, edit), keys=keys) == (401, "signature_invalid")


@requirement("WB-087")
async def test_the_mirror_of_an_ecdsa_signature_is_the_same_request():
    shelf = MemoryAgents()
    keys = [public("p256")]
    signed = sign(request(), kind="p256")

    def mirrored(raw):
        return raw[:32] + (N - int.from_bytes(raw[32:], "big")).to_bytes(32, "big")

    mirror = resigned(signed, mirrored)
    assert mirror != signed
    assert await verify(signed, keys=keys, nonces=shelf)
    # It verifies, as with everybody who does ECDSA; what it signs came before, and that is what is remembered.
    assert await refusal(mirror, keys=keys, nonces=shelf) == (401, "nonce_replay")


@requirement("WB-071")
async def test_ecdsa_numbers_out_of_range_and_in_another_encoding():
    signed = sign(request(), kind="p256")
    whole = {
        "r too large": lambda raw: (int.from_bytes(raw[:32], "big") + N).to_bytes(33, "big")[-32:] + raw[32:],
        "s zero": lambda raw: raw[:32] + bytes(32),
        "r zero": lambda raw: bytes(32) + raw[32:],
        "s is n": lambda raw: raw[:32] + N.to_bytes(32, "big"),
        "der": lambda raw: encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")),
    }
    for edit in whole.values():
        assert await refusal(resigned(signed, edit), keys=[public("p256")]) == (401, "signature_invalid")


@requirement("WB-071")
async def test_an_ed25519_signature_with_its_number_one_order_further():
    def further(raw):
        return raw[:32] + (int.from_bytes(raw[32:], "little") + L).to_bytes(32, "little")

    assert await refusal(resigned(sign(request()), further)) == (401, "signature_invalid")


@requirement("WB-087")
async def test_another_spelling_of_the_same_bytes_is_the_same_request():
    shelf = MemoryAgents()
    signed = sign(request())
    assert await verify(signed, nonces=shelf)
    unpadded = replacing(signed, "signature", lambda text: text.replace(b"==:", b":"))
    spaced = replacing(signed, "signature", lambda text: b" " + text + b";x=1")
    for again in (unpadded, spaced):
        assert again != signed
        assert await refusal(again, nonces=shelf) == (401, "nonce_replay")


def test_keys_under_which_anything_verifies_are_no_keys():
    for point in (b"\x01" + bytes(31), bytes(32), b"\xec" + b"\xff" * 30 + b"\x7f", b"\x01" + bytes(30) + b"\x80"):
        x = base64.urlsafe_b64encode(point).rstrip(b"=").decode()
        with pytest.raises(Refused):
            PublicKey.read({"kty": "OKP", "crv": "Ed25519", "x": x})
