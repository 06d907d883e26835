"""`callgate agents sign`: the headers that an agent puts on a request, to try a gateway from the terminal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from callgate.cli.agents_keys import KeyFile
from callgate.cli.common import JsonOption, print_json

HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="A header of the request.")
]


def sign(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the request goes.")],
    *,
    key: KeyFile = Path("agent.pem"),
    directory: Annotated[
        str | None, typer.Option("--directory", metavar="URL", help="Where its key is published, for Signature-Agent.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", "-X", help="By default GET, or POST with a body.")] = None,
    body: Annotated[
        str | None, typer.Option("--body", "-d", metavar="TEXT|@FILE", help="The body; @- reads it from stdin.")
    ] = None,
    header: HeaderOption = None,
    expires: Annotated[int, typer.Option("--expires", min=1, max=86_400, help="Seconds that it holds.")] = 60,
    label: Annotated[str, typer.Option("--label", help="The signature's label.")] = "sig1",
    legacy: Annotated[bool, typer.Option("--legacy", help="Signature-Agent as older verifiers read it.")] = False,
    digest: Annotated[bool, typer.Option("--digest/--no-digest", help="Cover the body by Content-Digest.")] = True,
    cover: Annotated[
        list[str] | None, typer.Option("--cover", metavar="COMPONENT", help="A further component, such as a header.")
    ] = None,
    curl: Annotated[bool, typer.Option("--curl", help="Print a curl command that sends it.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the whole request, as `agents verify` reads it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Sign a request and print the headers to send with it. Each signature is good for one request."""
    from callgate.agents.signing import COVERED
    from callgate.sdk.agent_keys import AgentKey
    from callgate.sdk.sign import signed_headers

    whole = b"" if body is None else read_body(body)
    verb = (method or ("GET" if body is None else "POST")).upper()
    headers = [split_header(one) for one in header or ()]
    made = signed_headers(
        AgentKey.read(key).signer(directory, label=label),
        verb,
        url,
        whole,
        headers,
        expires_in=expires,
        digest=digest,
        covered=(*COVERED, *(cover or ())),
        legacy=legacy,
    )
    replaced = {name.lower() for name in made}
    every = [(name, value) for name, value in headers if name.lower() not in replaced] + list(made.items())
    if as_json:
        print_json({"method": verb, "url": url, "headers": dict(every)})
    elif curl:
        typer.echo(_curl(verb, url, every, body))
    elif raw:
        _write_request(verb, url, every, whole)
    else:
        for name, value in made.items():
            typer.echo(f"{name}: {value}")


def split_header(text: str) -> tuple[str, str]:
    """`Name: value` as it stands on a line."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or not text.isprintable():
        raise typer.BadParameter(f"{text!r} is no 'NAME: VALUE'", param_hint="--header")
    return name.strip(), value.strip()


def read_body(text: str) -> bytes:
    """A body from the command line, a file, or stdin."""
    if not text.startswith("@"):
        return text.encode()
    if text == "@-":
        return sys.stdin.buffer.read()
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{text[1:]} cannot be read: {error.strerror}", param_hint="--body") from None


def _curl(method: str, url: str, headers: list[tuple[str, str]], body: str | None) -> str:
    words = ["curl", "-sS", "-X", method]
    for name, value in headers:
        words += ["-H", f"{name}: {value}"]
    if body is not None:
        # curl adds a content type of its own where there is none.
        if all(name.lower() != "content-type" for name, _ in headers):
            words += ["-H", "Content-Type: application/json"]
        # --data-raw does not read @FILE, --data-binary does not touch line ends.
        words += ["--data-binary", body] if body.startswith("@") else ["--data-raw", body]
    return shlex.join([*words, url])


def _write_request(method: str, url: str, headers: list[tuple[str, str]], body: bytes) -> None:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1"]
    if all(name.lower() != "host" for name, _ in headers):
        lines.append(f"Host: {parts.netloc.rpartition('@')[2]}")
    lines += [f"{name}: {value}" for name, value in headers]
    sys.stdout.buffer.write("\r\n".join([*lines, "", ""]).encode() + body)
    sys.stdout.buffer.flush()
