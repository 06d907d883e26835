"""What a decision of the policy costs: 20 rules on calls, every call with arguments of its own.

Run alone it prints the figures: `python bench/policy.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

from callgate.trust.model import Provenance, SessionLabel, ToolLabel, Traced
from callgate.trust.policy import Facts, Policy

RULES: Final = 20
# The gateway has the canonical form of the arguments at hand, and so how long it is.
SIZE: Final = 600
# Beside the seven rules on calls of the default policy; half of these read arguments.
OWN: Final = """
[[rules]]
name = "large-payment"
effect = "ask"
when = 'tool.server == "bank" && has(args.amount) && args.amount > 1000'
[[rules]]
name = "mail-outside"
effect = "ask"
when = 'tool.name == "send_email" && args.to.exists(a, !a.endsWith("@example.com")) && "pii" in data.sensitivity'
[[rules]]
name = "no-secrets"
effect = "block"
when = 'tool.server == "chat" && has(args.body) && args.body.matches("(?i)(password|secret|token)\\\\s*[:=]")'
[[rules]]
name = "no-invoices"
effect = "ask"
when = 'has(args.subject) && args.subject.startsWith("INVOICE")'
[[rules]]
name = "few-recipients"
effect = "ask"
when = 'has(args.to) && size(args.to) > 5'
[[rules]]
name = "no-copies"
effect = "ask"
when = 'has(args.bcc) && size(args.bcc) > 0'
[[rules]]
name = "long-sessions"
effect = "ask"
when = 'session.steps > 500'
[[rules]]
name = "payroll-stays"
effect = "block"
when = '"com.example.payroll" in data.sensitivity && tool.egress'
[[rules]]
name = "health-data-stays"
effect = "block"
when = '"regulated:HIPAA" in data.sensitivity && tool.destination != "ephemeral"'
[[rules]]
name = "night-robot"
effect = "block"
when = 'agent.id == "night-robot" && !tool.read_only'
[[rules]]
name = "deletions"
effect = "ask"
when = 'tool.destructive && "irreversible" in tool.possible_outcomes'
[[rules]]
name = "unlabelled"
effect = "ask"
when = '!tool.known && session.open_world'
[[rules]]
name = "sources"
effect = "ask"
when = 'session.attribution.exists(uri, uri.startsWith("https://intranet.example/"))'
"""


def policy() -> Policy:
    loaded = Policy.load(texts=[("bench", OWN)])
    if sum(rule.on == "call" for rule in loaded.rules) != RULES:
        raise RuntimeError(f"the bench is about {RULES} rules on calls")
    return loaded


def calls(count: int, *, shapes: int = 1) -> list[tuple[ToolLabel, SessionLabel, Provenance, dict[str, Any]]]:
    """Calls of ten tools; no two have the same arguments. `shapes` is how many ways values are found in."""
    tools = [
        ToolLabel(
            server="mail",
            tool="send_email" if at == 0 else f"tool_{at}",
            destinations=frozenset({"public" if at % 2 == 0 else "user"}),
            outcomes=frozenset({"consequential"}),
            accepts=frozenset({"user", "pii"}),
            sources=frozenset({"internal"}),
            returns=frozenset({"user"}),
            destructive=False,
        )
        for at in range(10)
    ]
    made = []
    for at in range(count):
        args = {
            "to": [f"person{at}@example.com"],
            "subject": f"Report number {at}",
            "body": f"Dear colleague, here is report {at}. " + "All is well with it. " * 20,
            "priority": at,
        }
        path = f"to[{at % shapes}]"
        values = (
            Traced(path, "identity", "prompt", True, args["to"][0]),  # type: ignore[index] # noqa: FBT003
            Traced("subject", "text", "own", False, "Report"),  # noqa: FBT003
            Traced("body", "text", "nowhere", False, "Dear"),  # noqa: FBT003
            Traced("priority", "quantity", "prompt", False, str(at)),  # noqa: FBT003
        )
        session = SessionLabel(True, False, frozenset({"user", "pii"}), ("https://web.example/page",))  # noqa: FBT003
        made.append((tools[at % 10], session, Provenance(values, (), True, True), args))  # noqa: FBT003
    return made


def micros(rules: Policy, given: Sequence[tuple[ToolLabel, SessionLabel, Provenance, dict[str, Any]]]) -> float:
    """CPU microseconds a decision, the facts put together included."""
    agent = {"id": "reports", "client": "bench", "transport": "http"}
    began = time.process_time()
    for tool, session, provenance, args in given:
        facts = Facts(tool, session, provenance, args, None, agent, steps=7, size=SIZE)
        if rules.decide(facts).effect != "allow":
            raise RuntimeError("these calls are fine")
    return (time.process_time() - began) / len(given) * 1e6


def measure(step: Callable[[str], None], *, quick: bool) -> dict[str, Any]:
    """Decisions per CPU second, with few and with very many ways in which values are found; and what loading costs."""
    rounds, count = (3, 20_000) if quick else (7, 100_000)
    step("policy, decisions")
    given = calls(count)
    usual = median(micros(policy(), given) for _ in range(rounds))
    step("policy, decisions without anything to remember")
    scattered = calls(min(count, 20_000), shapes=20_000)
    worst = median(micros(policy(), scattered) for _ in range(3))
    step("policy, loading")
    began = time.process_time()
    policy()
    return {
        "rules": RULES,
        "us_per_decision": round(usual, 2),
        "decisions_per_cpu_second": round(1e6 / usual),
        "us_per_decision_nothing_kept": round(worst, 2),
        "ms_to_load": round((time.process_time() - began) * 1000, 1),
    }


if __name__ == "__main__":
    print(json.dumps(measure(print, quick=True), indent=1))
