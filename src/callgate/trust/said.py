"""A label in parts: what the operator, a server or its hints say of a tool, and how the parts make a whole.

The operator's word comes first. A server that the operator trusts speaks next, then its hints where the operator
accepted them, then the defaults. A server that is not trusted can only make the whole stricter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from callgate.trust.model import DESTINATIONS, OUTCOMES, SOURCES, UNTRUSTED, Annotations, Origin, ToolLabel
from callgate.trust.vocabulary import MAX_ATTRIBUTION, UNKNOWN

T = TypeVar("T")

_NOTHING: Final[frozenset[str]] = frozenset()
# Fields of Said that hold sets of words in an order, from the most harmless.
_ORDERED: Final = {"destination": DESTINATIONS, "outcomes": OUTCOMES, "source": SOURCES}


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says of a tool; None where nothing is said."""

    destination: frozenset[str] | None = None
    outcomes: frozenset[str] | None = None
    source: frozenset[str] | None = None
    sensitivity: frozenset[str] | None = None
    accepts: frozenset[str] | None = None
    open_world: bool | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    malicious: bool | None = None
    critical: tuple[str, ...] | None = None
    fields: Mapping[str, str] | None = None
    attribution: tuple[str, ...] | None = None

    def over(self, other: Said) -> Said:
        """This, and what only the other one says."""
        return Said(
            **{
                name: getattr(self, name) if getattr(self, name) is not None else getattr(other, name)
                for name in self.__struct_fields__
            }
        )


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What holds where nobody says anything; None leaves it unknown, which is the strictest."""

    destination: frozenset[str] | None = None
    outcomes: frozenset[str] | None = None
    source: frozenset[str] | None = None
    sensitivity: frozenset[str] | None = None
    open_world: bool | None = None


# Unknown, as sets: may be irreversible, may go anywhere, may be anybody's words; somebody's data, of no class we know.
WORST: Final = Defaults(
    destination=frozenset({"public"}),
    outcomes=frozenset({"consequential", "irreversible"}),
    source=frozenset({UNTRUSTED}),
    sensitivity=frozenset({"user"}),
    open_world=True,
)


def said_of(annotations: Annotations) -> Said:
    """What annotations say, in the same form as the operator's own words."""
    given, returned = annotations.input, annotations.returns
    return Said(
        destination=given.destination if given else None,
        outcomes=given.outcomes if given else None,
        accepts=given.sensitivity if given else None,
        source=returned.source if returned else None,
        sensitivity=returned.sensitivity if returned else None,
        open_world=annotations.open_world,
        read_only=annotations.read_only,
        destructive=annotations.destructive,
        malicious=annotations.malicious,
        critical=annotations.critical,
        fields=annotations.fields or None,
        attribution=annotations.attribution or None,
    )


class Layer(msgspec.Struct, frozen=True):
    """What one of them says."""

    origin: Origin
    said: Said


class Whole:
    """A label being put together; `layers` from the first word to the last."""

    def __init__(self, layers: Sequence[Layer], defaults: Defaults) -> None:
        self._layers = layers
        self._defaults = defaults
        self.origins: dict[str, Origin] = {}
        self.unknown: set[str] = set()

    def words(self, name: str) -> frozenset[str]:
        """The possible values of a field; a word that nobody knows makes it unknown again."""
        found, origin = self._first(name)
        if found is not None and origin is not None and found and found <= set(_ORDERED[name]):
            self.origins[name] = origin
            return found
        return self._default(name, misread=found is not None)

    def classes(self) -> frozenset[str]:
        found, origin = self._first("sensitivity")
        if not found or origin is None:
            return self._default("sensitivity", misread=False)
        self.origins["sensitivity"] = origin
        if UNKNOWN in found:
            self.unknown.add("sensitivity")
        return found

    def accepts(self) -> frozenset[str]:
        """What may be sent to it. Nothing is the strictest, and so is what nobody said."""
        found, origin = self._first("accepts")
        if found is None or origin is None or UNKNOWN in found:
            self.unknown.add("accepts")
            return _NOTHING
        self.origins["accepts"] = origin
        return found

    def flag(self, name: str, otherwise: bool) -> bool:
        found, origin = self._first(name)
        if found is None or origin is None:
            return otherwise
        self.origins[name] = origin
        return bool(found)

    def plain(self, name: str, otherwise: T) -> T:
        found, origin = self._first(name)
        if found is None or origin is None:
            return otherwise
        self.origins[name] = origin
        return found  # type: ignore[return-value]

    def _first(self, name: str) -> tuple[frozenset[str] | None, Origin | None]:
        for layer in self._layers:
            found = getattr(layer.said, name)
            if found is not None:
                return found, layer.origin
        return None, None

    def _default(self, name: str, *, misread: bool) -> frozenset[str]:
        chosen: frozenset[str] | None = getattr(self._defaults, name)
        self.origins[name] = "default"
        if chosen is not None and not misread:
            return chosen
        self.unknown.add(name)
        worst: frozenset[str] = getattr(WORST, name)
        return worst


def whole(server: str, tool: str, layers: Sequence[Layer], defaults: Defaults) -> ToolLabel:
    """The label that these layers make."""
    made = Whole(layers, defaults)
    if made.flag("read_only", otherwise=False):
        # Who says that a tool only reads has said what it does.
        layers = [*layers, Layer(made.origins["read_only"], Said(outcomes=frozenset({"benign"}), destructive=False))]
        made = Whole(layers, defaults)
    destinations, outcomes, sources = made.words("destination"), made.words("outcomes"), made.words("source")
    told = made.unknown.isdisjoint({"destination", "source"})
    reaches = "public" in destinations or UNTRUSTED in sources
    otherwise = reaches if told or defaults.open_world is None else defaults.open_world
    return ToolLabel(
        server=server,
        tool=tool,
        destinations=destinations,
        outcomes=outcomes,
        accepts=made.accepts(),
        sources=sources,
        returns=made.classes(),
        read_only=made.flag("read_only", otherwise=False),
        destructive=made.flag("destructive", otherwise="irreversible" in outcomes),
        open_world=made.flag("open_world", otherwise=otherwise),
        malicious=made.flag("malicious", otherwise=False),
        critical=made.plain("critical", ()),
        critical_declared="critical" in made.origins,
        fields=made.plain("fields", {}),
        attribution=made.plain("attribution", ()),
        unknown=frozenset(made.unknown),
        origins=made.origins,
    )


def tightened(label: ToolLabel, said: Said, *, decided: frozenset[str] = _NOTHING) -> ToolLabel:
    """The label with the words of a server that is not trusted: never looser in anything.

    `decided` names what an argument rule of the operator decided: there a list of possible values that holds the
    decided one says nothing against it.
    """
    origins, unknown = dict(label.origins), set(label.unknown)

    def words(name: str, base: frozenset[str]) -> frozenset[str]:
        declared = getattr(said, name)
        if declared is None or (name in decided and base <= declared <= set(_ORDERED[name])):
            return base
        joined = _stricter(base, declared, _ORDERED[name], unknown=name in unknown)
        if joined is None:
            unknown.add(name)
            joined = base | {_ORDERED[name][-1]}
        elif joined != base or (name in unknown and joined == declared):
            unknown.discard(name)
        if joined != base:
            origins[name] = "server"
        return joined

    destinations = words("destination", label.destinations)
    outcomes = words("outcomes", label.outcomes)
    sources = words("source", label.sources)
    returns = label.returns | ((said.sensitivity or _NOTHING) - {"none"})
    if returns != label.returns:
        returns -= {"none"}
        origins["sensitivity"] = "server"
        unknown = (unknown | {"sensitivity"}) if UNKNOWN in returns else (unknown - {"sensitivity"})
    strangers = {path: UNTRUSTED for path, source in (said.fields or {}).items() if source == UNTRUSTED}
    return msgspec.structs.replace(
        label,
        destinations=destinations,
        outcomes=outcomes,
        sources=sources,
        returns=returns,
        accepts=label.accepts & said.accepts if said.accepts is not None else label.accepts,
        read_only=label.read_only and said.read_only is not False,
        destructive=label.destructive or (said.destructive is True and "destructive" not in decided),
        open_world=label.open_world or (said.open_world is True and "open_world" not in decided),
        malicious=label.malicious or said.malicious is True,
        critical=tuple(dict.fromkeys((*label.critical, *(said.critical or ())))),
        fields={**label.fields, **strangers} if strangers else label.fields,
        attribution=tuple(dict.fromkeys((*label.attribution, *(said.attribution or ()))))[:MAX_ATTRIBUTION],
        unknown=frozenset(unknown),
        origins=origins,
    )


def either(one: ToolLabel, other: ToolLabel) -> ToolLabel:
    """What holds if nobody can tell which of the two does: everything that is possible in one of them."""
    fields = {
        path: one.fields[path] if one.fields.get(path) == other.fields.get(path) else UNTRUSTED
        for path in one.fields.keys() & other.fields.keys()
    }
    strangers = {
        path: UNTRUSTED for some in (one, other) for path, source in some.fields.items() if source == UNTRUSTED
    }
    return msgspec.structs.replace(
        one,
        destinations=one.destinations | other.destinations,
        outcomes=one.outcomes | other.outcomes,
        accepts=one.accepts & other.accepts,
        sources=one.sources | other.sources,
        returns=one.returns | other.returns,
        read_only=one.read_only and other.read_only,
        destructive=one.destructive or other.destructive,
        open_world=one.open_world or other.open_world,
        malicious=one.malicious or other.malicious,
        critical=tuple(dict.fromkeys((*one.critical, *other.critical))),
        fields=fields | strangers,
        attribution=tuple(dict.fromkeys((*one.attribution, *other.attribution)))[:MAX_ATTRIBUTION],
        unknown=one.unknown | other.unknown,
    )


def _stricter(
    base: frozenset[str], declared: frozenset[str], order: tuple[str, ...], *, unknown: bool
) -> frozenset[str] | None:
    """The two together where `declared` is worse; None where it has a word that nobody knows."""
    if not declared <= set(order):
        return None
    rank = {word: at for at, word in enumerate(order)}
    worst = max((rank.get(word, len(order)) for word in base), default=len(order))
    if unknown:
        # Said by somebody, and no better than what was assumed.
        return declared if max(map(rank.__getitem__, declared), default=-1) >= worst else base
    worse = frozenset(word for word in declared if rank[word] > worst)
    return base | worse if worse else base
