"""The pin: SHA-256 over the RFC 8785 form of server_id, tool_name, description and input_schema, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from callgate.canonical import canonical

# Shown and logged when they change, but no part of the approval; everything that is not one of the four is here.
_HASHED: Final = frozenset({"name", "description", "inputSchema"})


def approval_hash(server_id: str, tool_name: str, description: Any, input_schema: Any) -> str:
    """The hash that an approval is bound to; a member that the server leaves out counts as null.

    The description goes in as it was received: no trimming, no Unicode normalisation (RFC 8785 §3.1 has none either).
    Raises MessageError where a value has no canonical form.
    """
    document = {
        "server_id": server_id,
        "tool_name": tool_name,
        "description": description,
        "input_schema": input_schema,
    }
    return digest(document)


def beside(entry: Mapping[str, Any]) -> dict[str, str]:
    """A digest for each member that the approval does not cover."""
    return {name: digest(value) for name, value in entry.items() if name not in _HASHED}


def entry_digest(approval_hash: str, beside: Mapping[str, str]) -> str:
    """What a reviewer has before them, all of it: the text that the approval is bound to, and every member beside it.

    Empty where there is nothing to approve.
    """
    return digest([approval_hash, dict(beside)]) if approval_hash else ""


def digest(value: Any) -> str:
    """`sha256:` and the digits, over the canonical form."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def loosely(raw: bytes | str) -> dict[str, Any]:
    """An entry's own bytes as an object; nothing where they are none."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
