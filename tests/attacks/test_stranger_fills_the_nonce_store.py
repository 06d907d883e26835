"""Have the gateway remember nonces of requests that it refuses anyway, until there is no room for honest ones."""

import sqlite3
from contextlib import closing

import pytest

from callgate.agents.nonces import MemoryNonces, StrangersShare
from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import Reason, Refused
from support.agents_gate import INSIDE, PLAIN, call, known, reason, signer, site, web
from support.effort import work
from support.registry import requirement
from support.signed_requests import NOW, Found, public, request, sign


def remembered(running):
    with closing(sqlite3.connect(running.gateway.store)) as store:
        return store.execute("SELECT count(*) FROM agent_nonce").fetchone()[0]


@requirement("WB-017", "WB-066", "WB-077")
def test_who_is_refused_leaves_nothing_behind(tmp_path):
    with web(tmp_path) as pages:
        stranger, listed, shut, picky = signer(pages.url), signer(), signer(), signer()
        pages.publish(stranger)
        section = {
            "mode": "required",
            "known": {
                "listed": known(listed),
                "shut": known(shut, denied=True),
                "picky": known(picky, allow_tools=["search"]),
            },
            "signatures": {"allow_addresses": INSIDE},
        }
        with site(tmp_path, pages.env, agents=section) as running:
            for _ in range(3):
                assert reason(running.send(stranger, call("search"))) == (403, "agent_not_in_directory")
                assert reason(running.send(stranger, PLAIN)) == (403, "agent_not_in_directory")
                assert reason(running.send(shut, call("search"))) == (403, "agent_denied")
                assert reason(running.send(shut, PLAIN)) == (403, "agent_denied")
                assert reason(running.send(picky, call("buy"))) == (403, "tool_denied")
            assert remembered(running) == 0
            # What is refused is refused again, and what passed once does not pass again.
            again = running.signed(picky, call("buy"))
            assert [reason(running.send(None, call("buy"), headers=again))[1] for _ in range(2)] == ["tool_denied"] * 2
            once = running.signed(listed, call("search"))
            told = [reason(running.send(None, call("search"), headers=once)) for _ in range(2)]
            assert told == [(200, ""), (401, "nonce_replay")]
            assert remembered(running) == 1


@requirement("WB-017")
async def test_strangers_that_are_let_in_have_a_share_and_no_more():
    nonces = MemoryNonces()
    mine, theirs = public(directory="https://a.example/keys"), public(which=1, directory="static")
    share = StrangersShare(each=3, most=5)
    verifier = Verifier(VerifySettings(), Found(mine, theirs), nonces, lambda: NOW, share=share)
    for at in range(3):
        assert await verifier.verify(sign(request(), nonce=f"n{at}"))
    for at in range(3, 6):
        with pytest.raises(Refused) as caught:
            await verifier.verify(sign(request(), nonce=f"n{at}"))
        assert (caught.value.reason, caught.value.data["retryAfter"]) == (Reason.RATE_LIMITED, 66)
    assert len(nonces) == 3
    for at in range(6):
        assert await verifier.verify(sign(request(), which=1, nonce=f"n{at}"))
    later = Verifier(VerifySettings(), Found(mine), nonces, lambda: NOW + 70, share=share)
    assert await later.verify(sign(request(), nonce="late", created=NOW + 60, expires=NOW + 120))


async def test_a_replay_takes_nothing_of_the_share():
    share = StrangersShare(each=2, most=5)
    mine = public(directory="https://a.example/keys")
    verifier = Verifier(VerifySettings(), Found(mine), MemoryNonces(), lambda: NOW, share=share)
    seen = sign(request(), nonce="seen")
    assert await verifier.verify(seen)
    for _ in range(5):
        with pytest.raises(Refused) as caught:
            await verifier.verify(seen)
        assert caught.value.reason is Reason.NONCE_REPLAY
    assert await verifier.verify(sign(request(), nonce="new"))


def test_being_refused_costs_the_gateway_little():
    """Who has used its share up goes on sending: each of these requests is verified, and must cost no more than that."""
    share = StrangersShare(each=5000, most=8000)
    for at in range(8000):
        share.demand(f"https://{at < 5000}.example", 1)
        share.add(f"https://{at < 5000}.example", 100_000 + at * 7919 % 60_000)

    def refused(directory):
        with pytest.raises(Refused) as caught:
            share.demand(directory, 2)
        return caught.value.data["retryAfter"]

    for directory, wait in (("https://True.example", 100), ("https://new.example", 100)):
        assert work(lambda directory=directory: refused(directory)) < 100
        assert refused(directory) == wait
    # What has run out makes room, for one directory and for all.
    share.demand("https://True.example", 170_000)
    assert work(lambda: share.demand("https://True.example", 170_000)) < 100
