"""A gateway that had no processor for seconds waits for its next reading of the store instead of refusing."""

import asyncio
import time

import pytest

from callgate.app import runtime as gateway_runtime
from callgate.app.runtime import Runtime
from callgate.config import parse


class Clock:
    """A clock that a test moves; it goes on from the real one, which the gateway has read already."""

    def __init__(self):
        self.now = time.monotonic()

    def __call__(self):
        return self.now


@pytest.fixture
async def running(tmp_path):
    config = parse(f'[store]\nurl = "sqlite:///{tmp_path}/callgate.db"\n', environ={})
    async with Runtime.open(config) as runtime:
        yield runtime


async def test_a_reading_that_is_overdue_is_waited_for(running):
    clock = running.switch._clock = Clock()
    await running.switch.refresh()
    clock.now += 60
    assert running.switch.refusal().reason == "store_unavailable"
    await running.catch_up()
    assert running.switch.refusal() is None


async def test_a_store_that_does_not_answer_refuses_in_the_end(running, monkeypatch):
    monkeypatch.setattr(gateway_runtime, "CATCH_UP_SECONDS", 0.0)
    clock = running.switch._clock = Clock()
    await running.switch.refresh()
    clock.now += 60
    await asyncio.wait_for(running.catch_up(), 60)
    assert running.switch.refusal().reason == "store_unavailable"
