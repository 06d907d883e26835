"""A server on stdio that says more than its client reads: what waits for the client is bounded in bytes."""

import sys

from support.gateway import serving
from support.hostile import INTRODUCING
from support.raw import streaming
from support.sessions import events, modern, modern_call, modern_headers, until

SIZE = 60_000
FLOOD = (
    INTRODUCING
    + """
from pathlib import Path
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and not introduced(message, "t"):
        break
params = {"progressToken": message["params"]["_meta"]["progressToken"], "text": "x" * %d}
note = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
for _ in range(int(sys.argv[2])):
    print(note)
print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
Path(sys.argv[1]).touch()
sys.stdin.read()
"""
)


def server(done, number):
    return {"command": [sys.executable, "-I", "-S", "-c", FLOOD.replace("%d", str(SIZE)), str(done), str(number)]}


def test_a_client_that_does_not_read_gets_an_error_for_an_answer(tmp_path):
    done = tmp_path / "done"
    with serving(tmp_path, {"one": server(done, 1200)}, limits={"message_bytes": 65536}) as gateway:
        body, headers = modern_call("t", 1, "t"), modern_headers("t")
        with streaming(gateway.url("one"), body, headers) as response:
            until(done.exists)
            said = events(response.read())
    # What fitted, and an error in the place of the answer.
    assert len(said) < 1200
    assert said[-1]["error"]["data"]["reason"] == "overloaded"


def test_a_burst_of_messages_is_no_flood(tmp_path):
    with serving(tmp_path, {"one": server(tmp_path / "done", 50)}, limits={"message_bytes": 65536}) as gateway:
        said = events(modern(gateway.url("one"), "t", 1, "t").body)
    assert len(said) == 51
    assert said[-1]["result"] == {}
