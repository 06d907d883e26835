"""One gateway in front of one recording server, shared by the attacks of a worker."""

from dataclasses import dataclass

import pytest

from callgate.approval import ApprovalBounds, ApprovalSettings
from support.approval_server import Clock, running
from support.console import console_over
from support.gateway import HARMLESS, Gateway, serving
from support.hostile import HostileServer, Reply, assert_works, connect, hostile_server, post, read_all
from support.pinning import _pinned, pinned  # noqa: F401 - fixtures
from support.stores import ready
from support.trust_gateway import trust_servers, trust_site


@dataclass(frozen=True)
class Target:
    """The gateway under attack, and the server that must not hear of it."""

    gateway: Gateway
    upstream: HostileServer

    @property
    def port(self) -> int:
        return self.gateway.port

    def refused(self, body: bytes, headers: dict[str, str] | None = None, **options: str) -> Reply:
        """Send it; the server saw nothing of it, and an honest call still works."""
        before = len(self.upstream.requests)
        got = post(self.port, body, headers, **options)
        assert got.status >= 400, got
        assert len(self.upstream.requests) == before, self.upstream.requests[-1]
        assert_works(self.port)
        return got

    def reasons(self, body: bytes, headers: dict[str, str] | None = None, **options: str) -> tuple[int, int, str]:
        """How it was refused: HTTP status, JSON-RPC code, reason."""
        got = self.refused(body, headers, **options)
        return got.status, got.error["code"], got.reason

    def raw(self, data: bytes) -> tuple[bytes, list[bytes]]:
        """Send bytes as they are, `connection: close` in them; what came back, and the bodies that the server got, but
        for the gateway's labels.
        """
        before = len(self.upstream.requests)
        with connect(self.port) as connection:
            connection.sendall(data)
            got = read_all(connection)
        bodies = [request.unlabelled for request in self.upstream.requests[before:]]
        assert_works(self.port)
        return got, bodies


# Whatever an attack on the target calls: its server lists these, and they are reviewed.
CALLED = (
    *("hops", "ls", "open", "pay", "plants", "rm", "split", "x"),
    *("byte_order_mark", "cr_cr", "cr_crlf", "crlf_cr", "last", "lf_cr"),
    *("real-beside_params", "real-in_arguments", "real-in_meta", "real-tool_beside_params", "real-under_another_name"),
)


@pytest.fixture(scope="session")
def _attacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    with hostile_server(tools=CALLED) as upstream:
        table = {"url": upstream.url, "trust": HARMLESS}
        with serving(folder, {"one": table}) as gateway:
            yield Target(gateway, upstream)


@pytest.fixture
def target(_attacked):
    """The shared target, its server honest again."""
    _attacked.upstream.behaviours.clear()
    return _attacked


@pytest.fixture(scope="session")
def _trusting(tmp_path_factory):
    # Nobody answers the questions of these attacks.
    approval = {"park_seconds": 0, "pending_per_user": 1000}
    with trust_site(
        tmp_path_factory.mktemp("trusting"),
        trust_servers(),
        approval=approval,
        limits={"processes": 1000},
        # These servers change prompts and annotations with every attack: the matter is what trust does with those that
        # pass.
        pinning={"prompts": False, "beside": "flag"},
    ) as site:
        yield site


@pytest.fixture
def trusting(_trusting):
    """A gateway that watches what agents read, shared by the attacks of a worker; its servers honest again."""
    for name, script in trust_servers().items():
        honest = {"before": {}, "raw": {}, "http": {}, "answers": {}, "results": script.get("results", {})}
        _trusting.servers[name].write(**honest, tools=script["tools"])
    return _trusting


@pytest.fixture
async def console(tmp_path):
    """A console on the store that is shipped."""
    async with console_over("sqlite", tmp_path) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
async def console_of_each_store(request, tmp_path):
    """For attacks that race, repeat or revoke: it is the store that has to notice."""
    async with console_over(request.param, tmp_path) as running:
        yield running


class KeptBooks:
    """The books of a gate without a store: what was decided and how it ended, in order."""

    def __init__(self):
        self.decisions = []
        self.outcomes = []

    async def record(self, call, decision):
        self.decisions.append((call, decision))

    def decided(self, call, decision, seconds):
        pass

    def completed(self, call, outcome):
        self.outcomes.append((call.tool, outcome.outcome))


@pytest.fixture
def books():
    return KeptBooks()


@pytest.fixture(scope="session")
def library():
    """A server with verified approval, shared by the attacks of a worker: each of them comes with people of its own.

    Its clock stands still until an attack moves it.
    """
    settings = ApprovalSettings(
        bounds=ApprovalBounds(per_user=1000, registrations_per_user=100, credentials_per_user=1000)
    )
    with running(clock=Clock(), settings=settings) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def durable(request, tmp_path, monkeypatch):
    """A fresh store of each kind, with its keys in a folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with ready(request.param, tmp_path) as url:
        yield url
