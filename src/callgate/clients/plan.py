"""What would change in one file: the gate in front of its servers or away from them, as edits of its text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath, PureWindowsPath
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from callgate.clients.jsonc import (
    MASK,
    Edit,
    Hunk,
    JsonNode,
    apply,
    gap_before,
    hunks,
    may_be_secret,
    quote_words,
    remove_first,
    remove_member,
    scan,
)
from callgate.clients.servers import Command, Pointer, Remote, ServerEntry, Table, Unfit, entries, read_server
from callgate.errors import ConfigError

URL_VARIABLE: Final = "CALLGATE_URL"
HEADER_VARIABLE: Final = "CALLGATE_HEADER_"

# Options of `callgate wrap` that take a word.
_TAKING: Final = frozenset({"-c", "--config", "--url", "--url-env", "--header-env"})
_RUNNER_WORDS: Final = 6
State = Literal["pin", "wrap", "unwrap", "wrapped", "left", "before", "other", "hook", "unhook", "hooked"]


class GateCommand(NamedTuple):
    """What a client starts: Callgate by its whole path, and the options behind the server's name."""

    program: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What an entry says that stands behind the gate already."""

    program: str
    # Words of `args` up to and with the `--`, the whole of them where no command follows.
    words: int
    name: str
    url: str | None = None
    url_variable: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    has_command: bool = False


class Hint(NamedTuple):
    """How an entry was spelt before, where the wrapped one does not tell."""

    url_key: str = "url"
    kind: str = "http"
    # The word that names a package: with the version that we wrote into it, and as it was.
    pinned: str = ""
    unpinned: str = ""


class Word(NamedTuple):
    """Another word in a command: its place, the program being the first, and what it becomes."""

    place: int
    text: str


def gate_name(name: str, taken: Collection[str] = ()) -> str:
    """The server's name as `callgate wrap` takes it: its own, in small letters, and one that no other has."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:56] or "server"
    if plain not in taken:
        return plain
    return next(made for number in range(2, len(taken) + 3) if (made := f"{plain}-{number}") not in taken)


# ---- wrapped already? ----


def parse_wrapped(command: Command) -> Wrapped | None:
    """What stands behind the gate, if the entry starts one; None for everything else."""
    program, *args = command.words
    for place in range(min(len(args), _RUNNER_WORDS)):
        if args[place] == "wrap" and _is_callgate(args[place - 1] if place else program, runner=place > 0):
            return _parse(program, args, place + 1)
    return None


def wrapped_command(command: Command) -> tuple[int, list[str]] | None:
    """The command that stands behind the gate, and the place of its program among the words of the entry."""
    found = parse_wrapped(command)
    if found is None or not found.has_command:
        return None
    return found.words + 1, command.words[found.words + 1 :]


def _is_callgate(word: str, *, runner: bool) -> bool:
    """The program by any path, or the package as `uvx callgate wrap` and `python -m callgate wrap` name it."""
    if runner:
        return re.fullmatch(r"callgate(?:\[[^\]]*\])?(?:[@=].*)?", word) is not None
    # Both kinds of path: a file that is shared may be another system's.
    return any(path.stem.lower() == "callgate" for path in (PurePath(word), PureWindowsPath(word)))


def _parse(program: str, args: Sequence[str], at: int) -> Wrapped:
    name, values = "", dict[str, list[str]]()
    while at < len(args) and args[at] != "--":
        key, equals, value = args[at].partition("=")
        at += 1
        if not key.startswith("-"):
            name = name or args[at - 1]
        elif key in _TAKING:
            if not equals and at < len(args):
                value, at = args[at], at + 1
            values.setdefault(key, []).append(value)
    headers = dict(pair.partition("=")[::2] for pair in values.get("--header-env", []))
    ends = at < len(args)
    return Wrapped(
        program,
        at + ends,
        name,
        values.get("--url", [None])[-1],
        values.get("--url-env", [None])[-1],
        headers,
        has_command=ends and at + 1 < len(args),
    )


# ---- wrap ----


def wrap(text: str, server: Command | Remote, name: str, gate: GateCommand) -> list[Edit]:
    """The edits that put the gate in front of a server."""
    return (
        _wrap_command(text, server, name, gate)
        if isinstance(server, Command)
        else _wrap_remote(text, server, name, gate)
    )


def reword(server: Command, word: Word) -> list[Edit]:
    """The edit that changes one word behind the program."""
    assert server.args is not None
    item = server.args.value.items[word.place - 1]
    return [Edit(item.start, item.end, quote_words([word.text]))]


def _wrap_command(text: str, server: Command, name: str, gate: GateCommand) -> list[Edit]:
    program = server.program.value
    # The program's own spelling moves, escapes and all, so that taking the gate away gives the same bytes.
    words = (
        f"{quote_words([*gate.program[1:], 'wrap', name, *gate.options, '--'])}, {text[program.start : program.end]}"
    )
    first = Edit(program.start, program.end, quote_words(gate.program[:1]))
    if server.args is None:
        gap = gap_before(text, server.program)
        return [Edit(program.start, program.end, f'{first.new},{gap}"args": [{words}]')]
    args = server.args.value
    if args.items:
        return [first, Edit(args.items[0].start, args.items[0].start, f"{words}, ")]
    return [first, Edit(args.start + 1, args.start + 1, words)]


def _wrap_remote(text: str, server: Remote, name: str, gate: GateCommand) -> list[Edit]:
    """An address becomes a command that reaches it. What may be secret goes into `env`, never on the command line."""
    url, gap = server.url.value, gap_before(text, server.url)
    raw = text[url.start : url.end]
    hidden = may_be_secret(url.string) or not url.string.startswith("http")
    # The address keeps its own spelling, as a command does.
    where = f'"--url-env", "{URL_VARIABLE}"' if hidden else f'"--url", {raw}'
    words = [quote_words([*gate.program[1:], "wrap", name, *gate.options]), where]
    edits: list[Edit] = []
    variables: list[str] = []
    headers = server.headers.value.members if server.headers is not None else ()
    for member in headers:
        variables.append(_variable(member.key, variables))
        words.append(quote_words(["--header-env", f"{member.key}={variables[-1]}"]))
        edits.append(Edit(member.start, member.end, quote_words(variables[-1:])))
    new = shown = f'{quote_words(gate.program[:1])},{gap}"args": [{", ".join(words)}]'
    if server.headers is not None:
        edits.append(Edit(server.headers.start, server.headers.end, '"env"'))
        if hidden:
            edits.append(_address_in_front(text, server.headers.value, raw))
    elif hidden:
        new, shown = (f'{new},{gap}"env": {{"{URL_VARIABLE}": {value}}}' for value in (raw, MASK))
    edits += [Edit(server.url.start, server.url.end, '"command"'), Edit(url.start, url.end, new, shown)]
    if server.kind is not None:
        edits.append(Edit(server.kind.value.start, server.kind.value.end, '"stdio"'))
    return edits


def _address_in_front(text: str, env: JsonNode, raw: str) -> Edit:
    """The address as the first variable, on a line of its own where the others have one."""
    at, behind = env.start + 1, ""
    if env.members:
        at, behind = env.members[0].start, f",{gap_before(text, env.members[0])}"
    new, shown = (f'"{URL_VARIABLE}": {value}{behind}' for value in (raw, MASK))
    return Edit(at, at, new, shown)


def _variable(header: str, taken: Collection[str]) -> str:
    plain = HEADER_VARIABLE + re.sub(r"[^A-Z0-9]", "_", header.upper())
    names = (plain, *(f"{plain}_{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


# ---- unwrap ----


def unwrap(text: str, entry: ServerEntry, hint: Hint | None = None) -> list[Edit] | Unfit:
    """The edits that take the gate away from a wrapped entry, or why that cannot be done."""
    command = read_server(entry.node)
    found = parse_wrapped(command) if isinstance(command, Command) else None
    if found is None or not isinstance(command, Command) or command.args is None:
        return Unfit("not_wrapped", "it does not stand behind the gate")
    if found.has_command:
        args, program = command.args.value, command.program.value
        own = args.items[found.words]
        return [
            Edit(program.start, program.end, text[own.start : own.end]),
            remove_first(args, found.words + 1),
            *_unpin(args.items[found.words + 1 :], hint or Hint()),
        ]
    if found.url is not None or found.url_variable is not None:
        return _unwrap_remote(text, command, found, hint or Hint())
    return Unfit(
        "from_configuration",
        "it names a server of callgate.toml, so the client's file does not say what to start instead",
        "Write its command or address into the entry by hand.",
    )


def _unpin(words: Sequence[JsonNode], hint: Hint) -> list[Edit]:
    """The package as it was named before, if it still has the version that we wrote."""
    ours = [word for word in words if hint.pinned and word.string == hint.pinned]
    return [Edit(word.start, word.end, quote_words([hint.unpinned])) for word in ours[:1]]


def _unwrap_remote(text: str, command: Command, found: Wrapped, hint: Hint) -> list[Edit] | Unfit:
    holder, args = command.holder, command.args
    assert args is not None
    env = holder.get("env")
    inside = {member.key: member for member in env.value.members} if env is not None else {}
    own = {variable: header for header, variable in found.headers.items()}
    if strange := sorted(set(inside) - set(own) - {found.url_variable}):
        return Unfit("env_added", f"its env has {strange[0]} too, which an address cannot take", "Take that out first.")
    if found.url_variable is not None:
        if found.url_variable not in inside:
            return Unfit("no_address", f"its env has no {found.url_variable} any more", "Write it there, or by hand.")
        value = inside[found.url_variable].value
        raw = text[value.start : value.end]
    else:
        # As it is spelt there, if it is a word of its own.
        own_word = next((item for item in args.value.items if item.string == found.url), None)
        raw = quote_words([found.url or ""]) if own_word is None else text[own_word.start : own_word.end]
    program = command.program
    edits = [
        Edit(program.start, program.end, json.dumps(hint.url_key)),
        Edit(program.value.start, program.value.end, raw, MASK if found.url is None else raw),
    ]
    going = [args]
    if env is not None and not own and found.url_variable is not None:
        going.append(env)
    elif env is not None:
        edits.append(Edit(env.start, env.end, '"headers"'))
        edits += [Edit(m.start, m.end, json.dumps(own[key])) for key, m in inside.items() if key in own]
        if found.url_variable is not None:
            edits.append(remove_member(env.value, inside[found.url_variable]))
    kind = holder.get("type") or holder.get("transport")
    if kind is not None:
        edits.append(Edit(kind.value.start, kind.value.end, json.dumps(hint.kind)))
    return [*edits, *(remove_member(holder, member) for member in going)]


@dataclass(frozen=True, slots=True)
class PlannedServer:
    """One server. `wrap`, `unwrap`: it would change. `pin`: another version is written into its command. `wrapped`: it
    stands behind the gate. `left`: it cannot be changed, with the reason and what to do. `before`: it stood behind the
    gate before we came, and stays there. `other`: not asked for, or without a gate. Of a file for hooks: `hook`,
    `unhook` and `hooked` in the same way."""

    entry: ServerEntry
    state: State
    gate: str = ""
    kind: Literal["stdio", "http", ""] = ""
    reason: str = ""
    text: str = ""
    advice: str = ""
    hint: Hint | None = None
    # The version that is written into its command.
    version: str = ""


class Pinned(NamedTuple):
    """The version of a server's package: the word of its command that names it, or why it is not known."""

    version: str = ""
    word: Word | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A file as it is and as it would be."""

    before: str
    after: str
    findings: tuple[PlannedServer, ...]
    tree: JsonNode
    edits: tuple[Edit, ...]

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def hunks(self) -> list[Hunk]:
        return hunks(self.before, self.tree, self.edits)


def plan_wrap(
    text: str,
    source: str,
    tables: tuple[Table, ...],
    gate: GateCommand,
    only: Collection[str] = (),
    *,
    pins: Mapping[Pointer, Pinned] | None = None,
) -> Plan:
    """The gate in front of every server, or of those of these names; `pins` are versions to write into commands."""
    tree = scan(text, source)
    found: list[PlannedServer] = []
    edits: list[Edit] = []
    taken: dict[Pointer, set[str]] = {}
    # Names that are in use come first, so that a new server does not get one of them.
    for entry, server in _servers_in(tree, tables):
        if isinstance(server, Command) and (old := parse_wrapped(server)):
            taken.setdefault(entry.pointer[:-1], set()).add(old.name)
    for entry, server in _servers_in(tree, tables):
        finding, made = _to_wrap(text, entry, server, gate, taken.setdefault(entry.pointer[:-1], set()))
        if only and entry.name not in only:
            finding, made = PlannedServer(entry, "other"), []
        if finding.state == "wrap" and isinstance(server, Command) and (pin := (pins or {}).get(entry.pointer)):
            finding, more = _to_pin(finding, server, pin)
            made = [*made, *more]
        found.append(finding)
        edits += made
    return _verified(Plan(text, apply(text, edits), tuple(found), tree, tuple(edits)), source, tables)


def _servers_in(tree: JsonNode, tables: tuple[Table, ...]) -> Iterator[tuple[ServerEntry, Command | Remote | Unfit]]:
    for entry in entries(tree, tables):
        yield entry, read_server(entry.node)


def _to_wrap(
    text: str, entry: ServerEntry, server: Command | Remote | Unfit, gate: GateCommand, taken: set[str]
) -> tuple[PlannedServer, list[Edit]]:
    if isinstance(server, Unfit):
        return PlannedServer(entry, "left", reason=server.reason, text=server.text, advice=server.advice), []
    if isinstance(server, Command) and (old := parse_wrapped(server)):
        return PlannedServer(entry, "wrapped", old.name, _kind(old), text=_by_whom(old, gate)), []
    name = gate_name(entry.name, taken)
    taken.add(name)
    if isinstance(server, Command):
        return PlannedServer(entry, "wrap", name, "stdio"), wrap(text, server, name, gate)
    hint = Hint(server.url.key, server.kind.value.string if server.kind is not None else "http")
    reason = "may_sign_in" if _may_sign_in(server) else ""
    return PlannedServer(entry, "wrap", name, "http", reason, hint=hint), wrap(text, server, name, gate)


def _to_pin(finding: PlannedServer, server: Command, pin: Pinned) -> tuple[PlannedServer, list[Edit]]:
    if pin.word is None:
        return replace(finding, advice=f"Its version stays open: {pin.problem}."), []
    hint = Hint(pinned=pin.word.text, unpinned=server.words[pin.word.place])
    return replace(finding, version=pin.version, hint=hint), reword(server, pin.word)


def _may_sign_in(server: Remote) -> bool:
    """Whether the client may have signed in to it in a browser: it is elsewhere, and the file gives it no token."""
    if server.headers is not None and server.headers.value.members:
        return False
    try:
        address = urlsplit(server.url.value.string)
    except ValueError:
        return True
    return address.hostname not in ("localhost", "127.0.0.1", "::1") and not may_be_secret(server.url.value.string)


def _kind(old: Wrapped) -> Literal["stdio", "http", ""]:
    return "stdio" if old.has_command else "http" if old.url or old.url_variable else ""


def _by_whom(old: Wrapped, gate: GateCommand) -> str:
    """Which program stands there, if it is not the one that asks: a name alone does not make it a gate."""
    return "" if old.program == gate.program[0] else old.program


def plan_pin(text: str, source: str, tables: tuple[Table, ...], words: Mapping[Pointer, Word]) -> Plan:
    """Other words in the commands of servers that stand behind the gate."""
    tree = scan(text, source)
    found: list[PlannedServer] = []
    edits: list[Edit] = []
    for entry, server in _servers_in(tree, tables):
        old = parse_wrapped(server) if isinstance(server, Command) else None
        word = words.get(entry.pointer)
        name = "" if old is None else old.name
        if old is None or word is None or not isinstance(server, Command):
            found.append(PlannedServer(entry, "other", name))
            continue
        hint = Hint(pinned=word.text, unpinned=server.words[word.place])
        found.append(PlannedServer(entry, "pin", name, "stdio", hint=hint))
        edits += reword(server, word)
    return _verified(Plan(text, apply(text, edits), tuple(found), tree, tuple(edits)), source, tables)


def plan_unwrap(
    text: str,
    source: str,
    tables: tuple[Table, ...],
    only: Collection[str] = (),
    hints: Mapping[Pointer, Hint] | None = None,
) -> Plan:
    """The file without the gate in front of its servers, or of those of these names."""
    tree = scan(text, source)
    found: list[PlannedServer] = []
    edits: list[Edit] = []
    for entry, server in _servers_in(tree, tables):
        old = parse_wrapped(server) if isinstance(server, Command) else None
        if old is None or (only and entry.name not in only):
            found.append(PlannedServer(entry, "other"))
            continue
        made = unwrap(text, entry, (hints or {}).get(entry.pointer))
        if isinstance(made, Unfit):
            found.append(PlannedServer(entry, "left", old.name, "", made.reason, made.text, made.advice))
            continue
        found.append(PlannedServer(entry, "unwrap", old.name, _kind(old)))
        edits += made
    return _verified(Plan(text, apply(text, edits), tuple(found), tree, tuple(edits)), source, tables)


def _verified(plan: Plan, source: str, tables: tuple[Table, ...]) -> Plan:
    """The plan, if reading the new text shows the same servers, each as the plan wants it."""
    if not plan.edits:
        return plan
    wanted = {finding.entry.pointer: finding.state for finding in plan.findings}
    try:
        now = {entry.pointer: server for entry, server in _servers_in(scan(plan.after, source), tables)}
    except ConfigError:
        now = {}
    gated = {pointer for pointer, server in now.items() if isinstance(server, Command) and parse_wrapped(server)}
    right = now.keys() == wanted.keys() and all(
        state not in ("wrap", "unwrap") or (state == "wrap") == (pointer in gated) for pointer, state in wanted.items()
    )
    if not right:
        raise ConfigError(
            f"{source}: its entries are written in a way that cannot be changed safely",
            advice="Nothing in this file was changed. Edit it by hand: `callgate wrap NAME --` in front of a command.",
        )
    return plan
