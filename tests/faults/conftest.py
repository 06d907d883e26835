"""A gateway in front of a server that misbehaves on request, one of each for a file of tests.

A file names in TOOLS what it calls: only what was listed can be reviewed.
"""

import pytest

from support.gateway import serving
from support.hostile import hostile_server


@pytest.fixture(scope="module")
def upstream(request):
    with hostile_server(tools=getattr(request.module, "TOOLS", ())) as server:
        yield server


@pytest.fixture(autouse=True)
def _as_it_was(request):
    """No behaviour of one test is there in the next."""
    if "upstream" in request.fixturenames:
        server = request.getfixturevalue("upstream")
        before = dict(server.behaviours)
        yield
        server.behaviours = before
    else:
        yield


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, upstream):
    table = {"url": upstream.url, "timeout_seconds": 60, "connect_seconds": 60}
    with serving(tmp_path_factory.mktemp("gateway"), {"one": table}, limits={"message_bytes": 262144}) as running:
        yield running
