"""Someone edits a receipt, or makes one up."""

import base64
import json

import pytest

from callgate.audit import note, receipt
from callgate.errors import AuditError, Tampered
from support.auditing import decision, fill, open_log
from support.table import rows


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("receipt")
    log = open_log(f"sqlite:///{folder / 'store.db'}", folder / "keys")
    fill(log, 20)
    log.catch_up()
    with log.store.audit_reading() as conn:
        document = receipt.encode(receipt.make(conn, decision(7).call, log.keyring.public_keys()))
        other = receipt.encode(receipt.make(conn, decision(8).call, log.keyring.public_keys()))
        origin = note.parse(conn.head().note).origin
    key = note.VerifierKey(origin, log.keyring.public_keys()[0])
    log.store.close_sync()
    return json.loads(document), json.loads(other), key


@pytest.fixture
def made(genuine):
    return json.loads(json.dumps(genuine[0]))


def check(document, key=None):
    return receipt.verify(json.dumps(document).encode(), key)


def test_the_genuine_one_holds(made, genuine):
    done = check(made, genuine[2])
    assert done.decision == decision(7)
    assert done.key_given
    assert not check(made).key_given


def test_the_readable_text_changed(made):
    made["decision"]["record"]["verdict"] = "refuse"
    with pytest.raises(Tampered, match="two stories"):
        check(made)


def test_text_and_bytes_changed_together(made):
    made["decision"]["record"]["tool"] = "other"
    made["decision"]["body"] = base64.b64encode(json.dumps(made["decision"]["record"]).encode()).decode()
    with pytest.raises(Tampered, match="not in the log"):
        check(made)


def test_another_calls_outcome(made, genuine):
    made["outcome"] = genuine[1]["outcome"]
    with pytest.raises(Tampered, match="two stories"):
        check(made)


def test_the_outcome_in_place_of_the_decision(made):
    made["decision"] = made["outcome"]
    with pytest.raises(Tampered):
        check(made)


def test_another_leaf_or_path(made, genuine):
    made["decision"]["leaf"] += 1
    with pytest.raises(Tampered):
        check(made)
    made["decision"]["leaf"] -= 1
    made["decision"]["path"] = genuine[1]["decision"]["path"]
    with pytest.raises(Tampered):
        check(made)


def test_another_checkpoint_with_the_same_signature(made):
    made["checkpoint"] = made["checkpoint"].replace("\n40\n", "\n41\n")
    with pytest.raises(Tampered, match="signature is wrong"):
        check(made)


def test_made_up_whole_with_the_forgers_own_key(tmp_path, genuine):
    forger = open_log(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "keys")
    fill(forger, 7)
    forger.catch_up()
    with forger.store.audit_reading() as conn:
        forged = json.loads(receipt.encode(receipt.make(conn, decision(7).call, forger.keyring.public_keys())))
    forger.store.close_sync()
    assert not check(forged).key_given, "it holds by itself: that is why --key exists"
    with pytest.raises(Tampered, match="the key is of another"):
        check(forged, genuine[2])
    with pytest.raises(Tampered) as found:
        check(forged, note.VerifierKey(note.parse(forged["checkpoint"]).origin, genuine[2].public))
    assert "--key" in found.value.advice


def test_every_character_of_a_receipt(genuine):
    """No change of a single character both holds and tells another story."""
    text = json.dumps(genuine[0])
    for at in range(0, len(text), 3):
        changed = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
        try:
            done = receipt.verify(changed.encode(), genuine[2])
        except (AuditError, Tampered):
            continue
        assert (done.decision, done.checkpoint.size) == (decision(7), 40)


@rows("text", [b"", b"null", b"{}", b"[" * 100_000, b'{"format":"callgate-receipt/2"}', b"\xff"])
def test_what_is_no_receipt(text):
    with pytest.raises(AuditError):
        receipt.verify(text)


def test_a_receipt_of_another_format(made):
    made["format"] = "callgate-receipt/3"
    with pytest.raises(AuditError, match="unknown format"):
        check(made)
