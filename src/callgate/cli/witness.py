"""`callgate witness`: cosign the heads of somebody else's log, so that nobody can rewrite it unseen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from callgate.audit.note import WITNESS, VerifierKey
from callgate.audit.witness import Witness, WitnessFile
from callgate.cli.common import say
from callgate.config import parse_address
from callgate.errors import AuditError, ConfigError
from callgate.keyring import Keyring
from callgate.telemetry.logs import configure

_KEY: Final = "witness"
_FILE: Final = "witness.db"
_MAX_KEYS: Final = 1 << 20
FolderOption = Annotated[
    Path, typer.Option("--folder", help="Where the witness keeps its key and what it has cosigned.")
]


def serve(
    name: Annotated[str, typer.Option("--name", help="What the witness is called, such as witness.example/w1.")],
    log: Annotated[
        list[str], typer.Option("--log", help="The public key of a log to cosign, or a file with such keys.")
    ],
    folder: FolderOption = Path("callgate-witness"),
    listen: Annotated[str, typer.Option("--listen", help="Address to listen on, HOST:PORT.")] = "127.0.0.1:8430",
) -> None:
    """Cosign the heads of these logs, each only if it is proved to continue the last one."""
    from callgate.app.event_loop import new_event_loop
    from callgate.app.witness import serve_witness

    configure("info", "auto")
    logs = _keys_of_logs(log)
    logs()
    address = parse_address(listen)
    witness = _open(folder, name, logs)

    def listening(where: str) -> None:
        say(f"The witness listens at {where}. Its public key, for whoever runs the log or verifies:")
        typer.echo(str(witness.key))

    with asyncio.Runner(loop_factory=new_event_loop) as runner, contextlib.suppress(KeyboardInterrupt):
        runner.run(serve_witness(witness, address, listening))


def key(
    name: Annotated[str, typer.Option("--name", help="What the witness is called.")],
    folder: FolderOption = Path("callgate-witness"),
) -> None:
    """Print the public key of the witness; makes one where there is none."""
    typer.echo(str(_open(folder, name, lambda: ()).key))


def _open(folder: Path, name: str, logs: Callable[[], Sequence[VerifierKey]]) -> Witness:
    keyring = Keyring(folder)
    # A witness that has a key and has lost what it cosigned would cosign anything.
    memory = WitnessFile(folder / _FILE, name, create=not keyring.versions(_KEY) and _made(folder))
    keyring.make(_KEY)
    signer = keyring.current(_KEY).signer()
    VerifierKey.parse(str(VerifierKey(name, signer.public_key().public_bytes_raw(), WITNESS)), WITNESS)
    return Witness(name, signer, logs, memory)


def _made(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be made: {error.strerror}", advice="Name another folder with --folder."
        ) from None
    return True


def _keys_of_logs(given: Sequence[str]) -> Callable[[], Sequence[VerifierKey]]:
    """The keys that are given, and those in files, which are read again at each request."""
    fixed = [VerifierKey.parse(text) for text in given if "+" in text]
    files = [Path(text) for text in given if "+" not in text]

    def read() -> Sequence[VerifierKey]:
        return [*fixed, *(key for file in files for key in _in_file(file))]

    return read


def _in_file(path: Path) -> list[VerifierKey]:
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read(_MAX_KEYS).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(
            f"{path} cannot be read: {error}", advice="Give a key, or a file made by `callgate keys export`."
        ) from None
    return [VerifierKey.parse(line) for line in lines if line.strip() and not line.startswith("#")]
