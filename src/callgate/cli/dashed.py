"""Ids that begin with a dash, as one in sixty-four does, taken for ids and not for options."""

from __future__ import annotations

import re
from typing import Any, Final

from typer.core import TyperCommand

# No id has it, so that the parser does not see an option.
_MARK: Final = "="
_DASHED: Final = re.compile(r"-[A-Za-z0-9_-]+")
# A short option may have its value right behind it; the ids of both kinds are longer than that.
_WHOLE: Final = 16


class TakesIds(TyperCommand):
    """A command with an id among its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {
            name: not getattr(option, "is_flag", False) and not getattr(option, "count", False)
            for option in self.get_params(ctx)
            if option.param_type_name == "option"
            for name in (*option.opts, *option.secondary_opts)
        }
        return super().parse_args(ctx, _marked(args, known))


def _marked(args: list[str], known: dict[str, bool]) -> list[str]:
    """`known` says of each option whether a value follows. The id is the first of the arguments."""
    for place, word in enumerate(args):
        if place and known.get(args[place - 1], False):
            continue
        if word == "--" or not word.startswith("-"):
            break
        if _is_id(word, known):
            return [*args[:place], _MARK + word, *args[place + 1 :]]
    return args


def _is_id(word: str, known: dict[str, bool]) -> bool:
    if word in known or not _DASHED.fullmatch(word):
        return False
    return len(word) >= _WHOLE or not (word.startswith("--") or word[:2] in known)


def as_typed(word: str) -> str:
    """The id as it was typed."""
    return word.removeprefix(_MARK)
