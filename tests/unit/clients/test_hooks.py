"""The hook in a client's file: put beside what is there, taken out again, and known by whatever path it runs."""

import json
import re

import pytest

from callgate.clients import HOOKS, plan_hook, plan_unhook
from callgate.clients.hooks import is_ours
from callgate.errors import ConfigError
from support.table import rows

GATE = ("/opt/my tools/callgate",)
COMMAND = "'/opt/my tools/callgate' prompt"
FILES = {
    "empty": "{}",
    "an empty line": "{\n}\n",
    "with a comment only": "{\n  // nothing yet\n}\n",
    "others": '{\n  "theme": "dark"\n}\n',
    "on one line": '{"theme": "dark"}',
    "no hooks": '{\n    "theme": "dark",\n    "hooks": {}\n}\n',
    "other hooks": '{\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n',
    "no entries": '{\n  "hooks": {\n    "EVENT": []\n  }\n}\n',
    "entries": '{\n  "hooks": {\n    "EVENT": [\n      {"command": "mine"}\n    ]\n  }\n}\n',
    "commas at the end": '{\n  "hooks": {\n    "EVENT": [\n      {"command": "mine"},\n    ],\n  },\n}\n',
    "lines of Windows": '{\r\n  "a": 1\r\n}\r\n',
}


def value(text):
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", re.sub(r"//.*", "", text)))


def commands(text, event):
    listed = value(text)["hooks"][event]
    return [one["command"] for item in listed for one in item.get("hooks", [item])]


@rows("client", HOOKS)
@rows("kind", FILES)
def test_it_comes_and_goes(client, kind):
    hook = HOOKS[client]
    text = FILES[kind].replace("EVENT", hook.event)
    plan = plan_hook(text, "f", hook, GATE)
    assert commands(plan.after, hook.event)[-1] == COMMAND
    assert [finding.state for finding in plan.findings] == ["hook"]
    again = plan_hook(plan.after, "f", hook, GATE)
    assert (again.after, again.findings[0].state) == (plan.after, "hooked")
    gone = plan_unhook(plan.after, "f", hook)
    assert gone.findings[0].state == "unhook"
    left, was = value(gone.after), value(text)
    if not was.get("hooks", {}).get(hook.event, True):
        del was["hooks"][hook.event]
    if not was.get("hooks", True):
        del was["hooks"]
    assert left == was
    if "\r\n" in text:
        assert "\n" not in plan.after.replace("\r\n", "")


@rows("client", HOOKS)
def test_a_new_file(client):
    hook = HOOKS[client]
    plan = plan_hook(None, "f", hook, GATE)
    assert commands(plan.after, hook.event) == [COMMAND]
    assert plan.hunks()[0].before == []
    assert "command" in "".join(plan.hunks()[0].after)


def test_one_of_an_older_place_is_replaced_and_another_one_in_its_group_stays():
    hook = HOOKS["claude-code"]
    entry = {"hooks": [{"type": "command", "command": "/old/callgate prompt"}, {"type": "command", "command": "mine"}]}
    text = json.dumps({"hooks": {hook.event: [entry, {"hooks": [{"command": "python -m callgate prompt"}]}]}})
    after = plan_hook(text, "f", hook, GATE).after
    assert commands(after, hook.event) == ["mine", COMMAND]
    assert commands(plan_unhook(after, "f", hook).after, hook.event) == ["mine"]


@rows(
    ("command", "ours"),
    [
        (COMMAND, True),
        ("callgate prompt", True),
        ("python -P -m callgate prompt", True),
        ("C:/x/callgate.exe prompt", True),
        ("callgate review", False),
        ("my-own prompt", False),
        ("prompt", False),
        ("", False),
        ("'callgate prompt", False),
    ],
)
def test_which_hooks_are_ours(command, ours):
    assert is_ours(command) is ours


@rows("text", ["[]", '{"hooks": []}', '{"hooks": {"UserPromptSubmit": {}}}', '{"hooks": 1}'])
def test_what_is_written_otherwise_is_left(text):
    with pytest.raises(ConfigError, match="cannot be changed safely"):
        plan_hook(text, "f", HOOKS["claude-code"], GATE)
    assert plan_unhook(text, "f", HOOKS["claude-code"]).after == text
