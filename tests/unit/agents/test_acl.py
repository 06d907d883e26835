"""Which agent may call which tool: globs, deny before allow, by agent, by server, by default."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.agents.limits import MAX_NAME, Acl, ToolLimit, permits, shown
from callgate.agents.model import AgentPolicy, ToolPolicy
from callgate.errors import ConfigError, Reason, Refused
from support.registry import requirement
from support.table import rows


def refused(acl, agent, *tools, server=""):
    try:
        acl.check(agent, tools, server)
    except Refused as refusal:
        return refusal.reason
    return None


@requirement("WB-021")
def test_allow_limits_to_the_named_tools():
    acl = Acl([AgentPolicy("a", ToolPolicy(allow=("search", "get_*")))])
    assert refused(acl, "a", "search") is None
    assert refused(acl, "a", "get_product") is None
    assert refused(acl, "a", "checkout") is Reason.TOOL_DENIED
    assert refused(acl, "a", "Search") is Reason.TOOL_DENIED
    assert refused(Acl([AgentPolicy("a", ToolPolicy(allow=("*",)))]), "a", "whatever", "e l s e") is None
    assert refused(Acl([AgentPolicy("a", ToolPolicy(allow=()))]), "a", "search") is Reason.TOOL_DENIED


@requirement("WB-022")
def test_deny_forbids_and_wins_over_allow():
    acl = Acl([AgentPolicy("a", ToolPolicy(allow=("*",), deny=("checkout", "drop_?")))])
    assert refused(acl, "a", "checkout") is Reason.TOOL_DENIED
    assert refused(acl, "a", "drop_x") is Reason.TOOL_DENIED
    assert refused(acl, "a", "drop_xy") is None
    assert refused(Acl(default=ToolPolicy(deny=("checkout",))), "b", "search") is None


@rows("name", ["Drop_all", "DROP_ALL", "drop_all\0x", " drop_all", "drop\u200b_all", "\uff44rop_all", "dr\u00adop_all"])
def test_deny_is_not_slipped_by_a_spelling(name):
    assert not permits(ToolPolicy(deny=("drop_*",)), name)


@requirement("WB-038", "WB-040")
def test_an_entry_of_its_own_stands_in_place_of_the_default():
    acl = Acl([AgentPolicy("a", ToolPolicy(allow=("*",)))], default=ToolPolicy(allow=("search",)))
    assert refused(acl, "a", "checkout") is None
    assert refused(acl, "b", "checkout") is Reason.TOOL_DENIED
    assert refused(acl, "b", "search") is None


@requirement("WB-039")
def test_without_any_rule_everything_may_be_called():
    assert refused(Acl(), "anybody", "anything") is None
    assert not Acl().requires_digest


@requirement("WB-078")
def test_an_agent_can_be_denied_as_a_whole():
    acl = Acl([AgentPolicy("a", ToolPolicy(allow=("*",), denied=True))])
    assert refused(acl, "a") is Reason.AGENT_DENIED
    assert refused(acl, "a", "search") is Reason.AGENT_DENIED
    assert Reason.AGENT_DENIED.status == 403
    assert refused(acl, "b", "search") is None


@requirement("WB-043")
def test_every_tool_of_several_is_looked_at():
    acl = Acl(default=ToolPolicy(allow=("search",)))
    assert refused(acl, "a", "search", "search") is None
    assert refused(acl, "a", "search", "checkout") is Reason.TOOL_DENIED
    assert refused(acl, "a", "checkout", "search") is Reason.TOOL_DENIED


def test_a_server_narrows_and_cannot_give_back():
    entry = AgentPolicy(
        "a",
        ToolPolicy(allow=("*",), deny=("rm",)),
        servers={"shop": ToolPolicy(allow=("buy", "rm")), "bank": ToolPolicy(denied=True)},
    )
    acl = Acl([entry], servers={"shop": ToolPolicy(deny=("sell",))})
    assert refused(acl, "a", "anything", server="other") is None
    assert refused(acl, "a", "buy", server="shop") is None
    assert refused(acl, "a", "look", server="shop") is Reason.TOOL_DENIED
    assert refused(acl, "a", "rm", server="shop") is Reason.TOOL_DENIED
    assert refused(acl, "a", server="bank") is Reason.AGENT_DENIED


def test_what_a_server_denies_no_entry_gives_back():
    acl = Acl([AgentPolicy("a", ToolPolicy(allow=("*",)))], servers={"shop": ToolPolicy(allow=("buy",), deny=("rm",))})
    assert refused(acl, "a", "rm", server="shop") is Reason.TOOL_DENIED
    assert refused(acl, "a", "look", server="shop") is None
    assert refused(acl, "b", "look", server="shop") is Reason.TOOL_DENIED
    assert refused(acl, "b", "buy", server="shop") is None


@requirement("WB-019")
@rows(
    "acl",
    [
        Acl(default=ToolPolicy(allow=("*",))),
        Acl(default=ToolPolicy(deny=("x",))),
        Acl([AgentPolicy("a", ToolPolicy(allow=()))]),
        Acl([AgentPolicy("a", servers={"s": ToolPolicy(deny=("x",))})]),
        Acl(servers={"s": ToolPolicy(allow=("x",))}),
        Acl(tool_limits=[ToolLimit("x", 1)]),
    ],
)
def test_any_rule_that_looks_at_tools_needs_the_body_bound(acl):
    assert acl.requires_digest


def test_rules_for_agents_alone_do_not():
    assert not Acl([AgentPolicy("a", ToolPolicy(denied=True, per_minute=3))], default=ToolPolicy()).requires_digest


@rows(
    "policy",
    [
        ToolPolicy(allow=("",)),
        ToolPolicy(deny=("x" * (MAX_NAME + 1),)),
        ToolPolicy(per_minute=0),
        ToolPolicy(per_minute=-1),
        ToolPolicy(per_minute=float("nan")),
        ToolPolicy(per_minute=1, burst=0),
    ],
)
def test_rules_that_mean_nothing_are_refused(policy):
    with pytest.raises(ConfigError):
        Acl([AgentPolicy("a", servers={"s": policy})])


def test_two_entries_for_one_agent_are_refused():
    with pytest.raises(ConfigError, match="same agent"):
        Acl([AgentPolicy("a"), AgentPolicy("a", ToolPolicy(denied=True))])


def test_names_that_are_too_long_are_nobodys():
    assert not permits(ToolPolicy(allow=("*",)), "x" * (MAX_NAME + 1))
    assert not permits(ToolPolicy(deny=("y",)), "x" * (MAX_NAME + 1))
    assert not permits(ToolPolicy(deny=("y",)), "")


def test_a_name_in_a_message_breaks_no_line():
    assert "\n" not in shown("a\nb")
    assert len(shown("x" * 5000)) < 200


def test_limits_belong_to_the_narrowest_rule():
    entry = AgentPolicy("a", ToolPolicy(per_minute=10), servers={"s": ToolPolicy(per_minute=2)})
    acl = Acl([entry], default=ToolPolicy(per_minute=5, burst=7), tool_limits=[ToolLimit("pay_*", 1, agent="a")])
    assert [(one.name, one.per_minute) for one in acl.limits("a")] == [("agent", 10)]
    assert [(one.name, one.per_minute) for one in acl.limits("a", server="s")] == [("server", 2)]
    assert [(one.per_minute, one.burst) for one in acl.limits("b", server="s")] == [(5, 7)]
    assert [one.name for one in acl.limits("a", "pay_now")] == ["agent", "tool.0"]
    assert [one.name for one in acl.limits("b", "pay_now")] == ["agent"]


@given(st.text(max_size=40), st.lists(st.text(min_size=1, max_size=10), max_size=4).map(tuple))
def test_deny_always_wins(tool, allow):
    assert not permits(ToolPolicy(allow=(*allow, tool, "*"), deny=("*",)), tool)
    assert not permits(ToolPolicy(allow=allow, denied=True), tool)


@given(st.text(alphabet=st.characters(blacklist_characters="*?["), min_size=1, max_size=40))
def test_a_plain_name_allows_itself_only(tool):
    assert permits(ToolPolicy(allow=(tool,)), tool)
    assert not permits(ToolPolicy(allow=(tool,)), f"{tool}x")
    assert not permits(ToolPolicy(deny=(tool,)), tool)
