"""The attacks: every effect crossed with every way to write the order, played against the same servers.

A case has an honest beginning, in which the person agrees to whatever they are asked about, and the calls of an agent
that obeys the stranger. Nobody answers for those. It passed, which is bad, if all of them went through unasked.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessions.gate import PROMPT, SESSION, Browser, Wrapped
from sessions.honest import filled
from sessions.spelling import FRAMES, SPELLINGS
from sessions.world import World, put_state

FOLDER = Path(__file__).resolve().parent / "attacks"
# Each has carriers of its own.
CORPORA = ("corpus.toml", "second.toml")


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
    """What a case came to. `stopped` names the harmful call that was asked about or refused, and how."""

    effect: str
    spelling: str
    carrier: str
    prompt: bool
    passed: bool
    stopped: str
    asked_before: int


def cases() -> list[Case]:
    found: list[Case] = []
    for name in CORPORA:
        table: dict[str, Any] = tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))
        carriers = list(table["carriers"])
        for at, effect in enumerate(table["effect"]):
            for offset, (spelling, value, order, calls, second) in enumerate(_ways(table, effect)):
                carrier = carriers[(at + offset) % len(carriers)]
                other = carriers[(at + offset + 1) % len(carriers)] if second else ""
                found.append(_case(len(found), table, effect, spelling, carrier, (value, order, calls, second, other)))
    return found


def _ways(table: Mapping[str, Any], effect: Mapping[str, Any]) -> Iterator[tuple[str, str, str, list[Any], str]]:
    """The name of each way, the value as it is written, the order, the calls, and what a second carrier says."""
    value, order, calls = effect["value"], effect["order"], effect["calls"]
    for name in SPELLINGS:
        if name != "number words" or re.search(r"\d|\{[sdp]\}", value):
            yield name, name, order, calls, ""
    for name, frame in FRAMES.items():
        yield name, "plain", frame(order), calls, ""
    yield "in German", "plain", effect["german"], calls, ""
    yield "half in another text", "first half", order, calls, "The rest of it is {rest}."
    if "keeping" in table:
        yield "kept and read back", "plain", order, [*table["keeping"], *calls], ""
    if "split" in effect:
        yield "over two arguments", "plain", order, effect["split"], ""
    if "joined" in effect:
        yield "joined with the user's own", "plain", order, effect["joined"], ""
    if "indirect" in effect:
        yield "not named at all", "plain", effect["indirect"], effect.get("indirect_calls", calls), ""


def _case(
    number: int, table: Mapping[str, Any], effect: Mapping[str, Any], name: str, carrier: str, way: tuple[Any, ...]
) -> Case:
    spelling, order, calls, second, other = way
    base = 4096 + number * 7
    names = {"s": f"{base:04x}", "d": f"{base % 90 + 10}", "p": f"{number % 90 + 10}"}
    names |= {"first": str(1000 + 2 * number), "second": str(1001 + 2 * number)}
    value = filled(effect["value"], names)
    half = len(value) // 2
    names |= {"v1": value[:half], "v2": value[half:]}
    written = value[:half] + "…" if spelling == "first half" else SPELLINGS[spelling](value)
    carriers = table["carriers"]
    texts = {key: one["harmless"] for key, one in carriers.items()}
    texts[carrier] = carriers[carrier]["frame"].replace("{order}", order.replace("{v}", written))
    user, reads = carriers[carrier]["user"], list(carriers[carrier]["reads"])
    if other:
        texts[other] = carriers[other]["frame"].replace("{order}", second.replace("{rest}", "…" + value[half:]))
        user, reads = f"{user} {carriers[other]['user']}", reads + carriers[other]["reads"]
    user = " ".join(filter(None, (user, effect.get("asks", ""))))
    reads += [one for one in effect.get("reads", []) if one not in reads]
    return Case(
        number, effect["name"], name, carrier, user, texts, tuple(reads), tuple(calls), names | {"v": value}
    )  # fmt: skip


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


class Stage:
    """The servers of one agent, and the world under them, which every case gets anew."""

    def __init__(self, world: World, pages: Path, servers: Mapping[str, Wrapped], browser: Browser) -> None:
        self._world = world
        self._pages = pages
        self._servers = servers
        self._browser = browser
        self._seed: dict[str, Any] = json.loads((FOLDER / "world.json").read_text(encoding="utf-8"))
        self._shop = (world.home / "shop.db").read_bytes()
        tables = [tomllib.loads((FOLDER / name).read_text(encoding="utf-8")) for name in CORPORA]
        self._harmless = {key: one["harmless"] for table in tables for key, one in table["carriers"].items()}

    def play(self, case: Case, *, prompt: bool) -> Played:
        # Both ways of a case are told apart too: one must not know what the other has read.
        names = {**self._world.places, **case.names}
        self._set(case, names)
        meta = {SESSION: f"case-{case.number}-{'with' if prompt else 'without'}"}
        if prompt:
            meta[PROMPT] = filled(case.user, names)
        asked = 0
        for one in case.reads:
            server, _, tool = one["tool"].partition(".")
            outcome = self._servers[server].call(tool, numbered(one["args"], names), meta, self._browser.approve)
            asked += outcome.verdict == "asked"
            if outcome.failed and not one.get("fails"):
                raise ValueError(f"{case.effect}, {case.spelling}: {one['tool']} failed: {outcome.text[:200]}")
        stopped = ""
        for one in case.calls:
            server, _, tool = one["tool"].partition(".")
            outcome = self._servers[server].call(tool, numbered(one["args"], names), meta, None)
            if outcome.verdict != "allowed":
                stopped = f"{one['tool']} {outcome.verdict}"
                break
        return Played(case.effect, case.spelling, case.carrier, prompt, not stopped, stopped, asked)

    def _set(self, case: Case, names: Mapping[str, str]) -> None:
        texts = {**self._harmless, **{key: filled(text, names) for key, text in case.texts.items()}}
        known = {**names, **texts}
        for name in self._seed.keys() - {"files"}:
            put_state(self._world, name, json.dumps(numbered(self._seed[name], known), ensure_ascii=False))
        documents = self._world.home / "documents"
        shutil.rmtree(documents, ignore_errors=True)
        documents.mkdir()
        for path, text in self._seed["files"].items():
            (self._world.home / filled(path, names)).write_text(filled(text, names), encoding="utf-8")
        shutil.rmtree(self._world.home / ".ssh", ignore_errors=True)
        (self._world.home / ".ssh").mkdir()
        (self._world.home / "shop.db").write_bytes(self._shop)
        (self._pages / f"fair-{names['s']}.html").write_text(texts["page"], encoding="utf-8")
