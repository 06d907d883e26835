"""Take what a person signed for one server to another that has the same tool, the same arguments and the same passkey."""

import asyncio

import pytest

from support.approval_peer import refusal, text_of
from support.approval_server import running
from support.approval_store import enrol
from support.memory import MemoryShelf
from support.registry import requirement

A = {"resourceId": "a"}


@pytest.fixture
def files():
    with running(name="files") as server:
        yield server


@requirement("VA-172")
def test_two_servers_on_one_store(files):
    """They know each other's people, passkeys and challenges, and still not each other's approvals."""
    alice = files.join()
    evidence = alice.signs(alice.challenge("delete_resource", A))
    with running(name="backup", store=files.store) as backup:
        answer = backup.peer().call("delete_resource", A, evidence)
        assert refusal(answer) == (-32001, "argument_hash_mismatch")
        assert backup.executed == []
    assert text_of(alice.call("delete_resource", A, evidence)) == "deleted a"


@requirement("VA-172")
def test_two_servers_that_the_same_passkey_is_enrolled_at(files):
    alice = files.join()
    (passkey,) = asyncio.run(files.shelf.credentials("alice"))
    theirs = MemoryShelf()
    asyncio.run(enrol(theirs, passkey))
    with running(name="files", store=theirs) as other:
        mallory = other.peer()
        evidence = alice.signs(alice.challenge("delete_resource", A))
        assert refusal(mallory.call("delete_resource", A, evidence)) == (-32001, "challenge_unknown")
        # With a challenge of the other server's own for the very same call, the signature is over other bytes.
        own = mallory.challenge("delete_resource", A)
        assert own["requestOptions"]["allowCredentials"][0]["id"] == passkey.id
        moved = evidence | {"challengeId": own["challengeId"]}
        assert refusal(mallory.call("delete_resource", A, moved)) == (-32001, "signature_verification_failed")
        assert other.executed == []
        # The passkey itself is good there.
        honest = mallory.call("delete_resource", A, alice.signs(own))
        assert text_of(honest) == "deleted a"
