"""Patterns of tools that need a person: `check` and `doctor` tell of those that may not mean what was meant."""

import json

import pytest

from callgate.approval.requirements import names_tool
from callgate.cli import run
from support.table import rows
from support.tools_cli import ToolsCli, entry

CONFIG = """
[store]
url = "{url}"
[servers.notes]
command = ["true"]
approval = {{ tools = ["delete_*", "wipe[all]", "Empty_bin", "shred"] }}
"""


@pytest.fixture
def notes(here, capsys):
    """A server that was met, and a configuration whose patterns fit some of its tools."""
    url = f"sqlite:///{here}/callgate.db"
    room = ToolsCli(url, capsys)
    room.met("notes", *(entry(name) for name in ("delete_note", "DELETE_all", "empty_bin", "wipe[all]", "look")))
    (here / "callgate.toml").write_text(CONFIG.format(url=url))
    (here / "callgate.toml").chmod(0o600)
    capsys.readouterr()

    def told(*words):
        run([*words, "--json"])
        return json.loads(capsys.readouterr().out)

    return told


WARNED = [
    ("wipe[all]", "letters between [ and ]"),
    ("DELETE_all", "only in capital letters"),
    ("empty_bin", "only in capital letters"),
    ("Empty_bin", "lists no tool Empty_bin"),
    ("shred", "lists no tool shred"),
]


def test_check_and_doctor_tell_of_each(notes):
    checked = notes("check")["notes"]
    found = notes("doctor", "--no-start")
    warned = [one["text"] for one in found["findings"] if one["level"] == "warning"]
    for said in (checked, warned):
        for name, what in WARNED:
            assert any(name in line and what in line for line in said), (name, said)
        assert not any("delete_note" in line or " look " in line for line in said if "servers.notes" in line)


@rows(
    ("pattern", "tool", "meant"),
    [
        ("wipe[all]", "wipe[all]", True),
        ("wipe[all]", "wipel", True),
        ("delete_*", "delete_x", True),
        ("delete_*", "Delete_x", False),
    ],
)
def test_a_pattern_means_the_tool_that_is_spelt_like_it(pattern, tool, meant):
    assert names_tool(pattern, tool) is meant
