"""Which tools a request calls, as far as its body tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from callgate.jsonrpc import TOOLS_CALL, Batch, Limits, parse, tool_call

MAX_CALLS: Final = 100
# The tools that a body calls: a name, several, or None where it calls none.
ExtractTools: TypeAlias = Callable[[bytes], str | Sequence[str] | None]

_LIMITS: Final = Limits(batch=MAX_CALLS)


def called_tools(body: bytes) -> tuple[str, ...]:
    """The tools of a JSON-RPC message or batch, each element on its own (WB-041, WB-043); raises BadMessage.

    What cannot be read as one message for everybody is refused: a rule for tools would prove nothing about it.
    """
    if not body:
        return ()
    read = parse(body, _LIMITS)
    messages = read.messages if isinstance(read, Batch) else (read,)
    return tuple(tool_call(message).name for message in messages if message.method == TOOLS_CALL)
