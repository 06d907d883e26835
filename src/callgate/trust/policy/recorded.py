"""Facts as the log keeps them: what they were worked out from, so that a later policy with other facts can read them.

Arguments are not among it: the record has them in the way that the operator chose (whole, redacted or hashed).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from callgate.trust.model import Annotations, DataLabel, Found, Provenance, SessionLabel, ToolLabel, Traced, ValueKind
from callgate.trust.policy.facts import Facts

L = TypeVar("L", SessionLabel, ToolLabel)

VERSION: Final = 1
# A record is written for every call: lists that others can make long are cut, and say so.
MAX_VALUES: Final = 200
MAX_URIS: Final = 50
_VALUE: Final = attrgetter("path", "kind", "found", "critical")


class _Request(msgspec.Struct, frozen=True, omit_defaults=True):
    open_world: bool = False
    malicious: bool = False
    attribution: tuple[str, ...] = ()


class _Taken(_Request, frozen=True, omit_defaults=True):
    sensitivity: tuple[str, ...] = ()


class _Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    server: str
    name: str
    destinations: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    malicious: bool = False
    unknown: tuple[str, ...] = ()
    reviewed: bool = False


class _Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    v: int
    tool: _Tool
    # Beside these the record names the session itself.
    taken: _Taken = _Taken()
    steps: int = 0
    request: _Request | None = None
    # Path, kind, found, critical
    values: tuple[tuple[str, ValueKind, Found, bool], ...] = ()
    links: tuple[str, ...] = ()
    own_words: bool = False
    guarded: tuple[str, ...] = ()
    prompt: bool = False
    new_links: tuple[str, ...] = ()
    untraceable: bool = False
    far_reaching: tuple[str, ...] = ()
    strange_texts: tuple[str, ...] = ()
    texts_read: bool = False
    unasked: bool = False
    agent: dict[str, str] = {}
    carried: tuple[str, ...] | None = None
    result: DataLabel | None = None
    # Whether there were any arguments, which is all that some facts ask.
    args: bool = False
    secrets: bool = False
    cut: bool = False


def to_record(facts: Facts) -> dict[str, Any]:
    """The facts in their compact form, JSON-ready: what `_Recorded` reads, without what is as it is by default.

    The parts that many calls share are the same objects in all of their records.
    """
    provenance, session, request = facts.provenance, facts.session, facts.request
    record: dict[str, Any] = {"v": VERSION, "tool": _kept(facts.tool, _tool, _tools)}
    if taken := _kept(session, _taken, _sessions):
        record["taken"] = taken
    if request is not None:
        record["request"] = msgspec.to_builtins(
            _Request(bool(request.open_world), bool(request.malicious), request.attribution[:MAX_URIS])
        )
    if values := provenance.values:
        record["values"] = list(map(_VALUE, values if len(values) <= MAX_VALUES else _worst_first(values)))
    agent = facts.agent
    # What is known of it.
    if said := dict(agent) if all(agent.values()) else {name: value for name, value in agent.items() if value}:
        record["agent"] = said
    if facts.carried is not None:
        record["carried"] = sorted(facts.carried)
    if facts.result is not None:
        record["result"] = msgspec.to_builtins(facts.result)
    if facts.steps:
        record["steps"] = facts.steps
    _add_marks(record, facts)
    if len(provenance.values) > MAX_VALUES or len(session.attribution) > MAX_URIS:
        record["cut"] = True
    return record


def _add_marks(record: dict[str, Any], facts: Facts) -> None:
    """What most calls have little of."""
    provenance = facts.provenance
    marks: dict[str, Any] = {
        "links": [one.path for one in provenance.foreign_links[:MAX_VALUES]],
        "own_words": provenance.any_own_words,
        "guarded": provenance.guarded,
        "prompt": provenance.prompt_known,
        "new_links": provenance.new_links[:MAX_VALUES],
        "untraceable": provenance.untraceable,
        "far_reaching": provenance.far_reaching[:MAX_VALUES],
        "strange_texts": provenance.strange_texts[:MAX_VALUES],
        "texts_read": provenance.texts_read,
        "unasked": provenance.unasked,
        "args": facts.args is None or bool(facts.args),
        "secrets": facts.secrets,
    }
    record.update((name, value) for name, value in marks.items() if value)


def _taken(session: SessionLabel) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(
        _Taken(
            session.open_world, session.malicious, session.attribution[:MAX_URIS], tuple(sorted(session.sensitivity))
        )
    )
    return made


def _tool(label: ToolLabel) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(
        _Tool(
            label.server,
            label.tool,
            tuple(sorted(label.destinations)),
            tuple(sorted(label.outcomes)),
            tuple(sorted(label.accepts)),
            tuple(sorted(label.sources)),
            tuple(sorted(label.returns)),
            label.read_only,
            label.destructive,
            label.open_world,
            label.malicious,
            tuple(sorted(label.unknown)),
            label.reviewed,
        )
    )
    return made


def _kept(label: L, make: Callable[[L], dict[str, Any]], seen: dict[int, tuple[L, dict[str, Any]]]) -> dict[str, Any]:
    known = seen.get(id(label))
    # The label is kept beside it, so its id cannot come to mean another.
    if known is not None and known[0] is label:
        return known[1]
    made = make(label)
    if len(seen) >= _KEPT:
        seen.clear()
    seen[id(label)] = (label, made)
    return made


# Others can make labels long, so these are few.
_KEPT: Final = 256
_tools: Final[dict[int, tuple[ToolLabel, dict[str, Any]]]] = {}
_sessions: Final[dict[int, tuple[SessionLabel, dict[str, Any]]]] = {}


def from_record(record: object, args: Mapping[str, Any] | None = None) -> Facts:
    """The facts of a record. Without its `args`, a rule that reads them fails, as it does with any it cannot read."""
    try:
        recorded = msgspec.convert(record, _Recorded)
    except msgspec.ValidationError as error:
        raise ValueError(f"no facts of a call: {error}") from None
    if recorded.v != VERSION:
        raise ValueError(f"facts of version {recorded.v}; this Callgate reads {VERSION}")
    tool = recorded.tool
    request = recorded.request
    return Facts(
        tool=ToolLabel(
            server=tool.server,
            tool=tool.name,
            destinations=frozenset(tool.destinations),
            outcomes=frozenset(tool.outcomes),
            accepts=frozenset(tool.accepts),
            sources=frozenset(tool.sources),
            returns=frozenset(tool.returns),
            read_only=tool.read_only,
            destructive=tool.destructive,
            open_world=tool.open_world,
            malicious=tool.malicious,
            unknown=frozenset(tool.unknown),
            reviewed=tool.reviewed,
        ),
        session=SessionLabel(
            recorded.taken.open_world,
            recorded.taken.malicious,
            frozenset(recorded.taken.sensitivity),
            recorded.taken.attribution,
        ),
        provenance=Provenance(
            tuple(Traced(path, kind, found, critical, "") for path, kind, found, critical in recorded.values),
            tuple(Traced(path, "link", "untrusted", False, "") for path in recorded.links),  # noqa: FBT003
            recorded.own_words,
            recorded.prompt,
            recorded.guarded,
            recorded.new_links,
            recorded.untraceable,
            recorded.far_reaching,
            recorded.strange_texts,
            recorded.texts_read,
            recorded.unasked,
        ),
        args=args if args is not None or recorded.args else {},
        request=None
        if request is None
        else Annotations(open_world=request.open_world, malicious=request.malicious, attribution=request.attribution),
        agent=recorded.agent,
        carried=None if recorded.carried is None else frozenset(recorded.carried),
        secrets=recorded.secrets,
        steps=recorded.steps,
        result=recorded.result,
    )


def _worst_first(values: tuple[Traced, ...]) -> tuple[Traced, ...]:
    order = sorted(values, key=lambda one: (one.found != "untrusted", one.found != "nowhere", not one.critical))
    return tuple(order[:MAX_VALUES])
