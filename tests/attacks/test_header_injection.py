"""Who controls an environment variable that a header is made of tries to put a second header, or request, into it."""

import pytest

from support.gateway import Gateway, serving, write_config
from support.hostile import call, call_message, hostile_server, post
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


def test_a_plain_value_arrives_as_it_is(tmp_path):
    with hostile_server() as upstream:
        table = {"url": upstream.url, "headers": {"x-key": "k-${TRICKY}"}}
        with serving(tmp_path, {"one": table}, env={"TRICKY": "a b,c"}) as gateway:
            assert call(gateway.port, "ls", headers={"x-key": "the client's own"}).status == 200
            assert [pair for pair in upstream.requests[0].fields if pair[0] == "x-key"] == [("x-key", "k-a b,c")]


@pytest.mark.parametrize("value", [b"a\x0bb", b"\x7f", b"a\x01"])
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
    with hostile_server() as upstream:
        url = upstream.url.replace("http://", "http://us%0d%0ax-injected:1:pa%0d%0ass@")
        with serving(tmp_path, {"one": {"url": url}}) as gateway:
            assert post(gateway.port, call_message("ls")).status == 200
            assert "x-injected" not in upstream.requests[0].headers
            assert upstream.requests[0].headers["authorization"].startswith("Basic ")
