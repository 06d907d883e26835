"""Labels on their way through a session: they add up, and only an operator's act takes them away."""

import pytest

from callgate.trust.model import DataLabel, SessionLabel, highest
from callgate.trust.propagation import asked, declassify, honour, join, joined, outgoing
from callgate.trust.vocabulary import Vocabulary
from support.registry import requirement
from support.table import rows

READ = Vocabulary()
STRANGERS = DataLabel(open_world=True, sensitivity=frozenset({"none"}), attribution=("https://a.example/x",))
CLEAN = DataLabel(open_world=False, sensitivity=frozenset({"financial"}), attribution=("mcp://bank/balance",))
ORDER = [STRANGERS, CLEAN, CLEAN]


@requirement("TA-040")
def test_open_world_stays():
    session = SessionLabel()
    assert outgoing(session) is None
    for data in ORDER:
        session = join(session, data)
        assert outgoing(session)["openWorldHint"] is True
    assert session.open_world


@requirement("TA-041")
def test_sources_of_two_servers_are_both_told_once():
    session = SessionLabel()
    for data in [*ORDER, STRANGERS]:
        session = join(session, data)
    assert outgoing(session, share="share")["attribution"] == ["https://a.example/x", "mcp://bank/balance"]


@requirement("TA-035")
def test_the_session_is_as_sensitive_as_the_worst_it_read():
    session = join(join(SessionLabel(), STRANGERS), CLEAN)
    assert session.sensitivity == {"financial"}
    assert highest(session.sensitivity) == "financial"


def test_a_flag_stays_too():
    session = join(join(SessionLabel(), DataLabel(open_world=False, malicious=True)), CLEAN)
    assert session.malicious


@rows("one", [SessionLabel(), join(SessionLabel(), STRANGERS), join(SessionLabel(), CLEAN)])
@rows("other", [SessionLabel(), join(SessionLabel(), STRANGERS), join(SessionLabel(), CLEAN)])
def test_joining_never_takes_away(one, other):
    both = joined(one, other)
    assert both.open_world == (one.open_world or other.open_world)
    assert both.sensitivity == one.sensitivity | other.sensitivity
    assert set(both.attribution) == set(one.attribution) | set(other.attribution)
    assert joined(both, other) is both


@requirement("TA-042")
def test_labels_on_a_request_count():
    request = READ.of_meta(
        {"annotations": {"openWorldHint": True, "attribution": ["https://a.example/x", "file:///x"]}}
    )
    session = honour(SessionLabel(), request)
    assert session.open_world
    assert session.attribution == ("https://a.example/x", "local:anonymous/x")
    assert honour(session, READ.annotations({"openWorldHint": False})) is session
    assert honour(session, None) is session
    assert asked(None) == SessionLabel()


@rows("garbage", [5, "x", [True], {"openWorldHint": "false"}])
def test_labels_on_a_request_that_nobody_can_read_are_the_worst(garbage):
    assert honour(SessionLabel(), READ.of_meta({"annotations": garbage})).open_world


@requirement("TA-070")
def test_nothing_is_sent_where_that_is_switched_off():
    assert outgoing(join(SessionLabel(), STRANGERS), propagate=False) is None


@requirement("TA-071")
def test_sources_are_told_by_origin_by_default_or_not_at_all():
    session = join(join(SessionLabel(), STRANGERS), CLEAN)
    assert outgoing(session) == {"openWorldHint": True, "attribution": ["https://a.example", "mcp://bank"]}
    assert outgoing(session, share="withhold") == {"openWorldHint": True}
    assert outgoing(join(SessionLabel(), CLEAN), share="withhold") is None


@requirement("TA-072")
def test_without_consent_no_source_is_kept_and_the_labels_all_the_same():
    session = join(SessionLabel(), STRANGERS, consent=False)
    assert session.attribution == ()
    assert session.open_world
    request = READ.annotations({"openWorldHint": True, "attribution": ["mcp://a/b"]})
    assert honour(SessionLabel(), request, consent=False) == SessionLabel(open_world=True)


def test_what_an_operator_takes_away():
    session = joined(join(SessionLabel(), STRANGERS), join(SessionLabel(), CLEAN))
    assert declassify(session) == SessionLabel()
    left = declassify(session, ["open_world"])
    assert not left.open_world
    assert left.sensitivity == {"financial"}
    with pytest.raises(ValueError, match="not opn_world"):
        declassify(session, ["opn_world"])


def test_classes_that_a_server_makes_up_do_not_grow_without_end():
    session = SessionLabel(sensitivity=frozenset({"pii", "regulated:HIPAA", "com.mycorp.x"}))
    for at in range(500):
        session = joined(session, SessionLabel(sensitivity=frozenset({f"made-up-{at}"})))
    assert len(session.sensitivity) <= 128
    assert {"pii", "regulated:HIPAA", "com.mycorp.x", "unknown"} <= session.sensitivity


def test_what_was_made_for_one_label_or_server_is_not_sent_for_another():
    strangers, own = join(SessionLabel(), STRANGERS), SessionLabel()
    sent = {share: outgoing(strangers, share=share) for share in ("share", "minimise", "withhold")}
    for _ in range(600):
        # Labels that come and go take each other's place in memory.
        assert outgoing(SessionLabel(open_world=True), share="share") == {"openWorldHint": True}
        assert outgoing(SessionLabel(), share="share") is None
    assert {share: outgoing(strangers, share=share) for share in sent} == sent
    assert "attribution" not in sent["withhold"]
    assert outgoing(own) is None
