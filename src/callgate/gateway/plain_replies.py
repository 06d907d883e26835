"""Replies that hold texts and nothing else, as most do: told at a glance, and certain."""

from __future__ import annotations

from typing import Any, Final

# Of more items than these a closer look is worth its time.
_ITEMS: Final = 64


def plain_texts(raw: bytes, message: Any) -> list[str] | None:
    """The text of each item of a reply, decoded strictly, where there is nothing else to read in it and none of its
    keys came twice; None where that may be otherwise.

    What the decoder kept has to account for every quote: two around each string, and those that stand inside of one,
    each written with a backslash. A key that was lost on the way leaves two more.
    """
    if type(message) is not dict or len(message) != 3 or message.get("jsonrpc") != "2.0":
        return None
    rpc_id, result = message.get("id"), message.get("result")
    if (type(rpc_id) is not int and type(rpc_id) is not str) or type(result) is not dict:
        return None
    content, others = result.get("content"), len(result) - 1
    if type(content) is not list or len(content) > _ITEMS:
        return None
    # `jsonrpc` and its value, `id`, `result`, `content`, and four for each item.
    strings = 5 + 4 * len(content)
    if others:
        if type(result.get("isError")) is bool:
            strings, others = strings + 1, others - 1
        if result.get("resultType") == "complete":
            strings, others = strings + 2, others - 1
    texts = _texts(content)
    if others or texts is None:
        return None
    inside = texts
    if type(rpc_id) is str:
        strings, inside = strings + 1, [*texts, rpc_id]
    quotes = 2 * strings
    if b"\\" in raw:
        # A quote that is written as a number would make up for one that was lost.
        if b"\\u0022" in raw:
            return None
        quotes += "".join(inside).count('"')
    return texts if raw.count(b'"') == quotes else None


def _texts(content: list[Any]) -> list[str] | None:
    texts = []
    for item in content:
        if type(item) is not dict or len(item) != 2 or item.get("type") != "text":
            return None
        text = item.get("text")
        if type(text) is not str:
            return None
        texts.append(text)
    return texts
