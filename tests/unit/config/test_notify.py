"""What `[notify]` takes: nothing is sent unsigned, and no key that can be guessed signs it."""

import pytest

from callgate.config import parse, show
from callgate.config.notify import webhook_key
from callgate.errors import ConfigError
from support.table import rows

URL = "https://hooks.example/callgate?token=hidden"
KEY = "whsec_" + "c2VjcmV0IG9mIHRoZSB3ZWJob29rIGluIHRlc3Rz"


def problems(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, environ={})
    return [str(problem) for problem in caught.value.problems]


def test_nobody_is_told_of_anything_by_default():
    section = parse("").notify
    assert (section.webhook, section.events, section.arguments) == (None, ("approval_waiting",), False)


def test_a_webhook_needs_a_secret():
    (problem,) = problems(f'[notify]\nwebhook = "{URL}"\n')
    assert "notify.webhook" in problem
    assert "secret" in problem
    assert "hidden" not in problem


@rows("secret", ["short", "x" * 23, "whsec_c2hvcnQ=", "whsec_not base64 at all, and long enough"])
def test_a_secret_that_can_be_guessed_or_read_wrongly_is_refused_without_repeating_it(secret):
    (problem,) = problems(f'[notify]\nwebhook = "{URL}"\nsecret = "{secret}"\n')
    assert "notify.secret" in problem
    assert secret not in problem


def test_what_a_secret_stands_for():
    assert webhook_key(KEY) == b"secret of the webhook in tests"
    assert webhook_key("plain text of enough letters") == b"plain text of enough letters"


def test_both_come_from_the_environment_and_neither_is_shown():
    text = '[notify]\nwebhook = "https://hooks.example/x?t=${TOKEN}"\nsecret = "${KEY}"\n'
    config = parse(text, environ={"TOKEN": "hidden", "KEY": KEY})
    assert config.notify.webhook.reveal() == "https://hooks.example/x?t=hidden"
    assert config.notify.secret.reveal() == KEY
    shown = str(show(config)) + repr(config.notify)
    assert "hidden" not in shown
    assert KEY not in shown


def test_an_event_that_there_is_not_is_named():
    (problem,) = problems(f'[notify]\nwebhook = "{URL}"\nsecret = "{KEY}"\nevents = ["approval_wait"]\n')
    assert 'did you mean "approval_waiting"?' in problem


def test_plain_http_beyond_this_machine_has_to_be_wanted():
    text = f'[notify]\nwebhook = "http://hooks.internal/x"\nsecret = "{KEY}"\n'
    (problem,) = problems(text)
    assert "plain_http" in problem
    assert parse(f"{text}plain_http = true\n").notify.plain_http
