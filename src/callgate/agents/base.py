"""The signature base: exactly the bytes that are signed (RFC 9421 §2.5)."""

from __future__ import annotations

from callgate.agents.components import Message, value
from callgate.agents.fields import Input


def signature_base(given: Input, message: Message) -> bytes:
    """One line a component, and the parameters last. No value holds a line end, so no line can pass for another."""
    lines = [f"{component.text}: {value(component, message)}" for component in given.components]
    lines.append(f'"@signature-params": {given.text}')
    return "\n".join(lines).encode("ascii")
