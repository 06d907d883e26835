"""A stream whose events a careless reader would cut elsewhere than a client: one reply each, and the record says so."""

from support.hostile import answer, call, reply, until
from support.records import calls_of
from support.table import rows

NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
STREAMS = {
    "crlf_cr": b"data: %b\r\n\rdata: " + NOTE + b"\r\n\r\n",
    "lf_cr": b"data: %b\n\rdata: " + NOTE + b"\n\n",
    "cr_cr": b"data: %b\r\rdata: " + NOTE + b"\r\r",
    "cr_crlf": b"data: %b\r\r\ndata: " + NOTE + b"\n\n",
    "last": b"data: %b\r\n\r",
    "byte_order_mark": b"\xef\xbb\xbfdata: %b\n\n",
}


@rows("name", STREAMS)
def test_the_client_gets_one_reply_and_the_record_says_result(target, name):
    def behave(peer, request):
        peer.send(answer(STREAMS[name].replace(b"%b", reply(request.id)), kind="text/event-stream"))

    target.upstream.behaviours[name] = behave
    got = call(target.port, name, rpc_id=name)
    assert got.body.startswith(STREAMS[name].replace(b"%b", reply(name)).rstrip(b"\r\n"))
    assert got.body.count(b'"id"') == 1
    assert b"error" not in got.body
    found = until(lambda: [one for one in calls_of(target.gateway, name) if one["outcome"]], "its outcome")
    assert [one["outcome"]["outcome"] for one in found] == ["result"]
