"""Catch a signed request and send it elsewhere: to another host, path, query or method, or to the same place again."""

import pytest

from callgate.agents.keys import PublicKey
from callgate.agents.signing import Signer
from callgate.store.memory import MemoryAgents
from support.registry import requirement
from support.signed_requests import AGENT, NOW, adding, change, private, refusal, request, sign, verify
from support.table import rows

BY = Signer(private(), AGENT, clock=lambda: NOW)
KEY = PublicKey.read(BY.jwk, AGENT)


@pytest.fixture
def caught():
    given = request(query="tool=search")
    return adding(given, BY.sign(given))


@rows(
    "elsewhere",
    [
        {"authority": "other.example"},
        {"authority": "gate.example:8443"},
        {"authority": "gate.example."},
        {"authority": "gate.example@other.example"},
        {"path": "/admin"},
        {"path": "/mcp/"},
        {"path": "/%6dcp"},
        {"path": "/x/../mcp"},
        {"query": "tool=delete"},
        {"query": "tool=search&tool=delete"},
        {"query": None},
        {"method": "DELETE"},
        {"method": "post"},
        {"path": "/mcp?tool=search", "query": None},
    ],
)
@requirement("WB-085", "WB-086")
async def test_what_our_signer_signs_is_good_for_one_place(caught, elsewhere):
    assert await refusal(change(caught, **elsewhere), keys=[KEY]) in {
        (401, "signature_invalid"),
        (400, "unsupported_covered_field"),
    }
    assert (await verify(caught, keys=[KEY])).keyid == BY.keyid


@rows("covered", ['"@authority"', '"@target-uri"'])
@requirement("WB-085")
async def test_the_least_that_is_taken_is_bound_to_its_host(covered):
    signed = sign(request(), covered)
    assert await refusal(change(signed, authority="other.example")) == (401, "signature_invalid")
    # A thief who names our host in another way than the connection does gets nowhere either.
    misled = adding(change(signed, authority="other.example"), {"x-forwarded-host": "gate.example"})
    assert await refusal(misled) == (401, "signature_invalid")


@requirement("WB-086")
async def test_a_covered_target_is_bound_to_its_scheme_and_path():
    signed = sign(request(), '"@target-uri"')
    for elsewhere in ({"scheme": "http"}, {"path": "/admin"}, {"query": ""}):
        assert await refusal(change(signed, **elsewhere)) == (401, "signature_invalid")


@requirement("WB-086")
async def test_a_path_alone_binds_to_no_host():
    for covered in ('"@path"', '"@method" "@request-target"', '"host"'):
        assert await refusal(sign(request(), covered)) == (400, "missing_required_covered_field")


@requirement("WB-087")
async def test_the_same_place_again(caught):
    shelf = MemoryAgents()
    assert await verify(caught, keys=[KEY], nonces=shelf)
    for later in (0, 30, 60):
        assert await refusal(caught, keys=[KEY], nonces=shelf, now=NOW + later) == (401, "nonce_replay")
    assert await refusal(caught, keys=[KEY], nonces=shelf, now=NOW + 61) == (401, "signature_expired")
    # Other headers, in another order, do not make it another request.
    again = change(caught, headers=(*reversed(caught.headers), (b"x-more", b"1")))
    assert await refusal(again, keys=[KEY], nonces=shelf) == (401, "nonce_replay")


@requirement("WB-087")
async def test_nobody_uses_up_the_nonces_of_somebody_else():
    shelf = MemoryAgents()
    mine = sign(request(), nonce="next")
    forged = sign(request(), which=1, keyid=KEY.thumbprint, nonce="next")
    assert await refusal(forged, nonces=shelf) == (401, "signature_invalid")
    moved = change(mine, path="/other")
    assert await refusal(moved, nonces=shelf) == (401, "signature_invalid")
    assert await refusal(adding(mine, {"content-digest": "sha-256=:AAAA:"}), nonces=shelf) == (
        401,
        "content_digest_mismatch",
    )
    assert (await verify(mine, nonces=shelf)).nonce == "next"
