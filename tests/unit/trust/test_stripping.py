"""Labels that go missing, and tools that say less of themselves than holds here."""

from callgate.trust.labels import Labels, ServerWords
from callgate.trust.results import Expectations, lost_in_listing, told, understated
from callgate.trust.said import Said
from callgate.trust.vocabulary import Vocabulary
from support.registry import requirement

READ = Vocabulary()
LABELLED = told({"content": [], "_meta": {"annotations": {"openWorldHint": True}}}).kinds
BARE = told({"content": []}).kinds


def listing(**annotations):
    return {"t": READ.tool({"annotations": annotations})}


@requirement("TA-067")
def test_a_tool_that_stops_sending_labels_is_noticed_once():
    seen = Expectations()
    assert seen.met("s", "t", LABELLED) is None
    lost = seen.met("s", "t", BARE)
    assert lost.missing == ("annotations",)
    assert "used to send _meta.annotations" in lost.text
    assert seen.met("s", "t", BARE) is None
    assert seen.met("s", "t", LABELLED) is None
    assert seen.met("s", "t", BARE) is not None


def test_who_never_labelled_is_not_accused():
    seen = Expectations()
    assert seen.met("s", "t", BARE) is None
    assert seen.met("s", "other", BARE) is None
    assert seen.known == {}


@requirement("TA-067")
def test_what_is_expected_outlives_the_process():
    seen = Expectations()
    seen.met("s", "t", LABELLED)
    assert Expectations(seen.known).met("s", "t", BARE) is not None


def test_one_kind_of_label_does_not_stand_for_another():
    seen = Expectations()
    ifc = told({"_meta": {"ifc": {"integrity": "trusted"}, "annotations": {}}}).kinds
    seen.met("s", "t", ifc)
    assert seen.met("s", "t", LABELLED).missing == ("ifc",)
    assert seen.met("s", "t", BARE).missing == ("annotations", "ifc")


@requirement("TA-067")
def test_metadata_that_leaves_a_listing():
    before = listing(returnMetadata={"source": "user", "sensitivity": "none"})
    (lost,) = lost_in_listing("s", before, listing(openWorldHint=True))
    assert lost.missing == ("returnMetadata",)
    assert lost_in_listing("s", before, before) == ()
    assert lost_in_listing("s", before, {}) == ()
    # What cannot be read any more is lost as well.
    assert lost_in_listing("s", before, listing(returnMetadata={"source": "user"}))


def test_memory_of_expectations_is_bounded():
    seen = Expectations()
    for at in range(20050):
        seen.met("s", f"t{at}", LABELLED)
    assert len(seen.known) == 20000


@requirement("TA-069")
def test_the_report_lists_tools_that_understate():
    labels = Labels(
        {
            "s": ServerWords(
                tools={"send": Said(outcomes=frozenset({"irreversible"}), destination=frozenset({"public"}))}
            )
        }
    )
    mild = {
        "inputMetadata": {"destination": "user", "sensitivity": "none", "outcomes": "benign"},
        "returnMetadata": {"source": "system", "sensitivity": "none"},
    }
    grave = {
        "inputMetadata": {"destination": "public", "sensitivity": "none", "outcomes": "irreversible"},
        "returnMetadata": {"source": "untrustedPublic", "sensitivity": "pii"},
    }
    labels.declare("s", {"send": READ.tool({"annotations": mild}), "honest": READ.tool({"annotations": grave})})
    report = understated(labels, "s")
    assert {one.tool for one in report} == {"send"}
    assert {one.field for one in report} == {"destination", "outcomes", "source", "sensitivity"}
    texts = [one.text for one in report]
    assert "send of s declares outcomes benign; here it counts as irreversible" in texts
    trusted = Labels({"s": ServerWords(trusted=True)})
    trusted.declare("s", {"send": READ.tool({"annotations": mild})})
    assert understated(trusted, "s") == ()
