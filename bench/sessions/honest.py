"""Honest sessions: what people ask of an assistant, and the calls with which it does that; a file each in honest/."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import Unavailable
from sessions.gate import PROMPT, Home, Outcome, Person, connected
from sessions.sets import DEFAULT, SessionSet
from sessions.world import World, put_state


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a session.

    `agree` says why the person would agree to be asked about it; empty: they would call it a nuisance. `capture` names
    what later calls take from the answer. `fails`: the server has no such thing, and says so. `answer` is what a server
    of ours answers, where that does not stand in its state.
    """

    server: str
    tool: str
    arguments: dict[str, Any]
    prompt: str
    agree: str = ""
    capture: Mapping[str, str] = field(default_factory=dict)
    fails: bool = False
    answer: Any = None


@dataclass(frozen=True, slots=True)
class Session:
    name: str
    title: str
    calls: tuple[Call, ...]

    @property
    def servers(self) -> list[str]:
        return list(dict.fromkeys(call.server for call in self.calls))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the person, or a refusal, with what the gate says of it."""

    number: int
    tool: str
    arguments: str
    verdict: str
    why: str
    agree: str


@dataclass(frozen=True, slots=True)
class Ran:
    """What a session came to."""

    session: str
    prompt: bool
    calls: int
    asked: int
    refused: int
    questions: tuple[Asked, ...]


def sessions(of: SessionSet = DEFAULT) -> Iterator[Session]:
    for path in sorted((of.folder / "honest").glob("*.toml")):
        yield _read(path)


def _read(path: Path) -> Session:
    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    calls: list[Call] = []
    for turn in table["turn"]:
        for one in turn["call"]:
            server, _, tool = one["tool"].partition(".")
            more = {key: one[key] for key in ("agree", "capture", "fails", "answer") if key in one}
            calls.append(Call(server, tool, one.get("args", {}), turn["user"], **more))
    return Session(path.stem, table["title"], tuple(calls))


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """The value with what stands behind its {names}; other braces are left alone."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {key: filled(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, names) for one in value]
    return value


def run(session: Session, home: Home, world: World, person: Person, *, prompt: bool) -> Ran:
    """Play it. The person approves whatever they are asked about, as they wanted all of it."""
    browser = person.browser()
    names = dict(world.places)
    outcomes: list[tuple[Call, dict[str, Any], Outcome]] = []
    with connected(home, world, session.servers) as servers:
        for number, call in enumerate(session.calls, 1):
            arguments = filled(call.arguments, names)
            meta = {PROMPT: filled(call.prompt, names)} if prompt else {}
            if call.answer is not None:
                put_state(world, call.server, json.dumps({call.tool: filled(call.answer, names)}, ensure_ascii=False))
            outcome = servers[call.server].call(call.tool, arguments, meta, browser.approve)
            if outcome.failed != call.fails and outcome.verdict != "refused":
                raise Unavailable(f"{session.name}, call {number}, {call.tool}: {outcome.text[:300]}")
            for name, pattern in call.capture.items():
                found = re.search(pattern, outcome.text)
                if found is None:
                    raise Unavailable(f"{session.name}, call {number}: no {name} in {outcome.text[:300]}")
                names[name] = found[1]
            outcomes.append((call, arguments, outcome))
    questions = tuple(_questions(home, outcomes))
    count = [outcome.verdict for _, _, outcome in outcomes].count
    return Ran(session.name, prompt, len(outcomes), count("asked"), count("refused"), questions)


def _questions(home: Home, outcomes: list[tuple[Call, dict[str, Any], Outcome]]) -> Iterator[Asked]:
    if all(outcome.verdict == "allowed" for _, _, outcome in outcomes):
        return
    decisions = home.decisions()
    if len(decisions) != len(outcomes):
        raise Unavailable(f"{len(decisions)} decisions are on record for {len(outcomes)} calls")
    for number, ((call, arguments, outcome), decision) in enumerate(zip(outcomes, decisions, strict=True), 1):
        if outcome.verdict != "allowed":
            why = reason_of(decision) or outcome.text
            shown = json.dumps(arguments, ensure_ascii=False)
            yield Asked(number, f"{call.server}.{call.tool}", shown, outcome.verdict, why, call.agree)


def reason_of(decision: Mapping[str, Any]) -> str:
    """What the checks that did not let a call pass say of it."""
    notes = [check.get("note", "") for check in decision["checks"] if check["verdict"] != "pass"]
    return notes[0] if notes else str(decision.get("detail", ""))
