"""Refusals ahead of the gate, counted: windows, the bound on callers, a store that fails, the end of the process."""

import pytest

from callgate.app.refusal_recorder import RefusalRecorder
from callgate.audit import ArgumentsPolicy
from callgate.audit.reading import entries
from callgate.audit.storage import Filter
from callgate.errors import Reason, Refused, StoreUnavailable
from callgate.jsonrpc import Limits, parse
from callgate.transport.http.exchange import Exchange
from support.auditing import open_log
from support.callers import Clock, call
from support.table import rows

UNKNOWN = Refused(Reason.UNKNOWN_KEYID)
WINDOW = 60.0
OTHERS = {"peer": "several", "proof": "several"}


@pytest.fixture
async def log(tmp_path):
    made = open_log(f"sqlite:///{tmp_path / 'callgate.db'}", tmp_path / "keys")
    yield made
    await made.store.close()


class Caller:
    """Sends refused calls to a recorder, and reads what is on record."""

    def __init__(self, log, **options):
        self.clock = Clock()
        self.log = log
        self.recorder = RefusalRecorder(
            log,
            lambda: ArgumentsPolicy("redacted"),
            "gateway",
            clock=self.clock,
            monotonic=self.clock,
            window=WINDOW,
            **options,
        )

    def send(self, tool="search", *, refused=UNKNOWN, peer="192.0.2.1", server="one", body=None, **headers):
        fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {"method": "POST", "path": "/mcp", "headers": fields, "client": (peer, 1)}
        raw = call(tool, text="hello") if body is None else body
        message = parse(raw, Limits()) if raw else None
        self.recorder.refused(Exchange(scope, None, None), server, message, refused)

    def later(self, seconds=WINDOW):
        self.clock.now += seconds
        self.recorder.end_windows()

    def records(self):
        assert self.log.store.flush()
        with self.log.store.audit_reading() as tables:
            return [one.decision for one in entries(tables, Filter(), 10_000)]

    def counts(self):
        return [None if one.repeated is None else one.repeated.count for one in self.records()]


async def test_the_first_at_once_and_the_rest_when_the_window_ends(log):
    caller = Caller(log)
    caller.send("search")
    started = caller.clock.ms()
    assert caller.counts() == [None]
    for tool in ("read", "read", "write"):
        caller.clock.now += 1
        caller.send(tool)
    assert caller.counts() == [None]
    caller.later()
    first, rest = caller.records()
    assert (first.tool, first.at, first.arguments.value) == ("search", started, {"text": "hello"})
    assert (rest.repeated.count, rest.repeated.tools) == (3, ("read", "write"))
    assert (rest.repeated.first, rest.repeated.last) == (started + 1000, started + 3000)
    assert (rest.reason, rest.server, rest.caller) == (first.reason, first.server, first.caller)
    assert rest.arguments.value is None


async def test_who_goes_on_leaves_one_record_a_window_and_who_stops_is_forgotten(log):
    caller = Caller(log)
    for _ in range(3):
        caller.send()
        caller.send()
        caller.later()
    assert caller.counts() == [None, 1, 2, 2]
    caller.later()
    assert caller.recorder._groups == {}
    caller.send()
    assert caller.counts() == [None, 1, 2, 2, None]


async def test_another_caller_reason_or_server_is_counted_for_itself(log):
    caller = Caller(log)
    keyed = {"signature": "sig1=:AAAA:", "signature_input": 'sig1=("@method");keyid="a"'}
    for _ in range(2):
        caller.send()
        caller.send(peer="192.0.2.2")
        caller.send(server="two")
        caller.send(refused=Refused(Reason.SIGNATURE_EXPIRED))
        caller.send(**keyed)
        caller.send(**keyed | {"signature_input": 'sig1=("@method");keyid="b"'})
        caller.send(**keyed | {"signature_agent": 'sig1="https://a.example"'})
    caller.later()
    assert caller.counts() == [None] * 7 + [1] * 7


@rows(
    ("written", "shown"),
    [
        ('sig1="https://a.example/keys"', "https://a.example/keys"),
        ('"https://a.example"', "https://a.example"),
        ('sig1="https://me:secret@a.example:8443/keys?token=secret#secret"', "https://a.example:8443/keys"),
        ('sig1="' + "https://a.example/" + "x" * 1000 + '"', "https://a.example/" + "x" * 238),
        ('sig1="https://a.example/\x9b\xad"', "https://a.example/\ufffd\ufffd"),
        ("garbage", None),
        ('sig1=""', None),
    ],
)
async def test_what_is_shown_of_a_claimed_directory(log, written, shown):
    caller = Caller(log)
    fields = [(b"signature", b"sig1=:AAAA:"), (b"signature-agent", written.encode("latin-1"))]
    scope = {"method": "POST", "path": "/mcp", "headers": fields, "client": ("192.0.2.1", 1)}
    caller.recorder.refused(Exchange(scope, None, None), "one", parse(call("search"), Limits()), UNKNOWN)
    assert caller.records()[-1].caller.get("directory (claimed, not verified)") == shown


async def test_callers_beyond_the_bound_are_counted_by_reason_and_server(log):
    caller = Caller(log, most=3)
    for number in range(100):
        caller.send(peer=f"192.0.2.{number}")
    assert len(caller.recorder._groups) == 4
    caller.send(peer="192.0.2.99", server="two")
    assert len(caller.recorder._groups) == 5
    caller.later()
    found = caller.records()
    assert [one.caller["peer"] for one in found[:3]] == ["192.0.2.0", "192.0.2.1", "192.0.2.2"]
    assert [(one.server, one.caller, one.repeated and one.repeated.count) for one in found[3:]] == [
        ("one", OTHERS, None),
        ("two", OTHERS, None),
        ("one", OTHERS, 96),
    ]
    # There is room again for those who come now.
    caller.later()
    caller.send(peer="192.0.2.200")
    assert caller.records()[-1].caller["peer"] == "192.0.2.200"


async def test_a_store_that_takes_nothing_loses_no_count(log, monkeypatch):
    caller = Caller(log)
    with monkeypatch.context() as broken:

        def fails(_row):
            raise StoreUnavailable("20000 writes wait for the store already")

        broken.setattr(log.store, "append_soon", fails)
        caller.send()
        caller.send()
        caller.later()
        caller.send()
    assert caller.counts() == []
    caller.later()
    (found,) = caller.records()
    assert found.repeated.count == 3


async def test_everything_is_written_at_the_end(log):
    caller = Caller(log)
    for number in range(5):
        caller.send(peer=f"192.0.2.{number % 2}")
    caller.recorder.close()
    assert caller.counts() == [None, None, 2, 1]


async def test_the_timer_ends_the_window(log, tmp_path):
    recorder = Caller(log)
    recorder.recorder = RefusalRecorder(log, lambda: ArgumentsPolicy("redacted"), "gateway", window=0.05)
    recorder.send()
    recorder.send()
    while len(recorder.records()) < 2:
        await recorder.log.store.run(lambda _connection: None)
    recorder.recorder.close()
    assert recorder.counts() == [None, 1]


async def test_what_is_kept_of_a_message_is_short(log):
    caller = Caller(log)
    caller.send("s" * 5000, body=call("s" * 5000, text="x" * 20_000))
    caller.send(body=b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}', peer="192.0.2.2")
    caller.send(body=b"", mcp_name="told", peer="192.0.2.3")
    caller.send(body=b'{"jsonrpc":"2.0","id":1,"method":"ping"}', peer="192.0.2.4")
    found = caller.records()
    assert [one.tool for one in found] == ["s" * 256, "", "told"]
    assert all(one.arguments.value is None for one in found)
