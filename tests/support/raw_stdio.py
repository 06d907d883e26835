"""A server that keeps every byte it is sent and says exactly what it is told to: `python raw_stdio.py DIRECTORY`.

For each line of stdin it appends the line to DIRECTORY/received and writes the next line of DIRECTORY/answers. A line of
answers may hold several messages with \\x1e between them; before each but the first it waits for a file DIRECTORY/go-N.
Where the answers end it replies with an empty result. No imports that take time: a test starts many of these.
"""

import sys
import time
from pathlib import Path


def main() -> None:
    directory = Path(sys.argv[1])
    answers = (directory / "answers").read_bytes().split(b"\n")[:-1]
    gate = 0
    with (directory / "received").open("ab", buffering=0) as received:
        for line in sys.stdin.buffer:
            received.write(line)
            answer = answers.pop(0) if answers else _empty_result(line)
            for number, message in enumerate(answer.split(b"\x1e")):
                if number:
                    gate += 1
                    while not (directory / f"go-{gate}").exists():
                        time.sleep(0.005)
                if message:
                    sys.stdout.buffer.write(message + b"\n")
                    sys.stdout.buffer.flush()


def _empty_result(line: bytes) -> bytes:
    import json

    message = json.loads(line)
    if "id" not in message or "method" not in message:
        return b""
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode()


if __name__ == "__main__":
    main()
