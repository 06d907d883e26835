"""A person has marked one argument of a server's command as data. Somebody who can edit the command tries to make other
code run under the approval: in the place of that argument, beside it, and by marking more than data."""

import json

import pytest

from attacks.test_other_code_under_an_approved_command import SPEC, Machine
from support.fork_server import CALLGATE
from support.gateway import approve_listed, command, serving, write_config
from support.pinning import PINNING, Site
from support.raw_clients import RawHttpClient, RawPipeClient

# Behind the script: what was reviewed, with the second word marked.
REVIEWED = ["--root", "{data}", "--depth=3", "serve"]
SAME = ["--root", "{other}", "--depth=3", "serve"]
ATTACKS = {
    "a script": ["--root", "{project}/evil.js", "--depth=3", "serve"],
    "an option": ["--root", "--load", "--depth=3", "serve"],
    "a program": ["--root", "{project}/npx", "--depth=3", "serve"],
    "nothing there": ["--root", "{project}/nowhere", "--depth=3", "serve"],
    "an address": ["--root", "https://evil.example/", "--depth=3", "serve"],
    "another option": ["--plugins", "{other}", "--depth=3", "serve"],
    "joined": ["--root={other}", "--depth=3", "serve"],
    "one more": ["--root", "{other}", "{project}", "--depth=3", "serve"],
    "one less": ["--root", "{other}", "serve"],
    "beside it": ["--root", "{other}", "--depth=4", "serve"],
    "another word": ["--root", "{other}", "--depth=3", "exec"],
    "behind it": ["--root", "{other}", "--depth=3", "serve", "--load"],
}
# What nobody can mark, each with a word of the reason.
FIXED = {
    "--root": "option",
    "{project}/evil.js": "file",
    "serve": "word",
    "--load": "option",
    "--plugin={data}": "plugin",
    "--configDir={data}": "config",
    "-C": "option",
    "-r={data}": "long form",
    "https://evil.example/": "no folder",
    "--next={project}/evil.js": "file",
    "python3": "word",
}


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    for name in ("data", "other"):
        made.places[name] = tmp_path / name
        made.places[name].mkdir()
    made.program = made.places["code"] / "srv"
    made.places["code"].joinpath("npx").rename(made.program)
    made.places["project"].joinpath("srv").write_text(made.program.read_text() + "# another one\n")
    made.places["project"].joinpath("srv").chmod(0o755)
    return made


def commands(machine):
    found = {name: [str(machine.program), *machine.argv(words)] for name, words in ATTACKS.items()}
    found["another program"] = [str(machine.places["project"] / "srv"), *machine.argv(SAME)]
    return found


def test_under_callgate_serve(tmp_path, machine):
    attacks = {name.replace(" ", "-"): argv for name, argv in commands(machine).items()}
    tables = {"first": [str(machine.program), *machine.argv(REVIEWED)]}
    tables |= {"same": [str(machine.program), *machine.argv(SAME)], "blocked": [*tables["first"]], **attacks}
    tables["blocked"][2] = machine.filled("{code}")
    servers = {name: {"command": argv} for name, argv in tables.items()}
    servers["variable"] = {"command": tables["same"], "env": {"NODE_OPTIONS": "-r=x"}}
    pinning = PINNING | {"servers": 100}
    with serving(tmp_path, servers, reviewed=False, pinning=pinning, limits={"processes": 100}) as gateway:
        site = Site(tmp_path, gateway, dict.fromkeys(servers, machine.shifty))
        first, same, blocked = (RawHttpClient(gateway.url(name), "legacy") for name in ("first", "same", "blocked"))
        assert first.names() == blocked.names() == []
        site.approve("first", "read")
        site.block("blocked", "read")
        first.until_open("read")
        assert same.reason("read") == "tool_not_approved"
        folder = machine.filled("{data}")
        site.command("tools", "data", "--server", "first", "--mark", folder)
        # Approvals hold on, and from now on for the same command with another folder; also on a session that is open.
        first.until_open("read")
        same.until_open("read")
        before = len(machine.shifty.called)
        taken = []
        for name in [*attacks, "variable"]:
            visitor = RawHttpClient(gateway.url(name), "legacy")
            if visitor.names() or visitor.reason("read") != "tool_not_approved":
                taken.append(name)
        assert taken == []
        # What somebody decided on exactly that command goes first.
        assert blocked.reason("read") == "tool_blocked"
        assert len(machine.shifty.called) == before
        (told,) = site.deeds("pinning.argument_marked")
        assert (told["detail"]["argument"], told["detail"]["varies"]) == (folder, "folder")
        assert "may be another folder" in site.command("tools", "list")
        assert "may be another folder" in site.command("tools", "show", "--server", "first", "--tool", "read")
        # Taken back, the approval holds for the command that was reviewed, and for no other.
        shown = json.loads(site.command("tools", "data", "--server", "first", "--json"))
        (marked,) = [one["argument"] for one in shown if one["marked"]]
        site.command("tools", "data", "--server", "first", "--bind", marked)
        same.until_closed("read", "tool_not_approved")
        first.until_open("read")
        assert [one["action"] for one in json.loads(site.command("tools", "history", "--json"))][-2:] == [
            "vary",
            "bind",
        ]


def test_under_callgate_wrap(tmp_path, machine):
    """The entry of one name in a client's configuration is edited."""
    config = write_config(tmp_path, {}, pinning=PINNING)

    def wrapped(argv, env=None):
        whole = [CALLGATE, "wrap", "--alone", "-c", str(config), "files", "--", *argv]
        return RawPipeClient(whole, "legacy", tmp_path / "wrap.log", env=env)

    visitor = wrapped([str(machine.program), *machine.argv(REVIEWED)])
    assert visitor.names() == []
    approve_listed(config)
    visitor.until_open("read")
    command(config, "tools", "data", "--server", "files", "--mark", machine.filled("{data}"))
    visitor.until_open("read")
    visitor.close()
    before = len(machine.shifty.called)
    taken = []
    for name, argv in commands(machine).items():
        visitor = wrapped(argv)
        if visitor.names() or visitor.reason("read") != "tool_not_approved":
            taken.append(name)
        visitor.close()
    assert taken == []
    assert len(machine.shifty.called) == before
    visitor = wrapped([str(machine.program), *machine.argv(SAME)])
    visitor.until_open("read")
    visitor.close()


def test_marking_what_is_no_data(tmp_path, machine):
    words = [machine.filled(word) for word in FIXED]
    launched = [machine.filled("{project}/npx"), "-y", "--prefix", machine.filled("{data}"), SPEC]
    tables = {
        "first": {"command": [str(machine.program), *words], "env": {"NODE_PATH": machine.filled("{data}")}},
        "launched": {"command": launched},
        "runner": {"command": [str(machine.places["bin"] / "npx"), "-y", "tsx@4.0.0", machine.filled("{data}")]},
        "behind": {"command": [str(machine.program), "node", machine.filled("{data}")]},
    }
    with serving(tmp_path, tables, reviewed=False, pinning=PINNING) as gateway:
        site = Site(tmp_path, gateway, dict.fromkeys(tables, machine.shifty))
        for name in tables:
            assert RawHttpClient(gateway.url(name), "legacy").names() == []
        for name in tables:
            for one in json.loads(site.command("tools", "data", "--server", name, "--json")):
                assert one["fixed"], one
                said = site.command("tools", "data", "--server", name, "--mark", one["argument"], status=1)
                assert "cannot be marked as data" in said, said
        reasons = {
            one["argument"]: one["fixed"]
            for one in json.loads(site.command("tools", "data", "--server", "first", "--json"))
        }
        for word, why in FIXED.items():
            assert why in reasons[machine.filled(word)], word
        assert "runs what its arguments name" in site.command(
            "tools", "data", "--server", "runner", "--mark", machine.filled("{data}"), status=1
        )
