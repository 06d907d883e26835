"""A web page makes the browser of its visitor call the gateway on that machine."""

from support.hostile import call_message
from support.table import rows

CALL = call_message("rm")


@rows(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; a=application/json",
    ],
)
def test_a_form_that_needs_no_preflight(target, kind):
    """These types a page may send anywhere without being asked (Fetch standard, CORS-safelisted)."""
    assert target.reasons(CALL, {"content-type": kind})[::2] == (415, "unsupported_media_type")


@rows(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example:8420",
        "http://evil.example#127.0.0.1",
        "http://evil.example/127.0.0.1",
        "http://127.0.0.1@evil.example",
        "http://evil.example?127.0.0.1",
        "file://",
        "chrome-extension://abcdef",
        "http://[::ffff:1.2.3.4]",
        "http://[",
        "",
    ],
)
def test_a_page_of_another_origin(target, origin):
    assert target.reasons(CALL, {"origin": origin})[::2] == (403, "origin_not_allowed")


@rows("method", ["GET", "DELETE", "OPTIONS"])
def test_other_methods_from_another_origin(target, method):
    got = target.refused(b"", {"origin": "https://evil.example"}, method=method)
    assert got.status == 403
    assert "access-control-allow-origin" not in got.fields


def test_metrics_are_not_for_pages(target):
    got = target.refused(b"", {"origin": "https://evil.example"}, method="GET", path="/metrics")
    assert got.status == 403
