"""Be called by an agent on another port of the gateway's host, or on the agent's own machine, and pass its signature on."""

import socket

import pytest

from support.agents_gate import PLAIN, call, known, reason, signer, site
from support.raw import JSON_HEADERS, ask
from support.registry import requirement
from support.table import rows

NAMED = {"listen": "0.0.0.0:0", "allowed_hosts": ["gate.example", "tunnel.example:9000"]}


@pytest.fixture(scope="module")
def by():
    return signer()


@pytest.fixture(scope="module")
def gate(tmp_path_factory, by):
    """Without an `external_url`: what the request calls the gateway is all there is to go by."""
    with site(tmp_path_factory.mktemp("gate"), agents={"known": {"by": known(by)}}, gateway=NAMED) as running:
        yield running


def replayed(gate, by, host):
    """A signature for `http://host`, brought here by whoever got it there."""
    return reason(gate.send(by, call("search"), base=f"http://{host}", headers={"Host": host}))


@rows("host", ["localhost:9999", "localhost", "127.0.0.1:1", "[::1]:9999", "gate.example:9999", "tunnel.example"])
@requirement("WB-085")
def test_a_signature_for_another_port(gate, by, host):
    assert replayed(gate, by, host) == (403, "host_not_allowed")
    assert gate.got() == []


@requirement("WB-085")
def test_a_signature_for_the_agents_own_machine(gate, by):
    """The same port on `localhost`, over the network: there it was another gateway's name."""
    address = _own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    host = f"localhost:{gate.gateway.port}"
    headers = {**JSON_HEADERS, "Host": host}
    headers |= gate.signed(by, PLAIN, headers=headers, base=f"http://{host}")
    url = gate.gateway.url("one").replace(gate.gateway.address, f"http://{address}:{gate.gateway.port}")
    assert reason(ask(url, PLAIN, headers, "POST")) == (403, "host_not_allowed")


@requirement("WB-085")
def test_its_own_names_are_the_gateways(gate, by):
    for host in (f"127.0.0.1:{gate.gateway.port}", f"localhost:{gate.gateway.port}"):
        assert replayed(gate, by, host) == (200, "")
    for host in ("gate.example", f"gate.example:{gate.gateway.port}", "tunnel.example:9000", "Gate.Example"):
        assert replayed(gate, by, host) == (200, "")


def _own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found = probe.getsockname()[0]
    return None if found.startswith("127.") else found
