"""`callgate policy`: check rules, show facts, explain decisions, try rules on cases and on past calls."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.text import Text

from callgate.audit.reading import entries, entry
from callgate.audit.storage import Filter
from callgate.cli.common import (
    ConfigOption,
    JsonOption,
    StoreOption,
    configuration,
    console,
    open_store,
    parse_when,
    print_json,
    progress,
    say,
    spinner,
)
from callgate.cli.printing import plain, print_table, show_when
from callgate.config import Config
from callgate.errors import AuditError, ConfigError, Reason
from callgate.trust.policy import TABLE, Facts, Policy
from callgate.trust.policy.calls import LabelOf
from callgate.trust.policy.cases import read_call, read_cases
from callgate.trust.policy.condition import TYPE_NAMES
from callgate.trust.policy.explain import Checked, Explanation
from callgate.trust.policy.explain import explain as explained
from callgate.trust.policy.reading import read_text
from callgate.trust.policy.replaying import Replayed, Then, recorded_facts, recorded_then

FileArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A rule file, TOML or JSON, instead of the configured one.")
]
PolicyOption = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="A rule file instead of the configured one.")
]
NoDefaultOption = Annotated[bool, typer.Option("--no-default", help="Without the rules that come with Callgate.")]
_INPUT: Final = 2**20
_CASES: Final = "Name a file with cases: TOML with name, tool and expect under each [[cases]], or the same in JSON."
_CALLS: Final = "Name a JSON file with a call, or a call's id: `callgate audit list` shows those on record."
COLOURS: Final = {
    "allow": "green",
    "ask": "yellow",
    "warn": "yellow",
    "mask": "yellow",
    "block": "red",
    "quarantine": "red",
}
_LONG: Final = 2000
_STATES: Final = {"holds": "bold", "failed": "bold red", "overridden": "dim", "does not hold": "dim"}


def check(
    file: FileArgument = None,
    config: ConfigOption = None,
    no_default: NoDefaultOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check rules and list them in the order in which they speak.

    Prints every mistake with its file, line and a caret, and exits with 1 if there is any.
    """
    try:
        with _mistakes(Reason.POLICY_INVALID, as_json=as_json):
            loaded = _policy(file, config, default=not no_default)[0]
    except ConfigError as error:
        say(f"{error.message}\n{error.advice}".rstrip())
        raise typer.Exit(1) from None
    if as_json:
        print_json({"ok": True, "rules": [_rule(rule) for rule in loaded.rules]})
        return
    typer.echo(f"OK  {len(loaded.rules)} {'rule' if len(loaded.rules) == 1 else 'rules'}")
    print_table(
        ("rule", "on", "effect", "what it tells the person", "from"),
        (
            (
                Text(rule.name),
                Text(rule.on),
                _effect(rule.effect),
                Text(rule.say),
                Text(rule.source if rule.default else f"{rule.source}:{rule.line}", style="dim"),
            )
            for rule in loaded.rules
        ),
    )


def facts(as_json: JsonOption = False) -> None:
    """List what rules can read: each fact with its type, what it says and an example."""
    if as_json:
        print_json(
            [
                {
                    "name": fact.name,
                    "type": TYPE_NAMES[fact.kind],
                    "about": fact.about,
                    "example": fact.example,
                    "words": list(fact.words),
                    "on": "result" if fact.result else "call",
                }
                for fact in TABLE
            ]
        )
        return
    print_table(
        ("fact", "type", "what it says", "for example"),
        (
            (
                Text(fact.name),
                Text(TYPE_NAMES[fact.kind]),
                Text(f"{fact.about} (on results only)" if fact.result else fact.about),
                Text(fact.example, style="dim"),
            )
            for fact in TABLE
        ),
    )


def explain(
    call: Annotated[str, typer.Argument(metavar="CALL", help="The id of a call on record, a JSON file, or `-`.")],
    *,
    policy: PolicyOption = None,
    no_default: NoDefaultOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the rules say of a call and why: each rule, and the facts that it reads.

    A call that never happened is written as JSON: {"server": ..., "tool": ..., "arguments": ..., "session": ...}.
    """
    again = _again("explain", call, policy, config, no_default=no_default)
    with _mistakes(Reason.POLICY_INVALID, as_json=as_json):
        rules, loaded = _policy(policy, config, default=not no_default)
    with _mistakes(Reason.INVALID_PARAMS, as_json=as_json):
        given, then = _call(call, loaded, config, store, again)
    found = explained(rules, given)
    if as_json:
        print_json({**msgspec.to_builtins(found), "then": msgspec.to_builtins(then)})
        return
    for line in explanation(found, then):
        console().print(line, soft_wrap=True)


def try_cases(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Cases, as [[cases]] in TOML or JSON.")],
    policy: PolicyOption = None,
    no_default: NoDefaultOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try the rules on cases that say what is expected; exits with 1 if a case comes out otherwise."""
    again = _again("test", str(file), policy, config, no_default=no_default)
    with _mistakes(Reason.POLICY_INVALID, as_json=as_json):
        rules, loaded = _policy(policy, config, default=not no_default)
        labels = _labels(loaded)
    with _mistakes(Reason.INVALID_PARAMS, as_json=as_json):
        cases = read_cases(_read(str(file), _CASES, again), str(file), rules.rules, again=again)
    rows: list[dict[str, Any]] = []
    for case in cases:
        given = case.facts(labels)
        ruling = rules.decide(given) if given.result is None else rules.decide_result(given)
        right = ruling.effect == case.expect and case.rule in {None, ruling.rule}
        wanted = f"{case.expect} ({case.rule})" if case.rule else case.expect
        got = f"{ruling.effect} ({ruling.rule})" if ruling.rule else ruling.effect
        rows.append({"name": case.name, "ok": right, "expected": wanted, "got": got})
    failed = sum(not row["ok"] for row in rows)
    if as_json:
        print_json({"ok": not failed, "cases": rows})
    else:
        marks = {True: Text("ok", style="green"), False: Text("WRONG", style="bold red")}
        print_table(
            ("case", "expected", "got", ""),
            ((Text(plain(row["name"])), Text(row["expected"]), Text(row["got"]), marks[row["ok"]]) for row in rows),
        )
        typer.echo(f"{len(rows) - failed} of {len(rows)} as expected.")
    if failed:
        raise typer.Exit(1)


def replay(
    file: FileArgument = None,
    *,
    no_default: NoDefaultOption = False,
    since: Annotated[
        str | None, typer.Option("--since", help="From then on: 2h, 7d, 2026-11-15 or a full time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many calls, the newest.")] = 10_000,
    config: ConfigOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run rules over the calls on record and show which decisions would differ. Changes nothing.

    Rules that read arguments can be told only where the log has the arguments whole.
    """
    rules = _policy(file, config, default=not no_default)[0]
    replayed = Replayed()
    with open_store(config, store) as (_, opened), opened.audit_reading() as tables, spinner("reading the log"):
        found = entries(tables, Filter(since=parse_when(since, time.time())), limit)
    with progress() as bar:
        for entry in bar.track(found, description="replaying"):
            replayed.add(rules, entry.decision)
    if as_json:
        print_json(replayed.summary())
        return
    if not found:
        typer.echo("No decision is on record " + ("yet." if since is None else f"since {since}."))
        return
    if replayed.differing:
        print_table(
            ("time", "call", "server / tool", "before", "after", "rule"),
            (
                (
                    Text(show_when(one.at)),
                    # Whole: calls of one minute begin alike.
                    Text(plain(one.call), no_wrap=True),
                    Text(plain(f"{one.server} / {one.tool}")),
                    _effect(one.before),
                    _effect(one.after),
                    Text(plain(one.rule_after or one.rule_before)),
                )
                for one in replayed.differing
            ),
        )
    typer.echo(replayed.sentence())


def _policy(file: Path | None, config: Path | None, *, default: bool) -> tuple[Policy, Config]:
    """The rules in force, or those of a file; and the configuration."""
    loaded = configuration(config, None)
    chosen = file or loaded.trust.policy
    return Policy.load([chosen] if chosen else [], default=default and loaded.trust.default_policy), loaded


def _labels(loaded: Config) -> LabelOf | None:
    """What the operator says of tools, where any server is configured."""
    from callgate.app.trust import make_labels

    return make_labels(loaded).of if loaded.servers else None


def _call(call: str, loaded: Config, config: Path | None, store: str | None, again: str) -> tuple[Facts, Then | None]:
    """The facts of a call on record and what was said of it then, or the facts of one that is written down."""
    # An id has neither a dot nor a slash.
    if call == "-" or "." in call or "/" in call or Path(call).is_file():
        text = sys.stdin.read(_INPUT) if call == "-" else _read(call, _CALLS, again)
        return read_call(text, call, again=again).facts(_labels(loaded)), None
    with open_store(config, store) as (_, opened), opened.audit_reading() as tables:
        decision = entry(tables, call).decision
    found = recorded_facts(decision)
    if found is None:
        raise AuditError(
            f"the record of {decision.call} holds no facts for rules",
            advice="It was written while [trust] was off; later calls can be explained.",
        )
    return found, recorded_then(decision, found)


def _read(path: str, advice: str, again: str) -> str:
    return read_text(Path(path), advice, f"Put this right, then run `{again}`.")


def _again(verb: str, given: str, policy: Path | None, config: Path | None, *, no_default: bool) -> str:
    """What was typed, to type it once more."""
    words = ["callgate", "policy", verb, given]
    words += [] if policy is None else ["--policy", str(policy)]
    words += [] if config is None else ["--config", str(config)]
    return shlex.join([*words, "--no-default"] if no_default else words)


@contextmanager
def _mistakes(reason: Reason, *, as_json: bool) -> Iterator[None]:
    """For machines, mistakes in rules, cases and calls are an answer too."""
    try:
        yield
    except ConfigError as error:
        if not as_json:
            raise
        problems = [{**problem._asdict(), "message": str(problem)} for problem in error.problems]
        found = problems or [{"message": error.message}]
        print_json({"ok": False, "reason": reason, "problems": found, "advice": error.advice})
        raise typer.Exit(1) from None


def _rule(rule: Any) -> dict[str, Any]:
    return {
        "name": rule.name,
        "effect": rule.effect,
        "on": rule.on,
        "when": " ".join(rule.condition.text.split()),
        "say": rule.say,
        "override": list(rule.override),
        "source": rule.source,
        "line": rule.line,
        "reads": sorted(rule.condition.reads),
    }


def explanation(found: Explanation, then: Then | None) -> Iterator[Text]:
    """The ruling first and what was said then, then every rule, those that hold before the others."""
    ruling = found.ruling
    by = f" by {ruling.rule}" if ruling.rule else ": no rule objects"
    yield Text.assemble((ruling.effect, COLOURS[ruling.effect]), by)
    if ruling.say:
        yield Text(ruling.say)
    if then is not None:
        yield Text(plain(then.sentence(ruling), _LONG))
    for rule in found.told:
        yield Text("")
        yield from _rule_line(rule)


def _rule_line(rule: Checked) -> Iterator[Text]:
    mark = "  ← decides" if rule.decides else ""
    yield Text.assemble(
        (rule.rule, _STATES[rule.state]), "  ", (rule.effect, COLOURS[rule.effect]), f"  {rule.state}{mark}"
    )
    if rule.error:
        yield Text(f"    {plain(rule.error)}", style="red")
    yield Text(f"    when {plain(rule.condition, _LONG)}", style="dim")
    for name, value in rule.facts.items():
        yield Text(f"    {name} = {plain(json.dumps(value, ensure_ascii=False), _LONG)}")


def _effect(effect: str) -> Text:
    return Text(plain(effect), style=COLOURS.get(effect, ""))
