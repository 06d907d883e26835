"""`callgate labels`: what holds for each tool, who said so, and where a server says less than that."""

import json
import shlex

import pytest

from callgate import config
from callgate.cli import run
from support.registry import requirement
from support.stores import ready
from support.table import rows
from support.tools_cli import ToolsCli, entry, sqlite

SEND = entry(
    "send_mail",
    schema={"type": "object", "properties": {"to": {"type": "string"}, "body": {"type": "string"}}},
    annotations={
        "readOnlyHint": False,
        "destructiveHint": False,
        "openWorldHint": False,
        "inputMetadata": {"destination": "user", "sensitivity": ["user"], "outcomes": "benign"},
        "returnMetadata": {"source": "system", "sensitivity": "none"},
    },
)
READ = entry("read_mail", annotations={"readOnlyHint": True, "openWorldHint": False})
BROKEN = entry("count_mail", annotations={"inputMetadata": {"destination": "user"}})
BARE = entry("wipe_mail")
MILD = entry(
    "a_mild_one",
    annotations={
        "inputMetadata": {"destination": "ephemeral", "sensitivity": "none", "outcomes": "benign"},
    },
)

CONFIG = """
[store]
url = "{url}"

[servers.mail]
url = "https://mail.example/mcp"

[servers.mail.trust]
{section}
"""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.verify)])
def room(request, here, capsys):
    with ready(request.param, here) as url:
        yield Configured(ToolsCli(url, capsys), here)


@pytest.fixture
def small(here, capsys):
    return Configured(sqlite(here, capsys), here)


class Configured:
    """Verbs on a store, with what an operator wrote about the server `mail`."""

    def __init__(self, room, folder):
        self.room = room
        self.file = folder / "callgate.toml"
        self.says("")

    def says(self, section):
        self.file.write_text(CONFIG.format(url=self.room.url, section=section))

    def __call__(self, *words, code=0):
        return self.room(*words, code=code)

    def json(self, *words):
        return self.room.json(*words)

    def tool(self, name):
        return self.json("labels", "show", "mail", name)


def test_what_nobody_said_is_unknown_and_counts_as_the_worst(room):
    room.room.met("mail", BARE)
    shown = room.tool("wipe_mail")
    assert shown["label"]["destination"] == ["public"]
    assert shown["label"]["outcomes"] == ["consequential", "irreversible"]
    assert shown["label"]["source"] == ["untrustedPublic"]
    assert {shown["who"][field] for field in ("destination", "outcomes", "source", "sensitivity", "accepts")} == {
        "unknown"
    }
    assert shown["said"] == {}
    text = room("labels", "show").out
    assert "public (unknown)" in text
    assert "wipe_mail" in text


def test_who_said_what_is_told_for_each_field(small):
    small.room.met("mail", SEND, READ)
    small.says('hints = true\n[servers.mail.trust.tools.send_mail]\ndestination = "public"\n')
    sent, read = small.tool("send_mail"), small.tool("read_mail")
    assert (sent["label"]["destination"], sent["who"]["destination"]) == (["public"], "operator")
    assert sent["said"]["operator"] == {"destination": ["public"]}
    assert sent["said"]["server"]["outcomes"] == ["benign"]
    assert (read["label"]["outcomes"], read["who"]["outcomes"]) == (["benign"], "hints")
    assert read["who"]["sensitivity"] == "unknown"
    lines = small("labels", "show", "mail", "send_mail").out
    assert "public  (you said so)" in lines
    assert "not trusted: it can only make things stricter" in lines
    assert "to  (guessed from its schema)" in lines


def test_a_trusted_server_is_believed_and_defaults_are_named(small):
    small.room.met("mail", SEND, BARE)
    small.says('trusted = true\n[trust.defaults]\noutcomes = "consequential"\n')
    sent, bare = small.tool("send_mail"), small.tool("wipe_mail")
    assert (sent["label"]["destination"], sent["who"]["destination"]) == (["user"], "server")
    assert (bare["label"]["outcomes"], bare["who"]["outcomes"]) == (["consequential"], "default")


@requirement("TA-069")
def test_the_report_lists_tools_that_declare_less_than_what_holds_here(room):
    room.room.met("mail", SEND, READ, BARE, MILD)
    room.says('[servers.mail.trust.tools.a_mild_one]\ndestination = "user"\noutcomes = "benign"\n')
    found = room.json("labels", "report")
    of_send = {row["field"]: row for row in found if row["tool"] == "send_mail"}
    assert of_send.keys() == {"destination", "outcomes", "source", "sensitivity"}
    assert of_send["destination"] == {
        "server": "mail",
        "tool": "send_mail",
        "field": "destination",
        "declared": "user",
        "local": "public",
        "who": "unknown",
    }
    assert (of_send["outcomes"]["declared"], of_send["outcomes"]["local"]) == (
        "benign",
        "consequential or irreversible",
    )
    mild = [row for row in found if row["tool"] == "a_mild_one"]
    assert [(row["field"], row["declared"], row["local"], row["who"]) for row in mild] == [
        ("destination", "ephemeral", "user", "operator")
    ]
    # What may be irreversible comes before what is benign, whatever its name.
    assert [row["tool"] for row in found].index("send_mail") < [row["tool"] for row in found].index("a_mild_one")
    # A tool that declares nothing understates nothing.
    assert "wipe_mail" not in {row["tool"] for row in found}
    text = room("labels", "report", "mail")
    assert "send_mail" in text.out
    assert "unknown" in text.out


@requirement("TA-069")
def test_the_report_is_empty_once_the_operator_agrees_or_trusts(small):
    small.room.met("mail", SEND)
    assert small.json("labels", "report")
    small.says("trusted = true\n")
    assert small.json("labels", "report") == []
    assert "No tool declares less" in small("labels", "report").err


def test_the_starter_can_be_pasted_and_then_holds(small):
    small.room.met("mail", SEND, READ, BARE)
    table = small("labels", "starter", "mail").out
    small.file.write_text(CONFIG.format(url=small.room.url, section="") + table)
    assert small("labels", "show", "mail", "read_mail", "--json")
    shown = small.tool("read_mail")
    assert (shown["label"]["outcomes"], shown["who"]["outcomes"]) == (["benign"], "operator")
    assert small.tool("wipe_mail")["who"]["outcomes"] == "unknown"
    assert config.load(small.file).servers["mail"].trust.tools["read_mail"].read_only is True


def test_a_starter_for_names_of_any_letters_is_toml_still(small):
    odd = entry('x"]\n[servers.evil]\nurl = "https://evil.example/"\n#', annotations={"readOnlyHint": True})
    listed = small.file.with_name("tools.json")
    listed.write_text(json.dumps({"tools": [odd]}))
    table = small("labels", "starter", "mail", "--from", str(listed)).out
    small.file.write_text(CONFIG.format(url=small.room.url, section="") + table)
    assert list(config.load(small.file).servers) == ["mail"]


def test_annotations_that_cannot_be_read_are_told_and_count_as_unknown(small):
    small.room.met("mail", BROKEN)
    small.says("trusted = true\n")
    shown = small.tool("count_mail")
    assert shown["who"]["destination"] == "unknown"
    assert [problem["path"] for problem in shown["problems"]] == ["annotations.inputMetadata"]
    assert "cannot be read" in small("labels", "show").err
    assert "unreadable" in small("labels", "show", "mail", "count_mail").out


def test_argument_rules_are_shown_and_their_values_are_possible(small):
    small.room.met("mail", BARE)
    small.says(
        """
        [servers.mail.trust.tools."*"]
        destination = "user"
        [[servers.mail.trust.rules]]
        tool = "wipe_*"
        when = 'args.folder == "/shared"'
        destination = "internal"
        """
    )
    assert small.tool("wipe_mail")["label"]["destination"] == ["user", "internal"]
    assert 'args.folder == "/shared"' in small("labels", "show", "mail", "wipe_mail").out


def test_a_list_in_a_file_needs_no_store(here, capsys):
    file = here / "tools.json"
    file.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [READ]}}))
    assert run(["labels", "show", "mail", "--from", str(file), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["server"], row["tool"], row["listed"]) == ("mail", "read_mail", True)
    assert not list(here.glob("**/*.db"))


@rows("text", ["", "{}", '{"tools": 7}', "[" * 100_000, '"tools"'])
def test_a_file_without_a_list_is_told(here, capsys, text):
    file = here / "tools.json"
    file.write_text(text)
    assert run(["labels", "show", "mail", "--from", str(file)]) == 1
    said = capsys.readouterr().err
    assert "there is no list of tools in it" in said
    assert "Traceback" not in said


def test_a_server_that_is_configured_but_was_not_met(small):
    small.says('[servers.mail.trust.tools.send_mail]\ndestination = "public"\n')
    (row,) = small.json("labels", "show")
    assert (row["tool"], row["listed"], row["who"]["destination"]) == ("send_mail", False, "operator")
    assert "mail was not met yet" in small("labels", "show").err
    assert "no list of tools of mail was met yet" in small("labels", "starter", "mail", code=1).err


@rows("words", [("show", "nobody"), ("show", "mail", "nothing"), ("report", "nobody")])
def test_a_name_that_nobody_has_is_told(small, words):
    small.room.met("mail", READ)
    said = small("labels", *words, code=1).err
    assert words[-1] in said


def test_the_suggested_commands_work(small):
    small.room.met("mail", SEND, BARE)
    for words in (("labels", "show"), ("labels", "report")):
        (line,) = [line for line in small(*words).err.splitlines() if "callgate labels" in line]
        _, *typed = shlex.split(line[line.index("callgate labels") :])
        assert run(typed) == 0
        small.room.quiet()


def test_text_of_a_server_does_not_reach_the_terminal_as_it_is(small):
    name = "e\x1b[31mvil\u202e"
    listed = small.file.with_name("tools.json")
    listed.write_text(json.dumps([entry(name, annotations={"returnMetadata": "\x1b[2J", "inputMetadata": "\u202e"})]))
    for words in (("labels", "show", "mail"), ("labels", "show", "mail", name), ("labels", "report", "mail")):
        said = small(*words, "--from", str(listed))
        assert "\x1b" not in said.out + said.err
        assert "\u202e" not in said.out + said.err
    assert "u001b" in said.err + small("labels", "show", "mail", name, "--from", str(listed)).out


def test_what_was_approved_with_a_tool_is_told(small):
    small.room.met("mail", SEND, READ)
    small.room.approve("mail", "read_mail")
    said = small.room("labels", "show", "mail", "read_mail").out
    assert "approved with the tool" in said
    assert "review" in said.partition("Who said what")[2]
