"""Connect, list, show, approve, store, check again, block on a mismatch, log: in this order, as an operator does it."""

from __future__ import annotations

import json

from support.fork_server import CALLGATE, run
from support.raw_clients import all_ways, until
from support.registry import requirement
from support.shifting import tool


@requirement("TP-006", "TP-009")
@all_ways
def test_the_whole_way(pinned, way):
    """Every command is typed as an operator would type it, in a process of its own."""
    server = pinned.server(way)
    server.fresh(tool("read", "Reads a record.\nIt takes a number."))

    def typed(*words, status=0):
        done = run([CALLGATE, *words, "-c", str(pinned.gateway.config)])
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    before = len(pinned.records("admin")), len(pinned.records())
    # connect, list: nothing is there yet but the hint
    visitor = pinned.visit(way)
    assert visitor.names() == []
    assert "read" in visitor.pending()
    assert visitor.reason("read") == "tool_not_approved"

    # show in full
    server_id = pinned.seen(way.server, "read").server_id
    named = ("--server", server_id, "--tool", "read")
    shown = json.loads(typed("tools", "show", *named, "--json"))
    assert shown["description"] == "Reads a record.\nIt takes a number."
    assert shown["input_schema"] == tool("read")["inputSchema"]
    assert json.loads(shown["raw"]) == server.state["tools"][0]

    # approve per tool; stored by server identity
    typed("tools", "approve", *named, "--hash", shown["approval_hash"])
    (record,) = json.loads(typed("tools", "history", *named, "--json"))
    assert (record["server_id"], record["tool_name"], record["approval_hash"], record["action"]) == (
        server_id,
        "read",
        shown["approval_hash"],
        "approve",
    )
    assert record["approved_at"] > 0
    assert record["approved_by"]
    visitor.until_open("read")

    # check again; block on a mismatch
    visitor = pinned.again(visitor, way)
    assert visitor.reason("read", id="logged") == ""
    server.change("read", description="Reads a record, and tells its author.")
    visitor = pinned.again(visitor, way)
    assert visitor.names() == []
    assert visitor.reason("read") == "tool_changed"

    # log with the hash
    def in_order():
        deeds = [one for one in pinned.records("admin")[before[0] :] if server_id in json.dumps(one)]
        places = iter([one["action"] for one in deeds])
        order = ["pinning.checked", "pinning.approved", "pinning.checked", "pinning.changed"]
        return all(step in places for step in order)

    until(in_order, "checked, approved, checked again and changed are on record in this order")
    calls = [one for one in pinned.records()[before[1] :] if one["tool"] == "read"]
    verdicts = [one.get("reason") or "allow" for one in calls]
    assert verdicts[0] == "tool_not_approved"
    assert verdicts[-1] == "tool_changed"
    (logged,) = [one for one in calls if one["arguments"]["value"]["id"] == "logged"]
    assert logged["extra"]["pin"]["approval_hash"] == shown["approval_hash"]
    assert logged["extra"]["pin"]["server_id"] == server_id
