import io
import json
from pathlib import Path

import pytest

from callgate.audit.records import Arguments
from callgate.cli import run
from support.auditing import decision, open_log
from support.policies import READ, facts, found, mail, rule
from support.registry import requirement
from support.table import rows

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "policy"
BLOCKING = "[[rules]]\n" + rule("no-mail", "block", 'tool.server == "mail"', say='"No mail today."')
CALL = {
    "server": "mail",
    "tool": "send_email",
    "arguments": {"to": "eve@evil.example"},
    "labels": {"destination": "public", "outcomes": "irreversible"},
    "session": {"open_world": True},
    "provenance": {"to": "untrusted"},
}


@pytest.fixture
def policy(here, capsys):
    def call(*words, code=0):
        found = run(["policy", *map(str, words)])
        said = capsys.readouterr()
        assert found == code, said.err
        return said

    return call


@pytest.fixture
def file(here):
    path = here / "rules.toml"
    path.write_text(BLOCKING)
    return path


def test_check_lists_the_rules_in_the_order_in_which_they_speak(policy, file):
    lines = policy("check", file).out.splitlines()
    assert lines[0] == "OK  17 rules"
    assert lines[2].startswith("no-mail")
    assert "rules.toml:1" in lines[2]
    told = json.loads(policy("check", file, "--no-default", "--json").out)
    assert told["rules"] == [
        {
            "name": "no-mail",
            "effect": "block",
            "on": "call",
            "when": 'tool.server == "mail"',
            "say": "No mail today.",
            "override": [],
            "source": str(file),
            "line": 1,
            "reads": ["tool.server"],
        }
    ]


def test_check_without_a_file_is_about_the_rules_in_force(policy, file, here):
    assert policy("check").out.startswith("OK  16 rules")
    (here / "callgate.toml").write_text('[trust]\npolicy = "rules.toml"\ndefault_policy = false\n')
    assert policy("check").out.startswith("OK  1 rule\n")


def test_check_tells_every_mistake_with_a_caret(policy, file):
    file.write_text(BLOCKING.replace("tool.server", "tool.sever").replace('"block"', '"blok"'))
    said = policy("check", file, code=1)
    assert said.out == ""
    assert "rules.toml:3: rules[0].effect" in said.err
    assert "perhaps tool.server" in said.err
    assert said.err.count("^\n") == 2
    assert "callgate policy check" in said.err
    told = json.loads(policy("check", file, "--json", code=1).out)
    assert [problem["line"] for problem in told["problems"]] == [3, 4]


@rows("name", sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in {".toml", ".json"}))
def test_the_examples_hold(policy, name):
    if name.startswith("cases"):
        assert "as expected" in policy("test", EXAMPLES / name, "--policy", EXAMPLES / "office.toml").out
    else:
        assert policy("check", EXAMPLES / name).out.startswith("OK")


def test_facts_lists_every_fact(policy):
    from callgate.trust.policy import TABLE

    shown = policy("facts").out
    told = json.loads(policy("facts", "--json").out)
    assert [one["name"] for one in told] == [fact.name for fact in TABLE]
    assert all(fact.name in shown and fact.example in shown for fact in TABLE)


def test_explain_shows_each_rule_with_the_facts_that_it_reads(policy, file, here):
    (here / "call.json").write_text(json.dumps(CALL))
    out = policy("explain", "call.json").out
    assert out.startswith("ask by stranger-decides\n")
    assert 'provenance.untrusted = ["to"]' in out
    assert "after-malicious-content  ask  does not hold" in out
    told = json.loads(policy("explain", "call.json", "--policy", file, "--json").out)
    assert (told["ruling"]["effect"], told["ruling"]["rule"]) == ("block", "no-mail")
    assert [rule["rule"] for rule in told["rules"] if rule["decides"]] == ["no-mail"]
    assert told["rules"][0]["facts"] == {"tool.server": "mail"}


def test_explain_reads_a_call_from_its_input(policy, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({**CALL, "result": {"malicious": True}})))
    assert policy("explain", "-").out.startswith("warn by flagged-result\n")


def test_explain_goes_by_the_labels_of_the_configuration(policy, here):
    (here / "callgate.toml").write_text(
        '[servers.mail]\nurl = "https://mail.example/mcp"\n'
        '[servers.mail.trust.tools.send_email]\ndestination = "user"\noutcomes = "benign"\n'
    )
    call = {name: value for name, value in CALL.items() if name != "labels"}
    (here / "call.json").write_text(json.dumps(call))
    assert policy("explain", "call.json").out.startswith("allow")


@rows(
    ("text", "told"),
    [
        ("{", "call.json:1: not valid JSON"),
        ('{"tol": "x"}', "call.json:1: tol: there is no such key, perhaps tool"),
        ('{"tool": "x", "arguments": {"to": 1}, "provenance": {"to": "moon"}}', 'provenance.to: there is no "moon"'),
        ("{}", "a call has a tool"),
        ("", "a call has a tool"),
        ("[]", "a call is a table"),
        ("null", "a call is a table"),
        ("12", "a call is a table"),
        ('{"tool": "a", "tool": "b"}', "tool: this key is there already"),
    ],
)
def test_a_call_that_cannot_be_read(policy, here, monkeypatch, text, told):
    (here / "call.json").write_text(text)
    said = policy("explain", "call.json", code=1)
    assert told in said.err
    assert (
        said.err.endswith("^\nPut this right, then run `callgate policy explain call.json`.\n")
        or text == '{"tol": "x"}'
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert told.removeprefix("call.json") in policy("explain", "-", code=1).err
    assert said.out == ""


def test_a_call_that_cannot_be_read_is_told_to_machines_too(policy, here):
    (here / "call.json").write_text('{"tool": "x", "session": {"sensitivity": "ppi"}}')
    told = json.loads(policy("explain", "call.json", "--json", code=1).out)
    assert (told["ok"], told["reason"]) == (False, "invalid_params")
    assert [(one["line"], one["key"]) for one in told["problems"]] == [(1, "session.sensitivity")]
    (here / "rules.toml").write_text(BLOCKING.replace("block", "blok"))
    for words in (("explain", "call.json", "--policy", "rules.toml"), ("check", "rules.toml")):
        assert json.loads(policy(*words, "--json", code=1).out)["reason"] == "policy_invalid"


@rows("name", ["nothere.json", "./nothere", "no/where"])
def test_what_looks_like_a_file_is_not_looked_for_in_the_log(policy, name):
    said = policy("explain", name, code=1).err
    assert said.startswith(f"callgate: {Path(name)}: there is no such file\n")
    assert "`callgate audit list`" in said


def test_a_file_that_is_called_json_is_told_what_json_lacks(policy, here):
    (here / "call.json").write_text("xyz")
    assert "call.json:1: not valid JSON" in policy("explain", "call.json", code=1).err
    (here / "call.toml").write_text("xyz")
    assert "call.toml:1: not valid TOML" in policy("explain", "call.toml", code=1).err


def test_what_to_type_next_has_the_options_that_were_typed(policy, file, here):
    (here / "my call.json").write_text("{}")
    said = policy("explain", "my call.json", "--policy", "rules.toml", "--no-default", code=1).err
    assert "run `callgate policy explain 'my call.json' --policy rules.toml --no-default`." in said


def cases(*expected):
    lines = []
    for at, (effect, by) in enumerate(expected):
        lines.append(f"[[cases]]\nname = 'case {at}'\nexpect = '{effect}'\n" + (f"rule = '{by}'\n" if by else ""))
        lines.append(
            "server = 'mail'\ntool = 'send_email'\narguments = { to = 'x' }\nprovenance = { to = 'untrusted' }\n"
        )
    return "\n".join(lines)


def test_cases_are_compared_with_what_the_rules_say(policy, file, here):
    (here / "cases.toml").write_text(cases(("ask", None), ("ask", "stranger-decides")))
    assert "2 of 2 as expected." in policy("test", "cases.toml").out
    (here / "cases.toml").write_text(cases(("ask", None), ("block", None), ("ask", "unknown-value")))
    said = policy("test", "cases.toml", code=1)
    assert "1 of 3 as expected." in said.out
    assert [line.split()[-1] for line in said.out.splitlines()[1:4]] == ["ok", "WRONG", "WRONG"]
    told = json.loads(policy("test", "cases.toml", "--policy", file, "--json", code=1).out)
    assert [case["ok"] for case in told["cases"]] == [False, True, False]
    assert told["cases"][0]["got"] == "block (no-mail)"


def test_a_mistake_in_a_case_is_told(policy, here):
    (here / "cases.toml").write_text(cases(("asc", None), ("ask", "stranger-decide")))
    said = policy("test", "cases.toml", code=1)
    assert "cases.toml:3: cases[0].expect: rules say of a call one of allow, ask, block, perhaps ask" in said.err
    assert "cases[1].rule: there is no rule stranger-decide among these, perhaps stranger-decides" in said.err
    assert said.err.count("^\n") == 2
    assert said.err.endswith("Put these right, then run `callgate policy test cases.toml`.\n")
    told = json.loads(policy("test", "cases.toml", "--json", code=1).out)
    assert [one["line"] for one in told["problems"]] == [3, 13]
    (here / "cases.toml").write_text("")
    assert "each as [[cases]]" in policy("test", "cases.toml", code=1).err


def test_a_misspelt_word_does_not_pass_for_as_expected(policy, here, file):
    file.write_text("[[rules]]\n" + rule("pii-stays", "block", '"pii" in data.sensitivity && tool.egress'))
    (here / "cases.toml").write_text(
        "[[cases]]\nname = 'a letter'\ntool = 'send'\narguments = { to = 'x' }\n"
        "labels = { destination = 'public', outcomes = 'benign' }\n"
        "session = { sensitivity = ['ppi'] }\nexpect = 'allow'\n"
    )
    said = policy("test", "cases.toml", "--policy", file, "--no-default", code=1)
    assert 'cases.toml:6: cases[0].session.sensitivity[0]: there is no "ppi", perhaps pii' in said.err
    assert said.out == ""


def test_a_file_of_cases_that_is_not_there(policy):
    said = policy("test", "nothere.toml", code=1).err
    assert said.startswith("callgate: nothere.toml: there is no such file\n")
    assert "rules" not in said
    assert "[[cases]]" in said


# -- calls on record -------------------------------------------------------------------------------------------


def recorded(at, effect, by="", *, whole=True, **more):
    given = facts(mail(), args={"to": "bob", "amount": at}, session=READ, **more)
    trust = {"session": "key", "effect": effect, "rule": by, **given.to_record()}
    arguments = Arguments("whole", given.args) if whole else Arguments("hashed", hash="x")
    return decision(at, server="mail", tool="send_email", arguments=arguments, extra={"trust": trust})


@pytest.fixture
def log(here):
    """A call that was allowed, one that was asked about, one whose arguments were not kept, and one before trust."""
    url = f"sqlite:///{here / 'store.db'}"
    opened = open_log(url, here / "keys")
    with opened.store.audit_writing() as tables:
        for one in (
            recorded(1, "allow", provenance=found(to="prompt")),
            recorded(2, "ask", "stranger-decides", provenance=found(to="untrusted")),
            recorded(3, "allow", provenance=found(to="prompt"), whole=False),
            decision(4),
        ):
            tables.insert(opened.row(one))
    opened.store.close_sync()
    return url


def test_a_call_on_record_is_explained(policy, log):
    out = policy("explain", decision(2).call, "--store", log).out
    assert out.startswith("ask by stranger-decides\n")
    assert "It was decided so then." in out
    assert "facts" in policy("explain", decision(4).call, "--store", log, code=1).err
    assert "no call" in policy("explain", "nothing-of-it", "--store", log, code=1).err


def test_a_call_on_record_is_explained_beside_what_was_decided_then(policy, log, file):
    file.write_text("[[rules]]\n" + rule("no-shouting", "block", 'args.to == "ALL"'))
    out = policy("explain", decision(3).call, "--store", log, "--policy", file).out
    assert out.startswith("block by no-shouting\n")
    assert "Then, under the rules of then: allow. Its arguments are not whole on record" in out
    assert "audit.arguments" in out
    told = json.loads(policy("explain", decision(3).call, "--store", log, "--policy", file, "--json").out)
    assert told["then"] == {"effect": "allow", "rule": "", "arguments_known": False}
    # With them, nothing is in doubt; and without a rule that reads them neither.
    out = policy("explain", decision(1).call, "--store", log, "--policy", file).out
    assert "whole" not in out
    assert "It was decided so then.\n" in policy("explain", decision(3).call, "--store", log).out


def test_replay_of_the_same_rules_finds_no_difference(policy, log):
    out = policy("replay", "--store", log).out
    assert out == "0 of 3 decisions would differ. Recorded without facts, and left out: 1.\n"


def test_replay_shows_which_decisions_would_differ(policy, log, file):
    told = json.loads(policy("replay", file, "--store", log, "--json").out)
    assert [(one["before"], one["after"], one["rule_after"]) for one in told["differing"]] == [
        ("allow", "block", "no-mail"),
        ("ask", "block", "no-mail"),
        ("allow", "block", "no-mail"),
    ]
    lines = policy("replay", file, "--store", log).out.splitlines()
    assert lines[0].split() == ["time", "call", "server", "/", "tool", "before", "after", "rule"]
    assert "mail / send_email" in lines[1]
    assert lines[-1].startswith("3 of 3 decisions would differ.")
    nothing = json.loads(policy("replay", file, "--store", log, "--since", "2999-01-01", "--json").out)
    assert nothing["calls"] == 0


def test_replay_counts_apart_what_the_log_does_not_tell(policy, log, file):
    file.write_text(f"[[rules]]\n{rule('amounts', 'ask', 'has(args.amount) && args.amount == 1')}")
    told = json.loads(policy("replay", file, "--store", log, "--json").out)
    assert [(one["call"], one["after"], one["sure"]) for one in told["differing"]] == [(decision(1).call, "ask", True)]
    assert [(one["call"], one["after"], one["sure"]) for one in told["untold"]] == [(decision(3).call, "ask", False)]
    assert (told["calls"], told["same"], told["unsure"]) == (4, 1, 1)
    said = policy("replay", file, "--store", log).out.splitlines()[-1]
    assert said.startswith("1 of 2 decisions would differ. 1 of 3 cannot be told: rules read their arguments")
    assert "audit.arguments" in said


def test_replay_is_sure_where_another_rule_says_the_same_whatever_the_arguments(policy, log, file):
    reads = rule("amounts", "ask", "has(args.amount) && args.amount == 1")
    file.write_text(f"[[rules]]\n{reads}{BLOCKING}")
    assert json.loads(policy("replay", file, "--store", log, "--json").out)["unsure"] == 0
    off = rule("off", "allow", "args.amount == 1", override='["stranger-decides"]')
    file.write_text(f"[[rules]]\n{off}")
    assert json.loads(policy("replay", file, "--store", log, "--json").out)["unsure"] == 1


def test_replay_shows_ids_that_explain_takes(policy, log, file):
    rows = policy("replay", file, "--store", log).out.splitlines()[1:-1]
    assert [decision(at).call in row for at, row in enumerate(rows, 1)] == [True] * 3


def test_replay_of_nothing_says_so(policy, here):
    url = f"sqlite:///{here / 'empty.db'}"
    open_log(url, here / "keys").store.close_sync()
    assert policy("replay", "--store", url).out == "No decision is on record yet.\n"
    assert policy("replay", "--store", url, "--since", "7d").out == "No decision is on record since 7d.\n"


@requirement("TA-061")
def test_the_proposals_rules_can_be_named_in_the_configuration_unchanged(policy, here):
    (here / "callgate.toml").write_text(f'[trust]\npolicy = "{EXAMPLES / "seed-rules.json"}"\n')
    names = [rule["name"] for rule in json.loads(policy("check", "--json").out)["rules"]]
    assert names[:3] == ["block-open-world-to-external", "escalate-malicious", "confirm-irreversible-actions"]
