"""Rules, facts and explanations, as the terminal shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from callgate.cli.people import plain
from callgate.cli.when import show_when

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from callgate.trust.policy import Policy
    from callgate.trust.policy.explain import Checked, Explanation
    from callgate.trust.policy.replaying import Difference, Then

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


def rules_table(policy: Policy) -> Table:
    """Every rule in the order in which it speaks."""
    from rich.text import Text

    table = _table("rule", "on", "effect", "what it tells the person", "from")
    for rule in policy.rules:
        place = rule.source if rule.default else f"{rule.source}:{rule.line}"
        table.add_row(Text(rule.name), rule.on, _effect(rule.effect), Text(rule.say), Text(place, style="dim"))
    return table


def facts_table() -> Table:
    from rich.text import Text

    from callgate.trust.policy import TABLE
    from callgate.trust.policy.condition import TYPE_NAMES

    table = _table("fact", "type", "what it says", "for example")
    for fact in TABLE:
        about = f"{fact.about} (on results only)" if fact.result else fact.about
        table.add_row(Text(fact.name), TYPE_NAMES[fact.kind], Text(about), Text(fact.example, style="dim"))
    return table


def explanation(found: Explanation, then: Then | None) -> Iterator[Text]:
    """The ruling first and what was said then, then every rule, those that hold before the others."""
    from rich.text import Text

    ruling = found.ruling
    by = f" by {ruling.rule}" if ruling.rule else ": no rule objects"
    yield Text.assemble((ruling.effect, COLOURS[ruling.effect]), by)
    if ruling.say:
        yield Text(ruling.say)
    if then is not None:
        yield Text(plain(then.sentence(ruling), _LONG))
    for rule in found.told:
        yield Text("")
        yield from _checked(rule)


def _checked(rule: Checked) -> Iterator[Text]:
    from rich.text import Text

    mark = "  ← decides" if rule.decides else ""
    yield Text.assemble(
        (rule.rule, _STATES[rule.state]), "  ", (rule.effect, COLOURS[rule.effect]), f"  {rule.state}{mark}"
    )
    if rule.error:
        yield Text(f"    {plain(rule.error)}", style="red")
    yield Text(f"    when {plain(rule.condition, _LONG)}", style="dim")
    for name, value in rule.facts.items():
        yield Text(f"    {name} = {plain(json.dumps(value, ensure_ascii=False), _LONG)}")


def tests_table(rows: list[dict[str, Any]]) -> Table:
    from rich.text import Text

    table = _table("case", "expected", "got", "")
    for row in rows:
        mark = Text("ok", style="green") if row["ok"] else Text("WRONG", style="bold red")
        table.add_row(Text(plain(row["name"])), Text(row["expected"]), Text(row["got"]), mark)
    return table


def replay_table(differing: list[Difference]) -> Table:
    from rich.text import Text

    table = _table("time", "call", "server / tool", "before", "after", "rule")
    for one in differing:
        table.add_row(
            show_when(one.at),
            # Whole: calls of one minute begin alike.
            Text(plain(one.call), no_wrap=True),
            Text(plain(f"{one.server} / {one.tool}")),
            _effect(one.before),
            _effect(one.after),
            Text(plain(one.rule_after or one.rule_before)),
        )
    return table


def _effect(effect: str) -> Text:
    from rich.text import Text

    return Text(plain(effect), style=COLOURS.get(effect, ""))


def _table(*titles: str) -> Table:
    from rich.table import Table

    return Table(*titles, box=None, pad_edge=False, header_style="bold")
