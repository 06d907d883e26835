import hashlib
import json
import sys

import msgspec
import pytest

from callgate.audit.records import DEFAULT_RULES, ArgumentsPolicy, RedactionRule, _glob, matches
from callgate.canonical import canonical
from callgate.errors import ConfigError
from support.table import rows

SALT = bytes(range(16))


def policy(mode, *rules):
    return ArgumentsPolicy(mode, rules, random=lambda count: SALT[:count])


def redacted(arguments, *rules, server="mail", tool="send"):
    return policy("redacted", *rules).store(server, tool, arguments)[0].value


def gone(value):
    return {"redacted": "sha256:" + hashlib.sha256(SALT + canonical(value)).hexdigest()}


def test_whole_means_whole():
    arguments = {"password": "hunter2", "n": [1, {"token": "t"}]}
    stored, digest = policy("whole", "n").store("s", "t", arguments)
    assert (stored.mode, stored.value, stored.hash, stored.salt) == ("whole", arguments, None, None)
    assert digest == "sha256:" + hashlib.sha256(canonical(arguments)).hexdigest()
    assert matches(arguments, stored, digest)


def test_whole_keeps_the_bytes_that_were_sent_if_it_is_given_them():
    stored, _ = policy("whole").store("s", "t", {"a": 1}, raw=b'{"a":1.0}')
    assert msgspec.json.encode(stored) == b'{"mode":"whole","value":{"a":1.0}}'


def test_hashed_keeps_nothing_but_a_salted_hash():
    arguments = {"password": "hunter2"}
    stored, digest = policy("hashed").store("s", "t", arguments)
    assert digest is None
    assert stored.value is None
    assert stored.hash == "sha256:" + hashlib.sha256(SALT + canonical(arguments)).hexdigest()
    assert matches(arguments, stored, digest)
    assert not matches({"password": "hunter3"}, stored, digest)
    assert b"hunter2" not in msgspec.json.encode(stored)


def test_every_record_has_a_salt_of_its_own():
    one = ArgumentsPolicy("hashed")
    assert one.store("s", "t", {})[0].hash != one.store("s", "t", {})[0].hash


@rows(
    "name",
    ["password", "Passwd", "user_password", "secret", "clientSecret", "token", "access_token", "api_key", "X-API-Key",
     "Authorization", "private_key", "credentials", "cookie", "otp", "passphrase"],
)  # fmt: skip
def test_names_that_hold_secrets_are_redacted_by_default_at_any_depth(name):
    value = {"list": [{"deep": {name: "hunter2"}}], "plain": 1}
    assert redacted(value) == {"list": [{"deep": {name: gone("hunter2")}}], "plain": 1}


@rows(
    ("rule", "before", "after"),
    [
        ("body", {"body": "x", "in": {"body": 1}}, {"body": gone("x"), "in": {"body": gone(1)}}),
        ("user.email", {"user": {"email": "e"}, "email": "e"}, {"user": {"email": gone("e")}, "email": "e"}),
        ("items.*.price", {"items": [{"price": 1}, {"price": 2}]}, {"items": [{"price": gone(1)}, {"price": gone(2)}]}),
        ("*.card", {"a": {"card": 1}, "card": 2}, {"a": {"card": gone(1)}, "card": 2}),
        ("h.**.x", {"h": {"x": 1, "a": {"x": 2}}, "x": 3}, {"h": {"x": gone(1), "a": {"x": gone(2)}}, "x": 3}),
        ("**.x.y", {"a": {"x": {"y": 1}}, "y": 2}, {"a": {"x": {"y": gone(1)}}, "y": 2}),
        ("*note*", {"Footnotes": {"a": [1]}}, {"Footnotes": gone({"a": [1]})}),
        ("mail/send:body", {"body": "x"}, {"body": gone("x")}),
        ("mail/*:body", {"body": "x"}, {"body": gone("x")}),
        ("mail/read:body", {"body": "x"}, {"body": "x"}),
        ("other/send:body", {"body": "x"}, {"body": "x"}),
        ("user", {"user": {"token": 1}}, {"user": gone({"token": 1})}),
        ("**", {"a": 1, "b": {"c": 2}}, {"a": gone(1), "b": gone({"c": 2})}),
    ],
)  # fmt: skip
def test_rules(rule, before, after):
    assert redacted(before, rule) == after


def test_an_unsalted_hash_is_kept_only_if_nothing_was_hidden():
    keep = {"plain": 1}
    stored, digest = policy("redacted").store("s", "t", keep)
    assert stored.salt is None
    assert matches(keep, stored, digest)
    hide = {"plain": 1, "pin": "1234"}
    stored, digest = policy("redacted").store("s", "t", hide)
    assert digest is None
    assert matches(hide, stored, digest)
    assert not matches({"plain": 1, "pin": "1235"}, stored, digest)
    assert "1234" not in json.dumps(msgspec.to_builtins(stored))


def test_what_was_given_is_not_changed():
    arguments = {"a": [{"token": "t"}]}
    redacted(arguments)
    assert arguments == {"a": [{"token": "t"}]}


def test_many_wildcards_on_a_deep_value_stay_cheap():
    value = {"leaf": 1}
    for _ in range(90):
        value = {"a": value}
    assert redacted(value, ".".join(["**"] * 20 + ["leaf"])) != value


@rows("rule", ["", "a..b", ".a", "a.", "mail:body", "/send:body", "mail/:body", "a/b:", "x" * 600])
def test_what_is_no_rule_is_a_configuration_error(rule):
    with pytest.raises(ConfigError):
        policy("redacted", rule)


def test_there_is_a_limit_to_the_number_of_rules():
    with pytest.raises(ConfigError):
        policy("redacted", *(f"n{number}" for number in range(1000)))


def test_the_default_rules_are_rules():
    assert all(RedactionRule.parse(text) for text in DEFAULT_RULES)


class _Counted:
    """A pattern that counts how often it is asked."""

    def __init__(self, text, asked):
        self._pattern = _glob(text)
        self._asked = asked

    def match(self, text):
        self._asked.append(text)
        return self._pattern.match(text)


def test_a_tool_that_is_new_costs_no_more_than_a_look_at_each_rule(monkeypatch):
    asked = []
    monkeypatch.setattr("callgate.audit.records._glob", lambda text: _Counted(text, asked))
    one = policy("redacted", "*iban*", "7")
    asked.clear()
    one.store("s", "new", {"a": 1})
    assert len(asked) <= 4 * (len(DEFAULT_RULES) + 2)


def test_made_up_names_do_not_make_real_tools_dearer(monkeypatch):
    asked = []
    monkeypatch.setattr("callgate.audit.records._glob", lambda text: _Counted(text, asked))
    one = policy("redacted")
    for number in range(3000):
        one.store("s", f"made-up-{number}", {f"key-{number}": 1})
    one.store("s", "real", {"path": 1})
    asked.clear()
    one.store("s", "real", {"path": 1})
    assert asked == []


def test_names_of_any_length_are_not_kept():
    one = policy("redacted")
    tool, key = "t" * 100_000, "k" * 100_000
    before = sys.getrefcount(tool), sys.getrefcount(key)
    one.store("s", tool, {key: 1})
    assert (sys.getrefcount(tool), sys.getrefcount(key)) == before


@rows(("rule", "thing"), [("7", [0] * 8), ("1?", [0] * 11), ("[0-3]", [0]), ("*", [0])])
def test_a_rule_for_a_position_is_kept_to_in_lists(rule, thing):
    stored = redacted({"a": {"b": thing}} if rule != "*" else thing, rule)
    assert "redacted" in json.dumps(stored)
