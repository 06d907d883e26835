"""Calls as people write them down, to try a policy on. `cases` reads them, and tells what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callgate.trust.model import Annotations, DataLabel, Found, Provenance, SessionLabel, ToolLabel, Traced, ValueKind
from callgate.trust.policy.facts import Facts

_OWN: Final = frozenset({"endorsed", "prompt", "clean", "trusted", "linked"})
_ALWAYS: Final = ("destination", "outcomes", "source", "sensitivity", "accepts")

Words: TypeAlias = str | list[str]
# What the configuration says of a tool, for a call that brings no labels of its own.
LabelOf: TypeAlias = Callable[[str, str, Mapping[str, Any]], ToolLabel]


class CallLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's labels; what is left out is unknown."""

    destination: Words | None = None
    outcomes: Words | None = None
    source: Words | None = None
    sensitivity: Words | None = None
    accepts: Words | None = None
    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    malicious: bool = False


class CallClaims(msgspec.Struct, frozen=True, kw_only=True):
    """What the client says of its request."""

    open_world: bool = False
    malicious: bool = False
    attribution: list[str] = []


class CallSession(CallClaims, frozen=True, kw_only=True):
    """What a session has taken in."""

    sensitivity: Words = []
    steps: int = 0


class CallValue(msgspec.Struct, frozen=True, kw_only=True):
    """Where one value among the arguments was found."""

    path: str
    found: Found
    kind: ValueKind = "identity"
    critical: bool = True


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A result."""

    open_world: bool = True
    malicious: bool = False
    source: Words = []
    sensitivity: Words = []
    attribution: list[str] = []
    warnings: list[str] = []
    secrets: list[str] = []


class WrittenCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call, and all that is known of it."""

    tool: str
    server: str = ""
    arguments: dict[str, Any] = {}
    labels: CallLabels | None = None
    session: CallSession = CallSession()
    request: CallClaims | None = None
    provenance: dict[str, Found] | list[CallValue] = []
    foreign_links: list[str] = []
    own_words: bool | None = None
    prompt_known: bool = False
    carried: Words | None = None
    agent: dict[str, str] = {}
    result: Outcome | None = None

    def facts(self, label_of: LabelOf | None = None) -> Facts:
        """The facts of this call; a tool without labels is as the configuration says, or unknown."""
        if self.labels is None and label_of is not None:
            tool = label_of(self.server, self.tool, self.arguments)
        else:
            tool = _tool(self.server, self.tool, self.labels or CallLabels())
        session, request, result = self.session, self.request, self.result
        return Facts(
            tool=tool,
            session=SessionLabel(
                session.open_world, session.malicious, _set(session.sensitivity), tuple(session.attribution)
            ),
            provenance=self._provenance(),
            args=self.arguments,
            request=None
            if request is None
            else Annotations(
                open_world=request.open_world, malicious=request.malicious, attribution=tuple(request.attribution)
            ),
            agent=self.agent,
            carried=None if self.carried is None else _set(self.carried),
            steps=session.steps,
            result=None
            if result is None
            else DataLabel(
                result.open_world,
                result.malicious,
                _set(result.source),
                _set(result.sensitivity),
                tuple(result.attribution),
                tuple(result.warnings),
                tuple(result.secrets),
            ),
        )

    def _provenance(self) -> Provenance:
        given = self.provenance
        values = (
            [CallValue(path=path, found=found) for path, found in given.items()] if isinstance(given, dict) else given
        )
        own = any(one.found in _OWN and one.kind not in {"time", "quantity"} for one in values)
        return Provenance(
            tuple(Traced(one.path, one.kind, one.found, one.critical, "") for one in values),
            tuple(Traced(path, "link", "untrusted", False, "") for path in self.foreign_links),  # noqa: FBT003
            own if self.own_words is None else self.own_words,
            self.prompt_known,
        )


class Case(WrittenCall, frozen=True, kw_only=True):
    """A call, and what the policy has to say of it."""

    name: str
    expect: Literal["allow", "ask", "block", "warn", "mask", "quarantine"]
    # The rule that has to be the one, if that matters.
    rule: str | None = None


def _tool(server: str, tool: str, labels: CallLabels) -> ToolLabel:
    unknown = frozenset(name for name in _ALWAYS if getattr(labels, name) is None)
    return ToolLabel(
        server=server,
        tool=tool,
        destinations=_set(labels.destination or "public"),
        outcomes=_set(labels.outcomes or ["consequential", "irreversible"]),
        accepts=_set(labels.accepts or []),
        sources=_set(labels.source or "untrustedPublic"),
        returns=_set(labels.sensitivity or "user"),
        read_only=labels.read_only,
        destructive=labels.destructive,
        open_world=labels.open_world,
        malicious=labels.malicious,
        unknown=unknown,
    )


def _set(words: Words) -> frozenset[str]:
    return frozenset([words] if isinstance(words, str) else words)
