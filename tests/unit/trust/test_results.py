"""The label of a result: one unit, the worst of its parts, and never better for a stranger's word."""

from hypothesis import given
from hypothesis import strategies as st

from callgate.trust.labels import Labels, ServerWords
from callgate.trust.model import DataLabel, class_rank, highest
from callgate.trust.propagation import is_attribution
from callgate.trust.results import MAX_ITEMS, MAX_LABELLED, annotations_of, combined, of_result, told
from callgate.trust.said import Said
from callgate.trust.vocabulary import Vocabulary
from support.registry import requirement
from support.table import rows

INTERNAL = Said(source=frozenset({"internal"}), sensitivity=frozenset({"none"}))


def tool(said=INTERNAL, **server):
    return Labels({"s": ServerWords(tools={"t": said}, **server)}).of("s", "t")


UNLABELLED = Labels({}).of("s", "t")


def labelled(result, label=None, **how):
    return of_result(label or tool(), told(result), **({"trusted": False} | how))


def text(**members):
    return {"type": "text", "text": "x", **members}


def meta(**annotations):
    return {"_meta": {"annotations": annotations}}


@requirement("TA-064")
def test_an_unlabelled_result_of_an_unlabelled_tool_is_a_strangers():
    label = labelled({"content": [text()]}, UNLABELLED)
    assert label.open_world
    assert "untrustedPublic" in label.sources
    assert not labelled({"content": [text()]}).open_world


@requirement("TA-022", "TA-025")
@rows("where", ["annotations", "_meta", "resource"])
def test_one_item_from_the_open_world_makes_all_of_it(where):
    marked = {"openWorldHint": True}
    item = {
        "annotations": text(annotations=marked),
        "_meta": text(_meta={"annotations": marked}),
        "resource": {"type": "resource", "resource": {"uri": "x:y", "_meta": {"annotations": marked}}},
    }[where]
    label = labelled({"content": [text(), item, text()]})
    assert label.open_world
    assert annotations_of(label)["openWorldHint"] is True
    assert annotations_of(labelled({"content": [text(), text(), text()]}))["openWorldHint"] is False


@requirement("TA-023", "TA-025")
def test_one_flagged_item_flags_all_of_it():
    label = labelled({"content": [text(), text(annotations={"maliciousActivityHint": True}), text()]})
    assert label.malicious
    assert "part 2" in label.warnings[0]
    assert annotations_of(label)["maliciousActivityHint"] is True
    assert "maliciousActivityHint" not in annotations_of(labelled({"content": [text()]}))


@requirement("TA-024")
def test_sources_of_all_items_are_united():
    one, two = "https://a.example/x", "mcp://b/y"
    items = [text(_meta={"annotations": {"attribution": [one, two]}}), text(annotations={"attribution": [one]})]
    label = labelled({"content": items, **meta(attribution=[two])})
    assert sorted(label.attribution) == [one, two]
    assert sorted(annotations_of(label)["attribution"]) == [one, two]


@requirement("TA-006")
def test_our_own_label_has_one_value_for_each_field():
    label = of_result(UNLABELLED, told({"content": []}), trusted=False)
    said = annotations_of(label)
    assert said["returnMetadata"] == {"source": "untrustedPublic", "sensitivity": "user"}
    several = DataLabel(
        open_world=False, sources=frozenset({"user", "internal"}), sensitivity=frozenset({"pii", "regulated:A"})
    )
    assert annotations_of(several)["returnMetadata"] == {
        "source": "internal",
        "sensitivity": {"regulated": {"scopes": ["A"]}},
    }
    assert Vocabulary().annotations(said).problems == ()


@requirement("TA-029")
def test_github_says_that_it_is_a_strangers():
    assert labelled(
        {"content": [], "_meta": {"ifc": {"integrity": "untrusted", "confidentiality": "public"}}}
    ).open_world
    assert labelled({"content": [text(_meta={"ifc": {"integrity": "untrusted"}})]}).open_world


@requirement("TA-030")
@rows("readers", ["private", ["octocat"], []])
def test_github_says_that_not_everybody_may_read_it(readers):
    label = labelled({"content": [], "_meta": {"ifc": {"integrity": "trusted", "confidentiality": readers}}})
    assert class_rank(highest(label.sensitivity)) >= class_rank("regulated")
    public = labelled({"content": [], "_meta": {"ifc": {"integrity": "trusted", "confidentiality": "public"}}})
    assert public.sensitivity == {"none"}


@requirement("TA-031")
def test_a_favourable_label_of_a_stranger_loosens_nothing():
    result = {"content": [], "_meta": {"ifc": {"integrity": "trusted", "confidentiality": "public"}}}
    assert labelled(result, UNLABELLED).open_world
    assert not labelled(result, UNLABELLED, trusted=True).open_world


@requirement("TA-053", "TA-054")
def test_a_results_own_label_of_a_stranger_and_of_a_trusted_server():
    result = {"content": [], **meta(openWorldHint=False, returnMetadata={"source": "internal", "sensitivity": "none"})}
    stranger, trusted = labelled(result, UNLABELLED), labelled(result, UNLABELLED, trusted=True)
    assert stranger.open_world
    assert stranger.sensitivity == {"user"}
    assert not trusted.open_world
    assert trusted.sensitivity == {"none"}
    # What the operator knows better stays.
    known = tool(Said(source=frozenset({"untrustedPublic"}), sensitivity=frozenset({"pii"})))
    assert labelled(result, known, trusted=True).open_world
    assert "pii" in labelled(result, known, trusted=True).sensitivity


def test_a_trusted_server_that_marks_one_item_is_believed_too():
    result = {"content": [text(annotations={"openWorldHint": True})], **meta(openWorldHint=False)}
    assert labelled(result, UNLABELLED, trusted=True).open_world


@rows(
    "said",
    [
        5,
        "x",
        [],
        {"openWorldHint": "no"},
        {"returnMetadata": {"source": "moon", "sensitivity": "none"}},
        {"returnMetadata": 5},
    ],
)
def test_a_label_that_nobody_can_read_taints(said):
    result = {"content": [], "_meta": {"annotations": said}}
    assert labelled(result).open_world
    assert labelled(result, UNLABELLED, trusted=True).open_world
    assert told(result).problems


def test_our_own_scan_and_tainted_objects_count_whatever_the_server_says():
    result = {"content": [], **meta(maliciousActivityHint=False, openWorldHint=False)}
    label = labelled(result, trusted=True, found=["it tells an agent what to do"])
    assert label.malicious
    assert label.warnings == ("it tells an agent what to do",)
    assert labelled(result, trusted=True, tainted=True).open_world


def test_more_parts_than_are_read_are_not_taken_for_clean():
    items = [text()] * (MAX_ITEMS + 1)
    label = labelled({"content": items})
    assert label.open_world
    assert not label.malicious


def test_more_labels_than_are_read_in_full_are_not_taken_for_clean():
    mild = text(annotations={"returnMetadata": {"source": "internal", "sensitivity": "none"}})
    assert not labelled({"content": [mild] * MAX_LABELLED}).open_world
    label = labelled({"content": [mild] * MAX_LABELLED + [text(annotations={"maliciousActivityHint": True})]})
    assert label.open_world
    assert label.malicious
    assert highest(label.sensitivity) == "unknown"


@requirement("TA-009")
def test_every_result_has_a_source_that_can_be_handed_on():
    assert labelled({"content": []}).attribution == ("mcp://s/t",)
    odd = labelled({"content": [], **meta(attribution=["the web", "http://a.example/x?key=1", "file:///etc/passwd"])})
    assert all(is_attribution(one) for one in odd.attribution)
    assert not any("file:" in one or "key" in one for one in odd.attribution)


@requirement("TA-035")
def test_what_is_made_of_several_has_the_highest_class():
    def data(*classes):
        return DataLabel(open_world=False, sensitivity=frozenset(classes), attribution=("mcp://a",))

    both = combined([data("none"), data("financial")])
    assert both.sensitivity == {"financial"}
    assert highest(combined([data("user"), data("credentials", "pii")]).sensitivity) == "credentials"
    assert both.attribution == ("mcp://a",)
    assert combined([data("none"), DataLabel(open_world=True)]).open_world


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "_meta",
                        "annotations",
                        "ifc",
                        "content",
                        "resource",
                        "openWorldHint",
                        "integrity",
                        "returnMetadata",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=25,
    )
)
def test_no_result_of_a_stranger_breaks_the_label_or_clears_it(result):
    assert labelled(result, UNLABELLED).open_world
    said = annotations_of(labelled(result))
    assert Vocabulary().annotations(said).problems == ()
