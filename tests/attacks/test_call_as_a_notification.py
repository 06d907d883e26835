"""The attacker sends a call without an id: no answer is due, but a careless server would still run it."""

import json

from support.table import rows

PARAMS = {"name": "rm", "arguments": {"path": "/"}}


@rows("rpc_id", ["absent", None, 1.5, True, {}, []])
def test_a_call_without_a_proper_id_reaches_nobody(target, rpc_id):
    message = {"jsonrpc": "2.0", "method": "tools/call", "params": PARAMS}
    if rpc_id != "absent":
        message["id"] = rpc_id
    assert target.reasons(json.dumps(message).encode())[:2] == (400, -32600)
