"""The default policy's rules for a call in Python, to count with."""

from __future__ import annotations

from callgate.trust.model import Provenance, ToolLabel

USERS = frozenset(("endorsed", "prompt", "clean", "trusted", "linked"))


def asks(label: ToolLabel, provenance: Provenance, carried: frozenset[str], *, open_world: bool) -> list[str]:
    """Why a person is asked: one line for each reason, none if the call goes through."""
    if label.outcomes == {"benign"} and "public" not in label.destinations:
        return []
    critical = [value for value in provenance.values if value.critical]
    why = [f"stranger-decides {v.path}={v.shown}" for v in critical if v.found == "untrusted"]
    named = any(v.found in USERS and v.kind in ("identity", "link") for v in critical)
    if open_world and provenance.prompt_known:
        why += [
            f"unknown-value {v.path}={v.shown}"
            for v in critical
            if v.found == "nowhere" and v.kind in ("identity", "link", "time")
        ]
        why += [
            f"unknown-quantity {v.path}={v.shown}"
            for v in critical
            if v.kind == "quantity" and v.found in ("own", "nowhere") and not named
        ]
    if open_world and label.destination == "public" and carried:
        why.append(f"guarded-data-leaves {' '.join(sorted(carried))}")
    if label.destination in ("internal", "public"):
        why += [f"stranger-link {v.path}={v.shown}" for v in provenance.foreign_links]
    if open_world and not provenance.any_own_words:
        why += [
            f"nothing-of-the-user {v.path}={v.shown}"
            for v in provenance.values
            if v.kind == "text" and v.found == "untrusted"
        ][:1]
    return why
