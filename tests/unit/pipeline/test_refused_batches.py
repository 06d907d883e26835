"""What is remembered of the calls of a batch is forgotten with it: one refused call refuses all, and nobody replies."""

import json

import pytest

from callgate.errors import Reason
from callgate.gate import Context, Decision, Gate, Pass, Refuse
from callgate.jsonrpc import Limits
from callgate.pipeline.dispatcher import Dispatcher, Rejected
from support.table import rows


class Remembering:
    """A stages that keeps something of each call until it hears what comes after it, as trust does."""

    methods = prepares = tools = frozenset()

    def __init__(self):
        self.kept = set()
        self.most = 0

    def judge(self, call):
        self.kept.add(call.id)
        self.most = max(self.most, len(self.kept))

    def refused(self, _call, _refused):
        """It is told of the whole batch as well."""

    def outgoing(self, message, _context, calls=()):
        self.kept -= {one.call.id for one in calls}
        return message, None, None


class NoBooks:
    async def record(self, call, decision):
        assert isinstance(decision, Decision)

    def decided(self, call, decision, seconds):
        pass

    def completed(self, call, outcome):
        pass


def called(tool, rpc_id):
    return {"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": {"name": tool}}


@rows("tools", [("ls", "rm"), ("rm", "ls"), ("rm", "rm"), ("ls", "ls")])
async def test_nothing_of_a_batch_stays_behind(tools):
    async def agents(asked):
        stages.judge(asked)
        return Refuse(Reason.TOOL_DENIED) if asked.tool == "rm" else Pass()

    books, stages = NoBooks(), Remembering()
    gate = Gate(kill_switch=lambda: None, record=books.record, agents=agents)
    door = Dispatcher(gate, books, Limits(), stages=stages)
    batch = door.read(json.dumps([called(tool, at) for at, tool in enumerate(tools)]).encode())
    if "rm" in tools:
        with pytest.raises(Rejected):
            await door.admit(batch, Context("files", "http"))
    else:
        await door.admit(batch, Context("files", "http"))
    assert (stages.most, stages.kept) == (2, set())
