"""The whole trust stage of a call of 2 KB: check, labels on what leaves, what is thought of the result, what is kept.

Four kinds of call: the text is in the arguments or in the result, and the operator said of the tool that it only looks
things up, or nobody said anything. Each is measured with sessions in memory, and again with all that a gateway does on
a SQLite store, sixteen calls at a time. A yardstick is measured beside them, for machines and their days differ.
"""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentdojo.gated import Bench, Way
from callgate.app.observations import ServerObservations
from callgate.app.trust import TrustRuntime
from callgate.audit import AuditLog
from callgate.canonical import canonical
from callgate.config import load
from callgate.gate import Call, Context
from callgate.jsonrpc import Limits, Message, parse
from callgate.keyring import Keyring
from callgate.protocol import SESSION_META
from callgate.store import Store
from callgate.trust.model import DataLabel
from callgate.trust.operator import labels
from callgate.trust.policy.predicate import predicate

SERVER = "bench"
LOOK = {
    "source": ["untrustedPublic"],
    "sensitivity": ["user"],
    "destination": ["ephemeral"],
    "outcomes": ["benign"],
    "read_only": True,
}
SMALL = {"folder": "inbox", "query": "budget review", "limit": 20}
TOGETHER = 16
SIZES = (1_000, 10_000, 100_000)

# A call goes through, with its reply.
Pass = Callable[[Message, Call, bytes], Awaitable[None]]


def _long(text: str) -> dict[str, Any]:
    # With the names beside it, 2 KB.
    return {"folder": "inbox", "note": text[:2_000]}


def _small(_text: str) -> dict[str, Any]:
    return SMALL


def reply(text: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}}).encode()


def _done(_text: str) -> bytes:
    return reply("Done.")


CASES: dict[str, tuple[str, Callable[[str], dict[str, Any]], Callable[[str], bytes]]] = {
    "arguments, benign": ("look", _long, _done),
    "arguments, unlabelled": ("other", _long, _done),
    "result, benign": ("look", _small, reply),
    "result, unlabelled": ("other", _small, reply),
}


def yardstick(texts: Sequence[str]) -> float:
    """What it costs to take one of the texts apart into its different words, in microseconds."""
    began = time.thread_time()
    for _ in texts:
        set(texts[0].lower().split())
    return (time.thread_time() - began) / len(texts) * 1e6


def measure(texts: Sequence[str], rounds: int) -> dict[str, Any]:
    with _calm():
        found, sticks = asyncio.run(_in_memory(texts, rounds))
        stored = asyncio.run(_stored(texts, max(3, rounds // 2)))
        grown = asyncio.run(_grown(texts, rounds))
    return {
        "yardstick_us": round(min(sticks), 1),
        "stage_us": found,
        "stage_stored_us": stored,
        "stage_us_by_remembered": grown,
    }


@contextmanager
def _calm() -> Iterator[None]:
    """The collector as the gateway sets it."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _made(case: str, session: str, texts: Sequence[str]) -> list[tuple[Message, Call, bytes]]:
    tool, arguments, answer = CASES[case]
    context = Context(SERVER, "http", peer="127.0.0.1")
    made = []
    for at, text in enumerate(texts):
        given, meta = arguments(text), {SESSION_META: session}
        params = {"name": tool, "arguments": given, "_meta": meta}
        raw = json.dumps({"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": params}).encode()
        message = parse(raw, Limits())
        assert isinstance(message, Message)
        call = Call(f"{session}-{at}", at, tool, given, canonical(given), raw, meta, context)
        made.append((message, call, answer(text)))
    return made


async def _one_by_one(made: Sequence[tuple[Message, Call, bytes]], through: Pass) -> float:
    began = time.process_time()
    for one in made:
        await through(*one)
    return (time.process_time() - began) / len(made) * 1e6


async def _together(lanes: Sequence[Sequence[tuple[Message, Call, bytes]]], through: Pass) -> float:
    """Several sessions at a time, each with one call after the other, as agents make them."""

    async def lane(made: Sequence[tuple[Message, Call, bytes]]) -> None:
        for one in made:
            await through(*one)

    began = time.process_time()
    await asyncio.gather(*map(lane, lanes))
    return (time.process_time() - began) / sum(map(len, lanes)) * 1e6


def _bench() -> tuple[Bench, Pass]:
    bench = Bench(Way(prompt=False), {})
    bench.check.labels = bench.labels = labels({}, {SERVER: {"tools": {"look": LOOK}}}, compile_rule=predicate)

    async def through(_message: Message, call: Call, raw: bytes) -> None:
        if bench.check.at_once(call) is None:
            await bench.check(call)
        judged = bench.check.take(call)
        assert judged is not None
        assert judged.ruling.effect == "allow"
        await bench.results.of_call(call, judged, raw)

    return bench, through


async def _in_memory(texts: Sequence[str], rounds: int) -> tuple[dict[str, float], list[float]]:
    """Sessions in memory: what the stage itself computes."""
    _, through = _bench()
    found: dict[str, list[float]] = {case: [] for case in CASES}
    sticks = []
    for number in range(rounds):
        sticks.append(yardstick(texts))
        for case in CASES:
            made = _made(case, f"{case} {number}", texts[:-1])
            # The session has read something of a stranger's before.
            await through(*made[0][:2], reply(texts[-1]))
            found[case].append(await _one_by_one(made[1:], through))
    return {case: round(min(values), 1) for case, values in found.items()}, sticks


async def _nowhere(_handle: str) -> str:
    return "nowhere"


async def _stored(texts: Sequence[str], rounds: int) -> dict[str, float]:
    """All that a gateway does for trust, its store included: the CPU of all threads."""
    found: dict[str, list[float]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [f"{key} = {json.dumps(value)}" for key, value in LOOK.items()]
        path = folder / "callgate.toml"
        path.write_text(
            f'[servers.{SERVER}]\ncommand = ["true"]\n[servers.{SERVER}.trust.tools.look]\n' + "\n".join(lines) + "\n"
        )
        store = Store.open(f"sqlite:///{folder}/bench.db", durability="normal")
        keyring = Keyring(folder / "keys")
        audit = AuditLog(store, keyring)
        office = TrustRuntime(store, audit, keyring, tell=lambda *_: None, where=_nowhere, held=lambda _: None)
        furnished = office.furnish(load(path), ServerObservations())

        async def through(message: Message, call: Call, raw: bytes) -> None:
            if furnished.check.at_once(call) is None:
                await furnished.check(call)
            _, after = furnished.stage.outgoing(message, call)
            await after(raw.replace(b'"id": 1', b'"id": %d' % call.at, 1))

        try:
            for number in range(rounds):
                for case in CASES:
                    lanes = [_made(case, f"{case} {number} {at}", texts[at:-1:TOGETHER]) for at in range(TOGETHER)]
                    for made in lanes:
                        await through(*made[0][:2], reply(texts[-1]))
                    found[case].append(await _together([made[1:] for made in lanes], through))
        finally:
            await store.close()
    return {case: round(min(values), 1) for case, values in found.items()}


async def _grown(texts: Sequence[str], rounds: int) -> dict[str, float]:
    """A result of 2 KB of an unlabelled tool, in sessions that remember ever more; rounds of the sizes alternate."""
    bench, through = _bench()
    found: dict[int, list[float]] = {size: [] for size in SIZES}
    for number in range(rounds * 2):
        for size in SIZES:
            # As much is new to each of them.
            made = _made("result, unlabelled", f"{size}", [texts[0], *texts[:100]])
            if number == 0:
                await through(*made[0])
                await _fill(bench, made[0][1], size)
            found[size].append(await _one_by_one(made[1:], through))
    return {str(size): round(min(values), 1) for size, values in found.items()}


async def _fill(bench: Bench, call: Call, size: int) -> None:
    await bench.check(call)
    judged = bench.check.take(call)
    assert judged is not None
    data = DataLabel(open_world=True, sources=judged.label.sources)
    for start in range(0, size, 200):
        text = " ".join(f"v{at}" for at in range(start, start + 200))
        judged.live.memory.remember_result(judged.label, data, None, (text,), {}, open_world=True)
