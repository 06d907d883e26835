"""A stdio server that tells about itself and says whatever a call tells it to: `python teller.py DIRECTORY`.

What happens to it can be seen in DIRECTORY: `received-PID` has every line it was sent; `held-TEXT` and `cancelled-TEXT`
appear when a call of the tool `hold` begins and is cancelled. Few imports: a test starts many of these.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

DIRECTORY = Path(sys.argv[1])
TOOLS = ("child", "die", "emit", "hang", "hold", "let_go", "pid", "raw", "remember")
memory: list[str] = []
held: dict[Any, tuple[str, list[str]]] = {}


def say(*lines: str) -> None:
    """Everything in one write, so that a reader gets it at once."""
    # Not UTF-8: a call may want bytes that are no text.
    data = "".join(f"{line}\n" for line in lines).encode("latin-1")
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def reply(rpc_id: Any, result: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": result})


def error(rpc_id: Any, code: int) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "error": {"code": code, "message": "no"}})


def call(rpc_id: Any, params: Any) -> None:
    name, arguments = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")

    def filled(lines: list[str]) -> list[str]:
        return [line.replace("%ID%", json.dumps(rpc_id)).replace("%TOKEN%", json.dumps(token)) for line in lines]

    if name == "die":
        say(*filled(arguments.get("before", [])))
        os._exit(9)
    elif name == "hang":
        pass
    elif name == "emit" and "file" in arguments:
        lines = (DIRECTORY / arguments["file"]).read_text(encoding="latin-1").splitlines()
        say(*lines, reply(rpc_id, {}), *lines)
    elif name == "emit":
        say(*filled(arguments.get("before", [])), reply(rpc_id, {}), *filled(arguments.get("after", [])))
    elif name == "raw":
        say(*filled(arguments["lines"]))
    elif name == "hold":
        held[rpc_id] = (arguments["text"], filled(arguments.get("mutter", [])))
        if token is not None:
            progress = {"progressToken": token, "progress": 1, "message": arguments["text"]}
            say(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}))
        (DIRECTORY / f"held-{arguments['text']}").touch()
    elif name == "let_go":
        answers = [reply(number, {"text": text}) for number, (text, _) in reversed(held.items())]
        held.clear()
        say(*answers, reply(rpc_id, {"text": "released"}))
    elif name == "child":
        child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        say(reply(rpc_id, {"pid": os.getpid(), "child": child.pid}))
    else:
        memory.extend([arguments["text"]] if name == "remember" else [])
        say(reply(rpc_id, {"content": [], "pid": os.getpid(), "memory": memory}))


def cancelled(rpc_id: Any) -> None:
    text, mutter = held.get(rpc_id, (str(rpc_id), []))
    say(*mutter)
    (DIRECTORY / f"cancelled-{text}").touch()


def main() -> None:
    with (DIRECTORY / f"received-{os.getpid()}").open("ab", buffering=0) as received:
        for line in sys.stdin.buffer:
            received.write(line)
            message = json.loads(line)
            method, params = message.get("method"), message.get("params", {})
            if method == "tools/call":
                call(message["id"], params)
            elif method == "initialize":
                wrong = params.get("protocolVersion") == "wrong"
                about = {"name": "teller", "version": "1", "pid": os.getpid()}
                server = {"protocolVersion": "2025-11-25", "serverInfo": about, "capabilities": {"tools": {}}}
                say(error(message["id"], -32602) if wrong else reply(message["id"], server))
            elif method == "tools/list":
                entry = {"inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
                tools = [{"name": name, **entry} for name in TOOLS]
                say(reply(message["id"], {"tools": tools}))
            elif method == "notifications/cancelled":
                cancelled(params["requestId"])
            elif method is not None and "id" in message:
                say(error(message["id"], -32601))


if __name__ == "__main__":
    main()
