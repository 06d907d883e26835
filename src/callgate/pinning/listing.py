"""Reading a list of tools, or of prompts, so that no two readers can see two different lists.

An entry goes on to the model as the bytes it came as, so those bytes must mean one thing to every reader: no key twice,
none that differs from a known one only in its case, no text or number without a canonical form. What does not hold is
not repaired: the entry is unfit, and the list goes on without it.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callgate.caching import BoundedCache
from callgate.canonical import canonical
from callgate.errors import MessageError, Reason, UpstreamError
from callgate.jsonrpc import elements, member_spans
from callgate.pinning.document import approval_hash, beside, digest
from callgate.pinning.model import (
    INSTRUCTIONS,
    PENDING_TOOL,
    PROMPT,
    SERVER_INFO,
    ItemKind,
    ListedTool,
    PinningSettings,
    ServerIdentity,
    ServerSeen,
    ToolSeen,
    kind_of,
)
from callgate.pipeline.replies import ToolListReply
from callgate.protocol import CHANGED, PROMPTS_CHANGED

NAME_BYTES: Final = 512
_DEPTH: Final = 100
_TWICE: Final = "the server lists two {kind}s of this name"
# How the specification spells the members; a careless reader could take another spelling for one of them.
MEMBERS: Final = frozenset(
    {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta", "icons", "execution"}
)
_REPLY: Final = frozenset({"jsonrpc", "id", "result", "error"})
_RESULT: Final = frozenset({"tools", "nextCursor", "_meta"})
_PROMPTS: Final = frozenset({"prompts", "nextCursor", "_meta"})
_PROMPT_MEMBERS: Final = frozenset({"name", "title", "description", "arguments", "_meta", "icons"})
_ARGUMENT: Final = frozenset({"name", "title", "description", "required"})
GREETING: Final = frozenset(
    {"instructions", "serverInfo", "capabilities", "protocolVersion", "supportedVersions", "_meta"}
)
_INFO: Final = frozenset({"name", "title", "version", "description", "websiteUrl", "icons"})
# What of `serverInfo` is no text for a model: the first two are part of the server's identity.
INFO_KEPT: Final = frozenset({"name", "version", "icons"})
# Drawn as nothing or as a blank, although they count as letters, marks or symbols: Unicode's default-ignorable code
# points that `isprintable` lets pass, and the Braille cell without a dot.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
_HALF: Final = re.compile("[\ud800-\udfff]")
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class ListMethod(msgspec.Struct, frozen=True):
    """A list that servers are asked for: the method, where the entries stand in its result, and what says that they
    changed."""

    method: str
    member: str
    kind: ItemKind
    changed: str
    # The members of a result that a reader could take another spelling for.
    spelling: frozenset[str]


TOOLS: Final = ListMethod("tools/list", "tools", "tool", CHANGED, _RESULT)
PROMPTS: Final = ListMethod("prompts/list", "prompts", "prompt", PROMPTS_CHANGED, _PROMPTS)


class ListPage(msgspec.Struct, frozen=True):
    """One page of a list: the bytes of each entry, where the array stands in the reply if that was looked for, and the
    next page's cursor."""

    entries: tuple[bytes, ...]
    span: tuple[int, int] | None
    array: bytes
    cursor: str | None
    meta: Mapping[str, Any] = {}


def read_page(reply: bytes, most: int | None = None, of: ListMethod = TOOLS) -> ListPage | None:
    """The page in a reply; None where the reply holds no list at all.

    UpstreamError where it holds one that two readers could read differently. An array of more than `most` bytes is not
    taken apart: the page has no entries then.
    """
    try:
        outer = member_spans(reply) or {}
        if "result" not in {_folded(name) for name in outer}:
            return None
        at = outer.get("result", (0, 0))[0]
        result = reply[at : outer["result"][1]] if "result" in outer else b""
        inner = member_spans(result) or {}
        if "result" in outer and of.member not in {_folded(name) for name in inner}:
            return None
        _check_spelling(outer, inner, of)
        start, end = inner[of.member]
        array = result[start:end]
        entries = elements(array) if most is None or len(array) <= most else [] if array[:1] == b"[" else None
        if entries is None:
            raise _garbled(f"its {of.member} are no array", of)
        cursor, meta = (_value(result, inner, name, of) for name in ("nextCursor", "_meta"))
        if cursor is not None and not isinstance(cursor, str):
            raise _garbled("its cursor is no text", of)
        span = (at + start, at + end)
        return ListPage(tuple(entries), span, array, cursor or None, meta if isinstance(meta, dict) else {})
    except MessageError as error:
        # Not the error's own sentence: it may quote the server, and ours reach the model.
        raise _garbled(error.reason.meaning, of) from None


def page_of(reply: ToolListReply, most: int) -> ListPage:
    """The same of a reply that was read before."""
    result = reply.result
    _check_spelling(reply.value, result, TOOLS)
    entries = tuple([_encode(tool) for tool in result["tools"]])
    array = b"[" + b",".join(entries) + b"]"
    cursor, meta = result.get("nextCursor"), result.get("_meta")
    if cursor is not None and not isinstance(cursor, str):
        raise _garbled("its cursor is no text")
    shown = entries if len(array) <= most else ()
    return ListPage(shown, None, array, cursor or None, meta if isinstance(meta, dict) else {})


def check_readable(text: bytes) -> None:
    """UpstreamError where a text is no message to us, and one to readers that forgive a mark or bytes that are no text.

    WHATWG Encoding §6: a browser's decoder, and so JavaScript's, drops the mark and puts U+FFFD for such bytes.
    """
    if text.lstrip(b" \t\r\n")[:1] == b"{":
        return
    # Some readers of event streams end a line wherever str.splitlines() does.
    for part in text.decode(errors="replace").splitlines():
        try:
            value = json.loads(part.removeprefix("data:").strip(" \ufeff"))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, (dict, list)):
            raise _garbled("it is not written in plain UTF-8")


def _check_spelling(outer: Iterable[str], inner: Iterable[str], of: ListMethod) -> None:
    for names, spelling in ((outer, _REPLY), (inner, of.spelling)):
        if (other := _misspelt(names, spelling)) is not None:
            raise _garbled(f"it holds another spelling of {other!r}", of)


def _misspelt(names: Iterable[str], spelling: frozenset[str]) -> str | None:
    """The member that some reader takes another name for: by case, as Go does, or by words, as Python's SDK does."""
    folded = _FOLDED[spelling]
    return next((folded[other] for name in names if name not in spelling and (other := _folded(name)) in folded), None)


def _garbled(why: str, of: ListMethod = TOOLS) -> UpstreamError:
    text = f"the server's list of {of.member} can be read in more than one way, so none of it was passed on: {why}"
    return UpstreamError(Reason.UPSTREAM_GARBAGE, text)


def _value(result: bytes, spans: Mapping[str, tuple[int, int]], name: str, of: ListMethod) -> Any:
    span = spans.get(name)
    if span is None:
        return None
    try:
        return _pairwise(result[span[0] : span[1]])
    except _Unfit:
        raise _garbled(f"its {name} is no JSON, or has a key twice", of) from None


class EntryReader:
    """Reads entries under one identity; an entry that was read before, byte for byte, is not read again.

    Those of a list of prompts are written as tools would be, under a name of their own.
    """

    def __init__(
        self,
        server_id: str,
        settings: PinningSettings,
        known: Mapping[bytes, ListedTool] | None = None,
        kind: ItemKind = "tool",
    ) -> None:
        self._server_id = server_id
        self._settings = settings
        self._known = known or {}
        self._kind = kind

    def read(self, raw: bytes) -> ListedTool:
        known = self._known.get(raw)
        if known is not None:
            return known
        return self._prompt(raw) if self._kind == "prompt" else self._read(raw)

    def stored(self, name: str, raw: bytes) -> ListedTool:
        """A tool, or another item, from the bytes that were kept of it."""
        return self._read(raw, kind_of(name))

    def written(self, entry: Mapping[str, Any]) -> ListedTool:
        """An item that is no entry of a list."""
        try:
            raw = canonical(entry)
        except MessageError as error:
            return ListedTool(str(entry["name"]), b"", {}, problem=error.reason.meaning)
        return self._read(raw, kind_of(str(entry["name"])))

    def _prompt(self, source: bytes) -> ListedTool:
        if len(source) > self._settings.tool_bytes:
            return msgspec.structs.replace(self._read(source), name=_prompt_name(source), source=source)
        try:
            entry = as_tool(_strictly(source))
        except _Unfit as error:
            return ListedTool(_prompt_name(source), source, {}, problem=str(error), source=source)
        made = self.written(entry)
        return msgspec.structs.replace(made, name=_prompt_name(source) if made.problem else made.name, source=source)

    def read_all(self, entries: Iterable[bytes]) -> list[ListedTool]:
        return [self.read(entry) for entry in entries]

    def _read(self, raw: bytes, kind: ItemKind = "tool") -> ListedTool:
        if len(raw) > self._settings.tool_bytes:
            # Not hashed, not kept: only its name, so that a reviewer can be told.
            most = self._settings.tool_bytes
            return ListedTool(_name_in(raw), b"", {}, problem=f"its definition has {len(raw)} bytes; {most} are taken")
        try:
            entry = _strictly(raw)
            _check(entry, kind)
            if costly := _costly(raw, self._settings.tool_tokens):
                return ListedTool(entry["name"], raw, entry, problem=f"its definition costs {costly}")
            made = approval_hash(self._server_id, entry["name"], entry.get("description"), entry.get("inputSchema"))
            return ListedTool(entry["name"], raw, entry, made, beside(entry))
        except _Unfit as error:
            return ListedTool(_name_in(raw), raw, {}, problem=str(error))
        except MessageError as error:
            # Its sentence may quote the server, and ours reach the model.
            return ListedTool(_name_in(raw), raw, {}, problem=error.reason.meaning)


class _Unfit(MessageError):
    def __init__(self, why: str) -> None:
        super().__init__(Reason.TOOL_UNFIT, why)


def _strictly(raw: bytes) -> dict[str, Any]:
    try:
        value = _decode(raw)
        if _encode(value) != raw:
            value = _pairwise(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _pairwise(raw)
    if not isinstance(value, dict):
        raise _Unfit("it is no object")
    return value


def _pairwise(raw: bytes) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            raise _Unfit("an object in its definition has the same key twice")
        return made

    def constant(token: str) -> float:
        raise _Unfit(f"its definition holds {token}, which is no JSON")

    try:
        return json.loads(raw.decode(), object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError:
        raise _Unfit("its definition is nested too deeply") from None
    except ValueError:
        raise _Unfit("its definition is no JSON") from None


def as_tool(prompt: dict[str, Any]) -> dict[str, Any]:
    """A prompt as it is reviewed: its arguments as fields of a tool, so that texts are where they are looked for."""
    name, given = prompt.get("name"), prompt.get("arguments")
    if not isinstance(name, str) or not name:
        raise _Unfit("it has no name")
    if "inputSchema" in prompt or (other := _misspelt(prompt, _PROMPT_MEMBERS)) is not None:
        word = "arguments" if "inputSchema" in prompt else other
        raise _Unfit(f"it holds another spelling of {word!r}, which some readers take for it")
    fields: dict[str, Any] = {}
    required = []
    for one in given if isinstance(given, list) else [] if given is None else [None]:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str) or one["name"] in fields:
            raise _Unfit("its arguments are no list of arguments, each with a name of its own")
        if (other := _misspelt(one, _ARGUMENT)) is not None:
            raise _Unfit(f"an argument holds another spelling of {other!r}, which some readers take for it")
        dropped = {"name"} if one.get("required") not in (True, False) else {"name", "required"}
        fields[one["name"]] = {"type": "string", **{key: value for key, value in one.items() if key not in dropped}}
        if one.get("required") is True:
            required.append(one["name"])
    entry = {key: value for key, value in prompt.items() if key != "arguments"}
    schema = {"type": "object", "properties": fields, "required": required}
    return {**entry, "name": PROMPT + name, **({"inputSchema": schema} if fields else {})}


def greeting_items(
    result: Mapping[str, Any], infos: Iterable[Mapping[str, Any]], server_id: str, settings: PinningSettings
) -> list[ListedTool]:
    """What a server says of itself when a client connects, for the model to read: its instructions, and what its
    `serverInfo` has beside a name and a version. `infos` are all places that have the latter."""
    reader = EntryReader(server_id, settings)
    found = []
    text = result.get("instructions")
    if settings.instructions and text not in (None, ""):
        found.append(reader.written({"name": INSTRUCTIONS, "description": text}))
    about: dict[str, Any] = {}
    for name, value in ((name, info[name]) for info in infos for name in spoken(info)):
        # Which of two texts was approved, nobody could tell: then it is no text at all, and unfit.
        about[name] = value if about.get(name, value) == value else [about[name], value]
    if settings.server_info and about:
        found.append(reader.written({**about, "name": SERVER_INFO}))
    return found


def spoken(info: Mapping[str, Any]) -> list[str]:
    """The members of a `serverInfo` that have words in them, beside the name and version."""
    return [name for name, value in info.items() if name not in INFO_KEPT and not isinstance(value, int | float | None)]


def check_greeting(result: Iterable[str], info: Iterable[str]) -> None:
    """UpstreamError where a reader could take another member for one that is held back."""
    for names, spelling in ((result, GREETING), (info, _INFO)):
        if (other := _misspelt(names, spelling)) is not None:
            text = f"the server's greeting can be read in more than one way: it holds another spelling of {other!r}"
            raise UpstreamError(Reason.UPSTREAM_GARBAGE, text)


def _prompt_name(source: bytes) -> str:
    name = _name_in(source)
    return PROMPT + name if name else ""


def _check(entry: dict[str, Any], kind: ItemKind = "tool") -> None:
    name, description, schema = entry.get("name"), entry.get("description"), entry.get("inputSchema")
    if not isinstance(name, str) or not name:
        raise _Unfit("it has no name")
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES or not _is_seen(name):
        raise _Unfit("its name is too long or holds characters that cannot be seen")
    if _bare(name) in _OWN or kind_of(name) != kind:
        raise _Unfit("its name is the gateway's own")
    if _HALF.search("".join(entry)):
        raise _Unfit("the name of a member holds half a character")
    if description is not None and not isinstance(description, str):
        raise _Unfit("its description is no text")
    if schema is not None and not isinstance(schema, dict):
        raise _Unfit("its input schema is no object")
    if kind == "tool" and (other := _misspelt(entry, MEMBERS)) is not None:
        raise _Unfit(f"it holds another spelling of {other!r}, which some readers take for it")
    _check_depth(entry)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEPTH):
        level = [
            item
            for node in level
            for item in (node.values() if isinstance(node, dict) else node)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return
    raise _Unfit(f"its definition is nested more than {_DEPTH} levels deep")


def _name_in(raw: bytes) -> str:
    """The name of an entry that is not to be believed, as far as it can be told."""
    try:
        name = json.loads(raw.decode()).get("name")
    except (ValueError, RecursionError, AttributeError):
        return ""
    return name[:NAME_BYTES] if isinstance(name, str) and _is_seen(name) else ""


def _is_seen(name: str) -> bool:
    """Whether all of a name is drawn, and it is more than blanks."""
    return name.isprintable() and not name.isspace() and _UNSEEN.search(name) is None


def _bare(name: str) -> str:
    """A name as people and models remember it: without case, accents, joints and blanks."""
    return "".join(sign for sign in unicodedata.normalize("NFKD", name).casefold() if sign.isalnum())


_OWN: Final = frozenset(map(_bare, (PENDING_TOOL, "callgate_result")))


def _folded(text: str) -> str:
    return text.partition("\0")[0].strip().casefold().replace("_", "").replace("-", "")


_SPELT: Final = (MEMBERS, _REPLY, _RESULT, _PROMPTS, _PROMPT_MEMBERS, _ARGUMENT, GREETING, _INFO)
_FOLDED: Final = {names: {_folded(name): name for name in names} for names in _SPELT}


class ToolListing:
    """A whole list, every page of it, under one identity.

    `problem` says why none of it can be used; then nothing of it need be here but how much it was.
    """

    def __init__(self, tools: Iterable[ListedTool], *, problem: str = "", count: int = 0, size: int = 0) -> None:
        self.problem = problem
        # For whoever reads lists again and again: the arrays it was read from, and what it came to.
        self.arrays: tuple[bytes, ...] = ()
        self.compiled: Callable[[], object] | None = None
        self.tools: dict[str, ListedTool] = {}
        self.nameless = 0
        self.known: dict[bytes, ListedTool] = {}
        self.size = size
        for tool in tools:
            self._add(tool)
        self.count = count or len(self.tools)
        # Two lists with the same digest are the same list; the order of tools is no part of it.
        parts = sorted([t.name, t.approval_hash, t.problem, _named(t.beside)] for t in self.tools.values())
        self.digest = digest([problem, parts])

    def _add(self, tool: ListedTool) -> None:
        self.size += len(tool.raw)
        if tool.raw:
            self.known[tool.wire] = tool
        if not tool.name:
            self.nameless += 1
            return
        other = self.tools.get(tool.name)
        twice = _TWICE.format(kind=kind_of(tool.name))
        if other is not None and (other.raw != tool.raw or other.problem == twice):
            tool = msgspec.structs.replace(tool, problem=twice, approval_hash="")
        self.tools[tool.name] = tool

    @property
    def doubled(self) -> set[str]:
        """Names that stand in it with two texts."""
        return {tool.name for tool in self.tools.values() if tool.problem == _TWICE.format(kind=kind_of(tool.name))}


def doubled(listed: Iterable[ListedTool]) -> set[str]:
    """The same of entries that are not yet a whole list: which of two texts a reader believes nobody can tell."""
    first: dict[str, ListedTool] = {}
    return {tool.name for tool in listed if first.setdefault(tool.name, tool).raw != tool.raw}


def _named(beside: Mapping[str, str]) -> list[list[str]]:
    """With their names: annotations that change places with another member are other annotations."""
    return sorted([name, made] for name, made in beside.items())


class ListSize:
    """How large a list is so far; each text is counted once, however many pages there are.

    `problem` says why the list is larger than may be; empty where it is not.
    """

    def __init__(self, settings: PinningSettings, what: str = "tools") -> None:
        self.problem = ""
        self._what = what
        self.tools = 0
        self.size = 0
        self._settings = settings
        self._tokens = 0
        self._uncounted: list[bytes] = []

    def announce(self, tools: int, size: int) -> bool:
        """Whether so many more may be read at all: nobody has to read a million entries to count them."""
        settings = self._settings
        self.tools += tools
        self.size += size
        if not self.problem and self.tools > settings.list_tools:
            self.problem = f"the server lists {self.tools} {self._what}; {settings.list_tools} are taken"
        if not self.problem and self.size > settings.list_bytes:
            most = settings.list_bytes
            self.problem = f"the server's {self._what} have {self.size} bytes together; {most} are taken"
        return not self.problem

    def count(self, tools: Iterable[ListedTool]) -> None:
        """Entries that were announced, and read. No text has more tokens than bytes: few need counting."""
        most = self._settings.list_tokens
        self._uncounted += [tool.raw for tool in tools]
        if self.problem or self.size <= most:
            return
        self._tokens += sum(map(count_tokens, self._uncounted))
        self._uncounted = []
        if self._tokens > most:
            self.problem = f"the server's {self._what} together cost about {self._tokens} tokens; {most} are taken"


def bound(tools: Sequence[ListedTool], settings: PinningSettings) -> str:
    """Why a list is larger than may be; empty where it is not."""
    measure = ListSize(settings)
    measure.announce(len(tools), sum(len(tool.raw) for tool in tools))
    measure.count(tools)
    return measure.problem


def _costly(text: bytes, most: int) -> str:
    """How many tokens too many a definition has; empty where it has not."""
    cost = 0 if len(text) <= most else count_tokens(text)
    return f"about {cost} tokens; {most} are taken" if cost > most else ""


def count_tokens(text: bytes) -> int:
    """Remembered by its digest: a list is measured again whenever it is looked at."""
    from callgate.inspection import tokens

    return _COUNTED.get_or_make(hashlib.sha256(text).digest(), lambda: tokens(text.decode(errors="replace")))


_COUNTED: Final[BoundedCache[bytes, int]] = BoundedCache(65_536)


class ObservedServer(msgspec.Struct, frozen=True):
    """A server and its tools as they were met at one moment, as `PinRepository.saw` takes them."""

    server: ServerSeen
    tools: list[ToolSeen]
    whole: bool


def observed(
    identity: ServerIdentity, listing: ToolListing, now: int, *, name: str, group: str = "", target: str = ""
) -> ObservedServer:
    """What was observed of a list under an identity at `now`, in milliseconds."""
    server = ServerSeen(
        server_id=identity.server_id,
        lineage=identity.lineage,
        name=name,
        group=group,
        kind=identity.kind,
        chosen=identity.chosen,
        target=target,
        reported=identity.reported,
        warnings=identity.warnings,
        problem=listing.problem,
        digest=listing.digest,
        tools=listing.count,
        size=listing.size,
        first_seen=now,
        last_seen=now,
        bound=identity.bound,
    )
    # Of a list that is not used nothing is kept: it may be as long as a server likes.
    listed = [] if listing.problem else list(listing.tools.values())
    return ObservedServer(server, [_tool(identity.server_id, tool, now) for tool in listed], whole=not listing.problem)


def _tool(server_id: str, tool: ListedTool, now: int) -> ToolSeen:
    return ToolSeen(
        server_id=server_id,
        tool=tool.name,
        approval_hash=tool.approval_hash,
        raw=tool.raw,
        beside=tool.beside,
        problem=tool.problem,
        size=len(tool.raw),
        first_seen=now,
        last_seen=now,
    )
