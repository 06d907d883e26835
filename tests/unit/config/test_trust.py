"""What `[trust]` and `[servers.NAME.trust]` take, and what becomes of it for approvals and the console."""

import jsonschema
import pytest

from callgate.config import parse, schema
from callgate.errors import ConfigError
from support.table import rows

SERVER = '[servers.files]\nurl = "https://tools.example/mcp"\n'
TOOL = f"{SERVER}[servers.files.trust.tools.read]\n"
RULE = f"{SERVER}[[servers.files.trust.rules]]\n"


def problems(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, environ={})
    return [str(problem) for problem in caught.value.problems]


def test_it_is_on_without_a_word():
    trust = parse("").trust
    assert (trust.mode, trust.sessions, trust.share, trust.consent) == ("enforce", "agent", "minimise", "given")
    assert (trust.idle_seconds, trust.remember_results, trust.remember_seconds, trust.max_sessions) == (
        1800,
        200,
        86400,
        10000,
    )
    assert (trust.scan, trust.warn, trust.default_policy, trust.elicit_malicious) == (True, True, True, False)
    assert trust.policy is None


def test_a_server_is_not_trusted_without_a_word():
    trust = parse(SERVER).servers["files"].trust
    assert (trust.trusted, trust.hints, trust.share, trust.propagate, trust.resolve) == (
        False,
        False,
        None,
        True,
        "rules",
    )


@rows(
    ("text", "approves", "console"),
    [
        ("", True, True),
        ('[trust]\nmode = "enforce"\n', True, True),
        ("[approval]\nenabled = false\n", False, True),
        ('[trust]\nmode = "observe"\n', False, True),
        ('[trust]\nmode = "off"\n', False, True),
        ('[trust]\nmode = "observe"\n[pinning]\nmode = "off"\n', False, True),
        ('[trust]\nmode = "off"\n[pinning]\nmode = "off"\n', False, False),
        ('[trust]\nmode = "off"\n[approval]\nenabled = true\n', True, True),
    ],
)
def test_a_policy_that_may_ask_needs_somebody_to_ask(text, approves, console):
    config = parse(text, environ={})
    assert (config.approves, config.has_console) == (approves, console)


def test_one_word_stands_for_a_list():
    one = parse(f'{TOOL}destination = "user"\nsensitivity = "pii"\n').servers["files"].trust.tools["read"]
    many = parse(f'{TOOL}destination = ["user"]\nsensitivity = ["pii"]\n').servers["files"].trust.tools["read"]
    assert one == many
    assert one.destination == ("user",)


def test_files_are_found_from_the_folder_of_the_configuration(tmp_path):
    text = f'[trust]\npolicy = "rules.toml"\n{SERVER}[servers.files.trust]\nannotations = "labels.json"\n'
    config = parse(text, base=tmp_path, environ={})
    assert config.trust.policy == tmp_path / "rules.toml"
    assert config.servers["files"].trust.annotations == tmp_path / "labels.json"


@rows(
    ("text", "place", "says"),
    [
        ('[trust]\nmode = "enforced"\n', "2: trust.mode", 'did you mean "enforce"?'),
        ('[trust]\nmood = "off"\n', "2: trust.mood", 'did you mean "mode"?'),
        ('[trust]\nlabels = ["Secret"]\n', "2: trust.labels[0]", "reverse-DNS"),
        ('[trust.defaults]\nsource = "internl"\n', "2: trust.defaults.source", 'did you mean "internal"?'),
        ("[trust.defaults]\nsource = []\n", "2: trust.defaults.source", "take the key away"),
        ('[trust.defaults]\nsensitivity = "com.x.y"\n', "2: trust.defaults.sensitivity", "nobody defined"),
        ("[trust]\nidle_seconds = -1\n", "2: trust.idle_seconds", "expected a number from 0"),
        (f'{TOOL}destination = "moon"\n', "4: servers.files.trust.tools.read.destination", '"ephemeral"'),
        (f"{TOOL}destination = 5\n", "4: servers.files.trust.tools.read.destination", "a string or a list of strings"),
        (f'{TOOL}outcomes = ["benign", "bengin"]\n', "4: servers.files.trust.tools.read.outcomes[1]", 'mean "benign"?'),
        (f'{TOOL}sensitivity = "pi"\n', "4: servers.files.trust.tools.read.sensitivity", "expected one of none"),
        (f'{TOOL}fields = {{ body = "me" }}\n', "4: servers.files.trust.tools.read.fields.body", '"untrustedPublic"'),
        (f'{TOOL}attribution = ["file:///x"]\n', "4: servers.files.trust.tools.read.attribution[0]", "expected a URI"),
        (
            f'{TOOL}read_only = true\noutcomes = "irreversible"\n',
            "4: servers.files.trust.tools.read.read_only",
            "benign",
        ),
        (f"{TOOL}outcomes = []\n", "4: servers.files.trust.tools.read.outcomes", "take the key away"),
        (f'{RULE}tool = "read"\nsource = "user"\n', "3: servers.files.trust.rules[0]", "a rule needs when"),
        (f'{RULE}when = "true"\nsource = "user"\n', "3: servers.files.trust.rules[0]", "a rule needs tool"),
        (f'{RULE}tool = "read"\nwhen = "true"\n', "3: servers.files.trust.rules[0]", "says nothing of the tool"),
        (f'{RULE}tool = "read"\nwhen = " "\nsource = "user"\n', "5: servers.files.trust.rules[0].when", "a condition"),
        (
            f'{SERVER}[servers.files.trust]\nannotations_key = "a"\n',
            "4: servers.files.trust.annotations_key",
            "there is none",
        ),
        (f"{SERVER}[servers.files.trust]\ntrusted = 1\n", "4: servers.files.trust.trusted", "true or false"),
    ],
)
def test_every_mistake_has_its_place(text, place, says):
    (problem,) = problems(text)
    assert problem.startswith(f"callgate.toml:{place}: ")
    assert says in problem


def test_tools_that_need_approval_while_it_is_off_are_told_with_their_line():
    (problem,) = problems(f'[approval]\nenabled = false\n{SERVER}[servers.files.approval]\ntools = ["x"]\n')
    assert problem.startswith("callgate.toml:6: servers.files.approval.tools: ")


@rows(("value", "valid"), [("user", True), (["user", "public"], True), ("moon", False), (5, False)])
def test_editors_take_what_the_file_takes(value, valid):
    data = {"servers": {"a": {"url": "https://x.example", "trust": {"tools": {"t": {"destination": value}}}}}}
    errors = list(jsonschema.Draft202012Validator(schema()).iter_errors(data))
    assert (errors == []) is valid
