"""Every reason to turn a caller away, met from outside: which request gets which status, and that nothing of it passed."""

import hashlib
import json
import time
from base64 import b64encode

import pytest

from callgate.agents.keys import RSA_PSS_256
from callgate.errors import Reason
from support.agents_crafted import crafted, jwk
from support.agents_gate import INSIDE, PLAIN, call, reason, signer, site, web
from support.callers import Agent, Clock, Issuer
from support.hostile import until
from support.registry import requirement
from support.signed_requests import private
from support.table import rows

PLACE = '"@method" "@authority" "@path"'
BOUND = f'{PLACE} "content-digest"'


def digest(body, algorithm="sha-256"):
    value = hashlib.new(algorithm.replace("-", ""), body).digest()
    return {"Content-Digest": f"{algorithm}=:{b64encode(value).decode()}:"}


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    """No rule names a tool here, so that digests are for agents to decide."""
    directory = tmp_path_factory.mktemp("reasons")
    with web(directory) as pages:
        section = {
            "mode": "required",
            "known": {"known": {"jwk": jwk()}, "rsa": {"jwk": jwk("rsa")}, "curve": {"jwk": jwk("p256")}},
            "signatures": {"allow_addresses": INSIDE},
        }
        with site(directory, pages.env, agents=section) as running:
            running.pages = pages
            yield running


def refused(running, headers, body=PLAIN):
    """How it was refused: said once in the answer, once in the log, and never to the server."""
    before, seen = len(running.got()), len(running.gateway.events("caller refused"))
    reply = running.send(None, body, headers=headers)
    assert len(running.got()) == before
    told = json.loads(reply.body)["error"]
    assert told["data"]["reason"] in set(Reason)
    assert told["message"]
    logged = until(lambda: running.gateway.events("caller refused")[seen:], "the log says so")
    assert [one["reason"] for one in logged] == [told["data"]["reason"]]
    return reason(reply)


def edited(headers, name, old, new):
    assert old in headers[name]
    return headers | {name: headers[name].replace(old, new)}


def without(headers, name):
    return {key: value for key, value in headers.items() if key != name}


def flipped(headers):
    text = headers["signature"]
    return headers | {"signature": text[:6] + ("A" if text[6] != "A" else "B") + text[7:]}


def over(covered):
    """A signature that says it covers this."""
    now = int(time.time())
    least = f';created={now};expires={now + 60};keyid="k";nonce="n";tag="web-bot-auth"'
    return {"signature-input": f"sig1=({covered}){least}", "signature": "sig1=:AAAA:"}


MADE = {
    "unsigned": (lambda g: {}, 401, "missing_signature_headers"),
    "no signature": (lambda g: without(crafted(g), "signature"), 401, "missing_signature_headers"),
    "no input": (lambda g: without(crafted(g), "signature-input"), 401, "missing_signature_headers"),
    "input is garbage": (lambda g: crafted(g) | {"signature-input": "((("}, 400, "signature_input_malformed"),
    "input is no list": (lambda g: crafted(g) | {"signature-input": "sig1=?1"}, 400, "signature_input_malformed"),
    "keyid is a token": (lambda g: crafted(g, keyid="=abc"), 400, "signature_input_malformed"),
    "no keyid": (lambda g: crafted(g, keyid=None), 400, "missing_required_param"),
    "no created": (lambda g: crafted(g, created=None), 400, "missing_required_param"),
    "no expires": (lambda g: crafted(g, expires=None), 400, "missing_required_param"),
    "no tag": (lambda g: crafted(g, tag=None), 400, "missing_required_param"),
    "no nonce": (lambda g: crafted(g, nonce=None), 400, "missing_required_param"),
    "other tag": (lambda g: crafted(g, tag="other"), 401, "wrong_tag"),
    "hmac": (lambda g: crafted(g, alg="hmac-sha256"), 400, "unsupported_alg"),
    "rsa with sha-256": (
        lambda g: crafted(g, kind="rsa", alg=RSA_PSS_256, algorithm=RSA_PSS_256),
        400,
        "unsupported_alg",
    ),
    "algorithm of another key": (lambda g: crafted(g, alg="ecdsa-p256-sha256"), 400, "unsupported_alg"),
    "created is a fraction": (lambda g: crafted(g, created="=1.5"), 400, "timestamp_not_integer"),
    "expires is a text": (lambda g: crafted(g, expires="1790000000"), 400, "timestamp_not_integer"),
    "481 seconds": (lambda g: crafted(g, lasts=481), 401, "window_too_large"),
    "created in a minute": (lambda g: crafted(g, ago=-60), 401, "created_in_future"),
    "expired": (lambda g: crafted(g, ago=61), 401, "signature_expired"),
    "expires when created": (lambda g: crafted(g, lasts=0), 401, "signature_expired"),
    "nobody's key": (lambda g: crafted(g, which=7), 401, "unknown_keyid"),
    "known by kid only": (lambda g: crafted(g, keyid="some-kid"), 401, "unknown_keyid"),
    "unknown component": (lambda g: over('"@authority" "@foo"'), 400, "unsupported_covered_field"),
    "header that is not there": (lambda g: over('"@authority" "x-not-sent"'), 400, "unsupported_covered_field"),
    "path only": (lambda g: crafted(g, covered='"@path"'), 400, "missing_required_covered_field"),
    "agent not covered": (
        lambda g: crafted(g) | {"Signature-Agent": 'sig1="https://a.example"'},
        400,
        "missing_required_covered_field",
    ),
    "other label signed": (
        lambda g: edited(crafted(g), "signature", "sig1=", "sig2="),
        400,
        "signature_malformed",
    ),
    "signature is a text": (lambda g: crafted(g) | {"signature": 'sig1="abc"'}, 400, "signature_malformed"),
    "signature is no base64": (lambda g: crafted(g) | {"signature": "sig1=:*:"}, 400, "signature_malformed"),
    "flipped": (lambda g: flipped(crafted(g)), 401, "signature_invalid"),
    "one more parameter": (
        lambda g: edited(crafted(g), "signature-input", ";tag", ";x=1;tag"),
        401,
        "signature_invalid",
    ),
    "digest of md5": (
        lambda g: crafted(g, covered=BOUND, headers={"Content-Digest": "md5=:AAAAAAAAAAAAAAAAAAAAAA==:"}),
        401,
        "content_digest_invalid",
    ),
    "digest is garbage": (
        lambda g: crafted(g, covered=BOUND, headers={"Content-Digest": "sha-256"}),
        401,
        "content_digest_invalid",
    ),
    "digest of another body": (
        lambda g: crafted(g, covered=BOUND, headers=digest(b"{}")),
        401,
        "content_digest_mismatch",
    ),
    "digest of sha-512 of another body": (
        lambda g: crafted(g, covered=BOUND, headers=digest(b"{}", "sha-512")),
        401,
        "content_digest_mismatch",
    ),
}


@requirement(
    "WB-056",
    "WB-057",
    "WB-058",
    "WB-059",
    "WB-060",
    "WB-061",
    "WB-062",
    "WB-063",
    "WB-064",
    "WB-065",
    "WB-067",
    "WB-068",
    "WB-069",
    "WB-070",
    "WB-071",
    "WB-074",
    "WB-075",
    "WB-010",
)
@rows("made", MADE)
def test_a_request_that_is_not_signed_as_it_should_be(gate, made):
    make, status, why = MADE[made]
    assert refused(gate, make(gate)) == (status, why)


GOOD = {
    "at least": lambda g: crafted(g, covered='"@authority"'),
    "target": lambda g: crafted(g, covered='"@target-uri"'),
    "480 seconds": lambda g: crafted(g, lasts=480),
    "480 seconds, almost over": lambda g: crafted(g, ago=470, lasts=480),
    "a clock slightly ahead": lambda g: crafted(g, ago=-2),
    "another curve": lambda g: crafted(g, kind="p256"),
    "rsa": lambda g: crafted(g, kind="rsa"),
    "no algorithm named": lambda g: crafted(g, alg=None),
    "bound": lambda g: crafted(g, covered=BOUND, headers=digest(PLAIN)),
    "bound by sha-512": lambda g: crafted(g, covered=BOUND, headers=digest(PLAIN, "sha-512")),
    "another label": lambda g: crafted(g, label="me"),
}


@requirement("WB-013", "WB-014", "WB-016", "WB-018", "WB-052")
@rows("made", GOOD)
def test_a_request_that_is_signed_as_it_should_be_passes(gate, made):
    assert reason(gate.send(None, headers=GOOD[made](gate))) == (200, "")
    bound = b"true" if made.startswith("bound") else b"false"
    assert gate.got()[-1].header("callgate-body-verified") == [bound]


@requirement("WB-003")
def test_of_several_labels_one_that_holds_is_enough(gate):
    good, other = crafted(gate, label="sig2"), crafted(gate, label="sig1", tag="other", which=9)
    both = {name: f"{other[name]}, {good[name]}" for name in ("signature-input", "signature")}
    assert reason(gate.send(None, headers=both)) == (200, "")
    assert gate.got()[-1].header("callgate-agent") == [b"known"]


@requirement("WB-004", "WB-007", "WB-008", "WB-009", "WB-033", "WB-047")
@rows(
    ("named", "covered"),
    [('sig1="{}"', '"signature-agent";key="sig1"'), ('"{}"', '"signature-agent"')],
    ids=["dictionary", "string"],
)
def test_an_agent_that_names_its_directory_is_found_there(tmp_path, named, covered):
    with web(tmp_path) as pages:
        pages.pages["/.well-known/http-message-signatures-directory"] = json.dumps({"keys": [jwk()]}).encode()
        section = {"mode": "required", "signatures": {"enabled": True, "allow_addresses": INSIDE}}
        with site(tmp_path, pages.env, agents=section) as running:
            assert refused(running, crafted(running)) == (401, "unknown_keyid")
            assert pages.asked == []
            naming = {"Signature-Agent": named.format(pages.url)}
            headers = crafted(running, covered=f"{PLACE} {covered}", headers=naming)
            assert reason(running.send(None, headers=headers)) == (200, "")
            assert set(pages.asked) == {"/.well-known/http-message-signatures-directory"}


# ---- what agents may ----


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """Rules, budgets and tokens for three agents; a fourth has a directory, and nobody listed it."""
    directory = tmp_path_factory.mktemp("strict")
    with web(directory) as pages:
        agent = Agent(Clock(time.time()), private=private())
        issuer = Issuer(pages.url, agent.clock)
        section = {
            "mode": "required",
            "known": {
                "picky": {"jwk": jwk(), "allow_tools": ["search"]},
                "shut": {"jwk": jwk(which=1), "denied": True},
                "slow": {"jwk": jwk(which=2), "per_minute": 0.001, "burst": 1},
            },
            "signatures": {"allow_addresses": INSIDE},
            "kya": {"mode": "required", "issuers": {pages.url: f"{pages.url}/jwks"}, "audience": "seller-1"},
        }
        stranger = signer(pages.url)
        pages.publish(stranger)
        with site(directory, pages.env, agents=section) as running:
            running.stranger, running.token = stranger, issuer.kya(agent)
            yield running


SEARCH, CHECKOUT = call("search"), call("checkout")


def bound(running, body=SEARCH, **how):
    sent = digest(body) | how.pop("also", {})
    return crafted(running, body, BOUND, headers=sent, **how)


LATER = {
    "no digest": (lambda g: (crafted(g, SEARCH), SEARCH), 400, "content_digest_required"),
    "digest not covered": (
        lambda g: (crafted(g, SEARCH, headers=digest(SEARCH)), SEARCH),
        401,
        "content_digest_required",
    ),
    "body of another tool": (lambda g: (bound(g), CHECKOUT), 401, "content_digest_mismatch"),
    "not listed": (lambda g: (g.signed(g.stranger, SEARCH), SEARCH), 403, "agent_not_in_directory"),
    "denied": (lambda g: (bound(g, which=1), SEARCH), 403, "agent_denied"),
    "denied without a call": (lambda g: (bound(g, PLAIN, which=1), PLAIN), 403, "agent_denied"),
    "other tool": (lambda g: (bound(g, CHECKOUT), CHECKOUT), 403, "tool_denied"),
    "no token": (lambda g: (bound(g), SEARCH), 401, "kya_required"),
    "no token without a call": (lambda g: (bound(g, PLAIN), PLAIN), 401, "kya_required"),
    "token is garbage": (lambda g: (bound(g, also={"KYAPay-Token": "a.b.c"}), SEARCH), 401, "kya_invalid"),
    "keys of the issuer are gone": (lambda g: (bound(g, also={"KYAPay-Token": g.token}), SEARCH), 500, "kya_invalid"),
    "another kind of credential": (lambda g: ({"Authorization": "Basic YTpi"}, SEARCH), 401, "credentials_required"),
    "no key of ours": (
        lambda g: ({"Authorization": f"Bearer cgk_{'0' * 12}_{'A' * 43}"}, SEARCH),
        401,
        "credentials_invalid",
    ),
}


@requirement(
    "WB-019", "WB-053", "WB-072", "WB-073", "WB-077", "WB-078", "WB-079", "WB-081", "WB-082", "WB-083", "WB-088"
)
@rows("made", LATER)
def test_an_agent_that_asks_for_what_it_may_not(strict, made):
    make, status, why = LATER[made]
    headers, body = make(strict)
    assert reason(strict.send(None, body, headers=headers)) == (status, why)
    assert strict.got() == []


@requirement("WB-066")
def test_a_request_that_came_before(strict):
    headers = bound(strict)
    assert reason(strict.send(None, SEARCH, headers=headers)) == (401, "kya_required")
    for _ in range(3):
        assert reason(strict.send(None, SEARCH, headers=headers)) == (401, "nonce_replay")


@requirement("WB-026", "WB-080")
def test_the_budget_comes_before_the_token(strict):
    assert reason(strict.send(None, SEARCH, headers=bound(strict, which=2))) == (401, "kya_required")
    spent = strict.send(None, SEARCH, headers=bound(strict, which=2))
    assert reason(spent) == (429, "rate_limited")
    assert int(spent.header("Retry-After")) > 0
    assert spent.header("RateLimit").startswith('"agent";r=0;t=')
    assert spent.header("RateLimit-Policy").startswith('"agent";q=1;w=')


def test_every_reason_that_concerns_callers_is_met_here():
    every = list(Reason)
    callers = every[every.index(Reason.MISSING_SIGNATURE_HEADERS) : every.index(Reason.TOOL_UNKNOWN)]
    met = {why for _, _, why in (*MADE.values(), *LATER.values())} | {"nonce_replay", "rate_limited"}
    assert met == set(callers)
