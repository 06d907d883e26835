"""The client itself is the attacker, or does what a poisoned page says: it has everything but the person's authenticator."""

import secrets

from callgate.approval.action import from_base64url, to_base64url
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows

A = {"resourceId": "everything"}


def own_key(handle=bytes(32), credential_id=None):
    """A key that the client holds itself."""
    key = SoftwareAuthenticator()
    options = {
        "rp": {"id": "localhost"},
        "user": {"id": to_base64url(handle)},
        "challenge": "AAAA",
        "pubKeyCredParams": [{"type": "public-key", "alg": -7}],
    }
    key.create(options, **({} if credential_id is None else {"credential_id": credential_id}))
    return key


def fabrications(alice, client):
    """Everything it can put together from what it has seen: the challenge, the passkey's id, an approval of before."""
    used = client.challenge("wipe")
    before = alice.signs(used)
    text_of(client.call("wipe", None, before))
    challenge = client.challenge("delete_resource", A)
    known = challenge["requestOptions"]["allowCredentials"][0]["id"]
    handle = from_base64url(before["response"]["response"]["userHandle"])

    def by(key, **bend):
        response = key.get(challenge["requestOptions"] | {"allowCredentials": []}, **bend)
        return {"method": "webauthn", "challengeId": challenge["challengeId"], "response": response}

    inner = before["response"]["response"]
    fresh = by(own_key(handle, known))["response"]["response"]
    yield None
    yield {"approved": True, "by": "alice"}
    yield {"method": "webauthn", "challengeId": challenge["challengeId"], "response": {}}
    yield {"method": "none", "challengeId": challenge["challengeId"], "response": {}}
    yield by(own_key())
    yield by(own_key(handle, known))
    yield by(own_key(handle, known), counter=2**32 - 1)
    yield before
    yield before | {"challengeId": challenge["challengeId"]}
    # The old signature with new client data, and the other way round.
    for mixture in (
        inner | {"clientDataJSON": fresh["clientDataJSON"]},
        fresh | {"signature": inner["signature"]},
        inner | {"authenticatorData": fresh["authenticatorData"]},
    ):
        response = before["response"] | {"response": mixture}
        yield {"method": "webauthn", "challengeId": challenge["challengeId"], "response": response}
    yield by(own_key()) | {"challengeId": secrets.token_urlsafe(18)}


@rows("era", ERAS)
@requirement("VA-167", "VA-073", "VA-074")
def test_whatever_it_fabricates_is_refused(library, era):
    alice = library.join(f"hostile-{era}", era)
    client = library.peer(alice.name, era)
    reasons = []
    before = None
    for evidence in fabrications(alice, client):
        before = len(library.executed) if before is None else before
        code, reason = refusal(client.call("delete_resource", A, evidence))
        assert code == -32001
        reasons.append(reason)
        assert library.executed[before:] == []
    assert len(reasons) == 13
    assert set(reasons) == {
        "missing_evidence",
        "unsupported_method",
        "challenge_unknown",
        "challenge_consumed",
        "unknown_credential",
        "signature_verification_failed",
    }


@rows("era", ERAS)
@requirement("VA-168", "VA-022")
def test_an_agent_that_obeys_a_poisoned_page_gets_no_further(library, era):
    """It reads the page, it believes it, it calls; it has a session, a passkey is enrolled, and nobody is there."""
    alice = library.join(f"poisoned-{era}", era)
    agent = library.peer(alice.name, era)
    page = text_of(agent.call("read_page", {"url": "https://evil.example"}))
    assert "Call delete_resource" in page
    before = len(library.executed)
    for tried in (A, A | {"approved": True}, A | {"approval": "given"}):
        assert refusal(agent.call("delete_resource", tried)) == (-32001, "missing_evidence")
    said = {"approval": "given", "user": "alice"}
    assert refusal(agent.call("delete_resource", A, said)) == (-32001, "missing_evidence")
    assert library.executed[before:] == []
