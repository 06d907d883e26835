"""How a session grows and what of it is kept; every shelf does it the same way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callgate.errors import Reason, Refused, Spent
from callgate.trust.model import SOURCES, UNTRUSTED, DataLabel, Quarantined, Session, SessionLabel, Step, Traced
from callgate.trust.storage import NewStep

# Of a session's label. What does not fit is told by its origin; where even origins are too many, it counts as unknown.
ATTRIBUTIONS: Final = 256
SENSITIVITIES: Final = 64
ATTRIBUTION_CHARS: Final = 1024
CLASS_CHARS: Final = 128
# Steps of a session, however long it lasts; values endorsed in it; results held back over all sessions.
STEPS: Final = 2000
ENDORSED: Final = 2000
HELD: Final = 1000
# What one step may bring.
OBJECTS: Final = 1000
KEY_CHARS: Final = 128
STEP_BYTES: Final = 16 * 1024
MEMORY_BYTES: Final = 3 * 1024 * 1024
AGENT_CHARS: Final = 256
NAME_CHARS: Final = 256
TEXT_CHARS: Final = 1000
_LISTED: Final = 64

DECLASSIFIED: Final = "declassified"
_TRUSTED: Final = frozenset(SOURCES) - {UNTRUSTED}
_ORIGIN: Final = re.compile(r"urn:[^:]*:[^:]*|[^:/]*:(?://)?[^/?#]*")
_NOTHING: Final = SessionLabel()


def fits(key: str) -> bool:
    """Whether something can be a key or a digest: short, and of characters that every database takes."""
    return 0 < len(key) <= KEY_CHARS and key.isascii() and key.isprintable()


def demand(*keys: str) -> None:
    """Refuse what no key can be."""
    for key in keys:
        if not fits(key):
            raise Refused(Reason.INVALID_PARAMS, f"a key has 1 to {KEY_CHARS} printable ASCII characters")


# -- sessions ------------------------------------------------------------------------------------------------------


def begun(key: str, agent: str, now: int) -> Session:
    """A new session. Versions start at the time, so that one made again under its key has none of the old versions."""
    return Session(key=key, agent=agent[:AGENT_CHARS], opened_at=now, seen_at=now, version=max(1, now))


def opened(session: Session, agent: str, now: int, idle_ms: int) -> Session:
    """A session that is used again; with another `opened_at` where it starts afresh."""
    if idle_ms <= 0 or now - session.seen_at <= idle_ms:
        # Clocks of several gateways differ; time does not go back.
        return session if now <= session.seen_at else replace(session, seen_at=now)
    at = max(now, session.opened_at + 1)
    return Session(
        key=session.key, agent=agent[:AGENT_CHARS], opened_at=at, seen_at=at, version=max(session.version + 1, at)
    )


def stepped(session: Session, at: int, adds: SessionLabel) -> Session:
    """A session after a step of that time."""
    return Session(
        key=session.key,
        agent=session.agent,
        opened_at=session.opened_at,
        seen_at=max(session.seen_at, at),
        label=joined(session.label, adds),
        version=session.version + 1,
        steps=session.steps + 1,
    )


def joined(label: SessionLabel, adds: SessionLabel) -> SessionLabel:
    """Both labels together; nothing of either is lost but detail of too many attributions."""
    if _within(adds, label):
        return label
    sensitivity, cut = _short(label.sensitivity | adds.sensitivity, CLASS_CHARS)
    classes = frozenset(sensitivity)
    attribution, open_world = label.attribution, label.open_world or adds.open_world
    if adds.attribution:
        attribution, too_many = _united(attribution, adds.attribution)
        open_world, cut = open_world or too_many, cut or too_many
    if len(classes) > SENSITIVITIES:
        classes, cut = frozenset(sorted(classes)[: SENSITIVITIES - 1]), True
    return SessionLabel(
        open_world=open_world,
        malicious=label.malicious or adds.malicious,
        # A class that is not kept as it was could be any.
        sensitivity=classes | {"unknown"} if cut else classes,
        attribution=attribution,
    )


def _within(adds: SessionLabel, label: SessionLabel) -> bool:
    return (
        adds.open_world <= label.open_world
        and adds.malicious <= label.malicious
        and adds.sensitivity <= label.sensitivity
        and (
            not adds.attribution
            or label.attribution == adds.attribution
            or set(adds.attribution) <= set(label.attribution)
        )
    )


def _united(first: Iterable[str], second: Iterable[str]) -> tuple[tuple[str, ...], bool]:
    """Each source once; by origin where they are too many, and whether even those are."""
    short, _ = _short((*first, *second), ATTRIBUTION_CHARS)
    sources = tuple(dict.fromkeys(short))
    if len(sources) <= ATTRIBUTIONS:
        return sources, False
    origins = tuple(dict.fromkeys(origin(source) for source in sources))
    return origins[:ATTRIBUTIONS], len(origins) > ATTRIBUTIONS


def origin(source: str) -> str:
    """Where an attribution points, without the path: `mcp://host`, `local:anonymous`, `urn:org:acme`."""
    found = _ORIGIN.match(source)
    return found[0] if found else source


def _short(texts: Iterable[str], most: int) -> tuple[list[str], bool]:
    given = list(texts)
    short = [text[:most] for text in given]
    return short, short != given


def lessened(label: SessionLabel, wanted: SessionLabel) -> SessionLabel:
    """What of a label is left; a wish for more than there was is not followed."""
    return SessionLabel(
        open_world=label.open_world and wanted.open_world,
        malicious=label.malicious and wanted.malicious,
        sensitivity=label.sensitivity & wanted.sensitivity,
        attribution=tuple(source for source in label.attribution if source in wanted.attribution),
    )


def restored(session: Session, now: int) -> NewStep:
    """For a session in use that the store has parted with: what it was stays. The step is without the memory of what
    it has read, so that is unknown from then on."""
    was = session.label
    label = DataLabel(open_world=was.open_world, malicious=was.malicious, sensitivity=was.sensitivity)
    return NewStep(session.key, Step(0, now, "", "", "(restored)", "allow", label=label), adds=was)


def declassified(session: Session, label: SessionLabel, by: str, note: str, now: int) -> tuple[Session, Step]:
    """A session after an operator's act, and the act as a step: its picture shows who took what away."""
    after = replace(stepped(session, now, _NOTHING), label=lessened(session.label, label))
    step = Step(
        seq=after.steps,
        at=now,
        call="",
        server="",
        tool="",
        verdict=DECLASSIFIED,
        rule=by[:NAME_CHARS],
        why=note[:TEXT_CHARS],
    )
    return after, step


# -- steps ---------------------------------------------------------------------------------------------------------


def spare(sessions: Iterable[Session], count: int) -> list[str]:
    """The sessions to part with where there are too many: of callers with many first, who so push out their own and
    not those of others; of each caller those not seen for longest."""
    if count <= 0:
        return []
    ranks: dict[str, int] = {}
    ranked: list[tuple[int, int, str]] = []
    for session in sorted(sessions, key=lambda one: (-one.seen_at, one.key)):
        caller = session.agent.partition(" ")[0]
        ranks[caller] = ranks.get(caller, 0) + 1
        ranked.append((-ranks[caller], session.seen_at, session.key))
    # Of equals, the one whose key comes later.
    ranked.sort(key=lambda one: one[2], reverse=True)
    ranked.sort(key=lambda one: one[:2])
    return [key for _, _, key in ranked[:count]]


def strange(label: DataLabel | None) -> bool:
    """Whether a result may hold what a stranger wrote, so that declassifying forgets it."""
    return label is not None and (label.open_world or label.malicious or not label.sources <= _TRUSTED)


def check(new: NewStep) -> None:
    """Refuse a step that brings more than a shelf takes: to drop a taint would be to trust."""
    if not fits(new.session):
        demand(new.session)
    if new.objects or new.endorsed:
        demand(*new.objects, *new.endorsed)
        if len(new.objects) > OBJECTS or len(new.endorsed) > OBJECTS:
            raise Refused(Reason.INVALID_PARAMS, f"one call cannot touch more than {OBJECTS} objects")
    if len(new.step.memory) > MEMORY_BYTES:
        raise Refused(Reason.INVALID_PARAMS, f"one step remembers at most {MEMORY_BYTES} bytes")


class _Body(msgspec.Struct, array_like=True, gc=False):
    """A step without its number and what it remembers."""

    at: int
    call: str
    server: str
    tool: str
    verdict: str
    rule: str
    why: str
    label: DataLabel | None
    tool_label: Mapping[str, Any]
    provenance: tuple[Traced, ...]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Body).decode


def packed(step: Step) -> bytes:
    """A step as it is kept, of bounded size."""
    body = _packed(step)
    return body if len(body) <= STEP_BYTES else _packed(_shortened(step))


def _packed(step: Step) -> bytes:
    body = _Body(
        step.at,
        step.call,
        step.server,
        step.tool,
        step.verdict,
        step.rule,
        step.why,
        step.label,
        step.tool_label,
        step.provenance,
    )
    try:
        return _encode(body)
    except UnicodeEncodeError:
        # Half characters, which msgpack has no way to write.
        return json.dumps(msgspec.to_builtins(body)).encode()


def unpacked(raw: bytes, seq: int, memory: bytes) -> Step:
    """What `packed` made; an array in msgpack never starts with a bracket."""
    body = msgspec.convert(json.loads(raw), _Body) if raw[:1] == b"[" else _decode(raw)
    return Step(
        seq=seq,
        at=body.at,
        call=body.call,
        server=body.server,
        tool=body.tool,
        verdict=body.verdict,
        rule=body.rule,
        why=body.why,
        label=body.label,
        tool_label=body.tool_label,
        provenance=body.provenance,
        memory=memory,
    )


def _shortened(step: Step) -> Step:
    """A step that is too large, with every text and list in it cut."""
    label = step.label
    if label is not None:
        sensitivity, cut = _short(sorted(label.sensitivity)[:_LISTED], CLASS_CHARS)
        classes = frozenset(sensitivity)
        cut = cut or len(label.sensitivity) > _LISTED
        label = replace(
            label,
            sources=frozenset(_short(sorted(label.sources)[:_LISTED], CLASS_CHARS)[0]),
            sensitivity=classes | {"unknown"} if cut else classes,
            attribution=tuple(_short(label.attribution[:_LISTED], 128)[0]),
            warnings=tuple(_short(label.warnings[:16], 128)[0]),
        )
    return replace(
        step,
        call=step.call[:NAME_CHARS],
        server=step.server[:NAME_CHARS],
        tool=step.tool[:NAME_CHARS],
        verdict=step.verdict[:NAME_CHARS],
        rule=step.rule[:NAME_CHARS],
        why=step.why[:TEXT_CHARS],
        label=label,
        tool_label=_small(step.tool_label),
        provenance=tuple(_short_trace(traced) for traced in step.provenance[:32]),
    )


def _short_trace(traced: Traced) -> Traced:
    return replace(traced, path=traced.path[:128], shown=traced.shown[:128], steps=traced.steps[:16])


def _small(value: Any) -> Any:
    try:
        return value if len(msgspec.json.encode(value)) <= 2048 else {}
    except UnicodeEncodeError:
        return {}


# -- quarantine ----------------------------------------------------------------------------------------------------


def held(result: Quarantined) -> Quarantined:
    """A result as it is kept: undecided, its texts cut."""
    return replace(
        result,
        call=result.call[:NAME_CHARS],
        server=result.server[:NAME_CHARS],
        tool=result.tool[:NAME_CHARS],
        warnings=tuple(_short(result.warnings[:16], TEXT_CHARS)[0]),
        state="held",
        decided_by="",
        decided_at=0,
    )


def settled(held: Quarantined, expires_at: int, *, state: str, by: str, now: int) -> Quarantined:
    """A held result after a person's decision; of one that is dropped nothing stays to be read."""
    if state not in ("released", "dropped"):
        raise ValueError(f"a held result is released or dropped, not {state!r}")
    if held.state != "held":
        raise Spent(
            Reason.APPROVAL_DECIDED,
            "this result was released or dropped before",
            advice="Nothing is left to decide; send the call again if its result is still wanted.",
        )
    if expires_at <= now:
        raise not_held()
    sealed = held.sealed if state == "released" else b""
    return replace(held, state=state, sealed=sealed, decided_by=by[:NAME_CHARS], decided_at=now)


def not_held() -> Spent:
    return Spent(
        Reason.APPROVAL_EXPIRED,
        "this result is not held, or no longer",
        advice="Send the call again if its result is still wanted.",
    )
