import pytest

from callgate.errors import ConfigError
from callgate.trust.policy.predicate import Undecided, predicate
from support.table import rows


def test_a_condition_over_arguments_alone():
    holds = predicate('args.path.startsWith("/public/")')
    assert holds({"path": "/public/a"}) is True
    assert holds({"path": "/private/a", "other": object()}) is False


@rows("args", [{}, {"path": 3}, {"path": "/public/" + "a" * 70_000}, {"path": "\ud800"}])
def test_what_cannot_be_told_is_not_guessed(args):
    with pytest.raises(Undecided):
        predicate('args.path.startsWith("/public/")')(args)


@rows(
    ("text", "told"),
    [("arg.path == 'x'", "no fact arg.path"), ("args.path", "true or false"), ("session.open_world", "args only")],
)
def test_a_condition_that_cannot_be_used_is_refused(text, told):
    with pytest.raises(ConfigError, match=told):
        predicate(text)
