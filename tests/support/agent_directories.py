"""Directories of agents for tests: a real HTTPS server on this machine that answers for any host name, well or badly."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from callgate.agents.directories import AgentDirectory, Directories, Sources
from callgate.agents.fetching import Caps, Fetcher, Reach
from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN, Signed
from callgate.agents.signing import Signer
from callgate.agents.storage import AgentRepository
from callgate.agents.verifying import SignedResponse

LOOPBACK: Final = Reach(networks=("127.0.0.0/8",))
HOSTS: Final = ("a.example", "b.example", "c.example", "eve.example", "agents.example", "*.bots.example", "localhost")


@dataclass
class Clock:
    """A time that tests set."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Asked:
    """A request as the server heard it."""

    host: str
    path: str
    headers: Mapping[str, str]


@dataclass
class Page:
    """An answer: a document and its headers, or whatever `write` does with the connection."""

    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    status: str = "200 OK"
    write: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None


class DirectoryServer:
    """Answers for every host name that resolves to it; `pages` by (host, path)."""

    def __init__(self) -> None:
        self.port = 0
        self.pages: dict[tuple[str, str], Page] = {}
        self.asked: list[Asked] = []
        self.connections = 0
        # While it is not set, answers wait.
        self.gate = asyncio.Event()
        self.gate.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def url(self, host: str) -> str:
        return f"https://{host}:{self.port}"

    def directory(self, host: str) -> str:
        return f"{self.url(host)}{WELL_KNOWN}"

    def publish(self, host: str, *signers: Signer, path: str = WELL_KNOWN, **more: Any) -> None:
        """A directory with the keys of these signers; `more` goes into each key."""
        self.put(host, {"keys": [{**one.jwk, **more} for one in signers]}, path=path)

    def put(self, host: str, document: Any, *, path: str = WELL_KNOWN, **headers: str) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[host, path] = Page(body, {"Content-Type": DIRECTORY_TYPE, **named})

    def sign(self, host: str, *signers: Signer, authority: str = "", digest: bool = True) -> None:
        """Let these keys sign the directory of a host, as it stands."""
        page = self.pages[host, WELL_KNOWN]
        request = Signed("GET", "https", authority or f"{host}:{self.port}", WELL_KNOWN, None, ())
        plain = tuple((name.lower().encode(), value.encode()) for name, value in page.headers.items())
        made = [one.sign_answer(SignedResponse(200, plain, request, page.body), digest=digest) for one in signers]
        joined = dict(page.headers)
        for name in ("Content-Digest", "Signature-Input", "Signature"):
            values = dict.fromkeys(one[name] for one in made if name in one)
            if values:
                joined[name] = ", ".join(values)
        self.pages[host, WELL_KNOWN] = Page(page.body, joined)

    def take_down(self, host: str) -> None:
        for place in [one for one in self.pages if one[0] == host]:
            self.pages[place] = Page(status="503 Service Unavailable")

    def hits(self, host: str) -> int:
        return sum(one.host == host for one in self.asked)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
            }
            host, path = headers["host"].partition(":")[0], first.split(" ")[1]
            self.asked.append(Asked(host, path, headers))
            await self.gate.wait()
            await self._answer(self.pages.get((host, path), Page(status="404 Not Found")), writer)
        self._writers.discard(writer)
        writer.close()

    async def _answer(self, page: Page, writer: asyncio.StreamWriter) -> None:
        if page.write is not None:
            await page.write(writer)
            return
        headers = {"Content-Length": str(len(page.body)), **page.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {page.status}\r\n{head}\r\n".encode() + page.body)
        await writer.drain()

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()


@dataclass
class World:
    """A server, a clock and a resolver; `directories(...)` looks keys up there and nowhere else."""

    server: DirectoryServer
    trusted: ssl.SSLContext
    clock: Clock = field(default_factory=Clock)
    # What DNS answers; every other name is the server.
    dns: dict[str, Sequence[str]] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    opened: list[Directories] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        return self.dns.get(host, ["127.0.0.1"])

    def fetcher(self, reach: Reach = LOOPBACK, caps: Caps | None = None) -> Fetcher:
        return Fetcher(reach, caps or Caps(), resolve=self.resolve, trusted=self.trusted)

    def directories(
        self,
        sources: Sources | None = None,
        shelf: AgentRepository | None = None,
        *,
        agents: Sequence[AgentDirectory] = (),
        reach: Reach = LOOPBACK,
    ) -> Directories:
        made = sources or Sources()
        found = Directories(made, shelf, fetcher=self.fetcher(reach, made.caps), agents=agents, clock=self.clock)
        self.opened.append(found)
        return found

    def signer(self, directory: str | None = None, **options: Any) -> Signer:
        return Signer(ed25519.Ed25519PrivateKey.generate(), directory, clock=self.clock, **options)


@contextlib.asynccontextmanager
async def listening(address: str = "127.0.0.1", port: int = 0) -> AsyncIterator[DirectoryServer]:
    """A server at an address of this machine."""
    server = DirectoryServer()
    serving, _ = _contexts()
    found = await asyncio.start_server(server.serve, address, port, ssl=serving, limit=2**16)
    server.port = found.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        found.close()
        server.gate.set()
        server.cut()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Everything up, and down again."""
    _, trusted = _contexts()
    async with listening() as server:
        made = World(server, trusted)
        try:
            yield made
        finally:
            for one in made.opened:
                await one.close()


@functools.cache
def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """One certificate that signs itself, for all host names of the tests; and a client that trusts it only."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "directories for tests")])
    now = dt.datetime.now(dt.UTC)
    alternatives = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "server.pem").write_bytes(pem + secret)
        serving.load_cert_chain(path)
    return serving, ssl.create_default_context(cadata=pem.decode())
