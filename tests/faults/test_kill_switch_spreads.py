"""One switch, every gateway on the store: HTTP and stdio, without a restart."""

import json
import subprocess
import sys
from contextlib import contextmanager

from support.fork_server import CALLGATE, Forked
from support.gateway import approve_listed, command, serving, write_config
from support.hostile import STDIO_SERVER, assert_works, call, call_message, hostile_server, until
from support.records import ask
from support.registry import requirement

# The promise is a second; the bound here is for a machine that is busy with other tests.
SOON = 30


@contextmanager
def wrapped(config):
    """`callgate wrap` in front of a plain server, with pipes to speak to it."""
    server = [sys.executable, "-I", "-S", "-c", STDIO_SERVER, "blocked"]
    argv = [CALLGATE, "wrap", "--alone", "-c", str(config), "plain", "--", *server]
    process = Forked(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        # Its tools are reviewed by being listed and approved, as those of the others.
        assert say(process, b'{"jsonrpc":"2.0","id":0,"method":"tools/list"}')["result"]
        until(lambda: len(on_record(config)) == 4, "two tools of each server are on record")
        approve_listed(config)
        yield process
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def on_record(config):
    return json.loads(command(config, "tools", "list", "--json"))


def say(process, body):
    process.stdin.write(body + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def reason_of(message):
    return message.get("error", {}).get("data", {}).get("reason")


@requirement("WB-076")
def test_every_gateway_on_the_store_follows_the_switch(tmp_path):
    (tmp_path / "other").mkdir()
    store = {"url": f"sqlite:///{tmp_path / 'callgate.db'}"}
    with (
        hostile_server(tools=["blocked"]) as upstream,
        serving(tmp_path, {"one": {"url": upstream.url}}, store=store) as first,
        serving(tmp_path / "other", {"one": {"url": upstream.url}}, store=store) as second,
        wrapped(first.config) as third,
    ):
        # Servers that came together since are reviewed together: each has to hear of it.
        for gateway in (first, second):
            until(lambda g=gateway: "result" in call(g.port, "good").json, "HTTP has heard of the review", SOON)
        until(lambda: "result" in say(third, call_message("good")), "stdio has heard of the review", SOON)
        ask(first, "block-all", "on", "--note", "drill")
        for gateway in (first, second):
            got = until(lambda g=gateway: (r := call(g.port, "blocked")).status == 403 and r, "HTTP refuses", SOON)
            assert got.reason == "blocked_by_policy"
        until(lambda: reason_of(say(third, call_message("blocked"))) == "blocked_by_policy", "stdio refuses", SOON)
        seen = len(upstream.requests)
        for gateway in (first, second):
            assert call(gateway.port, "blocked").status == 403
        assert len(upstream.requests) == seen
        ask(first, "block-all", "off")
        for gateway in (first, second):
            until(lambda g=gateway: call(g.port, "good").status == 200, "HTTP lets through", SOON)
        until(lambda: "result" in say(third, call_message("good")), "stdio lets through", SOON)


def test_a_gateway_that_starts_while_the_switch_is_on_refuses_from_its_first_call(tmp_path):
    with hostile_server() as upstream:
        config = write_config(tmp_path, {"one": {"url": upstream.url}})
        command(config, "block-all", "on")
        with serving(tmp_path, {"one": {"url": upstream.url}}, reviewed=False) as gateway:
            assert call(gateway.port, "good").reason == "blocked_by_policy"
            assert not upstream.requests


@requirement("WB-089")
def test_one_environment_flag_shuts_every_caller_out(tmp_path):
    with hostile_server() as upstream:
        servers = {"one": {"url": upstream.url}}
        with serving(tmp_path, servers) as gateway:
            assert_works(gateway.port)
        seen = len(upstream.requests)
        for value in ("1", "on"):
            with serving(tmp_path, servers, env={"CALLGATE_BLOCK_ALL": value}, reviewed=False) as gateway:
                got = call(gateway.port, "good")
                assert (got.status, got.reason) == (403, "blocked_by_policy")
                ask(gateway, "block-all", "off")
                assert call(gateway.port, "good").status == 403
        assert len(upstream.requests) == seen
