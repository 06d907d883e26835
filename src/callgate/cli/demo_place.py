"""What the demo needs around it: a folder, a configuration and a way to be stopped."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from callgate import demo
from callgate.cli.demo_office import PERSON

SERVERS: Final = ("files", "mail", "bank")
CONFIG: Final = f"""\
# Written by `callgate demo`. Change it while the demo runs: the gateway follows within seconds.

[gateway]
shutdown_seconds = 1

[store]
url = "sqlite:///callgate.db"

[logging]
level = "error"

[limits]
connections = 200

# The agent of the demo waits as long as you read.
[approval]
user = "{PERSON}"
request_seconds = 3600
park_seconds = 3600
"""
# Nobody needs a way back into a store that is gone when the demo ends.
PASSING: Final = "recovery_codes = false\n"
SERVER: Final = """
[servers.{name}]
command = {command}
"""


def leave_user_settings() -> list[str]:
    """The demo has a store of its own: what the environment says for the user's real gateway does not count here."""
    found = [name for name in os.environ if name.startswith("CALLGATE_")]
    for name in found:
        del os.environ[name]
    return sorted(found)


# -- being stopped ---------------------------------------------------------------------------------------------


class Asked:
    """Whether somebody asked it to stop while it starts.

    That is looked at between steps: an exception out of nowhere may be lost in somebody's destructor.
    """

    def __init__(self) -> None:
        self.to_stop = False

    def hear(self, _number: int, _frame: object) -> None:
        if self.to_stop:
            raise KeyboardInterrupt  # asked again: whatever hangs is not waited for
        self.to_stop = True

    def check(self) -> None:
        if self.to_stop:
            raise KeyboardInterrupt


@contextmanager
def ending_calmly() -> Iterator[Asked]:
    """Being asked to stop is how a demo ends: the folder is cleared away, at whatever moment it comes."""
    asked = Asked()
    before = {number: signal.signal(number, asked.hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop() -> None:
    """End the gateway of this process, which hears signals itself. One that is past hearing them has ended."""
    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        signal.raise_signal(signal.SIGTERM)


# -- the folder ------------------------------------------------------------------------------------------------


@contextmanager
def state_in(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        from callgate.errors import ConfigError

        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{folder} cannot be made: {error.strerror}", advice="Name another folder with --dir."
            ) from None
        yield folder.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="callgate-demo-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def configure(path: Path, *, kept: bool) -> None:
    """Write the configuration, or take the one that is there; refuses one that is not of this demo."""
    state = path.parent
    if path.exists():
        _check(path)
        return
    text = CONFIG if kept else CONFIG + PASSING
    for name in SERVERS:
        # JSON strings are TOML strings; `$${` is how a configuration spells a plain `${`.
        words = [word.replace("${", "$${") for word in [sys.executable, *_ours(state, name)]]
        text += SERVER.format(name=name, command=json.dumps(words, ensure_ascii=False))
    path.write_text(text, encoding="utf-8")


def _ours(state: Path, name: str) -> list[str]:
    # The script by its path, so that it can be told what runs.
    return [str(Path(demo.__file__).with_name("__main__.py")), name, str(state / name)]


def _check(path: Path) -> None:
    """Another server of such a name is nobody's to play with."""
    from callgate.config import load
    from callgate.errors import ConfigError

    servers = load(path).servers
    for name in SERVERS:
        if name not in servers or (servers[name].argv or [])[1:] != _ours(path.parent, name):
            raise ConfigError(
                f"{path} is not the configuration of this demo: it lacks its server {name}",
                advice="Name another folder with --dir, or an empty one.",
            )


# -- the terminal ------------------------------------------------------------------------------------------


def setting(config: Path, listen: str, usual: str) -> list[str]:
    """What another terminal has to know so that plain `callgate` commands are about this demo."""
    words = [f"CALLGATE_CONFIG={shlex.quote(str(config))}"]
    if listen != usual:
        # This gateway listens elsewhere than the file says.
        words.append(f"CALLGATE_LISTEN={listen}")
    lines = [f"export {' '.join(words)}"]
    found = shutil.which("callgate")
    own = Path(sys.argv[0] if Path(sys.argv[0]).stem == "callgate" else sys.executable).absolute()
    if found is None or Path(found).absolute().parent != own.parent:
        lines.append(f"export PATH={shlex.quote(str(own.parent))}:$PATH")
    return lines
