"""A lost security key is revoked; whoever found it signs what was open, and asks for more."""

import asyncio

import pytest

from callgate.approval.action import to_base64url
from support.approval_peer import ERAS, Failed, refusal
from support.approval_server import running
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}


@rows("era", ERAS)
@requirement("VA-110", "VA-147")
def test_from_then_on_it_is_unknown(library, era):
    alice = library.join(f"revoked-{era}", era)
    challenge = alice.challenge("delete_resource", A)
    evidence = alice.signs(challenge)
    key = to_base64url(alice.key.passkeys[0].id)
    asyncio.run(library.approval.approvals.revoke(key, by="operator"))
    before = len(library.executed)
    assert refusal(alice.call("delete_resource", A, evidence)) == (-32001, "unknown_credential")
    with pytest.raises(Failed) as caught:
        alice.challenge("delete_resource", A)
    assert refusal(caught.value.answer) == (-32001, "no_eligible_credential")
    # It cannot be enrolled again either.
    begun = alice.peer.begin(library.ticket(alice.name))["result"]["options"]
    assert begun["excludeCredentials"] == []
    again = alice.key.create(begun, credential_id=key)
    assert refusal(alice.peer.finish(again)) == (-32001, "credential_already_enrolled")
    assert library.executed[before:] == []


def test_revoked_between_verification_and_use():
    """The last moment that counts is that of the transaction in which the approval is used up."""
    with running() as server:
        alice = server.join()
        challenge = alice.challenge("delete_resource", A)
        evidence = alice.signs(challenge)
        key = to_base64url(alice.key.passkeys[0].id)
        use = server.shelf.use

        async def revoked_first(what, witness=None):
            await server.approval.approvals.revoke(key, by="operator")
            await use(what, witness)

        server.shelf.use = revoked_first
        assert refusal(alice.call("delete_resource", A, evidence)) == (-32001, "unknown_credential")
        assert server.executed == []
        assert asyncio.run(server.shelf.challenge(challenge["challengeId"])).consumed_at is None
