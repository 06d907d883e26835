"""A server on stdio that does not read, or does not answer: bounded by the same patience as any other."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from support.gateway import serving
from support.hostile import INTRODUCING
from support.sessions import modern

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
SOURCES = {"silent": SILENT, "deaf": DEAF}
# A large message does not fit into the pipe: writing it must not outlast the patience either.
SIZES = (10, 4_000_000)
OFF = {"trust": "a person is asked about a value of four megabytes, and the call would never be written to the pipe"}


def test_a_server_that_does_not_answer_times_out(tmp_path):
    servers = {
        name: {"command": [sys.executable, "-I", "-S", "-c", INTRODUCING + source, name], "timeout_seconds": 2}
        for name, source in SOURCES.items()
    }

    def calls(name):
        answers = [modern(gateway.url(name), name, size, text="x" * size) for size in SIZES]
        return [(one.status, json.loads(one.body)) for one in answers]

    with serving(tmp_path, servers, off=OFF) as gateway, ThreadPoolExecutor(len(servers)) as pool:
        for name, answers in zip(servers, pool.map(calls, servers), strict=True):
            got = [(status, body["error"]["data"]["reason"], body["id"]) for status, body in answers]
            assert got == [(504, "upstream_timeout", size) for size in SIZES], name
