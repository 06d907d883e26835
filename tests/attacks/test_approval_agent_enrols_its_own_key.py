"""The agent makes a key in software, enrols it, and approves its own calls: the hole that every open enrolment has."""

import asyncio
import secrets

import pytest

from callgate.approval.action import to_base64url
from callgate.protocol import ENROLL_BEGIN, TICKET
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, Failed, refusal
from support.approval_server import running
from support.registry import requirement

A = {"resourceId": "a"}
NOT_AUTHORISED = (-32602, "enrolment_not_authorised")


@pytest.fixture(params=ERAS)
def agent(library, request):
    """A client that drives everything but has no ticket and no passkey."""
    return library.peer(f"agent-{request.param}", request.param)


@requirement("VA-025")
def test_there_is_no_way_in_without_a_ticket(library, agent):
    guesses = [None, "", "alice", secrets.token_urlsafe(32), "0" * 43, "../alice", "\0", "ü"]
    for guess in guesses:
        assert refusal(agent.ask(ENROLL_BEGIN, {"_meta": {TICKET: guess}})) == NOT_AUTHORISED
    for params in ({"ticket": "x"}, {"user": "alice"}, {"_meta": {"ticket": "x"}}, {"first_use": True}):
        assert refusal(agent.ask(ENROLL_BEGIN, params)) == NOT_AUTHORISED


@requirement("VA-025", "VA-167")
def test_nor_by_answering_a_question_that_was_never_asked(library, agent):
    """Its own registration, over a challenge of its own making; then an approval with that key."""
    key = SoftwareAuthenticator()
    own = {
        "rp": {"id": "localhost"},
        "user": {"id": to_base64url(bytes(32)), "name": "agent"},
        "challenge": to_base64url(secrets.token_bytes(32)),
        "pubKeyCredParams": [{"type": "public-key", "alg": -7}],
    }
    assert refusal(agent.finish(key.create(own)))[0] == -32001
    with pytest.raises(Failed) as caught:
        agent.challenge("delete_resource", A)
    assert refusal(caught.value.answer) == (-32001, "no_eligible_credential")
    # On a challenge of a person's, the agent's key is nobody's.
    person = library.join(f"person-of-{agent.era}", agent.era)
    challenge = person.challenge("delete_resource", A)
    response = key.get(challenge["requestOptions"] | {"allowCredentials": []})
    evidence = {"method": "webauthn", "challengeId": challenge["challengeId"], "response": response}
    before = len(library.executed)
    assert refusal(person.call("delete_resource", A, evidence)) == (-32001, "unknown_credential")
    assert library.executed[before:] == []


@requirement("VA-029", "VA-025")
def test_first_use_is_over_once_it_was_used():
    """Two who begin before the first passkey exists: the first to finish wins, the other has lost."""
    with running(first_use=True) as server:
        person, agent = server.peer(), server.peer()
        begun = [one.begin(None)["result"]["options"] for one in (person, agent)]
        key = SoftwareAuthenticator()
        assert "result" in person.finish(key.create(begun[0]))
        late = agent.finish(SoftwareAuthenticator().create(begun[1]))
        assert refusal(late) == (-32001, "no_pending_enrollment")
        assert refusal(agent.begin(None)) == NOT_AUTHORISED
        assert len(asyncio.run(server.shelf.credentials("alice"))) == 1
