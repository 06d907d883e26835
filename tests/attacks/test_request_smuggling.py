"""The attacker frames one request so that the server behind sees two, the second never checked."""

from support.hostile import call_message, head, status_of
from support.table import rows

CALL = call_message("ls")
HIDDEN = call_message("rm")
SECOND = head(len(HIDDEN), path="/mcp") + HIDDEN
CHUNKED = "transfer-encoding: chunked"


def chunk(data, extension=b""):
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


END = b"0\r\n\r\n"
SMUGGLED = {
    "length_and_chunks": head(len(CALL), "connection: close", CHUNKED) + chunk(CALL) + END + SECOND,
    "chunks_then_length": head(None, "connection: close", CHUNKED, "content-length: 4") + chunk(CALL) + END + SECOND,
    "two_lengths": head(len(CALL), "connection: close", "content-length: 0") + CALL + SECOND,
    "list_of_lengths": head(None, "connection: close", f"content-length: {len(CALL)}, {len(CALL)}") + CALL + SECOND,
    "signed_length": head(None, "connection: close", f"content-length: +{len(CALL)}") + CALL + SECOND,
    "hex_length": head(None, "connection: close", "content-length: 0x10") + CALL + SECOND,
    "negative_length": head(None, "connection: close", "content-length: -1") + CALL + SECOND,
    "huge_length": head(None, "connection: close", "content-length: 18446744073709551617") + CALL + SECOND,
    "length_with_space": head(None, "connection: close", f"content-length : {len(CALL)}") + CALL + SECOND,
    "chunked_obscured": head(None, "connection: close", "transfer-encoding: xchunked") + chunk(CALL) + END + SECOND,
    "chunked_not_last": head(None, "connection: close", "transfer-encoding: chunked, identity")
    + chunk(CALL)
    + END
    + SECOND,
    "chunked_vertical_tab": head(None, "connection: close", "transfer-encoding: \x0bchunked")
    + chunk(CALL)
    + END
    + SECOND,
    "chunked_name_space": head(None, "connection: close", "transfer-encoding : chunked") + chunk(CALL) + END + SECOND,
    "bad_chunk_size": head(None, "connection: close", CHUNKED) + b"0x5\r\n" + CALL + b"\r\n" + END + SECOND,
    "chunk_size_overflow": head(None, "connection: close", CHUNKED) + b"fffffffffffffffff\r\n" + CALL + END + SECOND,
    "chunk_without_end": head(None, "connection: close", CHUNKED) + b"%x\r\n" % len(CALL) + CALL + b"XX" + END + SECOND,
    "folded_header": head(len(CALL), "connection: close", "x: 1\r\n transfer-encoding: chunked") + CALL + SECOND,
    "nul_in_header": head(len(CALL), "connection: close", "x: a\x00b") + CALL + SECOND,
    "bare_cr_in_header": head(len(CALL), "connection: close", "x: a\rtransfer-encoding: chunked") + CALL + SECOND,
    "bare_lf_in_header": head(len(CALL), "connection: close", "x: a\ntransfer-encoding: chunked") + CALL + SECOND,
    "space_in_name": head(len(CALL), "connection: close", "x y: 1") + CALL + SECOND,
    "no_colon": head(len(CALL), "connection: close", "nonsense") + CALL + SECOND,
    "line_end_in_target": head(len(CALL), "connection: close", path="/mcp\rX: y") + CALL + SECOND,
    "another_protocol": head(len(CALL), "connection: close").replace(b"HTTP/1.1", b"HTTP/3.7") + CALL + SECOND,
    "upgrade": head(len(CALL), "connection: close, upgrade", "upgrade: h2c") + CALL + SECOND,
    "connect": head(None, "connection: close", method="CONNECT") + SECOND,
    "second_after_close": head(len(CALL), "connection: close") + CALL + SECOND,
    "second_at_once": head(len(CALL)) + CALL + SECOND.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1),
}


@rows("which", SMUGGLED)
def test_the_hidden_call_never_arrives(target, which):
    """At most the first call passes, and then exactly as it was checked."""
    got, bodies = target.raw(SMUGGLED[which])
    assert bodies in ([], [CALL])
    assert got.count(b"HTTP/1.1 ") <= 1
    if not bodies:
        assert status_of(got) in (400, 404, 405, 408, 413, 0)


def test_a_body_in_chunks_goes_on_as_one_with_its_length(target):
    """The gateway frames by itself: nothing of the client's own framing travels on."""
    raw = head(None, "connection: close", CHUNKED) + chunk(CALL[:10], b";x=y") + chunk(CALL[10:]) + END
    got, bodies = target.raw(raw)
    assert status_of(got) == 200
    assert bodies == [CALL]
    sent = [request for request in target.upstream.requests if request.unlabelled == CALL][-1]
    assert sent.headers["content-length"] == str(len(sent.body))
    assert "transfer-encoding" not in sent.headers
