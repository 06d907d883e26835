"""What the verbs on sessions and held results share: the service behind them, and commands that can be typed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from callgate.cli.common import keys_of, log_of, open_store
from callgate.cli.pinned import options_of, word_to_type

if TYPE_CHECKING:
    from callgate.config import Config
    from callgate.store import Store
    from callgate.trust.service import TrustService

T = TypeVar("T")

# The key that held results are sealed with.
KEY: Final = "trust"


class Opened(NamedTuple):
    """The service on the store in force."""

    trust: TrustService
    config: Config
    runner: asyncio.Runner
    options: tuple[str, ...]

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def command(self, *words: str) -> str:
        """A command for the person to type, on the same store."""
        return " ".join(["callgate", *(word_to_type(word) for word in (*words, *self.options))])


@contextmanager
def reading(path: Path | None, url: str | None) -> Iterator[Opened]:
    """The service, to look at what it holds."""
    from callgate.trust.service import no_witness

    with open_store(path, url) as (config, store), asyncio.Runner() as runner:
        yield Opened(_service(config, store, no_witness), config, runner, options_of(path, url))


@contextmanager
def changing(path: Path | None, url: str | None) -> Iterator[Opened]:
    """The service with the audit log as its witness: nothing is done that is not on record."""
    from callgate.keyring import CHECKPOINT, SEAL

    with open_store(path, url) as (config, store), asyncio.Runner() as runner:
        keyring = keys_of(config)
        keyring.require(SEAL, CHECKPOINT)
        log = log_of(config, store, keyring)
        yield Opened(_service(config, store, log.admin), config, runner, options_of(path, url))


def _service(config: Config, store: Store, witness: Any) -> TrustService:
    from callgate.store import SqlTrust
    from callgate.trust.quarantine import Seals, Unopened
    from callgate.trust.service import TrustService

    keyring = keys_of(config)

    def unseal(sealed: bytes, handle: str) -> bytes:
        keys = [key.secret for key in keyring.versions(KEY)]
        if not keys:
            raise Unopened("the key that it was sealed with is not here")
        return Seals(keys).open(sealed, handle)

    return TrustService(SqlTrust(store), witness=witness, unseal=unseal)
