"""`callgate agents keygen|directory`: an agent's own key, and the directory that publishes its public half."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from callgate.agents.model import DIRECTORY_TYPE, WELL_KNOWN, Signed
from callgate.agents.verifying import SignedResponse
from callgate.cli.common import JsonOption, print_json, say
from callgate.cli.printing import word_to_type
from callgate.errors import ConfigError
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
    keys = [AgentKey.read(file) for file in files]
    # To the byte: its digest may be signed.
    document = json.dumps({"keys": [dict(key.jwk) for key in keys]}, indent=2).encode() + b"\n"
    place = None if origin is None else _place_of(origin)

    def headers() -> dict[str, str]:
        return _headers(document, keys, place, expires)

    if serve is not None:
        _serve(document, headers, serve, certificate)
        return
    typer.echo(document.decode(), nl=False)
    # For whoever publishes it from a file: the headers that go with exactly this document.
    for name, value in headers().items() if place is not None else ():
        say(f"{name}: {value}")
    say(_advice(keys, origin))


def _advice(keys: list[AgentKey], origin: str | None) -> str:
    where = f"{(origin or 'https://YOUR.HOST').rstrip('/')}{WELL_KNOWN}"
    count = "this key" if len(keys) == 1 else f"these {len(keys)} keys"
    return f"Publish {count} at {where} as {DIRECTORY_TYPE}."


def _place_of(origin: str) -> tuple[str, str]:
    """Scheme and authority of an origin."""
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise ConfigError(f"{origin!r} is no origin", advice="Write it as https://agent.example.")
    return parts.scheme, parts.netloc.lower()


def _headers(
    document: bytes, keys: Sequence[AgentKey], place: tuple[str, str] | None, expires_in: int
) -> dict[str, str]:
    """The headers of an answer, signed now by each key.

    They are for one place and no other host, whatever a request calls us: otherwise anybody could point a name of
    theirs here and have our keys vouch for it.
    """
    made: dict[str, str] = {"Content-Type": DIRECTORY_TYPE, "Cache-Control": "max-age=300"}
    if place is None:
        return made
    request = Signed("GET", *place, WELL_KNOWN, None, ())
    signed: dict[str, list[str]] = {}
    for at, key in enumerate(keys, 1):
        answer = SignedResponse(200, (), request, document)
        for name, value in key.signer(label=f"sig{at}").sign_answer(answer, expires_in=expires_in).items():
            signed.setdefault(name, []).append(value)
    return made | {
        name: values[0] if name == "Content-Digest" else ", ".join(values) for name, values in signed.items()
    }


def _serve(document: bytes, headers: Callable[[], dict[str, str]], listen: str, certificate: Path | None) -> None:
    """Serve it until Ctrl-C."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answer(_: Request) -> Response:
        return Response(document, headers=headers())

    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{listen!r} is no address", advice="Write it as 127.0.0.1:8421.")
    app = Starlette(routes=[Route(WELL_KNOWN, answer)])
    options: dict[str, Any] = {} if certificate is None else {"ssl_certfile": str(certificate)}
    settings = uvicorn.Config(
        app, host=host.strip("[]") or "127.0.0.1", port=int(port), log_level="warning", lifespan="off", **options
    )
    with settings.bind_socket() as listener:
        listener.listen()
        found = listener.getsockname()
        scheme, shown = "http" if certificate is None else "https", f"[{found[0]}]" if ":" in found[0] else found[0]
        say(f"Serving {scheme}://{shown}:{found[1]}{WELL_KNOWN}. Ctrl-C stops it.")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listener])
    say("Stopped.")
