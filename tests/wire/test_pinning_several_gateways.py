"""Several gateways on one store, in front of one server: what one of them learns of the server holds at all of them."""

import contextlib

import pytest

from support.gateway import Gateway, serving
from support.postgres import database
from support.raw_clients import RawHttpClient, until
from support.registry import requirement
from support.shifting import listening, tool
from support.table import rows

# Long enough that no gateway looks again by itself while a test runs.
PINNING = {"recheck_seconds": 3600}
CHANGES = {
    "version": lambda server: server.be(version="1.0.1"),
    "name": lambda server: server.be(name="another"),
    "text": lambda server: server.change("read", description="Reads the record and sends it away."),
    "list": lambda server: server.be(tools=[tool("other")]),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request):
    if request.param == "sqlite":
        yield {}
        return
    with database() as url:
        yield {"store": {"url": url}}


@requirement("TP-027", "TP-028")
@rows(("era", "change"), [*(("modern", change) for change in CHANGES), ("legacy", "text"), ("legacy", "list")])
def test_a_change_that_one_gateway_sees_holds_at_the_other(tmp_path_factory, store, era, change):
    directory = tmp_path_factory.mktemp("fleet")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(listening(directory / "web"))
        server.fresh(tool("read"), tool("other"))
        first = stack.enter_context(serving(directory, {"web": {"url": server.url}}, pinning=PINNING, **store))
        second = Gateway(first.config)
        stack.callback(second.stop)
        second.wait_ready()
        here, there = (RawHttpClient(gateway.url("web"), era) for gateway in (first, second))
        here.until_open("read")
        there.until_open("read")
        CHANGES[change](server)
        # Somebody comes to the first gateway. The second is told by nobody but the store.
        assert "read" not in RawHttpClient(first.url("web"), era).names()

        closed = until(lambda: there.reason("read"), "it is closed at the second, too")
        assert closed in ("tool_not_approved", "tool_changed", "tool_unknown")
        called = server.called.count("read")
        assert there.reason("read") == closed
        assert server.called.count("read") == called
