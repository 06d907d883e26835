"""A server on stdio that does not read, or does not answer: bounded by the same patience as any other."""

import sys
from concurrent.futures import ThreadPoolExecutor

from support.gateway import serving
from support.hostile import INTRODUCING, post
from support.sessions import modern_call, modern_headers

# Both say what they offer. One reads what it is called with; the other reads no further than that it is called.
SILENT = "for line in sys.stdin: introduced(json.loads(line), sys.argv[1])"
DEAF = """
import os, time
seen = b""
while data := os.read(0, 1024):
    *lines, seen = (seen + data).split(b"\\n")
    for line in lines:
        introduced(json.loads(line), sys.argv[1])
    if b"tools/call" in seen + b"".join(lines):
        time.sleep(600)
"""
# A large message does not fit into the pipe: writing it must not outlast the patience either.
CASES = {
    "silent-small": (SILENT, 10),
    "silent-large": (SILENT, 4_000_000),
    "deaf-small": (DEAF, 10),
    "deaf-large": (DEAF, 4_000_000),
}


def test_a_server_that_does_not_answer_times_out(tmp_path):
    servers = {
        name: {"command": [sys.executable, "-I", "-S", "-c", INTRODUCING + source, name], "timeout_seconds": 2}
        for name, (source, _) in CASES.items()
    }

    def calls(name):
        """Two in turn."""
        body = "x" * CASES[name][1]
        path = f"/servers/{name}/mcp"
        said = [modern_call(name, number, text=body) for number in range(2)]
        return [post(gateway.port, one, modern_headers(name), path=path, timeout=60) for one in said]

    with serving(tmp_path, servers) as gateway, ThreadPoolExecutor(len(CASES)) as pool:
        for name, answers in zip(CASES, pool.map(calls, CASES), strict=True):
            got = [(one.status, one.reason, one.json["id"]) for one in answers]
            assert got == [(504, "upstream_timeout", 0), (504, "upstream_timeout", 1)], name
