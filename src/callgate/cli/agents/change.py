"""`callgate agents add|remove|refresh`: let an agent in, shut it out, fetch its directory again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from callgate.agents.apikeys import ApiKeys
from callgate.agents.keys import PublicKey
from callgate.agents.storage import Listed
from callgate.app.agent_registry import added, counted, directories, everybody, is_live, take_away, ways_in
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    YesOption,
    confirm,
    operator,
    parse_span,
    print_json,
    say,
    spinner,
)
from callgate.cli.printing import plain
from callgate.cli.services import OpenedStore, edit_services, open_services
from callgate.config import agents
from callgate.config.agents import agent_name
from callgate.errors import CallgateError, Refused
from callgate.sdk.agent_keys import read_public

if TYPE_CHECKING:
    from callgate.agents.directories import Refreshed

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What the agent is called here.")]


def add(
    agent: NameArgument,
    *,
    api_key: Annotated[bool, typer.Option("--api-key", help="Make an API key; it is printed once.")] = False,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="SPAN", help="When the API key ends, such as 90d.")
    ] = None,
    directory: Annotated[
        str | None, typer.Option("--directory", metavar="URL", help="Its directory, such as https://agent.example.")
    ] = None,
    thumbprint: Annotated[
        str | None, typer.Option("--thumbprint", help="Only this key of its directory; by default all of them.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Its public key itself, as PEM or JWK.")
    ] = None,
    title: Annotated[str, typer.Option("--title", help="A name for people.")] = "",
    config: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Let an agent in: by an API key, by the keys of its directory, or by a public key of its own."""
    if (wrong := agent_name(agent)) is not None:
        raise CallgateError(wrong, advice="Give it another name.")
    if sum((api_key, directory is not None, key is not None)) != 1:
        raise typer.BadParameter("say one of --api-key, --directory URL or --key FILE")
    if expires is not None and not api_key:
        raise typer.BadParameter("--expires goes with --api-key")
    if thumbprint is not None and directory is None:
        raise typer.BadParameter("--thumbprint goes with --directory")
    with edit_services(config, store, create=True) as opened:
        if api_key:
            _add_api_key(opened, agent, expires)
            return
        listed = _by_key(agent, key) if key is not None else _by_directory(agent, str(directory), thumbprint)
        _list_agent(opened, listed, title)


def remove(
    agent: NameArgument,
    key: Annotated[
        str | None, typer.Option("--key", metavar="ID", help="Only this thumbprint, or this API key's id.")
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    yes: YesOption = False,
) -> None:
    """Shut an agent out: what was added for it is taken away, its API keys are revoked, at once and everywhere."""
    now = round(time.time() * 1000)
    with edit_services(config, store, create=True) as opened:
        known = opened.wait(everybody(opened.config, opened.agents))
        rows = [one for one in known if one.agent == agent and is_live(one, now)]
        ours = added(rows, agent, now, key)
        if not ours:
            text = "is in the configuration only" if rows else "is not known here"
            advice = "Edit callgate.toml." if rows else f"`{opened.command('agents', 'list')}` shows who is."
            raise CallgateError(f"agent {plain(agent)!r} {text}", advice=advice)
        confirm(f"Shut out {agent}: {counted(ours)}?", yes=yes)
        opened.wait(take_away(opened.agents, ours, now, key))
        opened.record("agents.remove", {"agent": agent, "keys": [one.key for one in ours]})
    typer.echo(f"{agent}: {counted(ours)} taken away.")
    if left := [one for one in rows if one not in ours]:
        say(f"Still known by {counted(left)}; what callgate.toml says stays until you edit it.")


def refresh(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="One directory; by default all that are named here.")
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    flush: Annotated[
        bool, typer.Option("--flush", help="Fetch nothing; believe nothing that was fetched until it is fetched again.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch directories now: keys that came and went count in all gateways at once. A failed fetch changes nothing."""
    with (edit_services if flush else open_services)(config, store, create=True) as opened:
        if flush:
            gone = opened.wait(_flush(opened, url))
            opened.record("agents.flush", {"directory": url or "*"})
            typer.echo(f"{gone} {'directory is' if gone == 1 else 'directories are'} fetched again before they count.")
            return
        with spinner("fetching directories"):
            done = opened.wait(_refresh(opened, url))
    if as_json:
        print_json(msgspec.to_builtins(done))
    for one in [] if as_json else done:
        _tell(one)
    if not done:
        say("No directory is named in the configuration or by `callgate agents add`.")
    if not all(one.ok for one in done):
        raise typer.Exit(1)


# -- adding ----------------------------------------------------------------------------------------------------


def _add_api_key(opened: OpenedStore, agent: str, expires: str | None) -> None:
    now = round(time.time() * 1000)
    until = None if expires is None else now + parse_span(expires) * 1000
    made = opened.wait(ApiKeys(opened.agents, lambda: now).create(agent, by=operator(), expires_at=until))
    opened.record("agents.add", {"agent": agent, "by": "api-key", "key": made.key.id, "expires_at": until})
    typer.echo(made.text)
    say(f"This is the key of {agent}, shown once: it is sent as `Authorization: Bearer KEY`.")
    if "api-key" not in ways_in(opened.config):
        say("API keys are no way in here yet: write `enabled = true` under [agents.api_keys] in callgate.toml.")


def _by_directory(agent: str, directory: str, thumbprint: str | None) -> Listed:
    from callgate.agents.directories import directory_url
    from callgate.agents.fetching import FetchFailed

    if thumbprint is not None and (wrong := agents.thumbprint(thumbprint)) is not None:
        raise CallgateError(wrong, advice="Ask the agent's operator for it.")
    try:
        url = directory_url(directory)
    except FetchFailed as failed:
        raise CallgateError(f"{plain(directory)}: {failed.message}", advice="Write https://HOST.") from None
    return Listed(agent, thumbprint or "", url)


def _by_key(agent: str, path: Path) -> Listed:
    from callgate.agents.directories import STATIC

    keys = read_public(path)
    if len(keys) != 1:
        raise CallgateError(f"{path} holds {len(keys)} keys", advice="Add them one by one, or name its directory.")
    try:
        read = PublicKey.read(keys[0])
    except Refused as refused:
        raise CallgateError(f"{path}: {refused.message}", advice="Give an Ed25519, P-256 or RSA key.") from None
    return Listed(agent, read.thumbprint, STATIC, json.dumps(dict(read.jwk)).encode())


def _list_agent(opened: OpenedStore, listed: Listed, title: str) -> None:
    now = round(time.time() * 1000)
    whole = msgspec.structs.replace(listed, name=title, added_at=now, added_by=operator())
    opened.wait(opened.agents.add_agent(whole))
    where = {"directory": whole.directory, "key": whole.thumbprint or "*"}
    opened.record("agents.add", {"agent": whole.agent, "by": "signature", **where})
    which = f"the key {whole.thumbprint}" if whole.thumbprint else "every key"
    typer.echo(f"{whole.agent} is known by {which} of {plain(whole.directory, 300)}.")
    if "signature" not in ways_in(opened.config):
        say("Signatures are no way in here yet: write `enabled = true` under [agents.signatures] in callgate.toml.")
    if "://" in whole.directory:
        say(f"`{opened.command('agents', 'refresh', whole.directory)}` fetches its keys now.")


# -- the rest --------------------------------------------------------------------------------------------------


async def _flush(opened: OpenedStore, url: str | None) -> int:
    async with directories(opened.config, opened.agents) as found:
        return await found.flush(url)


async def _refresh(opened: OpenedStore, url: str | None) -> list[Refreshed]:
    async with directories(opened.config, opened.agents) as found:
        urls = [url] if url is not None else [one.url for one in await found.show()]
        document = opened.config.agents.signatures.agents_directory
        if url is None and document is not None:
            urls.append(document)
        return [await found.refresh(one) for one in urls]


def _tell(one: Refreshed) -> None:
    if not one.ok:
        typer.echo(f"{plain(one.url, 300)}  not fetched: {plain(one.text or one.failure, 300)}; what was held stays")
        return
    changes = [*(f"+{name}" for name in one.added), *(f"-{name}" for name in one.removed)]
    typer.echo(f"{plain(one.url, 300)}  fetched: {plain(', '.join(changes), 1000) or 'nothing changed'}")
