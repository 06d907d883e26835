"""Whose enrolment a registration answers, where a server enrols passkeys of its own beside the gateway."""

from __future__ import annotations

from typing import Any

from callgate.approval import Approvals
from callgate.approval.encoding import from_base64url
from callgate.gateway.catalogue import decode_leniently


async def is_ours(approvals: Approvals, response: Any) -> bool:
    """Whether the challenge in a registration's client data was given out here."""
    inner = response.get("response") if isinstance(response, dict) else None
    text = inner.get("clientDataJSON") if isinstance(inner, dict) else None
    try:
        data = decode_leniently(from_base64url(text)) if isinstance(text, str) else None
        challenge = data.get("challenge") if isinstance(data, dict) else None
        given = from_base64url(challenge) if isinstance(challenge, str) else b""
    except ValueError:
        return False
    return bool(given) and await approvals.shelf.registration(given) is not None
