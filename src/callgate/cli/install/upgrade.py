"""`callgate upgrade`: a newer version of a server's package, and what becomes of its tools, before it runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from callgate.cli.common import ConfigOption, JsonOption, StoreOption, YesOption, console, print_json, say, spinner
from callgate.cli.doctor.servers import (
    NoAnswer,
    capturing_stderr,
    connect,
    open_session,
    server_info,
    session_request,
    without_secrets,
)
from callgate.cli.install import ClientOption, FileOption, carry_out
from callgate.cli.install.files import FileChange, check_clients, clients_of, install_records, path_text, print_diff
from callgate.cli.install.targets import plan_versions, started_at, targets
from callgate.cli.install.versions import is_newer, versions_of
from callgate.cli.printing import escaped, heading, plain, print_lines, text_line
from callgate.cli.services import OpenedStore, edit_pins
from callgate.cli.tools import row
from callgate.cli.tools.decide import approval, decide
from callgate.cli.tools.diff import difference_lines
from callgate.cli.tools.hints import still_waiting
from callgate.clients import Word
from callgate.clients.files import replace
from callgate.config import ServerSection
from callgate.errors import CallgateError, Refused, UpstreamError
from callgate.pinning.identity import as_marked, reported_as, started_as
from callgate.pinning.identity.launch import with_version
from callgate.pinning.listing import (
    PROMPTS,
    TOOLS,
    EntryReader,
    ListMethod,
    ObservedServer,
    ToolListing,
    bound,
    greeting_items,
    observed,
    read_page,
)
from callgate.pinning.model import ItemKind, ListedTool, PinningSettings, ServerSeen
from callgate.pinning.review.views import ServerView, ToolView
from callgate.pinning.service import Pins

if TYPE_CHECKING:
    from callgate.cli.install.targets import UpgradeTarget
    from callgate.cli.printing import Line

# A package has to be fetched before it starts.
_SECONDS: Final = 180.0
_PAGES: Final = 100
# In this order a server is asked for what a model reads of it.
_ORDER: Final[tuple[ItemKind, ...]] = ("tool", "server", "prompt")

ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="VERSION", help="This version, and not the newest; an older one is taken too."),
]


def upgrade(
    *,
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The server's name.")],
    to: ToOption = None,
    client: ClientOption = None,
    config_file: FileOption = None,
    yes: YesOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a newer version of a server's package, compare its tools with the approved ones, and show the difference.

    After a yes the version is written into the command, in callgate.toml or in the clients' files. If every text is
    what was approved, the approvals hold for the new version too; otherwise `callgate review` asks for the rest. After
    a no nothing has changed. With --json nothing is asked, and nothing is changed without --yes.
    """
    check_clients(client or [])
    with edit_pins(config, store) as opened:
        found = targets(opened.config, config, server, client or [], config_file or [])
        version = to or _newest(found, server)
        words = [(one, _word(one, version)) for one in found if _changes(one, version, whatever=to is not None)]
        if not words:
            _nothing_newer(found, version, as_json=as_json)
            return
        step = _compare(opened, *words[0], version)
        works = plan_versions(words)
        if not as_json:
            _show(step, works, words)
        done = _confirm(server, version, yes=yes, as_json=as_json)
        approved = _carry_out(opened, step, works) if done else 0
        if as_json:
            print_json(_json_row(step, works, done=done, approved=approved))
        elif done:
            _conclude(opened, step, works, approved)
        else:
            typer.echo("Nothing was changed.")


# -- which version ---------------------------------------------------------------------------------------------


def _newest(found: list[UpgradeTarget], name: str) -> str:
    first = found[0]
    env = {key: value.reveal() for key, value in first.server.env.items()}
    with spinner(f"looking up {plain(first.start.name)}"):
        [(version, problem)] = versions_of([(first.start, env)], newest=True)
    if version:
        return version
    raise CallgateError(
        f"the newest version of {plain(first.start.name)} could not be looked up: {problem}",
        advice=f"Nothing was changed. To name the version yourself: `callgate upgrade {plain(name, 60)} --to VERSION`.",
    )


def _changes(target: UpgradeTarget, version: str, *, whatever: bool) -> bool:
    now = target.start.version
    return now != version and (whatever or not now or is_newer(version, now))


def _nothing_newer(found: list[UpgradeTarget], version: str, *, as_json: bool) -> None:
    name, package, now = found[0].name, found[0].start.name, found[0].start.version
    if as_json:
        print_json({"server": name, "package": package, "from": now, "to": now, "done": False})
        return
    newest = "" if version == now else f" The newest is {version}."
    typer.echo(f"{plain(name, 60)} runs version {now} of {plain(package)}, and there is no newer one.{newest}")


def _word(target: UpgradeTarget, version: str) -> Word:
    word = with_version(target.words, version)
    if word is None:
        raise CallgateError(
            f"{plain(version, 60)!r} cannot be written into the command of {plain(target.name, 60)} as a version",
            advice="Nothing was changed. Name one version, such as 1.2.3.",
        )
    return Word(*word)


# -- the new version beside the approved one -------------------------------------------------------------------


class UpgradeStep(NamedTuple):
    """From one version to another: the server as it would be met, and how its tools stand beside the approved ones.

    `texts` are what it says of itself, and its prompts.
    """

    target: UpgradeTarget
    version: str
    observed: ObservedServer
    texts: tuple[ObservedServer, ...]
    view: ServerView
    gone: tuple[str, ...]

    @property
    def same(self) -> list[ToolView]:
        """Word for word what is approved for the version of now."""
        return [one for one in self.view.tools if one.unchanged and not one.hard and not one.blocks]

    @property
    def others(self) -> list[ToolView]:
        """What a person has to read."""
        same = {one.tool for one in self.same}
        return [one for one in self.view.tools if one.needs_review and one.tool not in same]

    @property
    def one_question(self) -> bool:
        """Whether a yes is enough: nothing is new or changed. What somebody has blocked waits in any case."""
        return bool(self.same) and all(one.blocks for one in self.others) and not self.view.seen.problem


def _compare(opened: OpenedStore, target: UpgradeTarget, word: Word, version: str) -> UpgradeStep:
    server = started_at(target, word)
    with spinner(f"starting {plain(target.name, 60)} at version {version}"):
        observed, *texts = _observe(opened, target, server, version)
    items = [one for part in (observed, *texts) for one in part.tools]
    view = opened.wait(opened.pins.preview(observed.server, items))
    gone = _approved_now(opened, observed) - {one.tool for one in items}
    return UpgradeStep(target, version, observed, tuple(texts), view, tuple(sorted(gone)))


def _approved_now(opened: OpenedStore, observed: ObservedServer) -> set[str]:
    """The tools that are approved for the version that was met last."""
    every = opened.wait(opened.pin_store.servers())
    known = [one for one in every if one.lineage == observed.server.lineage]
    named = [one for one in known if one.name == observed.server.name] or known
    if not named:
        return set()
    pins = opened.pins.book.pins()
    return {pin.tool for pin in pins if pin.server_id == named[0].server_id and pin.action == "approve"}


def _observe(opened: OpenedStore, target: UpgradeTarget, server: ServerSection, version: str) -> list[ObservedServer]:
    """The new version, started as `callgate doctor` starts servers: the whole list of its tools, what it says of
    itself, and its prompts."""
    name = target.name
    before = next((one for one in opened.wait(opened.pin_store.servers()) if name in one.called), None)
    with capturing_stderr() as heard:
        try:
            return opened.wait(_list_items(opened.pins, target, server, before))
        except TimeoutError:
            what = f"did not list its tools within {_SECONDS:.0f} seconds"
        except (NoAnswer, Refused, UpstreamError) as error:
            what = f"could not be asked for its tools: {str(error).rstrip('.')}"
        last = heard.get(name, "")
    words = f"; its last words: {last}" if last else "."
    raise CallgateError(
        without_secrets(f"version {version} of {plain(name, 60)} {what}{words}", server),
        advice="Nothing was changed: the version of now stays. Put this right, or name another version with --to.",
    )


async def _list_items(
    pins: Pins, target: UpgradeTarget, server: ServerSection, before: ServerSeen | None
) -> list[ObservedServer]:
    settings = pins.settings
    async with asyncio.timeout(_SECONDS):
        peer = await connect(target.name, server)
        try:
            modern, greeting = await open_session(peer)
            entries = await _entries(peer, TOOLS, settings, modern=modern)
            offered = greeting.get("capabilities")
            asked = settings.prompts and isinstance(offered, dict) and "prompts" in offered
            prompts = await _entries(peer, PROMPTS, settings, modern=modern) if asked else []
        finally:
            await peer.close()
    info, place = server_info(greeting), target.place(server)
    identity = place.identify(reported_as(info.get("name"), info.get("version")))
    if before is not None and before.lineage == identity.lineage:
        # The client starts it with its own variables and in its own folder, not with those of this terminal.
        identity = started_as(identity, before.bound)
    identity = as_marked(identity, pins.book)
    listed = {
        "tool": EntryReader(identity.server_id, settings).read_all(entries),
        "server": greeting_items(greeting, [info], identity.server_id, settings),
        "prompt": EntryReader(identity.server_id, settings, kind="prompt").read_all(prompts),
    }
    at = {"name": place.name, "group": place.group, "target": place.target}
    return [observed(identity, _listing(items, settings), pins.now(), **at) for items in listed.values()]


async def _entries(peer: Any, of: ListMethod, settings: PinningSettings, *, modern: bool) -> list[bytes]:
    """All pages of a list."""
    entries: list[bytes] = []
    params: dict[str, Any] = {}
    for _ in range(_PAGES):
        message = session_request(of.method, params, modern=modern)
        page = read_page((await peer.ask(message, modern=modern))[1], settings.list_bytes, of)
        entries += () if page is None else page.entries
        if page is None or page.cursor is None:
            return entries
        params = {"cursor": page.cursor}
    raise NoAnswer(f"its list of {of.member} does not end")


def _listing(listed: list[ListedTool], settings: PinningSettings) -> ToolListing:
    problem = bound(listed, settings)
    size = sum(len(one.raw) for one in listed)
    return ToolListing((), problem=problem, count=len(listed), size=size) if problem else ToolListing(listed)


# -- what a person sees ----------------------------------------------------------------------------------------


def _show(step: UpgradeStep, works: list[FileChange], words: list[tuple[UpgradeTarget, Word]]) -> None:
    out = console()
    print_lines(out, _lines(step))
    for work in works:
        print_lines(
            out,
            [
                text_line(""),
                text_line(f"{work.location.title if work.plan else 'Callgate'}  {path_text(work.location.path)}"),
            ],
        )
        print_diff(out, work)
        for target, word in words:
            # A line of callgate.toml may hold a secret beside the command: the word alone is shown.
            if work.plan is None and target.work is None:
                print_lines(out, [text_line(f"    - {escaped(target.words[word.place])}", "red")])
                print_lines(out, [text_line(f"    + {escaped(word.text)}", "green")])
    typer.echo("")


def _lines(step: UpgradeStep) -> Iterator[Line]:
    before = step.target.start.version or "no fixed version"
    name = f"{step.target.start.scheme}:{escaped(step.target.start.name)}"
    yield from heading(f"{escaped(step.target.name)}: {name}, from {before} to {step.version}")
    if step.view.seen.problem:
        yield text_line(
            f"None of its tools can be used: {escaped(step.view.seen.problem)}", "red", lead="  ", rest="    "
        )
    known = [one for one in step.view.tools if one.state == "approved"]
    if known:
        yield text_line(f"{_tools(len(known))} approved for this version already.", lead="  ")
    if step.same:
        yield text_line(f"{_tools(len(step.same))} word for word what was approved.", "green", lead="  ")
    for one in step.gone:
        yield text_line(f"gone     {escaped(one)}", "yellow", lead="  ")
    for view in step.others:
        yield text_line(
            f"{_what(view):<8} {escaped(view.tool)}: {escaped(view.summary)}", "yellow", lead="  ", rest="    "
        )
        for finding in view.findings:
            style = "red" if finding.tier == "hard" else ""
            yield text_line(f"{finding.tier}: {escaped(finding.what)}", style, lead="    ", rest="      ")
    for view in step.others:
        if view.difference is not None and not view.difference.empty:
            yield from heading(f"── {escaped(view.tool)} ──")
            yield from difference_lines(view.difference)


def _what(view: ToolView) -> str:
    if view.blocks:
        return "blocked"
    return "new" if view.difference is None or view.difference.empty else "changed"


def _tools(count: int) -> str:
    return "1 tool is" if count == 1 else f"{count} tools are"


def _confirm(name: str, version: str, *, yes: bool, as_json: bool) -> bool:
    if yes or as_json:
        return yes
    if not sys.stdin.isatty():
        raise CallgateError(
            "nobody is here to be asked, so nothing was changed", advice="Add --yes to change it, --json to look only."
        )
    return typer.confirm(f"Run version {version} of {plain(name, 60)} from now on?")


# -- carrying it out -------------------------------------------------------------------------------------------


def _carry_out(opened: OpenedStore, step: UpgradeStep, works: list[FileChange]) -> int:
    """Write the version, then what was met of it, and how many tools were approved with it."""
    records = install_records()
    for work in works:
        if work.plan is not None:
            carry_out(work, records)
        else:
            assert work.source is not None
            replace(work.source, work.data)
            work.succeed()
        if work.error is not None:
            written = [str(one.location.path) for one in works if one.done]
            if written:
                say(f"Written already: {', '.join(written)}.")
            raise work.error
    met = step.observed
    for part, kind in zip((met, *step.texts), _ORDER, strict=True):
        opened.wait(opened.pin_store.saw(part.server, part.tools, whole=part.whole, kind=kind))
    if not step.one_question:
        return 0
    # As the one question of the review does: servers of which nothing waits are in view too.
    review = opened.wait(opened.pins.review())
    together = [one.seen.server_id for one in review.servers if not one.pending]
    choices = [approval(view, note="", override=False) for view in step.same]
    decide(opened, choices, together=[*together, met.server.server_id])
    return len(choices)


def _conclude(opened: OpenedStore, step: UpgradeStep, works: list[FileChange], approved: int) -> None:
    typer.echo(f"Written: version {step.version} of {plain(step.target.start.name)}.")
    for work in works:
        if work.backup is not None:
            typer.echo(f"Backup: {path_text(work.backup)}")
    if approved:
        typer.echo(f"{_tools(approved)} approved for it, as before.")
    if restart := [work for work in works if work.plan is not None]:
        typer.echo(f"Restart {clients_of(restart)}, so that the new version runs.")
    still_waiting(opened, {(one.server_id, one.tool) for one in step.same} if approved else ())


def _json_row(step: UpgradeStep, works: list[FileChange], *, done: bool, approved: int) -> dict[str, Any]:
    return {
        "server": step.target.name,
        "server_id": step.observed.server.server_id,
        "package": step.target.start.name,
        "from": step.target.start.version,
        "to": step.version,
        "unchanged": [one.tool for one in step.same],
        "waiting": [row(one) for one in step.others],
        "gone": list(step.gone),
        "files": [str(work.location.path) for work in works],
        "done": done,
        "approved": approved,
    }
