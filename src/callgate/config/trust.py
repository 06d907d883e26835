"""Labels of data and tools, and what is done with them: `[trust]` and `[servers.NAME.trust]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, field

from callgate.config import rules
from callgate.config.rules import Clash, KeyRule, Section

# The words of trust/vocabulary.py; this package does not know the rooms, and a test holds the two together.
Destination: TypeAlias = Literal["ephemeral", "system", "user", "internal", "public"]
Outcome: TypeAlias = Literal["benign", "consequential", "irreversible"]
Source: TypeAlias = Literal["system", "user", "internal", "trustedPublic", "untrustedPublic"]
Share: TypeAlias = Literal["share", "minimise", "withhold"]

CLASSES: Final = ("none", "user", "pii", "financial", "credentials")
_REGULATED: Final = re.compile(r"regulated(:[!-~](?:[ -~]{0,62}[!-~])?)?")
_LABEL: Final = re.compile(r"(?=.{3,128}\Z)[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9_-]*)+")
_SOURCE: Final = re.compile(r"(mcp://|https://|local://|local:anonymous/|urn:org:)[!-~]+")
_WHEN_CHARS: Final = 4096


organisation_label: Final = rules.matching(
    _LABEL.pattern,
    'a label is a name in reverse-DNS form and small letters, such as "com.mycorp.project.classified"',
)


def data_class(text: str) -> str | None:
    if text in CLASSES or _REGULATED.fullmatch(text) or _LABEL.fullmatch(text):
        return None
    return (
        f"expected one of {', '.join(CLASSES)}, regulated:SCOPE such as regulated:HIPAA, "
        "or a label of yours that [trust] names in `labels`"
    )


def source_uri(text: str) -> str | None:
    if _SOURCE.fullmatch(text) and len(text) <= 512:
        return None
    return 'expected a URI such as "https://host/path", "mcp://server/tool", "local://host/path" or "urn:org:acme:hr"'


def condition(text: str) -> str | None:
    if not text.strip():
        return 'expected a condition over the arguments, such as args.path.startsWith("/public/")'
    return None if len(text) <= _WHEN_CHARS else f"a condition has up to {_WHEN_CHARS} characters"


def field_path(text: str) -> str | None:
    if 0 < len(text) <= 256 and not re.search(r"[\x00-\x1f\x7f]", text):
        return None
    return 'expected the path of a field in a result, such as "items[].body" or "**.id"'


def _is_own(word: str) -> bool:
    """Whether this is an organisation's own label."""
    return word not in CLASSES and _REGULATED.fullmatch(word) is None


class ToolLabels(Section, frozen=True):
    """What a tool does with data, as the operator knows it. What is left out is unknown, and counts as the worst."""

    destination: Annotated[tuple[Destination, ...] | None, KeyRule(single=True)] = None
    """Where input of the tool may end up: `ephemeral` (nowhere), `system`, `user`, `internal` or `public`. A list has
    all that is possible."""
    outcomes: Annotated[tuple[Outcome, ...] | None, KeyRule(single=True)] = None
    """What a call may bring about: `benign`, `consequential` or `irreversible`."""
    source: Annotated[tuple[Source, ...] | None, KeyRule(single=True)] = None
    """Whose words results may hold: `system`, `user`, `internal`, `trustedPublic` or `untrustedPublic`, which is
    anybody's."""
    sensitivity: Annotated[tuple[str, ...] | None, KeyRule(check=data_class, single=True)] = None
    """How sensitive results may be: `none`, `user`, `pii`, `financial`, `credentials`, `regulated:SCOPE`, or a label of
    `trust.labels`."""
    accepts: Annotated[tuple[str, ...] | None, KeyRule(check=data_class, single=True)] = None
    """How sensitive the data may be that is sent to the tool; the same words."""
    open_world: bool | None = None
    """Whether the tool reaches systems of others. By default as destination and source say."""
    read_only: bool | None = None
    """Whether the tool only reads; its outcomes are then `benign`."""
    destructive: bool | None = None
    """Whether the tool may destroy something."""
    critical: Annotated[tuple[str, ...] | None, KeyRule(check=rules.word)] = None
    """Arguments that decide who or what a call affects, such as a recipient. By default those that look like it in the
    tool's schema."""
    fields: Annotated[dict[str, Source], KeyRule(name=field_path)] = field(default_factory=dict)
    """Whose words single fields of a result are, by path: `{ "**.id" = "system", "items[].body" = "untrustedPublic"
    }`."""
    attribution: Annotated[tuple[str, ...], KeyRule(check=source_uri)] = ()
    """Where the tool's data comes from, as URIs."""

    def clashes(self) -> Iterator[Clash]:
        for key in ("destination", "outcomes", "source", "sensitivity"):
            if getattr(self, key) == ():
                yield Clash(key, "an empty list leaves nothing possible; take the key away if it is unknown", (key,))
        if self.read_only and self.outcomes is not None and set(self.outcomes) != {"benign"}:
            text = "a tool that only reads has no outcome but benign; take one of the two away"
            yield Clash("read_only", text, ("read_only", "outcomes"))

    @property
    def is_empty(self) -> bool:
        return self == type(self)()


class ArgumentLabels(ToolLabels, frozen=True):
    """What a tool does with data if its arguments fulfil a condition; the first rule that fits decides each key."""

    tool: Annotated[str, KeyRule(check=rules.word)] = ""
    """Name of the tool; `*` stands for any letters."""
    when: Annotated[str, KeyRule(check=condition)] = ""
    """The condition, in CEL over `args`, such as `args.path.startsWith("/public/")`."""

    def clashes(self) -> Iterator[Clash]:
        yield from super().clashes()
        for key in ("tool", "when"):
            if not getattr(self, key):
                example = '"read_file"' if key == "tool" else "'args.path.startsWith(\"/public/\")'"
                yield Clash("", f"a rule needs {key} = {example}", (key,))
        if self.tool and self.when and ToolLabels(**{key: getattr(self, key) for key in _LABEL_KEYS}).is_empty:
            text = 'this rule says nothing of the tool; add what holds then, such as destination = "user"'
            yield Clash("", text, _LABEL_KEYS)


_LABEL_KEYS: Final = ToolLabels.__struct_fields__


class TrustDefaults(Section, frozen=True):
    """What holds for tools and data that nobody labelled. Left out, it is unknown and counts as the worst."""

    destination: Annotated[tuple[Destination, ...] | None, KeyRule(single=True)] = None
    """Where input may end up. Unknown counts as `public`."""
    outcomes: Annotated[tuple[Outcome, ...] | None, KeyRule(single=True)] = None
    """What calls bring about. Unknown counts as `consequential`, perhaps `irreversible`."""
    source: Annotated[tuple[Source, ...] | None, KeyRule(single=True)] = None
    """Whose words results are. Unknown counts as `untrustedPublic`."""
    sensitivity: Annotated[tuple[str, ...] | None, KeyRule(check=data_class, single=True)] = None
    """How sensitive results are. Unknown counts as `user`."""
    open_world: bool | None = None
    """Whether tools reach systems of others. Unknown counts as yes."""

    @property
    def own_labels(self) -> tuple[str, ...]:
        return tuple(word for word in self.sensitivity or () if _is_own(word))

    def clashes(self) -> Iterator[Clash]:
        for key in ("destination", "outcomes", "source", "sensitivity"):
            if getattr(self, key) == ():
                yield Clash(key, "an empty list leaves nothing possible; take the key away", (key,))


class Trust(Section, frozen=True):
    """Trust: labels follow the data of an agent's session, and a policy decides about each call by them."""

    mode: Literal["enforce", "observe", "off"] = "enforce"
    """`enforce`: the policy lets calls pass, has a person approve them, or blocks them. `observe`: what it would have
    done is recorded. `off`: nothing of it."""
    policy: Annotated[Path | None, KeyRule(check=rules.word, expand=True, place=rules.place_path)] = None
    """File with your rules, TOML or JSON. `~` and `${NAME}` are expanded; a relative one is taken from the folder of
    this configuration. `callgate policy check` finds mistakes in it."""
    default_policy: bool = True
    """Use the rules that come with Callgate, beside your own; the strictest effect wins."""
    sessions: Literal["agent", "transport"] = "agent"
    """What one session is, where the client names none: all calls of one `agent` until it is idle, or those of one
    connection (`transport`)."""
    idle_seconds: Annotated[float, Meta(ge=0, le=2592000)] = 1800.0
    """A session of an agent without calls for this long is over; 0 keeps it."""
    remember_results: Annotated[int, Meta(ge=1, le=10000)] = 200
    """Of how many results of a session the values are remembered."""
    remember_seconds: Annotated[float, Meta(ge=60, le=2592000)] = 86400.0
    """How long values of results are remembered, as hashes."""
    keep_texts: bool = True
    """Keep the texts of untrusted results as long as their values, encrypted with a key that is not in the store, so
    that a question can quote where a value was found."""
    max_sessions: Annotated[int, Meta(ge=1, le=1000000)] = 10000
    """Most sessions remembered at once."""
    scan: bool = True
    """Look through results for instructions and secrets, whatever the server says of them."""
    warn: bool = True
    """Attach a warning to results that are suspicious."""
    elicit_malicious: bool = False
    """Ask the user, by elicitation, before a suspicious result is handed on."""
    consent: Literal["given", "required"] = "given"
    """`required`: sources of data are remembered only if the client says in `_meta["dev.callgate/consent"]` that the
    user agrees. Labels themselves are always tracked."""
    share: Share = "minimise"
    """What servers are told of where data came from: `share` all, `minimise` it to server or host, or `withhold` it."""
    prompt_hooks: bool = True
    """Take what `callgate prompt` tells a wrapped server for the user's words. `callgate install` sets up the hooks
    that run it."""
    labels: Annotated[tuple[str, ...], KeyRule(check=organisation_label)] = ()
    """Your own classes of data, in reverse-DNS form, such as `com.mycorp.project.classified`."""
    defaults: TrustDefaults = TrustDefaults()
    """What holds for tools and data without labels, as `[trust.defaults]`."""


class ServerTrust(Section, frozen=True):
    """What the operator says of a server's tools, and whether the server's own labels are believed."""

    trusted: bool = False
    """Believe this server's labels. Otherwise they can only make things stricter than they are here."""
    hints: bool = False
    """Take `readOnlyHint`, `destructiveHint` and `openWorldHint` of this server's tools as their labels, where nothing
    better is known."""
    share: Share | None = None
    """Instead of `trust.share`, for this server."""
    propagate: bool = True
    """Send the session's labels along with calls, in `_meta.annotations`."""
    resolve: Literal["rules", "server", "off"] = "rules"
    """How `tools/resolve` is answered, and calls are judged: by the `rules` here, by asking the `server` as well, or
    not at all."""
    annotations: Annotated[Path | None, KeyRule(check=rules.word, expand=True, place=rules.place_path)] = None
    """JSON file with labels, as `{"TOOL": {"annotations": {...}}}`, that count as yours. `~` and `${NAME}` are
    expanded; a relative one is taken from the folder of this configuration."""
    annotations_key: Annotated[str | None, KeyRule(check=rules.word)] = None
    """Which part of that file is for this server, if it has several."""
    tools: Annotated[dict[str, ToolLabels], KeyRule(name=rules.word)] = field(default_factory=dict)
    """Labels of tools, one table `[servers.NAME.trust.tools.TOOL]` each; in a name `*` stands for any letters, and a
    tool's own table comes before those."""
    rules: tuple[ArgumentLabels, ...] = ()
    """Labels that depend on a call's arguments, each as `[[servers.NAME.trust.rules]]`."""

    def clashes(self) -> Iterator[Clash]:
        if self.annotations_key is not None and self.annotations is None:
            text = 'this names a part of a file, and there is none; add annotations = "FILE.json"'
            yield Clash("annotations_key", text, ("annotations", "annotations_key"))

    def used_labels(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Each class of data that is no standard one, with its place in this table."""
        places: list[tuple[tuple[str | int, ...], ToolLabels]] = [
            *((("tools", name), entry) for name, entry in self.tools.items()),
            *((("rules", at), entry) for at, entry in enumerate(self.rules)),
        ]
        for place, entry in places:
            for key in ("sensitivity", "accepts"):
                for word in getattr(entry, key) or ():
                    if _is_own(word):
                        yield (*place, key), word


def undefined_labels(
    trust: Trust, used: Iterable[tuple[tuple[str | int, ...], str]], base: tuple[str, ...]
) -> Iterator[Clash]:
    """Labels of an organisation that nobody defined: most likely misspelt."""
    for place, word in used:
        if word not in trust.labels:
            text = f'nobody defined the label "{word}"; add it to labels in [trust]'
            yield Clash((*base, *place), text, ("trust", "servers"))
