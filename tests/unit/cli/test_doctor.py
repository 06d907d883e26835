"""`callgate doctor` on everything but the servers behind the gateway."""

import contextlib
import json
import os
import socket
import sqlite3
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from callgate.cli import run
from callgate.cli.doctor import checks, examine
from callgate.cli.doctor.findings import LEVELS, Check, Finding, Setup
from callgate.cli.doctor.state import clock
from callgate.cli.gateway import end, ensure_running, place_of
from callgate.store import Store
from support.table import rows
from support.terminal import Terminal

CONFIG = """
[gateway]
listen = "127.0.0.1:{port}"
[store]
url = "sqlite:///store.db"
"""
SERVER = f"[servers.notes]\ncommand = [{sys.executable!r}]\n"
ONE_STORE = pytest.mark.parametrize("people", ["sqlite"], indirect=True)
OWNER_ONLY = pytest.mark.skipif(os.name == "nt", reason="modes of files")


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
def home(here, monkeypatch):
    """Nothing of this machine's own: no clients, no browser."""
    monkeypatch.setenv("HOME", str(here / "home"))
    monkeypatch.setenv("CALLGATE_KEY_SEAL", "")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return here


@pytest.fixture
def write(home, port):
    def write(more="", base=CONFIG):
        (home / "callgate.toml").write_text(base.format(port=port) + more)
        (home / "callgate.toml").chmod(0o600)

    return write


@pytest.fixture
def doctor(home, capsys):
    """What is found, by check; asserts the exit code."""

    def doctor(*words, code=0):
        capsys.readouterr()
        found = run(["doctor", "--json", *words])
        said = capsys.readouterr()
        report = json.loads(said.out)
        assert found == code, report
        assert said.err == ""
        assert report["ok"] is (code == 0)
        return Report(report)

    return doctor


class Report:
    def __init__(self, report):
        self.skipped = report["skipped"]
        self.findings = [Finding(**{**one, "commands": tuple(one["commands"])}) for one in report["findings"]]

    def at(self, check, level=None):
        return [one for one in self.findings if one.check == check and level in (None, one.level)]

    def one(self, check, level):
        (found,) = self.at(check, level)
        return found


def made(*words):
    assert run([*words]) == 0


# -- nothing wrong ---------------------------------------------------------------------------------------------


def test_a_machine_with_nothing_has_no_problem(doctor):
    report = doctor()
    assert report.one("config", "note").text.startswith("There is no callgate.toml")
    assert report.one("store", "note").commands == ("callgate restart",)
    assert report.one("gateway", "note").commands == ("callgate restart",)
    assert report.one("people", "warning").commands[0].startswith("callgate enroll ")
    assert report.one("clients", "note").text == "No MCP client with servers was found on this machine."
    assert report.skipped == ["tools"]
    assert not (report.at("store", "ok"))


def test_looking_makes_nothing(doctor, write, home):
    write()
    before = sorted(home.rglob("*"))
    doctor()
    assert sorted(home.rglob("*")) == before


def test_a_set_up_that_works(doctor, write, home):
    write("[trust]\nmode = 'off'\n")
    made("block-all", "off")
    report = doctor()
    assert [one.check for one in report.findings if one.level in ("warning", "problem")] == []
    assert "schema" in report.one("store", "ok").text
    assert "for its owner only" in report.one("keys", "ok").text
    assert report.one("switch", "ok").text == "The kill switch is off."
    assert "after everything on record" in report.one("clock", "ok").text
    assert "Python" in report.one("versions", "ok").text
    assert report.skipped == []


def test_every_finding_is_a_sentence_and_every_check_has_its_own_name(doctor, write):
    write('[approval]\nuser = "alice"\n')
    made("block-all", "on")
    names = [check.id for check in checks()]
    assert len(set(names)) == len(names)
    for one in doctor().findings:
        assert one.text[-1] in ".!?"
        assert one.check in names
        assert one.level in LEVELS


# -- the configuration -----------------------------------------------------------------------------------------


def test_every_mistake_of_the_configuration_is_told_with_its_line(doctor, write):
    write("[servers.x]\n[nonsense]\n")
    report = doctor(code=1)
    texts = [one.text for one in report.at("config", "problem")]
    assert any("callgate.toml:6: servers.x" in text for text in texts)
    assert any("nonsense" in text for text in texts)
    assert {"store", "servers", "address"} <= set(report.skipped)
    assert report.one("config", "note").commands == ("callgate check",)


def test_a_policy_with_a_mistake_is_a_problem(doctor, write, home):
    (home / "rules.toml").write_text('[[rules]]\nname = "x"\neffect = "block"\nwhen = "no_such_fact == 1"\n')
    write('[trust]\npolicy = "rules.toml"\n')
    assert "no_such_fact" in doctor(code=1).at("config", "problem")[0].text


def test_a_policy_that_is_not_there_is_a_problem(doctor, write):
    write('[trust]\npolicy = "missing.toml"\n')
    assert "missing.toml" in doctor(code=1).at("config", "problem")[0].text


def test_a_configuration_that_is_not_there_is_a_problem(doctor):
    assert "no such file" in doctor("-c", "gone.toml", code=1).one("config", "problem").text


@OWNER_ONLY
def test_a_configuration_that_others_can_write_is_warned_of(doctor, write, home):
    write()
    (home / "callgate.toml").chmod(0o666)
    found = doctor().one("config", "warning")
    assert found.commands == ("chmod go-w callgate.toml",)
    assert os.system(found.commands[0]) == 0
    assert doctor().at("config", "warning") == []


def test_a_misspelt_variable_is_noticed(doctor, write, monkeypatch):
    write()
    monkeypatch.setenv("CALLGATE_LISTENS", "127.0.0.1:1")
    found = doctor().one("config", "warning")
    assert "CALLGATE_LISTENS" in found.text
    assert found.advice == "Did you mean CALLGATE_LISTEN?"


def test_a_server_that_is_not_configured_is_a_problem(doctor, write):
    write()
    assert doctor("--server", "nope", code=1).one("config", "problem").text == "No server 'nope' is configured."


# -- the store and the keys ------------------------------------------------------------------------------------


def test_an_old_schema_is_a_problem_with_the_way_out(doctor, write, home):
    write()
    made("block-all", "off")
    with contextlib.closing(sqlite3.connect(home / "store.db")) as db:
        db.execute("UPDATE alembic_version SET version_num = '0001'")
        db.commit()
    report = doctor(code=1)
    assert report.one("store", "problem").commands[-1] == "callgate store upgrade"
    assert "people" in report.skipped


def test_a_file_that_is_no_store_is_a_problem(doctor, write, home):
    write()
    (home / "store.db").write_bytes(b"garbage " * 1000)
    (home / "store.db").chmod(0o600)
    assert doctor(code=1).at("store", "problem")


@OWNER_ONLY
def test_a_store_that_others_can_read_is_a_problem(doctor, write, home):
    write()
    made("block-all", "off")
    (home / "store.db").chmod(0o644)
    assert "chmod 600" in doctor(code=1).one("store", "problem").text


@OWNER_ONLY
def test_keys_that_others_can_read_are_a_problem(doctor, write, home):
    write()
    made("block-all", "off")
    key = next((home / "keys").glob("seal.*.key"))
    key.chmod(0o644)
    found = doctor(code=1).one("keys", "problem")
    assert "can be reached by other users" in found.text
    assert "chmod 600" in found.advice
    assert key.read_text().strip() not in repr(found)


def test_a_log_without_its_keys_is_a_problem(doctor, write, home):
    write()
    made("block-all", "off")
    for key in (home / "keys").iterdir():
        key.unlink()
    assert "there is no seal key" in doctor(code=1).one("keys", "problem").text.lower()


def test_a_store_that_cannot_be_reached_is_a_problem_without_its_password(doctor, write, capsys):
    url = "postgresql://u:hunter2hunter2@127.0.0.1:1/x"
    write(base=f'[gateway]\nlisten = "127.0.0.1:{{port}}"\n[store]\nurl = "{url}"\n')
    report = doctor(code=1)
    assert report.at("store", "problem")
    assert "hunter2" not in repr([msg.text + msg.advice for msg in report.findings])


# -- the clock -------------------------------------------------------------------------------------------------


def looked_at(setup, check):
    return Check("clock", "config", check).run(setup)


def test_a_clock_behind_the_record_is_a_problem(doctor, write, home):
    write()
    made("block-all", "off")
    setup = Setup(None, None, start=False, wall=lambda: time.time() - 3600)
    try:
        findings, _ = examine(setup, tuple(one for one in checks() if one.id in ("config", "store", "clock")))
    finally:
        setup.close()
    (found,) = [one for one in findings if one.check == "clock"]
    assert found.level == "problem"
    assert found.text.startswith("The clock is 60 minutes behind the newest record")


def test_a_clock_that_was_never_set_is_a_problem():
    (found,) = looked_at(Setup(None, None, wall=lambda: 1000.0), clock)
    assert found.level == "problem"
    assert "never set" in found.text


def test_a_clock_that_jumps_is_warned_of():
    setup = Setup(None, None)
    setup.began = (setup.began[0] - 500, setup.began[1])
    assert [one.level for one in looked_at(setup, clock)] == ["warning", "ok"]


# -- the switch, people, tools ---------------------------------------------------------------------------------


def test_the_kill_switch_is_told_with_who_turned_it(doctor, write):
    write()
    made("block-all", "on", "--note", "an exercise")
    found = doctor().one("switch", "warning")
    assert "an exercise" in found.text
    assert found.commands == ("callgate block-all off",)


def test_commands_name_the_configuration_that_was_named(doctor, write, home):
    write()
    made("block-all", "on")
    (home / "callgate.toml").rename(home / "a file.toml")
    assert doctor("-c", "a file.toml").one("switch", "warning").commands == ("callgate block-all off -c 'a file.toml'",)


def test_nobody_with_a_passkey_is_warned_of(doctor, write):
    write('[approval]\nuser = "alice"\n')
    made("block-all", "off")
    found = doctor().one("people", "warning")
    assert found.commands == ("callgate enroll alice",)


@rows(
    ("section", "level", "text"),
    [
        ("", "ok", "alice is asked to approve calls and has a passkey."),
        ('[pinning]\nreviewers = ["dave"]\n', "warning", "pinning.reviewers names dave, who is not known here."),
        ('[approval]\nuser = "carol"\n', "problem", "carol is asked to approve calls and is not known here"),
        ('[approval]\nuser = "bob"\n', "problem", "bob is asked to approve calls and has no passkey."),
    ],
)
@ONE_STORE
def test_whether_those_who_are_asked_can_answer(doctor, write, home, people, section, level, text):
    people.enrolled("alice")
    if "bob" in section:
        people("users", "add", "bob")
    write(section)
    report = doctor("--store", people.url, code=1 if level == "problem" else 0)
    assert any(one.text.startswith(text) for one in report.at("people", level))


@ONE_STORE
def test_several_people_and_none_named_is_a_problem(doctor, write, people):
    people.enrolled("alice")
    people("users", "add", "bob")
    write()
    # Somebody without a passkey is not asked.
    assert "alice is asked" in doctor("--store", people.url).at("people", "ok")[0].text
    people.enrolled("bob")
    found = doctor("--store", people.url, code=1).one("people", "problem")
    assert "none is named" in found.text
    assert found.advice.endswith("callgate.toml.")


# -- addresses -------------------------------------------------------------------------------------------------


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *words): ...


def test_a_port_that_something_else_has_is_a_problem(doctor, write, home):
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        write(
            base=f'[gateway]\nlisten = "127.0.0.1:{server.server_port}"\n[store]\nurl = "sqlite:///store.db"\n{SERVER}'
        )
        found = doctor("--no-start", code=1).one("address", "problem")
        server.shutdown()
    assert "Something else than Callgate answers" in found.text
    assert found.commands == ("callgate serve --listen 127.0.0.1:0",)


def test_a_port_that_nobody_may_take_is_a_problem(doctor, write):
    # An address of documentation (RFC 5737): no interface has it.
    write(base='[gateway]\nlisten = "192.0.2.1:8420"\nallowed_hosts = ["x"]\n[agents.api_keys]\nenabled = true\n')
    report = doctor(code=1)
    assert report.at("address", "problem")
    assert "api-keys" in report.one("exposure", "ok").text
    assert "TLS" in report.one("exposure", "warning").text
    assert "only on this one" in report.one("console", "warning").text


def test_a_console_that_nobody_reaches_is_warned_of(doctor, write, port):
    write(f'[approval]\nurl = "https://localhost:{port}"\nenabled = true\n')
    assert "Nothing answers at https://localhost" in doctor().one("console", "warning").text


@rows(("name", "level"), [("/usr/bin/firefox", "ok"), ("/usr/bin/w3m", "note"), (None, "note")])
def test_a_browser_that_knows_passkeys_is_looked_for(doctor, write, home, monkeypatch, name, level):
    import webbrowser

    def get():
        if name is None:
            raise webbrowser.Error
        return webbrowser.GenericBrowser(name)

    monkeypatch.setattr(webbrowser, "get", get)
    write()
    found = doctor().one("browser", level)
    assert level == "ok" or "look again" in found.advice
    with gateway(home):
        found = doctor().one("browser", level)
        assert level == "ok" or found.commands[0].startswith("ssh -L ")


# -- the gateway of wrapped servers ----------------------------------------------------------------------------


@contextlib.contextmanager
def gateway(home):
    at = place_of(home / "callgate.toml")
    try:
        yield ensure_running(at)["address"]
    finally:
        end(at)


def test_the_gateway_that_runs_says_where_the_console_is(doctor, write, home):
    write(base='[gateway]\nlisten = "127.0.0.1:0"\n[store]\nurl = "sqlite:///store.db"\n')
    assert "does not run" in doctor().one("gateway", "note").text
    assert not doctor().at("console")
    with gateway(home) as address:
        report = doctor()
        assert report.one("gateway", "ok").text.startswith("Your gateway runs")
        assert address in report.one("console", "ok").text
        with urllib.request.urlopen(address, timeout=30) as page:
            assert page.status == 200
    assert "does not run" in doctor().one("gateway", "note").text


def test_no_address_is_named_where_nothing_listens(doctor, write, port):
    write()
    assert not [one for one in doctor().findings if "http://" in one.text + one.advice or str(port) in one.text]


# -- clients ---------------------------------------------------------------------------------------------------


def test_servers_that_clients_reach_around_the_gate_are_told(doctor, write, home):
    write()
    folder = home / "home" / ".cursor"
    folder.mkdir(parents=True)
    wrapped = {"command": "callgate", "args": ["wrap", "mail", "--", "mail-server"]}
    servers = {"files": {"command": "files-server", "env": {"TOKEN": "hunter2hunter2"}}, "mail": wrapped}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    found = doctor().one("clients", "warning")
    assert "Cursor reaches files around the gate" in found.text
    assert "behind it: mail" in found.text
    assert "hunter2" not in repr(found)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"mail": wrapped}}))
    assert doctor().one("clients", "ok").text == "Cursor: 1 server behind the gate: mail."
    assert doctor().one("clients", "note").text.startswith("Cursor does not tell the gate what you write")
    hook = {"version": 1, "hooks": {"beforeSubmitPrompt": [{"command": "/opt/bin/callgate prompt"}]}}
    (folder / "hooks.json").write_text(json.dumps(hook))
    assert not doctor().at("clients", "note")
    (folder / "mcp.json").write_text("{ not json")
    assert "mcp.json" in doctor().one("clients", "warning").text


# -- the frame -------------------------------------------------------------------------------------------------


def test_a_check_that_breaks_is_a_finding_without_what_it_held():
    def breaks(_setup):
        yield Finding("ok", "This was seen.")
        raise RuntimeError("hunter2")

    seen, broke = Check("odd", "nothing", breaks).run(Setup(None, None))
    assert (seen.text, seen.check) == ("This was seen.", "odd")
    assert broke.level == "problem"
    assert broke.text.startswith("This could not be checked: RuntimeError in test_doctor.py:")
    assert "hunter2" not in repr(broke)


def test_what_a_peer_says_cannot_steer_the_terminal():
    found = Check("odd", "nothing", lambda _: [Finding("ok", "a\x1b[31mb\nc", "d\x07e")]).run(Setup(None, None))[0]
    assert found.text.isprintable()
    assert found.advice.isprintable()


def test_the_store_is_closed_again(write, home, monkeypatch):
    closed = []
    monkeypatch.setattr(Store, "close_sync", lambda self, was=Store.close_sync: (closed.append(self), was(self)))
    write()
    made("block-all", "off")
    closed.clear()
    assert run(["doctor"]) == 0
    # By the check that looked through it, and by the review of its tools.
    assert len(closed) == 2


@rows("no_color", ["", "1"])
def test_what_a_person_sees_fits_a_terminal(write, home, no_color):
    write('[servers.gone]\ncommand = ["no-such-program-at-all"]\n')
    env = {"NO_COLOR": no_color, "COLUMNS": "80"}
    with Terminal([sys.executable, "-m", "callgate", "doctor"], columns=80, env=env) as terminal:
        assert terminal.end() == 1
        text, raw = terminal.text, terminal.raw
    assert "looking at" in text  # the progress, which is taken back again
    shown = [line for line in text.splitlines() if line.startswith((*LEVELS, " " * 9))]
    # A command, or a path that is longer than the terminal is wide, stays whole: it is to be pasted.
    assert all(len(line) <= 80 for line in shown if not line.lstrip().startswith("$") and len(line.split()) > 1)
    assert "1 problem" in text
    assert ("\x1b[1;31mproblem" in raw) is not bool(no_color)
