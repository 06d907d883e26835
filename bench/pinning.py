"""What tool pinning costs: a list of 500 tools looked at again, and a call with pinning on over one with it off."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias, cast

import gateway
import http_bench
from inspection import LIST, rows
from processes import Running
from rows import Row, ratio
from subjects import Bench, Subject, start_echo
from wire import HANDSHAKE, MODERN

SERVER = "many"
URL = "http://127.0.0.1:9/mcp"
ERAS = (HANDSHAKE, MODERN)


# -- a list that is looked at again ----------------------------------------------------------------------------


def entries() -> list[dict[str, Any]]:
    """Tools as people publish them, until there are 500, each with a name of its own."""
    published = [row.entry for row in rows() if row.corpus == "shared" and row.category == "published"]
    return [{**published[at % len(published)], "name": f"tool_{at}"} for at in range(LIST)]


def reply(tools: Sequence[dict[str, Any]]) -> bytes:
    """As most servers write it: without blanks, letters beyond ASCII as they are."""
    whole = {"jsonrpc": "2.0", "id": "callgate-1", "result": {"tools": list(tools)}}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(slots=True)
class Wire:
    """The line to a server whose answers are there already."""

    answers: Iterator[bytes]
    waited: float = 0.0
    caller: str | None = None
    held: object = None

    async def turn(self) -> None:
        pass

    async def ask(self, _: object) -> bytes:
        return next(self.answers)


class Desk:
    """A gateway's own lists, with every tool approved; its clock is so fast that each list is too old at once."""

    def __init__(self, approved: bytes) -> None:
        from callgate.pinning.chain import DecisionChain
        from callgate.pinning.identity import ServerRef, http_identity
        from callgate.pinning.listing import EntryReader, read_page
        from callgate.pinning.model import Pin, PinningSettings
        from callgate.pinning.toolsets import Toolsets

        self._settings = PinningSettings()
        identity = http_identity(URL)
        page = read_page(approved)
        assert page is not None
        reader = EntryReader(identity.server_id, self._settings)
        pins = [
            Pin(
                action="approve",
                server_id=identity.server_id,
                lineage=identity.lineage,
                server=SERVER,
                tool=tool.name,
                approval_hash=tool.approval_hash,
                approved_at=1,
                approved_by="bench",
                beside=tool.beside,
                raw=tool.raw,
            )
            for tool in map(reader.read, page.entries)
        ]
        self.book = DecisionChain(lambda: [bytes(32)])
        sealed, head = self.book.link(pins)(None)
        self.book.read(head, sealed)
        self._place = ServerRef(SERVER, "", URL, lambda _reported: identity)
        self._make = Toolsets

    def toolsets(self) -> Any:
        clock = map(float, itertools.count(0, 1_000))
        made = self._make(self, self._settings, met=lambda _: None, clock=clock.__next__)
        made.configure(self._settings, {SERVER: self._place}, 5.0)
        return made


async def _timed(look: Callable[[int], Any], rounds: int) -> float:
    """The median CPU time of a look, in milliseconds; the first is not counted."""
    taken = []
    for number in range(rounds + 1):
        began = time.process_time()
        await look(number)
        taken.append(time.process_time() - began)
    return round(median(taken[1:]) * 1000, 3)


async def _lists(rounds: int) -> dict[str, Any]:
    from callgate.pipeline.context import Channel, RequestContext

    tools = entries()
    known = reply(tools)
    changed = reply([{**tool, "description": "Changed."} if at == 0 else tool for at, tool in enumerate(tools)])
    desk = Desk(known)
    held = desk.toolsets()

    def visit(session: str, answers: Iterator[bytes]) -> Any:
        return RequestContext(SERVER, "http", session=session, line=cast("Channel", Wire(answers)))

    same, turning = visit("same", itertools.repeat(known)), visit("turning", itertools.cycle([known, changed]))

    async def first(number: int) -> None:
        toolset = await desk.toolsets().verify(visit(str(number), iter([known])), {})
        assert toolset.standing("tool_1").open

    await held.verify(same, {})
    await held.verify(turning, {})
    return {
        "tools": len(tools),
        "kilobytes": round(len(known) / 1024),
        "unchanged_ms": await _timed(lambda _: held.verify(same, {}), rounds),
        "one_changed_ms": await _timed(lambda _: held.verify(turning, {}), rounds),
        "new_session_ms": await _timed(lambda number: held.verify(visit(str(number), iter([known])), {}), rounds),
        "first_sight_ms": await _timed(first, rounds),
    }


# -- a call ----------------------------------------------------------------------------------------------------


Pair: TypeAlias = tuple[Subject, Subject]


def _subject(name: str, label: str, *, pinning: bool, trust: bool) -> Subject:
    def start(stack: ExitStack, bench: Bench) -> Running:
        where = bench.scratch / name
        return gateway.serve(stack, where, bench.upstream, on_postgres=False, pinning=pinning, trust=trust)

    return Subject(name, label, start, ERAS)


def _pairs(kind: str, *, trust: bool) -> tuple[Pair, ...]:
    """Without and with pinning; several of each, for processes of one program differ by up to 5 % all their time."""
    return tuple(
        (
            _subject(f"{kind}-off-{at}", "Callgate, pinning off", pinning=False, trust=trust),
            _subject(f"{kind}-on-{at}", "Callgate, pinning on", pinning=True, trust=trust),
        )
        for at in range(3)
    )


# Alone: trust would hide what pinning costs. As shipped: what a user pays who turns it on.
KINDS = {"calls": _pairs("alone", trust=False), "calls_as_shipped": _pairs("shipped", trust=True)}


def _calls(measured: dict[str, Row], pairs: Sequence[Pair]) -> dict[str, Any]:
    missing = [row.reason for row in measured.values() if not row.samples]
    if missing:
        return {"status": "unavailable", "reason": missing[0]}
    off, on = (Row("", tuple(one for pair in pairs for one in measured[pair[at].name].samples)) for at in range(2))
    return {
        "status": "ok",
        "off_cpu_us": round(median(sample.cpu_us or 0.0 for sample in off.samples), 1),
        "on_cpu_us": round(median(sample.cpu_us or 0.0 for sample in on.samples), 1),
        "cpu_ratio": ratio(on, off, lambda sample: sample.cpu_us),
        "throughput_ratio": ratio(on, off, lambda sample: sample.per_second),
        "errors": sum(sample.errors for sample in (*off.samples, *on.samples)),
    }


def measure(scratch: Path, say: Callable[[str], None], *, quick: bool) -> dict[str, Any]:
    say("pinning, lists of 500 tools")
    found: dict[str, Any] = {"list": asyncio.run(_lists(5 if quick else 40))}
    for kind, pairs in KINDS.items():
        found[kind] = {}
        folder = scratch / kind
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            bench = Bench(start_echo(stack, folder), folder, say)
            subjects = tuple(itertools.chain.from_iterable(pairs))
            where = stack.enter_context(http_bench.started(subjects, bench))
            for era in ERAS:
                say(f"pinning, {kind.replace('_', ' ')}, {era}")
                count, seconds = (2, 0.4) if quick else (8, 0.7)
                measured = http_bench.measure(subjects, where, era, count, seconds, lambda _: None)
                found[kind][era] = _calls(measured, pairs)
    return found


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        print(json.dumps(measure(Path(made), print, quick="--quick" in sys.argv), indent=1))
