"""A server's schema may be anything that JSON can say: it is read within bounds and breaks nothing."""

from hypothesis import given
from hypothesis import strategies as st

from callgate.trust.critical import EVERYTHING, PATHS, covers, guess

WORDS = st.sampled_from(
    [
        "properties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref", "$defs", "format", "type",
        "additionalProperties", "to", "url", "xx", "n", "",
    ]
)  # fmt: skip
REFERENCES = st.sampled_from(
    ["#", "#/", "#/$defs/n", "#/properties/xx", "#/items", "#/anyOf/0", "x.json", "email", "uri"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | REFERENCES
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=6),
    max_leaves=40,
)


@given(ANYTHING)
def test_any_json_as_a_schema(schema):
    found = guess(schema)
    assert len(found) <= PATHS
    assert all(isinstance(path, str) for path in found)


@given(ANYTHING, ANYTHING)
def test_what_stands_beside_a_critical_argument_does_not_hide_it(beside, definitions):
    schema = {"properties": {"xx": beside, "recipient": {"type": "string"}}, "$defs": {"n": definitions}}
    found = guess(schema)
    assert found == EVERYTHING or "recipient" in found
    assert covers(found, "recipient")
