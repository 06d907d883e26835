"""Use an approval a millisecond too late, much too late, or have it run out while it is being verified."""

import pytest

from support.approval_peer import ERAS, refusal, signed, text_of
from support.approval_server import Clock, running
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}
EXPIRED, CONSUMED = (-32001, "challenge_expired"), (-32001, "challenge_consumed")


@pytest.fixture(params=ERAS)
def alice(library, request):
    return library.join(f"expired-{request.param}-{library.approval._clock.now}", request.param)


@pytest.fixture
def clock(library):
    return library.approval._clock


@requirement("VA-108", "VA-145")
def test_at_the_very_moment(library, alice, clock):
    early, late = (alice.signs(alice.challenge("delete_resource", A)) for _ in range(2))
    # What the call itself takes counts, so not in the last moment.
    clock.now += 50_000
    assert text_of(alice.call("delete_resource", A, early)) == "deleted a"
    before = len(library.executed)
    # At the very moment that `expiresAt` names.
    clock.now += 10_000
    assert refusal(alice.call("delete_resource", A, late)) == EXPIRED
    assert library.executed[before:] == []


@requirement("VA-107", "VA-132")
def test_consumed_and_then_expired_it_is_still_called_consumed(alice, clock):
    used, unused = (alice.signs(alice.challenge("delete_resource", A)) for _ in range(2))
    assert text_of(alice.call("delete_resource", A, used)) == "deleted a"
    clock.now += 60_000 + 9 * 60_000
    # Something else happens, as it would: old challenges are swept.
    alice.challenge("delete_resource", A)
    assert refusal(alice.call("delete_resource", A, used)) == CONSUMED
    assert refusal(alice.call("delete_resource", A, unused)) == EXPIRED


@requirement("VA-107", "VA-129")
def test_on_a_store_that_lasts(durable):
    clock = Clock()
    with running(store=durable, user="alice", clock=clock) as server:
        peer = server.peer()
        key = peer.enrol(server.ticket("alice"))
        used, unused = (signed(peer.challenge("delete_resource", A), key) for _ in range(2))
        assert text_of(peer.call("delete_resource", A, used)) == "deleted a"
        clock.now += 60_000 + 9 * 60_000
        peer.challenge("delete_resource", A)
        assert refusal(peer.call("delete_resource", A, used)) == CONSUMED
        assert refusal(peer.call("delete_resource", A, unused)) == EXPIRED
        assert server.executed == [("delete_resource", "a")]


class Leaping(Clock):
    """A clock that leaps a minute ahead after it was read so many times."""

    def __init__(self):
        super().__init__()
        self.reads_left = None

    def __call__(self):
        if self.reads_left is not None:
            self.reads_left -= 1
            if self.reads_left < 0:
                self.reads_left = None
                self.now += 60_000
        return super().__call__()


@requirement("VA-129")
@rows("kind", ["memory", "sqlite"])
def test_it_runs_out_between_verification_and_use(kind, tmp_path):
    clock = Leaping()
    place = {} if kind == "memory" else {"store": f"sqlite:///{tmp_path / 'approvals.db'}"}
    with running(clock=clock, user="alice", **place) as server:
        peer = server.peer()
        key = peer.enrol(server.ticket("alice"))
        # The clock is read when the call arrives, when the challenge is judged and when it is used up.
        ends = []
        for reads in range(6):
            evidence = signed(peer.challenge("delete_resource", A), key)
            before = len(server.executed)
            clock.reads_left = reads
            answer = peer.call("delete_resource", A, evidence)
            clock.reads_left = None
            ran = len(server.executed) > before
            ends.append("ran" if ran else refusal(answer)[1])
            assert ran == ("result" in answer)
        assert ends == ["challenge_expired"] * 3 + ["ran"] * 3
