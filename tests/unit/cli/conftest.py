"""What tests of verbs on people share: a store of each kind, and the command line on it."""

import asyncio
import json

import pytest

from callgate.audit import reading
from callgate.cli import run
from callgate.store import SqlApprovals, Store
from support.enrolling import enrol, service
from support.stores import bare, ready

# The suite of the store itself runs on both databases each time.
KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.verify)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory, and an environment that says nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in ("CALLGATE_CONFIG", "CALLGATE_STORE_URL", "CALLGATE_BLOCK_ALL", "CALLGATE_LISTEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(params=KINDS)
def people(request, here, capsys):
    """The command line and the service on one store, on both databases."""
    with ready(request.param, here) as url:
        yield People(url, capsys)


@pytest.fixture(params=KINDS)
def nobody(request, here, capsys):
    """The same, where no store has been made."""
    with bare(request.param, here) as url:
        yield People(url, capsys)


class People:
    """Verbs in, what they print out; `asks` reaches the same store as a gateway would."""

    def __init__(self, url, capsys):
        self.url = url
        self._capsys = capsys

    def __call__(self, *words, code=0):
        found = run([*words, "--store", self.url])
        said = self._capsys.readouterr()
        assert found == code, said.err
        return said

    def json(self, *words):
        return json.loads(self(*words, "--json").out)

    def asks(self, work, **options):
        """What `work(approvals)` gives, with the service on this store."""
        store = Store.open(self.url, busy_seconds=60)
        try:
            return asyncio.run(work(service(SqlApprovals(store), **options)))
        finally:
            store.close_sync()

    def enrolled(self, user="alice", authenticator=None, name="", **bend):
        """A new passkey from a ticket of the command line: the credential, its recovery codes, the authenticator."""
        ticket = self.json("enroll", user)["ticket"]
        return self.asks(lambda approvals: enrol(approvals, ticket, authenticator, name, **bend))

    def records(self):
        """What operators did, as (action, by, detail)."""
        store = Store.open(self.url, busy_seconds=60)
        try:
            with store.audit_reading() as tables:
                found = [json.loads(body) for _, body in tables.bodies(reading.Filter())]
        finally:
            store.close_sync()
        return [(one["action"], one["by"], one.get("detail")) for one in found if one["kind"] == "admin"]
