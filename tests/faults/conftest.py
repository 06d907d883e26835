"""A gateway in front of a server that misbehaves on request, one of each for a file of tests."""

import pytest

from support.gateway import serving
from support.hostile import hostile_server


@pytest.fixture(scope="module")
def upstream():
    with hostile_server() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, upstream):
    table = {"url": upstream.url, "timeout_seconds": 1.0, "connect_seconds": 2.0}
    with serving(tmp_path_factory.mktemp("gateway"), {"one": table}, limits={"message_bytes": 262144}) as running:
        yield running
