"""The fast path and the reference give the same bytes, or both refuse."""

import json

import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.canonical import canonical
from callgate.errors import MessageError

texts = st.text(st.characters(exclude_categories=()), max_size=12)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**54), 2**54),
    st.floats(),
    texts,
    st.sampled_from(["\ufb33", "\U0001f600"]),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5), max_leaves=30
)


@settings(max_examples=100)
@given(values)
def test_same_bytes_or_both_refuse(value):
    try:
        expected = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        expected = None
    try:
        found = canonical(value)
    except MessageError:
        found = None
    assert found == expected


@given(values)
def test_canonical_form_reads_back_as_the_same_value(value):
    try:
        text = canonical(value)
    except MessageError:
        return
    # ECMAScript has one kind of number: 1e16 is spelt without a point and read back as what it was.
    assert canonical(json.loads(text, parse_int=float)) == text
