"""Somebody gets a grant into the store that its person did not read and sign: other terms than were shown, another's
name, a signature that was made for something else or is used twice, a page of another site."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from callgate.approval.delegation import GrantTerms
from callgate.errors import Refused
from support.granting import Signer, api_key
from support.persons import approval_site, enrolled
from support.registry import requirement
from support.table import rows

WIPE = {"server": "web", "name": "wipe", "rule.id": "equals", "value.id": "DE-1", "calls": "3"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    agents = {"mode": "optional", "api_keys": {"enabled": True}}
    approval = {"park_seconds": 0, "pending_per_user": 1000, "user": "ann"}
    with approval_site(tmp_path_factory.mktemp("unsigned"), agents=agents, approval=approval) as it:
        it.signer = Signer.arrive(it)
        it.other = Signer.arrive(it, asyncio.run(enrolled(it.store, "ben")))
        api_key(it, "reports")
        yield it


@pytest.fixture
def terms(site):
    return site.signer.draft(**WIPE, agent="reports")


def live(site):
    found = asyncio.run(site.person.approvals.shelf.delegations())
    return [one for one in found if one.revoked_at is None]


def test_the_genuine_one_is_there(site, terms):
    before = len(live(site))
    assert site.signer.sign(terms)[0] == 200
    assert len(live(site)) == before + 1


@requirement("VA-183")
@rows(
    "changes",
    [
        {"calls": 100},
        {"ends": 4_000_000_000_000},
        {"arguments": []},
        {"tool": "wipe_all"},
        {"agent": {"source": "api-key", "id": "reports", "key": "ffffffffffff", "directory": ""}},
    ],
)
def test_other_terms_are_sent_than_were_signed(site, terms, changes):
    before = live(site)
    status, answer = site.signer.sign(terms, terms | changes)
    assert status >= 400, answer
    assert live(site) == before


@rows(
    ("changes", "reason"),
    [
        ({"person": "ben"}, "grant_invalid"),
        ({"server_id": "another/web#1"}, "page_outdated"),
        ({"server": "pipe"}, "page_outdated"),
        ({"tool": "look"}, "page_outdated"),
        ({"tool_hash": "ab" * 32}, "page_outdated"),
        ({"agent": {"source": "local"}}, "page_outdated"),
        ({"agent": {"source": "api-key", "id": "reports", "key": ""}}, "grant_invalid"),
        ({"agent": {"source": "nobody", "id": "reports", "key": "x"}}, "grant_invalid"),
        ({"calls": 0}, "grant_invalid"),
        ({"calls": 1e9}, "grant_invalid"),
        ({"calls": True}, "grant_invalid"),
        ({"ends": 1}, "grant_invalid"),
        ({"more": 1}, "grant_invalid"),
        ({"format": 2}, "grant_invalid"),
        ({"sum_of": "n", "sum_at_most": "NaN"}, "grant_invalid"),
    ],
)
def test_terms_that_no_page_shows_are_not_even_to_be_signed(site, terms, changes, reason):
    status, answer = site.signer.post("/grants/sign/options", {"terms": terms | changes})
    assert (status >= 400, answer["error"]["reason"]) == (True, reason)


def test_a_signature_is_used_once(site, terms):
    body = {"terms": terms}
    _, issued = site.signer.post("/grants/sign/options", body)
    response = site.person.key.get(dict(issued["requestOptions"], allowCredentials=[]), origin=site.signer.origin)
    sent = {"body": body, "challengeId": issued["challengeId"], "response": response}
    before = len(live(site))
    assert site.signer.post("/grants/sign", sent)[0] == 200
    status, answer = site.signer.post("/grants/sign", sent)
    assert (status >= 400, answer["error"]["reason"]) == (True, "challenge_consumed")
    assert len(live(site)) == before + 1
    # Nor can the same terms be signed again, for twice as many calls.
    assert site.signer.sign(terms)[1]["error"]["reason"] == "grant_invalid"


def test_a_signature_for_something_else(site, terms):
    """Of a call that waits, of a sign-in, of another person; and a grant's signature for a call."""
    shown = site.person.approvals

    def answer(issued):
        return site.person.key.get(dict(issued["requestOptions"], allowCredentials=[]), origin=site.signer.origin)

    signing = asyncio.run(shown.begin_sign_in(site.person.name)).result
    sent = {"body": {"terms": terms}, "challengeId": signing["challengeId"], "response": answer(signing)}
    assert site.signer.post("/grants/sign", sent)[1]["error"]["reason"] == "challenge_unknown"
    _, act = site.signer.post("/device/options")
    sent = {"body": {"terms": terms}, "challengeId": act["challengeId"], "response": answer(act)}
    assert site.signer.post("/grants/sign", sent)[1]["error"]["reason"] == "challenge_unknown"
    # Ben cannot finish what Ann began, whoever signs it.
    _, issued = site.signer.post("/grants/sign/options", {"terms": terms})
    sent = {"body": {"terms": terms}, "challengeId": issued["challengeId"], "response": answer(issued)}
    assert site.other.post("/grants/sign", sent)[1]["error"]["reason"] == "grant_invalid"
    ours = {"terms": {**terms, "person": "ben"}}
    evidence = {"method": "webauthn", "challengeId": issued["challengeId"], "response": answer(issued)}
    with pytest.raises(Refused, match="challenge"):
        asyncio.run(
            site.other.person.approvals.finish_grant("ben", evidence, msgspec.convert(ours["terms"], GrantTerms))
        )
    # A page of another site asked for the signature.
    response = site.person.key.get(dict(issued["requestOptions"], allowCredentials=[]), origin="http://localhost:1")
    sent = {"body": {"terms": terms}, "challengeId": issued["challengeId"], "response": response}
    assert site.signer.post("/grants/sign", sent)[1]["error"]["reason"] == "signature_verification_failed"


def test_from_another_site_or_without_the_pages_token(site, terms):
    assert site.signer.post("/grants/sign/options", {"terms": terms}, "https://evil.example")[0] == 403
    tokenless = Signer(site, site.person, site.signer.headers | {"x-callgate-csrf": "x"})
    assert tokenless.post("/grants/sign/options", {"terms": terms})[0] == 403
    assert Signer(site, site.person).get("/grants/new").status == 401


def test_who_may_only_look(site, terms):
    viewer = Signer.arrive(site, asyncio.run(enrolled(site.store, "vera")))
    asyncio.run(site.person.approvals.set_role("vera", "viewer", by="test"))
    assert viewer.get("/grants/new").status == 403
    own = {**terms, "person": "vera"}
    assert viewer.post("/grants/sign/options", {"terms": own})[1]["error"]["reason"] == "role_needed"
    grant = site.signer.sign(site.signer.draft(**WIPE, agent="reports"))[1]["grant"]
    assert viewer.post(f"/grants/{grant}/revoke")[1]["error"]["reason"] == "role_needed"
    # Another approver sees it, and ends it as little.
    assert site.other.get(f"/grants/{grant}").status == 200
    assert site.other.post(f"/grants/{grant}/revoke")[1]["error"]["reason"] == "role_needed"
