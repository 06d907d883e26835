"""The attacker spells a path so that it leads to a server, or a place, that its plain spelling does not."""

from support.hostile import call_message, head, post, status_of
from support.table import rows

CALL = call_message("rm")
# These are no endpoints, so the console has them: it knows its own pages, and answers its own host and origin only.
CONSOLE = {"/mcp/", "/MCP", "/mcp%00", "/mcp%2f", "/servers/one/mcp/../..", "/servers/one/mcp%3fx"}


@rows(
    "path",
    [
        "//mcp",
        "/mcp/",
        "/mcp/../mcp",
        "/./mcp",
        "/MCP",
        "/mcp%00",
        "/mcp%2f",
        "/%2fmcp",
        "/servers/one%2f..%2fone/mcp",
        "/servers/one/../one/mcp",
        "/servers//mcp",
        "/servers/../mcp",
        "/servers/mcp",
        "/servers/one/mcp/../..",
        "/servers/one//mcp",
        "/servers/one%00/mcp",
        "/servers/ONE/mcp",
        "/servers/one%20/mcp",
        "/servers/one;x=y/mcp",
        "/servers/%E2%80%AEeno/mcp",
        "/servers/%ff/mcp",
        "/servers/one/mcp%3fx",
        "/servers/one/x/mcp",
        "/healthz/mcp",
        "/metrics/mcp",
    ],
)
@rows("method", ["POST", "GET", "DELETE"])
def test_no_spelling_but_the_plain_one_leads_anywhere(target, path, method):
    got = target.refused(CALL if method == "POST" else b"", path=path, method=method)
    if path in CONSOLE:
        assert got.status in (403, 404, 421)
    else:
        assert (got.status, got.reason) == (404, "server_unknown")


def test_a_query_changes_nothing_and_does_not_travel_on(target):
    before = len(target.upstream.requests)
    assert post(target.port, CALL, path="/mcp?admin=1&x=/servers/two/mcp").status == 200
    assert target.upstream.requests[before].head.startswith(b"POST /mcp HTTP/1.1\r\n")


@rows("method", ["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND"])
def test_other_methods_lead_nowhere(target, method):
    before = len(target.upstream.requests)
    got, bodies = target.raw(head(None, "connection: close", method=method))
    assert status_of(got) == 405
    assert bodies == []
    assert len(target.upstream.requests) == before + 1
