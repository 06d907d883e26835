"""A handshake session that outlives its gateway: the next gateway on the same store knows its server as the one before."""

from __future__ import annotations

from support.fork_server import CALLGATE
from support.gateway import Gateway, approve_listed
from support.pinning import pinned_site
from support.raw_clients import RawPipeClient, Way, until
from support.registry import requirement
from support.shifting import tool
from support.table import rows

WEB = Way("serve", "legacy", "web")


def restart(site, end):
    """Another gateway at the same address."""
    port = site.gateway.port
    config = site.gateway.config
    getattr(site.gateway, end)()
    config.write_text(config.read_text().replace('"127.0.0.1:0"', f'"127.0.0.1:{port}"'))
    site.gateway = Gateway(config)
    site.gateway.wait_ready()


def identities(site):
    return [one for one in site.servers_seen() if one.name == "web"]


def approved(site):
    """A session in which the tool can be called."""
    visitor = site.visit(WEB)
    visitor.names()
    site.approve("web", "read")
    visitor.until_open("read")
    return visitor


# Also names that are not shown to people as they came.
NAMES = [("plain", "1.0.0"), ("without-a-version", ""), ("long-" * 60, "1"), (" with a line end\n", "1 b"), ("", "2")]


@requirement("TP-019", "TP-069")
@rows(("name", "version"), NAMES, ids=["plain", "no version", "long", "line end", "no name"])
@rows("end", ["kill", "stop"])
def test_a_live_session_keeps_the_identity_of_its_server(tmp_path, end, name, version):
    with pinned_site(tmp_path, pinning={"recheck_seconds": 3600}) as site:
        site["web"].fresh(tool("read"))
        site["web"].be(name=name, version=version)
        visitor = site.visit(WEB)
        visitor.names()
        until(lambda: identities(site), "the server is on record")
        approve_listed(site.gateway.config)
        visitor.until_open("read")
        try:
            for _ in range(2):
                restart(site, end)
                assert visitor.reason("read") == ""
                assert visitor.names() == ["read"]
                assert len(identities(site)) == 1
        finally:
            site.leave()
            assert site.gateway.stop() == 0


@requirement("TP-019")
def test_a_live_session_outlives_another_configuration_of_its_server(tmp_path):
    with pinned_site(tmp_path, pinning={"recheck_seconds": 3600}) as site:
        site["web"].fresh(tool("read"))
        visitor = approved(site)
        path = site.gateway.config
        path.write_text(path.read_text().replace("[servers.web]\n", "[servers.web]\ntimeout_seconds = 77\n"))
        until(lambda: site.gateway.events("configuration reloaded"), "it is read again")
        assert visitor.reason("read") == ""
        assert len(identities(site)) == 1


@requirement("TP-019", "TP-069")
def test_another_server_of_the_same_name_on_the_same_store(tmp_path):
    """A command that was wrapped under the name of the server, and was seen after it."""
    with pinned_site(tmp_path, pinning={"recheck_seconds": 3600}) as site:
        site["web"].fresh(tool("read"))
        visitor = approved(site)
        argv = [CALLGATE, "wrap", "-c", str(site.gateway.config), "web", "--", *site["pipe"].argv]
        other = RawPipeClient(argv, "legacy", tmp_path / "wrap.log")
        other.names()
        other.close()
        until(lambda: len(identities(site)) == 2, "both are on record")
        try:
            restart(site, "kill")
            assert visitor.reason("read") == ""
            assert len(identities(site)) == 2
        finally:
            site.leave()
            assert site.gateway.stop() == 0
