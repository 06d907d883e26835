"""Start the app, and call it as an agent, as a stranger, and as somebody who recorded the agent's request."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

import httpx2
import uvicorn
from app import make

from callgate import sign


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def call(tool: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}).encode()


def show(about: str, answer: httpx2.Response) -> None:
    found = answer.json()
    told = found["result"] if "result" in found else found["error"]["data"]["reason"]
    say(f"{about}: {answer.status_code} {told}")


def visit(origin: str, key: sign.AgentKey) -> None:
    url = f"{origin}/tools"
    say(f"health, for everybody: {httpx2.get(f'{origin}/health').text}")
    show("nobody signs", httpx2.post(url, content=call("search")))
    with httpx2.Client(auth=sign.Auth(key.signer())) as agent:
        show("the agent signs", agent.post(url, content=call("search")))
        show("the agent wants more", agent.post(url, content=call("checkout")))
    stranger = sign.AgentKey.generate()
    show("a stranger signs", httpx2.post(url, content=call("search"), auth=sign.Auth(stranger.signer())))

    recorded = sign.signed_headers(key.signer(), "POST", url, call("search"))
    show("a recorded request with another body", httpx2.post(url, content=call("get_all"), headers=recorded))
    show("the recorded request itself", httpx2.post(url, content=call("search"), headers=recorded))
    show("and once more", httpx2.post(url, content=call("search"), headers=recorded))


def main() -> None:
    key = sign.AgentKey.generate()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(make(origin, key.jwk), log_level="warning", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            visit(origin, key)
        finally:
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
