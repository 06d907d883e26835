import asyncio

import pytest

from callgate.audit import verify
from callgate.store import Block, KillSwitch, Store, read_block, set_block
from callgate.store.control import STALE_SECONDS
from support.auditing import open_log


@pytest.fixture
async def log(url, tmp_path):
    opened = open_log(url, tmp_path / "keys")
    yield opened
    await opened.store.close()


def turn(log, on, note=""):
    action = "block_all.on" if on else "block_all.off"
    set_block(log.store, Block(on=on, at=1, by="alice", note=note), log.admin(action, "alice"))


async def until(condition, seconds=30.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_two_gateways_follow_a_switch_turned_elsewhere(log, url):
    stores = [Store.open(url), Store.open(url)]
    switches = [KillSwitch(store, environ={}) for store in stores]
    for switch in switches:
        await switch.start()
        assert (switch.engaged, switch.stale) == (False, False)
    await asyncio.to_thread(turn, log, True, "because")
    await until(lambda: all(switch.engaged for switch in switches))
    assert switches[0].why == "turned on by alice: because"
    await asyncio.to_thread(turn, log, False)
    await until(lambda: not any(switch.engaged for switch in switches))
    for switch, store in zip(switches, stores, strict=True):
        await switch.stop()
        await store.close()


async def test_turning_it_is_on_record_in_the_same_transaction(log):
    turn(log, True)
    log.catch_up()
    assert verify.verify(log.store, log.keyring).records == 1
    broken = log.admin("block_all.off", "alice")._replace(body=object())
    with pytest.raises(Exception):  # noqa: B017 — the two drivers say it differently
        set_block(log.store, Block(on=False, at=2, by="alice"), broken)
    with log.store.reading() as conn:
        assert read_block(conn).on


async def test_it_is_on_from_the_start_if_the_store_says_so(log):
    turn(log, True)
    switch = KillSwitch(log.store, environ={})
    await switch.start()
    assert switch.engaged
    await switch.stop()


async def test_a_state_that_cannot_be_read_for_long_is_stale(log):
    now = [0.0]
    switch = KillSwitch(log.store, environ={}, clock=lambda: now[0])
    assert switch.stale
    await switch.start()
    assert not switch.stale
    await switch.stop()
    now[0] = STALE_SECONDS + 0.1
    assert switch.stale


async def test_a_store_that_fails_makes_it_stale_and_comes_back(log, monkeypatch):
    now = [0.0]
    switch = KillSwitch(log.store, environ={}, clock=lambda: now[0])
    await switch.start()
    working = log.store.read

    tried = []

    async def broken(query):
        tried.append(query)
        raise RuntimeError("boom")

    monkeypatch.setattr(log.store, "read", broken)
    now[0] = STALE_SECONDS + 1
    await until(lambda: len(tried) > 1)
    assert switch.stale
    monkeypatch.setattr(log.store, "read", working)
    await until(lambda: not switch.stale)
    await switch.stop()


async def test_the_environment_cannot_turn_it_off(log):
    turn(log, True)
    switch = KillSwitch(log.store, environ={"CALLGATE_BLOCK_ALL": "off"})
    assert not switch.engaged
    await switch.start()
    assert switch.engaged
    await switch.stop()


async def test_the_configuration_forces_it_on_and_lets_go_on_reload(log):
    switch = KillSwitch(log.store, True, environ={})
    await switch.start()
    assert switch.engaged
    assert "policy.block_all" in switch.why
    switch.force(False)
    assert not switch.engaged
    await switch.stop()


async def test_a_value_that_is_neither_on_nor_off_is_on(log):
    turn(log, False)
    with log.store.writing() as conn:
        conn.exec_driver_sql("UPDATE control SET value = 'maybe'")
    with log.store.reading() as conn:
        assert read_block(conn).on
