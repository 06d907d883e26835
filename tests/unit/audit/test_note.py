import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from callgate.audit.note import Checkpoint, VerifierKey, parse, sign, verify
from callgate.errors import AuditError, Tampered
from support.table import rows

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
CHECKPOINT = Checkpoint("callgate/test", 42, bytes(range(32)), 1_800_000_000_000)
NOTE = sign(CHECKPOINT, KEY)


def test_the_form_of_a_signed_checkpoint():
    lines = NOTE.split("\n")
    assert lines[:4] == ["callgate/test", "42", base64.b64encode(bytes(range(32))).decode(), "time 1800000000000"]
    assert lines[4] == ""
    assert lines[5].startswith("\u2014 callgate/test ")
    assert lines[6:] == [""]
    raw = base64.b64decode(lines[5].rpartition(" ")[2])
    assert raw[:4] == VerifierKey("callgate/test", PUBLIC).id
    Ed25519PublicKey.from_public_bytes(PUBLIC).verify(raw[4:], NOTE.partition("\n\n")[0].encode() + b"\n")


def test_it_verifies_with_its_key_among_others():
    public = OTHER.public_key().public_bytes_raw()
    checkpoint, key = verify(NOTE, [public, PUBLIC])
    assert checkpoint == CHECKPOINT
    assert key.public == PUBLIC


def test_a_key_in_the_published_text_form():
    """The example key of the signed-note format's first implementation, and its signature."""
    key = VerifierKey.parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    assert key.id.hex() == "c74f20a3"
    text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    raw = base64.b64decode(
        "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    )
    assert raw[:4] == key.id
    Ed25519PublicKey.from_public_bytes(key.public).verify(raw[4:], text.encode())
    assert str(key) == "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"


def test_a_witness_may_have_signed_too():
    witness = sign(CHECKPOINT, OTHER).split("\n")[5].replace("callgate/test", "witness.example")
    assert verify(NOTE + witness + "\n", [PUBLIC])[0] == CHECKPOINT


def test_an_unknown_key_is_not_enough():
    with pytest.raises(Tampered, match="not signed by a known key") as found:
        verify(NOTE, [OTHER.public_key().public_bytes_raw()])
    assert "store.keys_dir" in found.value.advice
    assert "--key" not in found.value.advice
    with pytest.raises(Tampered, match="not signed by a known key"):
        verify(NOTE, [])


def test_no_character_of_a_note_can_change():
    for at in range(len(NOTE)):
        changed = NOTE[:at] + chr(ord(NOTE[at]) ^ 1) + NOTE[at + 1 :]
        with pytest.raises(Tampered):
            verify(changed, [PUBLIC])


@rows(
    "wrong",
    [
        "",
        "\n\n",
        NOTE[:-1],
        NOTE + "x",
        NOTE + "\n",
        NOTE.replace("\n42\n", "\n042\n"),
        NOTE.replace("\n42\n", "\n-1\n"),
        NOTE.replace("\n42\n", "\n99999999999999999999\n"),
        NOTE.replace("time ", "tune "),
        NOTE.replace("callgate/test\n42", "call gate\n42"),
        NOTE.replace("\n42\n", "\n42\nmore\n"),
        "x" * 20_000,
    ],
)
def test_what_is_not_exactly_a_checkpoint_is_refused(wrong):
    with pytest.raises(Tampered):
        verify(wrong, [PUBLIC])


def test_a_wrong_signature_next_to_a_right_one_is_refused():
    line = NOTE.split("\n")[5]
    raw = bytearray(base64.b64decode(line.rpartition(" ")[2]))
    raw[10] ^= 1
    bad = f"\u2014 callgate/test {base64.b64encode(bytes(raw)).decode()}\n"
    with pytest.raises(Tampered, match="wrong"):
        verify(NOTE + bad, [PUBLIC])


@rows("text", ["", "x", "a+b", "name+00000000+AAAA", "n m+00000000+" + "A" * 44])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(AuditError):
        VerifierKey.parse(text)


def test_a_key_whose_hash_does_not_fit_is_refused():
    text = str(VerifierKey("callgate/test", PUBLIC))
    name, key_id, key = text.split("+", 2)
    with pytest.raises(AuditError, match="hash"):
        VerifierKey.parse(f"{name}x+{key_id}+{key}")


def test_parse_does_not_look_at_signatures():
    assert parse(NOTE.partition("\n\n")[0] + "\n\n") == CHECKPOINT
