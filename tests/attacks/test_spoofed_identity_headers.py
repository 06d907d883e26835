"""The attacker sends the headers that tell a server who was verified, in every spelling a server might read."""

from urllib.parse import unquote

from msgspec.structs import replace

from callgate.agents.directories import AgentIdentity
from callgate.agents.model import IDENTITY_HEADERS
from callgate.agents.stage import is_identity
from support.callers import Gate, call
from support.registry import requirement
from support.table import rows

SPELLINGS = [
    b"callgate-agent",
    b"Callgate-Agent",
    b"CALLGATE-AGENT",
    b"callgate_agent",
    b"Callgate_Agent",
    b"callgate-agent ",
    b"\tcallgate-agent",
    b"callgate-agent-key",
    b"callgate_agent_key",
    b"callgate-agent-directory",
    b"callgate-agent-source",
    b"callgate-agent-made-up-later",
    b"callgate-body-verified",
    b"Callgate_Body-Verified",
]


async def sent_on(gate, *headers):
    sent = gate.alice.send(call("search"))
    decision = await gate.decide(replace(sent, headers=(*headers, *sent.headers, *headers)))
    assert decision.ok
    return decision.forward_headers()


@requirement("WB-029")
@rows("name", SPELLINGS)
async def test_a_copy_never_reaches_the_server(name):
    got = await sent_on(Gate(), (name, b"root"))
    assert b"root" not in dict(got).values()
    ours = [(name, value) for name, value in got if is_identity(name)]
    assert [name for name, _ in ours] == list(IDENTITY_HEADERS)
    assert dict(ours)[b"callgate-agent"] == b"alice"
    assert dict(ours)[b"callgate-body-verified"] == b"true"


async def test_ours_cannot_be_dropped_on_the_way():
    got = await sent_on(Gate(), (b"connection", b"callgate-agent, close"), (b"connection", b"Callgate-Body-Verified"))
    assert dict(got)[b"callgate-agent"] == b"alice"
    assert b"connection" not in dict(got)


@rows("name", ["a\r\nx-admin: 1", "a\nb", "a, root", 'a"; x', "ä", "a b", "a\0b", "%0d%0a"])
async def test_a_name_breaks_no_line_and_begins_no_list(name):
    class Names:
        async def agent(self, verified):
            return AgentIdentity(name)

    value = dict(await sent_on(Gate(directory=Names())))[b"callgate-agent"]
    assert value.isascii()
    assert not set(value) & set(b'\r\n\0 ,"')
    assert unquote(value.decode()) == name


async def test_other_headers_travel_on():
    got = await sent_on(Gate(), (b"x-request-id", b"7"), (b"callgate", b"1"), (b"mcp-session-id", b"s"))
    assert got.count((b"x-request-id", b"7")) == 2
    assert (b"callgate", b"1") in got
    assert (b"mcp-session-id", b"s") in got


async def test_a_header_does_not_make_a_caller():
    gate = Gate()
    sent = gate.unlisted.send(call("search"))
    forged = replace(
        sent, headers=((b"callgate-agent", b"alice"), (b"callgate-agent-key", gate.alice.keyid.encode()), *sent.headers)
    )
    assert await gate.reason(forged) == (403, "agent_not_in_directory")
