"""A real gateway that asks who calls: agents that sign, a server behind it that keeps what it got, documents over https."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from callgate.agents.apikeys import ApiKeys
from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN, Signed
from callgate.agents.signing import Signer
from callgate.store import SqlAgents, Store
from support.agent_directories import _contexts
from support.gateway import HARMLESS, Gateway, review_ahead, serving, write_config
from support.raw import JSON_HEADERS, RawServer, Received, Reply, ask, raw_server

PLAIN = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def call(*tools: str, **arguments: Any) -> bytes:
    """The body of a call; of a batch, where there are several tools."""
    messages = [
        {"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        for at, tool in enumerate(tools, 1)
    ]
    return json.dumps(messages[0] if len(messages) == 1 else messages).encode()


def signer(directory: str | None = None, **options: Any) -> Signer:
    return Signer(Ed25519PrivateKey.generate(), directory, **options)


# What the servers list; all of it was reviewed before a gateway starts.
TOOLS: Final = [
    {"name": name, "description": "Does what it is called.", "inputSchema": {"type": "object"}}
    for name in (
        *("search", "read", "write", "buy", "checkout", "look", "never", "anything", "x", "a", "b"),
        *("get_product", "get_a", "drop_all", "send_mail", "send_fax", "Send_Mail"),
    )
]


def echo(request: Received, connection: Any) -> None:
    """Answers every request in the body; says OK to the rest. It does not say who it is: few callers greet it."""
    body = b""
    if request.body:
        asked = json.loads(request.body)
        replies = [_reply(one) for one in (asked if isinstance(asked, list) else [asked])]
        body = json.dumps(replies if isinstance(asked, list) else replies[0]).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    connection.sendall(head % len(body) + body)


def _reply(asked: Mapping[str, Any]) -> dict[str, Any]:
    listed = {"tools": TOOLS} if asked.get("method") == "tools/list" else {}
    return {"jsonrpc": "2.0", "id": asked["id"], "result": listed}


@dataclass
class Site:
    """A gateway with the servers `one` and `two` behind it."""

    gateway: Gateway
    servers: Mapping[str, RawServer]

    def send(
        self,
        by: Signer | None,
        body: bytes | None = PLAIN,
        *,
        server: str = "one",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        peer: str = "",
        **signing: Any,
    ) -> Reply:
        """One request, signed by an agent where one is named."""
        sent = {**JSON_HEADERS, **(headers or {})}
        if by is not None:
            sent |= self.signed(by, body, server=server, method=method, headers=sent, **signing)
        return ask(self.gateway.url(server), body, sent, method, peer=peer)

    def signed(
        self,
        by: Signer,
        body: bytes | None = PLAIN,
        *,
        server: str = "one",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        base: str = "",
        **signing: Any,
    ) -> dict[str, str]:
        """The headers that an agent adds; `base` is what it takes the gateway's address to be."""
        parts = urlsplit((base or self.gateway.address) + urlsplit(self.gateway.url(server)).path)
        raw = tuple((name.lower().encode(), value.encode()) for name, value in (headers or {}).items())
        plain = Signed(method, parts.scheme, parts.netloc, parts.path, None, raw, body or b"")
        return by.sign(plain, **signing)

    def got(self, server: str = "one") -> list[Received]:
        """What callers sent; the gateway itself asks for lists of tools, too."""
        return [one for one in self.servers[server].requests if b'"id":"callgate-' not in one.body]

    def api_key(self, agent: str, **options: Any) -> str:
        """A new key, made as the command makes it."""

        async def make() -> str:
            store = await asyncio.to_thread(Store.open, f"sqlite:///{self.gateway.store}")
            try:
                return (await ApiKeys(SqlAgents(store), lambda: 1).create(agent, **options)).text
            finally:
                await store.close()

        return asyncio.run(make())


def reason(reply: Reply) -> tuple[int, str]:
    """Status and reason of a refusal; (200, "") where there is none."""
    if not reply.body:
        return reply.status, ""
    found = json.loads(reply.body)
    errors = [
        one["error"]["data"]["reason"] for one in (found if isinstance(found, list) else [found]) if "error" in one
    ]
    return reply.status, errors[0] if errors else ""


def known(by: Signer, **rules: Any) -> dict[str, Any]:
    """An agent of the configuration, by its key."""
    return {"jwk": dict(by.jwk), **rules}


@contextlib.contextmanager
def site(directory: Path, env: Mapping[str, str] | None = None, **sections: Any) -> Iterator[Site]:
    with raw_server() as one, raw_server() as two:
        one.script = two.script = echo
        servers = {name: {"url": server.url, "trust": HARMLESS} for name, server in (("one", one), ("two", two))}
        behind = sections.pop("behind", {})
        tables = {name: table | behind for name, table in servers.items()}
        review_ahead(write_config(directory, tables, **sections), dict.fromkeys(tables, TOOLS))
        with serving(directory, tables, env, reviewed=False, **sections) as gateway:
            yield Site(gateway, {"one": one, "two": two})


@dataclass
class Web:
    """Documents over https, under https://localhost:PORT; `file` has the certificate that vouches for it."""

    port: int
    file: Path
    pages: dict[str, bytes] = field(default_factory=dict)
    # What is sent beside the length and the type.
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        return {"SSL_CERT_FILE": str(self.file)}

    def publish(self, *signers: Signer, path: str = WELL_KNOWN) -> None:
        self.pages[path] = json.dumps({"keys": [dict(one.jwk) for one in signers]}).encode()


@contextlib.contextmanager
def web(directory: Path) -> Iterator[Web]:
    """An https server on this machine, for directories and issuers."""
    serving_tls, trusted = _contexts()
    (file := directory / "authority.pem").write_text(
        "".join(ssl.DER_cert_to_PEM_cert(one) for one in trusted.get_ca_certs(binary_form=True))
    )

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            body = made.pages.get(self.path)
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Type", DIRECTORY_TYPE if self.path == WELL_KNOWN else "application/json")
            self.send_header("Content-Length", str(len(body or b"")))
            for name, value in made.headers.get(self.path, {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = serving_tls.wrap_socket(server.socket, server_side=True)
    made = Web(server.server_address[1], file)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


INSIDE = ["127.0.0.0/8", "::1/128"]
