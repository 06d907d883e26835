from pathlib import Path

from callgate.clients import CLIENTS, Machine, config_locations, hook_locations, location_of
from callgate.clients.locations import ANY
from support.table import rows

HOME = Path("/home/me")


def paths(platform, environ=None, project=None, home=HOME):
    found = config_locations(Machine(home, platform, environ or {}, project))
    return {(spot.client, spot.path.as_posix()) for spot in found}


@rows(
    ("platform", "client", "path"),
    [
        ("linux", "claude-desktop", ".config/Claude/claude_desktop_config.json"),
        ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        (
            "win32",
            "claude-desktop",
            "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json",
        ),
        ("linux", "vscode", ".config/Code/User/mcp.json"),
        ("linux", "vscode", ".config/Code - Insiders/User/settings.json"),
        ("linux", "vscode", ".config/VSCodium/User/mcp.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", "AppData/Roaming/Code/User/mcp.json"),
        ("linux", "zed", ".config/zed/settings.json"),
        ("darwin", "zed", ".config/zed/settings.json"),
        ("win32", "zed", "AppData/Roaming/Zed/settings.json"),
        *(
            (platform, client, path)
            for platform in ("linux", "darwin", "win32")
            for client, path in [
                ("claude-code", ".claude.json"),
                ("cursor", ".cursor/mcp.json"),
                ("windsurf", ".codeium/windsurf/mcp_config.json"),
            ]
        ),
    ],
)
def test_where_each_client_keeps_its_servers(platform, client, path):
    assert (client, f"/home/me/{path}") in paths(platform)


@rows(
    ("platform", "variable", "path"),
    [
        ("linux", "XDG_CONFIG_HOME", "/else/Code/User/mcp.json"),
        ("linux", "XDG_CONFIG_HOME", "/else/zed/settings.json"),
        ("win32", "APPDATA", "/else/Zed/settings.json"),
        ("linux", "CLAUDE_CONFIG_DIR", "/else/.claude.json"),
    ],
)
def test_the_environment_moves_folders(platform, variable, path):
    assert path in {at for _, at in paths(platform, {variable: "/else"})}
    assert path not in {at for _, at in paths(platform, {variable: "else"})}, "a relative one does not count"


def test_the_variable_of_linux_is_not_the_macs():
    assert ("zed", "/home/me/.config/zed/settings.json") in paths("darwin", {"XDG_CONFIG_HOME": "/else"})


def test_the_files_of_a_project():
    found = paths("linux", project=Path("/home/me/p")) - paths("linux")
    assert found == {
        ("claude-code", "/home/me/p/.mcp.json"),
        ("cursor", "/home/me/p/.cursor/mcp.json"),
        ("vscode", "/home/me/p/.vscode/mcp.json"),
        ("vscode", "/home/me/p/.vscode/settings.json"),
        ("zed", "/home/me/p/.zed/settings.json"),
    }


def test_in_the_home_folder_a_file_is_the_users_and_not_a_projects():
    found = config_locations(Machine(HOME, "linux", {}, HOME))
    (cursor,) = [spot for spot in found if spot.path == HOME / ".cursor" / "mcp.json"]
    assert cursor.project is None


def test_profiles_of_vs_code(tmp_path):
    (tmp_path / ".config/Code/User/profiles/abc").mkdir(parents=True)
    assert ("vscode", f"{tmp_path}/.config/Code/User/profiles/abc/mcp.json") in paths("linux", home=tmp_path)


def test_a_file_by_its_path_is_its_clients_or_a_plain_one():
    machine = Machine(HOME, "linux", {}, None)
    assert location_of(HOME / ".cursor" / "mcp.json", machine).client == "cursor"
    plain = location_of(Path("/else/mcp.json"), machine)
    assert (plain.client, plain.tables, plain.title) == ("file", ANY, "MCP configuration")


def test_every_client_has_a_name_for_people():
    hooks = {spot.client for spot in hook_locations(Machine(HOME, "linux", {}))}
    assert {client for client, _ in paths("linux")} | hooks == set(CLIENTS)


@rows(
    ("environ", "path"),
    [
        ({}, "/home/me/.claude/settings.json"),
        ({"CLAUDE_CONFIG_DIR": "/else"}, "/else/settings.json"),
        ({}, "/home/me/.codex/hooks.json"),
        ({"CODEX_HOME": "/else"}, "/else/hooks.json"),
        ({}, "/home/me/.gemini/settings.json"),
        ({}, "/home/me/.cursor/hooks.json"),
        ({}, "/home/me/.copilot/hooks/callgate.json"),
        ({}, "/home/me/.codeium/windsurf/hooks.json"),
    ],
)
def test_where_each_client_keeps_its_hooks(environ, path):
    assert path in {spot.path.as_posix() for spot in hook_locations(Machine(HOME, "darwin", environ))}
    assert hook_locations(Machine(HOME, "win32", environ)) == []
