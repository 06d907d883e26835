"""What leaves for a server: labels put in, private words taken out, every other byte as it was."""

import json

from hypothesis import given
from hypothesis import strategies as st

from callgate.jsonrpc import Limits, drop_member, parse
from callgate.protocol import SESSION_META
from callgate.trust.model import ANNOTATIONS_META, PROMPT_META
from callgate.trust.stage import PRIVATE, _without, labelled
from support.table import rows

LABELS = {"openWorldHint": True}
NAMES = st.sampled_from(["name", "arguments", "params", "_meta", "note", SESSION_META, "progressToken", "annotations"])
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=8) | st.sampled_from(['"_meta":{}', '"params":{', "\\", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
PARAMS = st.dictionaries(NAMES, VALUES, max_size=4)


def sent(params, *, annotations=LABELS, as_it_came=True, ascii_only=True):
    raw = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, ensure_ascii=ascii_only
    ).encode()
    return raw, labelled(parse(raw, Limits()), annotations, as_it_came=as_it_came)


@given(PARAMS, st.sampled_from([None, LABELS]), st.booleans())
def test_however_it_is_found_it_says_the_same(params, annotations, ascii_only):
    _, quick = sent(params, annotations=annotations, ascii_only=ascii_only)
    _, slow = sent(params, annotations=annotations, as_it_came=False, ascii_only=ascii_only)
    assert json.loads(quick) == json.loads(slow)


FORMS = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 1}, {"separators": (" ,\t", "\r\n: ")}])
NESTED = st.dictionaries(st.sampled_from([*PRIVATE, "note", "n"]), VALUES, max_size=3)


@given(st.dictionaries(NAMES | st.sampled_from(PRIVATE), VALUES | NESTED, min_size=1, max_size=5), FORMS, st.data())
def test_a_member_goes_with_the_same_comma_however_it_is_found(meta, form, data):
    name = data.draw(st.sampled_from(sorted(meta)))
    inner = json.dumps(meta, **form).encode()
    assert _without(inner, name) == drop_member(inner, (name,))


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), FORMS)
def test_annotations_are_put_in_as_everywhere(meta, form):
    params = {"name": "send", "_meta": {"progressToken": 1, **meta}}
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, **form).encode()
    quick, slow = (labelled(parse(raw, Limits()), LABELS, as_it_came=quick) for quick in (True, False))
    assert json.loads(quick) == json.loads(slow)
    assert SESSION_META not in json.loads(quick)["params"]["_meta"]


@rows("annotations", [None, LABELS])
@rows(
    "meta",
    [
        rb'{"dev.callgate\/session":"mine","x":"dev.callgate/session"}',
        rb'{"x":"dev.callgate/session","dev.callgate\/session":"mine"}',
        rb'{"x":{"dev.callgate/session":1},"dev.callgate/session":"mine"}',
        rb'{"dev.callgate/session":"mine","x":["dev.callgate/session"]}',
        rb'{"dev.callgate/session" : "}" , "x":1}',
        rb'{ "x":1 , "dev.callgate/session":"\",\"x\":"}',
    ],
)
def test_no_spelling_takes_a_private_word_along(meta, annotations):
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","_meta":' + meta + b"}}"
    after = json.loads(labelled(parse(raw, Limits()), annotations, as_it_came=True))["params"]["_meta"]
    kept = {"x": json.loads(meta)["x"]}
    assert after == (kept if annotations is None else {**kept, ANNOTATIONS_META: LABELS})


@rows("as_it_came", [True, False])
def test_only_meta_changes(as_it_came):
    arguments = {"note": 'a text with "params": {} and "_meta": {} in it', "n": 1.0}
    meta = {"progressToken": 7, SESSION_META: "mine", PROMPT_META: "words"}
    raw, after = sent({"name": "send", "arguments": arguments, "_meta": meta}, as_it_came=as_it_came)
    assert json.loads(after)["params"]["_meta"] == {"progressToken": 7, ANNOTATIONS_META: LABELS}
    assert raw.partition(b'"_meta": {"progress')[0] == after.partition(b'"_meta": {"progress')[0]


def test_a_meta_of_somebody_elses_stays():
    inside = {"_meta": {SESSION_META: "an argument of that name"}}
    _, after = sent({"name": "send", "arguments": inside})
    assert json.loads(after)["params"] == {"name": "send", "arguments": inside, "_meta": {ANNOTATIONS_META: LABELS}}


def test_nothing_to_say_leaves_the_same_bytes():
    raw, after = sent({"name": "send", "_meta": {"progressToken": 7}}, annotations=None)
    assert after is raw
