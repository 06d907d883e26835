import json
from typing import NamedTuple

import pytest

from callgate import cli, config
from callgate.trust.policy import Policy
from support.table import rows

RIGHT = """
[store]
url = "postgresql://u:hunter2@db/callgate"
[servers.web]
url = "https://u:hunter2@tools.example/mcp?key=hunter2"
headers = { Authorization = "Bearer ${TOKEN}", X-Other = "hunter2" }
[servers.local]
command = ["sh", "--password", "hunter2"]
env = { KEY = "hunter2" }
"""


class Done(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        return self.stdout + self.stderr


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("TOKEN", "hunter2")
    monkeypatch.delenv("CALLGATE_CONFIG", raising=False)

    def run(*words):
        code = cli.run(list(words))
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "gate.toml"
    path.write_text(RIGHT)
    return path


def test_a_right_file_is_ok_and_its_servers_are_listed(run, file):
    done = run("check", "-c", str(file))
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == f"OK  {file}"
    assert lines[1].split() == ["server", "kind", "target", "secrets"]
    assert "https://u:***@tools.example/mcp?key=***" in lines[2]
    assert "Authorization=${TOKEN}, X-Other=***" in lines[2]
    assert "sh --password ***" in lines[3]
    assert "hunter2" not in done.output


def test_as_json(run, file):
    done = run("check", "--config", str(file), "--json")
    said = json.loads(done.stdout)
    assert said["ok"] is True
    assert said["file"] == str(file)
    assert said["servers"][1] == {
        "name": "local",
        "kind": "stdio",
        "target": "sh --password ***",
        "secrets": {"env.KEY": "***"},
    }
    assert "hunter2" not in done.output


def test_every_problem_is_printed_and_the_exit_code_is_1(run, file):
    file.write_text("a = 1\nb = 2")
    done = run("check", "-c", str(file))
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"{file}:1: a: unknown key")
    assert lines[1].startswith(f"{file}:2: b: unknown key")
    assert lines[2] == "Put these right, then run `callgate check`."
    assert done.stdout == ""


def test_problems_as_json(run, file):
    file.write_text("limits.bach = 1")
    done = run("check", "-c", str(file), "--json")
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert said["ok"] is False
    (problem,) = said["problems"]
    assert (problem["line"], problem["key"]) == (1, "limits.bach")
    assert problem["message"].endswith('did you mean "batch"?')


def test_a_file_that_is_not_there(run):
    done = run("check", "-c", "absent.toml")
    assert done.exit_code == 1
    assert "absent.toml: there is no such file" in done.stderr
    done = run("check", "-c", "absent.toml", "--json")
    assert "no such file" in json.loads(done.stdout)["problems"][0]["message"]


def test_without_any_file_the_defaults_hold(run):
    done = run("check")
    assert done.exit_code == 0
    assert "the defaults hold" in done.stdout
    assert "[servers.NAME]" in done.stdout


def test_what_will_not_work_here_is_noted(run, file):
    file.write_text("policy.block_all = true\n[servers.a]\ncommand = ['no-such-program-here']\ncwd = 'no-such-folder'")
    done = run("check", "-c", str(file))
    assert done.exit_code == 0
    assert "servers.a.command: no-such-program-here is not found on the PATH" in done.stdout
    assert "servers.a.cwd: there is no directory" in done.stdout
    assert "every call will be refused" in done.stdout


APPROVAL = """
[gateway]
listen = "127.0.0.1:9000"
[approval]
user = "alice"
[servers.files]
command = ["sh"]
approval = { tools = ["delete_*", "deploy"] }
[servers.web]
url = "https://tools.example/mcp"
approval = { user = "bob" }
"""


def test_which_tools_need_a_person_whom_and_where(run, file):
    file.write_text(APPROVAL)
    lines = run("check", "-c", str(file)).stdout.splitlines()
    heading = next(number for number, line in enumerate(lines) if "needs approval" in line)
    assert lines[heading + 1].split() == [
        "files",
        "delete_*,",
        "deploy,",
        "tools",
        "that",
        "it",
        "marks",
        "itself",
        "alice",
    ]
    assert lines[heading + 2].split() == ["web", "tools", "that", "it", "marks", "itself", "bob"]
    assert lines[heading + 3] == "Calls are approved at http://localhost:9000, with passkeys for localhost."
    said = json.loads(run("check", "-c", str(file), "--json").stdout)["approval"]
    assert said["console"] == "http://localhost:9000"
    assert said["servers"][0] == {"name": "files", "tools": ["delete_*", "deploy"], "user": "alice"}


def test_who_is_asked_if_nobody_is_named_and_where_if_any_port_is_taken(run, file):
    file.write_text(APPROVAL.replace('user = "alice"', "").replace(":9000", ":0"))
    said = run("check", "-c", str(file)).stdout
    assert "the only person there is" in said
    assert "http://localhost, on the free port" in said


def test_without_approval_nothing_is_said_of_it(run, file):
    file.write_text(file.read_text() + '\n[trust]\nmode = "off"\n')
    said = run("check", "-c", str(file))
    assert "approv" not in said.output.partition("\n")[2]
    assert json.loads(run("check", "-c", str(file), "--json").stdout)["approval"] is None


def test_markup_in_a_value_is_not_acted_on(run, file):
    file.write_text("[servers.a]\ncommand = ['sh', '[red]x[/red]', '[/]']")
    assert "sh [red]x[/red] [/]" in run("check", "-c", str(file)).stdout


def test_config_show_masks_secrets_and_counts_in_the_environment(run, file, monkeypatch):
    monkeypatch.setenv("CALLGATE_LISTEN", "127.0.0.1:9")
    done = run("config", "show", "-c", str(file))
    shown = json.loads(done.stdout)
    assert shown["gateway"]["listen"] == "127.0.0.1:9"
    assert shown["limits"]["batch"] == 100
    assert shown["store"]["url"] == "postgresql://u:***@db/callgate"
    assert "hunter2" not in done.output


def test_config_show_of_a_wrong_file_tells_the_problems(run, file):
    file.write_text("a = 1")
    done = run("config", "show", "-c", str(file))
    assert done.exit_code == 1
    assert f"{file}:1: a: unknown key" in done.stderr


def test_config_schema(run):
    assert json.loads(run("config", "schema").stdout) == config.schema()


# -- trust ---------------------------------------------------------------------------------------------------------


LABELLED = """
[trust]
policy = "rules.toml"

[servers.mail]
url = "https://mail.example/mcp"

[servers.mail.trust]
annotations = "mail.json"

[[servers.mail.trust.rules]]
tool = "send"
when = 'args.to.endsWith("@example.com")'
destination = "internal"
"""
RULES = """
[[rules]]
name = "no-payroll"
effect = "block"
when = 'tool.egress && "pii" in data.sensitivity'
"""
MAIL = {"send": {"annotations": {"openWorldHint": True}}}


@pytest.fixture
def labelled(tmp_path):
    """A configuration that is right, with a policy and a file of annotations beside it."""
    path = tmp_path / "gate.toml"
    path.write_text(LABELLED)
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "mail.json").write_text(json.dumps(MAIL, indent=1))
    return path


def test_labels_and_policy_are_read_and_summed_up(run, labelled):
    done = run("check", "-c", str(labelled))
    assert done.exit_code == 0, done.output
    rules = len(Policy.load([labelled.with_name("rules.toml")]).rules)
    assert (
        f"Trust decides, by {rules} rules of {labelled.with_name('rules.toml')} and the default policy." in done.stdout
    )
    said = json.loads(run("check", "-c", str(labelled), "--json").stdout)["trust"]
    assert (said["mode"], said["rules"]) == ("enforce", rules)
    assert said["servers"] == [
        {
            "name": "mail",
            "trusted": False,
            "hints": False,
            "tools": 0,
            "rules": 1,
            "annotations": str(labelled.with_name("mail.json")),
        }
    ]


def test_servers_that_nobody_labelled_are_named(run, file):
    done = run("check", "-c", str(file))
    assert "Nobody here labelled the tools of web, local;" in done.stdout
    file.write_text(RIGHT + '[trust]\nmode = "off"\n')
    assert "Trust is off" in run("check", "-c", str(file)).stdout


@rows(
    ("name", "before", "after", "place", "key", "word"),
    [
        ("gate.toml", "args.to.", "arg.to.", "gate.toml:13", "servers.mail.trust.rules[0].when", "arg"),
        ("gate.toml", "args.to.endsWith", "session.open_world && args.to.endsWith", "gate.toml:13", "when", "session"),
        ("gate.toml", '"mail.json"', '"gone.json"', "gate.toml:9", "servers.mail.trust.annotations", "gone.json"),
        ("mail.json", "true", '"yes"', "mail.json:4", "send.annotations.openWorldHint", "true or false"),
        ("mail.json", '"annotations"', '"annotation"', "mail.json:2", "send", "annotations"),
        ("mail.json", "{", "[", "gate.toml:9", "servers.mail.trust.annotations", "not valid JSON"),
        ("rules.toml", "tool.egress", "tool.egres", "rules.toml:5", "rules[0].when", "egres"),
        ("rules.toml", '"block"', '"blok"', "rules.toml:4", "rules[0].effect", "perhaps block"),
        ("gate.toml", '"rules.toml"', '"gone.toml"', "gate.toml:3", "trust.policy", "gone.toml"),
    ],
)
def test_a_mistake_in_what_trust_reads_is_told_with_its_place(run, labelled, name, before, after, place, key, word):
    wrong = labelled.with_name(name)
    text = wrong.read_text()
    assert before in text
    wrong.write_text(text.replace(before, after, 1))
    done, machine = run("check", "-c", str(labelled)), run("check", "-c", str(labelled), "--json")
    wrong.write_text(text)
    assert done.exit_code == 1, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(str(labelled.parent))]
    assert line.startswith(str(labelled.with_name(place)) + ": "), done.stderr
    assert key in line
    assert word in line
    said = json.loads(machine.stdout)
    assert said["ok"] is False
    assert said["problems"][0]["line"] == int(place.partition(":")[2])


def test_all_mistakes_are_told_at_once(run, labelled):
    labelled.write_text(labelled.read_text().replace("args.to.", "arg.to."))
    labelled.with_name("rules.toml").write_text(RULES.replace("block", "blok"))
    labelled.with_name("mail.json").write_text('{"send": 1, "read": {"annotations": {"readOnlyHint": 0}}}')
    done = run("check", "-c", str(labelled))
    places = [line for line in done.stderr.splitlines() if line.startswith(str(labelled.parent))]
    assert len(places) == 4, done.stderr
