"""The gate inside a program of your own, with a check of your own: nobody deletes outside of office hours."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import secrets
import sys
import time
from collections.abc import Callable

from callgate.errors import Reason, Refused
from callgate.gate import Call, Context, Decision, Gate, Pass, Refuse, Verdict
from callgate.jsonrpc import Limits, Message, parse, tool_call


class OfficeHours:
    """A check: it gets the call and answers with a value. The clock is passed in, so that it can be tested."""

    def __init__(self, clock: Callable[[], dt.datetime]) -> None:
        self._clock = clock

    async def __call__(self, call: Call) -> Verdict:
        now = self._clock()
        facts = {"hour": now.hour}
        if call.tool.startswith("delete_") and not 9 <= now.hour < 17:
            return Refuse(Reason.BLOCKED_BY_POLICY, "deleting is for office hours", facts)
        return Pass(facts)


async def record(call: Call, decision: Decision) -> None:
    """What is not on record does not pass: if this raises, the gate refuses the call."""
    said = {answer.check: type(answer.verdict).__name__ for answer in decision.answers}
    sys.stdout.write(json.dumps({"tool": call.tool, "allowed": decision.allowed, "checks": said}) + "\n")


def never_closed() -> Refused | None:
    """The kill switch: a refusal while it is on, None while it is off."""
    return None


def call_in(raw: bytes) -> Call:
    """The call in a client's message, strictly read; raises if two readers could see two different calls."""
    message = parse(raw, Limits())
    assert isinstance(message, Message)
    wanted = tool_call(message)
    return Call(
        id=secrets.token_hex(16),
        at=round(time.time() * 1000),
        tool=wanted.name,
        arguments=wanted.arguments,
        canonical=wanted.canonical,
        raw=message.raw,
        meta=message.meta,
        context=Context(server="notes", transport="library"),
    )


async def main() -> None:
    night = dt.datetime(2026, 11, 15, 23, tzinfo=dt.UTC)
    gate = Gate(kill_switch=never_closed, record=record, trust=OfficeHours(lambda: night), limit=1.0)
    for tool in ("read_note", "delete_note"):
        params = {"name": tool, "arguments": {"name": "welcome"}}
        raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        decision = await gate.decide(call_in(raw))
        if decision.refused is not None:
            sys.stdout.write(f"{tool}: refused, {decision.refused.reason}: {decision.refused.message}\n")
        else:
            sys.stdout.write(f"{tool}: may go on\n")


if __name__ == "__main__":
    asyncio.run(main())
