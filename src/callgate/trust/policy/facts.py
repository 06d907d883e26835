"""What rules can read of a call or a result, and what of it goes on record."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from callgate.trust.model import (
    CLASSES,
    DESTINATIONS,
    FOUND,
    OUTCOMES,
    SOURCES,
    UNTRUSTED,
    Annotations,
    DataLabel,
    Found,
    Provenance,
    SessionLabel,
    ToolLabel,
    Traced,
    ValueKind,
    class_rank,
    highest,
)

Kind: TypeAlias = Literal["bool", "int", "string", "strings", "values", "found", "args"]
KINDS: Final = ("identity", "quantity", "time", "link", "text")
# The members of one entry of a list of values.
MEMBERS: Final = {"path": (), "kind": KINDS, "found": FOUND}
_RESTRICTED: Final = class_rank("regulated")
_NOBODY: Final = SessionLabel()
_NOTHING: Final = Provenance()


class Facts(msgspec.Struct):
    """All that is known of one call when it is decided, and of its result once there is one.

    `carried` are the classes of the data that the arguments were taken from; None where nobody can tell, and then
    everything that the session has read may be in them. `args` of None are arguments that were not kept.
    """

    tool: ToolLabel
    session: SessionLabel = _NOBODY
    provenance: Provenance = _NOTHING
    args: Mapping[str, Any] | None = {}
    # What the client wrote into the request's own `_meta.annotations`.
    request: Annotations | None = None
    # `id`, `client`, `transport`, `source`, `key`, `directory` and `principal`, as far as they are known.
    agent: Mapping[str, str] = {}
    carried: frozenset[str] | None = None
    steps: int = 0
    result: DataLabel | None = None
    # Whether something among the arguments looks like a credential.
    secrets: bool = False
    # Bytes of the arguments in their canonical form, where those were made: then they need not be weighed again.
    size: int | None = None

    def with_result(self, label: DataLabel) -> Facts:
        """The same call, now that its result is there."""
        return msgspec.structs.replace(self, result=label)

    def to_record(self) -> dict[str, Any]:
        """The facts as the log keeps them, without the arguments: the record has those in its own way."""
        from callgate.trust.policy.facts import to_record

        return to_record(self)

    @staticmethod
    def from_record(record: object, args: Mapping[str, Any] | None = None) -> Facts:
        """The facts that a record holds; raises ValueError if it holds none."""
        from callgate.trust.policy.facts import from_record

        return from_record(record, args)


class Fact(NamedTuple):
    """One fact: its name and type, how it is found, and what to tell people about it."""

    name: str
    kind: Kind
    get: Callable[[Facts], Hashable]
    about: str
    example: str
    # The words that it can hold, where they are known beforehand.
    words: tuple[str, ...] = ()
    # Only rules on results can read it.
    result: bool = False
    # The attributes of `Facts` that it is worked out from, where those can be compared themselves.
    roots: tuple[str, ...] = ()


@lru_cache(1024)
def _listed(words: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(words))


def _possible(words: frozenset[str], known: tuple[str, ...], worst: tuple[str, ...], *, unknown: bool) -> Hashable:
    # A word that nobody knows may mean the worst, and so may none at all.
    if unknown or not words or not words.issubset(known):
        words = words.union(worst)
    return tuple(sorted(words))


def _destinations(facts: Facts) -> Hashable:
    tool = facts.tool
    return _possible(tool.destinations, DESTINATIONS, ("public",), unknown="destination" in tool.unknown)


def _outcomes(facts: Facts) -> Hashable:
    tool = facts.tool
    return _possible(tool.outcomes, OUTCOMES, ("consequential", "irreversible"), unknown="outcomes" in tool.unknown)


def _sources(facts: Facts) -> Hashable:
    tool = facts.tool
    return _possible(tool.sources, SOURCES, (UNTRUSTED,), unknown="source" in tool.unknown)


def destination(tool: ToolLabel) -> str:
    """The farthest place that the input may reach; `public` if nobody knows."""
    farthest = tool.destination
    return farthest if farthest in DESTINATIONS and "destination" not in tool.unknown else "public"


def outcome(tool: ToolLabel) -> str:
    """The gravest outcome; a word that nobody knows counts as irreversible."""
    gravest = tool.outcome
    return gravest if gravest in OUTCOMES else "irreversible"


def _egress(facts: Facts) -> bool:
    return (facts.args is None or bool(facts.args)) and destination(facts.tool) == "public"


def _consequential(facts: Facts) -> bool:
    return outcome(facts.tool) != "benign" or _egress(facts)


def _risky(facts: Facts) -> bool:
    tool = facts.tool
    if outcome(tool) == "benign":
        return False
    return tool.may_be_irreversible or destination(tool) in ("internal", "public")


def _carried(facts: Facts) -> frozenset[str]:
    return facts.session.sensitivity if facts.carried is None else facts.carried


def _plain_class(word: str) -> str:
    return "regulated" if word.startswith("regulated:") else word


def _request_open(facts: Facts) -> bool:
    return facts.session.open_world or (facts.request is not None and bool(facts.request.open_world))


def _request_malicious(facts: Facts) -> bool:
    return facts.session.malicious or (facts.request is not None and bool(facts.request.malicious))


def _request_attribution(facts: Facts) -> Hashable:
    own = facts.session.attribution
    return own if facts.request is None else tuple(dict.fromkeys((*own, *facts.request.attribution)))


def _entries(values: tuple[Traced, ...], *, critical: bool) -> Hashable:
    return tuple([(one.path, one.kind, one.found) for one in values if one.critical or not critical])


def _worst(facts: Facts) -> str:
    found = [one.found for one in facts.provenance.values if one.critical]
    return max(found, key=FOUND.index, default="none")


def _paths(facts: Facts, found: str) -> Hashable:
    return tuple([one.path for one in facts.provenance.values if one.critical and one.found == found])


def _foreign_links(facts: Facts) -> Hashable:
    links = facts.provenance.foreign_links
    return tuple([one.path for one in links]) if links else ()


def _found(facts: Facts) -> Hashable:
    worst: dict[str, str] = {}
    for one in facts.provenance.values:
        if one.path not in worst or FOUND.index(one.found) > FOUND.index(worst[one.path]):
            worst[one.path] = one.found
    return tuple(worst.items())


def _agent(name: str) -> Callable[[Facts], str]:
    return lambda facts: facts.agent.get(name, "")


def _of_result(read: Callable[[DataLabel], Hashable], missing: Hashable) -> Callable[[Facts], Hashable]:
    return lambda facts: missing if facts.result is None else read(facts.result)


def _result_sources(label: DataLabel) -> Hashable:
    return _possible(label.sources, SOURCES, (UNTRUSTED,), unknown=False)


TABLE: Final[tuple[Fact, ...]] = (
    Fact("session.open_world", "bool", lambda f: f.session.open_world,
         "The agent's session has read something that a stranger may have written.", "session.open_world",
         roots=("session.open_world",)),
    Fact("session.malicious", "bool", lambda f: f.session.malicious,
         "Something that the session has read was flagged as malicious.", "session.malicious",
         roots=("session.malicious",)),
    Fact("session.sensitivity", "strings", lambda f: _listed(f.session.sensitivity),
         "The classes of all data that the session has read.", '"financial" in session.sensitivity', CLASSES,
         roots=("session.sensitivity",)),
    Fact("session.attribution", "strings", lambda f: f.session.attribution,
         "Where that data came from, as URIs.", 'session.attribution.exists(uri, uri.startsWith("https://"))',
         roots=("session.attribution",)),
    Fact("session.steps", "int", lambda f: f.steps,
         "How many calls the session has made so far.", "session.steps > 100"),
    Fact("request.open_world", "bool", _request_open,
         "The request's openWorldHint: what the client wrote into it, joined with the session.", "request.open_world"),
    Fact("request.malicious", "bool", _request_malicious,
         "The request's maliciousActivityHint, joined with the session.", "request.malicious"),
    Fact("request.attribution", "strings", _request_attribution,
         "The request's attribution, joined with the session.", '"urn:org:acme:hr" in request.attribution'),
    Fact("tool.server", "string", lambda f: f.tool.server,
         "The server's name in the configuration.", 'tool.server == "mail"'),
    Fact("tool.name", "string", lambda f: f.tool.tool,
         "The tool's name, as the server lists it.", 'tool.name.startsWith("delete_")'),
    Fact("tool.destination", "string", lambda f: destination(f.tool),
         "The farthest place that the arguments may reach; `public` if nobody says.",
         'tool.destination == "public"', DESTINATIONS),
    Fact("tool.destinations", "strings", _destinations,
         "Every place that they may reach.", '"internal" in tool.destinations', DESTINATIONS),
    Fact("tool.outcomes", "string", lambda f: outcome(f.tool),
         "The gravest outcome of the call; `consequential` if nobody says.",
         'tool.outcomes == "irreversible"', OUTCOMES),
    Fact("tool.possible_outcomes", "strings", _outcomes,
         "Every possible outcome; `irreversible` is among them if nobody says.",
         '"irreversible" in tool.possible_outcomes', OUTCOMES),
    Fact("tool.sources", "strings", _sources,
         "Where the result may come from.", '"untrustedPublic" in tool.sources', SOURCES),
    Fact("tool.accepts", "strings", lambda f: _listed(f.tool.accepts),
         "The classes of data that the tool is made for.",
         "data.sensitivity.all(one, one in tool.accepts)", CLASSES),
    Fact("tool.returns", "strings", lambda f: _listed(f.tool.returns),
         "The classes of data that the result may hold.", '"pii" in tool.returns', CLASSES),
    Fact("tool.read_only", "bool", lambda f: f.tool.read_only, "The tool changes nothing.", "!tool.read_only"),
    Fact("tool.destructive", "bool", lambda f: f.tool.destructive,
         "The tool may delete or overwrite.", "tool.destructive"),
    Fact("tool.open_world", "bool", lambda f: f.tool.open_world,
         "The tool deals with the world outside.", "tool.open_world"),
    Fact("tool.malicious", "bool", lambda f: f.tool.malicious,
         "The tool says that it may return malicious content.", "tool.malicious"),
    Fact("tool.egress", "bool", _egress,
         "The call carries arguments to where anybody may read them.", 'tool.egress && "pii" in data.sensitivity'),
    Fact("tool.consequential", "bool", _consequential,
         "The call does more than look something up: its outcome is not benign, or it is egress.",
         "tool.consequential"),
    Fact("tool.risky", "bool", _risky,
         "The call does what harm may follow from: something leaves, cannot be undone or runs. Neither a read nor a "
         "change that stays with the user and can be undone.", "tool.risky"),
    Fact("tool.reviewed", "bool", lambda f: f.tool.reviewed or "outcomes" not in f.tool.unknown,
         "Somebody said what the tool does, or approved it knowing that nothing tells it. Not true of tools that were "
         "approved before reviews asked for that.", "tool.risky && tool.reviewed"),
    Fact("tool.known", "bool", lambda f: not f.tool.unknown,
         "Somebody said everything about the tool that labels can say.", "!tool.known"),
    Fact("tool.unknown", "strings", lambda f: _listed(f.tool.unknown),
         "What nobody said.", '"destination" in tool.unknown',
         ("destination", "outcomes", "source", "sensitivity", "accepts")),
    Fact("data.sensitivity", "strings", lambda f: _listed(_carried(f)),
         "The classes of the data in the arguments; of all that the session has read where that cannot be told.",
         '"com.example.board-papers" in data.sensitivity', CLASSES,
         roots=("carried", "session.sensitivity")),
    Fact("data.highest", "string", lambda f: _plain_class(highest(_carried(f))),
         "The most sensitive of them; `regulated` for every regulated class.", 'data.highest == "credentials"', CLASSES,
         roots=("carried", "session.sensitivity")),
    Fact("data.restricted", "bool", lambda f: any(class_rank(one) >= _RESTRICTED for one in _carried(f)),
         "Regulated data, credentials, an organisation's own class or an unknown one is among them.",
         "data.restricted && tool.egress",
         roots=("carried", "session.sensitivity")),
    Fact("data.secrets", "bool", lambda f: f.secrets,
         "Something among the arguments has the shape of a key, token or password.", "tool.egress && data.secrets",
         roots=("secrets",)),
    Fact("provenance.critical", "values", lambda f: _entries(f.provenance.values, critical=True),
         "The values that decide who or what is affected, each with `path`, `kind` and `found`.",
         'provenance.critical.exists(v, v.kind == "link" && v.found == "nowhere")'),
    Fact("provenance.values", "values", lambda f: _entries(f.provenance.values, critical=False),
         "All values among the arguments, in the same form.",
         'provenance.values.exists(v, v.kind == "text" && v.found == "untrusted")'),
    Fact("provenance.worst", "string", _worst,
         "The least trustworthy place that a critical value was found in; `none` without critical values.",
         'provenance.worst == "untrusted"', ("none", *FOUND)),
    Fact("provenance.untrusted", "strings", lambda f: _paths(f, "untrusted"),
         "Paths of critical values met only in text that a stranger may have written.",
         '"to" in provenance.untrusted'),
    Fact("provenance.unknown", "strings", lambda f: _paths(f, "nowhere"),
         "Paths of critical values that were met nowhere before.", "size(provenance.unknown) > 0"),
    Fact("provenance.foreign_links", "strings", _foreign_links,
         "Paths of texts with a link or address that only a stranger's text had.",
         "size(provenance.foreign_links) > 0"),
    Fact("provenance.new_links", "strings", lambda f: f.provenance.new_links,
         "Paths of links that were met nowhere as they stand, and whose host is not the user's.",
         "tool.egress && size(provenance.new_links) > 0", roots=("provenance.new_links",)),
    Fact("provenance.untraceable", "bool", lambda f: f.provenance.untraceable,
         "Nothing among the arguments tells whom or what the call affects, and the user's words do not ask for it.",
         "tool.risky && provenance.untraceable", roots=("provenance.untraceable",)),
    Fact("provenance.far_reaching", "strings", lambda f: f.provenance.far_reaching,
         "Paths of arguments with which a change empties something, or writes to a hidden or a system file, where "
         "programs start from; none where the user named the place.",
         "size(provenance.far_reaching) > 0", roots=("provenance.far_reaching",)),
    Fact("provenance.strange_texts", "strings", lambda f: f.provenance.strange_texts,
         "Paths of texts that are a stranger's, in a call of a tool whose arguments decide something.",
         "tool.risky && size(provenance.strange_texts) > 0", roots=("provenance.strange_texts",)),
    Fact("provenance.texts_read", "bool", lambda f: f.provenance.texts_read,
         "The session has read running text from any source: it may hold an order of somebody else's.",
         "tool.risky && provenance.texts_read", roots=("provenance.texts_read",)),
    Fact("provenance.unasked", "bool", lambda f: f.provenance.unasked,
         "What the user wrote is known, and it does not ask for what the tool does. A question asks for nothing.",
         "tool.risky && provenance.unasked", roots=("provenance.unasked",)),
    Fact("provenance.others_than_named", "strings", lambda f: f.provenance.others_than_named,
         "Paths of ids where the user's latest words name another one: the order 417, and this is 418.",
         "tool.consequential && size(provenance.others_than_named) > 0", roots=("provenance.others_than_named",)),
    Fact("provenance.guarded", "strings", lambda f: f.provenance.guarded,
         "Classes of guarded details in the arguments that results had and the user did not write.",
         '"financial" in provenance.guarded', ("financial", "regulated", "credentials"), roots=("provenance.guarded",)),
    Fact("provenance.own_words", "bool", lambda f: f.provenance.any_own_words,
         "Something in the call is the user's own.", "!provenance.own_words",
         roots=("provenance.any_own_words",)),
    Fact("provenance.prompt_known", "bool", lambda f: f.provenance.prompt_known,
         "The host passed on what the user wrote.", "provenance.prompt_known",
         roots=("provenance.prompt_known",)),
    Fact("provenance.args", "found", _found,
         "For the path of each value, where it was found.", 'provenance.args["to"] == "prompt"'),
    Fact("args", "args", lambda _: (),
         "The arguments of the call. Ask `has(args.NAME)` first: a rule that reads what is not there fails.",
         "has(args.amount) && args.amount > 1000"),
    Fact("agent.id", "string", _agent("id"), "Who calls.", 'agent.id == "reports"'),
    Fact("agent.client", "string", _agent("client"), "The name that the client gives itself.",
         'agent.client == "inspector"'),
    Fact("agent.transport", "string", _agent("transport"), "`http` or `stdio`.", 'agent.transport == "stdio"',
         ("http", "stdio")),
    Fact("agent.source", "string", _agent("source"),
         "How the agent proved who it is: by a signature, a token or a key; `local` for stdio, `none` if it did not.",
         'agent.source == "none"', ("web-bot-auth", "oauth", "api-key", "local", "none")),
    Fact("agent.key", "string", _agent("key"),
         "Thumbprint of the agent's key, id of its API key, or subject of its token.", 'agent.key == "5f0c…"'),
    Fact("agent.directory", "string", _agent("directory"), "The directory that the agent's key is published in.",
         'agent.directory.startsWith("https://agent.example/")'),
    Fact("agent.principal", "string", _agent("principal"), "On whose behalf the agent acts, by a token of theirs.",
         'agent.principal == ""'),
    Fact("result.open_world", "bool", _of_result(lambda r: r.open_world, missing=True),
         "A stranger may have written what is in the result.", "result.open_world", result=True),
    Fact("result.malicious", "bool", _of_result(lambda r: r.malicious, missing=False),
         "The result was flagged as malicious, by its server or by the inspection.", "result.malicious", result=True),
    Fact("result.source", "strings", _of_result(_result_sources, (UNTRUSTED,)),
         "Where the result may come from.", '"untrustedPublic" in result.source', SOURCES, result=True),
    Fact("result.sensitivity", "strings", _of_result(lambda r: _listed(r.sensitivity), ("unknown",)),
         "The classes of the data in it.", '"credentials" in result.sensitivity', CLASSES, result=True),
    Fact("result.attribution", "strings", _of_result(lambda r: r.attribution, ()),
         "Where the result says that it comes from.",
         'result.attribution.exists(uri, uri.startsWith("https://"))', result=True),
    Fact("result.warnings", "strings", _of_result(lambda r: r.warnings, ()),
         "What was found suspicious in it, a sentence each.", "size(result.warnings) > 1", result=True),
    Fact("result.secrets", "strings", _of_result(lambda r: r.secrets, ()),
         "What kinds of keys, tokens and passwords are in it.", '"a private key" in result.secrets', result=True),
)  # fmt: skip
FACTS: Final[Mapping[str, Fact]] = {fact.name: fact for fact in TABLE}
# What differs from call to call: a ruling kept for later must not depend on it.
VARYING: Final = frozenset({"args", "session.steps"})
# What is worked out from the values of a call alone.
VALUE_FACTS: Final = frozenset(
    f"provenance.{name}" for name in ("critical", "values", "worst", "untrusted", "unknown", "args")
)
_VALUE: Final = attrgetter("path", "kind", "found", "critical")


def all_values(facts: Facts) -> Hashable:
    """The values of a call, as far as any fact depends on them."""
    values = facts.provenance.values
    return tuple(map(_VALUE, values)) if values else ()


def plain(kind: Kind, value: Any) -> Any:
    """A fact's value as conditions and JSON take it."""
    if kind == "strings":
        return list(value)
    if kind == "values":
        return [{"path": path, "kind": what, "found": found} for path, what, found in value]
    return dict(value) if kind == "found" else value


L = TypeVar("L", SessionLabel, ToolLabel)

VERSION: Final = 1
# A record is written for every call: lists that others can make long are cut, and say so.
MAX_VALUES: Final = 200
MAX_URIS: Final = 50


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
    others_than_named: tuple[str, ...] = ()
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
        "others_than_named": provenance.others_than_named[:MAX_VALUES],
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
            recorded.others_than_named,
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
