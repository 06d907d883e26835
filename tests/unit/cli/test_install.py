"""`callgate install` and `callgate uninstall` on the files of each client, in a home of their own."""

import json
import sys
from pathlib import Path

import pytest

from callgate.cli import run
from support.table import rows

PROGRAM = str(Path(sys.executable).with_name("callgate"))

CLIENTS = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "claude-code": (".claude.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}
TEXT = """{{
\t// what this editor looks like
\t"theme": "dark", /* unknown to us */
\t"{key}": {{
\t\t"files": {{ "command": "npx", "args": ["-y", "server", "/my documents"], "env": {{"TOKEN": "s3cret"}}, }},
\t\t"web": {{
\t\t\t"url": "https://tools.example/mcp",
\t\t\t"headers": {{"Authorization": "Bearer s3cret"}},
\t\t}},
\t}},
}}
"""


class Home:
    """A home folder, and the command line in it."""

    def __init__(self, path, capsys):
        self.path = path
        self._capsys = capsys

    def __call__(self, *words, code=0):
        found = run(list(words))
        said = self._capsys.readouterr()
        assert found == code, said.out + said.err
        return said.out + said.err

    def json(self, *words, code=0):
        return json.loads(self(*words, "--json", code=code))

    def write(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def files(self):
        """Everything in the home, but for what Callgate keeps for itself."""
        found = [path for path in self.path.rglob("*") if path.is_file()]
        return {
            path.relative_to(self.path).as_posix(): path.read_bytes() for path in found if "state" not in path.parts
        }

    def records(self):
        folder = self.path / "state" / "callgate" / "installed"
        return sorted(folder.iterdir()) if folder.exists() else []


@pytest.fixture
def home(here, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / ".config"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    project = here / "my project"
    project.mkdir()
    monkeypatch.chdir(project)
    return Home(here, capsys)


def plain(path):
    """A file as a client reads it: our own are all without comments once these lines are out."""
    lines = path.read_text().replace("/* unknown to us */", "").replace(", }", "}").splitlines()
    text = "\n".join(line for line in lines if "//" not in line or "https://" in line)
    return json.loads(text.replace(",\n\t\t}", "\n\t\t}").replace(",\n\t}", "\n\t}").replace(",\n}", "\n}"))


@rows("client", CLIENTS)
def test_each_client_is_found_wrapped_and_restored(home, client):
    name, key = CLIENTS[client]
    for other, _ in CLIENTS.values():
        (home.path / other).unlink(missing_ok=True)
    path = home.write(name, TEXT.format(key=key))
    path.chmod(0o640)
    before = home.files()
    said = home("install", "--yes")
    servers = plain(path)[key]
    assert servers["files"] == {
        "command": PROGRAM,
        "args": ["wrap", "files", "--", "npx", "-y", "server", "/my documents"],
        "env": {"TOKEN": "s3cret"},
    }
    assert servers["web"]["env"] == {"CALLGATE_HEADER_AUTHORIZATION": "Bearer s3cret"}
    assert servers["web"]["args"][2:4] == ["--url", "https://tools.example/mcp"]
    assert "s3cret" not in said
    assert "callgate review" in said
    backup = path.with_name(f"{path.name}.callgate-backup")
    assert backup.read_bytes() == before[name]
    assert backup.stat().st_mode & 0o077 == 0
    assert path.stat().st_mode & 0o777 == 0o640
    assert {row["client"] for row in home.json("install")} == {client}
    again = home.files()
    assert "already behind the gate" in home("install", "--yes")
    assert home.files() == again
    assert "byte for byte" in home("uninstall", "--yes")
    assert home.files() == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert home.records() == []
    assert "Nothing to do" in home("uninstall", "--yes")


# ---- hooks ----

HOOK_FILES = {
    "claude-code": (".claude/settings.json", "UserPromptSubmit"),
    "cursor": (".cursor/hooks.json", "beforeSubmitPrompt"),
    "vscode": (".copilot/hooks/callgate.json", "UserPromptSubmit"),
    "windsurf": (".codeium/windsurf/hooks.json", "pre_user_prompt"),
}
OWN = """{
\t// mine
\t"env": {"TOKEN": "s3cret"},
\t"hooks": {
\t\t"EVENT": [
\t\t\t{"hooks": [{"type": "command", "command": "my-own prompt"}]}, // stays
\t\t],
\t},
}
"""


@rows("client", HOOK_FILES)
def test_a_client_with_servers_behind_the_gate_gets_a_hook(home, client):
    (servers, key), (name, event) = CLIENTS[client], HOOK_FILES[client]
    home.write(servers, json.dumps({key: {"a": {"command": "x"}}}))
    before = home.files()
    said = home("install", "--yes", "--client", client)
    made = json.loads((home.path / name).read_text())
    assert f'"command": "{PROGRAM} prompt"' in json.dumps(made["hooks"][event])
    assert "(a new file)" in said
    assert f'+         "command": "{PROGRAM} prompt"' in said.replace("+             ", "+         ")
    assert "a hook now tells the gate what you wrote" in said
    assert "tells the gate already what you write" in home("install", "--yes", "--client", client)
    assert "Removed." in home("uninstall", "--yes", "--client", client)
    assert home.files() == before
    assert home.records() == []
    home("install", "--yes", "--no-hooks", "--client", client)
    assert not (home.path / name).exists()
    home("uninstall", "--yes", "--client", client)


@rows("client", HOOK_FILES)
def test_hooks_of_the_users_own_stay(home, client):
    (servers, key), (name, event) = CLIENTS[client], HOOK_FILES[client]
    home.write(servers, json.dumps({key: {"a": {"command": "x"}}}))
    path = home.write(name, OWN.replace("EVENT", event))
    said = home("install", "--yes", "--client", client)
    assert "s3cret" not in said
    text = path.read_text()
    assert '{"hooks": [{"type": "command", "command": "my-own prompt"}]},' in text
    assert "// stays" in text
    assert text.count(f"{PROGRAM} prompt") == 1
    assert home("install", "--yes", "--client", client)
    assert path.read_text() == text
    path.write_text(text.replace("// mine", "// mine, changed"))
    home("uninstall", "--yes", "--client", client)
    assert path.read_text() == OWN.replace("EVENT", event).replace("// mine", "// mine, changed")
    path.write_text(OWN.replace("EVENT", event))
    home("install", "--yes", "--client", client)
    home("uninstall", "--yes", "--client", client)
    assert path.read_text() == OWN.replace("EVENT", event)


def test_a_hook_needs_a_server_behind_the_gate(home):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"url": "https://a/sse"}}}').chmod(0o440)
    assert home.json("install", "--yes")[0]["hooks"] == []
    assert not (home.path / ".cursor/hooks.json").exists()
    home.write(".codex/config.toml", '[mcp_servers.files]\ncommand = "/opt/callgate"\nargs = ["wrap", "files"]\n')
    said = home("install", "--yes")
    assert "type /hooks there" in said
    assert "UserPromptSubmit" in json.loads((home.path / ".codex/hooks.json").read_text())["hooks"]


def test_a_client_whose_servers_somebody_wrapped_by_hand(home):
    servers = {"a": {"command": "/opt/callgate", "args": ["wrap", "a", "--", "x"]}}
    path = home.write(".gemini/settings.json", json.dumps({"mcpServers": servers}, indent=2))
    home("install", "--yes")
    assert json.loads(path.read_text())["hooks"] == {
        "BeforeAgent": [{"hooks": [{"type": "command", "command": f"{PROGRAM} prompt"}]}]
    }
    home("uninstall", "--yes")
    assert json.loads(path.read_text()) == {"mcpServers": servers}
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "args": ["wrap"]}}}))
    assert home.json("install", "--yes") == []


def test_a_gate_that_hears_no_prompts_needs_no_hooks(home):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    home.write("gate.toml", "[trust]\nprompt_hooks = false\n")
    home("install", "--yes", "-c", str(home.path / "gate.toml"))
    assert not (home.path / ".cursor/hooks.json").exists()


def test_a_file_of_hooks_that_is_none_is_told_and_left(home):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    path = home.write(".cursor/hooks.json", '{"hooks": {"beforeSubmitPrompt": "x"}}')
    assert "cannot be changed safely" in home("install", "--yes", code=1)
    assert path.read_text() == '{"hooks": {"beforeSubmitPrompt": "x"}}'


# ---- files ----


def test_the_servers_of_projects_in_the_file_of_claude_code(home):
    value = {"numStartups": 3, "projects": {"/a": {"mcpServers": {"s": {"type": "stdio", "command": "x", "args": []}}}}}
    path = home.write(".claude.json", json.dumps(value))
    assert "s (/a)" in home("install", "--yes")
    found = json.loads(path.read_text())
    assert found["projects"]["/a"]["mcpServers"]["s"]["command"] == PROGRAM
    assert found["numStartups"] == 3


@rows("text", ['{"mcp": {"servers": {"s": {"command": "x"}}}}', '{"mcp.servers": {"s": {"command": "x"}}}'])
def test_the_settings_of_an_older_vs_code(home, text):
    path = home.write(".config/Code/User/settings.json", text)
    home("install", "--yes")
    assert "callgate" in path.read_text()
    home("uninstall", "--yes")
    assert path.read_text() == text


@rows("name", [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".zed/settings.json"])
def test_the_files_of_the_project_that_one_stands_in(home, name):
    key = {".vscode/mcp.json": "servers", ".zed/settings.json": "context_servers"}.get(name, "mcpServers")
    text = f'{{"{key}": {{"s": {{"command": "./run me"}}}}}}'
    path = home.write(f"my project/{name}", text)
    assert "belongs to this project" in home("install", "--yes")
    assert PROGRAM in path.read_text()
    home("uninstall", "--yes")
    path.unlink()


def test_uninstall_finds_the_files_of_other_projects_too(home, monkeypatch):
    path = home.write("my project/.mcp.json", '{"mcpServers": {"s": {"command": "x"}}}')
    home("install", "--yes")
    monkeypatch.chdir(home.path)
    assert "my project/.mcp.json" in home("uninstall", "--yes")
    assert path.read_text() == '{"mcpServers": {"s": {"command": "x"}}}'


def test_a_plain_file_by_its_path(home):
    path = home.write("else where/servers.json", '{"mcpServers": {"s": {"command": "x"}}}')
    home.write(".cursor/mcp.json", '{"mcpServers": {"other": {"command": "y"}}}')
    home("install", "--yes", "--config-file", str(path))
    assert PROGRAM in path.read_text()
    assert PROGRAM not in (home.path / ".cursor/mcp.json").read_text()
    home("uninstall", "--yes", "--config-file", str(path))
    assert path.read_text() == '{"mcpServers": {"s": {"command": "x"}}}'
    assert "there is no such file" in home("install", "--config-file", "none.json", code=1)


def test_some_clients_and_some_servers(home):
    for client, (name, key) in CLIENTS.items():
        home.write(name, f'{{"{key}": {{"a": {{"command": "{client}"}}, "b": {{"command": "b"}}}}}}')
    home("install", "--yes", "--client", "zed", "--client", "cursor", "--server", "a")
    changed = {name for name, data in home.files().items() if PROGRAM.encode() in data}
    assert changed == {CLIENTS["zed"][0], CLIENTS["cursor"][0]}
    assert home.files()[CLIENTS["zed"][0]].count(PROGRAM.encode()) == 1
    home("install", "--yes")
    home("uninstall", "--yes", "--client", "zed", "--server", "b")
    assert b'"b": {"command": "b", "args": []}' in home.files()[CLIENTS["zed"][0]]
    home("uninstall", "--yes")
    assert home.files()[CLIENTS["zed"][0]] == b'{"context_servers": {"a": {"command": "zed"}, "b": {"command": "b"}}}'
    assert not any("backup" in name for name in home.files())


def test_mistakes_on_the_command_line(home):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    assert "'emacs' is not one of" in home("install", "--client", "emacs", code=2)
    assert "'emacs' is not one of" in home("uninstall", "--client", "emacs", code=2)
    said = home("install", "--server", "b", code=1)
    assert "no client has a server named 'b'" in said
    assert "Servers that were found: a." in said
    assert "there is no such file" in home("install", "--config", "none.toml", code=1)


def test_nothing_there_is_nothing_to_do(home):
    assert "No MCP client on this machine" in home("install")
    assert "Nothing to do" in home("uninstall")
    assert home.json("install") == []
    home.write(".config/Code/User/settings.json", "{ broken, and none of our business")
    home.write(".config/zed/settings.json", '{"theme": "dark"}')
    assert home.json("install") == []


@rows("verb", ["install", "uninstall"])
def test_a_dry_run_shows_the_change_and_makes_none(home, verb):
    home.write(".cursor/mcp.json", TEXT.format(key="mcpServers"))
    if verb == "uninstall":
        home("install", "--yes")
    before, records = home.files(), home.records()
    said = home(verb, "--dry-run", "--yes")
    assert next(line.split()[1] for line in said.splitlines() if line.startswith("    + ")) == '"files":'
    assert "Nothing was changed." in said
    assert "s3cret" not in said
    assert (home.files(), home.records()) == (before, records)


def test_where_nobody_can_be_asked_nothing_is_changed(home):
    home.write(".cursor/mcp.json", TEXT.format(key="mcpServers"))
    before = home.files()
    assert "--yes" in home("install", code=1)
    assert home.files() == before


def test_a_broken_file_is_told_and_the_others_are_done(home):
    broken = home.write(".cursor/mcp.json", '{\n  "mcpServers": {"a": {"command": "x" "args": []}}\n}')
    other = home.write(".config/zed/settings.json", '{"context_servers": {"a": {"command": "x"}}}')
    before = broken.read_bytes()
    said = home("install", "--yes", code=1)
    assert f"{broken}:2:39: a comma is missing before this" in said
    assert "Not done, see above: ~/.cursor/mcp.json" in said
    assert broken.read_bytes() == before
    assert PROGRAM in other.read_text()
    home("uninstall", "--yes", code=1)
    assert PROGRAM not in other.read_text()


def test_a_read_only_file_is_told_and_left(home):
    path = home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    path.chmod(0o444)
    before = home.files()
    assert "is read-only" in home("install", "--yes", code=1)
    assert (home.files(), home.records()) == (before, [])


def test_a_read_only_folder_is_told_and_left(home):
    path = home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    path.parent.chmod(0o555)
    try:
        assert "its folder is read-only" in home("install", "--yes", code=1)
    finally:
        path.parent.chmod(0o755)
    assert home.files() == {".cursor/mcp.json": path.read_bytes()}
    assert home.records() == []


def test_a_state_folder_that_cannot_be_written_changes_nothing(home):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    (home.path / "state").write_text("a file in the way")
    before = home.files()
    assert "What is installed is remembered there" in home("install", "--yes", code=1)
    assert home.files() == before


def test_line_ends_and_the_mark_at_the_beginning_stay(home):
    text = '\ufeff{\r\n  "mcpServers": {\r\n    "a": {\r\n      "command": "x"\r\n    }\r\n  }\r\n}\r\n'
    path = home.write(".cursor/mcp.json", text)
    home("install", "--yes")
    wrapped = path.read_bytes().decode()
    assert wrapped.startswith("\ufeff{\r\n")
    assert wrapped.count("\n") == wrapped.count("\r\n") == text.count("\n") + 1
    home("uninstall", "--yes")
    assert path.read_bytes().decode() == text


# ---- edited since ----


def test_an_edited_file_keeps_its_edits_and_loses_the_gate(home):
    path = home.write(".cursor/mcp.json", TEXT.format(key="mcpServers"))
    home("install", "--yes")
    path.write_text(path.read_text().replace('"dark"', '"light"').replace('"server", ', '"server", "--new", '))
    said = home("uninstall", "--yes")
    assert "It was edited since" in said
    assert "mcp.json.callgate-backup" in said
    wanted = TEXT.format(key="mcpServers").replace('"dark"', '"light"').replace('"server", ', '"server", "--new", ')
    assert path.read_text() == wanted
    assert home.records() == []
    assert path.with_name("mcp.json.callgate-backup").read_text() == TEXT.format(key="mcpServers")


def test_a_server_that_was_added_and_wrapped_later(home):
    path = home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x", "args": []}}}')
    home("install", "--yes")
    path.write_text(path.read_text().replace('"mcpServers": {', '"mcpServers": {"b": {"command": "y", "args": []}, '))
    home("install", "--yes")
    assert path.read_text().count(PROGRAM) == 2
    home("uninstall", "--yes")
    assert json.loads(path.read_text()) == {
        "mcpServers": {"b": {"command": "y", "args": []}, "a": {"command": "x", "args": []}}
    }


def test_without_its_record_or_its_backup_the_entries_say_what_to_undo(home):
    text = '{"mcpServers": {"a": {"command": "x", "args": ["y"]}}}'
    path = home.write(".cursor/mcp.json", text)
    home("install", "--yes")
    for record in home.records():
        record.unlink()
    home("uninstall", "--yes")
    assert path.read_text() == text
    home("install", "--yes")
    path.with_name("mcp.json.callgate-backup").write_text("spoilt")
    path.with_name("mcp.json.callgate-backup-2").write_text("spoilt")
    home("uninstall", "--yes")
    assert path.read_text() == text


def test_what_a_hand_had_wrapped_before_stays_wrapped(home):
    text = """{"mcpServers": {"mine": {"command": "callgate", "args": ["wrap", "mine", "--", "x"]},
      "a": {"command": "y"}}}"""
    path = home.write(".cursor/mcp.json", text)
    assert "by another program: callgate" in home("install", "--yes")
    assert "stays behind the gate, as it was before" in home("uninstall", "--yes")
    assert path.read_text() == text


def test_the_file_is_gone_by_now(home):
    path = home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    home("install", "--yes", "--no-hooks")
    path.unlink()
    assert "Nothing to do" in home("uninstall", "--yes")


# ---- for machines ----


def test_the_listing_says_all_and_no_secret(home):
    home.write(".cursor/mcp.json", TEXT.format(key="mcpServers"))
    home.write("my project/.mcp.json", '{"mcpServers": {"old": {"url": "https://a/sse"}, "\\ud800": {"command": "x"}}}')
    home.write(".config/zed/settings.json", '{"context_servers": ')
    before = home.files()
    text = home("install", "--json", code=1)
    assert "s3cret" not in text
    assert home.files() == before
    cursor, zed, project, claude, hook = json.loads(text)
    assert claude["hooks"] == [{"event": "UserPromptSubmit", "state": "hook"}]
    assert (hook["file"], hook["servers"]) == (str(home.path / ".cursor/hooks.json"), [])
    assert (hook["hooks"], hook["changes"]) == ([{"event": "beforeSubmitPrompt", "state": "hook"}], True)
    assert (cursor["client"], cursor["changes"], cursor["done"], cursor["error"]) == ("cursor", True, False, None)
    assert [(row["name"], row["state"], row["kind"]) for row in cursor["servers"]] == [
        ("files", "wrap", "stdio"),
        ("web", "wrap", "http"),
    ]
    assert zed["error"]["message"].endswith("1:21: a value is missing here")
    assert (project["project"], project["servers"][0]["reason"]) == (True, "old_transport")
    assert project["servers"][1]["name"] == "?"
    done = home.json("install", "--yes", "--client", "cursor")
    assert (done[0]["done"], Path(done[0]["backup"]).name) == (True, "mcp.json.callgate-backup")
    undone = home.json("uninstall", "--yes", "--client", "cursor")
    assert [row["state"] for row in undone[0]["servers"]] == ["unwrap", "unwrap"]
    assert home.files() == before


def test_a_configuration_of_the_gate_goes_along(home):
    config = home.write("my gate/callgate.toml", "")
    path = home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    said = home("install", "--yes", "-c", str(config))
    args = json.loads(path.read_text())["mcpServers"]["a"]["args"]
    assert args == ["wrap", "a", "-c", str(config), "--", "x"]
    assert f"callgate review -c '{config}'" in said
    home("uninstall", "--yes")
    assert json.loads(path.read_text()) == {"mcpServers": {"a": {"command": "x"}}}


def test_who_may_sign_in_elsewhere_is_told(home):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"url": "https://tools.example/mcp"}}}')
    said = home("install", "--yes")
    assert "has no token for a." in said
    assert "callgate uninstall --server a" in said


def test_a_mistake_in_the_users_own_configuration_is_told_before_it_stops_every_server(home):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    home.write(".config/callgate/callgate.toml", "[gatevay]\n")
    before = home.files()
    assert "gatevay" in home("install", "--yes", code=1)
    assert home.files() == before


def test_where_there_is_no_script_python_starts_the_package_and_not_a_folder_of_that_name(home, monkeypatch):
    path = home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    monkeypatch.setattr(sys, "executable", "/somewhere/bin/python")
    home("install", "--yes")
    entry = json.loads(path.read_text())["mcpServers"]["a"]
    assert entry["command"] == "/somewhere/bin/python"
    assert entry["args"][:4] == ["-P", "-m", "callgate", "wrap"]
    home("uninstall", "--yes")
    assert path.read_text() == '{"mcpServers": {"a": {"command": "x"}}}'


def test_a_callgate_that_runs_from_a_cache_is_told(home, monkeypatch):
    home.write(".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    monkeypatch.setattr(sys, "executable", "/cache/uv/archive-v0/abc/bin/python")
    assert "may be cleared" in home("install", "--yes")
