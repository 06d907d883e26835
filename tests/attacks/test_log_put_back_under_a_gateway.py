"""An older copy of the store is put back, and the gateway goes on writing until the log is as long as before: calls
that ran are missing, and everything that is left verifies by itself."""

import asyncio

import pytest
from sqlalchemy import text

from callgate.audit import verify
from callgate.audit.log import AuditLog
from callgate.cli import run
from callgate.errors import Reason, Refused, Tampered
from callgate.store import Store
from support.auditing import decision, fill, open_log
from support.gateway import HARMLESS, Gateway, serving
from support.persons import approval_site, http_vault
from support.raw import ask
from support.sessions import Guest, until
from support.states import modern_guest, reason
from support.stores import ready

TABLES = ("audit_record", "audit_leaf", "audit_tile", "audit_tree", "audit_checkpoint")


class Aside:
    """The rows of the log, kept aside and put back: what a copy of the whole store does on either database."""

    def __init__(self, store):
        with store.reading() as conn:
            self._rows = {name: conn.execute(text(f"SELECT * FROM {name}")).mappings().all() for name in TABLES}

    def put_back(self, store, *, nothing=False):
        """`nothing`: the copy is of a time before the first record."""
        with store.writing() as conn:
            for name, rows in self._rows.items():
                conn.execute(text(f"DELETE FROM {name}"))
                for row in () if nothing else rows:
                    columns = ", ".join(row)
                    conn.execute(text(f"INSERT INTO {name} ({columns}) VALUES (:{', :'.join(row)})"), dict(row))
            if store.kind == "sqlite":
                last = 0 if nothing else max(row["id"] for row in self._rows["audit_record"])
                conn.execute(text(f"UPDATE sqlite_sequence SET seq = {last} WHERE name = 'audit_record'"))


class Elsewhere:
    """The same keys on a machine that has nothing noted."""

    directory = None

    def __init__(self, ring):
        self._ring = ring

    def __getattr__(self, name):
        return getattr(self._ring, name)


@pytest.fixture(params=["sqlite", "postgresql"])
def forked(request, tmp_path):
    """A log that was put back to ten calls after five more; opened again, as by a gateway that starts."""
    with ready(request.param, tmp_path) as url:
        log = open_log(url, tmp_path / "keys")
        fill(log, 10)
        log.catch_up()
        aside = Aside(log.store)
        fill(log, 5, first=11)
        log._sequencer.close()
        aside.put_back(log.store)
        log.store.close_sync()
        again = open_log(url, tmp_path / "keys")
        yield again
        again.store.close_sync()


def noted(log):
    [place] = log.keyring.directory.glob("noted.*")
    return place.read_text()


def check(log):
    return verify.verify(log.store, log.keyring, earlier=[noted(log)])


def test_nothing_goes_on_from_there(forked):
    before = noted(forked)
    with pytest.raises(Refused) as caught:
        asyncio.run(forked.decided(decision(77)))
    assert caught.value.reason is Reason.AUDIT_UNAVAILABLE
    assert "accept-restore" in caught.value.advice
    forked.noted("config.reload", "gateway")
    assert not forked.refused(decision(78))
    with pytest.raises(Tampered, match="no continuation"):
        forked.catch_up()
    forked._sequencer.close()
    assert noted(forked) == before
    with pytest.raises(Tampered, match="cut off"):
        check(forked)


def test_made_longer_than_before_by_a_gateway_that_cannot_know(forked):
    """The log grows beyond what is noted: that stays noted, and gives it away."""
    before, other = noted(forked), AuditLog(forked.store, Elsewhere(forked.keyring))
    fill(other, 20, first=100)
    other.catch_up()
    for log in (forked, AuditLog(forked.store, forked.keyring)):
        with pytest.raises(Tampered, match="rewritten"):
            log.catch_up()
        with pytest.raises(Refused):
            asyncio.run(log.decided(decision(77)))
        log._sequencer.close()
    assert noted(forked) == before
    with pytest.raises(Tampered, match=r"rewritten|do not give the root"):
        check(forked)


def test_an_operator_accepts_it_on_record(forked):
    lost = noted(forked)
    record = forked.accept_restore("olga@host", "the disk died")
    assert forked.forked is None
    asyncio.run(forked.decided(decision(77)))
    forked.catch_up()
    assert check(forked).size == 22
    assert record.detail["instead_of"] == lost
    with forked.store.reading() as conn:
        rows = conn.execute(text("SELECT body FROM audit_record ORDER BY id")).scalars().all()
    assert b"the disk died" in rows[20]
    # It was for this once.
    with pytest.raises(Exception, match="nothing to accept"):
        forked.accept_restore("olga@host", "again")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_over_the_wire(kind, tmp_path, capsys):
    """Under a gateway that runs, by whoever can write to the database; calls are refused until it is accepted."""
    with (
        ready(kind, tmp_path) as url,
        http_vault(tmp_path / "web") as vault,
        serving(
            tmp_path,
            {"web": {"url": vault.url, "trust": HARMLESS}},
            store={"url": url, "keys_dir": str(tmp_path / "keys")},
        ) as gateway,
    ):
        client, config = Guest(gateway.url("web"), {}), ["-c", str(gateway.config)]
        store = Store.open(url, busy_seconds=20)

        def size():
            with store.reading() as conn:
                return conn.execute(text("SELECT size FROM audit_tree")).scalar()

        def is_ready():
            return ask(f"{gateway.address}/readyz", None, {}, "GET")

        try:
            assert "content" in client.call("look")["result"]
            until(lambda: size() >= 2)
            if kind == "sqlite":
                run(["store", "backup", str(tmp_path / "copy.db"), *config])
            aside, at, calls = Aside(store), size(), len(vault.calls)
            for _ in range(3):
                assert "content" in client.call("look")["result"]
            until(lambda: size() >= at + 6)
            aside.put_back(store)
            until(lambda: is_ready().status == 503)
            assert b"no continuation" in is_ready().body
            assert reason(client.call("look")) == "audit_unavailable"
            assert len(vault.calls) == calls + 3
            assert run(["audit", "verify", *config]) != 0
            capsys.readouterr()
            assert run(["audit", "accept-restore", "--why", "a test", "--yes", *config]) == 0
            until(lambda: is_ready().status == 200)
            assert "content" in client.call("look")["result"]
            assert run(["audit", "verify", *config]) == 0
            if kind == "sqlite":
                # The documented way does both.
                assert run(["store", "restore", str(tmp_path / "copy.db"), "--why", "again", "--yes", *config]) == 0
                until(lambda: is_ready().status == 200)
                until(lambda: "result" in client.call("look"))
                assert run(["audit", "verify", *config]) == 0
        finally:
            store.close_sync()


async def approve(person, identity):
    await person.approve(await person.waiting_for(identity))


@pytest.mark.parametrize("nothing", [False, True], ids=["older", "nothing"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_under_a_gateway_that_starts_again(kind, nothing, tmp_path, capsys):
    """It says so, lets nothing pass, not even what a person has approved, and goes on from an operator's word."""
    with (
        ready(kind, tmp_path) as url,
        approval_site(
            tmp_path, store={"url": url, "keys_dir": str(tmp_path / "keys")}, approval={"park_seconds": 0}
        ) as site,
    ):
        config = ["-c", str(site.gateway.config)]

        def records():
            with site.store.reading() as conn:
                return conn.execute(text("SELECT body FROM audit_record ORDER BY id")).scalars().all()

        def whole():
            with site.store.reading() as conn:
                return conn.execute(text("SELECT size FROM audit_tree")).scalar() == len(records())

        client = modern_guest(site)
        assert "content" in client.call("look")["result"]
        until(whole)
        aside, before = Aside(site.store), 0 if nothing else len(records())
        assert "content" in client.call("look")["result"]
        # Approved, and not used yet.
        client.call("wipe", id="late")
        asyncio.run(approve(site.person, "late"))
        until(whole)
        site.gateway.stop()
        aside.put_back(site.store, nothing=nothing)
        assert run(["audit", "verify", *config]) != 0
        ran = len(site.vault("web").calls)
        gateway = Gateway(site.gateway.config)
        try:
            until(lambda: any("no continuation" in line for line in gateway.lines))
            client = Guest(gateway.url("web"), {})
            assert [reason(client.call("look")), reason(client.call("wipe", id="late"))] == ["audit_unavailable"] * 2
            assert ask(f"{gateway.address}/readyz", None, {}, "GET").status == 503
            assert len(site.vault("web").calls) == ran
            assert len(records()) == before
            capsys.readouterr()
            assert run(["audit", "accept-restore", "--why", "a test", "--yes", *config]) == 0
            assert b"audit.accept_restore" in records()[before]
            assert b"callgate/" in records()[before], "what was known of the lost part is on record"
            until(lambda: ask(f"{gateway.address}/readyz", None, {}, "GET").status == 200)
            assert "content" in client.call("look")["result"]
            assert run(["audit", "verify", *config]) == 0
        finally:
            gateway.stop()
