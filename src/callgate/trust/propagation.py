"""Labels that go along with a call, and whom they name as the source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from callgate.trust.model import Annotations, DataLabel, SessionLabel, class_rank
from callgate.trust.vocabulary import MAX_ATTRIBUTION, MAX_ATTRIBUTION_CHARS, UNKNOWN

# As much as one session remembers; more is told by origins alone.
MAX_SESSION: Final = 256
MORE: Final = "urn:org:callgate:more-sources"

_HOST: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})"
_REST: Final = r"[!-~]*"
FORMS: Final = re.compile(
    rf"(?:mcp://{_HOST}(?::\d{{1,5}})?(?:[/?]{_REST})?"
    rf"|https://(?:{_HOST}|\[[0-9A-Fa-f:.]+\])(?::\d{{1,5}})?(?:/{_REST})?"
    rf"|local://{_HOST}(?:/{_REST})?"
    rf"|local:anonymous(?:/{_REST})?"
    rf"|urn:org:[A-Za-z0-9][A-Za-z0-9._-]*(?::{_REST})?)"
)
_SAFE: Final = "/:@!$&'()*+,;=-._~"


@lru_cache(4096)
def is_attribution(text: str) -> bool:
    """Whether this has one of the forms that we hand on."""
    return len(text) <= MAX_ATTRIBUTION_CHARS and FORMS.fullmatch(text) is not None


@lru_cache(4096)
def of_tool(server: str, tool: str) -> str:
    """A tool of a server, for data whose own source nobody told."""
    host = re.sub(r"[^A-Za-z0-9_.-]", "_", server)[:250]
    if not host[:1].isalnum():
        host = f"_{host}"
    return _cut(f"mcp://{host}/{_quoted(tool, '-._~')}")


def of_file(path: str, host: str | None = None) -> str:
    """A file: of a host that is known, or of nobody's."""
    inside = _quoted(path.replace("\\", "/").lstrip("/"), _SAFE)
    known = host is not None and re.fullmatch(_HOST, host) is not None
    return _cut(f"local://{host}/{inside}" if known else f"local:anonymous/{inside}")


def of_web(url: str) -> str | None:
    """A page, without what may be secret in its address: user, query and fragment. None if it is none of https."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme.lower() != "https" or not host:
        return None
    host = f"[{host}]" if ":" in host else host
    made = f"https://{host}{f':{port}' if port not in (None, 443) else ''}{_quoted(unquote(parts.path), _SAFE)}"
    return _cut(made) if FORMS.fullmatch(made) else None


def taken(text: str, server: str, tool: str) -> str:
    """What a server says of a source, in a form that can be handed on; nothing it says is lost but what is secret."""
    lowered = text[:8].lower()
    if lowered.startswith("https:") and (page := of_web(text)) is not None:
        return page
    if lowered.startswith("file:"):
        return _from_file(text)
    if not lowered.startswith("https:") and is_attribution(text):
        return text
    return _cut(f"{of_tool(server, tool)}?source={_quoted(_without_secrets(text), '')}")


@lru_cache(4096)
def origin(text: str) -> str:
    """The least that still says whose it is: server, host or organisation, without path."""
    if text.startswith("urn:org:"):
        return ":".join(text.split(":")[:3])
    if text.startswith("local:anonymous"):
        return "local:anonymous"
    scheme, found, rest = text.partition("://")
    return f"{scheme}://{re.split(r'[/?#]', rest, maxsplit=1)[0].rpartition('@')[2]}" if found else MORE


def united(*lists: Iterable[str], limit: int = MAX_SESSION) -> tuple[str, ...]:
    """Each source once, in the order they were met; above the limit origins only, then word that there were more."""
    kept = list(dict.fromkeys(one for some in lists for one in some))
    if len(kept) <= limit:
        return tuple(kept)
    kept = list(dict.fromkeys(one if one == MORE else origin(one) for one in kept))
    if len(kept) <= limit:
        return tuple(kept)
    return (*[one for one in kept if one != MORE][: limit - 1], MORE)


def minimised(sources: Iterable[str]) -> tuple[str, ...]:
    """Origins only."""
    return tuple(dict.fromkeys(origin(one) for one in sources))


def _from_file(text: str) -> str:
    rest = text.partition(":")[2]
    if not rest.startswith("//"):
        return of_file(unquote(rest))
    host, _, path = rest[2:].partition("/")
    return of_file(unquote(path), host if host.lower() not in {"", "localhost"} else None)


def _without_secrets(text: str) -> str:
    """An address in some other form, without user and query."""
    scheme, found, rest = text.partition("://")
    if not found:
        return text
    place, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"


def _quoted(text: str, safe: str) -> str:
    return quote(text, safe=safe, errors="replace")


def _cut(text: str) -> str:
    """Bounded, and never in the middle of a percent escape."""
    return re.sub(r"%[0-9A-F]?\Z", "", text[:MAX_ATTRIBUTION_CHARS])


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
    sources = [taken(one, CLIENT, "request") for one in request.attribution] if consent else []
    return SessionLabel(
        open_world=request.open_world is True,
        malicious=request.malicious is True,
        sensitivity=(request.returns.sensitivity - {"none"}) if request.returns else frozenset(),
        attribution=united(sources),
    )


def joined(session: SessionLabel, more: SessionLabel) -> SessionLabel:
    """Both together; the same object where nothing is new."""
    made = SessionLabel(
        open_world=session.open_world or more.open_world,
        malicious=session.malicious or more.malicious,
        sensitivity=_bounded(session.sensitivity | more.sensitivity),
        attribution=session.attribution
        if set(more.attribution) <= set(session.attribution)
        else united(session.attribution, more.attribution),
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
    found: dict[str, Any] = {"openWorldHint": True} if session.open_world else {}
    if share != "withhold":
        sources = minimised(session.attribution) if share == "minimise" else session.attribution
        fit = [one for one in sources if is_attribution(one)]
        if fit:
            found["attribution"] = fit if len(fit) <= MAX_ATTRIBUTION else list(united(fit, limit=MAX_ATTRIBUTION))
    made = found or None
    if len(_sent) >= _SENT:
        _sent.clear()
    _sent[id(session), share] = session, made
    return made


# Others can make labels long, so these are few.
_SENT: Final = 256
_sent: Final[dict[tuple[int, Share], tuple[SessionLabel, dict[str, Any] | None]]] = {}


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
