import pytest

from callgate.approval import ApprovalPolicy, UnreadableAnnotation, annotation, check_class, read_annotation
from callgate.errors import ConfigError
from callgate.protocol import META
from support.registry import requirement
from support.table import rows


def tool(mark):
    return {"name": "t", "_meta": {META: mark}}


@rows("listing", [{}, {"_meta": None}, {"_meta": {}}, {"_meta": {"other": 1}}, {"_meta": []}])
def test_a_tool_without_the_mark_asks_for_nothing(listing):
    assert read_annotation({"name": "t"} | listing) is None


@requirement("VA-007")
def test_no_class_means_cross_platform():
    assert read_annotation(tool({"required": "verified"})) == ApprovalPolicy(authenticator_class="cross-platform")
    assert read_annotation(tool({"required": "verified", "authenticatorClass": "platform"})) == ApprovalPolicy(
        "platform"
    )


def test_members_that_are_not_known_change_nothing():
    assert read_annotation(tool({"required": "verified", "later": {"x": 1}})) == ApprovalPolicy()


@rows(
    "mark",
    [
        None,
        [],
        "verified",
        {},
        {"required": "verified2"},
        {"required": True},
        {"required": ["verified"]},
        {"required": "verified", "authenticatorClass": "any"},
        {"required": "verified", "authenticatorClass": None},
        {"required": "verified", "authenticatorClass": []},
    ],
    ids=repr,
)
def test_a_mark_that_nobody_can_read_never_means_that_nothing_is_needed(mark):
    with pytest.raises(UnreadableAnnotation):
        read_annotation(tool(mark))


def test_the_mark_that_is_written_is_the_one_that_is_read():
    made = annotation(ApprovalPolicy("platform"), {"note": "x", "required": "no", "authenticatorClass": "any"})
    assert made == {"note": "x", "required": "verified", "authenticatorClass": "platform"}
    assert read_annotation(tool(made)) == ApprovalPolicy("platform")


def test_a_class_that_is_not_known_is_a_mistake():
    assert [check_class(one) for one in ("cross-platform", "platform")] == ["cross-platform", "platform"]
    for wrong in ("any", "", "Platform"):
        with pytest.raises(ConfigError):
            check_class(wrong)
