"""Lists the tools of the catalogue's packages live: each is started as npm or PyPI has it, and asked for its list.

`python -m inspection.live FOLDER [PACKAGE…]` in `bench/` writes one file a package. A server gets an empty home, no
secret but made-up ones, and is asked for nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from callgate.trust import catalogue
from sessions import install

CATALOGUE = Path(catalogue.__file__).parent
WAIT_SECONDS = 120
TRIES = 4
MEMBERS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
_VERSION = re.compile(r"tool list of (\S+) read live( with mcp 1)?")
# What a server says it misses: a variable of the environment, or an option.
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]{2,40}\b")
# Servers that want to be told where, before they list anything.
ARGUMENTS = {
    "@modelcontextprotocol/server-filesystem": ["{home}"],
    "@modelcontextprotocol/server-postgres": ["postgresql://localhost/none"],
    "mcp-obsidian": ["{home}"],
    "obsidian-mcp": ["{home}"],
    "mcp-server-sqlite-npx": ["{home}/a.db"],
    "mcp-server-sqlite": ["--db-path", "{home}/a.db"],
    "@playwright/mcp": ["--headless"],
    "shadcn": ["mcp"],
    "repomix": ["--mcp"],
    "xcodebuildmcp": ["mcp"],
    "@azure/mcp": ["server", "start"],
    "@neondatabase/mcp-server-neon": ["start", "made-up"],
    "@supabase/mcp-server-supabase": ["--access-token", "made-up"],
    "figma-developer-mcp": ["--stdio", "--figma-api-key=made-up"],
    "@larksuiteoapi/lark-mcp": ["mcp", "-a", "made-up", "-s", "made-up"],
    "@sentry/mcp-server": ["--access-token=made-up"],
    "excel-mcp-server": ["stdio"],
    "mcp-email-server": ["stdio"],
    "mcp-server-duckdb": ["--db-path", "{home}/a.db"],
    "mcp-server-motherduck": ["--db-path", ":memory:", "--read-write"],
    "serena-agent": ["start-mcp-server"],
}
# Programs that are not called as their package.
PROGRAMS = {
    "mcp-weather-server": "mcp_weather_server",
    "mysql-mcp-server": "mysql_mcp_server",
    "office-powerpoint-mcp-server": "ppt_mcp_server",
    "office-word-mcp-server": "word_mcp_server",
    "serena-agent": "serena",
    "zotero-mcp-server": "zotero-mcp",
}


def packages() -> Iterator[tuple[str, str, str, list[str]]]:
    """Each package of the catalogue: its file's name, its name, the version that was checked, and its command."""
    for path in sorted(CATALOGUE.glob("*.json")):
        entry = json.loads(path.read_text(encoding="utf-8"))
        name = entry["package"]
        found = _VERSION.match(entry["checked"])
        if not found:
            continue
        if entry["registry"] == "npm":
            words = ["npx", "-y", f"{name}@{found[1]}"]
        else:
            older = ["--with", "mcp<2"] if found[2] else []
            words = ["uvx", *older, "--from", f"{name}=={found[1]}", PROGRAMS.get(name, name)]
        yield path.stem, name, found[1], [*words, *ARGUMENTS.get(name, ())]


def tools(words: list[str], home: Path) -> list[dict[str, Any]]:
    """The tools that a server lists; it is told made-up values for what it says it misses."""
    told: dict[str, str] = {}
    for _ in range(TRIES):
        listed, said = _ask([word.format(home=home) for word in words], home, told)
        if listed is not None:
            return listed
        missing = {name: _made_up(name) for name in _VARIABLE.findall(said) if name not in told}
        if not missing:
            raise RuntimeError(said.strip()[-300:] or "it said nothing")
        told |= missing
    raise RuntimeError("it misses more and more")


def _made_up(name: str) -> str:
    if name.endswith("_DIR"):
        return str(tempfile.gettempdir())
    if "URL" in name or "HOST" in name or "ENDPOINT" in name:
        return "http://localhost:9"
    return "4" * 20 if name.endswith("_ID") else "made-up-value-of-no-use"


def _ask(words: list[str], home: Path, told: dict[str, str]) -> tuple[list[dict[str, Any]] | None, str]:
    kept = {
        key: value for key, value in install.environ().items() if key not in ("UV_OFFLINE", "npm_config_prefer_offline")
    }
    env = {**kept, "HOME": str(home), **told}
    said: list[str] = []
    with subprocess.Popen(
        words, env=env, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, encoding="utf-8", errors="replace", start_new_session=True,
    ) as child:  # fmt: skip
        assert child.stdout
        assert child.stderr
        heard: Queue[str] = Queue()
        for stream, into in ((child.stdout, heard.put), (child.stderr, said.append)):
            threading.Thread(target=_read, args=(stream, into), daemon=True).start()
        try:
            listed = _list(child, heard, said)
        except (OSError, Empty):
            listed = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, 9)
    return listed, "".join(said)[-4000:]


def _read(stream: Any, into: Any) -> None:
    for line in stream:
        into(line)
    into("")


def _list(child: subprocess.Popen[str], heard: Queue[str], said: list[str]) -> list[dict[str, Any]] | None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    _send(child, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
    if _answer(heard, 1, said) is None:
        return None
    _send(child, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    for number in range(2, 40):
        _send(child, {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": cursor})
        page = _answer(heard, number, said)
        if page is None:
            return None
        found += page.get("tools", [])
        if not page.get("nextCursor"):
            return found or None
        cursor = {"cursor": page["nextCursor"]}
    return found


def _send(child: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert child.stdin
    child.stdin.write(json.dumps(message) + "\n")
    child.stdin.flush()


def _answer(heard: Queue[str], number: int, said: list[str]) -> dict[str, Any] | None:
    while line := heard.get(timeout=WAIT_SECONDS):
        try:
            message = json.loads(line)
        except ValueError:
            said.append(line)
            continue
        if isinstance(message, dict) and message.get("id") == number:
            if "result" not in message:
                said.append(line)
            result: dict[str, Any] | None = message.get("result")
            return result
    return None


def collect(into: Path, only: set[str]) -> None:
    into.mkdir(parents=True, exist_ok=True)

    def one(package: tuple[str, str, str, list[str]]) -> None:
        stem, name, version, words = package
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            try:
                listed = tools(words, Path(home))
            except Exception as error:
                print(f"{name}: {str(error)[-200:]!r}", flush=True)
                return
        kept = [{key: tool[key] for key in MEMBERS if key in tool} for tool in listed]
        entry = {"package": name, "version": version, "tools": kept}
        (into / f"{stem}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {len(kept)} tools", flush=True)

    wanted = [one for one in packages() if not only or one[1] in only]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, wanted))


if __name__ == "__main__":
    collect(Path(sys.argv[1]), set(sys.argv[2:]))
