"""A store that is locked, full, read-only or gone: no call passes unrecorded, and all is well when it is back."""

import os
import resource
import sqlite3
import subprocess
from contextlib import closing, contextmanager

import pytest

from support import raw
from support.fork_server import CALLGATE, run
from support.gateway import Gateway, serving, store_path
from support.hostile import assert_works, call, hostile_server, until
from support.records import ask, calls_of

REASONS = ("audit_unavailable", "store_unavailable")
STORE = {"busy_seconds": 0.3}


@pytest.fixture(scope="module")
def upstream():
    with hostile_server(tools=["unrecorded", "while_locked", "while_full", "replaced"]) as server:
        yield server


@contextmanager
def gateway_at(directory, upstream):
    with serving(directory, {"one": {"url": upstream.url}}, store=STORE) as running:
        assert_works(running.port)
        yield running


def assert_refused(gateway, upstream):
    got = until(lambda: (r := call(gateway.port, "unrecorded")).status != 200 and r, "a refusal")
    assert (got.status, got.reason in REASONS) == (503, True), got
    return got


def ready(gateway):
    return raw.ask(f"{gateway.address}/readyz", None, {}, "GET")


def assert_recovers(gateway):
    until(lambda: call(gateway.port, "good").status == 200, "a call passes again")
    assert_works(gateway.port)


def test_a_store_that_is_locked(tmp_path, upstream):
    with gateway_at(tmp_path, upstream) as gateway:
        with closing(sqlite3.connect(gateway.store, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for _ in range(3):
                got = call(gateway.port, "while_locked")
                assert (got.status, got.reason) == (503, "audit_unavailable")
            assert "while_locked" not in upstream.tools
            other.execute("ROLLBACK")
        assert_recovers(gateway)


def test_a_file_that_cannot_grow(tmp_path, upstream):
    """The system refuses every further byte, as a quota does."""
    with gateway_at(tmp_path, upstream) as gateway:
        _, hard = resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (1024, hard))
        before = upstream.tools.count("while_full")
        for _ in range(3):
            got = call(gateway.port, "while_full")
            assert got.status == 503
            assert got.reason in REASONS
        assert upstream.tools.count("while_full") == before
        # Whoever sends calls where they can be taken learns of both, without a call.
        until(lambda: ready(gateway).status == 503, "it says that it is not ready")
        assert b"nothing can be written" in ready(gateway).body
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: ready(gateway).status == 200, "it says that it is ready")
        assert_recovers(gateway)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with room for two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mount.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_full(small_disk, upstream):
    with gateway_at(small_disk, upstream) as gateway:
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
            while True:
                file.write(b"x" * 4096)
        assert_refused(gateway, upstream)
        before = len(upstream.requests)
        for _ in range(3):
            assert call(gateway.port, "while_full").status == 503
        assert len(upstream.requests) == before
        filler.unlink()
        assert_recovers(gateway)


def test_a_disk_that_is_read_only(small_disk, upstream):
    """A store that can be read but not written is no store: the gateway says so and does not start."""
    with gateway_at(small_disk, upstream):
        pass
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(AssertionError, match=r"callgate\.db failed"):
        Gateway(small_disk / "callgate.toml")
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    with gateway_at(small_disk, upstream):
        pass


def test_a_store_that_was_deleted(tmp_path, upstream):
    """Records written into a file that has no name any more are records nobody will ever read."""
    with gateway_at(tmp_path, upstream) as gateway:
        for name in ("callgate.db", "callgate.db-wal", "callgate.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        assert_refused(gateway, upstream)


def test_a_store_whose_place_another_file_took(tmp_path, upstream):
    """The switch that an operator turns is in the new file: a gateway that holds on to the old one would not see it."""
    with gateway_at(tmp_path, upstream) as gateway:
        for name in ("callgate.db", "callgate.db-wal", "callgate.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        with closing(sqlite3.connect(store_path(tmp_path))) as other:
            other.execute("CREATE TABLE other (x)")
        assert_refused(gateway, upstream)


def test_a_store_that_was_replaced_by_another_good_one(tmp_path, upstream):
    """Nothing passes until an operator accepts the new log; what passes then is on record in the store that is there."""
    with gateway_at(tmp_path, upstream) as gateway:
        # The log has been signed, so that it is known beside the keys.
        until(lambda: list(tmp_path.rglob("log.*.origin")), "which log the store holds is noted")
        for name in ("callgate.db", "callgate.db-wal", "callgate.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        # The first command makes a new store. It says what is wrong and what to type.
        said = run([CALLGATE, "block-all", "off", "-c", str(gateway.config)])
        assert said.returncode == 1
        assert "this store held the log" in said.stderr
        assert (
            "replaced or deleted the store yourself, type `callgate audit accept-restore --why REASON`" in said.stderr
        )
        assert call(gateway.port, "replaced").status == 503
        until(lambda: ready(gateway).status == 503, "it says that it is not ready")
        # Whichever it notices first: that its file is gone, or that the new one has another log.
        said_ready = ready(gateway).body
        assert any(why in said_ready for why in (b"start the gateway again", b"no continuation of what was on record"))
        # An emergency stop goes through even so, and accepting the log leaves it on.
        ask(gateway, "block-all", "on")
        ask(gateway, "audit", "accept-restore", "--why", "I deleted it", "--yes")
        assert call(gateway.port, "replaced").status == 503
        assert "replaced" not in upstream.tools
    again = Gateway(gateway.config)
    try:
        assert call(again.port, "replaced").reason == "blocked_by_policy"
        ask(again, "block-all", "off")
        until(
            lambda: call(again.port, "good").reason != "blocked_by_policy", "the gateway hears that the switch is off"
        )
        again.review("one")
        assert_works(again.port)
        assert calls_of(again, "good")
        ask(again, "audit", "verify")
    finally:
        again.stop()


def test_a_gateway_does_not_start_without_its_store(tmp_path, upstream):
    place = tmp_path / "callgate.db"
    place.write_bytes(os.urandom(4096))
    with pytest.raises(AssertionError, match="not a SQLite file"), gateway_at(tmp_path, upstream):
        pass
