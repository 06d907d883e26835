"""Where programs lie: whether only the system or its user puts programs there, and what is in a file."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, Protocol

from callgate.pinning.identity.launch import words

_CHUNK: Final = 1024 * 1024
# A program larger than this is not read: the identity says so.
_MOST: Final = 1024 * 1024 * 1024
_FIRST_LINE: Final = 256
# Where a client that is an AppImage lies while it runs, in a list of mounts of Linux: proc(5), "/proc/pid/mountinfo".
_MOUNTS: Final = "/proc/self/mountinfo"
_IMAGE: Final = re.compile(
    r"\S+ \S+ \S+ / (?P<place>/(?:\S*/)?\.mount_[^\s/]+) (?:\S+,)?ro(?:,\S+)? (?:\S+ )*- fuse\S* \S+ "
    r"(?:\S+,)?user_id=(?P<user>\d+)(?:,\S+)?"
)
_BEGINNING: Final = 1024 * 1024

_SYSTEM: Final = words(
    "/usr /bin /sbin /snap /nix /run/current-system /opt/homebrew /opt/local /home/linuxbrew/.linuxbrew /Library "
    "/System /Applications"
)
# What only root writes there is the system's for root, too. Anywhere else it may be a project of root's.
_ROOTS: Final = words("/etc /opt")
_CONDA: Final = words("miniconda3 anaconda3 miniforge3 mambaforge micromamba")
# In the home of the user: what installers of runtimes and package managers make, and the user's own programs. Of
# folders that people keep other things in, only where programs are put.
_OWN: Final = words(
    ".local/bin .local/share/fnm .local/share/mise .local/share/uv .local/share/pnpm .local/share/pipx "
    ".local/share/nvm .local/state/fnm_multishells .local/pipx .cargo .rustup .nvm .volta .fnm .asdf .bun .deno .pyenv "
    ".nodenv .rbenv .npm-global .n n/bin n/lib/node_modules .yarn .pnpm .docker .orbstack .rd .nix-profile .pixi .rye "
    ".sdkman go/bin bin .vscode-server .cursor-server scoop/apps scoop/shims Library/pnpm "
    "Library/Caches/fnm_multishells Library/Python AppData/Local/Programs AppData/Roaming/npm"
) | {f"{root}/{folder}" for root in _CONDA for folder in ("bin", "lib/node_modules", "envs")}


class Disk(Protocol):
    """Where programs are looked for and read. It may block: call it on a thread."""

    def here(self) -> str:
        """The directory that commands start in where none is given."""

    def locate(self, name: str, base: str, path: str | None, *, script: bool) -> str:
        """The absolute path of a program or script, links not followed; empty where there is none."""

    def digest(self, path: str) -> tuple[str, str]:
        """The path with links followed, and SHA-256 of what is there; OSError, ValueError or RuntimeError where not."""

    def kind(self, path: str) -> Literal["file", "folder", ""]:
        """What is at a path, links followed; empty where nothing is, or something else."""

    def first_line(self, path: str) -> str:
        """How a file begins; empty where that cannot be read."""

    def beginning(self, path: str) -> bytes:
        """The first megabyte of a file; empty where that cannot be read."""

    def is_usual(self, path: str) -> bool:
        """Whether a program there is the system's or the user's own: nobody else could have put it there, and no
        folder of a project is such a place. What is not there counts by its path."""

    def is_in_image(self, path: str) -> bool:
        """Whether a path lies in a program that this user runs and that is mounted for that, as an AppImage is: nobody
        writes there, and only a program of the user's can have mounted it."""


class LocalDisk:
    """This machine's."""

    def here(self) -> str:
        try:
            return str(Path.cwd())
        except OSError:
            return os.sep

    def locate(self, name: str, base: str, path: str | None, *, script: bool) -> str:
        try:
            if not name or "\0" in name:
                return ""
            if script or "/" in name or os.sep in name or (os.altsep and os.altsep in name):
                place = os.path.normpath(os.path.join(base, name))  # noqa: PTH118
                return place if os.path.lexists(place) else ""
            if path is not None:
                # Relative places, and empty ones, are below the folder that the command starts in.
                path = os.pathsep.join(os.path.join(base, one) for one in path.split(os.pathsep))  # noqa: PTH118
            found = shutil.which(name, path=path)
            return os.path.normpath(os.path.join(base, found)) if found else ""  # noqa: PTH118
        except (OSError, ValueError):
            return ""

    def digest(self, path: str) -> tuple[str, str]:
        place = Path(path).resolve(strict=True)
        total = 0
        state = hashlib.sha256()
        # A pipe or a device in the program's place would never end.
        if not stat.S_ISREG(place.stat().st_mode):
            raise ValueError("it is not a plain file")
        with place.open("rb") as file:
            while chunk := file.read(_CHUNK):
                total += len(chunk)
                if total > _MOST:
                    raise ValueError(f"it is larger than {_MOST >> 20} MiB")
                state.update(chunk)
        return str(place), state.hexdigest()

    def kind(self, path: str) -> Literal["file", "folder", ""]:
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116 - a text may be foreign
        except (OSError, ValueError):
            return ""
        return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else ""

    def first_line(self, path: str) -> str:
        return self._read(path, _FIRST_LINE).partition(b"\n")[0].decode("utf-8", "replace")

    def beginning(self, path: str) -> bytes:
        return self._read(path, _BEGINNING)

    def _read(self, path: str, most: int) -> bytes:
        if self.kind(path) != "file":
            return b""
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - a text may be foreign
                return file.read(most)
        except OSError:
            return b""

    def is_usual(self, path: str) -> bool:
        try:
            real = os.path.realpath(path)
            return all(_is_usual(place) for place in {path, real})
        except (OSError, ValueError):
            return False

    def is_in_image(self, path: str) -> bool:
        if ".mount_" not in path or not os.path.isabs(path):  # noqa: PTH117 - a text may be foreign
            return False
        try:
            real = os.path.realpath(path)
            return any(_is_within(real, place) for place in images(Path(_MOUNTS).read_text("utf-8", "replace")))
        except (OSError, ValueError):
            return False


DISK: Final[Disk] = LocalDisk()


def account_home() -> str:
    """The home of the account that this process runs as; no variable can say that it is elsewhere."""
    try:
        import pwd
    except ImportError:
        return str(Path("~").expanduser())
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def images(mounts: str) -> Iterator[str]:
    """Where programs of this user are mounted that run from an image: read-only, by FUSE, at a place of their own."""
    for line in mounts.splitlines():
        found = _IMAGE.fullmatch(line)
        if found and int(found["user"]) == os.geteuid():
            yield re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), found["place"])


def _is_usual(path: str) -> bool:
    plain = os.path.normpath(path).replace("\\", "/")
    home = account_home().replace("\\", "/").rstrip("/")
    own = [f"{home}/{folder}" for folder in _OWN] if home else []
    if os.name == "nt":
        own += [os.environ.get(name, "").replace("\\", "/") for name in ("ProgramFiles", "SystemRoot", "ProgramW6432")]
        places = [place for place in own if place and _is_within(plain.lower(), place.lower())]
        return any(not _is_projects(plain, place) for place in places)
    if "fnm_multishells" in plain.split("/") and plain.startswith(f"/run/user/{os.getuid()}/"):
        return True
    if any(_is_within(plain, place) for place in _SYSTEM) or any(
        _is_within(plain, place) and not _is_projects(plain, place) for place in own
    ):
        return all(_is_kept(place) for place in (plain, os.path.dirname(plain)))  # noqa: PTH120
    return (os.geteuid() != 0 or any(_is_within(plain, place) for place in _ROOTS)) and _is_roots(plain)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _is_projects(path: str, own: str) -> bool:
    """Whether a path below one of the user's own places leads through a project: sources, a copy that is under version
    control, or packages that were not installed for the user."""
    folder = own
    for name in filter(None, path[len(own) :].split("/")):
        above, folder = folder.rpartition("/")[2], f"{folder}/{name}"
        if name in ("src", ".bin") or (name == "node_modules" and above not in ("lib", "npm")):
            return True
        if os.path.lexists(f"{folder}/.git"):
            return True
    return False


def _is_kept(path: str) -> bool:
    """Whether nobody but the system and this user writes there, as far as something is there."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return True
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & stat.S_IWOTH


def _is_roots(path: str) -> bool:
    """Whether all of a path is there and only root can change any part of it."""
    try:
        for place in (Path(path), *Path(path).parents):
            found = place.stat()
            if found.st_uid != 0 or found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
                return False
    except OSError:
        return False
    return True


_REMEMBERED: Final = 256


class CachedDisk:
    """Reads a program again only when its size, time or inode is another."""

    def __init__(self, disk: Disk = DISK, here: str = "") -> None:
        self._disk = disk
        self._here = here
        self._read: dict[str, tuple[tuple[int, ...], tuple[str, str]]] = {}
        self.locate = disk.locate
        self.kind = disk.kind
        self.first_line = disk.first_line
        self.beginning = disk.beginning
        self.is_usual = disk.is_usual
        self.is_in_image = disk.is_in_image

    def here(self) -> str:
        return self._here or self._disk.here()

    def digest(self, path: str) -> tuple[str, str]:
        now = _signature(path)
        known = self._read.get(path)
        if known is not None and known[0] == now:
            return known[1]
        made = self._disk.digest(path)
        if len(self._read) < _REMEMBERED and _signature(path) == now:
            self._read[path] = now, made
        return made


def _signature(path: str) -> tuple[int, ...]:
    found = os.stat(path)  # noqa: PTH116 - links are followed, and a text may be foreign
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
