"""What nobody thought of while a request is under way: the client gets an answer all the same."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from callgate.config import ServerSection
from callgate.jsonrpc import Limits, parse
from callgate.pipeline.dispatcher import Admitted
from callgate.transport.upstream.wrapped_url import WrappedUrl


class Broken:
    """An HTTP client with a defect."""

    patience = 1.0
    own_headers = ()

    async def open(self, *_: Any) -> Any:
        raise KeyError("secret")


@pytest.fixture
def said():
    return []


@pytest.fixture
def wrapped(said):
    async def deliver(lines: Sequence[bytes]) -> None:
        said.extend(map(json.loads, lines))

    found = WrappedUrl(ServerSection(), 1000)
    found._deliver = deliver
    found._client = Broken()  # type: ignore[assignment]
    return found


async def test_everything_owed_is_answered(wrapped, said, caplog):
    batch = b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":"two","method":"b"}]'
    with caplog.at_level(logging.ERROR):
        await wrapped.send(Admitted(parse(batch, Limits())))
        await wrapped.send_eof()
    assert {(one["id"], one["error"]["data"]["reason"]) for one in said} == {
        (1, "internal_error"),
        ("two", "internal_error"),
    }
    assert [(record.message, record.fields) for record in caplog.records] == [("request failed", {"error": "KeyError"})]
    assert "secret" not in caplog.text


async def test_a_notification_that_fails_does_not_end_the_line(wrapped, said, caplog):
    with caplog.at_level(logging.ERROR):
        await wrapped.send(Admitted(parse(b'{"jsonrpc":"2.0","method":"n"}', Limits())))
    assert said == []
    assert [record.fields for record in caplog.records] == [{"error": "KeyError"}]
