"""The label of each tool: what operator, server, hints and defaults say, put together once."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from callgate.trust.effects import decode
from callgate.trust.hints import from_hints
from callgate.trust.model import Annotations, ToolLabel
from callgate.trust.proposing import Spared
from callgate.trust.resolving import ArgumentRule, Matched, matched
from callgate.trust.said import Defaults, Layer, Said, either, said_of, tightened, whole

# Names of tools come from agents: what is remembered of them is bounded.
_REMEMBERED: Final = 20000
_REMEMBERED_CASES: Final = 256
_NOTHING_MATCHED: Final = Matched()


class ServerWords(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator says of a server. `tools` by name or glob; what the annotations file says is among them."""

    trusted: bool = False
    hints: bool = False
    tools: Mapping[str, Said] = {}
    rules: tuple[ArgumentRule, ...] = ()


class _Tool:
    """A tool's rules, and its label for each set of them that held so far."""

    __slots__ = ("approved", "cases", "plain", "rules")

    def __init__(self, rules: tuple[ArgumentRule, ...], approved: _Approval) -> None:
        self.plain: ToolLabel
        self.rules = rules
        self.approved = approved
        self.cases: dict[Matched, ToolLabel] = {}


class Labels:
    """Labels of all tools. `declare` is told of each list of tools; `of` answers for one call."""

    def __init__(self, servers: Mapping[str, ServerWords], defaults: Defaults | None = None) -> None:
        self._servers = dict(servers)
        self._defaults = defaults or Defaults()
        self._declared: dict[str, dict[str, Annotations]] = {}
        self._guessed: dict[str, dict[str, tuple[str, ...]]] = {}
        self._fixed: dict[str, dict[str, Mapping[str, frozenset[str]]]] = {}
        self._spared: dict[str, dict[str, Spared | None]] = {}
        self._approved: dict[str, dict[str, str]] = {}
        self._tools: dict[tuple[str, str, str], _Tool] = {}

    def trusted(self, server: str) -> bool:
        """Whether the operator believes this server's labels."""
        return self._words(server).trusted

    def declare(
        self,
        server: str,
        tools: Mapping[str, Annotations],
        guessed: Mapping[str, tuple[str, ...]] | None = None,
        fixed: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
        spared: Mapping[str, Spared | None] | None = None,
    ) -> None:
        """The server's list, as read by the vocabulary; `guessed` has arguments that look critical by their schema,
        `fixed` the values that the schema has for them."""
        new, guesses, values, lighter = dict(tools), dict(guessed or {}), dict(fixed or {}), dict(spared or {})
        known = (self._declared.get(server), self._guessed.get(server), self._fixed.get(server))
        if (*known, self._spared.get(server)) == (new, guesses, values, lighter):
            return
        self._declared[server], self._guessed[server], self._fixed[server] = new, guesses, values
        self._spared[server] = lighter
        self._tools = {key: tool for key, tool in self._tools.items() if key[0] != server}

    def approve(self, server: str, tools: Mapping[str, str]) -> None:
        """The labels that were approved with a server's tools, for all calls that do not bring theirs."""
        self._approved[server] = dict(tools)

    def declared(self, server: str) -> Mapping[str, Annotations]:
        """What the server's last list said."""
        return self._declared.get(server, {})

    def of(
        self, server: str, tool: str, arguments: Mapping[str, Any] | None = None, approved: str | None = None
    ) -> ToolLabel:
        """The label of a call. `approved` is the one that a person approved with the tool, as its pin keeps it."""
        found = None if approved is None else self._tools.get((server, tool, approved))
        if found is None:
            found = self._found(server, tool, approved)
        if not found.rules:
            return found.plain
        matching = matched(found.rules, arguments or {})
        if (label := found.cases.get(matching)) is not None:
            return label
        label = self._case(server, tool, found, matching)
        if len(found.cases) < _REMEMBERED_CASES:
            found.cases[matching] = label
        return label

    def listed(self, server: str, tool: str, approved: str | None = None) -> ToolLabel:
        """The label of a tool whatever its arguments: the possible values, those of its rules included."""
        found = self._found(server, tool, approved)
        label = found.plain
        for at in range(len(found.rules)):
            label = either(label, self._case(server, tool, found, Matched(held=(at,))))
        return label

    def local(self, server: str, tool: str) -> ToolLabel:
        """The label as if the server had said nothing."""
        layers = self._layers(server, tool, Annotations(), _approval(self._approved.get(server, {}).get(tool, "")))
        return whole(server, tool, layers, self._defaults)

    def voices(self, server: str, tool: str) -> tuple[Layer, ...]:
        """What each of them says of a tool, whether it is believed or not: for people who want to know why."""
        words, declared = self._words(server), self._declared.get(server, {}).get(tool, Annotations())
        said = (
            Layer("operator", operators(words.tools, tool)),
            Layer("review", _approval(self._approved.get(server, {}).get(tool, "")).said),
            Layer("server", said_of(declared)),
            Layer("hints", from_hints(declared)),
        )
        return tuple(layer for layer in said if layer.said != Said())

    def accepts_hints(self, server: str) -> bool:
        """Whether the operator takes this server's hints for labels."""
        return self._words(server).hints

    def _words(self, server: str) -> ServerWords:
        return self._servers.get(server, _NO_WORDS)

    def _found(self, server: str, tool: str, approved: str | None) -> _Tool:
        if approved is None:
            approved = self._approved.get(server, {}).get(tool, "")
        made = self._tools.get((server, tool, approved))
        if made is None:
            rules = tuple(rule for rule in self._words(server).rules if fnmatchcase(tool, rule.tool))
            made = _Tool(rules, _approval(approved))
            made.plain = made.cases[_NOTHING_MATCHED] = self._case(server, tool, made, _NOTHING_MATCHED)
            if len(self._tools) >= _REMEMBERED:
                self._tools.clear()
            self._tools[server, tool, approved] = made
        return made

    def _case(self, server: str, tool: str, of: _Tool, matching: Matched) -> ToolLabel:
        """The label where these rules hold: of several that speak of the same, the first. Undecided ones may hold."""
        held = [of.rules[at].said for at in matching.held]
        label = self._label(server, tool, held, of.approved)
        for at in matching.undecided:
            at_most = sorted((*matching.held, at))
            label = either(label, self._label(server, tool, [of.rules[one].said for one in at_most], of.approved))
        return label

    def _label(self, server: str, tool: str, held: list[Said], approved: _Approval) -> ToolLabel:
        words = self._words(server)
        declared = self._declared.get(server, {}).get(tool, Annotations())
        layers = [*(Layer("operator", said) for said in held), *self._layers(server, tool, declared, approved)]
        label = whole(server, tool, layers, self._defaults)
        guessed = self._guessed.get(server, {}).get(tool, ())
        if not label.critical_declared and guessed:
            label = msgspec.structs.replace(label, critical=guessed)
        if approved.given:
            label = msgspec.structs.replace(label, reviewed=True)
        if fixed := self._fixed.get(server, {}).get(tool):
            label = msgspec.structs.replace(label, fixed=fixed)
        if spared := self._spared.get(server, {}).get(tool):
            label = msgspec.structs.replace(label, spared=spared)
        if declared == Annotations() or (words.trusted and not approved.chosen):
            return label
        if words.trusted:
            # It may say worse of a tool than the review did. What the operator wrote down stands.
            own = _decided([*held, operators(words.tools, tool)])
            return tightened(label, msgspec.structs.replace(said_of(declared), **dict.fromkeys(own)))
        return tightened(label, said_of(declared), decided=_decided(held))

    def _layers(self, server: str, tool: str, declared: Annotations, approved: _Approval) -> list[Layer]:
        words = self._words(server)
        layers = [Layer("operator", operators(words.tools, tool)), Layer("review", approved.said)]
        if words.trusted:
            # A server that is believed knows better than a proposal, and no better than a person.
            layers.insert(2 if approved.chosen else 1, Layer("server", said_of(declared)))
        if words.hints:
            layers.append(Layer("hints", from_hints(declared)))
        return layers


def _decided(several: list[Said]) -> frozenset[str]:
    """What any of them says something about."""
    return frozenset(name for said in several for name in said.__struct_fields__ if getattr(said, name) is not None)


class _Approval(NamedTuple):
    """What an approved label says, and whether a person chose it in the place of the proposal."""

    said: Said
    chosen: bool
    given: bool = True


@lru_cache(4096)
def _approval(approved: str) -> _Approval:
    """Of a label as a pin keeps it; nothing where there is none, or none that can be read."""
    label = decode(approved)
    return _Approval(Said(), chosen=False, given=False) if label is None else _Approval(label.said(), label.chosen)


def operators(tools: Mapping[str, Said], tool: str) -> Said:
    """What an operator's table says of a tool: its own entry first, then each glob that fits, in their order."""
    said = tools.get(tool) or Said()
    for pattern, more in tools.items():
        if pattern != tool and fnmatchcase(tool, pattern):
            said = said.over(more)
    return said


_NO_WORDS: Final = ServerWords()
