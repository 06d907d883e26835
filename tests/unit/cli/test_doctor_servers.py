"""`callgate doctor` on the servers behind the gateway: real processes, real sockets."""

import json
import socket
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from callgate.cli import run
from callgate.cli.doctor import servers
from support.gateway import serving
from support.table import rows

NOTES = [sys.executable, "-m", "callgate.demo", "notes"]
SECRET = "hunter2hunter2"


@pytest.fixture
def look(here, monkeypatch, capsys):
    """The findings on servers, for these tables."""
    monkeypatch.setenv("HOME", str(here / "home"))

    def look(*words, code, **tables):
        lines = ['[gateway]\nlisten = "127.0.0.1:0"', '[store]\nurl = "sqlite:///store.db"']
        for name, table in tables.items():
            lines.append(f"[servers.{name}]\n" + "\n".join(f"{key} = {toml(value)}" for key, value in table.items()))
        (here / "callgate.toml").write_text("\n".join(lines))
        found = run(["doctor", "--json", *words])
        said = capsys.readouterr().out
        assert SECRET not in said
        assert found == code, said
        return [one for one in json.loads(said)["findings"] if one["check"] == "servers"]

    return look


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


def program(code):
    return [sys.executable, "-c", textwrap.dedent(code)]


def test_servers_are_started_greeted_and_asked_for_their_tools(look):
    first, second = look(code=0, notes={"command": NOTES}, more={"command": NOTES})
    assert (first["level"], second["level"]) == ("ok", "ok")
    assert first["text"].startswith("notes answers: callgate-demo-notes 1, 5 tools, after ")


def test_only_the_server_that_is_named_is_started(look):
    (found,) = look("--server", "notes", code=0, notes={"command": NOTES}, bad={"command": ["false"]})
    assert found["text"].startswith("notes answers")


def test_nothing_is_started_where_that_is_asked_for(look, here):
    (found,) = look("--no-start", code=0, x={"command": program(f"open({str(here / 'started')!r}, 'w')")})
    assert found["level"] == "note"
    assert not (here / "started").exists()


def test_a_program_that_is_not_there_is_told_even_if_nothing_is_started(look):
    (found,) = look("--no-start", code=1, x={"command": ["no-such-program-at-all"]})
    assert found["text"] == "x: no-such-program-at-all is not found on the PATH."
    (found,) = look("--no-start", code=1, x={"command": ["sh"], "cwd": "nowhere"})
    assert "there is no folder" in found["text"]


def test_a_command_that_ends_is_told_with_its_last_words_and_without_its_secrets(look):
    code = "import os, sys; sys.stdin.readline(); sys.exit('cannot sign in with ' + os.environ['TOKEN'])"
    (found,) = look(code=1, x={"command": program(code), "env": {"TOKEN": SECRET}})
    assert found["level"] == "problem"
    assert "cannot sign in with ***" in found["text"]
    assert found["commands"] == ["callgate doctor --server x"]


def test_a_server_that_is_silent_is_not_waited_for_longer_than_it_may_take(look, monkeypatch):
    monkeypatch.setattr(servers, "_MORE_SECONDS", 0.2)
    (found,) = look(code=1, x={"command": program("import time; time.sleep(600)"), "connect_seconds": 0.3})
    assert found["text"] == "x did not answer within 0 seconds."
    assert "connect_seconds" in found["advice"]


def test_one_that_fails_does_not_hide_the_others(look):
    found = look(code=1, bad={"command": ["false"]}, notes={"command": NOTES})
    assert [one["level"] for one in found] == ["problem", "ok"]


@rows(
    "answer",
    [
        "print('not json at all', flush=True)",
        "print('[' * 100000, flush=True)",
        "print('x' * 20_000_000, flush=True)",
        """print('{"jsonrpc": "2.0", "id": null, "result": {}}', flush=True)""",
        """print('{"jsonrpc": "2.0", "id": {"a": []}, "result": {}}', flush=True)""",
    ],
)
def test_a_server_that_talks_nonsense_is_a_problem_and_no_traceback(look, answer, monkeypatch):
    monkeypatch.setattr(servers, "_MORE_SECONDS", 0.5)
    code = f"import sys, time\nsys.stdin.readline()\n{answer}\ntime.sleep(60)"
    (found,) = look(code=1, x={"command": program(code), "connect_seconds": 1.0})
    assert found["text"].startswith("x did not answer within")


def test_a_server_that_names_itself_oddly_cannot_steer_the_terminal(look):
    code = r"""
        import json, sys
        for line in sys.stdin:
            asked = json.loads(line)
            info = {"serverInfo": {"name": "a\u001b[31m\nb", "version": ["odd"]}, "tools": []}
            if "id" in asked:
                print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": info}), flush=True)
    """
    (found,) = look(code=0, x={"command": program(code)})
    assert found["text"].isprintable()


# -- over HTTP -------------------------------------------------------------------------------------------------


class Endpoint(BaseHTTPRequestHandler):
    """A server of one era or the other; `how` says which, and what is wrong with it."""

    protocol_version = "HTTP/1.1"
    how = "handshake"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((asked["method"], dict(self.headers)))
        if self.how in ("401", "404", "500"):
            return self.reply(int(self.how), b"no", "text/plain")
        if "id" not in asked:
            return self.reply(202, b"")
        modern = asked["method"] == "server/discover" or "_meta" in asked.get("params", {})
        if modern != (self.how == "modern"):
            error = {"code": -32601, "message": f"unknown, said {SECRET}"}
            return self.say({"jsonrpc": "2.0", "id": asked["id"], "error": error})
        info = {"serverInfo": {"name": "web", "version": "2"}}
        result = {"tools": [{"name": "a"}], "nextCursor": "x"} if asked["method"] == "tools/list" else info
        return self.say({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    def do_DELETE(self):
        self.server.seen.append(("DELETE", dict(self.headers)))
        self.reply(200, b"")

    def say(self, message):
        body = json.dumps(message).encode()
        if self.how == "stream":
            return self.reply(200, b": hello\n\nevent: message\ndata: " + body + b"\n\n", "text/event-stream")
        return self.reply(200, body)

    def reply(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if self.how != "modern":
            self.send_header("mcp-session-id", "s-1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words): ...


@pytest.fixture
def endpoint():
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Endpoint,), {})) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def table(server, **more):
    return {"url": f"http://u:{SECRET}@127.0.0.1:{server.server_port}/mcp?key={SECRET}", **more}


@rows("how", ["handshake", "modern", "stream"])
def test_an_endpoint_of_either_era_is_greeted_as_the_gateway_would(look, endpoint, how):
    endpoint.RequestHandlerClass.how = how
    endpoint.seen.clear()
    (found,) = look(code=0, web=table(endpoint, headers={"X-Key": SECRET}))
    assert found["text"].startswith("web answers: web 2, 1 tool on the first page, after ")
    assert all(headers["x-key"] == SECRET for _, headers in endpoint.seen)
    # A session that was opened is closed again.
    assert ([method for method, _ in endpoint.seen][-1] == "DELETE") is (how != "modern")


@rows(
    ("how", "text"),
    [
        ("401", "web: it wants other credentials (HTTP status 401); see `headers` in its table."),
        ("404", "web: it answers with HTTP status 404 and nothing that is MCP; check its `url`."),
        ("500", "web: it answers with HTTP status 500 and nothing that is MCP; check its `url`."),
        ("neither", "web: it refuses to be greeted: unknown, said ***."),
    ],
)
def test_an_endpoint_that_does_not_answer_as_it_should_is_a_problem(look, endpoint, how, text):
    endpoint.RequestHandlerClass.how = how
    endpoint.seen.clear()
    wrong = table(endpoint, headers={"X-Key": SECRET})
    if how == "neither":
        endpoint.RequestHandlerClass.do_POST = refuse_all
    (found,) = look(code=1, web=wrong)
    assert found["text"] == text


def refuse_all(self):
    asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
    self.say({"jsonrpc": "2.0", "id": asked.get("id"), "error": {"code": -1, "message": f"unknown, said {SECRET}"}})


def test_an_address_where_nothing_is_is_a_problem(look):
    with socket.socket() as taken:
        # Nobody else gets this port meanwhile, and nobody answers there.
        taken.bind(("127.0.0.1", 0))
        (found,) = look(code=1, web={"url": f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"})
    assert found["text"].startswith("web: cannot connect to the server")


def test_a_gateway_that_runs_is_found_ready(here, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(here / "home"))
    with serving(here, {"notes": {"command": NOTES}}) as gateway:
        monkeypatch.setenv("CALLGATE_LISTEN", f"127.0.0.1:{gateway.port}")
        assert run(["doctor", "--json", "--no-start", "-c", str(here / "callgate.toml")]) == 0
    found = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["check"] == "address"]
    assert [one["text"] for one in found] == [f"A gateway listens at 127.0.0.1:{gateway.port} and is ready."]
