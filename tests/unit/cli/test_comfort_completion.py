"""What a shell is told while somebody types."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from callgate.cli import VERBS, run
from callgate.cli.completion import FILES, candidates, script
from callgate.errors import Reason
from callgate.pinning.identity import http_identity
from callgate.pinning.listing import EntryReader, ToolListing, observed
from callgate.pinning.model import PinningSettings
from callgate.store import SqlPins, Store
from support.table import rows

SHELLS = ("bash", "zsh", "fish", "powershell")

CONFIG = """
[store]
url = "sqlite:///store.db"
[servers.files]
command = ["files-server"]
[servers.mail]
url = "https://mail.example/mcp"
[agents.api_keys]
enabled = true
[agents.known.research-bot]
"""
ODD = "a b$(touch pwned);'\"`x`"


@pytest.fixture
def typed(here):
    """The values that are offered for the last word."""
    (here / "callgate.toml").write_text(CONFIG)

    def typed(*words):
        return [one.value for one in candidates(list(words[:-1]), words[-1])]

    return typed


@pytest.fixture
def met(typed, here):
    """A store in which tools were met, with names that a hostile server chose."""
    store = Store.open(f"sqlite:///{here / 'store.db'}", create=True)
    try:
        asyncio.run(_meet(store))
    finally:
        store.close_sync()
    assert run(["users", "add", "alice"]) == run(["users", "add", "bob"]) == 0
    return typed


async def _meet(store):
    pins = SqlPins(store)
    for server, tools in (
        ("files", ["read_file", "write_file", "--config=evil", "line\nbreak", ODD]),
        ("mail", ["send"]),
    ):
        identity = http_identity(f"https://{server}.example/mcp", authenticated=None, reported=server)
        reader = EntryReader(identity.server_id, PinningSettings())
        entries = [json.dumps({"name": name, "inputSchema": {"type": "object"}}).encode() for name in tools]
        listing = ToolListing(reader.read(entry) for entry in entries)
        seen = observed(identity, listing, 1, name=server, group="", target="")
        await pins.saw(seen.server, seen.tools, whole=seen.whole)


def test_verbs_are_completed_without_loading_any(typed):
    code = (
        "import sys; from callgate.cli import run; run(['__complete', '=st']);"
        "print(*[name for name in sys.modules if name.startswith('callgate.cli.') and 'completion' not in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "status\nstop\nstore\n\n"
    assert set(typed("")) == set(VERBS)


def test_the_verb_that_is_asked_for_is_the_only_one_that_is_loaded():
    code = (
        "import sys; from callgate.cli import run; run(['__complete', '=', 'store']);"
        "print('callgate.cli.audit' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == [
        *("check", "size", "upgrade", "backup", "restore"),
        "False",
    ]


@rows(
    ("words", "offered"),
    [
        (["aud"], ["audit"]),
        (["--v"], ["--version"]),
        (["audit", "ver"], ["verify"]),
        (["audit", "list", "--unt"], ["--until"]),
        (["wrap", ""], ["files", "mail"]),
        (["wrap", "files", "--", ""], [FILES]),
        (["call", "ma"], ["mail"]),
        (["doctor", "--server", ""], ["files", "mail"]),
        (["doctor", "--server=fi"], ["--server=files"]),
        (["doctor", "--server", "=", "fi"], ["files"]),
        (["tools", "list", "--state", "pen"], ["pending"]),
        (["call", "--authenticator", ""], ["browser", "usb"]),
        (["completion", ""], list(SHELLS)),
        (["audit", "list", "--verdict", ""], ["allow", "refuse"]),
        (["audit", "list", "--reason", "rule_"], ["rule_blocked"]),
        (["keys", "rotate", "s"], ["seal"]),
        (["agents", "show", ""], ["research-bot"]),
        (["serve", "-c", "x"], [FILES]),
        (["policy", "test", ""], [FILES]),
        (["store", "check", "--json", "--st"], ["--store"]),
        (["nonsense", ""], []),
        (["block-all", "on", "more", ""], []),
    ],
)
def test_what_fits_is_offered(typed, words, offered):
    assert typed(*words) == offered


def test_every_reason_is_offered(typed):
    assert typed("audit", "list", "--reason", "") == [reason.value for reason in Reason]


def test_tools_people_and_calls_come_from_the_store(met):
    assert met("tools", "show", "--server", "mail", "--tool", "") == ["send"]
    assert {"read_file", "write_file", "send"} <= set(met("audit", "list", "--tool", ""))
    assert met("call", "files", "re") == ["read_file"]
    assert met("users", "remove", "") == ["alice", "bob"]
    assert met("approvals", "list", "--user", "a") == ["alice"]
    assert met("audit", "show", "") == []


def test_a_new_person_has_no_name_to_complete(met):
    assert met("users", "add", "") == []


def test_a_tool_cannot_be_named_as_an_option_or_break_a_line(met):
    """A server chooses the names of its tools; what a shell would take for something else is not offered."""
    offered = met("tools", "show", "--server", "files", "--tool", "")
    assert "--config=evil" not in offered
    assert all(value.isprintable() for value in offered)
    assert ODD in offered  # the shell quotes it


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_and_quotes(met, here):
    script = f"""
        callgate() {{ {sys.executable} -m callgate "$@"; }}
        eval "$(callgate completion bash)"
        ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _callgate callgate; printf '%s\\n' "${{COMPREPLY[@]}}"; }}
        ask callgate tools show --server files --tool 'a '
        ask callgate doctor --server = ''
        ask callgate serve -c callg
    """
    done = subprocess.run(["bash", "-c", script], cwd=here, capture_output=True, text=True, check=True)
    first, *rest = done.stdout.splitlines()
    assert rest == ["files", "mail", "callgate.toml"]
    # Typed as it was offered, it is one word again, and nothing of it was run.
    echoed = subprocess.run(["bash", "-c", f"printf %s {first}"], cwd=here, capture_output=True, text=True, check=True)
    assert echoed.stdout == ODD
    assert not (here / "pwned").exists()


@rows("broken", ["no file", "no configuration", "no store", "garbage", "elsewhere"])
def test_nothing_that_is_wrong_disturbs_who_types(here, capfd, broken, monkeypatch):
    text = {
        "no configuration": "[servers",
        "no store": CONFIG,
        "garbage": CONFIG,
        "elsewhere": '[store]\nurl = "postgresql://u:p@192.0.2.1/x"',
    }
    if broken in text:
        (here / "callgate.toml").write_text(text[broken])
    if broken == "garbage":
        (here / "store.db").write_bytes(b"not a database" * 100)
    for words in (["tools", "show", "--tool"], ["users", "remove"], ["audit", "show"]):
        assert run(["__complete", "=", *words]) == 0
    assert capfd.readouterr() == ("", "")
    assert not list(here.glob("state/**/*.db")), "completing made a store"


def test_a_question_without_words_is_answered_too(capsys):
    assert run(["__complete"]) == 0
    assert "audit" in capsys.readouterr().out


@rows("shell", SHELLS)
def test_the_script_is_printed_and_says_where_to_put_it(shell, capsys):
    assert run(["completion", shell]) == 0
    said = capsys.readouterr().out
    assert said == script(shell)
    assert f"callgate completion {shell}" in said
    assert "__complete" in said


def test_an_unknown_shell_is_refused(capsys):
    assert run(["completion", "cmd"]) == 2
    assert "powershell" in capsys.readouterr().err


def test_a_shell_can_read_its_script(tmp_path):
    (tmp_path / "script").write_text(script("bash"))
    subprocess.run(["bash", "-n", str(tmp_path / "script")], check=True)
    assert Path(tmp_path / "script").read_text().isascii()
