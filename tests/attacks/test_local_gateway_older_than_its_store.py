"""A gateway goes on while another Callgate has made the store its own: it must not write to what it does not know."""

import json
import sys

import pytest

from callgate.cli.gateway import ask_gateway
from callgate.config import load
from callgate.local import wire
from callgate.local.place import Place
from callgate.store import Store
from support.gateway import serving
from support.raw import SECONDS
from support.sessions import teller_argv, until
from support.shared import shared
from support.table import rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such gateway there")


def put(config, version):
    store = Store.connect(load(config).store.url.reveal())
    try:
        with store.writing() as conn:
            conn.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
    finally:
        store.close_sync()


def head(config):
    store = Store.connect(load(config).store.url.reveal())
    try:
        with store.reading() as conn:
            return conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    finally:
        store.close_sync()


@rows("version", ["9999_of_tomorrow", "0001"])
def test_no_call_passes_and_the_gateway_ends(tmp_path_factory, version):
    with shared(tmp_path_factory.mktemp("newer")) as person:
        person.approve()
        known = head(person.config)
        with person.wrapped() as client:
            assert client.works
            calls = len([1 for path in person.folder.glob("received-*") if b"tools/call" in path.read_bytes()])
            put(person.config, version)
            refused = None
            while refused is None:
                try:
                    answer = client.call()
                except (EOFError, BrokenPipeError):
                    break
                refused = answer.get("error")
            assert refused is None or refused["data"]["reason"] == "store_unavailable"
            assert client.process.wait(SECONDS) == 69
        assert calls
        said = person.folder / "said"
        with person_refuses(person) as text:
            said.write_text(json.dumps(text))
            assert "schema" in text
        put(person.config, known)
        with person.wrapped() as client:
            assert client.works, "with the store as it was, nothing has to be done by hand"


class person_refuses:
    """What a wrap says that finds a store which its gateway cannot use."""

    def __init__(self, person):
        self._person = person

    def __enter__(self):
        from support.shared import Client

        with Client(self._person.argv()) as client:
            assert client.process.wait(SECONDS) == 1
            return client.process.stderr.read().decode()

    def __exit__(self, *_error):
        return None


def test_a_newer_wrap_replaces_a_gateway_that_nobody_uses(tmp_path):
    with shared(tmp_path) as person:
        with person.wrapped():
            before = person.status()["pid"]
            link = person.link()
            wire.send(link, person.order(version="999.0", do="status"))
            assert wire.receive(link, wire.Incoming())["pid"] == before, "not one that stands before servers"
            link.close()
        until(lambda: not person.status()["servers"])
        link = person.link()
        wire.send(link, person.order(version="999.0"))
        assert wire.receive(link, wire.Incoming()) == {"again": True}
        link.close()
        with person.wrapped() as client:
            assert "result" in client.ask("tools/list")
            assert person.status()["pid"] != before


def test_a_newer_status_only_asks(tmp_path):
    with shared(tmp_path) as person:
        with person.wrapped():
            before = person.status()["pid"]
        until(lambda: not person.status()["servers"])
        with person.link() as link:
            wire.send(link, person.order(version="999.0", do="status"))
            assert wire.receive(link, wire.Incoming())["pid"] == before
        assert person.status()["pid"] == before


def test_a_newer_wrap_does_not_end_what_serves_others(tmp_path):
    """`callgate serve` takes wrapped servers too, and has clients of its own."""
    argv = teller_argv(tmp_path)
    with serving(tmp_path, {"teller": {"command": argv}}, reviewed=False) as served:
        at = Place(str(served.config))
        until(lambda: ask_gateway(at, "status") is not None)
        order = {"protocol": wire.PROTOCOL, "version": "999.0", "do": "wrap", "name": "teller", "command": argv}
        with at.connect(SECONDS) as link:
            wire.send(link, order)
            assert "start" in wire.receive(link, wire.Incoming())
        assert ask_gateway(at, "status") is not None
