"""`callgate prompt`: reads what a hook says the user wrote, and gives it to the gateways that listen on this machine.

The client waits for this. So everything is bounded, and whatever goes wrong ends in silence and with status 0. Which of
the gateways stand before servers of this client is theirs to find out: nobody has to believe what is said here.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from callgate.local.place import address, peer, state_folders

# After this time the hook ends, whatever it was doing.
LIMIT_SECONDS = 0.2
PROMPT_CHARS = 64 * 1024
INPUT_BYTES = 4 * 2**20
SOCKETS_MAX = 128
SUFFIX = ".sock"
# Begins the name of a socket where the gateway of a user hears for all wrapped servers.
SHARED = "gateway-"
# A shell, the client, and the processes of its program above it.
_CLIENT_DEPTH = 5
_RUNNERS_MAX = 3
SHELLS = frozenset({"ash", "bash", "busybox", "dash", "env", "fish", "ksh", "nu", "sh", "tcsh", "zsh"})
# Programs that start others in their own place: the client is whoever started them.
RUNNERS = SHELLS | {"pipx", "uv", "uvx"}
_PIECES_MAX = 64

# Claude Code, VS Code and Codex; Copilot CLI; Cursor; Gemini CLI; Windsurf (looked up in November 2026).
EVENTS = frozenset({"UserPromptSubmit", "userPromptSubmitted", "beforeSubmitPrompt", "BeforeAgent", "pre_user_prompt"})
# What clients put around texts that the user did not type: reports of background tasks and of other agents, output of
# commands, what was selected in an editor, contents of files that the prompt refers to.
BLOCKS = (
    *(
        (f"<{tag}", f"</{tag}>")
        for tag in (
            "task-notification",
            "system-reminder",
            "teammate-message",
            "scheduled-task",
            "channel",
            "bash-stdout",
            "bash-stderr",
            "local-command-stdout",
            "local-command-stderr",
            "ide_selection",
            "ide_diagnostics",
            "pasted_text",
            "pasted_content",
            "attachment",
            "attached_files",
        )
    ),
    ("--- Content from referenced files ---", "--- End of content ---"),
)


def message_of(hook: object, environ: os._Environ[str] | dict[str, str] = os.environ) -> dict[str, object] | None:
    """What a gateway is told of a hook's input; None where nobody typed that."""
    if not isinstance(hook, dict):
        return None
    if EVENTS.isdisjoint(_text(hook, key) for key in ("hook_event_name", "hookEventName", "agent_action_name")):
        return None
    # Claude Code and Codex name the subagent that a prompt is for; Cursor says which agents nobody sits before.
    if hook.get("agent_id") or hook.get("is_background_agent"):
        return None
    inside = hook.get("tool_info")
    text = _text(inside, "user_prompt") if isinstance(inside, dict) else _text(hook, "prompt")
    pieces = own_words(text[:PROMPT_CHARS], _attached(hook))
    if not pieces:
        return None
    roots = hook.get("workspace_roots")
    named = roots if isinstance(roots, list) else [hook.get("cwd")]
    ids = (_text(hook, key) for key in ("session_id", "sessionId", "conversation_id", "trajectory_id"))
    return {
        "prompt": pieces,
        "conversation": next(filter(None, ids), "")[:256],
        "roots": [root[:4096] for root in named[:32] if isinstance(root, str)],
        # `claude -p` and the Agent SDK: a program may have written the prompt.
        "program": environ.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk-"),
    }


def own_words(text: str, attached: list[str]) -> list[str]:
    """What is left of a prompt without the texts that its client says are others'. A text may hold a mark that ends it
    early, so each goes up to the last such mark."""
    pieces = [text]
    for opening, closing in BLOCKS:
        pieces = [part for piece in pieces for part in _around(piece, opening, closing)]
    for other in attached:
        pieces = [part for piece in pieces for part in piece.split(other, _PIECES_MAX)]
    return [piece for piece in pieces if piece.strip()][:_PIECES_MAX]


def _around(text: str, opening: str, closing: str) -> list[str]:
    start = text.find(opening)
    if start < 0:
        return [text]
    end = text.rfind(closing)
    return [text[:start], text[end + len(closing) :] if end > start else ""]


def _attached(hook: dict[object, object]) -> list[str]:
    """The texts of attachments, where the input has them."""
    found = []
    for key in ("attachments", "references"):
        listed = hook.get(key)
        for one in listed[:32] if isinstance(listed, list) else ():
            if isinstance(one, dict):
                found += [text for name in ("content", "text") if (text := _text(one, name)).strip()]
    return found


def _text(holder: dict[object, object], key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""


def folders() -> list[str]:
    """Where gateways of this user listen."""
    return [os.path.join(base, "prompts") for base in state_folders()]


def deliver(message: dict[str, object], deadline: float) -> int:
    """Gives the message to whoever listens; to how many."""
    data = json.dumps(message).encode()
    waiting: dict[int, tuple[socket.socket, memoryview]] = {}
    poll = select.poll()
    for link in _connected():
        waiting[link.fileno()] = link, memoryview(data)
        poll.register(link, select.POLLOUT)
    taken = 0
    while waiting and (left := deadline - time.monotonic()) > 0:
        for number, _ in poll.poll(left * 1000):
            link, rest = waiting[number]
            try:
                if rest:
                    waiting[number] = link, rest[link.send(rest) :]
                    if not waiting[number][1]:
                        link.shutdown(socket.SHUT_WR)
                        poll.modify(link, select.POLLIN)
                    continue
                # The gateway closes when it has looked at where this process comes from, for which we have to live.
                link.recv(1)
                taken += 1
            except BlockingIOError:
                continue
            except OSError:
                pass
            poll.unregister(link)
            del waiting[number]
            link.close()
    return taken


def _connected() -> list[socket.socket]:
    """Links to the gateway of this user, and to those that this client started. No other has to see it."""
    found = []
    above = _above()
    for folder in folders():
        try:
            names = [name for name in os.listdir(folder) if name.endswith(SUFFIX)][:SOCKETS_MAX]
            handle = os.open(folder, os.O_RDONLY)
        except OSError:
            continue
        for name in names:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                link.settimeout(0)
                link.connect(address(folder, name, handle))
                shared = name.startswith(SHARED)
                if sys.platform != "linux" or shared or _is_started_by(above, peer(link)[0]):
                    found.append(link)
                    continue
            except OSError:
                pass
            link.close()
        os.close(handle)
    return found


def _above() -> list[int]:
    """The processes above this one that may be the client: what starts everything is none."""
    found: list[int] = []
    pid = os.getppid()
    while pid > 1 and len(found) < _CLIENT_DEPTH:
        name, parent = _parent(pid)
        if name in ("systemd", "init"):
            break
        found.append(pid)
        pid = parent
    return found


def _is_started_by(above: list[int], pid: int) -> bool:
    for _ in range(_RUNNERS_MAX):
        pid = _parent(pid)[1]
        if pid in above:
            return True
        if _parent(pid)[0] not in RUNNERS:
            return False
    return False


def _parent(pid: int) -> tuple[str, int]:
    """A process's name and who started it, proc_pid_stat(5)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read().rpartition(")")
        return name.partition("(")[2], int(rest.split()[1])
    except (OSError, ValueError, IndexError):
        return "", 0


def run(source: int = 0) -> None:
    """The hook itself; `source` is where its input comes from. Never raises."""
    deadline = time.monotonic() + LIMIT_SECONDS
    try:
        hook = json.loads(_input(source, deadline))
        if isinstance(hook, dict) and hook.get("hook_event_name") == "beforeSubmitPrompt":
            # Cursor reads an answer; what Claude Code reads here would go to its model.
            os.write(1, b'{"continue": true}\n')
        message = message_of(hook)
        if message is not None and hasattr(socket, "AF_UNIX"):
            deliver(message, deadline)
    except Exception:  # noqa: BLE001, S110 - a hook that fails must not be noticed by the client
        pass


def _input(source: int, deadline: float) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while size <= INPUT_BYTES:
        if sys.platform != "win32" and not select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return b""
        chunk = os.read(source, 65536)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        size += len(chunk)
    return b""


def main() -> None:
    """`callgate prompt` as a client starts it."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS + 0.05)
    run()
    # Nothing is left to clean up, and the client waits.
    os._exit(0)
