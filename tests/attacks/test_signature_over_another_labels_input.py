"""Mix the labels of signatures: one's signature under another's input, another's agent, a label that nobody signed."""

import pytest

from support.signed_requests import AGENT, Found, adding, change, public, refusal, request, sign, verify

BOTH = [public(), public(which=1)]
VICTIM, THIEF = public(), public(which=1)


def parts(signed):
    """The members of Signature-Input and Signature by label."""
    found = {b"signature-input": {}, b"signature": {}}
    for name, value in signed.headers:
        if name in found:
            label, _, member = value.partition(b"=")
            found[name][label.decode()] = member
    return found


def carrying(signed, inputs, signatures):
    kept = tuple(pair for pair in signed.headers if pair[0] not in {b"signature-input", b"signature"})
    lines = [(b"signature-input", label.encode() + b"=" + value) for label, value in inputs]
    lines += [(b"signature", label.encode() + b"=" + value) for label, value in signatures]
    return change(signed, headers=(*kept, *lines))


@pytest.fixture
def both():
    return sign(sign(request(), label="a", nonce="1"), label="b", which=1, nonce="2")


async def test_signatures_swapped_under_their_labels(both):
    held = parts(both)
    inputs, signatures = held[b"signature-input"], held[b"signature"]
    assert await verify(both, keys=BOTH)
    swapped = carrying(both, inputs.items(), [("a", signatures["b"]), ("b", signatures["a"])])
    assert await refusal(swapped, keys=BOTH) == (401, "signature_invalid")


async def test_a_signature_under_a_label_without_input(both):
    held = parts(both)
    inputs, signatures = held[b"signature-input"], held[b"signature"]
    lonely = carrying(both, [("a", inputs["a"])], [("b", signatures["a"])])
    assert await refusal(lonely, keys=BOTH) == (400, "signature_malformed")
    lonely = carrying(both, [("a", inputs["a"])], [("b", signatures["a"]), ("a", signatures["b"])])
    assert await refusal(lonely, keys=BOTH) == (401, "signature_invalid")


async def test_an_input_for_more_than_was_signed(both):
    held = parts(both)
    inputs, signatures = held[b"signature-input"], held[b"signature"]
    wider = inputs["a"].replace(b'"@path"', b'"@path" "content-type"')
    narrower = inputs["a"].replace(b' "@path"', b"")
    retagged = inputs["a"].replace(b';nonce="1"', b';nonce="3"')
    for text in (wider, narrower, retagged):
        forged = carrying(both, [("a", text)], [("a", signatures["a"])])
        assert await refusal(forged, keys=BOTH) == (401, "signature_invalid")


async def test_a_signature_made_for_another_application_is_not_ours(both):
    # The victim signed this for something else; a thief gives it our tag.
    other = sign(request(), tag="login")
    retagged = change(
        other,
        headers=tuple((name, value.replace(b'tag="login"', b'tag="web-bot-auth"')) for name, value in other.headers),
    )
    assert await refusal(other) == (401, "wrong_tag")
    assert await refusal(retagged) == (401, "signature_invalid")


async def test_a_thief_signs_with_his_key_and_names_the_victims_agent():
    # The label of the thief's signature is not the victim's member, and he covers only the latter.
    header = {"signature-agent": f'victim="{AGENT}", thief="https://thief.example"'}
    signed = sign(
        adding(request(), header), '"@authority" "signature-agent";key="victim"', label="thief", which=1, nonce="1"
    )

    class ByDirectory(Found):
        async def __call__(self, keyid, directory):
            await super().__call__(keyid, directory)
            return VICTIM if directory == AGENT else THIEF

    found = ByDirectory()
    # He is looked for in the directory that he covers, where his key is not.
    assert await refusal(signed, lookup=found) == (401, "unknown_keyid")
    assert found.asked == [(THIEF.thumbprint, AGENT)]


async def test_an_agent_changed_after_signing():
    signed = sign(
        adding(request(), {"signature-agent": f'sig1="{AGENT}"'}), '"@authority" "signature-agent";key="sig1"'
    )
    moved = change(
        signed,
        headers=tuple((name, value.replace(b"agent.example", b"thief.example")) for name, value in signed.headers),
    )
    assert await verify(signed)
    assert await refusal(moved) == (401, "signature_invalid")
    # One more member is nobody's, and changes nothing.
    more = change(
        signed,
        headers=tuple(
            (name, value + b', x="https://thief.example"' if name == b"signature-agent" else value)
            for name, value in signed.headers
        ),
    )
    found = Found(VICTIM)
    assert await verify(more, lookup=found)
    assert found.asked == [(VICTIM.thumbprint, AGENT)]
