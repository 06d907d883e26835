"""Hostile headers: nothing but a refusal comes of them; and no message that was changed is taken for the one signed."""

import asyncio

import http_sf
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from callgate.agents.keys import PublicKey
from callgate.agents.signing import Signer
from callgate.agents.verifying import advertised, check_digest, inputs, line, signatures
from callgate.errors import Reason, Refused
from support.registry import requirement
from support.signed_requests import AGENT, NOW, adding, change, private, request, verify

SIGNED = adding(
    request(query="a=1&b=2"),
    Signer(private(), AGENT, clock=lambda: NOW).sign(
        adding(request(query="a=1&b=2"), {"x-dict": "a=1, b"}),
        nonce="n",
        covered=["@method", "@target-uri", '"@query-param";name="a"', "host", "content-type"],
    ),
)
KEY = PublicKey.read(Signer(private(), AGENT).jwk, AGENT)
FIELDS = ("signature-input", "signature", "signature-agent")

# Pieces that readers of these headers trip over, put together at random, beside plain noise.
PIECES = st.sampled_from(
    (
        b'sig1=("@authority")|"@authority"|(|)| |, |,|;|=|"|\\|\\"|:|:AAAA:|?1|?|%""|@1|@-99999999999999|1|-|1.5|1e5|'
        b'999999999999999|\t|\r\n |;key="a"|;sf|;bs|;req|;tr|;tag="web-bot-auth"|;created=1|sig1|*|\x00|\xff|'
        b'"x-dict"|"@query-param";name="a"|sha-256=:AAAA:|md5|"https://a.example"'
    ).split(b"|")
) | st.just(b"a" * 600)
HOSTILE = st.lists(PIECES, max_size=14).map(b"".join) | st.binary(max_size=80)


def outcome(signed):
    try:
        return asyncio.run(verify(signed, keys=[KEY]))
    except Refused as refused:
        return refused.reason


def test_the_message_that_is_changed_below_is_a_good_one():
    assert outcome(SIGNED).digest_verified is True


@pytest.mark.parametrize("read", [inputs, signatures, advertised, lambda raw: check_digest(raw, b"")])
@settings(max_examples=100, deadline=None)
@given(raw=HOSTILE)
@example(raw=b"")
@example(raw=b'a=%"%80"')
@example(raw=b"a=@99999999999999999")
@requirement("WB-058", "WB-070", "WB-074")
def test_readers_of_headers_refuse_and_never_break(read, raw):
    reason = Reason.SIGNATURE_MALFORMED
    try:
        read(raw)
    except Refused as refused:
        reason = refused.reason
    assert reason.value.startswith(("signature_", "content_digest_"))


@pytest.mark.parametrize("name", [*FIELDS, "content-digest", "host", "content-type"])
@settings(max_examples=100, deadline=None)
@given(raw=HOSTILE)
@requirement("WB-001", "WB-071")
def test_a_header_put_in_place_of_a_signed_one_is_refused(name, raw):
    held = dict(SIGNED.headers)[name.encode()]
    assume(line(raw) != held)
    headers = tuple((one, raw if one == name.encode() else value) for one, value in SIGNED.headers)
    assert isinstance(outcome(change(SIGNED, headers=headers)), Reason)


def _same(before, after):
    """Whether the member of our label is the same: other labels may come and go, nobody signs them."""
    try:
        one, two = (http_sf.parse(raw, tltype="dictionary")["sig1"] for raw in (before, after))
    except (ValueError, KeyError):
        return False
    return http_sf.ser({"sig1": one}) == http_sf.ser({"sig1": two})


@st.composite
def mutations(draw):
    """One small change to something that the signature covers, or to the signature."""
    kind = draw(st.sampled_from(["header", "header", "header", "method", "authority", "path", "query", "body"]))
    if kind == "header":
        at = draw(st.integers(0, len(SIGNED.headers) - 1))
        name, value = SIGNED.headers[at]
        new = _mutated(draw, value)
        assume(line(new) != value and not (name.decode() in FIELDS and _same(value, new)))
        return change(SIGNED, headers=(*SIGNED.headers[:at], (name, new), *SIGNED.headers[at + 1 :]))
    value = getattr(SIGNED, kind)
    new = _mutated(draw, value if kind == "body" else value.encode())
    if kind == "body":
        assume(new != value)
        return change(SIGNED, body=new)
    text = new.decode("latin-1")
    assume(text.lower() != value.lower() if kind == "authority" else text != value)
    # The scheme's own port is no other authority.
    assume(kind != "authority" or text.lower() != value + ":443")
    return change(SIGNED, **{kind: text})


def _mutated(draw, value):
    at = draw(st.integers(0, max(len(value) - 1, 0)))
    how = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "swap"]))
    if how == "flip" and value:
        return value[:at] + bytes([value[at] ^ draw(st.integers(1, 255))]) + value[at + 1 :]
    if how == "cut":
        return value[:at]
    if how == "insert":
        return value[:at] + draw(PIECES) + value[at:]
    if how == "repeat":
        return value + draw(st.sampled_from([b", ", b",", b""])) + value[at:]
    return value[at:] + value[:at]


@settings(max_examples=100, deadline=None)
@given(changed=mutations())
@requirement("WB-001", "WB-071", "WB-075", "WB-085", "WB-086")
def test_no_changed_message_is_taken_for_the_signed_one(changed):
    assert isinstance(outcome(changed), Reason)


KEYS = st.text("abz*019_-.", min_size=1, max_size=4)
STRINGS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=8).map(
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
)
BARE = (
    STRINGS
    | st.integers(-(10**15) + 1, 10**15 - 1).map(str)
    | st.sampled_from(["?1", "?0", "tok", "1.5", ":AQ==:", "-0", "007"])
)
PARAMS = st.lists(st.tuples(KEYS, st.none() | BARE), max_size=4).map(
    lambda pairs: "".join(f";{key}" if value is None else f";{key}={value}" for key, value in pairs)
)
ITEMS = st.builds("{}{}".format, st.sampled_from(['"@method"', '"x"', '"y-z"', '"a)b"', '"("', "tok", '"@q"']), PARAMS)
MEMBERS = st.builds("{}=({}){}".format, KEYS, st.lists(ITEMS, max_size=3).map(" ".join) | st.just(' "x"  "y" '), PARAMS)


@settings(max_examples=100, deadline=None)
@given(text=st.lists(MEMBERS, min_size=1, max_size=2).map(", ".join))
@requirement("WB-003", "WB-058")
def test_the_short_way_of_reading_says_what_the_parser_says(text):
    def refuse(key, where):
        raise ValueError("twice")

    try:
        expected = http_sf.parse(text.encode(), tltype="dictionary", on_duplicate_key=refuse)
    except ValueError:
        expected = None
    try:
        read = inputs(text.encode())
    except Refused:
        read = None
    if expected is None:
        assert read is None
        return
    for label, one in (read or {}).items():
        items, params = expected[label]
        if one is not None:
            assert one.text == http_sf.ser([(items, params)])
            assert one.params == params
            assert [type(value) for value in one.params.values()] == [type(value) for value in params.values()]
            assert [(c.name, c.params, c.text) for c in one.components] == [
                (name, of, http_sf.ser((name, of))) for name, of in items
            ]
    if read is not None:
        assert list(read) == list(expected)
