"""Reading rules strictly, from TOML and JSON: every mistake is told at once, each with its line and a caret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from callgate.errors import ConfigError, Problem
from callgate.gate import Quorum
from callgate.places import Path as Keys
from callgate.places import Places
from callgate.trust.policy.condition import Condition, compile_condition, meant
from callgate.trust.policy.decoding import decode, dotted, unix
from callgate.trust.policy.reach import always, unreachable
from callgate.trust.policy.rules import EFFECTS, RESULT_EFFECTS, Rule
from callgate.trust.policy.seed_form import SeedCondition, written

# What the trust annotations' own form calls them.
_SYNONYMS: Final = {"escalate": "ask", "confirm": "ask"}
_ON_RESULT: Final = {"block": "quarantine"}
KEYS: Final = ("name", "effect", "on", "when", "say", "override", "approvals", "of")
MAX_BYTES: Final = 256 * 1024
MAX_RULES: Final = 200
MAX_SAY: Final = 400
MAX_APPROVALS: Final = 20
MAX_GROUPS: Final = 10
DEFAULT: Final = "default policy"
ADVICE: Final = "Put these right, then run `callgate policy check`."
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GROUP: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def default_text() -> str:
    """The rules that hold without any configuration."""
    return resources.files(__package__).joinpath("default.toml").read_text(encoding="utf-8")


def read_texts(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """The files' texts, each with its name."""
    return [(str(path), read_text(path)) for path in paths]


def read_rules(named: Sequence[tuple[str, str]], default: str | None) -> list[Rule]:
    """The rules of some texts and of the default policy, which come last; of equal effects, the first speaks."""
    shipped = [] if default is None else _Reader(DEFAULT, default, [], {}, default=True).rules()
    problems: list[Problem] = []
    taken = {rule.name: f"the {DEFAULT}" for rule in shipped}
    overridable = tuple(taken)
    rules: list[Rule] = []
    for source, text in named:
        reader = _Reader(source, text, problems, taken, overridable=overridable)
        rules += reader.rules()
    if len(rules) > MAX_RULES:
        problems.append(Problem(rules[MAX_RULES].source, rules[MAX_RULES].line, "", f"more than {MAX_RULES} rules"))
    else:
        problems += _dead(rules, shipped, dict(named))
    if problems:
        problems.sort(key=lambda problem: (problem.source, problem.line or 0))
        raise ConfigError(problems=tuple(problems), advice=ADVICE)
    return [*rules, *shipped]


def _dead(rules: list[Rule], shipped: list[Rule], texts: dict[str, str]) -> list[Problem]:
    found = []
    for rule, why in unreachable(rules, shipped):
        place = Places(rule.source, unix(texts[rule.source]))
        at = _line_start(place.text, rule.line)
        found.append(place.problem(at, rule.name, why))
    return found


def _line_start(text: str, line: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
    return at + len(text[at:]) - len(text[at:].lstrip(" \t"))


def read_text(path: Path, advice: str = "Name a file with rules in TOML or JSON.", again: str = ADVICE) -> str:
    """The file's text; the advice is for where there is none, and for where it is not text."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise ConfigError(f"{path}: {why}", advice=advice) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: the file is larger than {MAX_BYTES} bytes", advice="Is this the right file?")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem(str(path), line, "", "this is not UTF-8 text")
        raise ConfigError(problems=(problem,), advice=again) from None


class _Reader:
    """Reads one text; what is wrong goes into `problems`."""

    def __init__(
        self,
        source: str,
        text: str,
        problems: list[Problem],
        taken: dict[str, str],
        *,
        overridable: tuple[str, ...] = (),
        default: bool = False,
    ) -> None:
        self._problems = problems
        self._taken = taken
        self._overridable = overridable
        self._default = default
        self._source = source
        self._decoded = decode(source, text)
        self._places = self._decoded.places
        self._text = self._places.text
        self._json = self._decoded.json

    def rules(self) -> list[Rule]:
        data = self._decoded.value
        self._problems += self._decoded.problems
        if data is None and self._decoded.problems:
            return []
        if not isinstance(data, dict):
            self._tell((), "a rule file is a table with `rules` in it")
            return []
        for key in data:
            if key != "rules":
                self._tell(
                    (key,), f"there is no such key{meant(key, ('rules',))}; a rule file has `rules` only", key=True
                )
        rules = data.get("rules")
        if not isinstance(rules, list) or not rules:
            if "rules" in data or not data:
                self._tell(("rules",), "a list of rules is wanted, with at least one in it")
            return []
        if len(rules) > MAX_RULES:
            self._tell(("rules", MAX_RULES), f"there are more than {MAX_RULES} rules")
            return []
        read = [self._rule(("rules", at), one) for at, one in enumerate(rules)]
        return [rule for rule in read if rule is not None]

    def _tell(self, path: Keys, what: str, *, key: bool = False) -> None:
        at = self._places.of_key(path) if key else self._places.of_value(path)
        self._problems.append(self._places.problem(at, dotted(path), what))

    def _rule(self, path: Keys, raw: Any) -> Rule | None:
        before = len(self._problems)
        if not isinstance(raw, dict):
            self._tell(path, "a rule is a table with name, effect and when")
            return None
        known = (*KEYS, "conditions") if self._json else KEYS
        for key in raw:
            if key not in known:
                self._tell(
                    (*path, key), f"there is no such key{meant(key, known)}; there are {', '.join(known)}", key=True
                )
        name = self._name(path, raw)
        where = self._conditions(path, raw)
        on = self._on(path, raw, where)
        effect = self._effect(path, raw, on)
        say = self._say(path, raw)
        override = self._override(path, raw, effect)
        quorum = self._quorum(path, raw, on, effect)
        condition = self._condition(path, raw, where, on, effect)
        if len(self._problems) > before or condition is None:
            return None
        line = self._text.count("\n", 0, self._places.of_key(path)) + 1
        say = say or _sentence(name, effect)
        return Rule(name, effect, on, condition, say, override, self._default, self._source, line, quorum)

    def _name(self, path: Keys, raw: dict[str, Any]) -> str:
        name = self._string(path, raw, "name", required=True)
        if name is None:
            return ""
        if not _NAME.fullmatch(name):
            self._tell((*path, "name"), "a name is made of letters, digits, `.`, `_` and `-`, 64 at most")
        elif name in self._taken:
            self._tell((*path, "name"), f"this name is taken by a rule of {self._taken[name]}")
        else:
            self._taken[name] = self._source
        return name

    def _conditions(self, path: Keys, raw: dict[str, Any]) -> SeedCondition | None:
        if not self._json or "conditions" not in raw:
            return None
        if "when" in raw:
            self._tell((*path, "when"), "a rule has either `when` or `conditions`", key=True)
        found = written(raw["conditions"], (*path, "conditions"))
        if isinstance(found, SeedCondition):
            return found
        for where, what in found:
            self._tell(where, what)
        return None

    def _on(self, path: Keys, raw: dict[str, Any], where: SeedCondition | None) -> Literal["call", "result"]:
        if "on" not in raw:
            return "result" if where is not None and where.on_result else "call"
        value = self._string(path, raw, "on")
        if value not in {"call", "result", None}:
            self._tell((*path, "on"), 'this is "call" or "result"')
        return "result" if value == "result" else "call"

    def _effect(self, path: Keys, raw: dict[str, Any], on: str) -> str:
        effect = self._string(path, raw, "effect", required=True)
        if effect is None:
            return "ask"
        if self._json:
            effect = _SYNONYMS.get(effect, effect)
            effect = _ON_RESULT.get(effect, effect) if on == "result" else effect
        effects = EFFECTS if on == "call" else RESULT_EFFECTS
        if effect not in effects:
            what = "a rule on calls" if on == "call" else "a rule on results"
            self._tell(
                (*path, "effect"), f"the effect of {what} is one of {', '.join(effects)}{meant(effect, effects)}"
            )
            return "ask"
        return effect

    def _say(self, path: Keys, raw: dict[str, Any]) -> str:
        say = self._string(path, raw, "say")
        if say is None:
            return ""
        if len(say) > MAX_SAY or not all(char.isprintable() or char == "\n" for char in say):
            self._tell((*path, "say"), f"a sentence for people: printable, {MAX_SAY} characters at most")
        return " ".join(say.split())

    def _override(self, path: Keys, raw: dict[str, Any], effect: str) -> tuple[str, ...]:
        names = raw.get("override")
        if names is None:
            return ()
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            self._tell((*path, "override"), "a list of names is wanted, of rules of the default policy")
            return ()
        if effect != "allow":
            self._tell((*path, "override"), "only an allow can switch rules of the default policy off", key=True)
        for at, name in enumerate(names):
            if name not in self._overridable:
                known = ", ".join(self._overridable) or "no such rules in force"
                text = f"not a rule of the default policy{meant(name, self._overridable)}; there are {known}"
                self._tell((*path, "override", at), text)
        return tuple(names)

    def _quorum(self, path: Keys, raw: dict[str, Any], on: str, effect: str) -> Quorum:
        """Who has to approve what the rule asks about."""
        for key in ("approvals", "of"):
            if key in raw and (on, effect) != ("call", "ask"):
                self._tell((*path, key), "only a rule that asks about calls says who approves them", key=True)
        approvals, of = raw.get("approvals", 1), raw.get("of", [])
        if type(approvals) is not int or not 1 <= approvals <= MAX_APPROVALS:
            self._tell((*path, "approvals"), f"a number of people is wanted, from 1 to {MAX_APPROVALS}")
            approvals = 1
        if not isinstance(of, list) or len(of) > MAX_GROUPS or not all(isinstance(one, str) for one in of):
            self._tell((*path, "of"), f"a list of groups of people is wanted, {MAX_GROUPS} at most")
            return Quorum(approvals)
        for at, group in enumerate(of):
            if not _GROUP.fullmatch(group):
                self._tell((*path, "of", at), "a group's name has 1 to 64 of a-z, 0-9, _ and -")
        return Quorum(approvals, tuple(sorted(set(of))))

    def _string(self, path: Keys, raw: dict[str, Any], key: str, *, required: bool = False) -> str | None:
        value = raw.get(key)
        if isinstance(value, str):
            return value
        if value is not None:
            self._tell((*path, key), "a string is wanted")
        elif required:
            self._tell(path, f"the rule has no {key}", key=True)
        return None

    def _condition(
        self, path: Keys, raw: dict[str, Any], where: SeedCondition | None, on: str, effect: str
    ) -> Condition | None:
        key = (*path, "when")
        place: Callable[[int], int] = lambda index: self._places.inside(key, index)  # noqa: E731
        if where is not None:
            text, key = where.text, (*path, "conditions")
            place = lambda index: self._places.of_value(where.place(index))  # noqa: E731
        elif "conditions" in raw:
            return None
        elif (given := self._string(path, raw, "when")) is not None:
            text = given
        elif "when" in raw:
            return None
        elif effect == "allow":
            self._tell(
                path, "an allow for every call would mean nothing, or too much: say for which, with `when`", key=True
            )
            return None
        else:
            text = "true"
        found = compile_condition(text, result=on == "result")
        if isinstance(found, Condition):
            constant = always(found) if "when" in raw or where is not None else None
            if constant is None:
                return found
            what = "always holds; leave `when` out if the rule is for every call" if constant else "can never hold"
            self._problems.append(self._places.problem(place(0), dotted(key), f"this condition {what}"))
            return None
        for mistake in found:
            self._problems.append(self._places.problem(place(mistake.at), dotted(key), mistake.text))
        return None


def _sentence(name: str, effect: str) -> str:
    what = {
        "allow": "lets this through",
        "ask": "wants a person to decide this",
        "block": "does not allow this",
        "warn": "warns of this result",
        "mask": "masks the secrets in this result",
        "quarantine": "keeps this result back",
    }
    return f"The rule {name} {what[effect]}."
