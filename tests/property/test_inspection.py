"""Whatever a server sends, an inspection ends with findings that can be shown."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from callgate.inspection import InspectionContext, ToolDefinition, inspect, is_catch_all, tokens
from callgate.inspection.text import fold, without_markup
from callgate.inspection.tool_texts import ToolTexts

PIECES = [
    "ignore ", "all ", "previous ", "instructions", "do not ", "tell ", "the user ", "~/.ssh/id_rsa ", "send ", "https://a.b/c ",
    "a@b.cd ", "<system>", "</b>", "<!--", "-->", "`x`", "**", "\u200b", "\u202e", "\U000e0041", "\ufe0f", "\U0001f3f4", "忽略", "а",
    "%41%42%43%44%45", "&#65;", "aWdub3Jl", "6162636465", "\x1b[0m", "\ud800", "ß", "ﬁ", "İ", "\u0301", ". ", "\n\n", "'", '"',
]  # fmt: skip
texts = st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=10
)
MEMBERS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"]
entries = st.dictionaries(st.sampled_from(MEMBERS) | texts, values, max_size=6)
names = st.frozensets(texts | st.just("send_email"), max_size=4)
surroundings = st.builds(
    InspectionContext,
    server=texts,
    others=st.dictionaries(texts, names, max_size=3),
    before=st.none() | entries,
    growth_percent=st.floats(0, 1_000),
)
relaxed = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def text_at(entry, around, where):
    """The text that a finding speaks of."""
    found = [text.raw for text in ToolTexts(ToolDefinition.of(entry), around).texts if text.where == where]
    return max(found, key=len, default=None)


@relaxed
@given(entries, surroundings)
@example({"name": "", "description": "", "inputSchema": {"properties": {"": {}}}}, InspectionContext())
def test_an_inspection_never_fails_and_its_findings_can_be_shown(entry, around):
    findings = inspect(ToolDefinition.of(entry), around)
    assert findings == inspect(ToolDefinition.of(entry), around)
    for finding in findings:
        assert all(char.isprintable() for char in finding.what + finding.where + finding.why)
        assert finding.what.endswith(".")
        if finding.span is not None:
            text = text_at(entry, around, finding.where)
            assert text is not None
            assert 0 <= finding.span[0] <= finding.span[1] <= len(text)


@relaxed
@given(values)
def test_a_schema_of_any_kind_is_judged(schema):
    assert isinstance(is_catch_all(schema), str)


@relaxed
@given(texts)
def test_folding_keeps_the_way_back(text):
    folded = without_markup(fold(text))
    assert folded.origins is None or len(folded.origins) == len(folded.text)
    if folded.origins is not None:
        assert list(folded.origins) == sorted(folded.origins)
    for at in range(len(folded.text)):
        start, end = folded.span(at, at + 1)
        assert 0 <= start < end <= len(text)


@relaxed
@given(texts)
def test_folding_twice_folds_no_more(text):
    once = fold(text).text
    assert fold(once).text == fold(fold(once).text).text


@given(st.text(max_size=200))
def test_an_estimate_is_never_less_than_nothing_nor_absurd(text):
    assert 0 <= tokens(text) <= 2 * len(text)
