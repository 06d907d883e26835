import io
import json
import logging

import msgspec
import pytest

from callgate.config import Secret
from callgate.telemetry import logs
from support.table import rows

log = logs.get("callgate.test")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def configure():
    root, ours = logging.getLogger(), logging.getLogger("callgate")
    before = root.handlers[:], root.level, ours.level

    def start(level="info", form="json", stream=None):
        stream = stream or io.StringIO()
        # pytest would keep the raw text too, and cannot send half a surrogate pair between its workers
        root.handlers[:] = [handler for handler in root.handlers if handler.filters]
        logs.configure(level, form, stream=stream)
        return stream

    yield start
    root.handlers[:], level, ours_level = before
    root.setLevel(level)
    ours.setLevel(ours_level)


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line_with_its_fields(configure):
    stream = configure()
    log.info("call refused", call="c1", seconds=0.5, on=True, server=None)
    (line,) = lines(stream)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "callgate.test",
        "event": "call refused",
        "call": "c1",
        "seconds": 0.5,
        "on": True,
        "server": None,
    }


def test_plain_logging_with_extra_fields_says_the_same(configure):
    stream = configure()
    logging.getLogger("callgate.gate").error("check failed", extra={"fields": {"check": "trust"}})
    assert lines(stream)[0]["check"] == "trust"


def test_a_field_cannot_stand_in_for_the_event_or_the_level(configure):
    stream = configure()
    log.warning("true event", level="debug", time="never", logger="x", exception="none")
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == ("true event", "warning", "callgate.test")
    assert line["level_"] == "debug"
    assert "exception" not in line


def test_the_level_counts(configure):
    stream = configure("warning")
    log.info("no")
    log.debug("no")
    log.warning("yes")
    log.error("yes")
    assert [line["event"] for line in lines(stream)] == ["yes", "yes"]


def test_other_libraries_are_heard_only_when_something_is_wrong(configure):
    stream = configure("debug")
    logging.getLogger("somebody").info("chatter")
    logging.getLogger("somebody").warning("trouble")
    log.debug("ours")
    assert [line["event"] for line in lines(stream)] == ["trouble", "ours"]


def test_configuring_again_replaces_the_first(configure):
    first = configure()
    second = configure("error")
    log.info("no")
    log.error("yes")
    assert first.getvalue() == ""
    assert [line["event"] for line in lines(second)] == ["yes"]


def test_everything_goes_to_stderr_and_nothing_to_stdout(configure, capsys):
    import sys

    configure(stream=sys.stderr)
    log.error("said")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["event"] == "said"


@rows(
    ("form", "stream", "pretty"),
    [
        ("auto", io.StringIO, False),
        ("auto", Terminal, True),
        ("json", Terminal, False),
        ("pretty", io.StringIO, True),
    ],
)
def test_the_format_follows_the_terminal_unless_told(configure, form, stream, pretty):
    stream = configure(form=form, stream=stream())
    log.info("said", a=1)
    assert stream.getvalue().startswith("{") is not pretty


def test_colours_only_on_a_terminal_that_wants_them(configure, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = configure(form="pretty", stream=Terminal())
    log.warning("said", a=1)
    assert "\x1b[33m" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    for quiet in (configure(form="pretty", stream=Terminal()), configure(form="pretty")):
        log.warning("said", a=1)
        assert "\x1b" not in quiet.getvalue()


def test_pretty_is_one_line_for_people(configure):
    stream = configure(form="pretty")
    log.info("call refused", server="files", note="two words", seconds=0.123456789, nothing=None, many=[1, 2])
    assert stream.getvalue()[9:] == 'info    call refused server=files note="two words" seconds=0.123457 many=[1, 2]\n'


@rows("hostile", ["a\nforged line", "\x1b[2Jgone", "\r", "\u202eback", "\u2028next", "\ud800"])
@rows("form", ["pretty", "json"])
def test_a_peer_cannot_forge_a_line_or_move_the_cursor(configure, form, hostile):
    stream = configure(form=form)
    log.info("said", **{"note": hostile, hostile: 1})
    logging.getLogger("callgate").warning("plain %s", hostile)
    text = stream.getvalue()
    assert text.count("\n") == 2
    assert text.replace("\n", "").isprintable()


class Leaky:
    def __str__(self):
        return "https://u:hunter2@host/ Authorization: Bearer hunter2"


class Call(msgspec.Struct):
    arguments: dict


SECRET_FIELDS = [
    {"token": "hunter2"},
    {"Authorization": "Basic hunter2"},
    {"client_secret": ["hunter2"]},
    {"X-Api-Key": "hunter2"},
    {"password": {"deep": "hunter2"}},
    {"headers": {"Cookie": "hunter2", "Accept": "x"}},
    {"nested": {"list": [{"api_key": "hunter2"}]}},
    {"arguments": {"path": "hunter2"}},
    {"call": {"params": {"x": "hunter2"}}},
    {"result": "hunter2"},
    {"body": b"hunter2"},
    {"raw": b"hunter2"},
    {"anything": Secret("hunter2")},
    {"listed": [Secret("hunter2")]},
    {"anything": b"hunter2"},
    {"url": "https://u:hunter2@host/path"},
    {"note": "sent Authorization: Bearer hunter2 to it"},
    {"note": "GET /x?access_token=hunter2&b=1"},
    {"object": Leaky()},
    {"object": ValueError("Bearer hunter2")},
    {"call": Call(arguments={"x": "hunter2"})},
]


@rows("fields", SECRET_FIELDS)
@rows("form", ["pretty", "json"])
def test_secrets_and_arguments_do_not_reach_the_log(configure, form, fields):
    stream = configure(form=form)
    log.error("said", **fields)
    logging.getLogger("callgate.room").error("said", extra={"fields": fields})
    assert stream.getvalue().count("said") == 2
    assert "hunter2" not in stream.getvalue()


@rows("form", ["pretty", "json"])
def test_secrets_in_messages_and_exceptions_do_not_reach_the_log(configure, form):
    stream = configure(form=form)
    other = logging.getLogger("somebody")
    other.warning("connecting to %s with %s", "postgresql://u:hunter2@db/x", Secret("hunter2"))
    try:
        hidden = "hunter2"
        raise ValueError(f"Bearer {hidden}")
    except ValueError as error:
        log.error("failed", error=error)
        other.exception("failed too")
    assert "hunter2" not in stream.getvalue()
    assert stream.getvalue().count("ValueError: Bearer ***") == 2
    assert "test_logs.py" in stream.getvalue()


def test_what_a_log_takes_is_bounded(configure):
    stream = configure()
    log.info("x", text="y" * 10**6, many=list(range(10**5)), table={str(n): n for n in range(10**4)}, huge=10**5000)
    assert len(stream.getvalue()) < 10_000
    assert "99950 more" in stream.getvalue()


def test_values_without_end_are_cut(configure):
    stream = configure()
    loop = {}
    loop["again"] = [loop]
    log.info("said", loop=loop)
    assert len(lines(stream)) == 1


def test_a_stream_that_fails_does_not_stop_the_caller(configure):
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    configure(stream=Broken())
    log.error("said")


def test_an_event_with_percent_signs_is_not_formatted(configure):
    stream = configure()
    log.info("100% %s", a=1)
    assert lines(stream)[0]["event"] == "100% %s"
