"""What would change in one file: each of its servers with what becomes of it, and the edits that make it so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from callgate.clients.edits import Edit, Hunk, apply, hunks, telling
from callgate.clients.entries import Command, Entry, Pointer, Remote, Table, Unfit, entries, look
from callgate.clients.jsonc import Node, scan
from callgate.clients.wrapping import Gate, Hint, Word, Wrapped, gate_name, reword, unwrap, wrap, wrapped
from callgate.errors import ConfigError

State = Literal["pin", "wrap", "unwrap", "wrapped", "left", "before", "other", "hook", "unhook", "hooked"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One server. `wrap`, `unwrap`: it would change. `pin`: another version is written into its command. `wrapped`: it
    stands behind the gate. `left`: it cannot be changed, with the reason and what to do. `before`: it stood behind the
    gate before we came, and stays there. `other`: not asked for, or without a gate. Of a file for hooks: `hook`,
    `unhook` and `hooked` in the same way."""

    entry: Entry
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
    findings: tuple[Finding, ...]
    tree: Node
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
    gate: Gate,
    only: Collection[str] = (),
    *,
    pins: Mapping[Pointer, Pinned] | None = None,
) -> Plan:
    """The gate in front of every server, or of those of these names; `pins` are versions to write into commands."""
    tree = scan(text, source)
    found: list[Finding] = []
    edits: list[Edit] = []
    taken: dict[Pointer, set[str]] = {}
    # Names that are in use come first, so that a new server does not get one of them.
    for entry, server in _looked(tree, tables):
        if isinstance(server, Command) and (old := wrapped(server)):
            taken.setdefault(entry.pointer[:-1], set()).add(old.name)
    for entry, server in _looked(tree, tables):
        finding, made = _to_wrap(text, entry, server, gate, taken.setdefault(entry.pointer[:-1], set()))
        if only and entry.name not in only:
            finding, made = Finding(entry, "other"), []
        if finding.state == "wrap" and isinstance(server, Command) and (pin := (pins or {}).get(entry.pointer)):
            finding, more = _to_pin(finding, server, pin)
            made = [*made, *more]
        found.append(finding)
        edits += made
    return _checked(Plan(text, apply(text, edits), tuple(found), tree, tuple(edits)), source, tables)


def _looked(tree: Node, tables: tuple[Table, ...]) -> Iterator[tuple[Entry, Command | Remote | Unfit]]:
    for entry in entries(tree, tables):
        yield entry, look(entry.node)


def _to_wrap(
    text: str, entry: Entry, server: Command | Remote | Unfit, gate: Gate, taken: set[str]
) -> tuple[Finding, list[Edit]]:
    if isinstance(server, Unfit):
        return Finding(entry, "left", reason=server.reason, text=server.text, advice=server.advice), []
    if isinstance(server, Command) and (old := wrapped(server)):
        return Finding(entry, "wrapped", old.name, _kind(old), text=_by_whom(old, gate)), []
    name = gate_name(entry.name, taken)
    taken.add(name)
    if isinstance(server, Command):
        return Finding(entry, "wrap", name, "stdio"), wrap(text, server, name, gate)
    hint = Hint(server.url.key, server.kind.value.string if server.kind is not None else "http")
    reason = "may_sign_in" if _may_sign_in(server) else ""
    return Finding(entry, "wrap", name, "http", reason, hint=hint), wrap(text, server, name, gate)


def _to_pin(finding: Finding, server: Command, pin: Pinned) -> tuple[Finding, list[Edit]]:
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
    return address.hostname not in ("localhost", "127.0.0.1", "::1") and not telling(server.url.value.string)


def _kind(old: Wrapped) -> Literal["stdio", "http", ""]:
    return "stdio" if old.has_command else "http" if old.url or old.url_variable else ""


def _by_whom(old: Wrapped, gate: Gate) -> str:
    """Which program stands there, if it is not the one that asks: a name alone does not make it a gate."""
    return "" if old.program == gate.program[0] else old.program


def plan_pin(text: str, source: str, tables: tuple[Table, ...], words: Mapping[Pointer, Word]) -> Plan:
    """Other words in the commands of servers that stand behind the gate."""
    tree = scan(text, source)
    found: list[Finding] = []
    edits: list[Edit] = []
    for entry, server in _looked(tree, tables):
        old = wrapped(server) if isinstance(server, Command) else None
        word = words.get(entry.pointer)
        name = "" if old is None else old.name
        if old is None or word is None or not isinstance(server, Command):
            found.append(Finding(entry, "other", name))
            continue
        hint = Hint(pinned=word.text, unpinned=server.words[word.place])
        found.append(Finding(entry, "pin", name, "stdio", hint=hint))
        edits += reword(server, word)
    return _checked(Plan(text, apply(text, edits), tuple(found), tree, tuple(edits)), source, tables)


def plan_unwrap(
    text: str,
    source: str,
    tables: tuple[Table, ...],
    only: Collection[str] = (),
    hints: Mapping[Pointer, Hint] | None = None,
) -> Plan:
    """The file without the gate in front of its servers, or of those of these names."""
    tree = scan(text, source)
    found: list[Finding] = []
    edits: list[Edit] = []
    for entry, server in _looked(tree, tables):
        old = wrapped(server) if isinstance(server, Command) else None
        if old is None or (only and entry.name not in only):
            found.append(Finding(entry, "other"))
            continue
        made = unwrap(text, entry, (hints or {}).get(entry.pointer))
        if isinstance(made, Unfit):
            found.append(Finding(entry, "left", old.name, "", made.reason, made.text, made.advice))
            continue
        found.append(Finding(entry, "unwrap", old.name, _kind(old)))
        edits += made
    return _checked(Plan(text, apply(text, edits), tuple(found), tree, tuple(edits)), source, tables)


def _checked(plan: Plan, source: str, tables: tuple[Table, ...]) -> Plan:
    """The plan, if reading the new text shows the same servers, each as the plan wants it."""
    if not plan.edits:
        return plan
    wanted = {finding.entry.pointer: finding.state for finding in plan.findings}
    try:
        now = {entry.pointer: server for entry, server in _looked(scan(plan.after, source), tables)}
    except ConfigError:
        now = {}
    gated = {pointer for pointer, server in now.items() if isinstance(server, Command) and wrapped(server)}
    right = now.keys() == wanted.keys() and all(
        state not in ("wrap", "unwrap") or (state == "wrap") == (pointer in gated) for pointer, state in wanted.items()
    )
    if not right:
        raise ConfigError(
            f"{source}: its entries are written in a way that cannot be changed safely",
            advice="Nothing in this file was changed. Edit it by hand: `callgate wrap NAME --` in front of a command.",
        )
    return plan
