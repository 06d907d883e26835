"""`callgate agents keygen|directory`: an agent's own key, and the directory in which others find its public half."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from callgate.cli.common import JsonOption, print_json, say
from callgate.cli.pinned import word_to_type

if TYPE_CHECKING:
    from callgate.sdk.agent_keys import AgentKey

KeyFile = Annotated[Path, typer.Option("--key", "-k", metavar="FILE", help="The agent's private key.")]


def keygen(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("agent.pem"),
    kind: Annotated[Literal["ed25519", "p256"], typer.Option("--kind", help="Which kind of key.")] = "ed25519",
    form: Annotated[
        Literal["pem", "jwk"] | None, typer.Option("--format", help="By default jwk for a .json file, else pem.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key for an agent, in a file that only you can read."""
    from callgate.sdk.agent_keys import AgentKey

    key = AgentKey.generate(kind)
    key.write(file, form or ("jwk" if file.suffix in (".json", ".jwk") else "pem"))
    if as_json:
        print_json({"file": str(file), "thumbprint": key.thumbprint, "jwk": dict(key.jwk)})
        return
    typer.echo(f"thumbprint  {key.thumbprint}")
    typer.echo(f"public key  {json.dumps(dict(key.jwk))}")
    say(f"The private key is in {file}. `callgate agents directory {word_to_type(str(file))}` prints what to publish.")


def directory(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="The agent's private keys.")],
    origin: Annotated[
        str | None,
        typer.Option(
            "--origin", metavar="URL", help="Where it is published, as https://agent.example: sign it for there."
        ),
    ] = None,
    serve: Annotated[
        str | None, typer.Option("--serve", metavar="HOST:PORT", help="Serve it, freshly signed for each request.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Serve https: certificate and its key, as PEM.")
    ] = None,
    expires: Annotated[
        int, typer.Option("--expires", min=60, max=604_800, help="Seconds that a signature holds.")
    ] = 300,
) -> None:
    """Print an agent's key directory, or serve it. With --origin it is signed by each key, for that place alone."""
    from callgate.cli.agents_serving import Published, serve_directory
    from callgate.sdk.agent_keys import AgentKey

    keys = [AgentKey.read(file) for file in files]
    published = Published(keys, origin, expires)
    if serve is not None:
        serve_directory(published, serve, certificate)
        return
    # To the byte: its digest may be signed.
    typer.echo(published.document.decode(), nl=False)
    if origin is not None:
        _print_headers(published.headers())
    say(_advice(keys, origin))


def _print_headers(headers: dict[str, str]) -> None:
    """For whoever publishes it from a file: the headers that go with exactly this document."""
    for name, value in headers.items():
        say(f"{name}: {value}")


def _advice(keys: list[AgentKey], origin: str | None) -> str:
    from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN

    where = f"{(origin or 'https://YOUR.HOST').rstrip('/')}{WELL_KNOWN}"
    count = "this key" if len(keys) == 1 else f"these {len(keys)} keys"
    return f"Publish {count} at {where} as {DIRECTORY_TYPE}."
