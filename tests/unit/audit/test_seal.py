import hmac

import pytest

from callgate.audit.log import SEAL_BYTES, Sealer
from callgate.keyring import Keyring
from support.table import rows


@pytest.fixture
def keyring(tmp_path):
    made = Keyring(tmp_path / "keys", environ={})
    made.make("seal")
    return made


@rows("body", [b"", b"x", b"x" * 64, b"{}" * 5000])
def test_a_seal_is_hmac_sha256_of_the_body(keyring, body):
    sealer = Sealer(keyring)
    seal = sealer.seal(body)
    assert len(seal) == SEAL_BYTES
    assert seal[4:] == hmac.digest(keyring.current("seal").secret, body, "sha256")
    assert sealer.holds(body, seal)


def test_nothing_of_it_can_change(keyring):
    sealer = Sealer(keyring)
    seal = sealer.seal(b"body")
    assert not sealer.holds(b"Body", seal)
    for at in range(SEAL_BYTES):
        assert not sealer.holds(b"body", seal[:at] + bytes([seal[at] ^ 1]) + seal[at + 1 :])
    assert not sealer.holds(b"body", seal[:-1])
    assert not sealer.holds(b"body", b"")
    assert not sealer.holds("body", seal)
    assert not sealer.holds(b"body", None)


def test_old_seals_hold_after_a_rotation_and_new_ones_use_the_new_key(keyring):
    sealer = Sealer(keyring)
    old = sealer.seal(b"body")
    keyring.rotate("seal")
    sealer.refresh()
    new = sealer.seal(b"body")
    assert old != new
    assert sealer.holds(b"body", old)
    assert sealer.holds(b"body", new)


def test_another_keyring_knows_nothing_of_it(keyring, tmp_path):
    foreign = Keyring(tmp_path / "other", environ={})
    foreign.make("seal")
    other = Sealer(foreign)
    assert not other.holds(b"body", Sealer(keyring).seal(b"body"))
