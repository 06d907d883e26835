"""Which MCP client keeps its servers where, on Linux, macOS and Windows (looked up in November 2026)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from callgate.clients.servers import Table

SERVERS: Final[tuple[Table, ...]] = (("mcpServers",),)
CLAUDE_CODE: Final[tuple[Table, ...]] = (("mcpServers",), ("projects", "*", "mcpServers"))
VSCODE: Final[tuple[Table, ...]] = (("servers",),)
# Where VS Code had them until mcp.json came, in the middle of 2025.
VSCODE_SETTINGS: Final[tuple[Table, ...]] = (("mcp", "servers"), ("mcp.servers",))
ZED: Final[tuple[Table, ...]] = (("context_servers",),)
ANY: Final[tuple[Table, ...]] = (*CLAUDE_CODE, *VSCODE, *VSCODE_SETTINGS, *ZED)

CLIENTS: Final[Mapping[str, str]] = {
    "claude-desktop": "Claude Desktop",
    "claude-code": "Claude Code",
    "cursor": "Cursor",
    "vscode": "VS Code",
    "windsurf": "Windsurf",
    "zed": "Zed",
    "gemini-cli": "Gemini CLI",
    "codex": "Codex",
}
_PROFILES_MAX: Final = 100
# The name under which Windows keeps the files of the packaged Claude Desktop.
_PACKAGE: Final = "Claude_pzs8sxrjxfjjc"


class Machine(NamedTuple):
    """Whose clients are looked for, and on what: nothing here asks the system."""

    home: Path
    platform: str
    environ: Mapping[str, str]
    # The folder whose own configurations count too.
    project: Path | None = None


class Hook(NamedTuple):
    """How a client writes the hook that runs with each prompt: the name of the event, whether entries stand in groups,
    whether an entry says that it is a command, and what else a new file has to have."""

    event: str
    nested: bool = False
    typed: bool = True
    beside: tuple[tuple[str, int], ...] = ()

    def entry(self, command: str) -> dict[str, Any]:
        plain = {"type": "command", "command": command} if self.typed else {"command": command}
        return {"hooks": [plain]} if self.nested else plain


class ConfigLocation(NamedTuple):
    """A file that a client reads servers from, or its `hook`. `project` is the folder that it belongs to, and is often
    shared with."""

    client: str
    path: Path
    tables: tuple[Table, ...]
    project: Path | None = None
    hook: Hook | None = None

    @property
    def title(self) -> str:
        return CLIENTS.get(self.client, "MCP configuration")


def config_locations(machine: Machine) -> list[ConfigLocation]:
    """Everywhere to look, each file once: the user's own first, then those of the project."""
    found: dict[Path, ConfigLocation] = {}
    for location in (*_of_user(machine), *_of_project(machine.project)):
        found.setdefault(location.path, location)
    return list(found.values())


def location_of(path: Path, machine: Machine) -> ConfigLocation:
    """The file that somebody names: as the client's that has it, or a plain one."""
    return next(
        (location for location in config_locations(machine) if location.path == path), ConfigLocation("file", path, ANY)
    )


def _of_user(machine: Machine) -> Iterator[ConfigLocation]:
    home, settings = machine.home, _settings(machine)
    yield ConfigLocation("claude-desktop", settings / "Claude" / "claude_desktop_config.json", SERVERS)
    if machine.platform == "win32":
        packages = folder_of(machine, "LOCALAPPDATA", machine.home / "AppData" / "Local") / "Packages"
        inside = packages / _PACKAGE / "LocalCache" / "Roaming" / "Claude"
        yield ConfigLocation("claude-desktop", inside / "claude_desktop_config.json", SERVERS)
    yield ConfigLocation("claude-code", folder_of(machine, "CLAUDE_CONFIG_DIR", home) / ".claude.json", CLAUDE_CODE)
    yield ConfigLocation("cursor", home / ".cursor" / "mcp.json", SERVERS)
    for flavour in ("Code", "Code - Insiders", "VSCodium"):
        user = settings / flavour / "User"
        for folder in (user, *_profiles(user / "profiles")):
            yield ConfigLocation("vscode", folder / "mcp.json", VSCODE)
            yield ConfigLocation("vscode", folder / "settings.json", VSCODE_SETTINGS)
    yield ConfigLocation("windsurf", home / ".codeium" / "windsurf" / "mcp_config.json", SERVERS)
    yield ConfigLocation("windsurf", home / ".codeium" / "mcp_config.json", SERVERS)
    if machine.platform == "win32":
        yield ConfigLocation("zed", settings / "Zed" / "settings.json", ZED)
    else:
        yield ConfigLocation("zed", _xdg(machine) / "zed" / "settings.json", ZED)


def _of_project(project: Path | None) -> Iterator[ConfigLocation]:
    if project is None:
        return
    yield ConfigLocation("claude-code", project / ".mcp.json", SERVERS, project)
    yield ConfigLocation("cursor", project / ".cursor" / "mcp.json", SERVERS, project)
    yield ConfigLocation("vscode", project / ".vscode" / "mcp.json", VSCODE, project)
    yield ConfigLocation("vscode", project / ".vscode" / "settings.json", VSCODE_SETTINGS, project)
    yield ConfigLocation("zed", project / ".zed" / "settings.json", ZED, project)


def _settings(machine: Machine) -> Path:
    """Where applications keep their settings."""
    if machine.platform == "win32":
        return folder_of(machine, "APPDATA", machine.home / "AppData" / "Roaming")
    if machine.platform == "darwin":
        return machine.home / "Library" / "Application Support"
    return _xdg(machine)


def _xdg(machine: Machine) -> Path:
    # Zed reads ~/.config on macOS as well; the variable counts on Linux alone.
    usual = machine.home / ".config"
    return usual if machine.platform == "darwin" else folder_of(machine, "XDG_CONFIG_HOME", usual)


def folder_of(machine: Machine, variable: str, usual: Path) -> Path:
    """The folder that a variable names, if it names one, else the usual one."""
    named_ = machine.environ.get(variable, "")
    return Path(named_) if named_ and Path(named_).is_absolute() else usual


def _profiles(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:_PROFILES_MAX]
    except OSError:
        return []
