"""A registry of npm on loopback, with packages that are small MCP servers: npm and npx themselves fetch and run them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

# Speaks both eras of the protocol, and says in its tools what it was published with.
_SERVER: Final = """#!/usr/bin/env node
const about = require("./package.json"), tools = require("./tools.json");
const info = {name: about.name, version: about.version};
const meta = {"io.modelcontextprotocol/serverInfo": info};
const answers = {
  "initialize": () => ({protocolVersion: "2025-11-25", capabilities: {tools: {}}, serverInfo: info}),
  "server/discover": () => ({supportedVersions: ["2026-07-28"], capabilities: {tools: {}}, _meta: meta}),
  "tools/list": () => ({tools, _meta: meta}),
};
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const {id, method} = JSON.parse(line);
  if (id === undefined) return;
  const found = answers[method];
  const rest = found ? {result: found()} : {error: {code: -32601, message: "unknown"}};
  process.stdout.write(JSON.stringify({jsonrpc: "2.0", id, ...rest}) + "\\n");
});
"""


class NpmRegistry:
    """What was published, and what was asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self._packages: dict[str, dict[str, bytes]] = {}
        self._tags: dict[str, dict[str, str]] = {}
        # While this is not set nobody gets an answer.
        self.answers = threading.Event()
        self.answers.set()

    def publish(self, name: str, version: str, tools: Sequence[Mapping[str, Any]] = (), tag: str = "latest") -> None:
        about = {"name": name, "version": version, "bin": {name.rpartition("/")[2]: "server.js"}}
        files = {"package.json": json.dumps(about), "tools.json": json.dumps(list(tools)), "server.js": _SERVER}
        self._packages.setdefault(name, {})[version] = _tarball(files)
        self._tags.setdefault(name, {})[tag] = version

    def unpublish(self) -> None:
        """Nothing was ever published."""
        self._packages.clear()
        self._tags.clear()

    def environ(self, folder: Path) -> dict[str, str]:
        """What npm has to be told to use this one, with a cache of its own."""
        npm = shutil.which("npm")
        assert npm is not None
        return {
            "PATH": f"{Path(npm).parent}:/usr/bin:/bin",
            "npm_config_registry": self.url,
            "npm_config_cache": str(folder / "npm-cache"),
            "npm_config_update_notifier": "false",
            "npm_config_audit": "false",
            "npm_config_fetch_retries": "0",
        }

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        name, _, file = unquote(path.lstrip("/")).partition("/-/")
        versions = self._packages.get(name, {})
        if file:
            return 200, versions[file.removeprefix(f"{name.rpartition('/')[2]}-").removesuffix(".tgz")]
        if not versions:
            return 404, b'{"error":"Not found"}'
        return 200, json.dumps(
            {
                "name": name,
                "dist-tags": self._tags[name],
                "versions": {version: self._about(name, version, data) for version, data in versions.items()},
            }
        ).encode()

    def _about(self, name: str, version: str, data: bytes) -> dict[str, Any]:
        short = name.rpartition("/")[2]
        digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
        return {
            "name": name,
            "version": version,
            "bin": {short: "server.js"},
            "dist": {"tarball": f"{self.url}{name}/-/{short}-{version}.tgz", "integrity": f"sha512-{digest}"},
        }


def _tarball(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(out.getvalue(), mtime=0)


@contextmanager
def npm_registry() -> Iterator[NpmRegistry]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.answers.wait()
            status, body = registry.answer(self.path)
            self.send_response(status)
            self.send_header("content-type", "application/json" if body[:1] == b"{" else "application/octet-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry = NpmRegistry(f"http://127.0.0.1:{server.server_port}/")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield registry
    finally:
        registry.answers.set()
        server.shutdown()
        server.server_close()
