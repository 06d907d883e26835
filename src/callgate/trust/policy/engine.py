"""The policy: rules read once, decisions made often.

Of two effects the stricter one wins. Most of what rules read takes few values (labels, where arguments were found), so
the rulings over these are kept; only rules that depend on the arguments themselves are evaluated anew for each call,
all of them in one expression that is false nearly always.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
from cel_expr_python import cel

from callgate.gate import Quorum
from callgate.trust.model import ToolLabel
from callgate.trust.policy.condition import environment
from callgate.trust.policy.facts import FACTS, VALUE_FACTS, VARYING, Facts, all_values, plain
from callgate.trust.policy.fitting import surely_fits, unfit
from callgate.trust.policy.reading import default_text, read_rules, read_texts
from callgate.trust.policy.rules import EFFECTS, RESULT_EFFECTS, Rule

KEPT: Final = 4096
_JOINED: Final = 256
# A call with more values than this hardly comes again.
_LARGE: Final = 100
NOT_KNOWN: Final = "the arguments are not known"
# What a rule stands for that cannot be evaluated, if its own effect is not stricter.
FAILED: Final = "ask"


class Match(msgspec.Struct, frozen=True):
    """A rule that holds for a call, or that could not be evaluated (`error`) and counts as `effect` all the same."""

    rule: str
    effect: str
    say: str = ""
    error: str = ""
    quorum: Quorum = Quorum()


class Ruling(msgspec.Struct, frozen=True):
    """What the policy says: the strictest effect, the rule that has it, and its sentence for the person."""

    effect: str
    rule: str = ""
    say: str = ""
    matched: tuple[Match, ...] = ()
    # Rules of the default policy that held, and that an `allow` switched off for this call.
    overridden: tuple[str, ...] = ()

    def has(self, effect: str) -> bool:
        """Whether a rule with this effect holds, whatever is stricter."""
        return any(one.effect == effect for one in self.matched)

    @property
    def failed(self) -> tuple[Match, ...]:
        """The rules that could not be evaluated."""
        return tuple(one for one in self.matched if one.error)

    @property
    def quorums(self) -> tuple[Quorum, ...]:
        """Who has to approve, as each rule that asks demands it."""
        return tuple(dict.fromkeys(one.quorum for one in self.matched if one.effect == "ask"))

    def to_record(self) -> dict[str, Any]:
        """The ruling as the log keeps it."""
        record: dict[str, Any] = {"effect": self.effect}
        if self.rule:
            record["rule"] = self.rule
        if len(self.matched) > 1:
            record["matched"] = [one.rule for one in self.matched[:50]]
        if failed := self.failed:
            record["failed"] = {one.rule: one.error for one in failed[:10]}
        if self.overridden:
            record["overridden"] = list(self.overridden)
        return record


class Policy:
    """Rules in force, for calls and for results."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules: Final = tuple(rules)
        calls = _Stage([rule for rule in rules if rule.on == "call"], EFFECTS)
        results = _Stage([rule for rule in rules if rule.on == "result"], RESULT_EFFECTS)
        # Whether the call may pass: `allow`, `ask` or `block`.
        self.decide: Final[Callable[[Facts], Ruling]] = calls.decide
        # Whether the tool alone settles every rule, wherever the values of the call come from.
        self.indifferent: Final[Callable[[Facts], bool]] = calls.indifferent
        # What becomes of the result: `allow`, `warn`, `mask`, `ask` or `quarantine`.
        self.decide_result: Final[Callable[[Facts], Ruling]] = results.decide

    @staticmethod
    def load(paths: Iterable[Path] = (), *, texts: Iterable[tuple[str, str]] = (), default: bool = True) -> Policy:
        """The rules of these files, of these texts (each with a name), and of the default policy; strictly read.

        A ConfigError has every mistake of all of them, with its line and a caret.
        """
        named = [*read_texts(paths), *texts]
        return Policy(read_rules(named, default_text() if default else None))

    @property
    def holds_back(self) -> bool:
        """Whether some rule may hold results back."""
        return any(rule.on == "result" and rule.effect in ("ask", "quarantine") for rule in self.rules)


class _Kept(msgspec.Struct, frozen=True):
    """What holds for all calls that are alike but for their arguments."""

    matched: Mapping[int, str]
    # Rules that only the arguments decide; what else they read; and the ruling if none of them holds.
    open: tuple[int, ...]
    data: Mapping[str, Any]
    ruling: Ruling


class _Stage:
    """The rules for calls, or those for results."""

    def __init__(self, rules: Sequence[Rule], effects: tuple[str, ...]) -> None:
        self._rules = rules
        self._effects = effects
        self._env = environment(result=effects is RESULT_EFFECTS)
        self._fixed: Final = [
            FACTS[name] for name in sorted({n for rule in rules for n in rule.condition.reads} - VARYING)
        ]
        self._of_tool: Final = tuple(fact for fact in self._fixed if fact.name.startswith("tool."))
        others = [fact for fact in self._fixed if not fact.name.startswith("tool.")]
        self._others: Final = others
        roots = sorted({root for fact in others for root in fact.roots})
        self._getters: Final[tuple[Callable[[Facts], Any], ...]] = (
            *((attrgetter(*roots),) if roots else ()),
            *(fact.get for fact in others if not fact.roots and fact.name not in VALUE_FACTS),
            *((all_values,) if any(fact.name in VALUE_FACTS for fact in others) else ()),
        )
        # Rules that nothing varying decides.
        self._steady: Final = tuple(at for at, rule in enumerate(rules) if not rule.condition.reads & VARYING)
        self._tools: dict[tuple[int, bool], tuple[ToolLabel, int]] = {}
        self._numbers: dict[Hashable, int] = {}
        # What rules read of a tool, by its number.
        self._read: dict[int, dict[str, Any]] = {}
        self._next = count()
        self._kept: dict[Hashable, _Kept] = {}
        self._joined: dict[tuple[int, ...], _Joined] = {}
        self._settled: dict[int, bool] = {}

    def indifferent(self, facts: Facts) -> bool:
        """Evaluates every rule with nothing but the tool: those that hold or fail even so need nothing else."""
        number = self._tool(facts)
        known = self._settled.get(number)
        if known is None:
            activation = self._env.Activation(data=self._read[number])
            known = all(value_of(rule.condition.program, activation)[0] is not None for rule in self._rules)
            if len(self._settled) >= KEPT:
                self._settled.clear()
            self._settled[number] = known
        return known

    def decide(self, facts: Facts) -> Ruling:
        key = (self._tool(facts), *[get(facts) for get in self._getters])
        kept = self._kept.get(key)
        if kept is None:
            kept = self._keep(key[0], key, facts)
        if not kept.open:
            return kept.ruling
        found = self._open(kept, facts)
        return self._rule({**kept.matched, **found}) if found else kept.ruling

    def _tool(self, facts: Facts) -> int:
        """A number that stands for all that rules read of the tool."""
        tool = facts.tool
        # Whether there are arguments is all that facts of a tool ask of the call.
        place = (id(tool), bool(facts.args) or facts.args is None)
        seen = self._tools.get(place)
        # The label is kept beside its number, so its id cannot come to mean another.
        if seen is not None and seen[0] is tool:
            return seen[1]
        if len(self._tools) >= KEPT:
            self._tools.clear()
            self._numbers.clear()
            self._read.clear()
        key = tuple([fact.get(facts) for fact in self._of_tool])
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = next(self._next)
            values = zip(self._of_tool, key, strict=True)
            self._read[number] = {fact.name: plain(fact.kind, value) for fact, value in values}
        self._tools[place] = (tool, number)
        return number

    def _keep(self, tool: int, key: Hashable, facts: Facts) -> _Kept:
        """Evaluates every rule without what varies. One that has an answer even so does not depend on it."""
        data = dict(self._read[tool])
        data.update((fact.name, plain(fact.kind, fact.get(facts))) for fact in self._others)
        activation = self._env.Activation(data=data)
        matched: dict[int, str] = {}
        undecided: list[int] = []
        quiet = self._steady if self._steady and self._join(self._steady).none_holds(data) else ()
        for at, rule in enumerate(self._rules):
            if at in quiet:
                continue
            held, error = value_of(rule.condition.program, activation)
            if held is None and rule.condition.reads & VARYING:
                undecided.append(at)
            elif held is not False:
                matched[at] = error
        needed = {name for at in undecided for name in self._rules[at].condition.reads}
        kept = _Kept(
            matched,
            tuple(undecided),
            {name: value for name, value in data.items() if name in needed},
            self._rule(matched),
        )
        if len(facts.provenance.values) <= _LARGE:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[key] = kept
        return kept

    def _open(self, kept: _Kept, facts: Facts) -> dict[int, str]:
        """Which of the rules that only the arguments decide hold, each with its error if it failed."""
        joined = self._join(kept.open)
        args, wrong = joined.fit(facts)
        data = {**kept.data, "session.steps": facts.steps, "args": args}
        if not wrong and joined.none_holds(data):
            return {}
        activation = self._env.Activation(data=data)
        found: dict[int, str] = {}
        for at in kept.open:
            rule = self._rules[at]
            held: bool | None = None
            error = _unread(rule, wrong)
            if not error:
                held, error = value_of(rule.condition.program, activation)
            if held is not False:
                found[at] = error
        return found

    def _join(self, which: tuple[int, ...]) -> _Joined:
        joined = self._joined.get(which)
        if joined is None:
            if len(self._joined) >= _JOINED:
                self._joined.clear()
            joined = self._joined[which] = _Joined(self._env, [self._rules[at] for at in which])
        return joined

    def _rule(self, matched: Mapping[int, str]) -> Ruling:
        """The strictest of the rules that hold; of equals, the first."""
        if not matched:
            return Ruling("allow")
        off = {name for at, error in matched.items() if not error for name in self._rules[at].override}
        counted, overridden = [], []
        for at in sorted(matched):
            rule, error = self._rules[at], matched[at]
            if rule.default and rule.name in off:
                overridden.append(rule.name)
                continue
            effect = max(rule.effect, FAILED, key=self._effects.index) if error else rule.effect
            counted.append(Match(rule.name, effect, rule.say, error, rule.quorum))
        counted.sort(key=lambda one: -self._effects.index(one.effect))
        first = counted[0]
        say = f"{first.say} (This rule could not be evaluated: {first.error}.)".strip() if first.error else first.say
        return Ruling(first.effect, first.rule, say, tuple(counted), tuple(overridden))


class _Joined:
    """Several conditions as one: false if none of them holds, which is nearly always."""

    def __init__(self, env: cel.Env, rules: Sequence[Rule]) -> None:
        named = [rule.condition.keys for rule in rules]
        self._keys = None if None in named else frozenset(key for keys in named if keys for key in keys)
        self._loops = max(rule.condition.loops for rule in rules)
        text = " || ".join(f"({rule.condition.text}\n)" for rule in rules)
        try:
            self._program: cel.Expression | None = env.compile(text)
        except RuntimeError:  # nested too deeply together: one by one, then
            self._program = None

    def none_holds(self, data: dict[str, Any]) -> bool:
        """Whether none of them holds, for certain."""
        if self._program is None:
            return False
        try:
            return self._program.eval(data=data).value() is False
        except RuntimeError:
            return False

    def fit(self, facts: Facts) -> tuple[dict[str, Any], dict[str, str]]:
        """The arguments that the rules read, without those that cannot be given to them, and why not."""
        given = facts.args
        if given is None:
            return {}, {"": NOT_KNOWN}
        args = dict(given) if self._keys is None else {key: given[key] for key in self._keys if key in given}
        around = len(facts.provenance.values)
        if facts.size is not None and surely_fits(facts.size, self._loops, around):
            return args, {}
        wrong = unfit(args, self._loops, around)
        for key in wrong:
            args.pop(key, None)
        return args, wrong


def _unread(rule: Rule, wrong: Mapping[str, str]) -> str:
    """Why a rule cannot be evaluated with these arguments left out."""
    if not wrong or "args" not in rule.condition.reads:
        return ""
    if "" in wrong:
        return wrong[""]
    keys = rule.condition.keys
    for key, why in wrong.items():
        if keys is None or key in keys:
            return f"the argument {key[:64]!r} {why}"
    return ""


def value_of(program: cel.Expression, activation: cel.Activation) -> tuple[bool | None, str]:
    """Whether a condition holds; None and why if it cannot be told."""
    try:
        value = program.eval(activation=activation).value()
    except RuntimeError as error:  # a loop over its budget
        return None, _shortened(str(error))
    if value is True or value is False:
        return value, ""
    return None, _shortened(str(value))


def _shortened(error: str) -> str:
    # The library's texts may repeat values; the beginning tells what happened.
    return error.partition(": ")[2][:120].replace("\n", " ").rstrip(" .[") or "it has no value"
