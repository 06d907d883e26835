"""A result as the SDK's client has it: what a model may read of it, and the same result with a warning in front."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

from callgate.errors import place
from callgate.inspection.scanner import ResultScanner
from callgate.trust.model import WARNING_META
from callgate.trust.results import masked, unpacked, warning_text

R = TypeVar("R", bound=BaseModel)

ITEMS: Final = 1_000
CHARS: Final = 4 * 1024 * 1024
LEAVES: Final = 20_000
DEPTH: Final = 64
_WORDED: Final = frozenset({"text", "name", "title", "description", "uri"})


class ReadResult(msgspec.Struct, frozen=True):
    """What came back of a request. `cut`: some of it was too much and was not read. `unread`: some is no text."""

    body: dict[str, Any]
    texts: tuple[str, ...]
    structured: Any = None
    cut: bool = False
    unread: bool = False

    @property
    def named(self) -> tuple[str, ...]:
        """Its texts for who looks for secrets: each string of the structured content stands behind its name."""
        found = list(self.texts)
        open_: list[Any] = [self.structured]
        while open_:
            one = open_.pop()
            if isinstance(one, dict):
                found += [f"{name}: {value}" for name, value in one.items() if isinstance(value, str)]
                open_ += one.values()
            elif isinstance(one, list):
                open_ += one
        return tuple(found)


def read_result(result: BaseModel) -> ReadResult:
    """A result of a tool, a resource or a prompt."""
    body = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    structured = body.get("structuredContent")
    rest = {name: value for name, value in body.items() if name not in {"structuredContent", "_meta"}}
    many = any(isinstance(items, list) and len(items) > ITEMS for items in rest.values())
    gathered = _Gathered()
    texts = [text for part in _texts_in(rest) for text in gathered.strings(part)]
    if structured is not None and (strings := "\n".join(gathered.strings(structured))):
        texts.append(strings)
    held, unread = unpacked(texts, body, LEAVES)
    return ReadResult(body, (*texts, *held), structured, cut=many or gathered.cut, unread=unread)


def strings(body: dict[str, Any]) -> Iterator[str]:
    """Every text of a result that a model may come to see."""
    rest = {name: value for name, value in body.items() if name not in {"structuredContent", "_meta"}}
    gathered = _Gathered()
    for part in _texts_in(rest):
        yield from gathered.strings(part)
    yield from gathered.strings(body.get("structuredContent"))


def read_notice(params: BaseModel) -> tuple[str, ...]:
    """The words of a notification."""
    body = params.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"progress_token", "meta", "level"})
    worded = {name: value for name, value in body.items() if isinstance(value, str | dict | list) and value}
    return tuple(_Gathered().strings(worded)) if worded else ()


def read_error(error: BaseException) -> ReadResult:
    """An error: a model may read every word of it, and some of them are the server's."""
    data = getattr(error, "data", None)
    gathered = _Gathered()
    texts = [str(error)[:CHARS], *gathered.strings(data)]
    return ReadResult(
        {}, tuple(text for text in texts if text), data if isinstance(data, dict | list) else None, gathered.cut
    )


def with_warning(result: CallToolResult, warnings: Sequence[str]) -> CallToolResult:
    """The result with a first item that tells the model to take what follows as data; `structuredContent` stays."""
    text, reasons = warning_text(warnings)
    meta = {**(result.meta or {}), WARNING_META: {"flagged": True, "reasons": reasons}}
    return result.model_copy(update={"content": [TextContent(type="text", text=text), *result.content], "meta": meta})


def without_secrets(result: R, secrets: Mapping[str, str]) -> R:
    """The result with words in the place of each secret, in whatever string of it."""
    body = json.dumps(result.model_dump(by_alias=True, mode="json", exclude_none=True)).encode()
    return type(result).model_validate_json(masked(body, secrets))


def _texts_in(part: Any) -> Iterator[str]:
    """The words in items of content, in resources and in messages; not their bytes."""
    if isinstance(part, dict):
        for name, value in part.items():
            if isinstance(value, dict | list) and name != "_meta":
                yield from _texts_in(value)
            elif name in _WORDED and isinstance(value, str):
                yield value
    elif isinstance(part, list):
        for one in part[:ITEMS]:
            yield from _texts_in(one)


class _Gathered:
    """Strings and keys of decoded values, as far as the bounds go."""

    def __init__(self) -> None:
        self.cut = False
        self._room = CHARS
        self._leaves = LEAVES

    def strings(self, value: Any) -> Iterator[str]:
        stack: list[tuple[Any, int]] = [(value, 0)]
        while stack:
            part, depth = stack.pop()
            self._leaves -= 1
            if self._room <= 0 or self._leaves <= 0:
                self.cut = True
                return
            if isinstance(part, str):
                if part:
                    yield part[: self._room]
                self._room -= len(part)
            elif isinstance(part, dict | list) and depth >= DEPTH:
                self.cut = True
            elif isinstance(part, dict):
                stack.extend((each, depth + 1) for pair in reversed(part.items()) for each in reversed(pair))
            elif isinstance(part, list):
                stack.extend((each, depth + 1) for each in reversed(part))


log = logging.getLogger("callgate.trust")
Detector: TypeAlias = Callable[[Sequence[str]], Iterable[str]]
BROKEN: Final = "A detector failed on this text, so it was not looked at."
_WARNINGS: Final = 16
_CHARS: Final = 300
# Made when it is first needed: it reads all rules.
_scanner: Final = cache(ResultScanner)


def suspicious(texts: Sequence[str]) -> tuple[str, ...]:
    """Orders to a model, hidden text, keys and tokens."""
    return _scanner().scan(texts)


def steering(texts: Sequence[str]) -> tuple[str, ...]:
    """Orders to a model and hidden text."""
    return _scanner().steering(texts)


def secrets(texts: Iterable[str]) -> dict[str, str]:
    """Each key, token and password in some texts, with the words for what it is."""
    return _scanner().secrets(texts)


def secret(text: str) -> bool:
    """Whether a text holds something of the shape of a key, token or password."""
    return _scanner().secret(text)


# For who makes results, and for who reads them: there, secrets are masked.
DETECTORS: Final[tuple[Detector, ...]] = (suspicious,)
OF_READERS: Final[tuple[Detector, ...]] = (steering,)


def scan(detectors: Iterable[Detector], texts: Sequence[str]) -> tuple[str, ...]:
    """What all of them found, bounded. One that breaks has not cleared the text."""
    found: dict[str, None] = {}
    for detector in detectors:
        try:
            found |= dict.fromkeys(str(one)[:_CHARS] for one in detector(texts))
        except Exception as error:  # noqa: BLE001 - the text is a stranger's: whatever it breaks is told
            log.error("a detector failed: %s", place(error))
            found[BROKEN] = None
    return tuple(found)[:_WARNINGS]
