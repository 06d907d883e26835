"""Every call is tied to the text that was approved, and every change is logged and alerted, even when it is approved."""

from __future__ import annotations

import contextlib
import http.server
import json
import sqlite3
import threading

import pytest

from support.pinning import pinned_site
from support.raw_clients import Way, few_ways, over_ways, until
from support.records import calls_of
from support.registry import requirement
from support.shifting import tool
from support.trust_gateway import fresh

SERVED = [Way("serve", "legacy", "web"), Way("serve", "modern", "pipe")]


@requirement("TP-029", "TP-077")
@few_ways
def test_ten_calls_leave_ten_complete_records(pinned, way):
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    seen = pinned.seen(way.server, "read")
    # The log is that of all tests of the worker, and this one goes a way twice where `[one]` runs before `[all]`.
    name = fresh(way.text)
    for number in range(10):
        assert visitor.reason("read", id=f"{name} {number}") == ""

    def mine():
        found = [one for one in calls_of(pinned.gateway, "read") if f"{name} " in str(one["decision"]["arguments"])]
        return found if len(found) == 10 and all(one.get("outcome") for one in found) else None

    for number, record in enumerate(until(mine, "ten calls are on record, with their outcomes")):
        decision, outcome = record["decision"], record["outcome"]
        assert decision["extra"]["pin"]["server_id"] == seen.server_id
        assert decision["extra"]["pin"]["approval_hash"] == seen.approval_hash
        assert decision["tool"] == "read"
        assert decision["arguments"]["value"] == {"id": f"{name} {number}"}
        assert outcome["outcome"] == "result"
        assert outcome["bytes"] > 0
        assert outcome["result_hash"]


@few_ways
def test_a_refused_call_is_on_record_with_both_hashes(pinned, way):
    """What was approved, and what the server lists by now: enough to reconstruct a rug pull."""
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    approved = pinned.seen(way.server, "read").approval_hash
    server.change("read", description="Something else.")
    assert visitor.reason("read", id="the last one") == "tool_changed"
    listed = pinned.seen(way.server, "read").approval_hash
    record = pinned.records()[-1]
    assert (record["verdict"], record["reason"]) == ("refuse", "tool_changed")
    assert record["extra"]["pin"]["approval_hash"] == approved
    assert record["extra"]["pin"]["listed_hash"] == listed != approved


@requirement("TP-053")
@over_ways(SERVED)
def test_a_call_that_cannot_be_recorded_does_not_leave(tmp_path, way):
    with pinned_site(tmp_path, store={"busy_seconds": 1}) as site:
        server = site.server(way)
        server.fresh(tool("read"))
        visitor = site.visit(way)
        visitor.names()
        site.approve(way.server, "read")
        visitor.until_open("read")
        with contextlib.closing(sqlite3.connect(site.gateway.store, isolation_level=None)) as other:
            # Readers go on, writers do not.
            other.execute("BEGIN IMMEDIATE")
            before = server.called
            assert visitor.reason("read") in ("audit_unavailable", "store_unavailable")
            assert server.called == before
            other.execute("ROLLBACK")
        visitor.until_open("read")


class Sink(http.server.ThreadingHTTPServer):
    """Takes what the gateway posts."""

    daemon_threads = True

    def __init__(self):
        self.got = []
        super().__init__(("127.0.0.1", 0), Taker)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/alerts"

    def begin_row(self):
        self.got.clear()


class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_args):
        pass


@pytest.fixture
def sink():
    server = Sink()
    yield server
    server.shutdown()
    server.server_close()


@requirement("TP-055", "TP-078")
@over_ways(SERVED)
def test_a_change_is_logged_and_alerted_once_although_it_is_approved_at_once(tmp_path, sink, way):
    with pinned_site(tmp_path, pinning={"webhook": sink.url}) as site:
        server = site.server(way)
        server.fresh(tool("read"))
        visitor = site.visit(way)
        visitor.names()
        site.approve(way.server, "read")
        visitor.until_open("read")
        before = site.seen(way.server, "read")
        server.change("read", description="Reads a record, better.")
        visitor = site.again(visitor, way)
        visitor.names()
        site.approve(way.server, "read")
        visitor.until_open("read")
        for _ in range(3):
            visitor = site.again(visitor, way)
            visitor.names()
            assert visitor.reason("read") == ""
        after = site.seen(way.server, "read")

        (record,) = site.deeds("pinning.changed", server_id=before.server_id, tool="read", what="text")
        assert (record["detail"]["before"], record["detail"]["after"]) == (before.approval_hash, after.approval_hash)
        (warned,) = [one for one in site.gateway.events("tool changed") if one["tool"] == "read"]
        assert warned["level"] == "warning"
        metrics = [line for line in site.metrics().splitlines() if line.startswith("callgate_tool_changes_total{")]
        assert [
            line
            for line in metrics
            if f'server="{way.server}"' in line and 'what="text"' in line and line.endswith((" 1", " 1.0"))
        ]
        posted = until(
            lambda: [one for one in sink.got if one.get("tool") == "read" and one.get("what") == "text"], "a post"
        )
        assert len(posted) == 1
        assert posted[0]["after"] == after.approval_hash


@requirement("TP-042")
@few_ways
def test_a_key_among_the_arguments_raises_an_alert_on_record(pinned, way):
    """A call with a made-up key, and one without; the alert names the call and not the key."""
    key = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc" + "Zq8w"
    server = pinned.server(way)
    server.fresh(tool("read"))
    visitor = pinned.visit(way)
    visitor.names()
    pinned.approve(way.server, "read")
    visitor.until_open("read")
    before = len(pinned.deeds("pinning.arguments", server=way.server))
    assert visitor.reason("read", id="the weather") == ""
    # Whether it leaves is for other checks to say.
    visitor.call("read", id=key)
    found = until(lambda: pinned.deeds("pinning.arguments", server=way.server)[before:], "the alert is on record")
    assert len(found) == 1
    detail = found[0]["detail"]
    assert detail["tool"] == "read"
    assert detail["found"]
    assert key not in str(found)
    calls = [one for one in calls_of(pinned.gateway, "read") if one["decision"]["call"] == detail["call"]]
    assert len(calls) == 1
