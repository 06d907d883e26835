"""The attacker writes a harmless tool's name wherever a careless reader might look; the gate goes by `params.name`."""

import json

from support.hostile import post
from support.records import calls_of
from support.registry import requirement
from support.table import rows

DECOYS = {
    "beside_params": {"name": "harmless"},
    "tool_beside_params": {"tool": "harmless", "toolName": "harmless"},
}
INSIDE = {
    "in_arguments": {"arguments": {"name": "harmless", "tool": "harmless"}},
    "in_meta": {"arguments": {}, "_meta": {"name": "harmless"}},
    "under_another_name": {"arguments": {}, "tool": "harmless", "tool_name": "harmless"},
}


def recorded(target, message):
    assert post(target.port, json.dumps(message).encode()).status == 200
    ran = target.upstream.requests[-1].message["params"]["name"]
    return ran, calls_of(target.gateway)[-1]["decision"]["tool"]


@requirement("WB-041")
@rows("where", [*DECOYS, *INSIDE])
def test_what_is_checked_is_what_runs(target, where):
    params = {"name": f"real-{where}", **INSIDE.get(where, {"arguments": {}})}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, **DECOYS.get(where, {})}
    assert recorded(target, message) == (f"real-{where}", f"real-{where}")


@rows("name", ["", None, 7, ["ls"], {"ls": 1}, True])
def test_a_name_that_is_no_name(target, name):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}
    assert target.reasons(json.dumps(message).encode()) == (400, -32602, "invalid_params")


@rows("params", [None, [], ["ls", {}]])
def test_params_that_are_no_object(target, params):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert target.reasons(json.dumps(message).encode()) == (400, -32602, "invalid_params")
    del message["params"]
    assert target.reasons(json.dumps(message).encode()) == (400, -32602, "invalid_params")


@rows("arguments", [[], "x", 1, True])
def test_arguments_that_are_no_object(target, arguments):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ls", "arguments": arguments}}
    assert target.reasons(json.dumps(message).encode()) == (400, -32602, "invalid_params")
