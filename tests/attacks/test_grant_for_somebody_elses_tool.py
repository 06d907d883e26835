"""Somebody who approves other things signs a grant for a tool whose calls never wait for them; or they were asked once,
and somebody else is now."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from callgate.approval.delegation import GrantTerms
from callgate.approval.model import ApprovalPolicy
from support.granting import KeyedAgent, Signer, api_key
from support.persons import approval_site, enrolled
from support.registry import requirement
from support.sessions import until
from support.states import reason
from support.stores import ready

WIPE = {"server": "web", "name": "wipe", "agent": "reports", "rule.id": "equals", "value.id": "DE-1", "calls": "9"}
ANY = ApprovalPolicy("platform")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elses")
    rules = {
        "agents": {"mode": "optional", "api_keys": {"enabled": True}},
        "approval": {"park_seconds": 0, "user": "ann"},
        "servers_approval": {"user": "ann"},
    }
    with ready(request.param, folder) as url, approval_site(folder, store={"url": url}, **rules) as it:
        it.signer = Signer.arrive(it)
        it.other = Signer.arrive(it, asyncio.run(enrolled(it.store, "ben")))
        it.agent = KeyedAgent(it, api_key(it, "reports"))
        yield it


def of_ben(site):
    """What Ben would sign: Ann's terms in his own name, and another number."""
    terms = site.signer.draft(**WIPE)
    return {**terms, "person": "ben", "id": f"{terms['id'][:-3]}ben"}


@requirement("VA-183")
def test_who_is_not_asked_gets_nothing_to_sign(site):
    assert "calls of web wait for ann" in site.other.page(server="web", name="wipe")
    with pytest.raises(AssertionError, match="wait for ann"):
        site.other.draft(**WIPE)
    terms = of_ben(site)
    status, answer = site.other.post("/grants/sign/options", {"terms": terms})
    assert (status, answer["error"]["reason"]) == (403, "grants_off")
    # With a signature that they got in another way.
    issued = asyncio.run(site.other.person.approvals.begin_grant(msgspec.convert(terms, GrantTerms), ANY)).result
    response = site.other.person.key.get(dict(issued["requestOptions"], allowCredentials=[]), origin=site.other.origin)
    sent = {"body": {"terms": terms}, "challengeId": issued["challengeId"], "response": response}
    assert site.other.post("/grants/sign", sent)[1]["error"]["reason"] == "grants_off"


def test_a_grant_of_who_is_not_asked_covers_nothing(site):
    """It is in the store, signed as it has to be, made beside the page."""
    terms = msgspec.convert(of_ben(site), GrantTerms)

    async def sign():
        shown = site.other.person.approvals
        issued = (await shown.begin_grant(terms, ANY)).result
        evidence = site.other.person.evidence(issued)
        await shown.finish_grant("ben", evidence, terms)

    asyncio.run(sign())
    told = site.agent.call("wipe", id="DE-1")
    assert reason(told) == "missing_evidence"
    page = site.signer.get(f"/approve/{told['error']['data']['approval']['request']}").body.decode()
    assert "calls of this server do not wait for ben" in page


def test_somebody_else_is_asked_from_now_on(site):
    site.signer.grant(**(WIPE | {"value.id": "DE-2", "calls": "9999"}))
    assert "result" in site.agent.call("wipe", id="DE-2")
    path = site.gateway.config
    before = path.read_text()
    path.write_text(before.replace('"user" = "ann"', '"user" = "ben"'))
    assert path.read_text() != before
    try:
        until(lambda: "result" not in site.agent.call("wipe", id="DE-2"))
        assert reason(site.agent.call("wipe", id="DE-2")) == "missing_evidence"
    finally:
        path.write_text(before)
    until(lambda: "result" in site.agent.call("wipe", id="DE-2"))
