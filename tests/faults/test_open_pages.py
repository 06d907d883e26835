"""A page of the console is open in a browser, and follows what happens: whoever shows it ends without a complaint."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import threading
import urllib.request
from urllib.parse import urlsplit

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.demo import fact, running_demo
from support.gateway import Gateway, command, write_config
from support.table import rows

NOISE = ("Traceback", "Exception", "CancelledError", "ASGI", "running task", "Task was destroyed", '"error"', " error ")


def post(origin, path, body):
    headers = {"Content-Type": "application/json", "Origin": origin}
    request = urllib.request.Request(origin + path, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=60)


def signed_in(origin, ticket):
    """The cookie of somebody who has just enrolled."""
    with post(origin, "/enrol/begin", {"ticket": ticket}) as begun:
        options = json.load(begun)["options"]
    answer = SoftwareAuthenticator(origin).create(options)
    with post(origin, "/enrol/finish", {"response": answer, "name": "my key"}) as done:
        return done.headers["set-cookie"].partition(";")[0]


@contextlib.contextmanager
def open_page(origin, ticket):
    """The stream of a page, from its first event on; what it was given at last."""
    cookie = signed_in(origin, ticket)
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=60)
    connection.request("GET", "/events", headers={"Cookie": cookie, "Accept": "text/event-stream"})
    with contextlib.closing(connection), connection.getresponse() as stream:
        assert stream.status == 200
        while not stream.readline().startswith(b"data:"):
            pass
        yield cookie


def assert_quiet(said):
    assert not [word for word in NOISE if word in said], said


@rows("pages", [1, 3])
@rows("way", ["Ctrl-C", "done"])
def test_enrolling_by_a_page_of_the_command(tmp_path, way, pages):
    argv = [sys.executable, "-m", "callgate", "enroll", "alice", "--here", "--json"]
    argv += ["--store", f"sqlite:///{tmp_path}/callgate.db"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        patience = threading.Timer(120, process.kill)
        patience.start()
        try:
            text = ""
            while not text.endswith("}\n"):
                text += process.stdout.readline()
            made = json.loads(text)
            origin = made["link"].partition("/enrol#")[0]
            with contextlib.ExitStack() as stack:
                cookie = stack.enter_context(open_page(origin, made["ticket"]))
                for _ in range(pages - 1):
                    stack.enter_context(another_page(origin, cookie))
                heard = "".join(process.stderr.readline() for _ in range(3))
                assert "Ctrl-C stops it" in heard
                if way == "done":
                    urllib.request.urlopen(f"{origin}/", timeout=60).close()
                else:
                    process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=120)
        finally:
            process.kill()
            patience.cancel()
    assert process.returncode == 0
    assert_quiet(said)


@contextlib.contextmanager
def another_page(origin, cookie):
    connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=60)
    connection.request("GET", "/events", headers={"Cookie": cookie, "Accept": "text/event-stream"})
    with contextlib.closing(connection), connection.getresponse() as stream:
        assert stream.status == 200
        yield


@rows("number", [signal.SIGINT, signal.SIGTERM])
def test_a_gateway_that_ends(tmp_path, number):
    gateway = Gateway(write_config(tmp_path, {"one": {"url": "http://127.0.0.1:9/mcp"}}))
    origin = f"http://localhost:{gateway.port}"
    ticket = json.loads(command(gateway.config, "enroll", "alice", "--json"))["ticket"]
    with open_page(origin, ticket):
        gateway.process.send_signal(number)
        assert gateway.stop() == 0
    assert_quiet("\n".join(gateway.lines))


def test_a_demo_that_ends(tmp_path):
    with running_demo(tmp_path, "--no-browser") as demo:
        demo.wait_for("console")
        origin = fact(demo.printed, "console").rstrip("/")
        ticket = json.loads(command(demo.config, "enroll", "me", "--json"))["ticket"]
        with open_page(origin, ticket):
            demo.end(signal.SIGINT)
        assert_quiet(demo.complained + demo.printed)
