"""A server behind the gateway, as a table `[servers.NAME]` says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from callgate.config import rules
from callgate.config.approval import ServerApproval
from callgate.config.pinning import ServerPinning
from callgate.config.rules import Clash, IdleSeconds, KeyRule, Processes, Section, Sessions
from callgate.config.secret import Secret, mask_command, mask_url
from callgate.config.trust import ServerTrust

# What a program needs to start at all; everything else is passed on only by name.
BASE_ENVIRONMENT: Final = frozenset(
    [
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    ]
)


class ServerSection(Section, frozen=True):
    """An MCP server behind the gateway: reached by `url` or started by `command`, exactly one of them."""

    url: Annotated[Secret | None, KeyRule(check=rules.http_url, expand=True, shown=mask_url)] = None
    """Address of the server's MCP endpoint, http or https. `${NAME}` is expanded."""
    command: Annotated[tuple[Secret, ...], KeyRule(check=rules.word, expand=True, shown=mask_command)] = ()
    """Program and arguments that start the server on stdio. `${NAME}` is expanded; no shell is used."""
    env: Annotated[dict[str, Secret], KeyRule(name=rules.env_name, check=rules.no_nul, expand=True)] = field(
        default_factory=dict
    )
    """Environment variables for the command. `${NAME}` is expanded."""
    inherit_env: Annotated[tuple[str, ...], KeyRule(check=rules.env_name)] = ()
    """Names of the gateway's own environment variables to hand to the command, beside the few that every program needs.
    `*` stands for any letters, so `AWS_*` works."""
    cwd: Annotated[Path | None, KeyRule(check=rules.word, expand=True, place=rules.place_path)] = None
    """Working directory of the command. `~` and `${NAME}` are expanded; a relative one is taken from the folder of this
    configuration."""
    headers: Annotated[dict[str, Secret], KeyRule(name=rules.header_name, check=rules.header_value, expand=True)] = (
        field(default_factory=dict)
    )
    """HTTP headers to send to the url, such as `Authorization`. `${NAME}` is expanded."""
    forward_authorization: bool = False
    """Pass the client's own Authorization header on to this url."""
    connect_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """How long connecting or starting may take."""
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=86400)] = 300.0
    """How long the server may take to begin an answer."""
    sessions: Sessions | None = None
    """Instead of `limits.sessions`, for this server."""
    processes: Processes | None = None
    """Instead of `limits.processes`, for this server."""
    idle_seconds: IdleSeconds | None = None
    """Instead of `limits.idle_seconds`, for this server."""
    approval: ServerApproval = ServerApproval()
    """Which tools of this server need a person, as `[servers.NAME.approval]`."""
    pinning: ServerPinning = ServerPinning()
    """How this server is known to reviewers, as `[servers.NAME.pinning]`."""
    trust: ServerTrust = ServerTrust()
    """What this server's tools do with data, as `[servers.NAME.trust]`."""

    @property
    def kind(self) -> Literal["http", "stdio"]:
        return "http" if self.url is not None else "stdio"

    @property
    def argv(self) -> list[str]:
        """The command with its secrets: for starting it, not for showing it."""
        return [word.reveal() for word in self.command]

    @property
    def target(self) -> str:
        """Where the server is, fit to be shown."""
        return str(self.url) if self.url is not None else " ".join(str(word) for word in self.command)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the command's process."""
        passed = {
            name: value
            for name, value in environ.items()
            if name in BASE_ENVIRONMENT or any(fnmatchcase(name, pattern) for pattern in self.inherit_env)
        }
        return passed | {name: value.reveal() for name, value in self.env.items()}

    def clashes(self) -> Iterator[Clash]:
        both = ("url", "command")
        if self.url is not None and self.command:
            yield Clash("url", "a server has a url or a command, not both; take one of them away", both)
        elif self.url is None and not self.command:
            yield Clash("", 'a server needs url = "https://..." or command = ["PROGRAM", "ARGUMENT"]', both)
        elif self.url is not None:
            for key in ("env", "inherit_env", "cwd", "processes"):
                if getattr(self, key):
                    text = "this is for servers started by a command, and this one has a url; take it away"
                    yield Clash(key, text, (*both, key))
        else:
            text = "this is for servers reached by a url, and this one has a command; take it away"
            for key in ("headers", "forward_authorization"):
                if getattr(self, key):
                    yield Clash(key, text, (*both, key))
            if self.pinning.identity is not None:
                yield Clash("pinning.identity", text, (*both, "pinning"))
