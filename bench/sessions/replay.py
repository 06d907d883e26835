"""A set played from what its servers answered once, so that a change of rules is judged in a minute.

    python bench/sessions/run.py --set ferryline --record FILE    # plays it with the servers alone, without the gate
    python bench/sessions/run.py --replay FILE                    # gives the answers to the product's own trust check

A recording has every call that an agent makes which obeys both the user and the stranger, and the answer of the server.
Nothing but trust judges a replay: labels as they are proposed for the tools, the shipped policy, a fresh session for
each play. The person approves all calls of an honest session, and of an attack those before the stranger's.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
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
from callgate.trust.stage import JudgedCall, ResultRecorder, ResultSettings, TrustCheck
from callgate.trust.tool_annotations import AnnotationObserver
from callgate.trust.vocabulary import Vocabulary
from environments import Say
from processes import Unavailable
from sessions import attacks, honest, install, world
from sessions.gate import MOST_SERVERS, Home, Person, connected
from sessions.sets import SessionSet

WORKERS = 2
# As a gateway has it by default.
KEPT = Retention(200, 86_400.0)
SEALS = Seals([bytes(32)])
_PACKAGE = re.compile(r"(@?[^@=\s]+)(?:@|==)([\w.-]+)")


# ---- recording ----


class Direct(Home):
    """A client that has the servers themselves, and writes down what they answer."""

    lists = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.calls: list[dict[str, Any]] = []
        self.tools: dict[str, list[Any]] = {}

    def command(self, _name: str, words: list[str]) -> list[str]:
        return words

    def callgate(self, *_words: str, **_more: int | None) -> str:
        return ""

    def heard(self, server: str, asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        params = asked["params"]
        if asked["method"] == "tools/list":
            self.tools[server] = answer.get("result", {}).get("tools", [])
        elif asked["method"] == "tools/call":
            call = {"server": server, "tool": params["name"], "args": params["arguments"]}
            prompt = params.get("_meta", {}).get(PROMPT_META, "")
            self.calls.append({**call, "prompt": prompt, "reply": {key: answer[key] for key in answer if key != "id"}})


def record(say: Say, of: SessionSet, folder: Path, *, only: list[str], which: str) -> dict[str, Any]:
    """Every session and attack, each with its calls and answers."""
    install.ensure(say, of)
    found: dict[str, Any] = {"set": of.name, "servers": {}, "tools": {}, "plays": [], "broken": []}
    known = install.commands(of)
    found["servers"] = {name: identity(one.words) for name, one in known.items()}
    if which != "attacks":
        _record_honest(say, of, folder, only, found)
    if which != "honest":
        _record_attacks(say, of, folder, only, found)
    return found


def _record_honest(say: Say, of: SessionSet, folder: Path, only: list[str], found: dict[str, Any]) -> None:
    chosen = [one for one in honest.sessions(of) if not only or one.name in only]
    with world.pages(of.world / "pages") as web:

        def play(number: int, session: honest.Session) -> dict[str, Any]:
            say(session.name)
            place = world.make(folder / f"w{number}", web, of)
            home = Direct(folder / f"h{number}")
            home.tools = found["tools"]
            honest.run(session, home, place, Person(), prompt=True)
            for call, said in zip(session.calls, home.calls, strict=True):
                said["agree"] = call.agree
            return {"kind": "honest", "name": session.name, "calls": home.calls}

        with ThreadPoolExecutor(WORKERS) as pool:
            runs = [pool.submit(play, number, one) for number, one in enumerate(chosen)]
        found["plays"] += [one.result() for one in runs if one.exception() is None]
        found["broken"] += [str(error) for one in runs if (error := one.exception()) is not None]


def _record_attacks(say: Say, of: SessionSet, folder: Path, only: list[str], found: dict[str, Any]) -> None:
    chosen = [one for one in attacks.cases(of) if not only or one.effect in only or one.spelling in only]
    with ExitStack() as stack:
        (folder / "pages").mkdir(exist_ok=True)
        web = stack.enter_context(world.pages(folder / "pages"))
        place = world.make(folder / "attacked", web, of)
        home = Direct(folder / "attacked-home")
        home.tools = found["tools"]
        stage = attacks.Stage(place, folder / "pages", Person().browser())
        for group in attacks.groups(chosen, MOST_SERVERS):
            with connected(home, place, attacks.servers_of(group)) as running:
                for case in group:
                    home.calls = []
                    try:
                        stage.play(case, running, prompt=True)
                    except (ValueError, Unavailable) as why:
                        found["broken"].append(str(why))
                        continue
                    for number, said in enumerate(home.calls):
                        said["stranger"] = number >= len(case.reads)
                    play = {"kind": "attack", "name": case.effect, "spelling": case.spelling, "carrier": case.carrier}
                    found["plays"].append({**play, "calls": home.calls})
                    if len(found["plays"]) % 100 == 0:
                        say(f"{len(found['plays'])} plays")


def identity(words: tuple[str, ...]) -> str:
    """How the catalogue knows the server of a command; empty for one of ours."""
    for program, registry in (("npx", "npm"), ("uvx", "pypi")):
        if program in words:
            for word in words[words.index(program) + 1 :]:
                if (named := _PACKAGE.fullmatch(word)) is not None:
                    return f"{registry}:{named[1]}@{named[2]}"
    return ""


# ---- replaying ----


class _Person:
    """Who is asked; told beforehand whether the next call is wanted."""

    def __init__(self) -> None:
        self.approves = True
        self.why: list[str] = []

    async def __call__(self, _call: Call, asks: tuple[Ask, ...]) -> Verdict:
        self.why = [ask.why for ask in asks]
        return Pass() if self.approves or not asks else Refuse(Reason.APPROVAL_UNAVAILABLE)


class Replay:
    """The trust check in front of the servers of one recording."""

    def __init__(self, recorded: Mapping[str, Any], saw: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        self._saw = saw
        fingerprints = Fingerprints(bytes(range(32)))
        shelf = SqlTrust(MemoryStore())
        self._person = _Person()
        sessions = TrustSessionCache(
            shelf,
            lambda: Memory(fingerprints, retention=lambda: KEPT, seals=lambda: SEALS),
            idle_ms=lambda: 0,
        )
        known = labels({}, {}, compile_rule=predicate)
        approved: dict[tuple[str, str], str] = {}
        vocabulary = Vocabulary()
        learning = AnnotationObserver(lambda *_: None)
        learning.teach(known, vocabulary)
        for name, entries in recorded["tools"].items():
            which = recorded["servers"].get(name, "")
            approved |= {(name, one["name"]): encode(propose(one, which).label) for one in entries}
            learning.listed(name, {"tools": entries})
        scanner = ResultScanner()
        self._check = TrustCheck(
            sessions,
            naming=SessionNaming(by_agent=True, origin=ClientOrigin()),
            labels=known,
            policy=Policy.load(),
            vocabulary=vocabulary,
            enforcing=True,
            secret=scanner.secret,
            approved=lambda context, tool: approved.get((context.server, tool)),
        )
        self._results = ResultRecorder(
            self._check,
            sessions,
            shelf,
            keeping=ResultSettings(KEPT.kept_steps, KEPT.kept_seconds),
            vocabulary=vocabulary,
            scan=scanner,
            seals=lambda: SEALS,
            where=_nowhere,
            tell=lambda *_: None,
            expectations=Expectations(),
        )
        self._gate = Gate(kill_switch=lambda: None, record=_unrecorded, trust=self._check, approval=self._person)
        self._calls = 0

    async def play(self, number: int, play: Mapping[str, Any], *, prompt: bool) -> list[dict[str, Any]]:
        """Each call of a play: whether a person was asked, or it was refused, and why."""
        found: list[dict[str, Any]] = []
        for at, one in enumerate(play["calls"]):
            stranger = bool(one.get("stranger"))
            meta: dict[str, Any] = {SESSION_META: f"play-{number}-{prompt}"}
            if prompt and one["prompt"]:
                meta[PROMPT_META] = one["prompt"]
            self._calls += 1
            call = Call(
                id=f"call-{self._calls}",
                at=round(time.time() * 1000),
                tool=one["tool"],
                arguments=one["args"],
                canonical=canonical(one["args"]),
                raw=b"",
                meta=meta,
                context=Context(one["server"], "http", peer="127.0.0.1"),
            )
            self._person.approves, self._person.why = not stranger, []
            decision = await self._gate.decide(call)
            judged: JudgedCall | None = self._check.take(call)
            assert judged is not None
            asked = bool(self._person.why)
            refused = not decision.allowed and not asked
            entry = {
                "at": at,
                "tool": f"{one['server']}.{one['tool']}",
                "verdict": "asked" if asked else "refused" if refused else "allowed",
                "rule": judged.ruling.rule,
                "why": "\n".join(self._person.why),
                "stranger": stranger,
            }
            found.append(entry)
            self._saw({"play": play, "call": one, "prompt": prompt, "judged": judged, **entry})
            if decision.allowed:
                reply = {"jsonrpc": "2.0", "id": 1, **one["reply"]}
                await self._results.of_call(call, judged, msgspec.json.encode(reply))
            elif decision.refused is not None:
                await self._results.refused(judged, decision.refused)
        return found


def replay(
    recorded: Mapping[str, Any],
    only: list[str] | None = None,
    saw: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """The same as a run with the servers finds, in the same form."""
    began = time.monotonic()
    runs: list[honest.Ran] = []
    cases: list[attacks.Played] = []

    async def go() -> None:
        shared = {prompt: Replay(recorded, saw) for prompt in (True, False)}
        for number, play in enumerate(recorded["plays"]):
            if only and play["name"] not in only and play.get("spelling") not in only:
                continue
            for prompt in (True, False):
                if play["kind"] == "honest":
                    # Nobody else has been there.
                    found = await Replay(recorded, saw).play(number, play, prompt=prompt)
                    runs.append(_ran(play, found, prompt=prompt))
                else:
                    found = await shared[prompt].play(number, play, prompt=prompt)
                    cases.append(_played(play, found, prompt=prompt))

    asyncio.run(go())
    seconds = round(time.monotonic() - began)
    return {
        "honest": {"status": "ok", "seconds": seconds, "runs": list(map(asdict, runs)), "broken": recorded["broken"]},
        "attacks": {"status": "ok", "seconds": seconds, "cases": list(map(asdict, cases))},
    }


def _ran(play: Mapping[str, Any], found: list[dict[str, Any]], *, prompt: bool) -> honest.Ran:
    count = [one["verdict"] for one in found].count
    questions = tuple(_questions(play, found))
    return honest.Ran(play["name"], prompt, len(found), count("asked"), count("refused"), questions)


def _questions(play: Mapping[str, Any], found: list[dict[str, Any]]) -> Iterator[honest.Asked]:
    for call, one in zip(play["calls"], found, strict=True):
        if one["verdict"] != "allowed":
            shown = json.dumps(call["args"], ensure_ascii=False)
            yield honest.Asked(one["at"] + 1, one["tool"], shown, one["verdict"], one["why"], call.get("agree", ""))


def _played(play: Mapping[str, Any], found: list[dict[str, Any]], *, prompt: bool) -> attacks.Played:
    stopped = [f"{one['tool']} {one['verdict']}" for one in found if one["stranger"] and one["verdict"] != "allowed"]
    before = [one["verdict"] for one in found if not one["stranger"]]
    return attacks.Played(
        play["name"], play["spelling"], play["carrier"], prompt, not stopped, next(iter(stopped), ""),
        before.count("asked"), before.count("refused"), "",
    )  # fmt: skip


async def _unrecorded(call: Call, decision: Decision) -> None:
    """What a decision is recorded with is measured elsewhere."""


async def _nowhere(_handle: str) -> str:
    return ""
