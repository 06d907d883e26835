"""What nobody reads any more leaves the tables too, not only the answers."""

from sqlalchemy import func, select

from callgate.store.schema import trust_object, trust_step
from callgate.trust import keeping
from support.trust_store import KEY, NOW, add

# How many steps may be late.
STRIDE = 32


def remembered(shelf):
    with shelf._store.reading() as conn:
        return list(
            conn.execute(
                select(trust_step.c.seq).where(func.length(trust_step.c.memory) > 0).order_by(trust_step.c.seq)
            ).scalars()
        )


def counted(shelf, table):
    with shelf._store.reading() as conn:
        return conn.execute(select(func.count()).select_from(table)).scalar_one()


async def test_forgotten_values_are_gone_from_the_table(shared_trust):
    shelf, _ = shared_trust
    for number in range(1, 101):
        await add(shelf, keep=10)
        found = remembered(shelf)
        assert len(found) < 10 + STRIDE
        assert found[-10:] == list(range(max(1, number - 9), number + 1))
    await add(shelf, keep=0)
    assert len(remembered(shelf)) < STRIDE


async def test_old_steps_are_gone_from_the_table(shared_trust, monkeypatch):
    shelf, _ = shared_trust
    monkeypatch.setattr(keeping, "STEPS", 20)
    for _ in range(120):
        await add(shelf)
        assert counted(shelf, trust_step) < 20 + STRIDE


async def test_expired_values_and_dropped_sessions_are_gone_from_the_tables(shared_trust):
    shelf, _ = shared_trust
    for number in range(60):
        await add(shelf, f"{number}", objects=(f"o{number}",), expires_at=NOW + number)
    await shelf.prune(NOW + 29, sessions=100)
    assert len(remembered(shelf)) == counted(shelf, trust_object) == 30
    await shelf.prune(NOW + 29, sessions=7)
    assert counted(shelf, trust_step) == 7
    assert await shelf.steps(KEY) == []


async def test_who_opens_many_sessions_pushes_out_their_own(trust):
    await trust.open("victim", "10.0.0.1 editor", 1, 0)
    for number in range(20):
        await trust.open(f"flood-{number:02}", f"10.0.0.9 client-{number}", 100 + number, 0)
    await trust.prune(1000, sessions=5)
    left = {session.key for session in await trust.sessions(limit=100)}
    assert left == {"victim", "flood-16", "flood-17", "flood-18", "flood-19"}
