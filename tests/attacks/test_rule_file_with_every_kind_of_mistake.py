"""A rule with a mistake in it would never hold, and nobody would notice: each is refused when the file is read."""

import json
import re

import pytest

from callgate.errors import ConfigError
from callgate.trust.policy import Policy
from support.policies import rule
from support.table import rows

# What is wrong, what is told, and the character that the caret points at.
CONDITIONS = [
    ("session.open_wrld", "no fact session.open_wrld, perhaps session.open_world", "session.open_wrld"),
    ("session.open_world && sesion.malicious", "no fact sesion.malicious, perhaps session.malicious", "sesion"),
    ("session", "session is not a fact itself", "session"),
    ("tool.destination == 3", "`==` does not go with (string, int)", "== 3"),
    ("session.steps > 'many'", "`>` does not go with (int, string)", "> 'many"),
    ("size(session.open_world) > 0", "`size` does not go with (bool)", "(session"),
    ("tool.destination", "this is a string", "tool"),
    ("args.flag", "something that only the call tells", "args"),
    ("session.open_world && (", "ends too early", ""),
    ("session.open_world & tool.read_only", "'&' is not expected here", "& tool"),
    ("session.open_world and tool.read_only", "'and' is not expected here", "and tool"),
    ("fetch(args.url) == 'x'", "there is no function fetch", "fetch"),
    ("result.malicious", 'is known to rules with on = "result" only', "result"),
    ("tool.destination == 'publik'", '"publik" is never in it, perhaps public', "'publik"),
    ("tool.outcomes in ['benign', 'ireversible']", '"ireversible" is never in it, perhaps irreversible', "'ire"),
    ("'credential' in data.sensitivity", '"credential" is never in it, perhaps credentials', "'cred"),
    ("provenance.critical.exists(v, v.fond == 'own')", "a value has no fond, perhaps found", ".fond"),
    ("provenance.critical.exists(v, v.found == 'untrustet')", "perhaps untrusted", "'untrustet"),
    ("provenance.values.filter(v, v.kind == 'txt').size() > 0", "perhaps text", "'txt"),
    ("provenance.critical[0].wo == 'x'", "a value has no wo", ".wo"),
    ("args.x.matches('(')", "the pattern cannot be used", "'('"),
    ("args.x.matches(args.y)", "has to be written out", ".y"),
    ("args.x.matches('" + "a" * 501 + "')", "the pattern is longer than 500", "'aaa"),
    ("1 == 2", "can never hold", "1 =="),
    ("1 == 1", "always holds", "1 =="),
    ("1 / 0 == 1", "always fails", "1 /"),
    ("tool.read_only && !tool.read_only", "can never hold", "tool"),
    ("tool.destination == 'user' && tool.destination == 'public'", "can never hold", "tool"),
    ("tool.destination == 'user' && !(tool.destination in ['user', 'public'])", "can never hold", "tool"),
    ("   ", "there is no condition", ""),
    ("tool.read_only || " * 300 + "tool.read_only", "longer than 4000", "tool"),
    ("(" * 200 + "tool.read_only" + ")" * 200, "cannot be read", "("),
]


def problems(text, source="rules.toml", **options):
    with pytest.raises(ConfigError) as caught:
        Policy.load(texts=[(source, text)], **options)
    assert "callgate policy check" in caught.value.advice
    return caught.value.problems


def pointed(problem):
    """What stands where the caret points."""
    _, line, caret = problem.text.rsplit("\n", 2)
    assert caret.strip() == "^"
    return line[caret.index("^") :]


@rows(("when", "told", "at"), CONDITIONS, ids=[told for _, told, _ in CONDITIONS])
def test_a_mistake_in_a_condition(when, told, at):
    text = f'# rules\n\n[[rules]]\nname = "a"\neffect = "ask"\nwhen = """{when}"""\n'
    (problem,) = problems(text)
    assert told in problem.text
    assert (problem.source, problem.line, problem.key) == ("rules.toml", 6, "rules[0].when")
    assert pointed(problem).startswith(at)


TABLES = [
    ('effect = "ask"\nwhen = "tool.read_only"', "the rule has no name", 1),
    ('name = "a"\nwhen = "tool.read_only"', "the rule has no effect", 1),
    ('name = "a b"\neffect = "ask"', "a name is made of", 2),
    (f'name = "{"a" * 65}"\neffect = "ask"', "a name is made of", 2),
    ('name = "stranger-decides"\neffect = "ask"', "taken by a rule of the default policy", 2),
    ('name = "a"\neffect = "blok"', "perhaps block", 3),
    ('name = "a"\neffect = "escalate"', "is one of allow, ask, block", 3),
    ('name = "a"\neffect = "warn"', "is one of allow, ask, block", 3),
    ('name = "a"\neffect = "block"\non = "result"', "is one of allow, warn, mask, ask, quarantine", 3),
    ('name = "a"\neffect = "ask"\non = "reply"', '"call" or "result"', 4),
    ('name = "a"\neffect = "ask"\nwehn = "tool.read_only"', "no such key, perhaps when", 4),
    ('name = "a"\neffect = "ask"\nwhen = true', "a string is wanted", 4),
    ('name = "a"\neffect = ["ask"]', "a string is wanted", 3),
    ('name = "a"\neffect = "ask"\nsay = "\\u001b[31m"', "printable", 4),
    (f'name = "a"\neffect = "ask"\nsay = "{"a" * 401}"', "400 characters at most", 4),
    ('name = "a"\neffect = "allow"', "an allow for every call", 1),
    ('name = "a"\neffect = "ask"\noverride = ["stranger-decides"]', "only an allow can switch", 4),
    ('name = "a"\neffect = "allow"\nwhen = "tool.read_only"\noverride = ["stranger"]', "perhaps stranger-link", 5),
    ('name = "a"\neffect = "allow"\nwhen = "tool.read_only"\noverride = "all"', "a list of names is wanted", 5),
]


@rows(("table", "told", "line"), TABLES, ids=[told for _, told, _ in TABLES])
def test_a_mistake_in_a_table(table, told, line):
    (problem,) = problems(f"[[rules]]\n{table}\n")
    assert told in problem.text
    assert problem.line == line
    assert pointed(problem)


FILES = [
    ("", "a list of rules is wanted"),
    ("rules = []", "a list of rules is wanted"),
    ("rules = 3", "a list of rules is wanted"),
    ("rules = [3]", "a rule is a table"),
    ('title = "x"\n[[rules]]\nname = "a"\neffect = "ask"', "a rule file has `rules` only"),
    ("[[rules]\nname = 1", "not valid TOML"),
    ('[[rules]]\nname = "a', "not valid TOML"),
    ('[[rules]]\nname = "a"\nname = "b"', "not valid TOML"),
    ('{"rules": [}', "not valid JSON"),
    ('{"rules": [{"name": "a", "name": "b", "effect": "ask"}]}', "this key is there already"),
    ('{"rules": [{"name": "a", "effect": "ask", "when": "tool.read_only", "conditions": {"fact": "tool.name", "equals": "x"}}]}',
     "either `when` or `conditions`"),
    ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ("\n".join(f'[[rules]]\nname = "r{at}"\neffect = "ask"\nwhen = "session.steps == {at}"' for at in range(201)),
     "more than 200 rules"),
]  # fmt: skip


@rows(("text", "told"), FILES, ids=[told for _, told in FILES])
def test_a_mistake_in_a_file(text, told):
    found = problems(text)
    assert any(told in problem.text for problem in found)


def test_all_mistakes_of_all_files_are_told_at_once():
    files = [
        ("a.toml", "\n".join(f"[[rules]]\n{table}\n" for table, _, _ in TABLES)),
        ("b.toml", "\n".join(f"[[rules]]\n{rule(f'c{at}', 'ask', one[0])}" for at, one in enumerate(CONDITIONS))),
        ("c.json", '{"rules": [}'),
    ]
    with pytest.raises(ConfigError) as caught:
        Policy.load(texts=files)
    text = caught.value.message
    told = [told for _, told, _ in (*TABLES, *CONDITIONS)]
    assert [one for one in told if one not in text] == []
    assert "c.json:1: not valid JSON" in text
    assert len(re.findall(r"^ +\^$", text, re.MULTILINE)) >= len(told)


DEAD = [
    ("block", "tool.egress", "ask", "tool.egress"),
    ("block", "tool.egress", "ask", "session.open_world && tool.egress"),
    ("block", "tool.egress || tool.destructive", "ask", "tool.destructive && session.open_world"),
    ("block", "tool.destination in ['internal', 'public']", "ask", "tool.destination == 'public'"),
    ("block", "tool.destination != 'ephemeral'", "ask", "tool.destination == 'public'"),
    ("block", "tool.egress == true", "allow", "tool.egress"),
    ("block", "!tool.read_only", "ask", "tool.read_only == false && tool.egress"),
    ("ask", "has(args.a) && args.a > 3", "ask", "has(args.a)  &&  args.a > 3"),
    ("ask", "tool.egress", "ask", "tool.egress && session.open_world"),
]


@rows(("effect", "when", "dead_effect", "dead"), DEAD)
def test_a_rule_that_a_stricter_one_always_meets_first(effect, when, dead_effect, dead):
    live = f"[[rules]]\n{rule('live', effect, when)}"
    text = f"{live}\n[[rules]]\n{rule('dead', dead_effect, dead)}"
    (problem,) = problems(text)
    assert "this rule never decides: live (line 1) holds whenever it does" in problem.text
    assert problem.line == 6


@rows(
    ("effect", "when", "other_effect", "other"),
    [
        ("ask", "tool.egress", "block", "tool.egress && session.open_world"),
        ("ask", "tool.egress && session.open_world", "ask", "tool.egress"),
        ("block", "tool.egress && session.open_world", "ask", "tool.egress"),
        ("block", "tool.destination == 'public'", "ask", "tool.destination in ['internal', 'public']"),
        ("block", "has(args.a) && args.a > 3", "ask", "has(args.a) && args.a > 2"),
        ("block", "tool.egress", "ask", "!tool.egress"),
        ("block", "'pii' in data.sensitivity && 'x.y' in data.sensitivity", "ask", "'x.y' in data.sensitivity"),
    ],
)
def test_a_rule_that_can_still_decide_is_not_taken_for_dead(effect, when, other_effect, other):
    Policy.load(texts=[("a", f"[[rules]]\n{rule('one', effect, when)}\n[[rules]]\n{rule('two', other_effect, other)}")])


def test_the_caret_finds_its_way_through_quotes_escapes_and_lines():
    cases = {
        r'''when = "\u0022é\" == \"x\" || sesion.malicious"''': None,
        'when = """\n  tool.read_only\n  || sesion.malicious"""': None,
        'when = """tool.read_only \\\n     || sesion.malicious"""': None,
        "when = '''\ntool.read_only ||\n\tsesion.malicious'''": None,
        "\"when\" = 'tool.read_only || sesion.malicious' # why": None,
    }
    for line in cases:
        found = problems(f'[[rules]]\r\nname = "a"\r\neffect = "ask"\r\n{line}\n')
        assert pointed(found[0]).startswith("sesion.malicious"), line
    inline = "rules = [ { name = 'a', effect = 'ask', when = 'sesion.malicious' } ]"
    assert pointed(problems(inline)[0]).startswith("sesion.malicious")
    document = json.dumps({"rules": [{"name": "a", "effect": "ask", "when": '"é𝄞" == "x" || sesion.malicious'}]})
    assert pointed(problems(document)[0]).startswith("sesion.malicious")


def test_hostile_text_in_a_rule_file_cannot_steer_the_terminal():
    found = problems(
        '[[rules]]\nname = "a"\neffect = "\x1b[2Jblock"\n'.replace("\x1b", "\\u001b") + 'when = "\u202e x"\n'
    )
    assert all(char.isprintable() or char == "\n" for problem in found for char in problem.text)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="there is no such file"):
        Policy.load([tmp_path / "none.toml"])
    (tmp_path / "large.toml").write_bytes(b"#" * (256 * 1024 + 1))
    with pytest.raises(ConfigError, match="larger than"):
        Policy.load([tmp_path / "large.toml"])
    (tmp_path / "bytes.toml").write_bytes(b"# fine\n\xff")
    with pytest.raises(ConfigError, match=r"bytes.toml:2: this is not UTF-8"):
        Policy.load([tmp_path / "bytes.toml"])
    with pytest.raises(ConfigError, match="cannot be read"):
        Policy.load([tmp_path])
