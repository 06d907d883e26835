"""AgentDojo (v1.2.2) as recorded tool calls: what an agent that obeys everything would do, without a language model.

The policy is measured on calls, not on a model's willingness to be fooled, so the agent here is the worst one: it makes
the benchmark's own ground-truth calls for the user, and the moment a result shows it an injected order it makes the
ground-truth calls of that order too, before it goes on. Each call runs in the benchmark's own environment, so the
results are the benchmark's, with the injected text where the benchmark puts it.

    python bench/agentdojo/traces.py OUT.json
"""

from __future__ import annotations

import argparse
import copy
import datetime as dt
import json
import sys
import types
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NotRequired, TypedDict

VERSION = "v1.2.2"
SUITES = ("workspace", "banking", "travel", "slack")
BENIGN_RUNS, ATTACKED_RUNS = 97, 609

# The text of the benchmark's "important instructions" attack is taken from the package; these are its names for a
# victim about whom the attacker knows nothing.
USER, MODEL = "the user", "the AI language model"
NOW = dt.datetime(2024, 5, 15, 12, 0)  # noqa: DTZ001  (the benchmark's times carry no zone)


class Call(TypedDict):
    tool: str
    args: dict[str, Any]
    result: Any
    injected: bool
    error: NotRequired[str]


class Run(TypedDict):
    """One conversation. `carrier` is the index of the user's call whose result showed the order, null if none did."""

    suite: str
    user_task: str
    injection_task: str | None
    prompt: str
    goal: str | None
    carrier: int | None
    calls: list[Call]


class Tool(TypedDict):
    name: str
    description: str
    inputSchema: dict[str, Any]


class Traces(TypedDict):
    version: str
    tools: dict[str, list[Tool]]
    runs: list[Run]


def _package(name: str) -> Any:
    """A module of the benchmark. By name and untyped, because this folder has the package's name too: a checker that
    looks along the bench folder would take this folder for the package."""
    return import_module(f"agentdojo.{name}")


@contextmanager
def _repeatable() -> Iterator[None]:
    """Two things in the benchmark's tools differ from run to run: the time of a mail or file just written, and the
    order of an event's participants, which goes through a set. Both show in results, so both are held still."""

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return NOW.replace(tzinfo=tz)

    tools = "default_suites.v1.tools."
    calendar, clocked = _package(tools + "calendar_client"), ("email_client", "cloud_drive_client")
    frozen = types.SimpleNamespace(**{**vars(dt), "datetime": Clock})
    for name in clocked:
        _package(tools + name).datetime = frozen
    calendar.set = dict.fromkeys
    try:
        yield
    finally:
        for name in clocked:
            _package(tools + name).datetime = dt
        del calendar.set


def plain(value: Any) -> Any:
    """A tool's return value as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    raise TypeError(f"a tool returned a {type(value).__name__}, which has no JSON form here")


def structured(result: Any) -> dict[str, Any]:
    """A recorded result as the MCP SDK's `structuredContent`: an object as it is, anything else under `result`."""
    return result if isinstance(result, dict) else {"result": result}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def shows(result: Any, goal: str) -> bool:
    """Whether a result carries the order. White space is not compared: the environments are YAML, which folds it."""
    wanted = " ".join(goal.split())
    return any(wanted in " ".join(text.split()) for text in _texts(result))


def _call(runtime: Any, environment: Any, call: Any, *, injected: bool) -> Call:
    """Runs one ground-truth call. The arguments are recorded first: some tools write into the lists they are given."""
    args = plain(copy.deepcopy(dict(call.args)))
    result, error = runtime.run_function(environment, call.function, call.args)
    record: Call = {"tool": call.function, "args": args, "result": plain(result), "injected": injected}
    if error is not None:
        record["error"] = error
    return record


def run(suite: Any, user_task: Any, injection_task: Any | None) -> Run:
    """One conversation of the obedient agent. With an injection task every place that the benchmark lets a stranger
    write to carries its order. If no result of the user's calls shows it, the agent makes the injected calls at the
    end: an attack that found another way in is still one that the policy has to stop."""
    text = ""
    if injection_task is not None:
        attack = _package("attacks.important_instructions_attacks").ImportantInstructionsAttack
        text = attack._JB_STRING.format(goal=injection_task.GOAL, user=USER, model=MODEL)  # noqa: SLF001
    places = suite.get_injection_vector_defaults()
    environment = suite.load_and_inject_default_environment(dict.fromkeys(places, text) if text else places)
    environment = user_task.init_environment(environment)
    runtime = _package("functions_runtime").FunctionsRuntime(suite.tools)

    calls: list[Call] = []
    carrier: int | None = None

    def obey(task: Any) -> None:
        orders = task.ground_truth(environment.model_copy(deep=True))
        calls.extend(_call(runtime, environment, order, injected=True) for order in orders)

    for call in user_task.ground_truth(environment.model_copy(deep=True)):
        calls.append(_call(runtime, environment, call, injected=False))
        if injection_task is not None and carrier is None and shows(calls[-1]["result"], injection_task.GOAL):
            carrier = len(calls) - 1
            obey(injection_task)
    if injection_task is not None and carrier is None:
        obey(injection_task)
    return {
        "suite": suite.name,
        "user_task": user_task.ID,
        "injection_task": injection_task.ID if injection_task is not None else None,
        "prompt": user_task.PROMPT,
        "goal": injection_task.GOAL if injection_task is not None else None,
        "carrier": carrier,
        "calls": calls,
    }


def _number(task: Any) -> int:
    return int(task.ID.rpartition("_")[2])


def _runs(suite: Any) -> Iterator[Run]:
    users = sorted(suite.user_tasks.values(), key=_number)
    untouched = suite.load_and_inject_default_environment({})
    orders = sorted(
        (task for task in suite.injection_tasks.values() if task.ground_truth(untouched.model_copy(deep=True))),
        key=_number,
    )
    for user in users:
        yield run(suite, user, None)
    for user in users:
        for order in orders:
            yield run(suite, user, order)


def _tool(function: Any) -> Tool:
    return {
        "name": function.name,
        "description": function.description,
        "inputSchema": function.parameters.model_json_schema(),
    }


def make_traces(names: tuple[str, ...] = SUITES) -> Traces:
    """All runs of the named suites: every user task unharmed, then every user task with every injection task that has
    ground-truth calls (those without have nothing that a gate could see)."""
    suites = {name: _package("task_suite.load_suites").get_suite(VERSION, name) for name in names}
    with _repeatable():
        runs = [one for suite in suites.values() for one in _runs(suite)]
    return {
        "version": VERSION,
        "tools": {name: [_tool(function) for function in suite.tools] for name, suite in suites.items()},
        "runs": runs,
    }


def summary(traces: Traces) -> Iterator[str]:
    """The counts, per suite: runs, attacked runs in which a result showed the order, calls that ended in an error."""
    counts: Counter[tuple[str, str]] = Counter()
    for one in traces["runs"]:
        keys = ["benign" if one["injection_task"] is None else "attacked"]
        keys += ["shown"] if one["carrier"] is not None else []
        keys += ["errors"] * sum("error" in call for call in one["calls"])
        counts.update((name, key) for name in (one["suite"], "all") for key in keys)
    for name in (*traces["tools"], "all"):
        benign, attacked, shown, errors = (counts[name, key] for key in ("benign", "attacked", "shown", "errors"))
        yield f"{name}: {benign} user tasks, {attacked} attacked runs ({shown} shown the order), {errors} failed calls"


def main() -> None:
    parser = argparse.ArgumentParser(description="Record AgentDojo's ground-truth calls, benign and attacked.")
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    traces = make_traces()
    out.write_text(json.dumps(traces, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(summary(traces)))
    benign = sum(one["injection_task"] is None for one in traces["runs"])
    if (benign, len(traces["runs"]) - benign) != (BENIGN_RUNS, ATTACKED_RUNS):
        sys.exit(f"expected {BENIGN_RUNS} user tasks and {ATTACKED_RUNS} attacked runs: is this {VERSION}?")


if __name__ == "__main__":
    main()
