"""Approve a harmless tool, call a harmful one with the same evidence."""

from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows


@rows("era", ERAS)
@requirement("VA-109", "VA-146", "VA-128")
def test_an_approval_holds_for_its_tool_alone(library, era):
    person = library.join(f"wrong-tool-{era}", era)
    same = {"why": "same arguments"}
    challenge = person.challenge("stumble", same)
    before = len(library.executed)
    assert refusal(person.call("wipe", None, person.signs(challenge))) == (-32001, "challenge_wrong_tool")
    assert refusal(person.call("delete_resource", same, person.signs(challenge))) == (-32001, "challenge_wrong_tool")
    assert library.executed[before:] == []
    # To a tool that is not gated it means nothing either way.
    assert text_of(person.call("break_glass", {"pane": "n"}, person.signs(challenge))) == "broke n"
    assert person.call("stumble", same, person.signs(challenge))["result"]["isError"] is True


@rows("name", ["Wipe", "wipe ", " wipe", "wipe\u200b", "w\u0456pe", "wipe\0", "wipe\n"])
def test_a_name_that_only_looks_alike_is_no_tool_at_all(library, name):
    person = library.join(f"alike-{name.encode().hex()}", "handshake")
    evidence = person.signs(person.challenge("wipe"))
    before = len(library.executed)
    answer = person.call(name, None, evidence)
    assert "error" in answer or answer["result"]["isError"]
    assert library.executed[before:] == []
