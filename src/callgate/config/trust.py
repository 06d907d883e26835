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


def organisation_label(text: str) -> str | None:
    if _LABEL.fullmatch(text):
        return None
    return 'a label is a name in reverse-DNS form and small letters, such as "com.mycorp.project.classified"'


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

    destination: Annotated[
        tuple[Destination, ...] | None,
        Meta(
            description="Where input of the tool may end up: `ephemeral` (nowhere), `system`, `user`, `internal` "
            "or `public`. A list has all that is possible."
        ),
        KeyRule(single=True),
    ] = None
    outcomes: Annotated[
        tuple[Outcome, ...] | None,
        Meta(description="What a call may bring about: `benign`, `consequential` or `irreversible`."),
        KeyRule(single=True),
    ] = None
    source: Annotated[
        tuple[Source, ...] | None,
        Meta(
            description="Whose words results may hold: `system`, `user`, `internal`, `trustedPublic` or "
            "`untrustedPublic`, which is anybody's."
        ),
        KeyRule(single=True),
    ] = None
    sensitivity: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="How sensitive results may be: `none`, `user`, `pii`, `financial`, `credentials`, "
            "`regulated:SCOPE`, or a label of `trust.labels`."
        ),
        KeyRule(check=data_class, single=True),
    ] = None
    accepts: Annotated[
        tuple[str, ...] | None,
        Meta(description="How sensitive the data may be that is sent to the tool; the same words."),
        KeyRule(check=data_class, single=True),
    ] = None
    open_world: Annotated[
        bool | None,
        Meta(description="Whether the tool reaches systems of others. By default as destination and source say."),
    ] = None
    read_only: Annotated[
        bool | None, Meta(description="Whether the tool only reads; its outcomes are then `benign`.")
    ] = None
    destructive: Annotated[bool | None, Meta(description="Whether the tool may destroy something.")] = None
    critical: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="Arguments that decide who or what a call affects, such as a recipient. By default those that "
            "look like it in the tool's schema."
        ),
        KeyRule(check=rules.word),
    ] = None
    fields: Annotated[
        dict[str, Source],
        Meta(
            description='Whose words single fields of a result are, by path: `{ "**.id" = "system", '
            '"items[].body" = "untrustedPublic" }`.'
        ),
        KeyRule(name=field_path),
    ] = field(default_factory=dict)
    attribution: Annotated[
        tuple[str, ...], Meta(description="Where the tool's data comes from, as URIs."), KeyRule(check=source_uri)
    ] = ()

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

    tool: Annotated[
        str, Meta(description="Name of the tool; `*` stands for any letters."), KeyRule(check=rules.word)
    ] = ""
    when: Annotated[
        str,
        Meta(description='The condition, in CEL over `args`, such as `args.path.startsWith("/public/")`.'),
        KeyRule(check=condition),
    ] = ""

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

    destination: Annotated[
        tuple[Destination, ...] | None,
        Meta(description="Where input may end up. Unknown counts as `public`."),
        KeyRule(single=True),
    ] = None
    outcomes: Annotated[
        tuple[Outcome, ...] | None,
        Meta(description="What calls bring about. Unknown counts as `consequential`, perhaps `irreversible`."),
        KeyRule(single=True),
    ] = None
    source: Annotated[
        tuple[Source, ...] | None,
        Meta(description="Whose words results are. Unknown counts as `untrustedPublic`."),
        KeyRule(single=True),
    ] = None
    sensitivity: Annotated[
        tuple[str, ...] | None,
        Meta(description="How sensitive results are. Unknown counts as `user`."),
        KeyRule(check=data_class, single=True),
    ] = None
    open_world: Annotated[
        bool | None, Meta(description="Whether tools reach systems of others. Unknown counts as yes.")
    ] = None

    @property
    def own_labels(self) -> tuple[str, ...]:
        return tuple(word for word in self.sensitivity or () if _is_own(word))

    def clashes(self) -> Iterator[Clash]:
        for key in ("destination", "outcomes", "source", "sensitivity"):
            if getattr(self, key) == ():
                yield Clash(key, "an empty list leaves nothing possible; take the key away", (key,))


class Trust(Section, frozen=True):
    """Trust: labels follow the data of an agent's session, and a policy decides about each call by them."""

    mode: Annotated[
        Literal["enforce", "observe", "off"],
        Meta(
            description="`enforce`: the policy lets calls pass, has a person approve them, or blocks them. `observe`: "
            "what it would have done is recorded. `off`: nothing of it."
        ),
    ] = "enforce"
    policy: Annotated[
        Path | None,
        Meta(
            description="File with your rules, TOML or JSON. `~` and `${NAME}` are expanded; a relative one is taken "
            "from the folder of this configuration. `callgate policy check` finds mistakes in it."
        ),
        KeyRule(check=rules.word, expand=True, place=rules.place_path),
    ] = None
    default_policy: Annotated[
        bool, Meta(description="Use the rules that come with Callgate, beside your own; the strictest effect wins.")
    ] = True
    sessions: Annotated[
        Literal["agent", "transport"],
        Meta(
            description="What one session is, where the client names none: all calls of one `agent` until it is idle, "
            "or those of one connection (`transport`)."
        ),
    ] = "agent"
    idle_seconds: Annotated[
        float,
        Meta(description="A session of an agent without calls for this long is over; 0 keeps it.", ge=0, le=2592000),
    ] = 1800.0
    remember_results: Annotated[
        int, Meta(description="Of how many results of a session the values are remembered.", ge=1, le=10000)
    ] = 200
    remember_seconds: Annotated[
        float, Meta(description="How long values of results are remembered, as hashes.", ge=60, le=2592000)
    ] = 86400.0
    keep_texts: Annotated[
        bool,
        Meta(
            description="Keep the texts of untrusted results as long as their values, encrypted with a key that is not "
            "in the store, so that a question can quote where a value was found."
        ),
    ] = True
    max_sessions: Annotated[int, Meta(description="Most sessions remembered at once.", ge=1, le=1000000)] = 10000
    scan: Annotated[
        bool, Meta(description="Look through results for instructions and secrets, whatever the server says of them.")
    ] = True
    warn: Annotated[bool, Meta(description="Attach a warning to results that are suspicious.")] = True
    elicit_malicious: Annotated[
        bool, Meta(description="Ask the user, by elicitation, before a suspicious result is handed on.")
    ] = False
    consent: Annotated[
        Literal["given", "required"],
        Meta(
            description="`required`: sources of data are remembered only if the client says in "
            '`_meta["dev.callgate/consent"]` that the user agrees. Labels themselves are always tracked.'
        ),
    ] = "given"
    share: Annotated[
        Share,
        Meta(
            description="What servers are told of where data came from: `share` all, `minimise` it to server or host, "
            "or `withhold` it."
        ),
    ] = "minimise"
    prompt_hooks: Annotated[
        bool,
        Meta(
            description="Take what `callgate prompt` tells a wrapped server for the user's words. `callgate install` "
            "sets up the hooks that run it."
        ),
    ] = True
    labels: Annotated[
        tuple[str, ...],
        Meta(description="Your own classes of data, in reverse-DNS form, such as `com.mycorp.project.classified`."),
        KeyRule(check=organisation_label),
    ] = ()
    defaults: Annotated[
        TrustDefaults, Meta(description="What holds for tools and data without labels, as `[trust.defaults]`.")
    ] = TrustDefaults()


class ServerTrust(Section, frozen=True):
    """What the operator says of a server's tools, and whether the server's own labels are believed."""

    trusted: Annotated[
        bool,
        Meta(
            description="Believe this server's labels. Otherwise they can only make things stricter than they are here."
        ),
    ] = False
    hints: Annotated[
        bool,
        Meta(
            description="Take `readOnlyHint`, `destructiveHint` and `openWorldHint` of this server's tools as their "
            "labels, where nothing better is known."
        ),
    ] = False
    share: Annotated[Share | None, Meta(description="Instead of `trust.share`, for this server.")] = None
    propagate: Annotated[
        bool, Meta(description="Send the session's labels along with calls, in `_meta.annotations`.")
    ] = True
    resolve: Annotated[
        Literal["rules", "server", "off"],
        Meta(
            description="How `tools/resolve` is answered, and calls are judged: by the `rules` here, by asking the "
            "`server` as well, or not at all."
        ),
    ] = "rules"
    annotations: Annotated[
        Path | None,
        Meta(
            description='JSON file with labels, as `{"TOOL": {"annotations": {...}}}`, that count as yours. `~` and '
            "`${NAME}` are expanded; a relative one is taken from the folder of this configuration."
        ),
        KeyRule(check=rules.word, expand=True, place=rules.place_path),
    ] = None
    annotations_key: Annotated[
        str | None,
        Meta(description="Which part of that file is for this server, if it has several."),
        KeyRule(check=rules.word),
    ] = None
    tools: Annotated[
        dict[str, ToolLabels],
        Meta(
            description="Labels of tools, one table `[servers.NAME.trust.tools.TOOL]` each; in a name `*` stands for "
            "any letters, and a tool's own table comes before those."
        ),
        KeyRule(name=rules.word),
    ] = field(default_factory=dict)
    rules: Annotated[
        tuple[ArgumentLabels, ...],
        Meta(description="Labels that depend on a call's arguments, each as `[[servers.NAME.trust.rules]]`."),
    ] = ()

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
