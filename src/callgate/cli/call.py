"""`callgate call`: one tool call from the terminal, approved with a passkey if the tool needs it."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import logging
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from callgate.canonical import canonical
from callgate.cli.common import BEHIND_DASHES, ConfigOption, say
from callgate.config import find, load
from callgate.config.secret import mask_url
from callgate.errors import CallgateError, MessageError
from callgate.telemetry.logs import one_line

if TYPE_CHECKING:
    from mcp import Client

    from callgate.sdk.authenticators import PasskeyAuthenticator, Prompt
    from callgate.sdk.outcome import Done, Outcome

_CHARS: Final = 300


def call(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SERVER TOOL [KEY=VALUE]…",
            help="A configured server's name or an http(s) address, the tool, and its arguments. Leave SERVER out and "
            "write `-- PROGRAM ARGUMENT…` at the end to start the server. A configured server is called through the "
            "gate, with every check and on record; an address or a command is spoken to directly. A VALUE that is a "
            "JSON number, true, false, null, object or array is sent as that, anything else as text.",
        ),
    ],
    *,
    more: Annotated[
        str | None, typer.Option("--json", metavar="OBJECT", help="Arguments as a JSON object, beside KEY=VALUE.")
    ] = None,
    authenticator: Annotated[
        Literal["browser", "usb"],
        typer.Option(help="Sign with a passkey in the browser, or with a USB security key (needs the extra `usb`)."),
    ] = "browser",
    yes_no: Annotated[
        bool, typer.Option("--yes-no", help="Ask here before the browser opens. With a USB key this is always asked.")
    ] = False,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the browser, or only print the page's address.")
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(min=1024, max=65535, help="Serve the page on this port of localhost; a server may expect one."),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The origin that the server expects signatures from, such as http://localhost:5173. In the browser it "
            "is a port of localhost; with a USB key it can be any.",
        ),
    ] = None,
    fill_defaults: Annotated[
        bool, typer.Option("--fill-defaults", help="Write the schema's defaults into the arguments, to sign them too.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a server that marks tools but does not declare the capability.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--timeout", min=1, max=3600, metavar="SECONDS", help="How long to wait for you.")
    ] = 300.0,
    raw: Annotated[bool, typer.Option("--raw", help="Print the whole result as JSON.")] = False,
    path: ConfigOption = None,
) -> None:
    """Call a tool; if it needs a person's approval, show what will be done and have it signed with a passkey.

    Exits with 0 for a result, 1 if the call was refused or failed, 2 for a mistake on the command line, 130 if you
    cancelled.
    """
    command: list[str] = ctx.meta.get(BEHIND_DASHES, [])
    server, tool, pairs = _split(words, started=bool(command))
    arguments = read_arguments(pairs, more)
    target = find_target(server, command, path)
    signer = _signer(authenticator, open_page, seconds, port, origin)
    options = {"fill_defaults": fill_defaults, "strict": strict, "timeout": seconds}
    ask = yes_no or not signer.shows
    outcome = asyncio.run(_call(target, tool, arguments, signer, ask=ask, **options))
    raise typer.Exit(report(outcome, raw=raw, config=path))


def _split(words: list[str], *, started: bool) -> tuple[str | None, str, list[str]]:
    if not started and len(words) < 2:
        raise typer.BadParameter("name the server and the tool: `callgate call SERVER TOOL KEY=VALUE`")
    return (None, words[0], words[1:]) if started else (words[0], words[1], words[2:])


def read_arguments(pairs: list[str], more: str | None) -> dict[str, Any]:
    """The tool's arguments from KEY=VALUE words and a JSON object."""
    arguments: dict[str, Any] = {}
    for word in pairs:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{word!r} is not KEY=VALUE", param_hint="KEY=VALUE")
        _put_argument(arguments, key, _value(value))
    if more is not None:
        try:
            whole = json.loads(more, object_pairs_hook=_once, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise typer.BadParameter(f"this is not JSON: {error}", param_hint="--json") from None
        if not isinstance(whole, dict):
            raise typer.BadParameter('this is not a JSON object such as {"key": "value"}', param_hint="--json")
        for key, value in whole.items():
            _put_argument(arguments, key, value)
    try:
        canonical(arguments)
    except MessageError as error:
        raise typer.BadParameter(f"{error.message} {error.advice}", param_hint="KEY=VALUE") from None
    return arguments


def _put_argument(arguments: dict[str, Any], key: str, value: Any) -> None:
    if key in arguments:
        raise typer.BadParameter(f"{key!r} is given twice", param_hint="KEY=VALUE")
    arguments[key] = value


def _value(text: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except _Twice as error:
        raise typer.BadParameter(str(error), param_hint="KEY=VALUE") from None
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, str) else value


class _Twice(ValueError):
    """An object with the same key twice: readers would not agree on what it says."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise _Twice(f"the key {key!r} is there twice")
        made[key] = value
    return made


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_LOCAL_ORIGIN: Final = re.compile(r"http://localhost:([0-9]{4,5})/?\Z")


def _signer(
    kind: str, open_page: bool, seconds: float, port: int | None = None, origin: str | None = None
) -> PasskeyAuthenticator:
    from callgate.sdk import BrowserAuthenticator, SecurityKey

    if kind == "usb":
        if port is not None:
            raise typer.BadParameter("a USB key has no page; name the origin with --origin", param_hint="--port")
        return SecurityKey(say=say, origin=None if origin is None else origin.rstrip("/"))
    if origin is not None:
        local = _LOCAL_ORIGIN.match(origin)
        if local is None or not 1024 <= int(local[1]) <= 65535:
            text = (
                "the browser signs on a page of this machine: name one as http://localhost:PORT, or sign with a USB key"
            )
            raise typer.BadParameter(text, param_hint="--origin")
        if port not in (None, int(local[1])):
            raise typer.BadParameter("--port and --origin name different ports", param_hint="--port")
        port = int(local[1])
    if open_page:
        return BrowserAuthenticator(say=say, timeout=seconds, port=port or 0)
    return BrowserAuthenticator(open_page=None, say=say, timeout=seconds, port=port or 0)


async def _call(
    target: CallTarget, tool: str, arguments: dict[str, Any], signer: PasskeyAuthenticator, *, ask: bool, **options: Any
) -> Outcome:
    from callgate.sdk import ApprovalClient
    from callgate.sdk.authenticators.browser import shown_arguments

    # What the SDK has to say about a connection is told below in one sentence.
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    async def show(prompt: Prompt) -> None:
        say(f"\n{tool} on {target.name} needs your approval:\n\n{harmless(prompt.display_text)}\n")
        # The text is the server's; this is what is sent.
        say(f"Arguments: {shown_arguments(arguments)}\n")
        if ask:
            await _confirm()

    with explaining_failures(target):
        async with ApprovalClient(client_for(target), signer, show=show, server=target.name, **options) as client:
            return await client.call_tool(tool, arguments)


async def _confirm() -> None:
    """Ask in the terminal; anything but yes is no."""
    from callgate.sdk.authenticators import CeremonyCancelled, NoPasskey, in_daemon_thread

    if not sys.stdin.isatty():
        raise NoPasskey("there is no terminal to ask you on", advice="Run it in a terminal, or sign in the browser.")
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    if (await in_daemon_thread(sys.stdin.readline)).strip().lower() not in ("y", "yes"):
        raise CeremonyCancelled("you said no")


def report(outcome: Outcome, *, raw: bool, config: Path | None = None) -> int:
    """Print how the call ended; the exit code."""
    from callgate.sdk import Cancelled, Done, NotCalled, RefusedByServer

    if isinstance(outcome, Done):
        _print_result(outcome, raw=raw)
        return 1 if outcome.result.is_error else 0
    typer.secho(f"callgate: {harmless(outcome.message)}", fg="red", err=True)
    if isinstance(outcome, NotCalled) and outcome.why == "tools_wait":
        words = ["callgate", "review", *(["-c", str(config)] if config is not None else [])]
        say(f"`{shlex.join(words)}` shows those that wait. Approve it there, and call again.")
    else:
        say(harmless(outcome.advice))
        if isinstance(outcome, RefusedByServer) and outcome.reason == "signature_verification_failed":
            say("A server may take signatures of one page only: name its origin with --origin.")
    return 130 if isinstance(outcome, Cancelled) else 1


def _print_result(done: Done, *, raw: bool) -> None:
    result = done.result
    whole = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    if raw:
        typer.echo(json.dumps(whole, indent=2, ensure_ascii=False))
        return
    for block in whole.get("content", ()):
        text = block["text"] if block.get("type") == "text" else json.dumps(block, ensure_ascii=False)
        typer.echo(harmless(text) if sys.stdout.isatty() else text)
    if not whole.get("content") and "structuredContent" in whole:
        typer.echo(json.dumps(whole["structuredContent"], indent=2, ensure_ascii=False))


def harmless(text: str) -> str:
    """A peer's text with everything written out that a terminal would act on; lines stay lines."""
    return "\n".join(one_line(line) for line in text.split("\n"))


class CallTarget(msgspec.Struct, frozen=True):
    """A server to speak to; `name` is what the person calls it, secrets masked. `gated`: through `callgate wrap`."""

    name: str
    url: str | None = None
    argv: tuple[str, ...] = ()
    gated: bool = False


def find_target(word: str | None, command: list[str], path: Path | None) -> CallTarget:
    """The server that the command line names."""
    if word is None:
        return CallTarget(name=Path(command[0]).name, argv=tuple(command))
    if word.startswith(("http://", "https://")):
        return CallTarget(name=mask_url([word])[0], url=word)
    servers = load(path).servers
    if word in servers:
        return _behind_the_gate(word, find(path))
    close = difflib.get_close_matches(word, servers, 1)
    meant = f"Did you mean {close[0]!r}?" if close else "`callgate check` lists those there are."
    raise typer.BadParameter(
        f"no server {word!r} is configured. {meant} An address (https://HOST/mcp) works too, and so does "
        "`callgate call TOOL KEY=VALUE -- PROGRAM ARGUMENT`.",
        param_hint="SERVER",
    )


def _behind_the_gate(name: str, file: Path | None) -> CallTarget:
    """A call of a configured server is checked and recorded like any agent's: never around the gate."""
    # -P: a folder that happens to be called callgate here is not taken for the program.
    argv = [sys.executable, "-P", "-m", "callgate", "wrap", name]
    if file is not None:
        argv += ["--config", str(file.absolute())]
    return CallTarget(name=name, argv=tuple(argv), gated=True)


def client_for(target: CallTarget) -> Client:
    """The SDK's client for it, not connected yet."""
    from mcp import Client, StdioServerParameters

    if target.url is not None:
        return Client(_over_http(target.url))
    program, *arguments = target.argv
    return Client(StdioServerParameters(command=program, args=arguments, env=dict(os.environ)))


@contextlib.asynccontextmanager
async def _over_http(url: str) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # A server may hold its answer for long; connecting and writing may not take long.
    timeout = httpx2.Timeout(30.0, read=300.0)
    async with (
        httpx2.AsyncClient(timeout=timeout) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


@contextlib.contextmanager
def explaining_failures(target: CallTarget) -> Iterator[None]:
    """Says in one sentence what keeps the server from being spoken to."""
    import httpx2
    from mcp import MCPError

    known = (MCPError, httpx2.HTTPError, OSError, RuntimeError, ValueError)
    try:
        yield
    except known as error:
        raise _connect_problem(target, error) from None
    except BaseExceptionGroup as group:
        rest = group.split(known)[1]
        if rest is not None:
            raise
        raise _connect_problem(target, group) from None


def _connect_problem(target: CallTarget, error: BaseException) -> CallgateError:
    from mcp import MCPError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = one_line(str(error).splitlines()[0][:_CHARS]) if str(error) else type(error).__name__
    data = error.data if isinstance(error, MCPError) else None
    if isinstance(data, dict) and isinstance(reason := data.get("reason"), str):
        # It answered, with a refusal: by the gate, or by a server that speaks like one.
        advice = one_line(str(data.get("advice", ""))[:_CHARS])
        return CallgateError(f"{target.name} refused: {text} ({one_line(reason[:_CHARS])})", advice=advice)
    advice = "Check that it runs and that its address is right." if target.url else "Run the command by hand."
    if target.gated:
        advice = f"Run `callgate check`, then `callgate wrap {target.name}` by hand."
    return CallgateError(f"{target.name} cannot be spoken to: {text}", advice=advice)
