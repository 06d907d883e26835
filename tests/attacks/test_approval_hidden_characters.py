"""Make the person read something else than what is done: with characters that turn, hide or overwrite others."""

import unicodedata

import pytest

from support.approval_peer import ERAS, text_of
from support.registry import requirement
from support.table import rows

TRICKS = {
    "report\u202egnp.exe": r"report\u202egnp.exe",
    "a\u200bb\u200d": r"a\u200bb\u200d",
    "safe\n\nApproved by security": r"safe\n\nApproved by security",
    "x\rDelete nothing": r"x\rDelete nothing",
    "\x1b[2Ksafe": r"\u001b[2Ksafe",
    "tag\U000e0041": r"tag\u{e0041}",
    "\u2066left\u2069": r"\u2066left\u2069",
    "no\u00a0break": r"no\u00a0break",
    "back\\slash \\u202e": r"back\\slash \\u202e",
    "\ufeffbom": r"\ufeffbom",
    "nul\0": r"nul\u0000",
    "\u3164blank": r"\u3164blank",
}


@pytest.fixture(scope="module", params=ERAS)
def alice(library, request):
    return library.join(f"hidden-{request.param}", request.param)


def plain(text):
    return all(char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Zl", "Zp"} for char in text)


@requirement("VA-064", "VA-063")
@rows("text", TRICKS, ids=lambda text: text.encode("unicode_escape").decode())
def test_they_are_spelt_out(alice, text):
    described = alice.challenge("delete_resource", {"resourceId": text})["displayText"]
    assert described == f"Permanently delete resource {TRICKS[text]}"
    listed = alice.challenge("keep", {"value": {text: [text]}})["displayText"]
    assert listed.count(TRICKS[text]) == 2
    assert plain(described)
    assert plain(listed)
    # One more line would be somebody else's sentence.
    assert described.count("\n") == 0


@requirement("VA-064")
def test_two_that_look_alike_read_differently_and_are_two_calls(library, alice):
    texts = [
        alice.challenge("delete_resource", {"resourceId": one})["displayText"]
        for one in ("ab", "a\u200bb", "a\\u200bb")
    ]
    assert len(set(texts)) == 3
    answer = alice.approves("delete_resource", {"resourceId": "a\u200bb"})
    assert text_of(answer) == "deleted a\u200bb"
    assert library.executed[-1] == ("delete_resource", "a\u200bb")


@requirement("VA-063")
def test_a_long_value_is_shown_whole(alice):
    value = "0123456789" * 2000 + "THE END"
    assert value in alice.challenge("keep", {"value": value})["displayText"]
