"""A client that calls without end, and starts its server again whenever that has ended: `restless.py NAME N FOLDER WRAP…`.

Standard library only: it is killed again and again.
"""

import itertools
import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

NAME, NUMBER, _FOLDER, *ARGV = sys.argv[1:]
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "restless", "version": "1"}}


def ask(process: Any, number: int, method: str, params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise EOFError
    return json.loads(line)


def work(process: Any, numbers: Any) -> None:
    ask(process, 0, "initialize", HELLO)
    process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    for number in numbers:
        ask(process, number, "tools/call", {"name": "remember", "arguments": {"text": f"{NAME}-{NUMBER}-{number}"}})
        time.sleep(0.01)


def main() -> None:
    numbers = itertools.count(1)
    while True:
        process = subprocess.Popen(ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with suppress(OSError, EOFError, ValueError):
            work(process, numbers)
        for end in filter(None, (process.stdin, process.stdout)):
            with suppress(OSError):
                end.close()
        process.wait()


if __name__ == "__main__":
    main()
