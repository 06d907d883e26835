"""Whoever has the log's keys rewrites, cuts off or forks it: everything verifies by itself, and the witness knows."""

import asyncio
import base64
import urllib.error
import urllib.request

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import text

from callgate.audit import note, receipt
from callgate.audit.cosigning import Cosigning, Witnesses, WitnessParty, cosigned_head
from callgate.audit.log import AuditLog
from callgate.audit.witness import WitnessRequest
from callgate.errors import AuditError, Reason, Refused, Tampered
from support.auditing import decision, fill, open_log
from support.stores import ready
from support.witnessing import cosign, log_key, pretender, witness

TABLES = ("audit_record", "audit_leaf", "audit_tile", "audit_tree", "audit_checkpoint")


class Aside:
    """The rows of the log, kept aside and put back."""

    def __init__(self, store):
        with store.reading() as conn:
            self._rows = {name: conn.execute(text(f"SELECT * FROM {name}")).mappings().all() for name in TABLES}

    def put_back(self, store):
        with store.writing() as conn:
            for name, found in self._rows.items():
                conn.execute(text(f"DELETE FROM {name}"))
                for row in found:
                    columns = ", ".join(row)
                    conn.execute(text(f"INSERT INTO {name} ({columns}) VALUES (:{', :'.join(row)})"), dict(row))


class Elsewhere:
    """The same keys on a machine that has nothing noted."""

    directory = None

    def __init__(self, ring):
        self._ring = ring

    def __getattr__(self, name):
        return getattr(self._ring, name)


@pytest.fixture(params=["sqlite", "postgresql"])
def log(request, tmp_path):
    with ready(request.param, tmp_path) as url:
        log = open_log(url, tmp_path / "keys")
        fill(log, 3)
        log.catch_up()
        yield log
        log.store.close_sync()


@pytest.fixture
def seen(log, tmp_path):
    """A witness that has cosigned six records."""
    with witness(tmp_path / "w", str(log_key(log))) as running:
        party = WitnessParty("one", running.url, running.key)
        assert cosign(log, party).size == 6
        yield party


def newest(log, party):
    with log.store.audit_reading() as tables:
        return cosigned_head(tables, Witnesses((party.key,), 1))


def test_the_log_grows_and_is_cosigned_again(log, seen):
    fill(log, 2, first=10)
    log.catch_up()
    report = cosign(log, seen)
    assert (report.size, report.of, report.states[0].problem) == (10, 10, "")
    assert newest(log, seen).size == 10


@pytest.mark.parametrize("longer", [True, False])
def test_put_back_and_grown_anew(log, seen, longer):
    """Another history, longer or shorter, signed by the right key: not cosigned, and found out."""
    fork(log, seen, longer=longer)


def fork(log, seen, *, longer):
    aside = Aside(log.store)
    fill(log, 2, first=10)
    log.catch_up()
    assert cosign(log, seen).size == 10
    aside.put_back(log.store)
    if log.store.kind == "sqlite":
        with log.store.writing() as conn:
            conn.execute(text("UPDATE sqlite_sequence SET seq = 6 WHERE name = 'audit_record'"))
    # By a gateway that has nothing noted beside its keys.
    other = AuditLog(log.store, Elsewhere(log.keyring))
    fill(other, 6 if longer else 1, first=20)
    other.catch_up()
    report = cosign(other, seen)
    assert "does not contain" in report.states[0].problem
    assert newest(log, seen).size == 6
    assert "no continuation" in str(other.forked)
    with pytest.raises(Refused) as caught:
        asyncio.run(other.decided(decision(77)))
    assert caught.value.reason is Reason.AUDIT_UNAVAILABLE


def test_an_operator_accepts_it_and_the_witness_does_not(log, seen):
    fork(log, seen, longer=True)
    again = AuditLog(log.store, Elsewhere(log.keyring))
    assert "does not contain" in cosign(again, seen).states[0].problem
    again.accept_restore("olga@host", "the disk died")
    report = cosign(again, seen)
    assert again.forked is None, "what was accepted is no news"
    assert report.states[0].problem
    assert newest(log, seen).size == 6


def test_a_receipt_of_a_rewritten_log_has_no_cosignatures(log, seen):
    fork(log, seen, longer=True)
    with log.store.audit_reading() as tables:
        made = receipt.make(tables, decision(22).call, log.keyring.public_keys(), Witnesses((seen.key,), 1))
    document = receipt.encode(made)
    assert receipt.verify(document).cosigned == [], "by itself it holds"
    with pytest.raises(Tampered, match="0 of these witnesses"):
        receipt.verify(document, None, Witnesses((seen.key,), 1))


def post(url, body):
    request = urllib.request.Request(f"{url}/add-checkpoint", body, {"content-type": "text/plain"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read()


def head_of(log):
    with log.store.audit_reading() as tables:
        return tables.head()


def test_what_a_witness_refuses(log, seen):
    """Over the wire, each with the status that tlog-witness names; afterwards it holds what it held."""
    key = log.keyring.current("checkpoint").signer()
    origin, root = log_key(log).name, head_of(log).root

    def signed(size, root, *, name=origin, signer=key):
        return note.sign(note.Checkpoint(name, size, root, 1_800_000_000_000), signer)

    same = signed(6, root)
    stranger = Ed25519PrivateKey.generate()
    wrong = same.replace("time 1800000000000", "time 1800000000001")
    cases = {
        "another root at the same size": (422, WitnessRequest(6, [], signed(6, bytes(32))).encode()),
        "more records without a proof": (422, WitnessRequest(6, [], signed(9, bytes(32))).encode()),
        "more records with a false proof": (422, WitnessRequest(6, [bytes(32)] * 3, signed(9, bytes(32))).encode()),
        "fewer records": (409, WitnessRequest(4, [], signed(4, bytes(32))).encode()),
        "from the beginning": (409, WitnessRequest(0, [], signed(9, bytes(32))).encode()),
        "an old size that is not the last": (409, WitnessRequest(5, [], signed(9, bytes(32))).encode()),
        "smaller than the old size": (400, WitnessRequest(6, [], signed(4, bytes(32))).encode()),
        "another log": (404, WitnessRequest(0, [], signed(6, root, name="callgate/other")).encode()),
        "another key": (403, WitnessRequest(6, [], signed(6, root, signer=stranger)).encode()),
        "a changed text": (403, WitnessRequest(6, [], wrong).encode()),
        "no signature": (400, WitnessRequest(6, [], same.partition("\n\n")[0] + "\n").encode()),
        "too large": (413, b"old 6\n\n" + b"x" * 100_000),
        "no request": (400, b"hello"),
        "an old size in another spelling": (400, WitnessRequest(6, [], same).encode().replace(b"old 6", b"old 06")),
        "too many proof lines": (400, WitnessRequest(6, [bytes(32)] * 64, same).encode()),
        "not UTF-8": (400, b"old 6\n\n\xff\n"),
    }
    for what, (status, body) in cases.items():
        found = post(seen.url, body)
        assert found[0] == status, what
        if status == 409:
            assert found[1:] == ("text/x.tlog.size", b"6\n"), what
    assert post(seen.url, WitnessRequest(6, [], same).encode())[0] == 200


def test_a_witness_remembers_over_a_restart_and_not_without_its_file(log, tmp_path):
    folder, known = tmp_path / "again", str(log_key(log))
    with witness(folder, known) as first:
        assert cosign(log, WitnessParty("one", first.url, first.key)).size == 6
    fill(log, 2, first=10)
    log.catch_up()
    with witness(folder, known) as second:
        assert second.key == first.key
        assert post(second.url, WitnessRequest(0, [], head_of(log).note).encode())[2] == b"6\n"
        assert cosign(log, WitnessParty("one", second.url, second.key)).size == 10
    (folder / "witness.db").unlink()
    with pytest.raises(AssertionError, match="does not know any more"), witness(folder, known):
        pass


def test_hostile_answers(log, seen):
    """Nothing that a witness answers is taken for a cosignature, raises, or is waited for beyond its time."""
    old = newest(log, seen).note
    fill(log, 2, first=10)
    log.catch_up()
    replayed = note.lines_of(old, seen.key)
    other = note.cosign(head_of(log).note, seen.key.name, log.keyring.current("checkpoint").signer(), 1)
    raw = bytearray(base64.b64decode(replayed.split()[-1]))
    raw[0:4] = seen.key.id
    size = "text/x.tlog.size"
    answers = {
        "replayed, made for another size": (200, "text/plain", replayed.encode()),
        "by another key in its name": (200, "text/plain", other.encode()),
        "nothing": (200, "text/plain", b""),
        "no line": (200, "text/plain", b"\xe2\x80\x94 x\n"),
        "not text": (200, "text/plain", b"\xff\xfe\n"),
        "a second note": (200, "text/plain", b"\n\n" + replayed.encode()),
        "too long": (200, "text/plain", b"x" * 1_000_000),
        "a conflict without a size": (409, size, b"many\n"),
        "a conflict with a huge size": (409, size, b"9" * 5000 + b"\n"),
        "a conflict beyond the log": (409, size, b"9000\n"),
        "always the same conflict": (409, size, b"0\n"),
        "a conflict as another type": (409, "text/html", b"6\n"),
        "a redirect": (302, "text/plain", b""),
        "another log seen": (422, "text/plain", b"no\n"),
        "an error": (500, "text/plain", b"no\n"),
        "silence": None,
    }
    for what, answer in answers.items():
        with pretender(lambda _asked, answer=answer: answer) as url:
            party = WitnessParty("one", url, seen.key)
            report = cosign(log, party, seconds=0.5 if answer is None else 10)
        assert report.states[0].problem, what
        assert report.size == 6, what
        assert log.forked is None, what
        asyncio.run(log.decided(decision(500)))


def test_a_quorum_is_of_different_keys(log, seen, tmp_path):
    """One witness under two names is one witness; the log is none of its own."""
    with log.store.audit_reading() as tables:
        made = receipt.encode(
            receipt.make(tables, decision(2).call, log.keyring.public_keys(), Witnesses((seen.key,), 1))
        )
    again = note.VerifierKey("w.example/two", seen.key.public, note.WITNESS)
    done = receipt.verify(made, log_key(log), Witnesses((seen.key,), 1))
    assert [one.witness for one in done.cosigned] == [seen.key]
    with pytest.raises(Tampered, match="1 of these witnesses"):
        receipt.verify(made, None, Witnesses((seen.key, again), 2))
    with pytest.raises(AuditError, match="its own witness"):
        receipt.verify(made, None, Witnesses((note.VerifierKey("w", log_key(log).public, note.WITNESS),), 1))
    with pytest.raises(AuditError, match="not a public key of a witness"):
        note.VerifierKey.parse(str(log_key(log)), note.WITNESS)


def test_calls_stop_only_where_that_is_configured(log, seen):
    """`cosigned_within_seconds`: what waits longer for a witness that is down stops calls, and only then."""
    fill(log, 1, first=10)
    log.catch_up()

    async def down():
        cosigning = Cosigning(log, seconds=1)
        cosigning.configure([WitnessParty("one", "http://127.0.0.1:9", seen.key)], 1)
        await cosigning.run_once()
        assert cosigning.report().states[0].problem
        await log.decided(decision(50))
        log.configure(0, lambda: cosigning.overdue(10))
        cosigning._clock = lambda: decision(10).at / 1000 + 9
        await log.decided(decision(51))
        cosigning._clock = lambda: decision(10).at / 1000 + 11
        with pytest.raises(Refused) as caught:
            await log.decided(decision(52))
        assert caught.value.reason is Reason.AUDIT_UNAVAILABLE
        await log.decided(decision(53, verdict="refuse", reason="rule_blocked"))

    asyncio.run(down())
