"""Several signatures on one request: each is looked at for itself, and what does not hold is told."""

import pytest

from callgate.errors import Refused
from callgate.store.memory import MemoryAgents
from support.registry import requirement
from support.signed_requests import AGENT, NOW, Found, adding, change, public, refusal, replacing, request, sign, verify
from support.table import rows

BOTH = [public(), public(which=1)]


def without(signed, label):
    """The request with one label dropped, as a thief can."""
    kept = tuple(
        pair for pair in signed.headers if not (pair[0].startswith(b"signature") and pair[1].startswith(label + b"="))
    )
    return change(signed, headers=kept)


@requirement("WB-003")
async def test_a_signature_of_another_tag_is_nobodys_business():
    signed = sign(sign(request(), tag="other-application"), label="sig2")
    got = await verify(signed)
    assert (got.label, got.others) == ("sig2", {"sig1": "wrong_tag"})


@requirement("WB-003")
async def test_labels_on_one_line_and_on_several_are_the_same():
    several = sign(sign(request(), tag="other"), label="sig2", nonce="n-2")
    lines = {}
    for name, value in several.headers:
        lines[name] = lines[name] + b", " + value if name in lines else value
    one = change(several, headers=tuple(lines.items()))
    assert len(one.headers) < len(several.headers)
    assert await verify(one) == await verify(several)


@rows(
    ("broken", "reason"),
    [
        ({"expires": NOW - 1, "created": NOW - 60}, "signature_expired"),
        ({"created": NOW + 100, "expires": NOW + 160}, "created_in_future"),
        ({"expires": NOW + 4800}, "window_too_large"),
        ({"keyid": "A" * 43}, "unknown_keyid"),
        ({"alg": "hmac-sha256"}, "unsupported_alg"),
        ({"created": "=1.5"}, "timestamp_not_integer"),
        ({"tag": None}, "missing_required_param"),
        ({"nonce": None}, "missing_required_param"),
        ({"which": 1, "keyid": public().thumbprint}, "signature_invalid"),
        ({"covered": '"@path"'}, "missing_required_covered_field"),
    ],
)
@rows("order", ["bad first", "good first"])
async def test_one_bad_label_does_not_spoil_a_good_one(broken, reason, order):
    bad = {"label": "bad", **broken}
    if order == "bad first":
        signed = sign(sign(request(), **bad), label="good", nonce="n-2")
    else:
        signed = sign(sign(request(), label="good", nonce="n-2"), **bad)
    got = await verify(signed)
    assert (got.label, dict(got.others)) == ("good", {"bad": reason})


async def test_a_label_that_is_no_list_or_has_no_signature_is_told():
    signed = adding(sign(request(), label="good"), [("signature-input", "odd=1"), ("signature", "lonely=:AAAA:")])
    got = await verify(signed)
    assert got.others == {"odd": "signature_input_malformed", "lonely": "signature_input_malformed"}
    signed = adding(sign(request(), label="good"), {"signature-input": 'bare=("@authority");tag="web-bot-auth"'})
    assert set((await verify(signed)).others) == {"bare"}


async def test_where_none_holds_the_first_of_ours_says_why_and_all_are_told():
    signed = sign(sign(sign(request(), tag="other"), label="sig2", expires=NOW + 481), label="sig3", alg="none")
    with pytest.raises(Refused) as caught:
        await verify(signed)
    assert caught.value.reason.value == "window_too_large"
    assert caught.value.data["labels"] == {
        "sig1": "wrong_tag",
        "sig2": "window_too_large",
        "sig3": "unsupported_alg",
    }


async def test_only_a_few_are_tried():
    signed = request()
    for at in range(5):
        signed = sign(signed, label=f"sig{at}", nonce=f"n-{at}")
    found = Found(public())
    assert await refusal(signed, lookup=found) == (400, "signature_input_malformed")
    assert found.asked == []
    assert (await verify(without(signed, b"sig0"))).label == "sig1"


async def test_of_two_good_ones_the_first_counts():
    signed = sign(sign(request(), which=1, label="b"), label="a")
    got = await verify(signed, keys=BOTH)
    assert (got.label, got.keyid, got.others) == ("b", BOTH[1].thumbprint, {})


async def test_a_request_with_two_good_ones_cannot_be_sent_once_for_each():
    shelf = MemoryAgents()
    signed = sign(sign(request(), nonce="n-1"), label="sig2", nonce="n-2")
    assert await verify(signed, nonces=shelf)
    for label in (b"sig1", b"sig2"):
        assert await refusal(without(signed, label), nonces=shelf) == (401, "nonce_replay")
    assert await refusal(signed, nonces=shelf) == (401, "nonce_replay")


async def test_each_label_has_its_own_agent():
    agents = 'a="https://a.example", b="https://b.example"'
    signed = adding(request(), {"signature-agent": agents})
    signed = sign(signed, '"@authority" "signature-agent";key="a"', label="a", keyid="A" * 43)
    signed = sign(signed, '"@authority" "signature-agent";key="b"', label="b")
    found = Found(public())
    got = await verify(signed, lookup=found)
    assert (got.label, got.others) == ("b", {"a": "unknown_keyid"})
    assert found.asked == [("A" * 43, "https://a.example"), (public().thumbprint, "https://b.example")]


@requirement("WB-008", "WB-009")
@rows(
    ("header", "covered"),
    [
        (f'sig1="{AGENT}"', '"signature-agent";key="sig1"'),
        (f'other="https://o.example", sig1="{AGENT}"', '"signature-agent";key="sig1"'),
        (f'other="https://o.example", sig1="{AGENT}"', '"signature-agent"'),
        (f'other="https://o.example", sig1="{AGENT}"', '"signature-agent";sf'),
        (f'agent2="{AGENT}"', '"signature-agent";key="agent2"'),
        (f'agent2="{AGENT}"', '"signature-agent"'),
        (f'"{AGENT}"', '"signature-agent"'),
        (f'"{AGENT}"', '"signature-agent";sf'),
    ],
)
async def test_the_directory_that_is_meant(header, covered):
    found = Found(public())
    signed = sign(adding(request(), {"signature-agent": header}), f'"@authority" {covered}')
    assert await verify(signed, lookup=found)
    assert found.asked == [(public().thumbprint, AGENT)]


@rows(
    ("covered", "reason"),
    [
        ('"signature-agent"', "missing_required_covered_field"),
        ('"signature-agent";key="a" "signature-agent";key="b"', "missing_required_covered_field"),
        ('"signature-agent";key="c"', "unsupported_covered_field"),
    ],
)
async def test_no_directory_is_guessed(covered, reason):
    signed = adding(request(), {"signature-agent": 'a="https://a.example", b="https://b.example"'})
    good = sign(signed, '"@authority"')
    signed = replacing(
        good, "signature-input", lambda text: text.replace(b'"@authority"', f'"@authority" {covered}'.encode())
    )
    found = Found(public())
    assert await refusal(signed, lookup=found) == (400, reason)
    assert found.asked == []
