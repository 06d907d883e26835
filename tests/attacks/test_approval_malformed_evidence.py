"""Throw every shape of JSON at the evidence of a live server: it says `missing_evidence` or better, and never breaks."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callgate.protocol import META
from support.approval_peer import refusal, text_of
from support.registry import requirement

A = {"resourceId": "a"}

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.sampled_from(
    ["method", "challengeId", "response", "id", "rawId", "type", "clientDataJSON", "authenticatorData", "signature"]
)
WORDS = st.sampled_from(["webauthn", "public-key", "AAAA", "e30", "=", "A" * 5000, "_-_-", ""])
ANYTHING = st.recursive(
    SCALARS | TEXT | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXT, inner, max_size=6),
    max_leaves=12,
)
PATHS = st.sampled_from(
    [
        (),
        ("method",),
        ("challengeId",),
        ("response",),
        ("response", "id"),
        ("response", "rawId"),
        ("response", "type"),
        ("response", "response"),
        ("response", "response", "clientDataJSON"),
        ("response", "response", "authenticatorData"),
        ("response", "response", "signature"),
        ("response", "response", "userHandle"),
        ("response", "authenticatorAttachment"),
        ("response", "clientExtensionResults"),
    ]
)
REASONS = {
    "missing_evidence",
    "unsupported_method",
    "challenge_unknown",
    "unknown_credential",
    "signature_verification_failed",
}


@pytest.fixture(scope="module")
def alice(library):
    return library.join("fuzzed")


def put(evidence, path, value):
    if not path:
        return value
    head, *rest = path
    return evidence | {head: put(evidence.get(head), tuple(rest), value)}


def send(alice, evidence):
    # The SDK takes no text that UTF-8 cannot hold; nor does the strict reader before it.
    params = {"name": "delete_resource", "arguments": A, "_meta": {META: evidence}}
    return alice.peer.ask("tools/call", json.loads(json.dumps(params)))


@requirement("VA-103", "VA-141", "VA-073")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(evidence=ANYTHING)
def test_evidence_that_is_anything(library, alice, evidence):
    before = len(library.executed)
    code, reason = refusal(send(alice, evidence))
    assert code == -32001
    assert reason in REASONS
    assert library.executed[before:] == []


@requirement("VA-103", "VA-073", "VA-128")
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=PATHS, value=ANYTHING)
def test_good_evidence_with_one_thing_in_it_replaced(library, alice, path, value):
    challenge = alice.challenge("delete_resource", A)
    good = alice.signs(challenge)
    bent = put(good, path, value)
    before = len(library.executed)
    answer = send(alice, bent)
    if "result" in answer:
        # Only what nothing depends on can be anything.
        assert path[-1:] in (("authenticatorAttachment",), ("clientExtensionResults",), ("userHandle",)) or bent == good
        return
    code, reason = refusal(answer)
    assert code == -32001
    assert reason in REASONS
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, good)) == "deleted a"
