"""`callgate install --pin-versions`: the version that would run now, in the command that named none."""

import json
import sys

import pytest

from callgate.pinning.identity.launch import launched, with_version
from support.fork_server import CALLGATE, run
from support.installed import Home
from support.npm_registry import npm_registry
from support.table import rows
from support.terminal import Terminal

# Stands for uv or pip: says what it was asked, and answers from a table.
STAND_IN = """#!{python}
import json, os, sys
asked = {{"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
if os.path.exists("requirements.in"):
    asked["requirement"] = open("requirements.in").read().strip()
open({log!r}, "a").write(json.dumps(asked) + "\\n")
print({answer!r})
sys.exit({code})
"""

QUIET = ("--quiet", "--no-header", "--no-annotate", "--no-deps", "--no-build", "--no-progress")


@pytest.fixture
def registry():
    with npm_registry() as made:
        made.publish("@acme/files", "1.4.0")
        made.publish("@acme/files", "2.0.0-beta.1", tag="next")
        made.publish("plain", "0.9.0")
        made.publish("plain", "1.0.0")
        made.publish("plain", "0.9.5", tag="old")
        yield made


@pytest.fixture
def home(tmp_path, registry):
    made = Home(tmp_path / "home")
    made.environ |= registry.environ(tmp_path)
    return made


def servers(**entries):
    return json.dumps({"mcpServers": entries}, indent=2)


def words(path, name):
    return json.loads(path.read_text())["mcpServers"][name]["args"][3:]


def npx(*args, **more):
    return {"command": "npx", "args": list(args), **more}


def stand_in(home, name, answer, code=0):
    """A program of this name on the PATH; where it writes what it was asked."""
    folder = home.path / "bin"
    folder.mkdir(exist_ok=True)
    log = home.path / f"{name}.log"
    program = folder / name
    program.write_text(STAND_IN.format(python=sys.executable, log=str(log), answer=answer, code=code))
    program.chmod(0o755)
    if str(folder) not in home.environ["PATH"]:
        home.environ["PATH"] = f"{folder}:{home.environ['PATH']}"
    return log


def asked(log):
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


# -- where the version goes ------------------------------------------------------------------------------------


@rows(
    ("command", "now"),
    [
        ("npx plain", "npx plain@7.1.0"),
        ("npx -y @acme/files /my/folder", "npx -y @acme/files@7.1.0 /my/folder"),
        ("npx -y @acme/files@latest --read-only", "npx -y @acme/files@7.1.0 --read-only"),
        ("npx plain@^1", "npx plain@7.1.0"),
        ("npx plain plain", "npx plain@7.1.0 plain"),
        ("npx --cache plain plain", "npx --cache plain plain@7.1.0"),
        ("npx -y --package=@acme/files files", "npx -y --package=@acme/files@7.1.0 files"),
        ("npx -p @acme/files files", "npx -p @acme/files@7.1.0 files"),
        ("npx mine@npm:plain", "npx mine@npm:plain@7.1.0"),
        ("npm exec -y -- @acme/files x", "npm exec -y -- @acme/files@7.1.0 x"),
        ("pnpx plain@next", "pnpx plain@7.1.0"),
        ("bunx plain", "bunx plain@7.1.0"),
        ("cmd /c npx -y plain", "cmd /c npx -y plain@7.1.0"),
        ("env A=plain npx plain", "env A=plain npx plain@7.1.0"),
        ("uvx Plain_Server --tz plain", "uvx Plain_Server@7.1.0 --tz plain"),
        ("uvx plain@latest", "uvx plain@7.1.0"),
        ("uvx plain[cli] serve", "uvx plain[cli]==7.1.0 serve"),
        ("uvx --from plain>=2 serve", "uvx --from plain==7.1.0 serve"),
        ("uvx --from=plain[cli,x] serve", "uvx --from=plain[cli,x]==7.1.0 serve"),
        ("uvx --with other plain", "uvx --with other plain@7.1.0"),
        ("uv tool run plain", "uv tool run plain@7.1.0"),
        ("pipx run plain", "pipx run plain==7.1.0"),
        ("pipx run --spec plain[x] serve", "pipx run --spec plain[x]==7.1.0 serve"),
        # These are for nobody to write a version into.
        ("npx -p plain -p other run", None),
        ("npx ./folder", None),
        ("npx github:acme/files", None),
        ("uvx --from git+https://example.org/x.git x", None),
        ("uvx /a/folder", None),
        ("docker run acme/files", None),
        ("node server.js", None),
    ],
)
def test_the_version_goes_behind_the_package_and_nowhere_else(command, now):
    argv = command.split()
    found = with_version(argv, "7.1.0")
    assert (None if found is None else " ".join([*argv[: found[0]], found[1], *argv[found[0] + 1 :]])) == now
    if now is not None:
        before, after = launched(argv), launched(now.split())
        assert (after.version, after.warnings) == ("7.1.0", ())
        assert (after.name, after.beside) == (before.name, before.beside)


# -- npm -------------------------------------------------------------------------------------------------------


def test_npm_is_asked_and_the_version_is_in_the_diff_and_in_the_file(home):
    text = servers(files=npx("-y", "@acme/files", "/docs"), next=npx("@acme/files@next"), old=npx("plain@^0.9.0"))
    path = home.write(".cursor/mcp.json", text)
    said = home.type("install", "--pin-versions", "--yes")
    assert "put behind the gate, at version 1.4.0" in said
    assert "@acme/files@1.4.0" in said
    assert words(path, "files") == ["npx", "-y", "@acme/files@1.4.0", "/docs"]
    assert words(path, "next") == ["npx", "@acme/files@2.0.0-beta.1"]
    # Of several versions in a range the highest, as npm takes it: the latest is none of them.
    assert words(path, "old") == ["npx", "plain@0.9.5"]
    home.type("uninstall", "--yes")
    assert path.read_text() == text


def test_a_dry_run_shows_the_version_and_writes_none(home):
    text = servers(files=npx("@acme/files"))
    path = home.write(".cursor/mcp.json", text)
    assert "@acme/files@1.4.0" in home.type("install", "--pin-versions", "--dry-run")
    assert path.read_text() == text


def test_a_pinned_one_and_one_that_is_behind_the_gate_already_stay_and_nobody_is_asked(home, registry):
    path = home.write(".cursor/mcp.json", servers(a=npx("plain@0.9.0"), b=npx("./x"), c={"command": "some-program"}))
    home.type("install", "--pin-versions", "--yes")
    assert words(path, "a") == ["npx", "plain@0.9.0"]
    before = path.read_text()
    assert "Nothing to do" in home.type("install", "--pin-versions", "--yes")
    assert path.read_text() == before
    assert registry.asked == []


def test_without_being_asked_for_no_version_is_looked_up(home, registry):
    """A script does today what it did yesterday, and needs no network."""
    path = home.write(".cursor/mcp.json", servers(files=npx("@acme/files")))
    home.type("install", "--yes")
    assert words(path, "files") == ["npx", "@acme/files"]
    assert registry.asked == []


def test_a_version_that_cannot_be_found_is_told_in_a_line_and_the_command_stays(home):
    path = home.write(".cursor/mcp.json", servers(no=npx("not-there"), files=npx("@acme/files")))
    said = home.type("install", "--pin-versions", "--yes")
    [line] = [line for line in said.splitlines() if "Its version stays open" in line]
    assert "npm does not say which version it is" in line
    assert words(path, "no") == ["npx", "not-there"]
    assert words(path, "files") == ["npx", "@acme/files@1.4.0"]


def test_a_machine_without_npm_is_told(home):
    home.environ["PATH"] = str(home.path / "nothing")
    home.write(".cursor/mcp.json", servers(files=npx("@acme/files")))
    assert "npm is not on this machine's PATH" in home.type("install", "--pin-versions", "--yes")


def test_a_registry_that_never_answers_is_not_waited_for(home, registry, monkeypatch):
    monkeypatch.setattr("callgate.cli.install.versions._SECONDS", 2.0)
    registry.answers.clear()
    path = home.write(".cursor/mcp.json", servers(files=npx("@acme/files")))
    assert "npm did not answer in time" in home.type("install", "--pin-versions", "--yes")
    assert words(path, "files") == ["npx", "@acme/files"]


def test_the_registry_of_the_command_and_of_its_environment_count(home, registry):
    with npm_registry() as own:
        own.publish("plain", "5.5.5")
        path = home.write(
            ".cursor/mcp.json",
            servers(
                option=npx("--registry", own.url, "plain"),
                variable=npx("plain", env={"NPM_CONFIG_REGISTRY": own.url, "TOKEN": "x"}),
                usual=npx("plain"),
            ),
        )
        home.type("install", "--pin-versions", "--yes")
    assert words(path, "option") == ["npx", "--registry", own.url, "plain@5.5.5"]
    assert words(path, "variable") == ["npx", "plain@5.5.5"]
    assert words(path, "usual") == ["npx", "plain@1.0.0"]


def test_what_uninstall_leaves_of_an_edited_file_names_no_version_either(home):
    path = home.write(".cursor/mcp.json", servers(files=npx("-y", "@acme/files", "/docs"), plain=npx("plain")))
    home.type("install", "--pin-versions", "--yes")
    path.write_text(path.read_text().replace("/docs", "/other"))
    home.type("uninstall", "--yes")
    after = json.loads(path.read_text())["mcpServers"]
    assert after["files"] == npx("-y", "@acme/files", "/other")
    assert after["plain"] == npx("plain")


def test_the_listing_has_the_version(home):
    home.write(".cursor/mcp.json", servers(files=npx("@acme/files")))
    found, *_ = json.loads(home.type("install", "--pin-versions", "--dry-run", "--json"))
    assert found["servers"][0]["version"] == "1.4.0"


# -- uv and pip ------------------------------------------------------------------------------------------------


@rows(
    ("args", "requirement", "options", "now"),
    [
        (["time-server"], "time-server", [], ["time-server@1.5.0"]),
        (["time-server@latest"], "time-server", [], ["time-server@1.5.0"]),
        (
            ["--from", "time-server[cli]>=1", "go"],
            "time-server[cli]>=1",
            [],
            ["--from", "time-server[cli]==1.5.0", "go"],
        ),
        (
            ["--default-index", "https://pkg.example/simple", "-p", "3.12", "--prerelease", "allow", "time-server"],
            "time-server",
            [
                *("--default-index", "https://pkg.example/simple"),
                *("--python-version", "3.12", "--prerelease", "allow"),
            ],
            [
                *("--default-index", "https://pkg.example/simple", "-p", "3.12", "--prerelease", "allow"),
                "time-server@1.5.0",
            ],
        ),
    ],
)
def test_uv_is_asked_what_it_would_take(home, args, requirement, options, now):
    log = stand_in(home, "uv", "time-server==1.5.0")
    log.unlink(missing_ok=True)
    path = home.write(".cursor/mcp.json", servers(time={"command": "uvx", "args": args}))
    home.type("install", "--pin-versions", "--yes")
    [one] = asked(log)
    assert one["requirement"] == requirement
    assert one["argv"][:2] == ["pip", "compile"]
    assert "--no-build" in one["argv"], "a look must not run the package's code"
    assert [word for word in one["argv"][2:-1] if word not in QUIET] == options
    assert words(path, "time") == ["uvx", *now]


def test_pip_is_asked_for_what_pipx_runs(home):
    log = stand_in(home, "pip", "time-server (1.5.0)\nAvailable versions: 1.5.0, 1.4.0")
    path = home.write(".cursor/mcp.json", servers(time={"command": "pipx", "args": ["run", "time-server"]}))
    home.type("install", "--pin-versions", "--yes")
    assert asked(log)[0]["argv"][:2] == ["index", "versions"]
    assert words(path, "time") == ["pipx", "run", "time-server==1.5.0"]


def test_an_answer_that_is_no_version_is_not_written(home):
    stand_in(home, "uv", "time-server==1.5.0; touch /tmp/x\nother==2")
    path = home.write(".cursor/mcp.json", servers(time={"command": "uvx", "args": ["time-server"]}))
    assert "Its version stays open" in home.type("install", "--pin-versions", "--yes")
    assert words(path, "time") == ["uvx", "time-server"]


# -- on a terminal ---------------------------------------------------------------------------------------------


@rows(("options", "now"), [([], "plain@1.0.0"), (["--no-pin-versions"], "plain")])
def test_a_person_sees_the_version_in_the_change_that_they_are_asked_about(home, options, now):
    path = home.write(".cursor/mcp.json", servers(plain=npx("plain")))
    words_typed = [CALLGATE, "install", "--no-hooks", "--config-file", str(path), *options]
    environ = {**home.environ, "XDG_STATE_HOME": str(home.path / "state")}
    with Terminal(words_typed, env=environ) as seen:
        shown = seen.expect("Change this file? [y/N]")
        assert ("No version is named in the command of: plain." in shown) is (not options)
        assert f'"{now}"' in shown
        seen.press("y\n")
        seen.expect("Ctrl-C leaves the link valid.")
        seen.press("\x03")
        assert seen.end() == 0
    run([CALLGATE, "stop"], env=environ)
    assert words(path, "plain") == ["npx", now]
