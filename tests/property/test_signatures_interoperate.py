"""What we sign, another library verifies, and what it signs, we verify: over components, labels and values."""

import asyncio
import datetime as dt
import logging
import time
from types import SimpleNamespace

import pytest
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, algorithms
from http_message_signatures.resolvers import MappingKeyResolver
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.agents.keys import PublicKey
from callgate.agents.model import Signed
from callgate.agents.signing import Signer
from support.registry import requirement
from support.signed_requests import AGENT, Found, adding, private, verify

KINDS = {
    "ed25519": algorithms.ED25519,
    "p256": algorithms.ECDSA_P256_SHA256,
    "rsa": algorithms.RSA_PSS_SHA512,
}
DERIVED = ["@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query"]
TOKEN = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.*", max_size=12)
LABELS = st.builds("{}{}".format, st.sampled_from("abcxyz*"), TOKEN)
# Anything printable, with whitespace around it and tabs inside.
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.just("\t"), max_size=40)
SEGMENTS = st.text("abcXYZ019-._~!$&'()*+,;=:@", max_size=8) | st.sampled_from(["%20", "%2F", "%c3%a9"])
PATHS = (
    st.lists(SEGMENTS, min_size=1, max_size=4)
    .map(lambda parts: "/" + "/".join(parts))
    .filter(lambda path: not path.startswith("//"))
)
QUERY_VALUES = st.text("abcXYZ019-._~!$'()*,;:@/?", max_size=10) | st.sampled_from(["a%20b", "a+b", "%C3%A9", "%2A~"])
STRINGS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=30)


@st.composite
def cases(draw):
    """A request, what of it is covered, and a label."""
    params = draw(st.dictionaries(st.text("abcxyz", min_size=1, max_size=3), QUERY_VALUES, max_size=3))
    query = "&".join(f"{name}={value}" for name, value in params.items()) if params else None
    headers = {"x-plain": draw(VALUES), "x-other": draw(VALUES), "x-dict": "  a=1,b=(x  y);z , c;q=?1, d=:AQID:"}
    signed = Signed(
        draw(st.sampled_from(["GET", "POST", "DELETE", "PATCH"])),
        draw(st.sampled_from(["https", "http"])),
        draw(st.sampled_from(["gate.example", "gate.example:8443", "127.0.0.1:9"])),
        draw(PATHS),
        query,
        tuple((name.encode(), value.encode()) for name, value in headers.items()),
        draw(st.binary(max_size=20)),
    )
    choice = [*DERIVED, "x-plain", "x-other", '"x-plain";bs', '"x-dict"']
    choice += [f'"x-dict";key="{key}"' for key in "abcd"] + ['"x-dict";key="b";sf']
    choice += [f'"@query-param";name="{name}"' for name in params]
    covered = draw(st.lists(st.sampled_from(choice), unique=True, max_size=8))
    if not {"@authority", "@target-uri"} & set(covered):
        covered.append(draw(st.sampled_from(["@authority", "@target-uri"])))
    return signed, covered, draw(LABELS)


def theirs(signed, headers=()):
    """The request as the other library takes one."""
    url = f"{signed.scheme}://{signed.authority}{signed.path}" + ("" if signed.query is None else f"?{signed.query}")
    held = {name.decode(): value.decode() for name, value in signed.headers} | dict(headers)
    return SimpleNamespace(method=signed.method, url=url, headers=held, body=signed.body)


def resolver(by, kind):
    key = private(kind)
    return MappingKeyResolver(public_keys={by.keyid: key.public_key()}, private_keys={by.keyid: key})


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("http_message_signatures").setLevel(logging.ERROR)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(case=cases(), nonce=STRINGS)
@requirement("WB-001", "WB-002")
def test_what_we_sign_the_other_library_verifies(kind, case, nonce):
    signed, covered, label = case
    by = Signer(private(kind), AGENT, label=label)
    headers = by.sign(signed, covered=covered, nonce=nonce)
    verifier = HTTPMessageVerifier(signature_algorithm=KINDS[kind], key_resolver=resolver(by, kind))
    (result,) = verifier.verify(theirs(signed, headers), expect_tag="web-bot-auth", body=signed.body)
    assert (result.label, result.nonce, result.body) == (label, nonce, signed.body)
    assert len(result.covered_components) == len(covered) + 3
    # And we verify it ourselves.
    got = asyncio.run(verify(adding(signed, headers), keys=[PublicKey.read(by.jwk, AGENT)], now=time.time()))
    assert (got.label, got.nonce, got.digest_verified) == (label, nonce, True)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(case=cases(), nonce=STRINGS, named=st.booleans())
@requirement("WB-001", "WB-002")
def test_what_the_other_library_signs_we_verify(kind, case, nonce, named):
    signed, covered, label = case
    by = Signer(private(kind), AGENT)
    message = theirs(signed)
    message.headers["Signature-Agent"] = f'{label}="{AGENT}"'
    now = dt.datetime.now(tz=dt.UTC)
    HTTPMessageSigner(signature_algorithm=KINDS[kind], key_resolver=resolver(by, kind)).sign(
        message,
        key_id=by.keyid,
        created=now,
        expires=now + dt.timedelta(seconds=60),
        nonce=nonce,
        label=label,
        tag="web-bot-auth",
        include_alg=named,
        covered_component_ids=[*covered, f'"signature-agent";key="{label}"'],
        body=signed.body,
    )
    added = {name: value for name, value in message.headers.items() if not name.startswith("x-")}
    found = Found(PublicKey.read(by.jwk, AGENT))
    got = asyncio.run(verify(adding(signed, added), lookup=found, now=time.time()))
    assert (got.label, got.nonce, got.others) == (label, nonce, {})
    assert got.digest_verified is (b"content-digest" in dict(adding(signed, added).headers))
    assert found.asked == [(by.keyid, AGENT)]
