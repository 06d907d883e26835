"""Whose the sessions of an HTTP server are, and for how long that is known."""

from types import SimpleNamespace

from callgate.errors import Reason, Refused
from callgate.transport.upstream.http import Owned
from support.table import rows


def asking(owner, session=""):
    return SimpleNamespace(owner=owner, session=session)


def giving(session):
    return session.encode()


def refused(owned, owner, session):
    try:
        owned.check(asking(owner, session))
    except Refused as error:
        return error.reason is Reason.SESSION_UNKNOWN
    return False


def test_opening_many_makes_only_ones_own_be_forgotten():
    owned = Owned(most=3)
    owned.opened(asking("alice"), giving("hers"))
    for number in range(50):
        owned.opened(asking("bob"), giving(f"his-{number}"))
    assert refused(owned, "bob", "hers")
    assert not refused(owned, "alice", "hers")
    # What was forgotten is nobody's, the newest three are his.
    assert [refused(owned, "alice", f"his-{number}") for number in (0, 46, 47, 48, 49)] == [
        False,
        False,
        True,
        True,
        True,
    ]


@rows("owner", ["", "bob"])
def test_an_answer_that_repeats_the_id_of_the_request_gives_nothing(owner):
    owned = Owned()
    owned.opened(asking("alice", "hers"), giving("hers"))
    assert not refused(owned, owner, "hers")


def test_so_many_agents_are_known_and_the_longest_silent_are_forgotten():
    owned = Owned(agents=2)
    for name in ("alice", "bob", "carol"):
        owned.opened(asking(name), giving(f"of-{name}"))
    assert not refused(owned, "carol", "of-alice")
    assert refused(owned, "carol", "of-bob")
