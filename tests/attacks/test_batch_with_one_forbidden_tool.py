"""The attacker hides a call that is forbidden among calls that are not."""

import json

import pytest

from callgate.agents.model import ToolPolicy
from support.callers import Gate, call
from support.registry import requirement
from support.table import rows


@pytest.fixture
def gate():
    return Gate(default_policy=ToolPolicy(allow=("search", "get_*"), deny=("get_secret",)))


@requirement("WB-043", "WB-079")
@rows("at", range(5))
@rows("tool", ["checkout", "get_secret", "Search", "search "])
async def test_wherever_it_stands(gate, tool, at):
    tools = ["search", "get_product", "search", "get_list"]
    tools.insert(at, tool)
    decision = await gate.decide(gate.alice.send(call(*tools)))
    assert (decision.status, decision.reason) == (403, "tool_denied")
    assert decision.raw_body == b""


async def test_a_batch_of_allowed_tools_passes(gate):
    decision = await gate.decide(gate.alice.send(call("search", "get_product")))
    assert (decision.ok, decision.tools) == (True, ("search", "get_product"))


@rows(
    "hidden",
    [
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "checkout"}},
        {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "search", "NAME": "checkout"}},
        {"jsonrpc": "2.0", "id": 9, "method": "TOOLS/CALL", "params": {"name": "checkout"}},
        {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": ["checkout"]},
        {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "search"}},
        [{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "checkout"}}],
    ],
)
async def test_in_a_form_that_only_some_readers_take_for_a_call(gate, hidden):
    body = json.dumps([json.loads(call("search")), hidden]).encode()
    decision = await gate.decide(gate.alice.send(body))
    assert (decision.ok, decision.raw_body) == (False, b"")
    assert decision.status in (400, 403)


async def test_behind_more_calls_than_anybody_reads(gate):
    decision = await gate.decide(gate.alice.send(call(*["search"] * 100, "checkout")))
    assert (decision.status, decision.reason) == (413, "batch_too_large")


async def test_with_one_name_twice(gate):
    body = call("search", "search").replace(b'"name": "search"', b'"name": "search", "name": "checkout"', 1)
    decision = await gate.decide(gate.alice.send(body))
    assert (decision.status, decision.reason) == (400, "duplicate_key")
