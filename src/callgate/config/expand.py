"""`${NAME}` and `${NAME:-default}` in values; `$${` stands for a plain `${`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PIECE: Final = re.compile(r"\$\$\{|\$\{(?P<body>[^}]*)(?P<end>\}?)")
_BODY: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-.*)?", re.DOTALL)


class ExpansionError(ValueError):
    """A reference that cannot be replaced; the text says why."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with its references replaced. What a variable holds is not expanded again."""

    def replace(match: re.Match[str]) -> str:
        if match["body"] is None:
            return "${"
        if not match["end"]:
            raise ExpansionError('"${" is never closed by "}"; write "$${" for a plain "${"')
        body = _BODY.fullmatch(match["body"])
        if body is None:
            raise ExpansionError(
                "a reference is ${NAME} or ${NAME:-default}, with a name of letters, digits and _; "
                'write "$${" for a plain "${"'
            )
        name, default = body["name"], body["default"]
        value = environ.get(name)
        if default is not None:
            return value or default[2:]
        if value is None:
            raise ExpansionError(
                f"the environment variable {name} is not set; set it, or give a default with ${{{name}:-...}}"
            )
        return value

    return _PIECE.sub(replace, text)
