"""Whether a signature covers enough, told once for each way of covering: agents cover the same things every time."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from callgate.agents.components import Message
from callgate.agents.digest import covers_digest
from callgate.agents.fields import Advertised, advertised, components
from callgate.errors import Reason, Refused


class Coverage(NamedTuple):
    """What a list of components binds a signature to."""

    # As they stand in the signature base.
    texts: tuple[str, ...]
    host: bool
    body: bool
    # The members of Signature-Agent; None for that header whole.
    agents: tuple[str | None, ...]


@lru_cache(maxsize=256)
def coverage(listed: str) -> Coverage:
    """For the text of an inner list."""
    found = components(listed)
    return Coverage(
        texts=tuple(one.text for one in found),
        host=any(one.name in {"@authority", "@target-uri"} for one in found),
        body=covers_digest(found),
        agents=tuple(one.params.get("key") for one in found if one.name == "signature-agent"),
    )


def covered_agent(label: str, covered: Coverage, message: Message) -> Advertised | None:
    """Check that enough is covered, and find the directory that is named: only what is covered is believed."""
    if not covered.host:
        raise Refused(Reason.MISSING_REQUIRED_COVERED_FIELD, "Neither @authority nor @target-uri is covered.")
    raw = message.header(b"signature-agent")
    if raw is None:
        return None
    if not covered.agents:
        raise Refused(Reason.MISSING_REQUIRED_COVERED_FIELD, "Signature-Agent is sent, and not covered.")
    sent = advertised(raw)
    wanted = _wanted(label, covered.agents, [one.label for one in sent])
    if wanted is None:
        raise Refused(
            Reason.MISSING_REQUIRED_COVERED_FIELD,
            "Which member of Signature-Agent belongs to the signature is not plain.",
        )
    for one in sent:
        if one.label == wanted:
            return one
    raise Refused(Reason.UNSUPPORTED_COVERED_FIELD, "A member of Signature-Agent is covered that is not sent.")


def _wanted(label: str, covered: tuple[str | None, ...], sent: list[str]) -> str | None:
    """The draft names the member like the label; published vectors do not, and what they mean is plain all the same."""
    choice = sent if None in covered else covered
    if label in choice:
        return label
    return choice[0] if len(choice) == 1 else None
