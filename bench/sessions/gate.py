"""A person's own Callgate: `callgate wrap` in front of each server, with nothing configured, and that person's passkey.

Everything is done as they would: the servers are met, their tools are reviewed by command, a passkey is enrolled, and a
call that waits is approved on its page.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import IO, Any, Literal

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from processes import Unavailable
from sessions import install
from sessions.world import World

CALLGATE = str(Path(sys.executable).with_name("callgate"))
PROMPT = "dev.callgate/prompt"
SESSION = "dev.callgate/session"
TICKET = "dev.callgate/enrolment-ticket"
PENDING = "callgate_pending"
REVIEW_SECONDS = 120
# A gateway has at most 20 servers; fewer start at once where their tools are reviewed, as that takes longest.
MOST_SERVERS = 18
REVIEWED_AT_ONCE = 6
ANSWER_SECONDS = 90

Verdict = Literal["allowed", "asked", "refused"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended. `reason` is the gate's own word where it refused; `text` is what the agent got to read.

    `failed`: the server could not do it, or the call never got there.
    """

    verdict: Verdict
    reason: str
    text: str
    failed: bool


class Home:
    """The state folder of one person, and the environment in which their programs run."""

    # Whether a client asks each server for its tools at once.
    lists = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        own = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
        self.environ = install.environ() | {key: str(folder / name) for key, name in own.items()}
        for name in ("CALLGATE_CONFIG", "CALLGATE_STORE", "CALLGATE_LISTEN", "CALLGATE_SESSION"):
            self.environ.pop(name, None)
        (folder / "home").mkdir(exist_ok=True)

    def callgate(self, *words: str, status: int | None = 0) -> str:
        """What a command of Callgate prints."""
        done = subprocess.run(
            [CALLGATE, *words], env=self.environ, cwd=self.folder, capture_output=True, text=True, check=False
        )
        if status not in (None, done.returncode):
            raise Unavailable(f"callgate {words[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
        return done.stdout

    def command(self, name: str, words: list[str], /) -> list[str]:
        """What a client starts for a server."""
        return [CALLGATE, "wrap", name, "--", *words]

    def heard(self, server: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """An answer as a client got it."""

    def decisions(self) -> list[dict[str, Any]]:
        """What is on record of calls, oldest first."""
        records = (json.loads(line)["record"] for line in self.callgate("audit", "export").splitlines())
        return [record for record in records if record["kind"] == "decision"]


class Person:
    """Signs in and approves on the page, with a passkey made of software; the browser is a few requests."""

    def __init__(self) -> None:
        self._key = SoftwareAuthenticator("http://localhost")
        self._lock = threading.Lock()

    def enrol(self, home: Home, server: Wrapped, user: str) -> None:
        ticket = json.loads(home.callgate("enroll", user, "--json"))["ticket"]
        begun = server.request("approval/enroll/begin", {"_meta": {TICKET: ticket}})["result"]
        server.request("approval/enroll/finish", {"response": self._key.create(begun["options"])})

    def browser(self) -> Browser:
        return Browser(self._sign)

    def _sign(self, options: dict[str, Any], origin: str) -> dict[str, Any]:
        with self._lock:
            return self._key.get(options, origin=origin)


class Browser:
    """One signed-in browser: what it does on a page is what the page's own script does."""

    def __init__(self, sign: Callable[[dict[str, Any], str], dict[str, Any]]) -> None:
        self._sign = sign
        self._cookies: dict[str, str] = {}

    def approve(self, page: str) -> None:
        origin, _, path = page.partition("/approve/")
        text = self._ask(page, None, origin)
        if 'id="sign-in"' in text:
            issued = self._post(f"{origin}/sign-in/options", {}, origin)
            self._post(f"{origin}/sign-in", self._signed(issued, origin), origin)
            text = self._ask(page, None, origin)
        found = re.search(r'name="callgate-csrf" content="([^"]+)"', text)
        if found is None:
            raise Unavailable(f"the approval page {path} has no token")
        token = found[1]
        issued = self._post(f"{page}/options", {}, origin, token)
        self._post(f"{page}/approve", self._signed(issued, origin), origin, token)

    def _signed(self, issued: dict[str, Any], origin: str) -> dict[str, Any]:
        response = self._sign(issued["requestOptions"], origin)
        return {"challengeId": issued["challengeId"], "response": response}

    def _post(self, url: str, body: dict[str, Any], origin: str, token: str = "") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask(url, json.dumps(body).encode(), origin, token))
        return found

    def _ask(self, url: str, body: bytes | None, origin: str, token: str = "") -> str:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Accept": "application/json", "Origin": origin}
            headers |= {"x-callgate-csrf": token, "Sec-Fetch-Site": "same-origin"}
        request = urllib.request.Request(url, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                given = answer.headers.get_all("Set-Cookie") or []
                text = str(answer.read(), "utf-8")
        except urllib.error.HTTPError as error:
            given, text = [], str(error.read(), "utf-8")
            if error.code != 401 or body is not None:
                raise Unavailable(f"the page answered {error.code}: {text[:200]}") from None
        for one in given:
            self._cookies |= {name: value.value for name, value in SimpleCookie(one).items()}
        return text


class Wrapped:
    """A client's connection to one server behind `callgate wrap`; it says that it opens pages for its person."""

    def __init__(self, home: Home, name: str, words: list[str], more: Mapping[str, str], log: IO[bytes]) -> None:
        self.name = name
        self._home = home
        self._number = 0
        self._process = subprocess.Popen(
            home.command(name, words),
            env=home.environ | dict(more),
            cwd=home.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )

    def greet(self) -> None:
        capabilities: dict[str, Any] = {"elicitation": {"url": {}}}
        about = {"name": "bench-agent", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": about}
        self.request("initialize", hello)
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        if self._home.lists:
            self.tools()

    def tools(self) -> list[str]:
        """The names of its tools; none while it does not answer."""
        return [one["name"] for one in self.request("tools/list", {}).get("result", {}).get("tools", [])]

    def call(
        self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any], approve: Callable[[str], None] | None
    ) -> Outcome:
        """Call a tool. A call that waits is approved, or declined where nobody approves."""
        pages: list[str] = []

        def opened(page: str) -> bool:
            pages.append(page)
            if approve is not None:
                approve(page)
            return approve is not None

        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        answer = self.request("tools/call", params | ({"_meta": dict(meta)} if meta else {}), opened)
        error = answer.get("error")
        data = error.get("data") if isinstance(error, dict) else None
        reason = data.get("reason", "") if isinstance(data, dict) else ""
        verdict: Verdict = "asked" if pages else "refused" if reason else "allowed"
        if error:
            return Outcome(verdict, reason, error["message"], failed=True)
        result = answer["result"]
        texts = [one.get("text", "") for one in result.get("content", [])]
        return Outcome(verdict, reason, "\n".join(texts), failed=bool(result.get("isError")))

    def request(
        self, method: str, params: Mapping[str, Any], opened: Callable[[str], bool] = lambda _: False
    ) -> dict[str, Any]:
        """The answer; a page that the gate wants opened meanwhile goes to `opened`, which says if it was."""
        self._number += 1
        self._say({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            # Some servers print a greeting; clients skip what is no message.
            if not line.lstrip().startswith(b"{"):
                continue
            said: dict[str, Any] = json.loads(line)
            if said.get("method") == "elicitation/create":
                action = "accept" if opened(said["params"]["url"]) else "decline"
                self._say({"jsonrpc": "2.0", "id": said["id"], "result": {"action": action}})
            elif "method" in said and "id" in said:
                unknown = {"code": -32601, "message": "not offered"}
                self._say({"jsonrpc": "2.0", "id": said["id"], "error": unknown})
            elif said.get("id") == self._number:
                self._home.heard(self.name, {"method": method, "params": params}, said)
                return said
        raise Unavailable(f"{self.name} ended by itself")

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        self._process.stdout.close()


@contextmanager
def connected(home: Home, world: World, names: Iterable[str]) -> Iterator[dict[str, Wrapped]]:
    """A client that has these servers; they start side by side."""
    known = install.commands(world.of)
    with ExitStack() as stack:
        log = stack.enter_context((home.folder / "wrap.log").open("ab"))
        # Each person has a gateway of their own, which would stay a while without servers.
        stack.callback(home.callgate, "stop")
        servers: dict[str, Wrapped] = {}
        for name in names:
            words, more = known[name].at(world.places)
            servers[name] = Wrapped(home, name, words, more, log)
            stack.callback(servers[name].end)
        for server in servers.values():
            server.greet()
        yield servers


def reviewed(folder: Path, world: World, names: Iterable[str], person: Person) -> Home:
    """A person who has met these servers, reviewed and approved their tools, and enrolled a passkey."""
    home = Home(folder)
    every = list(names)
    for at in range(0, len(every), REVIEWED_AT_ONCE):
        with connected(home, world, every[at : at + REVIEWED_AT_ONCE]) as servers:
            deadline = time.monotonic() + REVIEW_SECONDS
            # A list is answered before it is on record, and a decision takes a moment to get around.
            while waiting := [server.name for server in servers.values() if PENDING in (server.tools() or [PENDING])]:
                if time.monotonic() > deadline:
                    raise Unavailable(f"the tools of {', '.join(waiting)} stay hidden")
                approve_all(home)
            if at == 0:
                person.enrol(home, next(iter(servers.values())), world.of.person)
    return home


def approve_all(home: Home) -> None:
    """The review by command: everything that waits is approved, after its findings were read."""
    listed = home.folder / "tools.json"
    listed.write_text(home.callgate("tools", "list", "--json"), encoding="utf-8")
    home.callgate("tools", "approve", "--from", os.fspath(listed), "--with-findings")
