"""Every reason to turn a caller away, met from outside: which request gets which status, and that nothing of it passed."""

import hashlib
import json
import time
from base64 import b64encode

import pytest

from callgate.agents.keys import RSA_PSS_256
from callgate.errors import Reason
from support.agents_crafted import crafted, jwk, nonce
from support.agents_gate import INSIDE, PLAIN, call, known, reason, signer, site, web
from support.callers import Agent, Clock, Issuer
from support.registry import requirement

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
    before = len(running.got())
    reply = running.send(None, body, headers=headers)
    assert len(running.got()) == before
    told = json.loads(reply.body)["error"]
    assert told["data"]["reason"] in set(Reason)
    assert told["message"]
    assert running.gateway.events("caller refused")[-1]["reason"] == told["data"]["reason"]
    return reason(reply)


def edited(headers, name, old, new):
    assert old in headers[name]
    return headers | {name: headers[name].replace(old, new)}


def without(headers, name):
    return {key: value for key, value in headers.items() if key != name}


def flipped(headers):
    text = headers["signature"]
    return headers | {"signature": text[:6] + ("A" if text[6] != "A" else "B") + text[7:]}


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
    "unknown component": (lambda g: crafted(g) | UNREAD, 400, "unsupported_covered_field"),
    "header that is not there": (lambda g: crafted(g) | UNSENT, 400, "unsupported_covered_field"),
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
    "other host": (lambda g: edited(crafted(g), "signature-input", "@path", "@authority"), 400, "ANY"),
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
del MADE["other host"]

_LEAST = f';created={{0}};expires={{1}};keyid="k";nonce="n";tag="web-bot-auth"'


def input_over(covered):
    now = int(time.time())
    return {"signature-input": f"sig1=({covered}){_LEAST.format(now, now + 60)}"}


UNREAD = input_over('"@authority" "@foo"')
UNSENT = input_over('"@authority" "x-not-sent"')


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
@pytest.mark.parametrize("made", MADE)
def test_a_request_that_is_not_signed_as_it_should_be(gate, made):
    make, status, why = MADE[made]
    assert refused(gate, make(gate)) == (status, why)
