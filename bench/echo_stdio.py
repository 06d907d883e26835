"""The echo tool over stdio: one JSON-RPC message a line, read and answered in blocks so that syscalls are few."""

from __future__ import annotations

import os

from echo_core import answer, parse

BLOCK = 1 << 16


def main() -> None:
    rest = b""
    while block := os.read(0, BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        # A client of the modern era begins with server/discover, but stdio has no header to say which era a line is
        # of; `resultType` is left out, which both eras read as "complete".
        replies = [answer(parse(line), modern=False) for line in lines if line.strip()]
        output = b"".join(reply + b"\n" for reply in replies if reply is not None)
        while output:
            output = output[os.write(1, output) :]


if __name__ == "__main__":
    main()
