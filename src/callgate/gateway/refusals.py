"""How a client is told that its call was refused: by a JSON-RPC error, or by a result that it shows its model."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from callgate.errors import Refused
from callgate.gate import Context
from callgate.gateway.line import NOBODY_KNOWN, Listening
from callgate.jsonrpc import error_of

Form: TypeAlias = Literal["error", "result"]
REFUSAL_META: Final = "dev.callgate/refusal"
# Who has to prove first who they are is told by the HTTP status, and their client may do something about it.
_UNPROVED: Final = 401


class KnownClient(NamedTuple):
    """A client whose form is known, and how that was found out."""

    title: str
    form: Form
    seen: str


@cache
def known_clients() -> Mapping[str, KnownClient]:
    """By the name that they give themselves."""
    read = tomllib.loads(files("callgate.gateway").joinpath("refusal_forms.toml").read_text("utf-8"))
    return {name: KnownClient(**entry) for name, entry in read.items()}


def form_for(setting: Literal["auto", "error", "result"], context: Context, refused: Refused) -> Form:
    """As configured, else as the client is known to show it. Whoever does SEP-2672 reads the error, whatever is set."""
    client = context.client if isinstance(context, Listening) else NOBODY_KNOWN
    if client.ceremony or refused.status == _UNPROVED:
        return "error"
    if setting != "auto":
        return setting
    # A bridge such as mcp-remote names itself behind its client: `claude-ai (via mcp-remote 0.1.37)`.
    known = known_clients().get(client.name.partition(" (via ")[0])
    return "error" if known is None else known.form


def refusal_result(refused: Refused, context: Context, call: str) -> dict[str, Any]:
    """A refusal as the result of the call: in words for the model and its user, and whole as the error would be."""
    text = (
        f"Callgate refused this call, and it was not run: {refused}\n{refused.advice}\nReason: {refused.reason.value}"
    )
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if isinstance(context, Listening) and context.modern:
        result["resultType"] = "complete"
    return {**result, "_meta": {REFUSAL_META: error_of(refused, call=call)}}
