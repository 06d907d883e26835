"""Who reads the log must not learn what was asked, with what secret, or in whose session."""

import json

from support.gateway import serving
from support.hostile import answer, call, call_message, head, hostile_server, post, send_raw, until

MARK = "MARK-7f3a"


def test_nothing_secret_is_in_the_log_even_at_debug(tmp_path, monkeypatch):
    # For whoever reviews the tools, and for the gateway.
    monkeypatch.setenv("SECRET", f"{MARK}-header")

    def breaks(peer, request):
        peer.send(answer(json.dumps({"said": f"{MARK}-result"}).encode()))

    def dies(peer, request):
        peer.send(f"HTTP/1.1 200 {MARK}\r\nx: {MARK}".encode())
        peer.close()

    with hostile_server({"breaks": breaks, "dies": dies}, tools=["breaks", "cut", "dies", "gone", "good"]) as upstream:
        url = upstream.url.replace("http://", f"http://user:{MARK}-password@") + f"?key={MARK}-query"
        table = {"url": url, "headers": {"x-key": "${SECRET}"}}
        command = {"command": ["/nonexistent", f"--token={MARK}-argument"], "env": {"TOKEN": f"{MARK}-environment"}}
        servers = {"one": table, "two": command}
        with serving(tmp_path, servers, reviewed=False, logging={"level": "debug"}) as gateway:
            gateway.review("one")
            use(gateway)
            upstream.down()
            call(gateway.port, "gone", {"path": f"{MARK}-gone"}, path="/servers/one/mcp")
            until(lambda: [line for line in gateway.lines if "call allowed" in line], "the debug log is on")
        assert MARK not in "\n".join(gateway.lines)
        assert f"{MARK}-header" in upstream.requests[0].head.decode()


def use(gateway):
    """Everything that could end in the log: good calls, bad ones, refusals, broken servers."""
    path = "/servers/one/mcp"
    headers = {
        "authorization": f"Bearer {MARK}-authorization",
        "cookie": f"a={MARK}-cookie",
        "mcp-session-id": f"{MARK}-session",
        "x-anything": f"{MARK}-anything",
    }
    secret = {"path": f"{MARK}-value", f"{MARK}-key": 1}
    for tool in ("good", "breaks", "dies"):
        call(gateway.port, tool, secret, headers=headers, path=path)
    call(gateway.port, "good", secret, headers=headers, path="/servers/two/mcp")
    call(gateway.port, "good", {"n": f"{MARK}\ud800"}, headers=headers, path=path)
    call(gateway.port, "good", secret, headers=headers | {"mcp-name": f"{MARK}-name"}, path=path)
    call(gateway.port, "good", secret, headers=headers | {"host": f"{MARK}.example"}, path=path)
    call(gateway.port, "good", secret, headers=headers | {"origin": f"https://{MARK}.example"}, path=path)
    call(gateway.port, "good", secret, headers=headers, path=f"/servers/{MARK}/mcp?{MARK}")
    post(gateway.port, f'{{"jsonrpc":"2.0","id":1,"method":"x","{MARK}":1,"{MARK}":2}}'.encode(), headers, path=path)
    post(gateway.port, f"not json {MARK}".encode(), headers, path=path)
    post(gateway.port, f'{{"jsonrpc":"2.0","id":1,"method":"x/{MARK}"}}'.encode(), headers, path=path)
    body = call_message("cut", secret)
    send_raw(gateway.port, head(len(body), "connection: close", f"x: {MARK}\x00", path=path) + body)
