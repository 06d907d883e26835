"""How labels travel: from results and requests into an agent's session, and from there to the next server.

Joins only ever add. Nothing here takes anything away but `declassify`, which is an operator's recorded act.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, TypeAlias

from callgate.trust import attribution
from callgate.trust.model import Annotations, DataLabel, SessionLabel, class_rank
from callgate.trust.vocabulary import MAX_ATTRIBUTION, UNKNOWN

Share: TypeAlias = Literal["share", "minimise", "withhold"]
Part: TypeAlias = Literal["open_world", "malicious", "sensitivity", "attribution"]
PARTS: Final = ("open_world", "malicious", "sensitivity", "attribution")
# Where attribution in a request came from; the client is no server of ours.
CLIENT: Final = "client"
MAX_CLASSES: Final = 128


def adds(data: DataLabel, *, consent: bool = True) -> SessionLabel:
    """What a result adds to a session. Without consent to tracking, no sources are kept."""
    return SessionLabel(
        open_world=data.open_world,
        malicious=data.malicious,
        sensitivity=data.sensitivity - {"none"},
        attribution=data.attribution if consent else (),
    )


def asked(request: Annotations | None, *, consent: bool = True) -> SessionLabel:
    """What a request's own annotations add: the client may know of data that we never saw."""
    if request is None:
        return SessionLabel()
    sources = [attribution.taken(one, CLIENT, "request") for one in request.attribution] if consent else []
    return SessionLabel(
        open_world=request.open_world is True,
        malicious=request.malicious is True,
        sensitivity=(request.returns.sensitivity - {"none"}) if request.returns else frozenset(),
        attribution=attribution.united(sources),
    )


def joined(session: SessionLabel, more: SessionLabel) -> SessionLabel:
    """Both together; the same object where nothing is new."""
    made = SessionLabel(
        open_world=session.open_world or more.open_world,
        malicious=session.malicious or more.malicious,
        sensitivity=_bounded(session.sensitivity | more.sensitivity),
        attribution=session.attribution
        if set(more.attribution) <= set(session.attribution)
        else attribution.united(session.attribution, more.attribution),
    )
    return session if made == session else made


def join(session: SessionLabel, data: DataLabel, *, consent: bool = True) -> SessionLabel:
    """The session after it took in a result."""
    return joined(session, adds(data, consent=consent))


def honour(session: SessionLabel, request: Annotations | None, *, consent: bool = True) -> SessionLabel:
    """The session after a request that carries annotations."""
    return session if request is None else joined(session, asked(request, consent=consent))


def outgoing(session: SessionLabel, *, share: Share = "minimise", propagate: bool = True) -> Mapping[str, Any] | None:
    """`params._meta.annotations` of a call to a server; None where nothing is to be sent.

    All calls with the same label are given the same object.
    """
    if not propagate:
        return None
    known = _sent.get((id(session), share))
    # The label is kept beside it, so its id cannot come to mean another.
    if known is not None and known[0] is session:
        return known[1]
    made = _outgoing(session, share)
    if len(_sent) >= _SENT:
        _sent.clear()
    _sent[id(session), share] = session, made
    return made


# Others can make labels long, so these are few.
_SENT: Final = 256
_sent: Final[dict[tuple[int, Share], tuple[SessionLabel, dict[str, Any] | None]]] = {}


def _outgoing(session: SessionLabel, share: Share) -> dict[str, Any] | None:
    made: dict[str, Any] = {}
    if session.open_world:
        made["openWorldHint"] = True
    if share != "withhold":
        sources = attribution.minimised(session.attribution) if share == "minimise" else session.attribution
        fit = [one for one in sources if attribution.is_attribution(one)]
        if fit:
            made["attribution"] = list(attribution.united(fit, limit=MAX_ATTRIBUTION))
    return made or None


def declassify(session: SessionLabel, parts: Collection[str] = PARTS) -> SessionLabel:
    """The session without these parts of its label. Who may call this, and its record, are the gateway's."""
    wrong = set(parts) - set(PARTS)
    if wrong:
        raise ValueError(f"a session's label has {', '.join(PARTS)}, not {', '.join(sorted(wrong))}")
    return SessionLabel(
        open_world=session.open_world and "open_world" not in parts,
        malicious=session.malicious and "malicious" not in parts,
        sensitivity=frozenset() if "sensitivity" in parts else session.sensitivity,
        attribution=() if "attribution" in parts else session.attribution,
    )


def _bounded(classes: frozenset[str]) -> frozenset[str]:
    """Servers can make up classes without end; beyond a number of them only those that mean something are kept."""
    if len(classes) <= MAX_CLASSES:
        return classes
    known = sorted(classes, key=lambda one: (class_rank(one) == class_rank(UNKNOWN), -class_rank(one), one))
    return frozenset(known[: MAX_CLASSES - 1]) | {UNKNOWN}
