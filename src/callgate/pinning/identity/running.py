"""What decides which code a command runs beside the package or the file that it names: its launcher, its options and
arguments, variables, and files of the folder that it starts in. What is not known to be harmless is part of it."""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from callgate.code_variables import changes_code, is_code_file, leads_to_code, loads_code, names_places, names_program
from callgate.pinning.identity.disk import Disk, account_home
from callgate.pinning.identity.launch import SHELLS, Launch, digest, docker_option, is_program, program, words
from callgate.pinning.model import BoundPart, PartKind

# Of the options before the package or file: these change nothing about what runs.
_HARMLESS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(words("npx pnpx bunx npm pnpm yarn yarnpkg bun"), words("-y --yes -q --quiet --silent -- --bun")),
    **dict.fromkeys(words("uvx uv"), words("-q --quiet --no-progress --")),
    "pipx": words("-q --quiet --"),
    "python": words("-u -B -I -E -s -q"),
    "node": words("--enable-source-maps --no-warnings --no-deprecation"),
    "docker": words("-i -t -it -ti --interactive --tty --rm --init -- run container"),
}
# How a package is started plainly: nothing else about it is a choice.
_PLAIN: Final = {
    (),
    *((name,) for name in ("npx", "pnpx", "bunx", "uvx")),
    *(("npm", "exec"), ("npm", "x"), ("pnpm", "dlx"), ("yarn", "dlx"), ("yarnpkg", "dlx"), ("bun", "x")),
    ("uv", "tool", "run"),
    ("pipx", "run"),
    ("go", "run"),
}
_CONTAINERS: Final = words("docker podman nerdctl")
_NPM: Final = words("npx pnpx bunx npm pnpm yarn yarnpkg bun")
# Programs that a launcher looks for on the PATH and runs.
_HELPERS: Final = {
    **dict.fromkeys(_NPM, ("node", "sh")),
    **dict.fromkeys(words("uvx uv pipx poetry pdm hatch"), ("python3", "python")),
}
_OUR_PROGRAMS: Final = sysconfig.get_path("scripts")
# Files of a project that a launcher of npm's packages or deno obeys.
_OBEYED: Final = sorted(
    words(".npmrc .yarnrc .yarnrc.yml bunfig.toml .pnpmfile.cjs .pnpmfile.mjs pnpm-workspace.yaml deno.json deno.jsonc")
)
_LEVELS: Final = 64
# Behind the package or script, a file of this kind may be code, or say which code to run.
_CODE: Final = re.compile(
    r"(?i)\.(?:py|pyw|pyz|js|mjs|cjs|ts|mts|cts|jsx|tsx|sh|bash|zsh|rb|pl|php|lua|r|jar|war|dll|so|dylib|node|wasm|exe|"
    r"bat|cmd|ps1|toml|ya?ml|ini|cfg|conf|env|xml|json[c5])\Z"
)
# A JSON file is what many servers write into all day. It says which code to run where it, or its option, is named so,
# or where it has such a key.
_SETTINGS: Final = re.compile(
    r"(?i)(?:conf|setting|option|server|mcp|plugin|package|manifest|profile|launch|command|tool|proxy|rc\b).*\.json\Z"
)
_KEYS: Final = re.compile(rb"""["'](?:command|args|mcpServers|script|module)["']\s*[:/]""")
_ESCAPE: Final = re.compile(rb"\\u00([0-7][0-9A-Fa-f])")
_SECRET_OPTION: Final = re.compile(
    r"(?i)(--?(?:[a-z0-9]+[-_])*(?:token|secret|password|passwd|passphrase|api[-_]?key|credentials?))(?:=(.*))?",
    re.DOTALL,
)
_PASSWORD: Final = re.compile(r"([a-z][a-z0-9+.-]*://[^/@\s:]*):[^/@\s]*@", re.IGNORECASE)
_SECRET_VARIABLE: Final = re.compile(r"(?i)token|secret|passw|_key|auth|credential")
_SHEBANG: Final = re.compile(r"#!\s*\S*/env\s+(?:-\S+\s+)*(?:[A-Za-z_]\w*=\S*\s+)*([\w.+-]+)")
_WORDS: Final = tomllib.loads(Path(__file__).with_name("argument_words.toml").read_text("utf-8"))
# What a person can mark as data. A file only of a kind that no program runs or reads its settings from.
_NUMBER: Final = re.compile(r"\d{1,18}(?:\.\d{1,18})?")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DATA_FILE: Final = re.compile(
    r"(?i)\.(?:db|sqlite3?|duckdb|jsonl?|ndjson|geojson|csv|tsv|parquet|txt|md|log|pdf|docx|xlsx|pptx|png|jpe?g|gif|webp)\Z"
)
_WORD_BREAK: Final = re.compile(r"[-_]+|(?<=[a-z])(?=[A-Z])")
_LONG_OPTION: Final = re.compile(r"--[A-Za-z0-9][A-Za-z0-9_-]{0,60}")
# Where one of these is in the name of an option, its value can say which code runs, or where it comes from.
_CODE_OPTION: Final = words(_WORDS["code_options"])
# Programs and packages beside those that are known as launchers, whose arguments say what runs.
_RUNS_OTHERS: Final = words(_WORDS["runs_others"])
# What stands between paths and words in the value of a variable, and how many of them are looked at.
_PIECES: Final = re.compile(rf"[\s=,|'\"{re.escape(os.pathsep)}]+")
_MOST_PIECES: Final = 64
_ADDRESS: Final = re.compile(r"(?i)[a-z][a-z0-9+.-]*://[^\s,;]*")
# Options of an editor that make it wait.
_WAITS: Final = words("--wait -w --nofork -f -n --new-window")
_SHOWN: Final = 300
_MASK: Final = "***"


class StartedCommand:
    """A command as it is started, and everything that decides what it runs, as parts of the server's identity."""

    def __init__(
        self,
        argv: Sequence[str],
        start: Launch,
        *,
        base: str,
        environ: Mapping[str, str],
        path: str | None,
        disk: Disk,
        data: Collection[str] = (),
    ) -> None:
        self._start = start
        self.base = base
        self._environ = environ
        self.path = path
        self._disk = disk
        # Options whose value is data, and `*` for folders that stand alone, as is known of this package.
        self._data = data
        self._before, self._after = _split(argv, start)
        self.warnings: list[str] = []
        self.parts = tuple(self._parts())

    @property
    def is_copied(self) -> bool:
        """Whether a copy of the package in a project's folder runs, whatever version it is."""
        return any(part.kind == "project" and "/node_modules/" in part.shown for part in self.parts)

    def _parts(self) -> Iterator[BoundPart]:
        programs = [word for place, word in enumerate(self._before) if place == 0 or is_program(word)]
        names = {program(word) for word in programs}
        yield from self._launchers(programs, names)
        if self._start.scheme == "text":
            # Code on the command line: it is not shown, for it may hold anything.
            if self._before[1:2] != ["-c"] or program(self._before[0]) not in SHELLS:
                yield _part("option", "\0".join(self._before), f"{self._start.runner} …")
        elif self._start.scheme != "line":
            # There the digest of all words is the name.
            yield from (self._word("option", word) for word in _options(self._before, self._start))
            yield from self._arguments()
        yield from self._variables()
        if names & _NPM or self._start.scheme == "npm" or "deno" in names:
            yield from self._project()

    # ---- programs ----

    def _launchers(self, programs: Sequence[str], names: Collection[str]) -> Iterator[BoundPart]:
        for word in programs:
            found = self._disk.locate(word, self.base, self.path, script=False)
            if not found and ("/" in word or "\\" in word):
                found = os.path.normpath(os.path.join(self.base, word))  # noqa: PTH118
            name = program(word)
            if part := self._program(name, found):
                yield part
                if not self._is_link(found):
                    self.warnings.append(
                        f"It is started by {part.shown}, which is not the {name} of your system or your own and may "
                        "run anything. Approvals hold for that file as it is now."
                    )
        looked = {one for name in names for one in _HELPERS.get(name, ())}
        # Callgate's own environment is activated where somebody types `callgate`, and not where a client starts. Who
        # can write there can change Callgate itself.
        helpers = {name for name in looked if not self._is_ours(name)}
        if not self._before and self._start.scheme == "file":
            found = self._disk.locate(self._start.name, self.base, self.path, script=False)
            helpers |= {match[1] for match in [_SHEBANG.match(self._disk.first_line(found))] if match}
        for name in sorted(helpers):
            if part := self._program(name, self._disk.locate(name, self.base, self.path, script=False)):
                yield part
                self.warnings.append(f"Its PATH leads to {part.shown} where it looks for {name}.")

    def _is_ours(self, name: str) -> bool:
        """Whether the PATH leads to a program of the environment that Callgate itself runs in."""
        found = self._disk.locate(name, self.base, self.path, script=False)
        return bool(found) and os.path.dirname(found) == _OUR_PROGRAMS  # noqa: PTH120

    def _program(self, name: str, found: str) -> BoundPart | None:
        if not found or self._disk.is_usual(found):
            return None
        return _part("launcher", f"{name} {found}{self._file_digest(found)}", found)

    def _is_link(self, path: str) -> bool:
        """Whether a program is only a link to the system's own, as in the environment of a project."""
        return not self._file_digest(path)

    def _file_digest(self, path: str) -> str:
        """What is in a file that is not the system's; a link to the system's own changes with that."""
        try:
            real, found = self._disk.digest(path)
        except (OSError, ValueError, RuntimeError):
            return "#unreadable"
        return "" if real != path and self._disk.is_usual(real) else f"#sha256:{found}"

    # ---- words ----

    def _arguments(self) -> Iterator[BoundPart]:
        targets = [text for word, text in self._start.beside if word == "to"]
        option = ""
        for place, word in enumerate(self._after):
            secret = _SECRET_OPTION.fullmatch(word)
            name, equals, value = word.partition("=")
            if targets and word.startswith(("http://", "https://", "ws://", "wss://")):
                # The identity says where it leads.
                pass
            elif secret and secret[2] is not None and not self._is_file(secret[2]):
                yield _part("argument", f"{secret[1]}=", f"{secret[1]}={_MASK}")
            elif _SECRET_OPTION.fullmatch(option) and not word.startswith("-") and not self._is_file(word):
                yield _part("argument", "", _MASK, data=True)
            elif equals and name.startswith("-") and name in self._data:
                yield _part("argument", f"{name}=", f"{name}={value}")
            elif (option in self._data and not word.startswith("-")) or (
                "*" in self._data and not option and not word.startswith("-") and self._is_folder(word)
            ):
                yield _part("argument", "", word, data=True)
            else:
                part = self._word("argument", word, option)
                varies, fixed = self._varies(word, option, self._after[:place], bound=part.digest)
                yield msgspec.structs.replace(part, varies=varies, fixed=fixed)
            option = word if word.startswith("-") and not equals else ""

    def _varies(self, word: str, option: str, before: Sequence[str], *, bound: str) -> tuple[str, str]:
        """What may stand in the place of an argument where a person marks it as data; or nothing, and why not."""
        name = self._start.name.removeprefix("docker.io/library/")
        name = program(name) if self._start.scheme == "file" else name.lower()
        if self._runs_others(name) or self._start.scheme not in ("npm", "pypi", "jsr", "go", "oci", "file", "module"):
            return "", f"{shown_text(name) or 'this command'} runs what its arguments name"
        if others := [one for one in before if self._runs_others(one) and not self._is_folder(one)]:
            return "", f"it stands behind {shown_text(program(others[0]))}, which runs what its arguments name"
        head, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        if word.startswith("-") and not equals:
            return "", "it is an option: another one can change what the program does"
        named = head or option
        if named and not _LONG_OPTION.fullmatch(named):
            return "", f"nobody can tell what the option {shown_text(named)} means; write its long form"
        if led := sorted(_CODE_OPTION.intersection(map(str.lower, _WORD_BREAK.split(named)))):
            return "", f"the option {named} can say which code runs ({led[0]})"
        sort, why = self._sort(value, named)
        if sort and bound != _part("argument", word, "").digest:
            return "", "it is a file, or an address with a password, that the approval is bound to as it is"
        return (f"{head}={sort}" if head else sort) if sort else "", why

    def _sort(self, value: str, option: str) -> tuple[str, str]:
        """What an argument is, where it is something that a program can hardly run."""
        if value.startswith("-"):
            return "", "it begins like an option"
        if _NUMBER.fullmatch(value):
            return "number", ""
        if self._is_folder(value):
            return "folder", ""
        if self._is_file(value):
            if _DATA_FILE.search(value) and not self._disk.first_line(self._absolute(value)).startswith("#!"):
                return "file", ""
            return "", "it is a file that may be code, or say which code runs"
        if option and _PLAIN_NAME.fullmatch(value) and not self._runs_others(value):
            return "name", ""
        if not option and _PLAIN_NAME.fullmatch(value):
            return "", "it is a word that may name a script, a module, a package or a command of the program"
        return "", "it is no folder, no file of data, no number and no plain name"

    def _runs_others(self, word: str) -> bool:
        return not word.startswith("@") and (is_program(word) or program(word) in _RUNS_OTHERS)

    def _word(self, kind: PartKind, word: str, option: str = "") -> BoundPart:
        plain = _PASSWORD.sub(r"\1@", word)
        value = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        found = ""
        named = f"{option} {word.removesuffix(value)} {value.replace(os.sep, '/').rpartition('/')[2]}"
        if self._is_file(value) and (
            kind == "option" or _CODE.search(value) or _SETTINGS.search(named) or self._has_settings(value)
        ):
            try:
                found = f"#sha256:{self._disk.digest(self._absolute(value))[1]}"
            except (OSError, ValueError, RuntimeError):
                found = "#unreadable"
        return _part(kind, plain + found, plain)

    def _has_settings(self, word: str) -> bool:
        """Whether a JSON file has a key, however it is written, under which programs look for what to run."""
        if not word.lower().endswith(".json"):
            return False
        text = self._disk.beginning(self._absolute(word)).replace(b"\0", b"")
        return _KEYS.search(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text)) is not None

    def _absolute(self, word: str) -> str:
        return os.path.normpath(os.path.join(self.base, word))  # noqa: PTH118

    def _is_file(self, word: str) -> bool:
        return bool(word) and "\0" not in word and self._disk.kind(self._absolute(word)) == "file"

    def _is_folder(self, word: str) -> bool:
        return bool(word) and "\0" not in word and self._disk.kind(self._absolute(word)) == "folder"

    # ---- variables ----

    def _variables(self) -> Iterator[BoundPart]:
        told = []
        for name in sorted(self._environ):
            value = self._without_images(self._environ[name])
            if not changes_code(name, value) or not value:
                continue
            if name.upper() == "PATH":
                # An empty place is the folder that it starts in.
                odd = [one or "." for one in value.split(os.pathsep) if not os.path.isabs(one)]  # noqa: PTH117
                yield from (_part("variable", f"PATH={one}", f"PATH has {one}") for one in odd)
            elif not self._is_default(name, value) and (bound := self._bound_value(name, value)):
                told.append(name)
                files = "".join(map(self._bound_file, self._pieces(value)))
                hidden = _SECRET_VARIABLE.search(name) is not None
                shown = _MASK if hidden else _PASSWORD.sub(r"\1@", value)
                yield _part("variable", f"{name}={bound}{files}", f"{name}={shown}")
        if told:
            self.warnings.append(f"{', '.join(told)} can make it load other code.")

    def _without_images(self, value: str) -> str:
        """Without the folders that a client which is an AppImage puts into lists of folders: they are named anew each
        time that it starts, and hold what the client itself runs. A program that is found there is bound."""
        places = value.split(os.pathsep)
        kept = [one for one in places if not self._disk.is_in_image(one) or self._is_file(one)]
        # Of what is left, an empty place is the folder that it starts in.
        return value if kept == places else os.pathsep.join(one or "." for one in kept)

    def _pieces(self, value: str) -> list[str]:
        """What may be a path or a word of its own in the value of a variable."""
        return [piece for piece in _PIECES.split(value, _MOST_PIECES) if piece]

    def _bound_file(self, piece: str) -> str:
        """The content of a file of code or settings that a variable names and that is not the system's."""
        if not self._is_file(piece) or not (_CODE.search(piece) or _SETTINGS.search(piece)):
            return ""
        return self._file_digest(self._absolute(piece))

    def _bound_value(self, name: str, value: str) -> str:
        """What of a variable can change what runs; empty where it leads to no code. Of a name of no known family that
        is as much as its name and what the value leads to say."""
        pieces = self._pieces(value)
        if loads_code(name) or len(pieces) > _MOST_PIECES:
            return value
        if names_program(name):
            first, *rest = value.split()[:_MOST_PIECES] or [""]
            found = self._disk.locate(first, self.base, self.path, script=False)
            return "" if found and self._disk.is_usual(found) and _WAITS.issuperset(rest) else value
        if leads_to_code(name) or (names_places(name) and any(map(self._is_folder, pieces))):
            return value
        if value.startswith("-"):
            return "" if _SECRET_VARIABLE.search(name) else value
        return " ".join(filter(self._may_run, pieces))

    def _may_run(self, piece: str) -> bool:
        """Whether a piece of a variable is a file, there or to come, that may be run or say what runs."""
        if not self._is_file(piece):
            return is_code_file(piece)
        place = self._absolute(piece)
        harmless = _DATA_FILE.search(piece) and not _SETTINGS.search(piece) and not self._has_settings(piece)
        return not (self._disk.is_usual(place) or (harmless and not self._disk.first_line(place).startswith("#!")))

    def _is_default(self, name: str, value: str) -> bool:
        """Whether a variable only says what holds without it, or leads to places of the system's alone."""
        home = account_home()
        usual = {
            "HOME": {home},
            "USERPROFILE": {home},
            "XDG_CONFIG_HOME": {f"{home}/.config"},
            "XDG_DATA_HOME": {f"{home}/.local/share"},
            "XDG_CACHE_HOME": {f"{home}/.cache"},
            "GOPATH": {f"{home}/go"},
            "NPM_CONFIG_CACHE": {f"{home}/.npm"},
            "NPM_CONFIG_USERCONFIG": {f"{home}/.npmrc"},
            "XDG_CONFIG_DIRS": {"/etc/xdg"},
            "DOCKER_HOST": {"unix:///var/run/docker.sock", f"unix:///run/user/{_uid()}/docker.sock"},
        }
        key = name.upper()
        if value in usual.get(key, ()) or (os.name == "nt" and os.environ.get(name) == value):
            return True
        places = [one.rstrip("/") for one in value.split(os.pathsep)]
        known = {"/etc/xdg"}
        if key == "XDG_DATA_DIRS":
            known |= {f"{home}/.local/share/flatpak/exports/share"}
            known |= {"/var/lib/flatpak/exports/share", "/var/lib/snapd/desktop"}
        return all(os.path.isabs(one) and (one in known or self._disk.is_usual(one)) for one in places)  # noqa: PTH117

    # ---- files of a project ----

    def _project(self) -> Iterator[BoundPart]:
        """What lies in the folder that it starts in, and above: npm and its like obey it, or run it instead."""
        name = self._start.name if self._start.scheme == "npm" else ""
        home, folder = account_home(), self.base
        for _ in range(_LEVELS):
            for file in _OBEYED if folder != home else ():
                place = os.path.join(folder, file)  # noqa: PTH118
                if self._disk.kind(place) == "file":
                    yield _part("project", f"{place}{self._file_digest(place)}", place)
                    self.warnings.append(f"It starts below {folder}, where {file} can say what runs.")
            copies = [f"node_modules/{one}" for one in name.split(",")] if name else []
            for copy in [*copies, *(f"node_modules/.bin/{one.rsplit('/', 1)[-1]}" for one in name.split(",") if one)]:
                place = os.path.join(folder, copy)  # noqa: PTH118
                if self._disk.kind(place):
                    yield _part("project", place, place)
                    self.warnings.append(f"It may run the copy in {place}, whose changes go unnoticed.")
                    break
            above = os.path.dirname(folder)  # noqa: PTH120
            if above == folder:
                break
            folder = above


def run_digest(parts: Sequence[BoundPart]) -> str:
    """One digest of everything that is bound; empty where the command is as plain as can be."""
    bound = [part.digest for part in parts if not part.data]
    return f"sha256:{hashlib.sha256(' '.join(bound).encode()).hexdigest()}" if bound else ""


def shown_text(text: str) -> str:
    clean = "".join(letter if letter.isprintable() else "\ufffd" for letter in text[: _SHOWN + 1])
    return clean if len(text) <= _SHOWN else f"{clean[:_SHOWN]}…"


def _part(kind: PartKind, text: str, shown: str, *, data: bool = False) -> BoundPart:
    return BoundPart(kind=kind, shown=shown_text(shown), digest=digest(f"{kind}\0{text}"), data=data)


def _uid() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _split(argv: Sequence[str], start: Launch) -> tuple[list[str], list[str]]:
    """The words before what is started, and those behind it; a part of its own word that says more is behind it."""
    if start.scheme == "file" and not start.runner and argv and argv[0] == start.name:
        return [], list(argv[1:])
    named = start.words or ((start.name,) if start.scheme in ("file", "module") else ())
    if not named:
        return list(argv), []
    place = _place(argv, named[-1])
    if place is None:
        return list(argv), []
    word = argv[place]
    more = word[: word.find(named[-1])], word[word.find(named[-1]) + len(named[-1]) :]
    return [*argv[:place], *([more[0]] if more[0] else [])], [*([more[1]] if more[1] else []), *argv[place + 1 :]]


def _place(argv: Sequence[str], named: str) -> int | None:
    for fits in (str.__eq__, lambda word, wanted: word.endswith(f"={wanted}"), str.__contains__):
        for place, word in enumerate(argv):
            if fits(word, named):
                return place
    return None


def _options(before: Sequence[str], start: Launch) -> list[str]:
    """The words before what is started, as far as they are a choice."""
    rest = list(before)
    if rest and program(rest[0]) == "cmd":
        rest = rest[1:]
        while rest and rest[0].lower() in ("/d", "/s", "/q", "/c"):
            rest = rest[1:]
    if rest and program(rest[0]) == "env":
        rest = _without_variables(rest)
    if not rest:
        return []
    name = program(rest[0])
    if name in _CONTAINERS and start.scheme == "oci":
        return [name, *kept_options] if (kept_options := _container_options(rest[1:])) else []
    harmless = _HARMLESS.get("python" if name.startswith(("python", "pypy")) else name, frozenset())
    if start.scheme == "module":
        harmless |= {"-m", "-Im"}
    chosen = tuple(word for word in rest[1:] if word not in harmless)
    interpreted = start.scheme in ("file", "module") and start.runner == name and not chosen
    if interpreted or ((name, *chosen) in _PLAIN and start.scheme not in ("text", "line", "project")):
        return []
    # With anything else, all of them: an option may take the next word, harmless as that looks.
    return [name, *rest[1:]]


def _may_change_code(assignment: str) -> bool:
    """Whether a variable that stands on the command may change what runs there; nobody can look where it leads."""
    name, _, value = assignment.partition("=")
    if loads_code(name) or leads_to_code(name) or is_code_file(value):
        return changes_code(name, value)
    plain = _SECRET_VARIABLE.search(name) or _ADDRESS.fullmatch(value)
    return not plain and changes_code(name, value)


def _without_variables(rest: Sequence[str]) -> list[str]:
    """A command behind `env` without variables that change no code: their values may be secrets."""
    kept: list[str] = []
    at = 1
    while at < len(rest):
        if re.fullmatch(r"[A-Za-z_]\w*=.*", rest[at], re.DOTALL):
            kept += [rest[at]] if _may_change_code(rest[at]) else []
        elif rest[at].startswith("-"):
            kept.append(rest[at])
            if rest[at] in ("-u", "--unset", "-C", "--chdir"):
                at += 1
                kept += rest[at : at + 1]
        else:
            break
        at += 1
    return ["env", *kept, *rest[at:]] if kept else list(rest[at:])


def _container_options(rest: Sequence[str]) -> list[str]:
    """What a container is started with, but for variables that change no code: their values may be secrets."""
    kept: list[str] = []
    at = 0
    while at < len(rest):
        option, value, step = docker_option(rest, at)
        at += step
        if option in ("-e", "--env") and value is not None:
            kept += [option, value] if _may_change_code(value) else []
        elif option not in _HARMLESS["docker"] or value is not None:
            kept += rest[at - step : at]
    return kept
