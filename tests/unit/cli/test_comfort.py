"""What holds for every command: examples in its help, --json on listings, colours, progress, errors with a next step."""

import ast
import contextlib
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest
import typer.main

import callgate.cli
from callgate import errors
from callgate.cli import VERBS, build, overview, run
from callgate.cli.help_texts import EXAMPLES, EXIT_CODES, SPECIAL
from callgate.errors import CallgateError, Refused
from docs import generate
from support.table import rows
from support.terminal import Terminal

COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")
LISTINGS = {"check", "diff", "doctor", "facts", "history", "list", "report", "review", "servers", "show", "status"}
LISTINGS |= {"explain", "replay", "test", "verify", "watch", "why"}
COLUMNS = 80


@cache
def commands():
    """Each command with its words, such as `audit list`."""
    return {
        words.removeprefix("callgate "): command
        for words, command in generate._commands("callgate", typer.main.get_command(build([])))
    }


def parsed(words):
    """What the app makes of a command line, without carrying it out."""
    command, context = typer.main.get_command(build(words)), None
    while True:
        context = command.make_context(command.name or "callgate", list(words), parent=context)
        if not hasattr(command, "commands"):
            return command, context
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        _, command, words = command.resolve_command(context, rest)


# -- help ------------------------------------------------------------------------------------------------------


def test_every_command_has_an_example_and_every_example_a_command():
    assert sorted(EXAMPLES) == sorted(commands())


@rows(("words", "example"), [(words, one) for words, every in EXAMPLES.items() for one in every])
def test_an_example_is_understood_by_the_command_that_shows_it(words, example):
    typed = list(takewhile(lambda word: word not in ("<", ">", ">>", "|"), shlex.split(example)))
    command, context = parsed(typed)
    with contextlib.closing(context):
        assert " ".join(typed).startswith(words)
        assert command.name == words.split()[-1]
    assert len(f"   $ callgate {example}") < COLUMNS, "a line that wraps cannot be pasted"


def test_an_example_that_is_wrong_is_noticed():
    with pytest.raises(Exception, match="No such option"):
        parsed(["audit", "list", "--sinse", "2h"])
    with pytest.raises(Exception, match="No such command"):
        parsed(["audit", "lits"])


@rows("words", ["audit list", "wrap", "block-all on"])
def test_the_help_of_a_command_ends_with_its_examples(words, capsys):
    assert run([*words.split(), "--help"]) == 0
    said = capsys.readouterr().out
    for example in EXAMPLES[words]:
        assert f"$ callgate {example}" in said


def test_the_reference_shows_the_examples():
    page = generate.cli_page()
    assert all(f"    callgate {one}\n" in page for every in EXAMPLES.values() for one in every)


# -- listings --------------------------------------------------------------------------------------------------


@rows("words", [words for words in commands() if words.split()[-1] in LISTINGS])
def test_a_listing_speaks_json(words):
    assert any("--json" in one.opts for one in commands()[words].params), f"{words} has no --json"


def test_what_is_no_listing_is_known_to_be_none():
    """A new command that shows something does not slip past the test above under a name of its own."""
    silent = {words.split()[-1] for words, one in commands().items() if not any("--json" in p.opts for p in one.params)}
    assert silent <= {
        *(
            "accept-restore",
            "restore",
            "add",
            "approve",
            "backup",
            "block",
            "completion",
            "declassify",
            "demo",
            "directory",
            "key",
            "drop",
            "export",
        ),
        *(
            "forget",
            "install",
            "link",
            "logs",
            "off",
            "on",
            "prompt",
            "prune",
            "receipt",
            "refuse",
            "release",
            "remove",
            "rename",
            "restart",
            "revoke",
            "stop",
        ),
        *("role", "rotate", "schema", "serve", "together", "uninstall", "upgrade", "withdraw", "wrap"),
    }


def test_the_configuration_in_force_is_json_with_and_without_the_option(here, capsys):
    assert run(["config", "show"]) == run(["config", "show", "--json"]) == 0
    first, second = capsys.readouterr().out.split("\n}\n")[:2]
    assert json.loads(first + "}") == json.loads(second + "}")


# -- colours and progress --------------------------------------------------------------------------------------


def program(*words):
    return [sys.executable, "-m", "callgate", *words]


FAILS = ("audit", "list")
SHOWS = ("doctor", "--no-start")


def shown(words, env, tmp_path):
    with Terminal(program(*words), columns=COLUMNS, env={**env, **clean(tmp_path)}) as terminal:
        terminal.end()
        return terminal.raw


def clean(tmp_path):
    return {
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "CALLGATE_CONFIG": "",
        "CALLGATE_STORE_URL": f"sqlite:///{tmp_path}/no.db",
    }


@rows(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_gets_colours_unless_no_color_is_set(no_color, coloured, tmp_path):
    assert bool(COLOUR.search(shown(FAILS, {"NO_COLOR": no_color}, tmp_path))) is coloured


@rows("words", [FAILS, SHOWS])
@rows(("env", "coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)])
def test_a_pipe_gets_colours_only_if_they_are_forced(words, env, coloured, here, monkeypatch, capfd):
    for name, value in {"NO_COLOR": "", "FORCE_COLOR": "", **clean(here), **env}.items():
        monkeypatch.setenv(name, value)
    run(list(words))
    said = capfd.readouterr()
    assert bool(COLOUR.search(said.out + said.err)) is coloured
    # No bar is drawn where nobody sees it move.
    assert "\r" not in said.err
    assert "\x1b[?25l" not in said.err


@rows(
    ("module", "function"),
    [
        ("audit", "verify"),
        ("audit", "export"),
        ("audit", "prune"),
        ("audit", "_catch_up"),
        ("policy", "replay"),
        ("store", "check"),
        ("store", "upgrade"),
        ("store", "_copy"),
        ("doctor/__init__", "examine"),
        ("agents/change", "refresh"),
    ],
)
def test_what_may_take_long_shows_that_it_works(module, function):
    source = (Path(callgate.cli.__file__).parent / f"{module}.py").read_text()
    found = next(
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name == function
    )
    called = {
        node.func.id for node in ast.walk(found) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called & {"progress", "spinner"}


def test_progress_is_seen_on_a_terminal(tmp_path):
    raw = shown(("store", "upgrade"), {}, tmp_path)
    assert "upgrading the store" in raw
    assert "The store went from schema none" in raw


# -- exit codes ------------------------------------------------------------------------------------------------


def test_done_is_0(here):
    assert run(["--version"]) == 0


def test_what_failed_is_1(here):
    assert run(["audit", "list"]) == 1


@rows("words", [["audit", "list", "--nonsense"], ["nonsense"], ["audit", "list", "--limit", "many"]])
def test_what_is_mistyped_is_2(here, words):
    assert run(words) == 2


def test_what_is_interrupted_is_130(tmp_path):
    # Interrupted where it surely is at work: while it reads what was to be explained.
    code = """if True:
        import sys, time, callgate.cli
        class Slow:
            def read(self, most):
                print("up", flush=True)
                time.sleep(60)
        sys.stdin = Slow()
        sys.exit(callgate.cli.run(["policy", "explain", "-"]))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **clean(tmp_path)},
    )
    with process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(2)
        assert process.wait(30) == 130


def test_a_wrapped_command_ends_as_it_would_alone(tmp_path):
    done = subprocess.run(
        program("wrap", "x", "--", "sh", "-c", "exit 7"),
        env={**os.environ, **clean(tmp_path), "CALLGATE_STORE_URL": f"sqlite:///{tmp_path}/store.db"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 7


def test_every_exit_code_is_in_the_reference():
    assert [code for code, _, _ in EXIT_CODES] == [0, 1, 2, 130]
    page = generate.exit_codes_page()
    assert all(f"| `{code}` | {meaning} | {then} |" in page for code, meaning, then in EXIT_CODES)
    assert {words.removeprefix("callgate ") for words in SPECIAL} <= set(commands())


# -- errors ----------------------------------------------------------------------------------------------------

NEEDS_ADVICE = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, CallgateError)
} - {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Refused)}


def raised(path):
    """Each error of ours that a file makes, as (line, name, whether it says what to do)."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NEEDS_ADVICE:
            yield node.lineno, node.func.id, any(word.arg in ("advice", None) for word in node.keywords)


@rows("path", sorted(Path(callgate.cli.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_an_error_says_what_to_do_next(path):
    assert [f"{path.name}:{line} {name}" for line, name, advised in raised(path) if not advised] == []


def test_the_default_advice_of_every_reason_is_a_sentence():
    assert [reason for reason in errors.Reason if not reason.advice.endswith(".")] == []


def test_an_error_is_one_line_and_the_next_says_what_to_do(here, capsys):
    assert run(["audit", "list"]) == 1
    first, second = capsys.readouterr().err.strip().splitlines()
    assert first.startswith("callgate: ")
    assert second.endswith(".")


# -- starting --------------------------------------------------------------------------------------------------


def test_wrap_starts_as_light_as_it_can():
    """It starts with every client: no verb's module but its own, no help, no completion, nothing that draws."""
    code = (
        "import sys; from callgate.cli import build; build(['wrap', 'x', '--', 'y', '--help']);"
        "print(*sorted(name for name in sys.modules if name.partition('.')[0] in ('callgate', 'rich', 'sqlalchemy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("callgate.cli")} == {"callgate.cli", "callgate.cli.wrap"}
    assert not {name for name in loaded if not name.startswith("callgate")}
    assert "callgate.config" not in loaded


def test_the_first_help_loads_no_verb_and_says_what_each_says_of_itself():
    """It is what somebody types first."""
    code = (
        "import sys; from callgate.cli import overview; app = overview();"
        "print(*[name for name in sys.modules if name.startswith('callgate.cli.')], file=sys.stderr);"
        "import json; print(json.dumps({one.name: one.help for one in app.registered_commands}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stderr.strip()
    whole = build([])
    shown = {name: inspect.cleandoc(text) for name, text in json.loads(done.stdout).items()}
    assert shown == {one.name: inspect.getdoc(one.callback) for one in whole.registered_commands}
    assert [one.name for one in overview().registered_groups] == [one.name for one in whole.registered_groups]


def test_every_verb_is_there():
    assert {words.split()[0] for words in commands()} == set(VERBS)
