"""The attacker hides a call among harmless messages of a batch: all of it is checked, and nothing half done."""

import json

import pytest

from callgate.errors import Reason
from callgate.gate import Context, Gate, Pass, Refuse
from callgate.jsonrpc import Limits
from callgate.pipeline.dispatcher import Dispatcher, Rejected
from support.hostile import whole
from support.table import rows

LIST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
CALL = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ls","arguments":{}}}'
HIDDEN = {
    "notification": '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"rm"}}',
    "no_name": '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}',
    "big_number": '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"rm","arguments":{"n":9007199254740992}}}',
    "not_a_number": '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"rm","arguments":{"n":NaN}}}',
    "half_a_letter": '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"rm","arguments":{"n":"\\ud800"}}}',
    "a_batch_in_the_batch": '[{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"rm"}}]',
    "no_version": '{"id":3,"method":"tools/call","params":{"name":"rm"}}',
    "text": '"tools/call"',
}


@rows("which", HIDDEN)
@rows("order", ["first", "last"])
def test_one_bad_element_stops_the_whole_batch(target, which, order):
    parts = [LIST, CALL, HIDDEN[which]]
    target.refused(f"[{','.join(parts if order == 'last' else parts[::-1])}]".encode())


def test_a_good_batch_passes_untouched(target):
    got, bodies = target.raw(whole(f"[{LIST},{CALL}]".encode()))
    assert b'"id": 2' in got
    assert bodies == [f"[{LIST},{CALL}]".encode()]


@rows("headers", [{"mcp-method": "tools/list"}, {"mcp-name": "ls"}, {"mcp-protocol-version": "2026-07-28"}])
def test_a_batch_behind_the_headers_of_onewhole(target, headers):
    assert target.reasons(f"[{LIST},{CALL}]".encode(), headers)[0] == 400


def test_too_many_in_a_batch(target):
    assert target.reasons(f"[{','.join([LIST] * 101)}]".encode())[2] == "batch_too_large"


async def test_one_refused_call_refuses_every_element(books):
    """A check of the gate says no to one tool: every request of the batch is answered with a refusal."""

    async def no_rm(call):
        return Refuse(Reason.CHECK_FAILED, "not this one") if call.tool == "rm" else Pass()

    door = Dispatcher(Gate(kill_switch=lambda: None, record=books.record, agents=no_rm), books, Limits())
    rm = CALL.replace('"id":2', '"id":3').replace('"ls"', '"rm"')
    with pytest.raises(Rejected) as turned:
        await door.admit(door.read(f"[{LIST},{CALL},{rm}]".encode()), Context("one", "http"))
    replies = {one["id"]: one["error"]["data"]["reason"] for one in json.loads(turned.value.reply)}
    assert replies == {1: "batch_refused", 2: "batch_refused", 3: "check_failed"}
    assert [(call.tool, decision.allowed) for call, decision in books.decisions] == [("ls", True), ("rm", False)]
    assert books.outcomes == [("ls", "batch_refused")]
