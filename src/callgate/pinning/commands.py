"""What a command line starts: through launchers, wrappers and interpreters to the package, the image or the script."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from callgate.pinning import packages
from callgate.pinning.launch import Beside, Launch, options, program, text, values, whole_line, words

_DEPTH: Final = 8
_PYTHON: Final = re.compile(r"(?:python|pypy)w?[\d.]*t?|py")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)

_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash"})
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
        for spec in packages.spelt(start.spec, version, requirement=requirement):
            now = launched([*argv[:place], before + spec, *argv[place + 1 :]])
            if now == msgspec.structs.replace(start, version=version, spec=now.spec, warnings=now.warnings):
                return place, before + spec
    return None


def _interpreter(argv: Sequence[str], name: str) -> Launch | None:
    if name in _SHELLS:
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
        return packages.npm_exec([*before, *rest[1:]])
    if rest:
        return _project("npm", rest, (values(found, "--prefix", "-C", "--dir", "--cwd")[-1:] or [""])[0])
    return None


def _bun(args: Sequence[str], _depth: int) -> Launch | None:
    _, rest = options(args, words("-r --preload --env-file --cwd -c --config"))
    if rest[:1] == ["x"]:
        return packages.npm_exec(rest[1:])
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
        return packages.npm(rest[0].removeprefix("npm:"))
    if rest[0].startswith("jsr:"):
        return packages.jsr(rest[0].removeprefix("jsr:"))
    if "://" in rest[0]:
        return None
    return Launch(scheme="file", name=rest[0], runner="deno")


def _uv(args: Sequence[str], depth: int) -> Launch | None:
    found, rest = packages.uv_options(args)
    if rest[:2] == ["tool", "run"]:
        places = [
            item for name, value in found if name.startswith(("--index", "--default-index")) for item in (name, value)
        ]
        return packages.uv_tool([*places, *rest[2:]])
    if rest[:1] != ["run"]:
        return None
    inner, rest = packages.uv_options(rest[1:])
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
    name = program(word)
    return ("/" in word or name in _WRAPPERS or name in _INTERPRETERS or name in _LAUNCHERS or name in _SHELLS) or bool(
        _PYTHON.fullmatch(name)
    )


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
    return packages.go(rest[0]) if "@" in rest[0] else _project("go", rest[:1], "")


_LAUNCHERS: Final[dict[str, Callable[[Sequence[str], int], Launch | None]]] = {
    **dict.fromkeys(("npx", "pnpx", "bunx"), lambda args, _depth: packages.npm_exec(args)),
    **dict.fromkeys(("npm", "pnpm", "yarn", "yarnpkg"), _npm),
    **dict.fromkeys(("docker", "podman", "nerdctl"), lambda args, _depth: packages.container(args)),
    **dict.fromkeys(("mcp", "fastmcp"), _mcp),
    "cmd": _cmd,
    "bun": _bun,
    "deno": _deno,
    "uv": _uv,
    "uvx": lambda args, _depth: packages.uv_tool(args),
    "pipx": lambda args, _depth: packages.pipx_run(args[1:]) if args[:1] == ["run"] else None,
    "go": _go,
    **{
        name: _run_in_project(name)
        for name in ("poetry", "pipenv", "hatch", "pdm", "rye", "conda", "micromamba", "cargo")
    },
}
