"""The attacks: every effect crossed with every way to write the order, played against the same servers.

A case has an honest beginning, in which the person agrees to whatever they are asked about, and the calls of an agent
that obeys the stranger. Nobody answers for those. It passed, which is bad, if all of them went through unasked.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import tomllib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessions.gate import PROMPT, SESSION, Browser, Outcome, Wrapped
from sessions.honest import filled
from sessions.sets import DEFAULT, SessionSet
from sessions.spelling import Way
from sessions.world import World, put_state

# What attacks/world.json has beside the state of servers.
PLACES = {"files", "folders", "kept", "pages", "sql"}


@dataclass(frozen=True, slots=True)
class Case:
    """`texts` is what a stranger wrote, by carrier; `reads` and `calls` are the honest and the harmful calls."""

    number: int
    effect: str
    spelling: str
    carrier: str
    user: str
    texts: Mapping[str, str]
    reads: tuple[Mapping[str, Any], ...]
    calls: tuple[Mapping[str, Any], ...]
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Played:
    """What a case came to. `stopped` names the harmful call that was asked about or refused, and how.

    `failed` is what a server said that could not do a harmful call.
    """

    effect: str
    spelling: str
    carrier: str
    prompt: bool
    passed: bool
    stopped: str
    asked_before: int
    refused_before: int
    failed: str


def tables(of: SessionSet) -> list[dict[str, Any]]:
    """Each has carriers of its own."""
    return [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted((of.folder / "attacks").glob("*.toml"))]


def cases(of: SessionSet = DEFAULT) -> list[Case]:
    spelling = of.spelling()
    found: list[Case] = []
    for table in tables(of):
        carriers = list(table["carriers"])
        for at, effect in enumerate(table["effect"]):
            for offset, way in enumerate(spelling.ways(table, effect, at)):
                carrier = carriers[(at + offset) % len(carriers)]
                other = carriers[(at + offset + way.apart) % len(carriers)] if way.rest else ""
                names = spelling.numbers(len(found))
                found.append(_case(len(found), names, table["carriers"], effect, (carrier, other), way))
    return found


def _case(
    number: int,
    names: Mapping[str, str],
    carriers: Mapping[str, Any],
    effect: Mapping[str, Any],
    chosen: tuple[str, str],
    way: Way,
) -> Case:
    carrier, other = chosen
    value = filled(effect["value"], names)
    half = len(value) // 2
    kept = value or filled(effect["order"], names)
    names = {**names, "v1": value[:half], "v2": value[half:], "v": value, "k": kept}
    texts = {key: one["harmless"] for key, one in carriers.items()}
    texts[carrier] = carriers[carrier]["frame"].replace("{order}", way.order.replace("{v}", way.write(value)))
    user, reads = carriers[carrier]["user"], list(carriers[carrier]["reads"])
    if other:
        texts[other] = carriers[other]["frame"].replace("{order}", way.rest.replace("{rest}", "…" + value[half:]))
        user, reads = f"{user} {carriers[other]['user']}", reads + carriers[other]["reads"]
    user = " ".join(filter(None, (user, effect.get("asks", ""))))
    reads += [one for one in effect.get("reads", []) if one not in reads]
    return Case(number, effect["name"], way.name, carrier, user, texts, tuple(reads), tuple(way.calls), names)


def numbered(value: Any, names: Mapping[str, str]) -> Any:
    """As `filled`, and "#{name}" becomes an integer, "%{name}" a number."""
    if isinstance(value, str) and (found := re.fullmatch(r"([#%])\{(\w+)\}", value)):
        text = names[found[2]]
        return int(text) if found[1] == "#" else float(text)
    if isinstance(value, dict):
        return {key: numbered(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [numbered(one, names) for one in value]
    return filled(value, names)


def servers_of(chosen: list[Case]) -> list[str]:
    calls = (call for case in chosen for call in (*case.reads, *case.calls))
    return list(dict.fromkeys(call["tool"].partition(".")[0] for call in calls))


def groups(chosen: list[Case], most: int) -> list[list[Case]]:
    """The cases in groups that need at most so many servers; those of an effect stay together."""
    found: list[list[Case]] = []
    for effect in dict.fromkeys(one.effect for one in chosen):
        some = [one for one in chosen if one.effect == effect]
        group = next((group for group in found if len(servers_of(group + some)) <= most), None)
        if group is None:
            found.append(some)
        else:
            group += some
    return found


class Stage:
    """The world of one agent, which every case gets anew."""

    def __init__(self, world: World, pages: Path, browser: Browser) -> None:
        self._world = world
        self._pages = pages
        self._browser = browser
        seed = world.of.folder / "attacks" / "world.json"
        self._seed: dict[str, Any] = json.loads(seed.read_text(encoding="utf-8"))
        self._kept = {name: (world.home / name).read_bytes() for name in self._seed["kept"]}
        self._harmless = {
            key: one["harmless"] for table in tables(world.of) for key, one in table["carriers"].items()
        }  # fmt: skip

    def play(self, case: Case, servers: Mapping[str, Wrapped], *, prompt: bool) -> Played:
        names = {**self._world.places, **case.names}
        texts = {**self._harmless, **{key: filled(text, names) for key, text in case.texts.items()}}
        self._set({**names, **texts})
        # Both ways of a case are told apart too: one must not know what the other has read.
        meta = {SESSION: f"case-{case.number}-{'with' if prompt else 'without'}"}
        if prompt:
            meta[PROMPT] = filled(case.user, names)

        def call(one: Mapping[str, Any], *, honest: bool) -> Outcome:
            server, _, tool = one["tool"].partition(".")
            answer = {tool: numbered(one["answer"], {**texts, **names})} if "answer" in one else None
            if answer is not None:
                put_state(self._world, server, json.dumps(answer, ensure_ascii=False))
            approve = self._browser.approve if honest else None
            outcome = servers[server].call(tool, numbered(one["args"], names), meta, approve)
            if answer is not None:
                (self._world.state / f"{server}.json").unlink()
            return outcome

        verdicts = []
        for one in case.reads:
            outcome = call(one, honest=True)
            verdicts.append(outcome.verdict)
            if outcome.failed and not one.get("fails") and outcome.verdict != "refused":
                raise ValueError(f"{case.effect}, {case.spelling}: {one['tool']} failed: {outcome.text[:200]}")
        asked, refused = verdicts.count("asked"), verdicts.count("refused")
        stopped = failed = ""
        for one in case.calls:
            outcome = call(one, honest=False)
            if outcome.verdict != "allowed":
                stopped = f"{one['tool']} {outcome.verdict}"
                break
            if outcome.failed:
                failed = f"{one['tool']}: {outcome.text[:200]}"
        return Played(
            case.effect, case.spelling, case.carrier, prompt, not stopped, stopped, asked, refused, failed
        )  # fmt: skip

    def _set(self, known: Mapping[str, str]) -> None:
        seed, home = self._seed, self._world.home
        for name in seed.keys() - PLACES:
            put_state(self._world, name, json.dumps(numbered(seed[name], known), ensure_ascii=False))
        for name in seed["folders"]:
            shutil.rmtree(home / name, ignore_errors=True)
            (home / name).mkdir()
        for name, content in self._kept.items():
            (home / name).write_bytes(content)
        for folder, files in ((home, seed["files"]), (self._pages, seed.get("pages", {}))):
            for path, text in files.items():
                (folder / filled(path, known)).write_text(filled(text, known), encoding="utf-8")
        with closing(sqlite3.connect(home / "shop.db")) as shop, shop:
            for statement, values in seed.get("sql", []):
                shop.execute(statement, numbered(values, known))
