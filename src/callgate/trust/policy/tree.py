"""A checked CEL expression as a tree that can be looked at.

cel-expr-python hands out its parsed and checked form only as protobuf (`cel.expr.CheckedExpr`); the few fields that are
needed are read here by their numbers, as `cel/expr/checked.proto` and `syntax.proto` give them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

# Fields of `Expr`, which is a union by field number.
_CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = range(3, 10)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class SyntaxNode(NamedTuple):
    """One part of an expression. `name` is the fact, variable, field or function; `parts` what it is applied to."""

    kind: str
    name: str
    parts: tuple[SyntaxNode, ...]
    # Of a constant.
    value: Any
    # Where it stands, in characters of the expression; -1 if it was made by a macro.
    at: int

    def walk(self) -> Iterator[SyntaxNode]:
        """This part and all within it."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.parts)

    def shape(self) -> Any:
        """What it says, wherever it stands and however it is spaced; equal for equal expressions."""
        return (self.kind, self.name, type(self.value).__name__, self.value, *(part.shape() for part in self.parts))


def read_tree(serialized: bytes) -> SyntaxNode:
    """The tree of a compiled expression, from what `Expression.serialize` gives."""
    checked = _fields(_one(_fields(serialized), 2))
    references: dict[int, str] = {}
    for pair in checked.get(2, ()):
        entry = _fields(pair)
        references[_number(entry, 1)] = _text(_fields(_one(entry, 2)), 1)
    positions: dict[int, int] = {}
    for pair in _fields(_one(checked, 5)).get(4, ()):
        entry = _fields(pair)
        positions[_number(entry, 1)] = _number(entry, 2)
    return _Reader(references, positions).node(_one(checked, 4))


class _Reader:
    def __init__(self, references: dict[int, str], positions: dict[int, int]) -> None:
        self._references = references
        self._positions = positions

    def node(self, data: bytes) -> SyntaxNode:
        fields = _fields(data)
        number = _number(fields, 2)
        at = self._positions.get(number, -1)
        # A fact's dotted name is parsed as selections and resolved to one name.
        if (name := self._references.get(number)) and (_SELECT in fields or _IDENT in fields):
            return SyntaxNode("name", name, (), None, at)
        for kind in range(_CONST, _LOOP + 1):
            if kind in fields:
                return self._union(kind, _fields(_one(fields, kind)), at)
        return SyntaxNode("empty", "", (), None, at)

    def _union(self, kind: int, fields: dict[int, list[Any]], at: int) -> SyntaxNode:
        match kind:
            case 3:
                return SyntaxNode("const", "", (), _constant(fields), at)
            case 4:
                return SyntaxNode("name", _text(fields, 1), (), None, at)
            case 5:
                what = "has" if _number(fields, 3) else "select"
                return SyntaxNode(what, _text(fields, 2), (self.node(_one(fields, 1)),), None, at)
            case 6:
                target = [self.node(part) for part in fields.get(1, ())]
                return SyntaxNode("call", _text(fields, 2), (*target, *self._all(fields.get(3, ()))), len(target), at)
            case 7:
                return SyntaxNode("list", "", self._all(fields.get(1, ())), None, at)
            case 8:
                parts = [_fields(entry) for entry in fields.get(2, ())]
                inner = [part for entry in parts for number in (3, 4) for part in entry.get(number, ())]
                return SyntaxNode("struct", _text(fields, 1), self._all(inner), len(parts), at)
        # Range, start, condition, step and result, in this order.
        loop = self._all([_one(fields, number) for number in (2, 4, 5, 6, 7)])
        return SyntaxNode("loop", _text(fields, 1), loop, _text(fields, 8), at)

    def _all(self, parts: Any) -> tuple[SyntaxNode, ...]:
        return tuple(self.node(part) for part in parts)


def _constant(fields: dict[int, list[Any]]) -> Any:
    for number, values in fields.items():
        value = values[-1]
        match number:
            case 2:
                return bool(value)
            case 3:
                return value - 2**64 if value >= 2**63 else value
            case 4:
                return value
            case 5:
                return struct.unpack("<d", value)[0]
            case 6:
                return value.decode()
            case 7:
                return value
    return None


def _fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a protobuf message by number; each as often as it occurs."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(data, at)
        else:
            if wire == _BYTES:
                length, at = _varint(data, at)
            else:
                length = {_FIXED64: 8, _FIXED32: 4}[wire]
            value, at = data[at : at + length], at + length
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


_EMPTY: Final = b""


def _one(fields: dict[int, list[Any]], number: int) -> bytes:
    found = fields.get(number)
    value: bytes = found[-1] if found else _EMPTY
    return value


def _number(fields: dict[int, list[Any]], number: int) -> int:
    found = fields.get(number)
    value: int = found[-1] if found else 0
    return value


def _text(fields: dict[int, list[Any]], number: int) -> str:
    return _one(fields, number).decode()
