"""What holds for a call with just these arguments: the operator's argument rules, a server's answer to `tools/resolve`,
and our own answer to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from callgate.trust.model import DESTINATIONS, OUTCOMES, SOURCES, Annotations, ToolLabel, highest
from callgate.trust.said import Said, said_of, tightened
from callgate.trust.vocabulary import PLAIN_CLASSES, REGULATED, RESTRICTED, UNKNOWN

# A condition over a call's arguments, made elsewhere. Whatever it raises means that it cannot decide.
Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]

_NAMES: Final = {"destination": "destinations", "outcomes": "outcomes", "source": "sources", "sensitivity": "returns"}
_ORDERS: Final = {"destination": DESTINATIONS, "outcomes": OUTCOMES, "source": SOURCES}


class ArgumentRule(msgspec.Struct, frozen=True):
    """What the operator says of a tool's calls whose arguments fulfil a condition; `tool` is a name or glob."""

    tool: str
    when: Predicate
    said: Said


class Matched(msgspec.Struct, frozen=True):
    """Which rules hold for some arguments, and which could not be decided; by their position."""

    held: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()


def matched(rules: Iterable[ArgumentRule], arguments: Mapping[str, Any]) -> Matched:
    """Tries each rule. One that breaks is undecided: its values are then possible, and so are those without it."""
    held: list[int] = []
    undecided: list[int] = []
    for at, rule in enumerate(rules):
        try:
            verdict: object = rule.when(arguments)
        except Exception:  # noqa: BLE001 - arguments are an agent's: whatever they break is undecided
            undecided.append(at)
            continue
        if verdict is True:
            held.append(at)
        elif verdict is not False:
            undecided.append(at)
    return Matched(tuple(held), tuple(undecided))


def narrowed(label: ToolLabel, answer: Annotations, *, trusted: bool) -> ToolLabel:
    """The label after the server answered `tools/resolve` for these arguments.

    A trusted server chooses among what the operator calls possible, and decides what nobody else said. Any other can
    only make the label stricter.
    """
    said = said_of(answer)
    if not trusted:
        return tightened(label, said)
    changed: dict[str, Any] = {}
    unknown = set(label.unknown)
    origins = dict(label.origins)
    for name, attribute in _NAMES.items():
        words: frozenset[str] | None = getattr(said, name)
        if words is None:
            continue
        base: frozenset[str] = getattr(label, attribute)
        if UNKNOWN in words or (name in _ORDERS and not words <= set(_ORDERS[name])):
            # A word that nobody knows decides nothing.
            changed[attribute] = base | (words if name == "sensitivity" else {_ORDERS[name][-1]})
            unknown.add(name)
        elif origins.get(name) == "operator":
            changed[attribute] = (base & words) or (base | words)
        else:
            changed[attribute] = words
            unknown.discard(name)
            origins[name] = "server"
    for name in ("open_world", "read_only", "destructive"):
        hint = getattr(said, name)
        if hint is not None and origins.get(name) != "operator":
            changed[name], origins[name] = hint, "server"
    return msgspec.structs.replace(
        label,
        **changed,
        malicious=label.malicious or said.malicious is True,
        attribution=answer.attribution or label.attribution,
        unknown=frozenset(unknown),
        origins=origins,
    )


def answer(tool: str, label: ToolLabel, listed: ToolLabel | None = None) -> dict[str, Any]:
    """The result of `tools/resolve`, as JSON.

    One value where the arguments decided. A set that they made smaller than the tool's listed one is given as it is;
    where they decided nothing, the strictest of the set stands for all of it.
    """
    whole = label if listed is None else listed
    annotations: dict[str, Any] = {
        "readOnlyHint": label.read_only,
        "destructiveHint": label.destructive,
        "openWorldHint": label.open_world,
    }
    if label.malicious:
        annotations["maliciousActivityHint"] = True
    if label.attribution:
        annotations["attribution"] = list(label.attribution)
    annotations["inputMetadata"] = {
        "destination": _answered("destination", label.destinations, whole.destinations),
        "sensitivity": _accepted(label.accepts),
        "outcomes": _answered("outcomes", label.outcomes, whole.outcomes),
    }
    returns = label.returns
    smaller = returns < whole.returns and len(returns) > 1
    annotations["returnMetadata"] = {
        "source": _answered("source", label.sources, whole.sources),
        "sensitivity": class_list(returns) if smaller else one_class(returns),
    }
    return {"tool": {"name": tool, "annotations": annotations}}


def strictest(name: str, words: frozenset[str]) -> str:
    """The one word that stands for a set: the worst in it, and the worst there is where it has one nobody knows."""
    order = _ORDERS[name]
    if not words or not words <= set(order):
        return order[-1]
    return max(words, key=order.index)


def one_class(classes: frozenset[str]) -> Any:
    """A set of classes as one `DataClass`: the most sensitive; several regulated ones as one object."""
    top = highest(classes)
    if top in PLAIN_CLASSES:
        return top
    if top == UNKNOWN or (top.partition(":")[0] != REGULATED and "." not in top) or UNKNOWN in classes:
        return "credentials"
    return _regulated(classes)


def class_list(classes: frozenset[str]) -> list[Any]:
    """A set of classes as a list of `DataClass`."""
    plain: list[Any] = [word for word in PLAIN_CLASSES if word in classes]
    if any(word not in PLAIN_CLASSES for word in classes):
        plain.append("credentials" if _has_unknown(classes) else _regulated(classes))
    return list({repr(one): one for one in plain}.values())


def _has_unknown(classes: frozenset[str]) -> bool:
    return any(
        word not in PLAIN_CLASSES and word.partition(":")[0] != REGULATED and "." not in word for word in classes
    )


def _regulated(classes: frozenset[str]) -> dict[str, Any]:
    scopes = {word.partition(":")[2] if ":" in word else word for word in classes if word not in PLAIN_CLASSES}
    return {REGULATED: {"scopes": sorted(scopes - {REGULATED, ""})}}


def _answered(name: str, words: frozenset[str], listed: frozenset[str]) -> str | list[str]:
    order = _ORDERS[name]
    if 1 < len(words) < len(listed) and words <= set(order):
        return sorted(words, key=order.index)
    return strictest(name, words)


def _accepted(classes: frozenset[str]) -> Any:
    """What a tool takes: nothing is the strictest answer, and a list is a statement of its own."""
    known = frozenset(word for word in classes if word not in {UNKNOWN, RESTRICTED})
    if not known:
        return "none"
    return one_class(known) if len(known) == 1 else class_list(known)
