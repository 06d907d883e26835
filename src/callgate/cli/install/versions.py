"""Which version of a package would run now: asked of the package manager on this machine, with its own configuration.

The command that names the package may come from a project that somebody else wrote. So the package manager is the one
on the user's PATH, it runs in an empty folder, and of the command and its environment it is told only where to look.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import platformdirs

from callgate.cli.printing import plain
from callgate.pinning.identity.launch import Launch
from callgate.telemetry import redact

_SECONDS: Final = 20.0
_SECONDS_IN_ALL: Final = 60.0
_AT_ONCE: Final = 4
_MOST: Final = 100
_BYTES: Final = 1_000_000
# npm's own rule for names, and tags and ranges without what a shell or an option parser would read in another way.
_NPM: Final = re.compile(r"(?:@[a-z0-9~][\w.~-]{0,213}/)?[a-zA-Z0-9~][\w.~-]{0,213}(?:@[\w^~*][\w.^~*+-]{0,100})?")
_PYPI: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}(?:\[[\w., -]{0,200}\])?\s*([^\x00-\x1f\x7f]{0,200})")
# Options of uv whose value is an address.
_ADDRESSES: Final = frozenset(
    {"--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links"}
)
_WEB: Final = re.compile(r"(?:[\w-]+=)?https?://[\x21-\x7e]+")
_WORD: Final = re.compile(r"[\w.:+-]+")
_VERSION: Final = re.compile(r"\d[0-9A-Za-z.+!_-]{0,99}")
# The variables of an entry that say where packages come from. Others could make the package manager run something.
_REGISTRIES: Final = frozenset(
    {
        "npm_config_registry",
        "uv_index_url",
        "uv_default_index",
        "uv_index",
        "uv_extra_index_url",
        "pip_index_url",
        "pip_extra_index_url",
    }
)


# What was found, or why nothing was.
PackageVersion: TypeAlias = tuple[str, str]


class _Unknown(Exception):
    """The package manager did not say; the text is for people."""


def versions_of(asked: Sequence[tuple[Launch, Mapping[str, str]]], *, newest: bool = False) -> list[PackageVersion]:
    """Of each package, with the environment of its command, the version that would run now. `newest`: the one that
    would run if the command named none. Bounded in time as a whole; never raises."""
    end = time.monotonic() + _SECONDS_IN_ALL
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        work = [pool.submit(_version_of, start, env, end, newest=newest) for start, env in asked[:_MOST]]
        found = [one.result() for one in work]
    return found + [("", "too many packages are to be looked up")] * len(asked[_MOST:])


def is_newer(one: str, other: str) -> bool:
    """Whether a version comes after another: by its numbers, then a release after what came before it."""
    return _order(one) > _order(other)


def _order(version: str) -> tuple[list[int], bool, list[tuple[bool, int, str]]]:
    public = version.partition("+")[0]
    release = re.match(r"(?:\d+!)?\d+(?:\.\d+)*", public)
    numbers = [int(part) for part in re.split(r"[.!]", release[0])] if release else []
    while numbers and not numbers[-1]:
        numbers.pop()
    rest = public[release.end() :] if release else public
    final = not rest or re.match(r"[.-]?post|-\d+\Z", rest) is not None
    parts = re.findall(r"\d+|[a-zA-Z]+", rest)
    return numbers, final, [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _version_of(start: Launch, env: Mapping[str, str], end: float, *, newest: bool) -> PackageVersion:
    try:
        with _empty_folder() as folder:
            run = _Run(folder, _environment(env), min(end, time.monotonic() + _SECONDS))
            if start.scheme == "npm":
                found = _npm(run, start, newest=newest)
            elif start.fetcher == "uv":
                found = _uv(run, start, newest=newest)
            else:
                found = _pip(run, start, newest=newest)
    except _Unknown as error:
        return "", str(error)
    except OSError as error:
        return "", (f"its package manager could not be asked ({error.strerror or error})")
    if not _VERSION.fullmatch(found):
        return "", "its package manager names no version that can be read"
    return (found.lower() if start.scheme == "pypi" else found), ""


# -- npm, uv and pip -------------------------------------------------------------------------------------------


def _npm(run: _Run, start: Launch, *, newest: bool) -> str:
    spec = start.name if newest else start.spec
    if not _NPM.fullmatch(spec):
        raise _Unknown(f"`{plain(spec, 60)}` is not a name and a tag of npm")
    registry = [word for _, url in start.options for word in ("--registry", _web(url))]
    found = _npm_versions(run, spec, registry)
    if len(found) > 1:
        # Of several that fit npm takes the one that is tagged as the latest, if it is among them.
        latest = _npm_versions(run, start.name, registry)
        return latest[-1] if latest[-1] in found else found[-1]
    return found[-1]


def _npm_versions(run: _Run, spec: str, options: Sequence[str]) -> list[str]:
    code, said, complained = run("npm", "view", "--json", *options, spec, "version")
    value: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(said)
    found = [value] if isinstance(value, str) else value
    if code == 0 and isinstance(found, list) and found and all(isinstance(one, str) for one in found):
        return found
    error = value.get("error") if isinstance(value, dict) else None
    why = error.get("summary") if isinstance(error, dict) else _last_line(complained)
    raise _Unknown(f"npm does not say which version it is{_because(why)}")


def _uv(run: _Run, start: Launch, *, newest: bool) -> str:
    written = _PYPI.fullmatch(start.spec)
    if not written:
        raise _Unknown(f"`{plain(start.spec, 60)}` is not a requirement of PyPI")
    tag = written[1].startswith("@")
    requirement = start.spec[: written.start(1)].strip() if newest or tag else start.spec
    options: list[str] = []
    for name, value in start.options:
        if name not in ("-p", "--python"):
            options += [name, _web(value) if name in _ADDRESSES else _word(value)]
        elif re.fullmatch(r"\d[\d.]*", value):
            options += ["--python-version", value]
    (run.folder / "requirements.in").write_text(requirement + "\n", encoding="utf-8")
    # Without building anything: a look must not run the package's code.
    quiet = ("--quiet", "--no-header", "--no-annotate", "--no-deps", "--no-build", "--no-progress")
    code, said, complained = run("uv", "pip", "compile", *quiet, *options, "requirements.in")
    found = re.findall(r"^[A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?==(\S+)", said, re.MULTILINE)
    if code or len(found) != 1:
        raise _Unknown(f"uv does not say which version it is{_because(_last_line(complained))}")
    return str(found[0])


def _pip(run: _Run, start: Launch, *, newest: bool) -> str:
    written = _PYPI.fullmatch(start.spec)
    if not written or (written[1] and not newest):
        raise _Unknown(f"pip cannot be asked which version of `{plain(start.spec, 60)}` it takes")
    if any(name in ("--pip-args", "--python", "--backend") for name, _ in start.options):
        raise _Unknown("the command has options of pipx that may choose another version")
    options = [word for _, url in start.options for word in ("--index-url", _web(url))]
    code, said, complained = run("pip", "index", "versions", "--disable-pip-version-check", *options, start.name)
    found = re.match(r"\S+ \((\S+)\)", said)
    if code or not found:
        raise _Unknown(f"pip does not say which version it is{_because(_last_line(complained))}")
    return found[1]


def _web(url: str) -> str:
    if not _WEB.fullmatch(url):
        raise _Unknown("its registry is not at an address of the web")
    return url


def _word(value: str) -> str:
    if not _WORD.fullmatch(value):
        raise _Unknown("an option of its command cannot be read")
    return value


def _because(why: object) -> str:
    text = redact.text(plain(str(why), 160)) if why else ""
    return f" ({text})" if text else ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if re.match(r"(?:error|cause|ERROR)\b", line)]
    return (marked or lines or [""])[-1]


# -- running one -----------------------------------------------------------------------------------------------


class _Run(NamedTuple):
    """A package manager in a folder of its own, until a moment."""

    folder: Path
    environ: Mapping[str, str]
    end: float

    def __call__(self, name: str, *words: str) -> tuple[int, str, str]:
        """Its exit code, and what it wrote, as much of it as counts."""
        known = [place for place in os.get_exec_path() if Path(place).is_absolute()]
        program = shutil.which(name, path=os.pathsep.join(known))
        # Windows looks into the folder that one stands in first.
        if program is None or not Path(program).is_absolute():
            raise _Unknown(f"{name} is not on this machine's PATH")
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                [program, *words],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            try:
                code = process.wait(max(0.0, self.end - time.monotonic()))
            except BaseException as error:
                _end(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise _Unknown(f"{name} did not answer in time") from None
                raise
            out.seek(0)
            err.seek(0)
            return code, out.read(_BYTES).decode("utf-8", "replace"), err.read(_BYTES).decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of it goes on, whoever waits no longer."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def _empty_folder() -> Iterator[Path]:
    """Below a folder of the user's: package managers look for configurations in all folders above, too."""
    place = platformdirs.user_state_path("callgate", appauthor=False)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lookup-", dir=place) as folder:
        yield Path(folder)


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    given = {key: value for key, value in env.items() if key.lower() in _REGISTRIES and _WEB.fullmatch(value)}
    return {**os.environ, **given}
