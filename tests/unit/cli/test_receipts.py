"""A receipt of an approved call is verified down to the passkey's signature, on a machine that has nothing else."""

import asyncio
import hashlib
import json

import pytest

from callgate.approval.overview import fingerprint
from callgate.audit import Arguments, ArgumentsPolicy, receipt
from callgate.cli import run
from support.auditing import decision, open_log
from support.enrolling import approve, enrol, service
from support.memory import MemoryShelf

ARGUMENTS = {"name": "shopping", "api_key": "hunter2"}
PLAIN = {"name": "shopping", "count": 1.0}


@pytest.fixture(scope="module")
def alice():
    """Somebody with a passkey."""
    approvals = service(MemoryShelf())

    async def begin():
        return await enrol(approvals, await approvals.ticket("alice", by="operator"))

    enrolled, key = asyncio.run(begin())
    return approvals, enrolled.credential, key


@pytest.fixture
def verify(tmp_path, monkeypatch, capsys):
    """What `callgate audit verify --receipt` says of a call that is on record like this."""
    monkeypatch.chdir(tmp_path)

    def call(*words, code=0, **record):
        log = open_log(f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "keys")
        try:
            with log.store.audit_writing() as tables:
                tables.insert(log.row(decision(1, tool="delete_note", server="notes", **record)))
            log.catch_up()
            with log.store.audit_reading() as tables:
                made = receipt.encode(receipt.make(tables, decision(1).call, log.keyring.public_keys()))
        finally:
            log.store.close_sync()
        (tmp_path / "receipt.json").write_bytes(made)
        assert run(["audit", "verify", "--receipt", "receipt.json", *words]) == code
        return capsys.readouterr()

    return call


def facts_of(alice, arguments):
    approvals, _, key = alice
    return asyncio.run(approve(approvals, key, arguments)).facts


def stored(mode, arguments):
    kept, args_hash = ArgumentsPolicy(mode).store("notes", "delete_note", arguments)
    return {"arguments": kept, "args_hash": args_hash}


def test_everything_is_verified_where_the_arguments_are_on_record(alice, verify):
    facts = facts_of(alice, PLAIN)
    out = verify(extra={"approval": facts}, **stored("redacted", PLAIN)).out
    print_of_key = fingerprint(alice[1].public_key)
    assert f"The approval holds: alice, {print_of_key}" in out
    assert "verified      what was signed is this tool with these arguments on this server" in out
    assert "verified      it was signed on http://localhost:8420 for localhost" in out
    assert "not verified  whose passkey it is" in out
    assert "not verified  tool and arguments" not in out


def test_for_machines(alice, verify):
    facts = facts_of(alice, PLAIN)
    said = json.loads(verify("--json", extra={"approval": facts}, **stored("whole", PLAIN)).out)
    proven = said["approval"]["proven"]
    assert (proven["user"], proven["credential"], proven["whole"]) == ("alice", alice[1].id, True)
    assert len(said["approval"]["verified"]) == 4
    assert len(said["approval"]["not_verified"]) == 2


@pytest.mark.parametrize("mode", ["redacted", "hashed"])
def test_arguments_that_are_not_on_record_can_be_given(alice, verify, tmp_path, mode):
    record = {"extra": {"approval": facts_of(alice, ARGUMENTS)}, **stored(mode, ARGUMENTS)}
    out = verify(**record).out
    assert "The approval holds" in out
    assert "not verified  tool and arguments: they are not on record whole" in out
    assert "hunter2" not in out
    (tmp_path / "given.json").write_text('{"api_key": "hunter2", "name": "shopping"}')
    run_again = ["audit", "verify", "--receipt", "receipt.json", "--arguments", "given.json"]
    assert run(run_again) == 0
    (tmp_path / "given.json").write_text('{"api_key": "hunter3", "name": "shopping"}')
    assert run(run_again) == 1
    (tmp_path / "given.json").write_text("{")
    assert run(run_again) == 1


def test_given_arguments_complete_what_is_verified(alice, verify, tmp_path):
    (tmp_path / "given.json").write_text(json.dumps(ARGUMENTS))
    record = {"extra": {"approval": facts_of(alice, ARGUMENTS)}, **stored("hashed", ARGUMENTS)}
    assert "what was signed is this tool with these arguments" in verify("--arguments", "given.json", **record).out


def test_without_the_server_id_it_says_what_it_cannot_tell(alice, verify):
    facts = {name: value for name, value in facts_of(alice, PLAIN).items() if name != "server_id"}
    out = verify(extra={"approval": facts}, **stored("whole", PLAIN)).out
    assert "not verified  tool and arguments: the record does not name the server id" in out
    assert "this tool with these arguments" not in out


def test_without_the_relying_party_it_is_found_from_the_origin(alice, verify):
    facts = {name: value for name, value in facts_of(alice, PLAIN).items() if name != "rp_id"}
    assert "for localhost" in verify(extra={"approval": facts}, **stored("whole", PLAIN)).out


def test_a_call_that_nobody_had_to_approve_says_nothing_of_approval(verify):
    assert "approval" not in verify(**stored("whole", PLAIN)).out
    assert json.loads(verify("--json", **stored("whole", PLAIN)).out)["approval"] is None


def test_a_refused_call_is_no_approval(alice, verify):
    facts = facts_of(alice, PLAIN) | {"public_key": "AAAA"}
    record = {"verdict": "refuse", "reason": "approval_refused", "extra": {"approval": facts}}
    assert "approval holds" not in verify(**record, **stored("whole", PLAIN)).out


def test_an_approval_without_a_signature_is_said_to_be_one(verify):
    out = verify(extra={"approval": {"continues": "x"}}, **stored("whole", PLAIN)).out
    assert "not verified  the approval: the record holds no signature for it" in out


def test_arguments_and_their_hash_have_to_agree(alice, verify):
    record = {"arguments": Arguments("whole", PLAIN), "args_hash": "sha256:" + hashlib.sha256(b"{}").hexdigest()}
    said = verify(code=1, extra={"approval": facts_of(alice, PLAIN)}, **record)
    assert "not the ones that were hashed" in said.err
