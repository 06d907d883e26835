"""What the command of a server starts: a package, an image, a file or a module, in which version."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

# What stands beside the name: the registry it comes `from`, where it forwards `to`, the directory it runs `in`.
Beside: TypeAlias = tuple[tuple[Literal["from", "to", "in"], str], ...]
Scheme: TypeAlias = Literal["npm", "pypi", "jsr", "go", "git", "oci", "file", "module", "project", "text", "line"]

_SUFFIX: Final = re.compile(r"\.(?:exe|cmd|bat|ps1)\Z", re.IGNORECASE)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What is started: a package, an image, a file, a module. `version` only where it names exactly one thing."""

    scheme: Scheme
    name: str
    version: str = ""
    # The interpreter or launcher, where the thing started is not a program of its own.
    runner: str = ""
    beside: Beside = ()
    warnings: tuple[str, ...] = ()
    # Relative to the directory of the command, where an option changes it.
    directory: str = ""
    # The one package as the command spells it, who fetches it, and its options that decide which version that is.
    spec: str = ""
    fetcher: Literal["npm", "uv", "pip", ""] = ""
    options: tuple[tuple[str, str], ...] = ()
    # The words of the command that name a package; a file or a module is named by `name`.
    words: tuple[str, ...] = ()


def program(path: str) -> str:
    """The name of a program without its directory and Windows' endings, in small letters."""
    return _SUFFIX.sub("", path.replace("\\", "/").rsplit("/", 1)[-1]).lower()


def options(args: Sequence[str], takes: frozenset[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The options up to the first argument that is none, and what follows; `takes` are those with a value."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(args):
        arg = args[at]
        if arg == "--":
            return found, list(args[at + 1 :])
        if not arg.startswith("-") or arg == "-":
            break
        at += 1
        name, equals, value = arg.partition("=")
        if equals and arg.startswith("--"):
            found.append((name, value))
        elif arg in takes:
            found.append((arg, args[at] if at < len(args) else ""))
            at += 1
        elif not arg.startswith("--") and arg[:2] in takes:
            found.append((arg[:2], arg[2:].removeprefix("=")))
        else:
            found.append((arg, ""))
    return found, list(args[at:])


def words(line: str) -> frozenset[str]:
    return frozenset(line.split())


def values(found: Sequence[tuple[str, str]], *names: str) -> list[str]:
    """What was given to any of these options."""
    return [value for name, value in found if name in names]


def address(url: str) -> str:
    """A URL without what may be secret in it: credentials, query and fragment."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return f"unreadable:{digest(url)}"
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme.lower()}://{name}" + (f":{port}" if port is not None else "") + (parts.path or "/")


def text(line: str, runner: str) -> Launch:
    """Code on the command line: known by its digest, for it may hold anything."""
    warning = (
        f"`{runner}` runs code from its command line, and what that starts cannot be told; "
        "write the program or the package itself as the command."
    )
    return Launch(scheme="text", name=digest(line), runner=runner, warnings=(warning,))


def whole_line(argv: Sequence[str]) -> Launch:
    """A command that we cannot read: known by the digest of all of it, so that no other command is taken for it."""
    runner = program(argv[0]) if argv else "nothing"
    warning = (
        f"It cannot be told which program `{runner}` starts here, so approvals hold for exactly this command; "
        "name a package with its version, an image with its digest, or a file."
    )
    return Launch(scheme="line", name=digest("\0".join(argv)), runner=runner, warnings=(warning,))


def digest(line: str) -> str:
    return hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()


# semver.org, with the `v` and `=` that npm takes before it.
_SEMVER: Final = re.compile(r"[v=]*(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)")
# PEP 440, loosely: enough to tell one version from a range.
_PEP440: Final = re.compile(r"v?(\d+!)?\d+(?:\.\d+)*[-_.a-zA-Z0-9]*(?:\+[a-zA-Z0-9._-]+)?")
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(.*)", re.DOTALL)
_GIT: Final = re.compile(r"(?:git\+)?((?:https?|ssh|git|file)://[^#\s]+?)(?:\.git)?(?:[@#]([^@#/]+))?(?:#.*)?")
_SHORT_GIT: Final = re.compile(r"(github|gitlab|bitbucket):([\w.-]+/[\w.-]+)(?:#(.+))?|([\w.-]+/[\w.-]+)(?:#(.+))?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")

_NPX: Final = words(
    "-p --package -c --call --registry -w --workspace --userconfig --globalconfig --prefix --cache --loglevel "
    "--node-options --script-shell --cwd -C --dir"
)
_UV: Final = words(
    "--from --with --with-editable --with-requirements -w -p --python --index --default-index -i --index-url "
    "--extra-index-url -f --find-links -P --upgrade-package --reinstall-package --refresh-package --exclude-newer "
    "--resolution --prerelease -c --constraints -b --build-constraints --overrides --env-file --link-mode --cache-dir "
    "--color --directory --project --config-file --index-strategy --keyring-provider --python-platform "
    "--torch-backend --no-build-package --no-binary-package -C --config-setting --config-settings-package "
    "--fork-strategy --allow-insecure-host --no-build-isolation-package --exclude-newer-package --no-sources-package "
    "--extra --no-extra --group --no-group --only-group --package -m --module"
)
# Of uv's options those that decide which version it takes; `uv pip compile` knows them by the same names.
_UV_CHOOSING: Final = words(
    "--index --default-index -i --index-url --extra-index-url -f --find-links --exclude-newer --resolution "
    "--prerelease --index-strategy -p --python"
)
_PIPX: Final = words("--spec --python --pip-args -i --index-url --with --fetch-missing-python --backend")
# Of `docker run` and `podman run`: these stand alone, everything else takes a value.
_DOCKER_FLAGS: Final = words(
    "--detach --interactive --tty --rm --init --privileged --read-only --publish-all --no-healthcheck "
    "--oom-kill-disable --sig-proxy --disable-content-trust --quiet --help --replace --rmi --env-host --no-hosts "
    "--no-hostname --http-proxy --rootfs --tls-verify --unsetenv-all --passwd --read-only-tmpfs "
    "--use-api-socket"
)
_DOCKER_LETTERS: Final = frozenset("ditPq")
# Programs that only pass on what another server says: the identity is that of the other end.
_BRIDGES: Final = frozenset(
    {"mcp-remote", "mcp-proxy", "supergateway", "fastmcp", "mcp-remote-client", "@latitude-data/supergateway"}
)


def npm_exec(args: Sequence[str]) -> Launch | None:
    """What follows `npx`, `npm exec`, `pnpm dlx`, `yarn dlx`, `bunx`."""
    found, rest = options(args, _NPX)
    for line in values(found, "-c", "--call"):
        return text(line, "npx")
    named = values(found, "-p", "--package")
    specs = named or rest[:1]
    if not specs:
        return None
    registry = [address(url) for url in values(found, "--registry")[-1:]]
    beside: Beside = tuple(("from", one) for one in registry)
    start = _several([npm(spec) for spec in specs], beside + _target(specs, rest if named else rest[1:]))
    return _fetched(structs.replace(start, words=tuple(specs)), "npm", found, words("--registry"))


def uv_tool(args: Sequence[str]) -> Launch | None:
    """What follows `uvx`, `uv tool run`; `--with` adds what the tool needs, and is not the tool."""
    found, rest = options(args, _UV)
    specs = values(found, "--from")[-1:] or rest[:1]
    if not specs:
        return None
    places = values(found, "--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links")
    beside: Beside = tuple(("from", address(url)) for url in places)
    start = _several([pypi(specs[0], at_sign=True)], beside + _target(specs, rest[1:]))
    return _fetched(structs.replace(start, words=tuple(specs)), "uv", found, _UV_CHOOSING)


def pipx_run(args: Sequence[str]) -> Launch | None:
    found, rest = options(args, _PIPX)
    specs = values(found, "--spec")[-1:] or rest[:1]
    if not specs:
        return None
    beside: Beside = tuple(("from", address(url)) for url in values(found, "-i", "--index-url"))
    start = _several([pypi(specs[0])], beside + _target(specs, rest[1:]))
    choosing = words("-i --index-url --pip-args --python --backend")
    return _fetched(structs.replace(start, words=tuple(specs)), "pip", found, choosing)


def uv_options(args: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    return options(args, _UV)


def npm(spec: str) -> Launch:
    """`@org/pkg@1.2.3`, or a repository, or a directory."""
    if spec.startswith((".", "/", "~", "file:")) or "\\" in spec:
        return _directory(spec.removeprefix("file:"))
    if "://" in spec or (_SHORT_GIT.fullmatch(spec) and not spec.startswith("@")):
        return _repository(spec)
    at = spec.find("@", 1)
    name, written = (spec[:at], spec[at + 1 :]) if at > 0 else (spec, "")
    if written.startswith("npm:"):
        # An alias: what is installed has another name.
        return npm(written.removeprefix("npm:"))
    exact = _SEMVER.fullmatch(written)
    return _package("npm", name, exact[1] if exact else "", f"{name}@1.2.3", written, spec=spec)


def jsr(spec: str) -> Launch:
    at = spec.find("@", 1)
    name, written = (spec[:at], spec[at + 1 :].split("/", 1)[0]) if at > 0 else (spec, "")
    exact = _SEMVER.fullmatch(written)
    return _package("jsr", name, exact[1] if exact else "", f"jsr:{name}@1.2.3", written)


def go(spec: str) -> Launch:
    name, _, written = spec.partition("@")
    exact = _SEMVER.fullmatch(written)
    return _package("go", name, exact[1] if exact else "", f"{name}@v1.2.3", written)


def pypi(spec: str, *, at_sign: bool = False) -> Launch:
    """`pkg==1.2`, and where uv reads it so `pkg@1.2`; the name in the form of PEP 503."""
    spec = spec.strip()
    if spec.startswith((".", "/", "~")) or "\\" in spec:
        return _directory(spec)
    match = _REQUIREMENT.fullmatch(spec)
    rest = match[2].partition(";")[0].strip() if match else ""
    if "://" in spec:
        return _repository(rest.removeprefix("@").strip() if rest.startswith("@") else spec)
    if not match:
        return whole_line(["pypi", spec])
    name = re.sub(r"[-_.]+", "-", match[1]).lower()
    written = ""
    if rest.startswith("=="):
        written = rest.lstrip("=").strip()
    elif at_sign and rest.startswith("@"):
        written = rest[1:].strip()
    exact = _PEP440.fullmatch(written) if written else None
    return _package("pypi", name, written.lower() if exact else "", f"{name}==1.2.3", rest, spec=spec)


def image(spec: str) -> Launch:
    """`image@sha256:…`; a tag can be moved to another image at any time."""
    name, _, written = spec.partition("@")
    head, slash, last = name.rpartition("/")
    name = head + slash + last.partition(":")[0]
    exact = written if _DIGEST.fullmatch(written) else ""
    return _package("oci", name, exact, f"{name}@sha256:DIGEST", spec[len(name) :])


def container(args: Sequence[str]) -> Launch | None:
    """What follows `docker`, `podman`, `nerdctl`: the image of a `run`."""
    _, rest = options(args, words("-c --context -H --host -l --log-level --config --url --connection"))
    if rest[:1] == ["container"]:
        rest = rest[1:]
    if rest[:1] != ["run"]:
        return None
    at = 1
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        at += 2 if _takes_next(rest[at]) else 1
    if at < len(rest) and rest[at] == "--":
        at += 1
    return structs.replace(image(rest[at]), words=(rest[at],)) if at < len(rest) else None


def docker_option(rest: Sequence[str], at: int) -> tuple[str, str | None, int]:
    """The option at a place of a container's command, its value, and how many words the two are."""
    word = rest[at]
    name, equals, value = word.partition("=")
    if not word.startswith("-") or word in ("-", "--"):
        return word, None, 1
    if equals and word.startswith("--"):
        return name, value, 1
    if word.startswith("-e") and len(word) > 2:
        return "-e", word[2:].removeprefix("="), 1
    return (word, rest[at + 1], 2) if _takes_next(word) and at + 1 < len(rest) else (word, None, 1)


def _takes_next(option: str) -> bool:
    if option.startswith("--"):
        return "=" not in option and option not in _DOCKER_FLAGS
    # `-it`, `-itv /a:/b`, `-p8080:80`: the first letter with a value takes the rest, or the next argument.
    for at, letter in enumerate(option[1:], 1):
        if letter not in _DOCKER_LETTERS:
            return at == len(option) - 1
    return False


def _several(found: Sequence[Launch], beside: Beside) -> Launch:
    """One launch for all packages that are named together; pinned only if each is."""
    first = found[0]
    if len(found) == 1 or any(one.scheme != first.scheme for one in found):
        return Launch(
            scheme=first.scheme,
            name=first.name,
            version=first.version if len(found) == 1 else "",
            runner=first.runner,
            beside=first.beside + beside,
            warnings=tuple(warning for one in found for warning in one.warnings),
            spec=first.spec if len(found) == 1 else "",
        )
    name = ",".join(f"{one.name}@{one.version}" if one is not found[-1] else one.name for one in found)
    return Launch(
        scheme=first.scheme,
        name=name,
        version=found[-1].version if all(one.version for one in found) else "",
        beside=beside,
        warnings=tuple(warning for one in found for warning in one.warnings),
    )


def _target(specs: Sequence[str], args: Sequence[str]) -> Beside:
    names = {spec[: spec.find("@", 1)] if spec.find("@", 1) > 0 else re.split(r"[=<>\[]", spec)[0] for spec in specs}
    if not names & _BRIDGES:
        return ()
    return tuple(("to", address(arg)) for arg in args if arg.startswith(("http://", "https://", "ws://", "wss://")))


def spelt(spec: str, version: str, *, requirement: bool) -> tuple[str, ...]:
    """How a package of npm or PyPI is written with this version; `requirement`: rather in the form of PEP 508.

    Older versions of uv take `==` only behind `--from`, and `@` only behind a bare name.
    """
    at = spec.find("@", 1)
    short = f"{spec[:at] if at > 0 else spec}@{version}"
    match = _REQUIREMENT.fullmatch(spec)
    if not match:
        return (short,)
    head, rest = spec[: match.start(2)].rstrip(), match[2]
    exact = f"{head}=={version}{rest[rest.find(';') :] if ';' in rest else ''}"
    return (exact, short) if requirement or exact != f"{match[1]}=={version}" else (short, exact)


def _fetched(
    start: Launch, fetcher: Literal["npm", "uv", "pip"], found: Sequence[tuple[str, str]], choosing: frozenset[str]
) -> Launch:
    chosen = tuple((name, value) for name, value in found if name in choosing)
    return structs.replace(start, fetcher=fetcher, options=chosen) if start.spec else start


def _package(
    scheme: Literal["npm", "pypi", "jsr", "go", "oci"],
    name: str,
    version: str,
    instead: str,
    written: str,
    *,
    spec: str = "",
) -> Launch:
    if version:
        return Launch(scheme=scheme, name=name, version=version, spec=spec)
    if scheme == "oci":
        what = "names an image by a tag, which can be moved to another image"
    elif written:
        what = f"names no single version (`{written[:60]}`)"
    else:
        what = "names no version"
    warning = (
        f"The command {what}: what runs can change at any start. Name the version that you reviewed, as in `{instead}`."
    )
    return Launch(scheme=scheme, name=name, warnings=(warning,), spec=spec)


def _repository(spec: str) -> Launch:
    short = _SHORT_GIT.fullmatch(spec)
    if short:
        host = {"gitlab": "gitlab.com", "bitbucket": "bitbucket.org"}.get(short[1] or "", "github.com")
        place, revision = f"https://{host}/{short[2] or short[4]}", short[3] or short[5] or ""
    else:
        match = _GIT.fullmatch(spec)
        place, revision = (match[1], match[2] or "") if match else (spec, "")
    exact = revision if _COMMIT.fullmatch(revision) else ""
    warnings = () if exact else (f"{address(place)} is not held to a commit: write its 40 digits after the address.",)
    return Launch(scheme="git", name=address(place), version=exact, warnings=warnings)


def _directory(path: str) -> Launch:
    warning = f"`{path[:200]}` is a directory of code, whose changes go unnoticed; a package with a version is noticed."
    return Launch(scheme="project", name="", beside=(("in", path),), runner="directory", warnings=(warning,))


_DEPTH: Final = 8
_PYTHON: Final = re.compile(r"(?:python|pypy)w?[\d.]*t?|py")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)

SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash"})
# Programs that run another one: their options with a value, and how many arguments come before the command.
_WRAPPERS: Final[dict[str, tuple[str, int]]] = {
    "env": ("-u --unset -C --chdir", 0),
    "timeout": ("-k --kill-after -s --signal", 1),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c --class -n --classdata", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "sudo": ("-u --user -g --group -h --host -p --prompt -C -D --chdir -R -T", 0),
    "doas": ("-u -C", 0),
    "caffeinate": ("-t -w", 0),
    "xvfb-run": ("-n --server-num -s --server-args -e --error-file -f --auth-file -p --xauth-protocol -w --wait", 0),
    "winpty": ("", 0),
    "time": ("-o -f", 0),
    "taskset": ("", 1),
    "command": ("", 0),
}
# Programs that fetch secrets or an environment, and run what stands after `--`.
_AFTER_DASHES: Final = frozenset(
    {"op", "doppler", "infisical", "dotenv", "dotenvx", "mise", "direnv", "varlock", "chamber"}
)
# Interpreters: options with a value, options whose value is code, options whose value is the file.
_INTERPRETERS: Final[dict[str, tuple[str, str, str]]] = {
    "node": (
        "-r --require --import --loader --experimental-loader -C --conditions --env-file --title",
        "-e --eval -p --print",
        "",
    ),
    "tsx": ("--tsconfig --env-file --import -r --require", "-e --eval -p --print", ""),
    "ts-node": ("-P --project -O --compiler-options -r --require", "-e --eval -p --print", ""),
    "ruby": ("-I -r -C -E", "-e", ""),
    "perl": ("-I", "-e -E", ""),
    "php": ("-d -c -z", "-r", "-f"),
    "rscript": ("", "-e", ""),
    "lua": ("-l", "-e", ""),
    "pwsh": ("-ExecutionPolicy -ep -WorkingDirectory -wd", "-Command -c -EncodedCommand -ec", "-File -f"),
    "powershell": ("-ExecutionPolicy -ep", "-Command -c -EncodedCommand -ec", "-File -f"),
    "java": ("-cp -classpath --class-path -p --module-path --add-opens --add-exports --add-modules", "", "-jar"),
    "dotnet": ("", "", ""),
}
_DENO: Final = words("-c --config --import-map --lock --cert --location --env-file --seed -L --log-level")


def launched(argv: Sequence[str], depth: int = 0) -> Launch:
    """What this command starts. Where that cannot be told, the whole command is the answer, never a part of it."""
    if not argv or depth > _DEPTH:
        return whole_line(argv)
    name = program(argv[0])
    args = list(argv[1:])
    if name in _WRAPPERS:
        return _wrapped(argv, name, depth)
    if name in _AFTER_DASHES and "--" in args:
        return launched(args[args.index("--") + 1 :], depth + 1)
    if name in _LAUNCHERS:
        return _LAUNCHERS[name](args, depth) or whole_line(argv)
    return _interpreter(argv, name) or Launch(scheme="file", name=argv[0])


def with_version(argv: Sequence[str], version: str) -> tuple[int, str] | None:
    """Which word of a command has to become what, so that it starts this version of its one package and nothing else
    about it changes; None where no word can. What comes out is read again, so it is right by the same reader."""
    start = launched(argv)
    for place, word in enumerate(argv):
        if not start.spec or not word.endswith(start.spec):
            continue
        before = word.removesuffix(start.spec)
        requirement = "--from" in (before.removesuffix("="), argv[place - 1] if place else "")
        for spec in spelt(start.spec, version, requirement=requirement):
            now = launched([*argv[:place], before + spec, *argv[place + 1 :]])
            same = structs.replace(start, version=version, spec=now.spec, words=now.words, warnings=now.warnings)
            if now == same:
                return place, before + spec
    return None


def _interpreter(argv: Sequence[str], name: str) -> Launch | None:
    if name in SHELLS:
        return _shell(argv, name)
    if _PYTHON.fullmatch(name):
        return _python(argv, name)
    return _interpreted(argv, name) if name in _INTERPRETERS else None


def _wrapped(argv: Sequence[str], name: str, depth: int) -> Launch:
    takes, skip = _WRAPPERS[name]
    found, rest = options(argv[1:], words(takes))
    if name == "env":
        for line in values(found, "-S", "--split-string"):
            return text(line, "env")
        while rest and _ASSIGNMENT.fullmatch(rest[0]):
            rest = rest[1:]
    rest = rest[skip:]
    if not rest:
        return Launch(scheme="file", name=argv[0])
    inner = launched(rest, depth + 1)
    directory = values(found, "--chdir", "-C", "-D")[-1:]
    return _inside(inner, directory[0]) if directory else inner


def _inside(start: Launch, directory: str) -> Launch:
    """The same, begun in another directory."""
    sep = "/" if start.directory else ""
    return msgspec.structs.replace(start, directory=f"{directory}{sep}{start.directory}")


def _shell(argv: Sequence[str], name: str) -> Launch:
    args = list(argv[1:])
    at = 0
    while at < len(args) and args[at].startswith(("-", "+")) and args[at] not in ("-", "--"):
        letters = args[at]
        if not letters.startswith("--") and "c" in letters[1:]:
            return text("\0".join(args[at + 1 :]), name)
        at += 2 if letters in ("-o", "-O", "+o", "+O", "--rcfile", "--init-file") else 1
    if at < len(args) and args[at] == "--":
        at += 1
    return Launch(scheme="file", name=args[at], runner=name) if at < len(args) else whole_line(argv)


def _python(argv: Sequence[str], name: str) -> Launch:
    args = list(argv[1:])
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "-":
        if args[at] in ("-X", "-W", "--check-hash-based-pycs"):
            at += 2
            continue
        # `-Im module`, `-uc code`: letters without a value may stand before the one that takes the rest.
        code = re.fullmatch(r"-[bBdEhiIOqsSuvVxP]*([cm])(.*)", args[at], re.DOTALL)
        if code:
            value = code[2] or (args[at + 1] if at + 1 < len(args) else "")
            return text(value, name) if code[1] == "c" else _module(value, argv, name)
        at += 1
    if at >= len(args) or args[at] == "-":
        return whole_line(argv)
    return Launch(scheme="file", name=args[at], runner=name)


def _module(module: str, argv: Sequence[str], name: str) -> Launch:
    """Which file a module is depends on the interpreter and its directory, so both are part of the identity."""
    warning = (
        f"`{name} -m {module[:100]}` names no version, and which file that is cannot be told from outside: "
        f"what runs can change at any start. Write the path of the script, or start it with `uvx PACKAGE==VERSION`."
    )
    beside: Beside = (("in", argv[0]),) if "/" in argv[0] or "\\" in argv[0] else ()
    return Launch(scheme="module", name=module, runner=name, beside=beside, warnings=(warning,))


def _interpreted(argv: Sequence[str], name: str) -> Launch:
    takes, code, files = map(words, _INTERPRETERS[name])
    found, rest = options(argv[1:], takes | code | files)
    for line in values(found, *code):
        return text(line, name)
    for file in values(found, *files):
        return Launch(scheme="file", name=file, runner=name)
    if not rest or rest[0] == "-":
        return whole_line(argv)
    if name == "dotnet" and not rest[0].lower().endswith(".dll"):
        return _project("dotnet", rest, "")
    if name == "java":
        place = values(found, "-cp", "-classpath", "--class-path", "-p", "--module-path")[-1:] or ["."]
        warning = f"`java {rest[0][:100]}` names a class, and its changes go unnoticed; start it with `java -jar FILE`."
        return Launch(scheme="module", name=rest[0], runner=name, beside=(("in", place[0]),), warnings=(warning,))
    return Launch(scheme="file", name=rest[0], runner=name)


def _project(runner: str, words: Sequence[str], directory: str) -> Launch:
    """A script of a project, by its name and the project's directory."""
    warning = (
        f"`{runner}` runs a part of a project, whose changes go unnoticed; "
        "start a published package with its version, or name the file."
    )
    return Launch(
        scheme="project",
        name=" ".join(words[:2]),
        runner=runner,
        beside=(("in", directory or "."),),
        warnings=(warning,),
    )


def _cmd(args: Sequence[str], depth: int) -> Launch | None:
    """`cmd /c npx …`, the way to start npx on Windows."""
    while args and args[0].lower() in ("/d", "/s", "/q"):
        args = args[1:]
    if not args or args[0].lower() not in ("/c", "/k"):
        return None
    return text(args[1], "cmd") if len(args) == 2 and " " in args[1] else launched(args[1:], depth + 1)


def _npm(args: Sequence[str], _depth: int) -> Launch | None:
    found, rest = options(args, words("--prefix -C --dir --cwd --registry --package -w --workspace -F --filter"))
    if rest[:1] in (["exec"], ["x"], ["dlx"]):
        before = [f"{name}={value}" for name, value in found if name in ("--registry", "--package")]
        return npm_exec([*before, *rest[1:]])
    if rest:
        return _project("npm", rest, (values(found, "--prefix", "-C", "--dir", "--cwd")[-1:] or [""])[0])
    return None


def _bun(args: Sequence[str], _depth: int) -> Launch | None:
    _, rest = options(args, words("-r --preload --env-file --cwd -c --config"))
    if rest[:1] == ["x"]:
        return npm_exec(rest[1:])
    if rest[:1] == ["run"]:
        _, rest = options(rest[1:], words("-r --preload --env-file --cwd -c --config"))
    if not rest:
        return None
    if "." in rest[0] or "/" in rest[0]:
        return Launch(scheme="file", name=rest[0], runner="bun")
    return _project("bun", rest[:1], "")


def _deno(args: Sequence[str], _depth: int) -> Launch | None:
    _, rest = options(args, _DENO)
    if rest[:1] in (["run"], ["serve"], ["x"]):
        _, rest = options(rest[1:], _DENO)
    elif rest[:1] in (["task"], ["eval"], ["repl"]):
        return _project("deno", rest, "") if rest[0] == "task" else None
    if not rest:
        return None
    if rest[0].startswith("npm:"):
        return structs.replace(npm(rest[0].removeprefix("npm:")), words=(rest[0],))
    if rest[0].startswith("jsr:"):
        return structs.replace(jsr(rest[0].removeprefix("jsr:")), words=(rest[0],))
    if "://" in rest[0]:
        return None
    return Launch(scheme="file", name=rest[0], runner="deno")


def _uv(args: Sequence[str], depth: int) -> Launch | None:
    found, rest = uv_options(args)
    if rest[:2] == ["tool", "run"]:
        places = [
            item for name, value in found if name.startswith(("--index", "--default-index")) for item in (name, value)
        ]
        return uv_tool([*places, *rest[2:]])
    if rest[:1] != ["run"]:
        return None
    inner, rest = uv_options(rest[1:])
    directory = (values([*found, *inner], "--directory")[-1:] or [""])[0]
    project = (values([*found, *inner], "--project")[-1:] or [directory])[0]
    for module in values(inner, "-m", "--module"):
        return _project("uv", ["-m", module], project)
    if not rest:
        return None
    if rest[0].lower().endswith((".py", ".pyw")):
        return _inside(Launch(scheme="file", name=rest[0], runner="python"), directory)
    known = _known(rest[0])
    return _inside(launched(rest, depth + 1), directory) if known else _project("uv", rest[:1], project)


def _known(word: str) -> bool:
    return "/" in word or is_program(word)


def is_program(word: str) -> bool:
    """Whether a word has the name of a program that starts others."""
    name = program(word)
    every = (_WRAPPERS, _AFTER_DASHES, _INTERPRETERS, _LAUNCHERS, SHELLS)
    return not word.startswith("-") and (any(name in known for known in every) or bool(_PYTHON.fullmatch(name)))


def _mcp(args: Sequence[str], _depth: int) -> Launch | None:
    """`mcp run server.py:app`, `fastmcp run server.py`: the script is what runs."""
    if args[:1] not in (["run"], ["dev"]):
        return None
    _, rest = options(args[1:], words("-t --transport -f --with -e --with-editable --host --port --path -l"))
    if not rest or "://" in rest[0]:
        return None
    script = re.sub(r"(\.pyw?):[A-Za-z_]\w*\Z", r"\1", rest[0])
    return Launch(scheme="file", name=script, runner="python")


def _run_in_project(runner: str) -> Callable[[Sequence[str], int], Launch | None]:
    def read(args: Sequence[str], depth: int) -> Launch | None:
        takes = words("-C --directory -P --project -p --python -e --env -n --name --prefix --cwd")
        found, rest = options(args, takes)
        if rest[:1] != ["run"]:
            return None
        inner, rest = options(rest[1:], takes)
        directory = (values([*found, *inner], "-C", "--directory", "-P", "--project", "--cwd")[-1:] or [""])[0]
        if not rest:
            return None
        known = _known(rest[0]) and runner != "cargo"
        return _inside(launched(rest, depth + 1), directory) if known else _project(runner, rest[:1], directory)

    return read


def _go(args: Sequence[str], _depth: int) -> Launch | None:
    _, rest = options(args[1:], words("-C -mod -modfile -tags -ldflags -gcflags -exec"))
    if args[:1] != ["run"] or not rest:
        return None
    return structs.replace(go(rest[0]), words=(rest[0],)) if "@" in rest[0] else _project("go", rest[:1], "")


_LAUNCHERS: Final[dict[str, Callable[[Sequence[str], int], Launch | None]]] = {
    **dict.fromkeys(("npx", "pnpx", "bunx"), lambda args, _depth: npm_exec(args)),
    **dict.fromkeys(("npm", "pnpm", "yarn", "yarnpkg"), _npm),
    **dict.fromkeys(("docker", "podman", "nerdctl"), lambda args, _depth: container(args)),
    **dict.fromkeys(("mcp", "fastmcp"), _mcp),
    "cmd": _cmd,
    "bun": _bun,
    "deno": _deno,
    "uv": _uv,
    "uvx": lambda args, _depth: uv_tool(args),
    "pipx": lambda args, _depth: pipx_run(args[1:]) if args[:1] == ["run"] else None,
    "go": _go,
    **{
        name: _run_in_project(name)
        for name in ("poetry", "pipenv", "hatch", "pdm", "rye", "conda", "micromamba", "cargo")
    },
}
