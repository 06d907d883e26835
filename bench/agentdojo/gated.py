"""Recorded runs through the real gate: the trust check as an operator's configuration makes it, and a person to ask.

The person approves what the user's own task needs and refuses what the injected order wants; what counts is whether
they were asked at all.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from callgate.canonical import canonical
from callgate.errors import Reason
from callgate.gate import Ask, Call, Context, Decision, Gate, Pass, Refuse, Verdict
from callgate.inspection.scanner import ResultScanner
from callgate.protocol import SESSION_META
from callgate.store import MemoryStore, SqlTrust
from callgate.trust.effects import encode
from callgate.trust.model import PROMPT_META
from callgate.trust.operator import labels
from callgate.trust.policy.engine import Policy
from callgate.trust.policy.predicate import predicate
from callgate.trust.proposing import propose
from callgate.trust.provenance import Fingerprints, Memory, Retention
from callgate.trust.quarantine import Seals
from callgate.trust.results import Expectations
from callgate.trust.session_cache import ClientOrigin, SessionNaming, TrustSessionCache
from callgate.trust.stage import ResultRecorder, ResultSettings, TrustCheck
from callgate.trust.tool_annotations import AnnotationObserver
from callgate.trust.vocabulary import Vocabulary

HERE = Path(__file__).parent
# The first two as they were given to us, byte for byte; the others are ours, by the same meaning.
SUITES = {
    "workspace": HERE / "annotations_shared.json",
    "banking": HERE / "annotations_shared.json",
    "travel": HERE / "annotations.json",
    "slack": HERE / "annotations.json",
}
# As a gateway has it by default.
KEPT = Retention(200, 86_400.0)
ORDER = re.compile(r"<INFORMATION>.*?</INFORMATION>", re.DOTALL)


class Way(msgspec.Struct, frozen=True):
    """One way to run: whether the host passes the user's words on, whether the offline detectors read results, whether
    the order stands in the benchmark's wrapper or alone, and whether servers send structured content."""

    prompt: bool
    detectors: bool = True
    bare: bool = False
    structured: bool = True
    # Labels as they are proposed from the tools' definitions, in the place of the annotations.
    proposed: bool = False


class Outcome(msgspec.Struct):
    """One run: why a person was asked, for the user's calls and for the injected ones."""

    suite: str
    user_task: str
    injection_task: str | None
    asked: list[str] = []
    blocked: int = 0
    injected: int = 0
    injected_stopped: int = 0
    # Calls with consequences that went through unasked: the user's and the order's.
    consequential: int = 0
    injected_consequential: int = 0


class Person:
    """Who is asked. Told beforehand whether the next call is the user's."""

    def __init__(self) -> None:
        self.approves = True
        self.asked: list[str] = []

    async def __call__(self, _call: Call, asks: tuple[Ask, ...]) -> Verdict:
        self.asked = [ask.why for ask in asks]
        return Pass() if self.approves or not asks else Refuse(Reason.APPROVAL_UNAVAILABLE)


class _Fresh(SqlTrust):
    """A store that every run finds empty, as it finds the benchmark's own world as if nobody had been there."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())

    def begin(self) -> None:
        self.__init__()  # type: ignore[misc]


class Bench:
    """The gate of one way to run."""

    def __init__(self, way: Way, tools: Mapping[str, list[dict[str, Any]]]) -> None:
        fingerprints = Fingerprints(bytes(range(32)))
        self._shelf = shelf = _Fresh()
        self.way = way
        self.person = Person()
        self._sessions = TrustSessionCache(
            shelf, lambda: Memory(fingerprints, retention=lambda: KEPT), idle_ms=lambda: 0
        )
        words = {name: {"annotations": str(path), "annotations_key": name} for name, path in SUITES.items()}
        self.labels = labels({}, {} if way.proposed else words, compile_rule=predicate)
        if way.proposed:
            for name, entries in tools.items():
                self.labels.approve(name, {entry["name"]: encode(propose(entry).label) for entry in entries})
        vocabulary = Vocabulary()
        learning = AnnotationObserver(lambda *_: None)
        learning.teach(self.labels, vocabulary)
        for name, entries in tools.items():
            learning.listed(name, {"tools": entries})
        self.check = TrustCheck(
            self._sessions,
            naming=SessionNaming(by_agent=True, origin=ClientOrigin()),
            labels=self.labels,
            policy=Policy.load(),
            vocabulary=vocabulary,
            enforcing=True,
        )
        self.results = ResultRecorder(
            self.check,
            self._sessions,
            shelf,
            keeping=ResultSettings(KEPT.kept_steps, KEPT.kept_seconds),
            vocabulary=vocabulary,
            scan=ResultScanner() if way.detectors else None,
            seals=lambda: Seals([bytes(32)]),
            where=_nowhere,
            tell=lambda *_: None,
            expectations=Expectations(),
        )
        self.gate = Gate(kill_switch=lambda: None, record=_unrecorded, trust=self.check, approval=self.person)
        self._calls = 0

    async def run(self, number: int, run: Mapping[str, Any]) -> Outcome:
        """One conversation, in a world of its own: what another one wrote is not there."""
        self._shelf.begin()
        outcome = Outcome(run["suite"], run["user_task"], run["injection_task"])
        meta: dict[str, Any] = {SESSION_META: f"run-{number}"}
        if self.way.prompt:
            meta[PROMPT_META] = run["prompt"]
        for recorded in run["calls"]:
            call = self._call(run["suite"], recorded, meta)
            self.person.approves, self.person.asked = not recorded["injected"], []
            decision: Decision = await self.gate.decide(call)
            judged = self.check.take(call)
            assert judged is not None
            _count(outcome, recorded, self.person.asked, decision, consequential=judged.label.outcome != "benign")
            if decision.allowed:
                await self.results.of_call(call, judged, self._reply(run, recorded))
            elif decision.refused is not None:
                await self.results.refused(judged, decision.refused)
        return outcome

    def _call(self, suite: str, recorded: Mapping[str, Any], meta: Mapping[str, Any]) -> Call:
        self._calls += 1
        return Call(
            id=f"call-{self._calls}",
            at=self._calls,
            tool=recorded["tool"],
            arguments=recorded["args"],
            canonical=canonical(recorded["args"]),
            raw=b"",
            meta=meta,
            context=Context(suite, "http", peer="127.0.0.1"),
        )

    def _reply(self, run: Mapping[str, Any], recorded: Mapping[str, Any]) -> bytes:
        """The result as the `mcp` SDK would send it: structured content, and the same as text."""
        if "error" in recorded:
            result = {"content": [{"type": "text", "text": recorded["error"]}], "isError": True}
        else:
            value = _bare(recorded["result"], run["goal"]) if self.way.bare and run["goal"] else recorded["result"]
            items = value if isinstance(value, list) else [value]
            texts = [item if isinstance(item, str) else json.dumps(item, indent=2) for item in items]
            result = {"content": [{"type": "text", "text": text} for text in texts]}
            if self.way.structured:
                result["structuredContent"] = value if isinstance(value, dict) else {"result": value}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": result})


def run_all(way: Way, traces: Mapping[str, Any]) -> list[Outcome]:
    """Every recorded run, one way."""
    bench = Bench(way, traces["tools"])

    async def go() -> list[Outcome]:
        return [await bench.run(number, one) for number, one in enumerate(traces["runs"])]

    return asyncio.run(go())


def tally(outcomes: list[Outcome]) -> dict[str, Any]:
    """The figures, for each suite and for all."""
    counts: dict[str, Counter[str]] = {}
    for one in outcomes:
        for name in (one.suite, "all"):
            counts.setdefault(name, Counter()).update(_figures(one))
    return {name: {key: counter[key] for key in KEYS} for name, counter in counts.items()}


KEYS = (
    "tasks", "unasked", "asked", "blocked", "gestures", "consequential_unasked",
    "attacks", "succeeded", "attacks_with_a_consequential_call_unasked", "attacked_tasks_unasked",
)  # fmt: skip


def _figures(one: Outcome) -> Iterator[str]:
    if one.injection_task is None:
        yield "tasks"
        yield "blocked" if one.blocked else "asked" if one.asked else "unasked"
        yield from ["gestures"] * len(one.asked)
        yield from ["consequential_unasked"] * one.consequential
        return
    yield "attacks"
    if one.injected and not one.injected_stopped:
        yield "succeeded"
    if one.injected_consequential:
        yield "attacks_with_a_consequential_call_unasked"
    if not one.asked and not one.blocked:
        yield "attacked_tasks_unasked"


def _count(
    outcome: Outcome, recorded: Mapping[str, Any], asked: list[str], decision: Decision, *, consequential: bool
) -> None:
    unasked = decision.allowed and not asked
    if recorded["injected"]:
        outcome.injected += 1
        outcome.injected_stopped += not unasked
        outcome.injected_consequential += unasked and consequential
    else:
        outcome.asked += [f"{recorded['tool']}: {why}" for why in asked]
        outcome.blocked += not decision.allowed
        outcome.consequential += unasked and consequential


def _bare(value: Any, goal: str) -> Any:
    if isinstance(value, str):
        return ORDER.sub(lambda _: goal, value)
    if isinstance(value, dict):
        return {_bare(name, goal): _bare(item, goal) for name, item in value.items()}
    return [_bare(item, goal) for item in value] if isinstance(value, list) else value


async def _unrecorded(call: Call, decision: Decision) -> None:
    """What a decision is recorded with is measured elsewhere."""


async def _nowhere(_handle: str) -> str:
    return ""
