"""A page's own name is made to point at 127.0.0.1: the browser then calls the gateway and says so in Host only."""

from support.hostile import call_message, head, status_of
from support.table import rows

CALL = call_message("rm")


@rows(
    "host",
    [
        "evil.example",
        "evil.example:8420",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:127.0.0.1",
        "127.0.0.1:80:evil",
        "127.0.0.1, evil.example",
        "user@127.0.0.1",
        "[::1].evil.example",
        "0x7f000001.evil",
        "127.0.0.1\t.evil",
        "",
    ],
)
def test_a_host_that_is_not_ours(target, host):
    assert target.reasons(CALL, {"host": host})[::2] == (403, "host_not_allowed")


def test_no_host_at_all(target):
    for version in (b"HTTP/1.0", b"HTTP/1.1"):
        raw = b"POST /mcp %b\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
        got, bodies = target.raw(raw % (version, len(CALL), CALL))
        assert status_of(got) in (400, 403)
        assert bodies == []


def test_the_host_of_the_target_counts(target):
    """Where a target has one, it stands for Host (RFC 9112 §3.2.2)."""
    raw = head(len(CALL), "connection: close", path="http://evil.example/mcp")
    got, bodies = target.raw(raw + CALL)
    assert status_of(got) == 403
    assert bodies == []


@rows("method", ["GET", "DELETE"])
def test_other_methods(target, method):
    assert target.reasons(b"", {"host": "evil.example"}, method=method)[::2] == (403, "host_not_allowed")


@rows("path", ["/metrics", "/nowhere"])
def test_other_places(target, path):
    assert target.refused(b"", {"host": "evil.example"}, method="GET", path=path).status == 403
