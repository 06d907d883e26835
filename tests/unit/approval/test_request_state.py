"""Sealed texts: ours are known as ours, and nobody else's open."""

import pytest

from callgate.approval.request_state import RequestStateSigner, SignedState
from callgate.errors import Reason, Refused

OLD, NEW, THEIRS = b"o" * 32, b"n" * 32, b"t" * 32
STATE = SignedState("state", "request", b"\x00\xff" * 16, "caller", 1_800_000_000_000, b"nonce")


def seals(*keys):
    return RequestStateSigner(lambda: keys)


def test_what_is_sealed_opens_for_its_purpose():
    text = seals(NEW).seal(STATE)
    assert seals(NEW).open(text, "state") == STATE
    with pytest.raises(Refused) as caught:
        seals(NEW).open(text, "question")
    assert caught.value.reason is Reason.REQUEST_STATE_INVALID


def test_a_rotated_key_still_opens():
    text = seals(OLD).seal(STATE)
    both = seals(NEW, OLD)
    assert both.is_ours(text)
    assert both.open(text, "state") == STATE
    assert both.seal(STATE) != text
    assert not seals(NEW).is_ours(text)


def test_texts_of_others_are_not_ours():
    theirs = seals(THEIRS).seal(STATE)
    for text in (theirs, "", "state", "callgate-", "callgate-x.y.z", None, 7, {}, [], b"callgate-"):
        assert not seals(NEW).is_ours(text)
        with pytest.raises(Refused):
            seals(NEW).open(text, "state")


def test_every_other_spelling_is_refused():
    text = seals(NEW).seal(STATE)
    mark, body, tag = text.split(".")
    others = [f"{mark}.{body}=.{tag}", f"{mark}.{body}.{tag}=", f"{mark}.{body} .{tag}", f"{mark}.{body}.{tag}.x"]
    others += [f"{mark}.{body[:-1]}.{tag}", f"{mark}.{tag}.{body}", f"{mark}.{body}.", f"{mark}..{tag}", mark + "."]
    others += [f"{mark}.{body}.{tag[:-1]}{chr(ord(tag[-1]) ^ 1)}"]
    for other in others:
        with pytest.raises(Refused) as caught:
            seals(NEW).open(other, "state")
        assert caught.value.code == -32602


def test_a_text_without_end_is_nobodys():
    assert not seals(NEW).is_ours(seals(NEW).seal(STATE) + "A" * 100_000)
