"""The hook that tells the gate what the user wrote: put into a client's file, and taken out again.

Where each client keeps its hooks and how it writes them was looked up in November 2026.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Final, NamedTuple

from callgate.clients.jsonc import Edit, JsonNode, apply, difference, remove_item, remove_member, scan
from callgate.clients.locations import ConfigLocation, Hook, Machine, folder_of
from callgate.clients.plan import Plan, PlannedServer
from callgate.clients.servers import ServerEntry
from callgate.errors import ConfigError

HOOKS: Final = {
    "claude-code": Hook("UserPromptSubmit", nested=True),
    "codex": Hook("UserPromptSubmit", nested=True),
    "gemini-cli": Hook("BeforeAgent", nested=True),
    "cursor": Hook("beforeSubmitPrompt", beside=(("version", 1),), typed=False),
    "vscode": Hook("UserPromptSubmit", beside=(("version", 1),)),
    "windsurf": Hook("pre_user_prompt", typed=False),
}
_EMPTY: Final = JsonNode("object", 0, 0)
_TIMES_MAX: Final = 20


class _Style(NamedTuple):
    """How a file is indented; None where it is all on one line."""

    unit: str | None
    line_end: str


def hook_locations(machine: Machine) -> list[ConfigLocation]:
    """The files for the hooks of this user. None on Windows, where the gate cannot hear them."""
    if machine.platform == "win32":
        return []
    home = machine.home
    claude = folder_of(machine, "CLAUDE_CONFIG_DIR", home / ".claude")
    places = {
        "claude-code": claude / "settings.json",
        "codex": folder_of(machine, "CODEX_HOME", home / ".codex") / "hooks.json",
        "gemini-cli": home / ".gemini" / "settings.json",
        "cursor": home / ".cursor" / "hooks.json",
        "vscode": folder_of(machine, "COPILOT_HOME", home / ".copilot") / "hooks" / "callgate.json",
        "windsurf": home / ".codeium" / "windsurf" / "hooks.json",
    }
    return [ConfigLocation(client, path, (), hook=HOOKS[client]) for client, path in places.items()]


def wrapped_by_hand(machine: Machine) -> Iterator[str]:
    """Clients whose servers we do not wrap, but whose user did."""
    files = {
        "codex": folder_of(machine, "CODEX_HOME", machine.home / ".codex") / "config.toml",
        "gemini-cli": machine.home / ".gemini" / "settings.json",
    }
    for client, path in files.items():
        if re.search(r"""callgate[^"'\s]{0,40}["'].{0,200}?["']wrap["']""", _start(path), re.DOTALL):
            yield client


def _start(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(2**20).decode("utf-8", "replace")
    except OSError:
        return ""


def command_of(program: Sequence[str]) -> str:
    """What a client's shell runs."""
    return shlex.join([*program, "prompt"])


def is_ours(command: str) -> bool:
    """Whether a hook runs `callgate prompt`, by whatever path."""
    try:
        *before, last = shlex.split(command)
    except ValueError:
        return False
    if last != "prompt" or not before:
        return False
    stems = {path.stem.lower() for path in (PurePath(before[-1]), PureWindowsPath(before[-1]))}
    return "callgate" in stems


# ---- plans ----


def plan_hook(text: str | None, source: str, hook: Hook, program: Sequence[str]) -> Plan:
    """The file with the hook in it, beside what is there. `text` is None where there is no file."""
    command = command_of(program)
    if text is None:
        after = json.dumps(dict(hook.beside) | {"hooks": {hook.event: [hook.entry(command)]}}, indent=2) + "\n"
        return _plan("", after, source, hook, "hook")
    there = [node.string for node in _commands(scan(text, source), hook)]
    if command in there:
        return _plan(text, text, source, hook, "hooked")
    # One of an older place gives way to the new one.
    return _plan(text, _with_hook(_without_hook(text, source, hook), source, hook, command), source, hook, "hook")


def plan_unhook(text: str, source: str, hook: Hook) -> Plan:
    """The file without our hook."""
    after = _without_hook(text, source, hook)
    return _plan(text, after, source, hook, "unhook" if after != text else "other")


def _plan(before: str, after: str, source: str, hook: Hook, state: Any) -> Plan:
    new = scan(after, source)
    if state == "hook" and len(_commands(new, hook)) != 1:
        raise _cannot_change(source)
    tree = scan(before, source) if before else _EMPTY
    edits = (difference(before, after, new),) if before != after else ()
    return Plan(before, after, (PlannedServer(ServerEntry(("hooks", hook.event), tree), state),), tree, edits)


def _commands(tree: JsonNode, hook: Hook) -> list[JsonNode]:
    """The commands of ours under the hook's event."""
    return [command for _, _, command in _places(tree, hook)]


def _places(tree: JsonNode, hook: Hook) -> list[tuple[JsonNode, int, JsonNode]]:
    """Each of our commands, with the list that it is in and its place there."""
    found = []
    listed = _event(tree, hook)
    for at, item in enumerate(listed.items if listed is not None else ()):
        inner = item.get("hooks")
        if inner is not None:
            found += [(inner.value, place, command) for place, command in _ours(inner.value)]
        if listed is not None and (command := _our_command(item)) is not None:
            found.append((listed, at, command))
    return found


def _ours(listed: JsonNode) -> Iterator[tuple[int, JsonNode]]:
    for at, item in enumerate(listed.items):
        if (command := _our_command(item)) is not None:
            yield at, command


def _our_command(item: JsonNode) -> JsonNode | None:
    command = item.get("command")
    return command.value if command is not None and is_ours(command.value.string) else None


def _event(tree: JsonNode, hook: Hook) -> JsonNode | None:
    hooks = tree.get("hooks")
    event = None if hooks is None else hooks.value.get(hook.event)
    return None if event is None else event.value


# ---- edits ----


def _with_hook(text: str, source: str, hook: Hook, command: str) -> str:
    tree = scan(text, source)
    style = _style(text, tree)
    hooks, listed = tree.get("hooks"), _event(tree, hook)
    entry: Any = hook.entry(command)
    if tree.kind != "object" or (hooks is not None and hooks.value.kind != "object"):
        raise _cannot_change(source)
    if hooks is None:
        return apply(text, [_append(text, tree, {hook.event: [entry]}, style, key="hooks", depth=0)])
    if listed is None:
        return apply(text, [_append(text, hooks.value, [entry], style, key=hook.event, depth=1)])
    if listed.kind != "array":
        raise _cannot_change(source)
    return apply(text, [_append(text, listed, entry, style, depth=2)])


def _append(text: str, holder: JsonNode, value: Any, style: _Style, *, depth: int, key: str | None = None) -> Edit:
    """One more member or item at the end of an object or array that is so deep."""
    if style.unit is None:
        new, gap, end = json.dumps(value, ensure_ascii=False), " ", ""
    else:
        gap = style.line_end + style.unit * (depth + 1)
        new = json.dumps(value, indent=style.unit, ensure_ascii=False).replace("\n", gap)
        end = style.line_end + style.unit * depth
    new = new if key is None else f"{json.dumps(key)}: {new}"
    parts = holder.members or holder.items
    if not parts:
        inside = text[holder.start + 1 : holder.end - 1]
        # What stands in an empty one can only be blanks and comments.
        return Edit(holder.start + 1, holder.end - 1, f"{inside.rstrip()}{gap if end else ''}{new}{end}")
    if holder.comma is not None:
        return Edit(holder.comma + 1, holder.comma + 1, f"{gap}{new},")
    last = (holder.members[-1].value if holder.members else holder.items[-1]).end
    return Edit(last, last, f",{gap}{new}")


def _style(text: str, tree: JsonNode) -> _Style:
    line_end = "\r\n" if "\r\n" in text else "\n"
    if not tree.members:
        return _Style("  ", line_end)
    found = re.search(r"\n([ \t]*)\Z", text[: tree.members[0].start])
    return _Style(found[1] or "  ", line_end) if found else _Style(None, line_end)


def _without_hook(text: str, source: str, hook: Hook) -> str:
    """Without our hooks, and without the lists and objects that are empty then."""
    for _ in range(_TIMES_MAX):
        tree = scan(text, source)
        edit = _removal(tree, hook)
        if edit is None:
            return text
        text = apply(text, [edit])
    raise _cannot_change(source)


def _removal(tree: JsonNode, hook: Hook) -> Edit | None:
    place = next(iter(_places(tree, hook)), None)
    hooks, listed = tree.get("hooks"), _event(tree, hook)
    if place is None or hooks is None or listed is None:
        return None
    holder, at, _ = place
    if len(holder.items) > 1:
        return remove_item(holder, at)
    if holder is not listed and len(listed.items) > 1:
        return remove_item(listed, next(i for i, item in enumerate(listed.items) if holder in _values(item)))
    event = hooks.value.get(hook.event)
    assert event is not None
    if len(hooks.value.members) > 1:
        return remove_member(hooks.value, event)
    return remove_member(tree, hooks)


def _values(item: JsonNode) -> list[JsonNode]:
    return [member.value for member in item.members]


def _cannot_change(source: str) -> ConfigError:
    return ConfigError(
        f"{source}: its hooks are written in a way that cannot be changed safely",
        advice="Nothing in this file was changed. Add a hook that runs `callgate prompt` by hand, or use --no-hooks.",
    )
