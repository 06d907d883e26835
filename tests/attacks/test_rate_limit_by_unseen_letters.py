"""Spell a tool's name each time a little otherwise, as a careless server would not notice, and be counted anew."""

from callgate.agents.limits import MemoryLimiter
from callgate.app.agents import call_limits
from callgate.config import parse
from support.registry import requirement
from support.table import rows

LIMITED = '[agents.default]\nper_tool = { "send_*" = 1 }'
SPELT = {
    "another case": "Send_MAIL",
    "a letter nobody sees": "send_mail\u200b",
    "one in front": "\u2060send_mail",
    "full width": "\uff53end_mail",
    "a space after it": "send_mail ",
    "cut at a NUL": "send_mail\0x",
    "a line end": "send_mail\n",
}


def limits():
    return call_limits(parse(LIMITED, environ={}).agents, MemoryLimiter(clock=lambda: 0))


@requirement("WB-042")
@rows("name", SPELT.values(), ids=SPELT)
async def test_one_tool_has_one_budget(name):
    counted = limits()
    assert (await counted.take("alice", "one", ["send_mail"])).ok
    assert not (await counted.take("alice", "one", [name])).ok
    # Nor in the other order, nor both in one batch.
    counted = limits()
    assert (await counted.take("alice", "one", [name])).ok
    assert not (await counted.take("alice", "one", ["send_mail"])).ok
    assert not (await limits().take("alice", "one", ["send_mail", name])).ok


async def test_names_longer_than_any_tools_are_one_tool():
    counted = limits()
    assert (await counted.take("alice", "one", ["x" * 2000])).ok
    assert not (await counted.take("alice", "one", ["x" * 2001])).ok


async def test_other_tools_servers_and_agents_have_their_own():
    counted = limits()
    for agent, server, tool in (
        ("alice", "one", "send_mail"),
        ("alice", "one", "send_fax"),
        ("alice", "two", "send_mail"),
        ("bob", "one", "send_mail"),
    ):
        assert (await counted.take(agent, server, [tool])).ok
