"""What the tests of labels at a library of one's own share: places to work at, policies, and peers that read labels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from callgate.errors import Refused
from callgate.trust.policy import Policy
from support.approval_peer import ERAS, HttpPeer
from support.labelled import Places, Road
from support.table import rows

# As the trust annotations write them.
SEED_RULES: Final = """{"rules": [
  {"name": "block-open-world-to-external", "effect": "block", "conditions": {"and": [
    {"fact": "request.annotations.openWorldHint", "equals": true},
    {"fact": "tool.annotations.inputMetadata.destination", "equals": "public"}]}},
  {"name": "confirm-irreversible-actions", "effect": "escalate",
   "conditions": {"fact": "tool.annotations.inputMetadata.outcomes", "equals": "irreversible"}}
]}"""
NO_RULES: Final = Policy([])

every_era: Final = rows("era", ERAS)


# ---- an agent's side ----


@pytest.fixture
def travel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Road], Places]]:
    """Servers on one road; they are there until the test ends."""
    with ExitStack() as stack:
        yield lambda road: stack.enter_context(Places(tmp_path_factory.mktemp("places"), road))


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Places]:
    """Over HTTP in the modern era, for what does not depend on the road."""
    with Places(tmp_path, Road("http", "auto")) as made:
        yield made


def policy(text: str, name: str = "mine.toml") -> Policy:
    return Policy.load(texts=[(name, text)], default=False)


async def reason(work: Awaitable[Any]) -> str:
    """Why something is refused; empty where it is not."""
    try:
        await work
    except Refused as refused:
        return refused.reason.value
    return ""


# ---- a server's side ----


@pytest.fixture(scope="module")
def one_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with Places(tmp_path_factory.mktemp("places"), Road("http", "auto")) as made:
        yield made


@pytest.fixture
def shared(one_place: Places) -> Places:
    """The place that the tests of a file share; nothing has run there yet."""
    one_place.begin_row()
    return one_place


@pytest.fixture
def peers(shared: Places) -> Callable[[Any], HttpPeer]:
    """A peer of an era."""
    return lambda era: HttpPeer(shared.url("files"), era)


def call(peer: HttpPeer, tool: str, arguments: Mapping[str, Any], annotations: Any = None) -> Any:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    return peer.ask("tools/call", params if annotations is None else params | {"_meta": {"annotations": annotations}})


def labels_of(answer: Mapping[str, Any]) -> Any:
    return answer["result"]["_meta"]["annotations"]
