"""Static keys: shown once, kept as a digest, revoked and expired at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.agents.apikeys import ApiKeys, digest, make
from callgate.errors import ConfigError, Reason, Refused
from callgate.store.memory import MemoryAgents
from support.callers import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def shelf():
    return MemoryAgents()


@pytest.fixture
def keys(shelf, clock):
    return ApiKeys(shelf, clock.ms)


async def why(keys, text):
    with pytest.raises(Refused) as refused:
        await keys.verify(text)
    assert refused.value.reason is Reason.CREDENTIALS_INVALID
    assert refused.value.status == 401
    assert text not in str(refused.value) or not text
    return str(refused.value)


async def test_a_key_says_whose_it_is(keys):
    made = await keys.create("alice", by="ann")
    caller = await keys.verify(made.text)
    assert (caller.id, caller.source, caller.key) == ("alice", "api-key", made.key.id)
    assert made.text.startswith(f"cgk_{made.key.id}_")


async def test_only_a_digest_is_kept(keys, shelf):
    made = await keys.create("alice")
    (kept,) = await shelf.keys()
    secret = made.text.removeprefix(f"cgk_{made.key.id}_")
    assert kept.digest == digest(made.text)
    assert secret not in repr(kept)
    assert secret not in repr(made)


async def test_unknown_and_wrong_keys_get_one_answer(keys):
    made = await keys.create("alice")
    end = "A" if made.text[-1] != "A" else "B"
    wrong = made.text[:-1] + end
    unknown = make("mallory", 0).text
    assert await why(keys, wrong) == await why(keys, unknown)


async def test_a_key_of_another_id_does_not_fit(keys):
    one, two = await keys.create("alice"), await keys.create("bob")
    await why(keys, one.text.replace(one.key.id, two.key.id))


async def test_revoked_and_expired_keys(keys, shelf, clock):
    made = await keys.create("alice", expires_at=clock.ms() + 1000)
    await keys.verify(made.text)
    clock.now += 1
    assert "expired" in await why(keys, made.text)
    other = await keys.create("alice")
    await shelf.revoke_key(other.key.id, clock.ms())
    assert "revoked" in await why(keys, other.text)


async def test_a_key_that_could_not_be_used_is_not_made(keys, clock):
    with pytest.raises(ConfigError):
        await keys.create("alice", expires_at=clock.ms())
    for name in ("", "a\nb", "x" * 257):
        with pytest.raises(ConfigError):
            await keys.create(name)


def test_keys_differ():
    assert len({make("a", 0).text for _ in range(100)}) == 100


@given(st.text(max_size=80))
async def test_nothing_else_is_a_key(text):
    keys = ApiKeys(MemoryAgents(), Clock().ms)
    for one in (text, f"cgk_{text}", f"cgk_{'0' * 12}_{text}", f"cgk_{'0' * 12}_{'A' * 43}\n"):
        with pytest.raises(Refused):
            await keys.verify(one)
