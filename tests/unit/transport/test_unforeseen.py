"""What nobody foresaw: the client gets a refusal, the log a place, and neither gets the text that broke us."""

import json
import logging
from types import SimpleNamespace

from callgate.gate import Gate
from callgate.jsonrpc import Limits
from callgate.pipeline.dispatcher import Dispatcher
from callgate.telemetry.metrics import Metrics
from callgate.telemetry.spans import NoTracer
from callgate.transport.http.app import App, Site
from callgate.transport.http.exchange import Guard
from support.table import rows

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"k":"hunter2"}}}'


class Silent:
    """Books and watch of a gateway that keeps nothing."""

    spans = NoTracer()
    requests = Metrics().http_requests.series

    async def record(self, call, decision):
        pass

    def decided(self, *_args):
        pass

    completed = failure = decided


class Breaking:
    name, sees_headers, busy, sessions = "one", True, 0, 0

    async def prepare(self, exchange, message):
        pass

    async def post(self, exchange, entry):
        raise KeyError(entry.calls[0].call.arguments["k"])


@rows("level", [logging.DEBUG, logging.ERROR])
async def test_the_argument_that_broke_it_is_not_in_the_log(caplog, level):
    caplog.set_level(level)
    silent = Silent()
    door = Dispatcher(Gate(kill_switch=lambda: None, record=silent.record), silent, Limits())
    site = Site(door, Guard("127.0.0.1", (), ()), {"one": Breaking()}, 5.0, 10, 2**20)
    sent = []

    async def receive():
        return {"type": "http.request", "body": BODY}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "client": None}
    await App(SimpleNamespace(current=site), silent)(scope, receive, send)
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"])["error"]["data"]["reason"] == "internal_error"
    (record,) = [record for record in caplog.records if record.message == "request failed"]
    assert record.exc_info is None
    assert "KeyError in test_unforeseen.py" in record.fields["error"]
    assert "hunter2" not in str(vars(record))
    assert "hunter2" not in str(sent)
