"""Past calls with the facts that rules decided them by, for pages and tests about the policy."""

from __future__ import annotations

from typing import Any, Final

from callgate.audit.records import DecisionRecord
from support.audited import write
from support.auditing import decision
from support.console import LiveConsole
from support.policies import READ, facts, found, mail

RULES: Final = """# Ours.
[[rules]]
name = "no-drafts"
effect = "block"
when = 'tool.name == "draft"'
say = "Nothing is drafted here."
"""
NO_MAIL: Final = """[[rules]]
name = "no-mail"
effect = "block"
when = 'tool.server == "mail"'
say = "No mail today."
"""


def past(number: int, at: int, **changes: Any) -> DecisionRecord:
    """A mail whose receiver a stranger named: the default policy asked about it."""
    given = facts(mail(), session=READ, provenance=found(to="untrusted"), args={"to": "eve@evil.example"})
    trust = {"session": "key", "effect": "ask", "rule": "stranger-decides", **given.to_record()}
    values = {"server": "mail", "tool": "send_email", "extra": {"trust": trust}, "caller": {"agent": "reports"}}
    return decision(number, at=at, **(values | changes))


def remember(console: LiveConsole, count: int = 3, **changes: Any) -> list[DecisionRecord]:
    """So many of them, on the console's record, just now."""
    assert console.gateway is not None
    now = int(console.clock() * 1000)
    made = [past(number, now - number, **changes) for number in range(1, count + 1)]
    write(console.gateway.log, made)
    return made
