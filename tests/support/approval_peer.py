"""A client of verified approval without a library: raw JSON over HTTP in both eras, or over a pipe."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from callgate.protocol import CHALLENGE_CREATE, ENROLL_BEGIN, ENROLL_FINISH, META, TICKET, WEBAUTHN
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.raw import SECONDS, piped
from support.sessions import CONTENT, events

Era: TypeAlias = Literal["modern", "handshake"]
ERAS: Final[tuple[Era, ...]] = ("modern", "handshake")
MODERN: Final = "2026-07-28"
HANDSHAKE: Final = "2025-11-25"
_ENVELOPE: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
}


class Failed(AssertionError):
    """A request that was answered with an error."""

    def __init__(self, answer: Any) -> None:
        super().__init__(json.dumps(answer))
        self.answer = answer


def refusal(answer: Mapping[str, Any]) -> tuple[int, str | None]:
    """The code and the reason of an answer that has to be an error."""
    assert "error" in answer, answer
    data = answer["error"].get("data")
    return answer["error"]["code"], data.get("reason") if isinstance(data, dict) else None


def text_of(answer: Mapping[str, Any]) -> str:
    """What the tool said, if it ran."""
    if "result" not in answer:
        raise Failed(answer)
    assert not answer["result"].get("isError"), answer
    return str(answer["result"]["content"][0]["text"])


class Peer:
    """The ceremony; how messages travel is for those who come after."""

    def __init__(self) -> None:
        self._number = 0

    def send(self, message: bytes, method: str, name: str | None) -> Any:
        """Send a whole message, and give back the whole answer to it."""
        raise NotImplementedError

    def envelope(self) -> dict[str, Any]:
        return {}

    def next_id(self) -> int:
        self._number += 1
        return self._number

    def message(self, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        whole: dict[str, Any] = {"jsonrpc": "2.0", "id": self.next_id(), "method": method}
        envelope = self.envelope()
        if params is None and not envelope:
            return whole
        given = dict(params or {})
        meta = given.get("_meta", {})
        if envelope and isinstance(meta, Mapping):
            given["_meta"] = envelope | dict(meta)
        return whole | {"params": given}

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        name = (params or {}).get("name")
        encoded = json.dumps(self.message(method, params)).encode()
        return self.send(encoded, method, name if isinstance(name, str) else None)

    def ask_raw(self, method: str, arguments: bytes, *, tool: str = "keep", evidence: Any = None) -> Any:
        """A call or challenge whose `arguments` are these bytes, as they are."""
        params: dict[str, Any] = {"name" if method == "tools/call" else "toolName": tool, "arguments": "\0"}
        if evidence is not None:
            params["_meta"] = {META: evidence}
        message = json.dumps(self.message(method, params)).encode()
        whole = message.replace(b'"\\u0000"', arguments)
        assert whole != message
        return self.send(whole, method, tool)

    def result(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        answer = self.ask(method, params)
        if "result" not in answer:
            raise Failed(answer)
        return answer["result"]

    def begin(self, ticket: str | None) -> Any:
        return self.ask(ENROLL_BEGIN, {} if ticket is None else {"_meta": {TICKET: ticket}})

    def finish(self, response: Any) -> Any:
        return self.ask(ENROLL_FINISH, {"response": response})

    def enrol(self, ticket: str | None, key: SoftwareAuthenticator | None = None) -> SoftwareAuthenticator:
        """A passkey, by the front door."""
        key = key or SoftwareAuthenticator()
        begun = self.begin(ticket)
        if "result" not in begun:
            raise Failed(begun)
        finished = self.finish(key.create(begun["result"]["options"]))
        if "result" not in finished:
            raise Failed(finished)
        return key

    def challenge(self, tool: str, arguments: Any = None) -> Any:
        """What `approval/challenge/create` gives; Failed if it is refused."""
        return self.result(
            CHALLENGE_CREATE, {"toolName": tool} | ({} if arguments is None else {"arguments": arguments})
        )

    def call(self, tool: str, arguments: Any = None, evidence: Any = None) -> Any:
        params: dict[str, Any] = {"name": tool} | ({} if arguments is None else {"arguments": arguments})
        return self.ask("tools/call", params if evidence is None else params | {"_meta": {META: evidence}})


def signed(challenge: Mapping[str, Any], key: SoftwareAuthenticator, /, **bend: Any) -> dict[str, Any]:
    """The evidence of SEP-2672 §4.5 for a challenge."""
    response = key.get(challenge["requestOptions"], **bend)
    return {"method": WEBAUTHN, "challengeId": challenge["challengeId"], "response": response}


@dataclass(frozen=True)
class Person:
    """Somebody with a passkey at a client."""

    peer: Peer
    key: SoftwareAuthenticator
    name: str

    def challenge(self, tool: str, arguments: Any = None) -> Any:
        return self.peer.challenge(tool, arguments)

    def signs(self, challenge: Mapping[str, Any], /, **bend: Any) -> dict[str, Any]:
        return signed(challenge, self.key, **bend)

    def call(self, tool: str, arguments: Any = None, evidence: Any = None) -> Any:
        return self.peer.call(tool, arguments, evidence)

    def approves(self, tool: str, arguments: Any = None, **bend: Any) -> Any:
        """A whole ceremony, honest unless it is bent; the answer to the call."""
        return self.call(tool, arguments, self.signs(self.challenge(tool, arguments), **bend))

    def refused(self, tool: str, arguments: Any = None, **bend: Any) -> tuple[int, str | None]:
        return refusal(self.approves(tool, arguments, **bend))


class HttpPeer(Peer):
    """Over HTTP, in one of the eras; `headers` go with every request."""

    def __init__(self, url: str, era: Era = "modern", **headers: str) -> None:
        super().__init__()
        self.era: Era = era
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._host, _, self._path = url.removeprefix("http://").partition("/")
        self._session: str | None = None
        self.greeting: Any = None
        self.status = 0
        if era == "handshake":
            self._shake_hands()

    def envelope(self) -> dict[str, Any]:
        return dict(_ENVELOPE) if self.era == "modern" else {}

    def _shake_hands(self) -> None:
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
        self.greeting = self.result("initialize", params)
        self.post(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(), {})

    def send(self, message: bytes, method: str, name: str | None) -> Any:
        headers: dict[str, str] = {}
        if self.era == "modern":
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method} | ({"Mcp-Name": name} if name else {})
        elif self._session is not None:
            headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": self._session}
        body = self.post(message, headers)
        found = events(body)
        assert found, (self.status, body)
        return found[-1]

    def post(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        if self._session is not None and "Mcp-Session-Id" not in headers:
            headers = dict(headers) | {"Mcp-Session-Id": self._session}
        connection = http.client.HTTPConnection(self._host, timeout=SECONDS)
        try:
            connection.request("POST", f"/{self._path}", body, CONTENT | dict(headers) | self.headers)
            with connection.getresponse() as response:
                self.status = response.status
                self._session = response.headers.get("mcp-session-id") or self._session
                return response.read()
        finally:
            connection.close()


class PipePeer(Peer):
    """Over the pipes of a process."""

    def __init__(self, process: subprocess.Popen[bytes], era: Era = "handshake") -> None:
        super().__init__()
        self.process = process
        self.era: Era = era
        self.greeting: Any = None
        if era == "handshake":
            params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
            self.greeting = self.result("initialize", params)
            self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def envelope(self) -> dict[str, Any]:
        return dict(_ENVELOPE) if self.era == "modern" else {}

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, message: bytes, method: str, name: str | None) -> Any:
        self.write(message)
        return self.read()

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server said nothing more"
        return json.loads(line)


@contextlib.contextmanager
def over_pipes(argv: Sequence[str], era: Era = "handshake") -> Iterator[PipePeer]:
    with piped(argv) as process:
        yield PipePeer(process, era)
