"""What trust costs: remembering a result of 2 KB, tracing a call's arguments, deciding by 20 rules, and all of it."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import trust_stage
from agentdojo.gated import KEPT
from callgate.trust.model import DataLabel, SessionLabel, ToolLabel
from callgate.trust.policy.engine import Policy
from callgate.trust.policy.facts import Facts
from callgate.trust.provenance import Bounds, Fingerprints, Memory, trace
from environments import Say

KILOBYTES = 2
RULES = 20
SIZES = (1_000, 10_000, 100_000)
_VOCABULARY = 4_000


def measure(say: Say, *, quick: bool) -> dict[str, Any]:
    """CPU microseconds, each the median of interleaved rounds."""
    say("measuring what trust costs")
    rounds, calls = (3, 300) if quick else (9, 1_000)
    return {
        **_provenance(rounds, calls),
        "trace_us_by_remembered": _growth(rounds, calls),
        "decisions_per_cpu_second": _decisions(rounds, calls * 20),
        **trust_stage.measure(texts(200), 5 if quick else 15),
    }


def texts(count: int) -> list[str]:
    """Texts of 2 KB whose words come as often as words do, and with some that no other has: ids, addresses, dates."""
    dice = random.Random(1)
    words = ["".join(dice.choices("abcdefghijklmnoprstuvwy", k=dice.randint(2, 10))) for _ in range(_VOCABULARY)]
    weights = [1 / rank for rank in range(1, _VOCABULARY + 1)]
    made = []
    for number in range(count):
        said = dice.choices(words, weights, k=KILOBYTES * 200)
        for rare in (*(f"ref-{number}-{at}" for at in range(4)), f"p{number}@example.com", "2026-11-16", "$1,200.00"):
            said.insert(dice.randrange(KILOBYTES * 100), rare)
        made.append(" ".join(said)[: KILOBYTES * 1024])
    return made


ARGUMENTS = {"to": "someone@example.com", "subject": "The offer of Monday", "amount": 1200}


def label(*, trusted: bool = False) -> ToolLabel:
    return ToolLabel(
        server="bench",
        tool="send_note",
        destinations=frozenset({"public"}),
        outcomes=frozenset({"irreversible"}),
        accepts=frozenset({"none"}),
        sources=frozenset({"user" if trusted else "untrustedPublic"}),
        returns=frozenset({"user"}),
        critical=("to", "amount"),
        critical_declared=True,
    )


def _timed(calls: int, once: Callable[[int], object]) -> float:
    began = time.process_time()
    for at in range(calls):
        once(at)
    return (time.process_time() - began) / calls * 1e6


def _provenance(rounds: int, calls: int) -> dict[str, float]:
    some, tool = texts(calls), label()
    data = DataLabel(open_world=True, sources=tool.sources)
    found: dict[str, list[float]] = {"remember_us": [], "trace_us": [], "remember_first_us": []}
    fingerprints = Fingerprints(bytes(range(32)))
    for _ in range(rounds):
        memory = Memory(fingerprints, Bounds(remembered=10_000_000), retention=lambda: KEPT)
        memory.remember_prompt("Please send someone@example.com a note of 1,200.")

        cold = Memory(Fingerprints(bytes(range(32))), Bounds(remembered=10_000_000), retention=lambda: KEPT)

        def remember(memory: Memory, at: int) -> None:
            memory.remember_result(tool, data, None, (some[at],), ARGUMENTS, open_world=True)

        found["remember_us"].append(_timed(calls, partial(remember, memory)))
        found["trace_us"].append(_timed(calls, partial(_look, memory, tool)))
        found["remember_first_us"].append(_timed(calls, partial(remember, cold)))
    return {name: round(median(values), 1) for name, values in found.items()}


def _look(memory: Memory, tool: ToolLabel, _at: int) -> None:
    trace(memory, tool, ARGUMENTS)


def _growth(rounds: int, calls: int) -> dict[str, float]:
    """Tracing with ever more remembered values; rounds of the sizes alternate."""
    tool = label()
    data = DataLabel(open_world=True, sources=tool.sources)
    fingerprints = Fingerprints(bytes(range(32)))
    full: dict[int, Memory] = {}
    for size in SIZES:
        full[size] = Memory(fingerprints, Bounds(remembered=10_000_000), retention=lambda: KEPT)
        for start in range(0, size, 200):
            text = " ".join(f"v{number}" for number in range(start, start + 200))
            full[size].remember_result(tool, data, None, (text,), {}, open_world=True)
    found: dict[int, list[float]] = {size: [] for size in SIZES}
    for _, size in itertools.product(range(rounds * 3), SIZES):
        found[size].append(_timed(calls, partial(_look, full[size], tool)))
    return {str(size): round(min(values), 2) for size, values in found.items()}


def rules(count: int) -> str:
    """As many rules as an operator with much to say writes; none of them holds for the calls here."""
    conditions = (
        'tool.name == "tool_{0}" && session.open_world',
        'session.open_world && "regulated" in data.sensitivity && tool.destination == "system" && session.steps > {0}',
        'agent.client == "client-{0}" && provenance.worst == "untrusted"',
        'has(args.amount) && args.amount > {0}000 && tool.server == "bank"',
    )
    form = "[[rules]]\nname = 'rule-{at}'\neffect = 'ask'\nwhen = '''{when}'''\nsay = 'No.'\n"
    made = [form.format(at=at, when=conditions[at % 4].format(at + 5)) for at in range(count)]
    return "\n".join(made)


def _decisions(rounds: int, calls: int) -> int:
    default = Policy.load()
    policy = Policy.load(texts=[("bench.toml", rules(RULES - len(default.rules)))])
    memory = Memory(Fingerprints(bytes(range(32))))
    memory.remember_prompt("Please send someone@example.com a note of 1,200.")
    tool = label()
    session = SessionLabel(open_world=True)
    # What differs from call to call differs here too.
    some = []
    for at in range(64):
        arguments = {**ARGUMENTS, "amount": at}
        some.append(Facts(tool, session, trace(memory, tool, arguments), arguments, steps=at))
    rates = [1e6 / _timed(calls, lambda at: policy.decide(some[at % 64])) for _ in range(rounds)]
    return round(median(rates))
