"""A changed configuration takes hold without dropping what is under way; a broken one changes nothing."""

import os
import signal
import threading

from support.gateway import serving, write_config
from support.hostile import assert_works, call, honest, hostile_server, until
from support.sessions import Session, teller_argv
from support.table import rows


class Waiting:
    def __init__(self):
        self.go_on = threading.Event()

    def __call__(self, peer, request):
        self.go_on.wait(60)
        honest(peer, request)


@rows("told", [True, False], ids=["sighup", "noticed"])
def test_a_new_configuration_takes_hold_while_a_call_is_under_way(tmp_path, told):
    waiting = Waiting()
    with (
        hostile_server({"slow": waiting}) as old,
        hostile_server() as new,
        serving(tmp_path, {"one": {"url": old.url}}) as gateway,
    ):
        got = []
        path = "/servers/one/mcp"
        caller = threading.Thread(target=lambda: got.append(call(gateway.port, "slow", path=path)), daemon=True)
        caller.start()
        until(lambda: "slow" in old.tools, "the call is under way")
        write_config(tmp_path, {"one": {"url": new.url}, "two": {"url": new.url}})
        if told:
            os.kill(gateway.pid, signal.SIGHUP)
        until(lambda: call(gateway.port, "x", path="/servers/two/mcp").status == 200, "the new server is there")
        gateway.review("one", "two")
        before = len(old.requests)
        assert_works(gateway.port, path)
        assert new.tools[-1] == "good"
        assert len(old.requests) == before
        waiting.go_on.set()
        caller.join(60)
        assert got[0].status == 200
        assert got[0].json["result"]["content"][0]["text"] == "slow"
        until(lambda: not old.open_peers(), "connections to the old server are closed")


def test_a_broken_configuration_changes_nothing(tmp_path):
    with hostile_server() as upstream, serving(tmp_path, {"one": {"url": upstream.url}}) as gateway:
        for text in ("[servers.one\n", '[servers.one]\nurl = "ftp://x"\n', "[gatewy]\nx = 1\n"):
            gateway.config.write_text(text)
            seen = len(gateway.events("configuration not reloaded; the old one stays in force"))
            os.kill(gateway.pid, signal.SIGHUP)
            until(
                lambda seen=seen: len(gateway.events("configuration not reloaded; the old one stays in force")) > seen,
                "a complaint in the log",
            )
            assert_works(gateway.port)
        gateway.config.unlink()
        os.kill(gateway.pid, signal.SIGHUP)
        assert_works(gateway.port)
        write_config(tmp_path, {"two": {"url": upstream.url}})
        until(lambda: call(gateway.port, "good", path="/servers/two/mcp").status == 200, "a good file is taken again")


def test_the_kill_switch_of_the_configuration_is_followed(tmp_path):
    servers = {"one": None}
    with hostile_server() as upstream:
        servers = {"one": {"url": upstream.url}}
        with serving(tmp_path, servers) as gateway:
            assert_works(gateway.port)
            write_config(tmp_path, servers, policy={"block_all": True})
            until(lambda: call(gateway.port, "good").status == 403, "every call is refused")
            write_config(tmp_path, servers, policy={"block_all": False})
            until(lambda: call(gateway.port, "good").status == 200, "calls pass again")


def test_a_session_outlives_a_change_that_does_not_concern_it_and_the_change_is_told_once(tmp_path):
    servers = {"one": {"command": teller_argv(tmp_path)}}
    with serving(tmp_path, servers) as gateway:
        session = Session.start(gateway.url("one"))
        write_config(tmp_path, servers, limits={"batch": 7, "connections": 77})
        gateway.wait_for("configuration reloaded")
        assert session.call("remember", 2, text="still here")["pid"] == session.pid
        assert [event["key"] for event in gateway.events("restart needed")] == ["limits.connections"]
        assert len(gateway.events("configuration reloaded")) == 1
