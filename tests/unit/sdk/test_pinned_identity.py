"""Who the server of a pinned client is, and which clients cannot be pinned at all."""

import sys
from contextlib import asynccontextmanager

import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer

from callgate.errors import ConfigError
from callgate.pinning.identity import http_identity, library_identity, stdio_identity
from callgate.pinning.model import PinningSettings
from callgate.sdk.pinned import PinnedClient, resolve_server
from support.table import rows

SAID = "notes 1.0.0"
URL = "https://user:hush@tools.example/mcp?key=hush"


def in_process() -> Client:
    return Client(MCPServer("notes"))


@asynccontextmanager
async def transport():
    yield None, None


def test_by_default_it_is_what_the_client_connects_to():
    at = resolve_server(None, Client(URL))
    assert at.identify(SAID) == http_identity(URL, reported=SAID)
    assert (at.transport, at.target) == ("http", "https://tools.example/mcp")
    assert "hush" not in repr(at.identify(SAID))
    started, other = (
        resolve_server(None, Client(StdioServerParameters(command="npx", args=["@org/pkg@1.2.3", *words])))
        for words in ((), ("--token", "hush"))
    )
    assert started.identify(SAID).server_id == "npm:@org/pkg@1.2.3"
    assert other.identify(SAID).server_id.startswith("npm:@org/pkg@1.2.3 with sha256:")
    assert "hush" not in repr(other.identify(SAID))
    assert (started.transport, started.target) == ("stdio", "npx")


def test_a_command_is_looked_up_where_the_sdk_starts_it(tmp_path):
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "server.py").write_text(f"# {place}")
        program = tmp_path / place / "notes"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    script = StdioServerParameters(command=sys.executable, args=["server.py"], cwd=tmp_path / "one")
    there = resolve_server(None, Client(script)).identify(SAID)
    assert there == stdio_identity([sys.executable, "server.py"], cwd=str(tmp_path / "one"), reported=SAID)
    assert str(tmp_path / "one" / "server.py") in there.server_id
    named = StdioServerParameters(command="notes", env={"PATH": str(tmp_path / "two")})
    assert str(tmp_path / "two" / "notes") in resolve_server(None, Client(named)).identify(SAID).server_id


def test_the_authors_word():
    fixed = resolve_server(library_identity("notes", version="1.2.3"), in_process())
    assert fixed.identify("eve 9").server_id == "library:notes@1.2.3"
    assert fixed.identify("eve 9").reported == "eve 9"
    assert fixed.transport == "library"
    assert resolve_server("https://tools.example/mcp", in_process()).identify("") == http_identity(
        "https://tools.example/mcp"
    )
    assert resolve_server(["uvx", "pkg==1.2"], in_process()).identify("").server_id == "pypi:pkg@1.2"
    own = resolve_server(lambda reported: library_identity("mine", reported=reported), in_process())
    assert own.identify(SAID) == library_identity("mine", reported=SAID)


@rows("name", ["notes", "a b%20ä@(x)/", "\U0001f511"])
def test_without_a_version_the_servers_word_is_added(name):
    found = resolve_server(library_identity(name), in_process())
    assert found.identify(SAID) == library_identity(name, reported=SAID)
    assert found.identify(SAID).server_id != found.identify("notes 2.0.0").server_id


@rows("server", [None, "notes", "ftp://tools.example/", [], [1], 7])
def test_a_server_that_cannot_be_told_is_refused(server):
    with pytest.raises(ConfigError) as error:
        resolve_server(server, in_process())
    assert "library_identity" in error.value.advice


def test_a_transport_of_ones_own_says_nothing_of_its_server():
    with pytest.raises(ConfigError):
        resolve_server(None, Client(transport()))


@rows("mode", ["observe", "off"])
def test_there_is_no_pinned_client_that_does_not_enforce(tmp_path, mode):
    with pytest.raises(ConfigError, match="enforces its pins"):
        PinnedClient(Client(URL), pins=tmp_path / "pins.db", settings=PinningSettings(mode=mode))


async def test_an_open_client_is_refused(tmp_path):
    async with in_process() as client:
        with pytest.raises(ConfigError, match="open already"):
            PinnedClient(client, pins=tmp_path / "pins.db", server=library_identity("notes"))
