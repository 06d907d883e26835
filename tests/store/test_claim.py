"""Whose log it is, on both databases."""

import asyncio

import pytest

from callgate.audit import AuditLog, verify
from callgate.errors import KeyringError
from callgate.keyring import CHECKPOINT, SEAL, Keyring
from callgate.store import Store
from support.auditing import fill, open_log


@pytest.fixture
def url(bare_url):
    """A store that nobody has opened: its tables are made here."""
    return bare_url


async def test_of_several_founders_with_keys_of_their_own_one_keeps_the_log(url, tmp_path):
    stores = [await asyncio.to_thread(Store.open, url) for _ in range(4)]
    rings = [Keyring(tmp_path / f"keys-{number}", environ={}) for number in range(4)]
    opening = (asyncio.to_thread(AuditLog, store, ring) for store, ring in zip(stores, rings, strict=True))
    logs = await asyncio.gather(*opening, return_exceptions=True)
    kept = [log for log in logs if isinstance(log, AuditLog)]
    assert [type(log) for log in logs if log not in kept] == [KeyringError] * 3
    fill(kept[0], 2)
    kept[0].catch_up()
    assert verify.verify(kept[0].store, kept[0].keyring).records == 4
    for store in stores:
        await store.close()


async def test_founders_that_share_keys_all_use_the_log(url, tmp_path):
    stores = [await asyncio.to_thread(Store.open, url) for _ in range(4)]
    opening = (asyncio.to_thread(AuditLog, store, Keyring(tmp_path / "keys", environ={})) for store in stores)
    for number, log in enumerate(await asyncio.gather(*opening)):
        fill(log, 1, first=10 * number)
        await asyncio.to_thread(log.catch_up)
    assert verify.verify(stores[0], Keyring(tmp_path / "keys", environ={})).records == 8
    for store in stores:
        await store.close()


async def test_keys_that_were_rotated_are_still_the_logs(url, tmp_path):
    log = open_log(url, tmp_path / "keys")
    fill(log, 2)
    log.catch_up()
    for name in (SEAL, CHECKPOINT):
        log.keyring.rotate(name)
    again = open_log(url, tmp_path / "keys")
    again.catch_up()
    assert verify.verify(again.store, again.keyring).records == 4
    await log.store.close()
    await again.store.close()


async def test_a_few_changed_seals_are_tampering_and_not_foreign_keys(url, tmp_path):
    log = open_log(url, tmp_path / "keys")
    fill(log, 4)
    with log.store.writing() as conn:
        conn.exec_driver_sql(f"UPDATE audit_record SET seal = {_zeros(log.store)} WHERE id > 6")
    open_log(url, tmp_path / "keys").store.close_sync()
    with log.store.writing() as conn:
        conn.exec_driver_sql(f"UPDATE audit_record SET seal = {_zeros(log.store)}")
    with pytest.raises(KeyringError, match="not those") as refused:
        open_log(url, tmp_path / "keys")
    assert "store.keys_dir" in refused.value.advice
    assert "callgate audit verify" in refused.value.advice
    await log.store.close()


def _zeros(store):
    return "zeroblob(36)" if store.kind == "sqlite" else "decode(repeat('00', 36), 'hex')"
