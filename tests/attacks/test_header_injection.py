"""Who controls an environment variable that a header is made of tries to put a second header, or request, into it."""

import pytest

from support.gateway import Gateway, serving, write_config
from support.hostile import call, call_message, hostile_server
from support.table import rows


@rows(
    "value",
    [
        "a\r\nx-injected: 1",
        "a\nx-injected: 1",
        "a\rx-injected: 1",
        "a\r\n\r\nPOST /mcp HTTP/1.1",
        "a\x0bb",
        "€",
    ],
)
def test_such_a_value_is_refused_at_the_start(tmp_path, value):
    with hostile_server() as upstream:
        table = {"url": upstream.url, "headers": {"x-key": "${TRICKY}"}}
        config = write_config(tmp_path, {"one": table})
        with pytest.raises(AssertionError, match="header value"):
            Gateway(config, {"TRICKY": value})


def test_a_plain_value_arrives_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("TRICKY", "a b,c")
    with hostile_server(tools=["ls"]) as upstream:
        table = {"url": upstream.url, "headers": {"x-key": "k-${TRICKY}"}}
        with serving(tmp_path, {"one": table}) as gateway:
            assert "result" in call(gateway.port, "ls", headers={"x-key": "the client's own"}).json
            assert upstream.requests[-1].tool == "ls"
            assert [pair for pair in upstream.requests[-1].fields if pair[0] == "x-key"] == [("x-key", "k-a b,c")]


@rows("value", [b"a\x0bb", b"\x7f", b"a\x01"])
def test_control_characters_of_a_client_do_not_reach_the_server(target, value):
    before = len(target.upstream.requests)
    lines = (
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\nx-a: %b\r\n"
    )
    body = call_message("ls")
    target.raw(lines % value + b"content-length: %d\r\n\r\n" % len(body) + body)
    for request in target.upstream.requests[before:]:
        assert value not in request.head


def test_a_header_value_in_a_url_is_only_a_url(tmp_path):
    """User information in the address becomes a header; line ends in it stay encoded."""
    with hostile_server(tools=["ls"]) as upstream:
        url = upstream.url.replace("http://", "http://us%0d%0ax-injected:1:pa%0d%0ass@")
        with serving(tmp_path, {"one": {"url": url}}) as gateway:
            assert "result" in call(gateway.port, "ls").json
            assert upstream.tools == ["ls"]
            for request in upstream.requests:
                assert "x-injected" not in request.headers
                assert request.headers["authorization"].startswith("Basic ")
