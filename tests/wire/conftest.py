"""One everything server over HTTP and one gateway in front of both of its forms, shared by all tests of a worker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.everything import everything_argv
from support.gateway import HARMLESS, Gateway, serving
from support.pinning import Site, _pinned, pinned, pinned_site  # noqa: F401 - fixtures too
from support.trust_library import near, one_place, peers, shared, travel  # noqa: F401 - fixtures


@dataclass(frozen=True)
class Everything:
    """The everything server over HTTP, and the directory where it marks what happens to it."""

    url: str
    marks: Path


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    marks = tmp_path_factory.mktemp("marks")
    process = subprocess.Popen(everything_argv("http", marks), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        yield Everything(line.split()[-1], marks)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="session")
def gateway(everything: Everything, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """`callgate serve` with the server `web` behind HTTP and the server `pipe` behind stdio."""
    places = {"web": {"url": everything.url}, "pipe": {"command": everything_argv("stdio", everything.marks)}}
    servers = {name: {**place, "trust": HARMLESS} for name, place in places.items()}
    with serving(tmp_path_factory.mktemp("gateway"), servers) as running:
        yield running


@pytest.fixture(scope="module")
def _patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with pinned_site(tmp_path_factory.mktemp("patient"), pinning={"recheck_seconds": 3600}) as site:
        site.lasting = True
        yield site


@pytest.fixture
def patient(_patient: Site) -> Iterator[Site]:
    """A gateway that believes a list for an hour; its servers are the same throughout."""
    yield _patient
    _patient.leave()
