"""`callgate upgrade`: another version is started, compared with what was approved, and written only after a yes."""

import json
import shutil

import pytest

from callgate.cli.install.targets import toml_with
from callgate.cli.install.versions import is_newer
from callgate.errors import CallgateError
from support.fork_server import CALLGATE
from support.installed import Home
from support.npm_registry import npm_registry
from support.table import rows
from support.terminal import Terminal

CLOSED = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}, "additionalProperties": False}


def tool(name, description, **more):
    return {"name": name, "description": description, "inputSchema": CLOSED, **more}


READ = tool("read_note", "Read a note.")
LIST = tool("list_notes", "List the notes.")
CHANGED = tool("read_note", "Read a note and send a copy to the archive.")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A registry, and a home where a client has a server of version 1.0.0 behind the gate, approved: made once, for
    npm takes its time."""
    folder = tmp_path_factory.mktemp("upgrade")
    with npm_registry() as registry:
        registry.publish("@acme/notes", "1.0.0", [READ, LIST])
        home = Home(folder / "home")
        home.environ |= registry.environ(folder)
        servers = {"notes": {"command": "npx", "args": ["-y", "@acme/notes", "x"]}}
        path = home.write(".cursor/mcp.json", json.dumps({"mcpServers": servers}, indent=2))
        home.type("install", "--pin-versions", "--yes", "--no-hooks")
        assert tools_of(home, entry(path)) == []
        waiting = home.write("tools.json", home.type("tools", "list", "--json"))
        home.type("tools", "approve", "--from", str(waiting), "--with-findings")
        home.close()
        shutil.copytree(home.path, folder / "as it was")
        yield registry, home, folder / "as it was"


@pytest.fixture
def registry(made):
    made[0].unpublish()
    made[0].publish("@acme/notes", "1.0.0", [READ, LIST])
    return made[0]


@pytest.fixture
def home(made, registry):
    _, home, before = made
    shutil.rmtree(home.path)
    shutil.copytree(before, home.path)
    home.environ |= {"npm_config_registry": registry.url}
    yield home
    home.close()


@pytest.fixture
def notes(home):
    return home.path / ".cursor/mcp.json"


def entry(path, name="notes"):
    return json.loads(path.read_text())["mcpServers"][name]


def tools_of(home, wrapped):
    with home.started(wrapped) as server:
        server.shake_hands()
        return server.tools()


def states(home, version):
    listed = json.loads(home.type("tools", "list", "--json"))
    return {one["tool"]: one["state"] for one in listed if is_version(one["server_id"], version)}


def is_version(server_id, version):
    """Whether an identity is of that version, whatever else is on its command."""
    return server_id.startswith(f"npm:@acme/notes@{version} with sha256:")


def version_of(path):
    return entry(path)["args"][5]


def test_a_version_with_the_same_texts_is_written_and_approved_in_one_step(home, registry, notes):
    before = notes.read_text()
    registry.publish("@acme/notes", "1.1.0", [READ, LIST])
    looked = json.loads(home.type("upgrade", "notes", "--json"))
    assert (looked["from"], looked["to"], looked["done"]) == ("1.0.0", "1.1.0", False)
    assert sorted(looked["unchanged"]) == ["list_notes", "read_note"]
    assert notes.read_text() == before
    assert "notes" not in {one["server_id"] for one in json.loads(home.type("tools", "list", "--json"))}

    said = home.type("upgrade", "notes", "--yes")
    assert "from 1.0.0 to 1.1.0" in said
    assert "2 tools are word for word what was approved." in said
    assert "Restart Cursor" in said
    assert version_of(notes) == "@acme/notes@1.1.0"
    assert tools_of(home, entry(notes)) == ["list_notes", "read_note"]
    history = json.loads(home.type("tools", "history", "--json"))
    assert all(is_version(one["server_id"], "1.1.0") for one in history[-2:])


def test_what_install_began_with_comes_back(home, registry, notes):
    registry.publish("@acme/notes", "1.1.0", [READ, LIST])
    home.type("upgrade", "notes", "--yes")
    home.type("uninstall", "--yes")
    assert entry(notes) == {"command": "npx", "args": ["-y", "@acme/notes", "x"]}


def test_and_also_from_a_file_that_was_edited_since(home, registry, notes):
    registry.publish("@acme/notes", "1.1.0", [READ, LIST])
    home.type("upgrade", "notes", "--yes")
    notes.write_text(notes.read_text().replace('"x"', '"y"'))
    home.type("uninstall", "--yes")
    assert entry(notes) == {"command": "npx", "args": ["-y", "@acme/notes", "y"]}


def test_a_changed_text_is_shown_before_anything_counts_and_a_no_changes_nothing(home, registry, notes):
    registry.publish("@acme/notes", "2.0.0", [CHANGED, tool("wipe", "Delete every note.")])
    before, decided = notes.read_text(), home.type("tools", "history", "--json")
    listed = home.type("tools", "list", "--json")
    with on_terminal(home, "upgrade", "notes") as seen:
        seen.expect("list_notes")
        seen.expect("changed  read_note")
        seen.expect("new      wipe: Delete every note.")
        seen.expect("{+")
        seen.expect("@acme/notes@2.0.0")
        seen.expect("Run version 2.0.0 of notes from now on? [y/N]")
        seen.press("n\n")
        seen.expect("Nothing was changed.")
        assert seen.end() == 0
    assert notes.read_text() == before
    assert home.type("tools", "history", "--json") == decided
    assert home.type("tools", "list", "--json") == listed


def test_after_a_yes_a_changed_text_waits_and_the_command_that_reviews_it_is_named(home, registry, notes):
    registry.publish("@acme/notes", "3.0.0", [CHANGED, LIST])
    said = home.type("upgrade", "notes", "--yes")
    assert "1 tool is word for word what was approved." in said
    assert "2 tools wait for review still: `callgate review`." in said
    assert tools_of(home, entry(notes)) == [], "nobody has approved anything of this version"
    [one] = [one for one in json.loads(home.type("tools", "list", "--json")) if one["tool"] == "read_note"]
    assert is_version(one["server_id"], "3.0.0")
    assert one["state"] == "new"


def test_what_stands_beside_the_texts_counts_too(home, registry, notes):
    """A server that says of a tool for the first time that it only reads has to be read itself."""
    registry.publish("@acme/notes", "4.0.0", [{**READ, "annotations": {"readOnlyHint": True}}, LIST])
    said = home.type("upgrade", "notes", "--yes")
    assert "changed  read_note" in said
    assert "readOnlyHint" in said
    assert states(home, "4.0.0") == {"list_notes": "new", "read_note": "new"}


def test_what_was_blocked_stays_blocked_and_does_not_hold_up_the_rest(home, registry, notes):
    home.type("tools", "block", "--server", "notes", "--tool", "list_notes", "--note", "not for agents")
    registry.publish("@acme/notes", "1.1.0", [READ, LIST])
    assert "1 tool is approved for it, as before." in home.type("upgrade", "notes", "--yes")
    assert states(home, "1.1.0") == {"list_notes": "new", "read_note": "approved"}


def test_a_command_without_a_version_gets_one(home, registry):
    path = home.write(
        ".cursor/mcp.json", json.dumps({"mcpServers": {"mine": {"command": "npx", "args": ["-y", "@acme/notes"]}}})
    )
    said = home.type("install", "--yes", "--no-hooks")
    assert "callgate upgrade mine" in said
    assert "from no fixed version to 1.0.0" in home.type("upgrade", "mine", "--yes")
    assert entry(path, "mine")["args"][-1] == "@acme/notes@1.0.0"
    assert states(home, "1.0.0") == {"list_notes": "approved", "read_note": "approved"}


def test_another_version_by_its_number_also_an_older_one(home, registry, notes):
    registry.publish("@acme/notes", "1.1.0", [READ, LIST])
    home.type("upgrade", "notes", "--yes")
    said = home.type("upgrade", "notes", "--to", "1.0.0", "--yes")
    assert "2 tools are approved for this version already." in said
    assert version_of(notes) == "@acme/notes@1.0.0"
    assert states(home, "1.0.0") == {"list_notes": "approved", "read_note": "approved"}


def test_a_server_of_callgate_toml(home, registry):
    path = home.write(
        ".config/callgate/callgate.toml",
        '# ours\n[servers.notes]\ncommand = ["npx", "-y", \'@acme/notes@1.0.0\', "@acme/notes@1.0.0"]  # pinned\n'
        'inherit_env = ["npm_*"]\nenv = { TOKEN = "s3cret" }\n',
    )
    home.path.joinpath(".cursor/mcp.json").unlink()
    wrapped = {"command": CALLGATE, "args": ["wrap", "notes"]}
    registry.publish("@acme/notes", "1.1.0", [READ, LIST])
    before = path.read_text()
    said = home.type("upgrade", "notes", "--yes")
    assert "s3cret" not in said
    assert path.read_text() == before.replace("'@acme/notes@1.0.0'", "'@acme/notes@1.1.0'")
    assert tools_of(home, wrapped) == ["list_notes", "read_note"]


# -- what cannot be upgraded -----------------------------------------------------------------------------------


def test_no_newer_version(home, notes):
    before = notes.read_text()
    assert "notes runs version 1.0.0 of @acme/notes, and there is no newer one." in home.type("upgrade", "notes")
    assert notes.read_text() == before


def test_a_server_that_nobody_has(home, notes):
    said = home.type("upgrade", "other", code=1)
    assert "no server named 'other' is configured" in said
    assert "Servers that were found: notes." in said


@rows(
    ("entry", "what"),
    [
        ({"command": "node", "args": ["server.js"]}, "a file"),
        ({"command": "npx", "args": ["github:acme/notes"]}, "a repository"),
        ({"command": "npx", "args": ["-p", "a", "-p", "b", "run"]}, "several packages"),
        ({"command": "docker", "args": ["run", "acme/notes"]}, "an image"),
    ],
)
def test_a_server_that_is_no_package(home, notes, entry, what):
    home.write("other.json", json.dumps({"mcpServers": {"other": entry}}))
    file = str(home.path / "other.json")
    home.type("install", "--yes", "--config-file", file)
    said = home.type("upgrade", "other", "--config-file", file, code=1)
    assert f"other is not started from one package of npm or PyPI, but from {what}" in said


def test_a_version_that_cannot_be_looked_up(home, notes):
    home.environ["npm_config_registry"] = "http://127.0.0.1:1/"
    said = home.type("upgrade", "notes", code=1)
    assert "the newest version of @acme/notes could not be looked up: npm does not say" in said
    assert "`callgate upgrade notes --to VERSION`" in said


def test_a_version_that_does_not_start_changes_nothing(home, notes):
    before = notes.read_text()
    said = home.type("upgrade", "notes", "--to", "9.9.9", "--yes", code=1)
    assert "version 9.9.9 of notes could not be asked for its tools" in said
    assert "Nothing was changed" in said
    assert notes.read_text() == before


def test_one_name_for_two_packages(home, registry, notes):
    registry.publish("other", "1.0.0", [READ])
    home.write("my project/.mcp.json", json.dumps({"mcpServers": {"notes": {"command": "npx", "args": ["other"]}}}))
    home.type("install", "--yes", "--no-hooks")
    said = home.type("upgrade", "notes", code=1)
    assert "notes stands for two packages: @acme/notes and other" in said
    assert "no newer one" in home.type("upgrade", "notes", "--client", "cursor")


def test_where_nobody_can_be_asked_nothing_is_changed(home, registry, notes):
    registry.publish("@acme/notes", "1.1.0", [READ, LIST])
    before = notes.read_text()
    assert "nobody is here to be asked" in home.type("upgrade", "notes", code=1)
    assert notes.read_text() == before


# -- small parts -----------------------------------------------------------------------------------------------


@rows(
    ("one", "other", "newer"),
    [
        ("1.10.0", "1.9.0", True),
        ("1.9.0", "1.10.0", False),
        ("1.0.0", "1.0", False),
        ("1.0.0", "1.0.0-rc.1", True),
        ("1.0.0-rc.2", "1.0.0-rc.1", True),
        ("1.0.0-rc.10", "1.0.0-rc.9", True),
        ("2.0b1", "1.9", True),
        ("2.0b1", "2.0", False),
        ("1.0.post1", "1.0", True),
        ("1.0+local", "1.0", False),
        ("2026.10.19", "2026.9.1", True),
    ],
)
def test_which_of_two_versions_is_newer(one, other, newer):
    assert is_newer(one, other) is newer


@rows(
    ("text", "now"),
    [
        ('servers.a.command = ["npx", "p@1"]\n', 'servers.a.command = ["npx", "p@2"]\n'),
        (
            '[servers.b]\ncommand = ["npx", "p@1"]\n[servers.a]\ncommand = [\n "npx",\n "p@1", # p@1\n]\n',
            '[servers.b]\ncommand = ["npx", "p@1"]\n[servers.a]\ncommand = [\n "npx",\n "p@2", # p@1\n]\n',
        ),
        ("servers = { a = { command = [\"npx\", 'p@1'] } }\n", "servers = { a = { command = [\"npx\", 'p@2'] } }\n"),
        ('[servers.a]\ncommand = ["npx", "p\\u00401"]\n', None),
    ],
)
def test_one_word_of_a_toml_changes_and_nothing_else(text, now):
    if now is None:
        with pytest.raises(CallgateError, match="cannot be changed safely"):
            toml_with(text, "a", 1, "p@2")
        return
    assert toml_with(text, "a", 1, "p@2") == now


def on_terminal(home, *words):
    return Terminal(
        [CALLGATE, *words],
        rows=200,
        env={
            **home.environ,
            "XDG_STATE_HOME": str(home.path / ".local/state"),
            "XDG_CONFIG_HOME": str(home.path / ".config"),
        },
    )
