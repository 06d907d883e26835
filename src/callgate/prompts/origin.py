"""Whether a prompt is what the user typed into the client of a wrapped server: told from the processes alone.

A client starts its hooks and its servers itself. So whoever brings a prompt has to stand right below the client, with
no more than a shell between them, and not below a wrapped server. Who the sender says it is counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from callgate.prompts.hook import RUNNERS, SHELLS
from callgate.prompts.processes import Look, Process, chain

# Between a client and its hook: a shell, and what that may need to start a program.
BETWEEN_MAX: Final = 2
# Agents set these for the commands that they run, and not for hooks (looked up in November 2026).
AGENTS_SHELL: Final = frozenset(
    {"CLAUDECODE", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CURSOR_AGENT", "GEMINI_CLI"}
)
# A client that has one of these was itself started by an agent.
AGENTS_CHILD: Final = AGENTS_SHELL | {"CLAUDE_CODE_CHILD_SESSION"}


class Client(NamedTuple):
    """The process that started a wrapped server, the topmost one of its program, and the folder the server runs in."""

    process: Process
    top: Process
    folder: Path


class HookClaims(NamedTuple):
    """What the hook says: the folders that are open, and whether a program may have written the prompt."""

    roots: Sequence[str] = ()
    program: bool = False


def client_of(look: Look, pid: int, folder: Path) -> Client | None:
    """The client that started a process; None where that cannot be told."""
    line = chain(look, pid)[1:]
    for _ in range(BETWEEN_MAX):
        if len(line) > 1 and _name(line[0]) in RUNNERS:
            line = line[1:]
    if not line:
        return None
    top = line[0]
    for process in line[1:]:
        if process.program != top.program:
            break
        top = process
    return Client(line[0], top, folder)


class Sender(NamedTuple):
    """Who brings a prompt and all above it, the processes that are gateways, and what else can be looked up."""

    line: Sequence[Process]
    gateways: Collection[int]
    look: Look
    variables: Callable[[int], Collection[str]]


# The usual case where one gateway hears for all clients.
ANOTHER_CLIENT: Final = "another client sent it"


def refusal(sender: Sender, client: Client, said: HookClaims) -> str:
    """Why a prompt is not taken for the user's; empty where it is."""
    line = sender.line
    if any(process.pid in sender.gateways for process in line):
        return "a wrapped server or what it started sent it"
    at = next((at for at, process in enumerate(line) if process.is_same(client.top)), 0)
    now = sender.look(client.process.pid)
    if not at or now is None or not now.is_same(client.process):
        return ANOTHER_CLIENT
    if client.top.pid == 1:
        # Whatever loses its parent becomes a child of the first process.
        return "the client is the first process of its machine"
    while at > 1 and line[at - 1].program == client.top.program:
        at -= 1
    return _not_its_hook(sender, client, said, at) or _not_typed(sender, client, said)


def _not_its_hook(sender: Sender, client: Client, said: HookClaims, at: int) -> str:
    """`at` is where the client begins in the line."""
    line, nearest, between = sender.line, sender.line[at], sender.line[1:at]
    if not nearest.is_same(client.process):
        if any(process.is_same(client.process) for process in line):
            return "an agent that the client started sent it"
        if not _is_open(client.folder, said.roots):
            return "another window of the client sent it"
    if len(between) > BETWEEN_MAX or any(_name(process) not in SHELLS for process in between):
        return "more than a shell stands between the client and the sender"
    if line[0].terminal not in ("", client.process.terminal):
        return "it comes from another terminal than the client's"
    if any(AGENTS_SHELL.intersection(sender.variables(process.pid)) for process in line[:at]):
        return "a command that an agent runs sent it"
    return ""


def _not_typed(sender: Sender, client: Client, said: HookClaims) -> str:
    own = client.process
    above = chain(sender.look, own.pid)
    above = above[: next((at for at, process in enumerate(above) if process.is_same(client.top)), 0) + 1]
    # Other clients with wrapped servers: where this one is below such a one of its own program, it is its helper.
    clients = {found.parent for pid in sender.gateways if (found := sender.look(pid)) is not None} - {own.pid}
    if AGENTS_CHILD.intersection(sender.variables(own.pid)) or any(process.pid in clients for process in above):
        return "an agent started the client"
    if said.program and not own.terminal:
        return "a program wrote it"
    return ""


def _name(process: Process) -> str:
    return PurePath(process.program).name.removeprefix("-")


def _is_open(folder: Path, roots: Sequence[str]) -> bool:
    return any(folder.is_relative_to(root) for root in roots if PurePath(root).is_absolute() and root != "/")
