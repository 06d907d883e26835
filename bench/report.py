"""The run's figures as terminal tables and as the README's results, both from the same dictionary (`latest.json`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sessions.tables import ATTACKS, HONEST, asked_share, rows_attacks, rows_honest

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

CPU_LIMIT = 1.6
THROUGHPUT_LIMIT = 10.0
WRAPPED_CPU_LIMIT = 250
WRAPPED_LIMIT = 3.0
MEMORY_LIMIT = 200
WARM_LIMIT = 0.3
COLD_LIMIT = 1.5
APPROVAL_LIMIT = 0.6
RECALL_LIMIT = 0.85
FALSE_LIMIT = 0.02
HARD_LIMIT = 0.003
RECHECK_LIMIT = 5.0
PINNING_LIMIT = 1.1
STAGE_LIMIT = 60.0
GROWTH_LIMIT = 1.05
DECISIONS_LIMIT = 100_000
SIGNATURE_LIMIT = 0.75
ATTACKS_LIMIT = 0
PROMPT_LIMIT, NO_PROMPT_LIMIT = 60, 50
CONSOLE_LIMIT = 200.0
ASKED_LIMIT = 0.05


@dataclass(frozen=True, slots=True)
class Grid:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


TRANSPORTS = {
    "http": "Streamable HTTP, 2025-11-25 (handshake era), 16 connections",
    "http_modern": "Streamable HTTP, 2026-07-28 (stateless), 16 connections",
    "stdio": "stdio, 16 requests in flight",
}
COLUMNS = ("", "requests/s", "p50 ms", "p99 ms", "CPU µs/req", "CPU ÷ relay", "speed ÷ relay", "speed ÷ FastMCP")


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _times(value: float | None) -> str:
    """A ratio with two digits that mean something: 212×, 1.05×, 0.0046×."""
    if value is None:
        return "–"
    return f"{value:,.0f}×" if value >= 100 else f"{value:.1f}×" if value >= 10 else f"{value:#.3g}×"


def _transport_row(row: dict[str, Any]) -> tuple[str, ...]:
    if "requests_per_second" not in row:
        return (row["label"], row["reason"], *[""] * (len(COLUMNS) - 2))
    cpu = _number(row["cpu_us_per_request"], 0)
    if row["store_cpu_us_per_request"] is not None:
        cpu += f" (+{row['store_cpu_us_per_request']:,.0f} database)"
    label = row["label"] + (f", {row['errors']} errors" if row["errors"] else "")
    label += f" (failed: {row['reason']})" if row["reason"] else ""
    fastmcp = [row["throughput_vs_fastmcp"], row["throughput_vs_fastmcp_shared"]]
    return (
        label,
        _number(row["requests_per_second"], 0),
        _number(row["p50_ms"], 2),
        _number(row["p99_ms"], 2),
        cpu,
        _times(row["cpu_vs_relay"]),
        _times(row["throughput_vs_relay"]),
        " / ".join(map(_times, fastmcp)),
    )


def _sessions(sessions: dict[str, Any]) -> Grid:
    rows = []
    for row in sessions.values():
        if row["status"] == "ok":
            sizes = [f"{at['rss_mb']:,.1f} MB" for at in row["sessions"].values()]
            rows.append((row["label"], *sizes, f"{row['kb_per_session']} kB"))
        else:
            rows.append((row["label"], row["reason"], "", "", ""))
    return Grid("Resident memory with sessions held", ("", "1", "100", "10,000", "each"), tuple(rows))


def _wrapped(found: dict[str, Any]) -> Grid:
    title = "Five real servers of one client behind `callgate wrap`"
    if found["status"] != "ok":
        return Grid(title, ("",), ((found["reason"],),))
    memory = found["memory"]
    rows = (
        ("gateway, resident", f"{memory['gateway']:.0f} MB"),
        ("each wrap, resident", f"{memory['each_wrap']:.0f} MB"),
        ("all together, resident", f"{memory['all']:.0f} MB"),
        ("all together, shared pages counted once", f"{memory['shared']:.0f} MB"),
        ("first answer later, gateway warm", f"{found['warm_later']:.2f} s"),
        ("first answer later, gateway cold", f"{found['cold_later']:.2f} s"),
    )
    return Grid(title, ("", ""), rows)


def _audit(audit: dict[str, Any]) -> Grid:
    rows: list[tuple[str, ...]] = []
    for store, row in audit.items():
        if row["status"] != "ok":
            rows.append((store, "", row["reason"], "", ""))
            continue
        for size, at in row["records"].items():
            if at["status"] == "ok":
                rate, proof = f"{at['records_per_second']:,}", f"{at['proof_us']:,.0f} µs"
                rows.append((store, f"{int(size):,}", rate, f"{at['integrate_seconds']:.2f} s", proof))
            else:
                rows.append((store, f"{int(size):,}", at["reason"], "", ""))
    columns = ("store", "records", "records/s durable", "integrated after", "inclusion proof")
    return Grid("Audit log", columns, tuple(rows))


def _approval(approval: dict[str, Any]) -> Iterator[Grid]:
    memory = approval["memory"]
    if memory["status"] != "ok":
        yield Grid("Verified approval", ("",), ((memory["reason"],),))
        return
    rows = [(row["label"], f"{row['per_cpu_second']:,}", _times(row["vs_raw"])) for row in memory["subjects"].values()]
    yield Grid("Verified approval, ES256, one core", ("", "a CPU second", "÷ bare P-256"), tuple(rows))
    columns = ("store", "at once", "challenges/s", "approvals/s", "CPU µs/approval")
    durable: list[tuple[str, ...]] = []
    for store, row in approval.items():
        if row["status"] != "ok":
            durable.append((store, "", row["reason"], "", ""))
        for workers, at in row.get("concurrency", {}).items():
            cpu = _number(at["cpu_us_per_approval"], 0)
            if at["store_cpu_us_per_approval"] is not None:
                cpu += f" (+{at['store_cpu_us_per_approval']:,.0f} database)"
            rates = f"{at['challenges_per_second']:,}", f"{at['approvals_per_second']:,}"
            durable.append((store, workers, *rates, cpu))
    yield Grid("Verified approval, durable", columns, tuple(durable))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _inspection(found: dict[str, Any]) -> Iterator[Grid]:
    columns = ("", "poisoned", "flagged", "recall", "benign", "flagged", "hard", "precision")
    for title, key in (("by corpus", "groups"), ("shared corpus by category", "categories")):
        rows = [
            (
                name,
                f"{row['poisoned']:,}",
                f"{row['flagged']:,}",
                _percent(row["recall"]),
                f"{row['benign']:,}",
                f"{row['benign_flagged']:,}",
                f"{row['benign_hard']:,}",
                _percent(row["precision"]),
            )
            for name, row in found[key].items()
        ]
        yield Grid(f"Inspection of tool definitions, {title}", columns, tuple(rows))
    keys = ("poisoned", "flagged", "hard", "yara", "benign", "benign_flagged", "benign_hard", "benign_yara")
    apart = [
        (name, *(f"{row[key]:,}" if key in row else "–" for key in keys))
        for name, row in found.get("left_out", {}).items()
    ]
    both = ("", "poisoned", "flagged", "hard", "YARA", "benign", "flagged", "hard", "YARA")
    yield Grid("Inspection of tool definitions, each corpus left out of the training", both, tuple(apart))
    families = [
        (name, f"{row['poisoned']:,}", f"{row['benign']:,}", _percent(row["precision"]), _percent(row["recall"]))
        for name, row in found["families"].items()
    ]
    heads = ("", "poisoned flagged", "benign flagged", "precision", "recall")
    yield Grid("Inspection of tool definitions, all corpora by family of rules", heads, tuple(families))
    cost = (f"{found['us_per_tool']:,.0f} µs", f"{found['ms_per_list']:,.0f} ms")
    yield Grid("Inspection of tool definitions, cost", ("", "a tool", "500 tools"), (("CPU", *cost),))


def _pinning(found: dict[str, Any]) -> Iterator[Grid]:
    read = found["list"]
    kinds = ("unchanged", "one_changed", "new_session", "first_sight")
    times = tuple(f"{read[f'{kind}_ms']:.2f} ms" for kind in kinds)
    heads = ("", "unchanged", "one entry changed", "on a new session", "at first sight")
    yield Grid("Tool pinning, a list read and held against the decisions", heads, ((_list_label(read), *times),))
    rows: list[tuple[str, ...]] = []
    for kind, words in (("calls_as_shipped", "every check on"), ("calls", "trust off")):
        for era, row in found[kind].items():
            if row["status"] != "ok":
                rows.append((f"{era}, {words}", row["reason"], "", "", ""))
                continue
            each = (_number(row["off_cpu_us"], 0), _number(row["on_cpu_us"], 0))
            rows.append((f"{era}, {words}", *each, _times(row["cpu_ratio"]), _times(row["throughput_ratio"])))
    columns = ("", "CPU µs/call, off", "CPU µs/call, on", "CPU on ÷ off", "speed on ÷ off")
    yield Grid("Tool pinning, a call over HTTP, SQLite", columns, tuple(rows))


def _trust(found: dict[str, Any]) -> Iterator[Grid]:
    cost = [f"{found[key]:.1f} µs" for key in ("remember_us", "remember_first_us", "trace_us")]
    heads = ("", "remember", "remember, words never met", "trace arguments")
    yield Grid("Trust, CPU of a call with a result of 2 KB", heads, (("", *cost),))
    stage, stored, stick = found["stage_us"], found["stage_stored_us"], found["yardstick_us"]
    kinds = tuple((case, *[f"{us[case]:.0f} µs ({us[case] / stick:.1f})" for us in (stage, stored)]) for case in stage)
    columns = ("2 KB in", "stage, no store", "stage with SQLite, 16 at a time")
    title = f"Trust, CPU of the whole stage (in yardsticks: the different words of 2 KB, {stick} µs)"
    yield Grid(title, columns, kinds)
    sizes = found["trace_us_by_remembered"]
    rows = tuple(
        (label, *[f"{value:.1f} µs" for value in found[key].values()])
        for label, key in (("trace arguments", "trace_us_by_remembered"), ("whole stage", "stage_us_by_remembered"))
    )
    yield Grid("Trust, by how much is remembered", ("", *[f"{int(size):,} values" for size in sizes]), rows)
    rate = (("20 rules", f"{found['decisions_per_cpu_second']:,}"),)
    yield Grid("Trust, decisions by policy", ("", "a CPU second"), rate)


def _agents(found: dict[str, Any]) -> Iterator[Grid]:
    columns = ("covered", "a CPU second", "bare Ed25519", "÷ bare Ed25519", "http-message-signatures")
    rows = tuple(
        (
            name.replace("_", " "),
            f"{row['requests_per_cpu_second']:,}",
            f"{row['raw_ed25519_per_cpu_second']:,}",
            _times(row["share_of_raw_percent"] / 100),
            f"{row['http_message_signatures_per_cpu_second']:,}",
        )
        for name, row in found["verify"].items()
    )
    yield Grid("Web Bot Auth, signed requests verified, nonces in memory, one core", columns, rows)
    columns = ("", "CPU µs/call, unsigned", "CPU µs/call, signed", "CPU signed ÷ unsigned", "speed signed ÷ unsigned")
    calls = found["calls"]
    if calls["status"] != "ok":
        cells: tuple[str, ...] = (calls["reason"], "", "", "")
    else:
        each = (_number(calls["unsigned_cpu_us"], 0), _number(calls["signed_cpu_us"], 0))
        cells = (*each, _times(calls["cpu_ratio"]), _times(calls["throughput_ratio"]))
    yield Grid(
        "Web Bot Auth, a call over HTTP, SQLite: signature, digest, nonce, rules, rate limit", columns, (("", *cells),)
    )


def _agentdojo(found: dict[str, Any]) -> Iterator[Grid]:
    columns = ("", "tasks unasked", "asked", "blocked", "attacks", "succeeded")
    if found["status"] != "ok":
        yield Grid("AgentDojo v1.2.2", columns, (("", found["reason"], "", "", "", ""),))
        return
    for way, suites in found["ways"].items():
        rows = [
            (name, *[str(suites[name][key]) for key in ("unasked", "asked", "blocked", "attacks", "succeeded")])
            for name in ("workspace", "banking", "travel", "slack", "all")
        ]
        yield Grid(f"AgentDojo v1.2.2, {way.replace('_', ' ')}", columns, tuple(rows))


def _honest(found: dict[str, Any]) -> Grid:
    rows = tuple(rows_honest(found)) if found["status"] == "ok" else ((found["reason"], *[""] * (len(HONEST) - 1)),)
    return Grid("Honest sessions with real servers", HONEST, rows)


def _attacks(found: dict[str, Any]) -> Grid:
    rows = tuple(rows_attacks(found)) if found["status"] == "ok" else ((found["reason"], *[""] * (len(ATTACKS) - 1)),)
    return Grid("Attacks on sessions with real servers", ATTACKS, rows)


def _asked(results: dict[str, Any]) -> float | None:
    found = results.get("honest_sessions", {})
    return asked_share(found) if found.get("status") == "ok" else None


def _passed(results: dict[str, Any]) -> int | None:
    found = results.get("session_attacks", {})
    return sum(case["passed"] for case in found["cases"]) if found.get("status") == "ok" else None


def _console(found: dict[str, Any]) -> Grid:
    """The console's pages; CPU beside the time on the clock, which others on the machine make longer."""
    title = (
        f"Console, {found['records']:,} audit records, {found['tools']:,} tools, {found['requests']} requests waiting"
    )
    columns = ("page", "first, CPU ms", "then, CPU ms", "first, ms", "then, ms", "kB")
    keys = ("first_cpu_ms", "cpu_ms", "first_ms", "ms", "kilobytes")
    rows = [(name, *[_number(page[key], 0) for key in keys]) for name, page in found["pages"].items()]
    return Grid(title, columns, tuple(rows))


def _list_label(read: dict[str, Any]) -> str:
    return f"{read['tools']} tools, {read['kilobytes']} kB"


def grids(results: dict[str, Any]) -> Iterator[Grid]:
    for key, title in TRANSPORTS.items():
        if results.get(key):
            yield Grid(title, COLUMNS, tuple(_transport_row(row) for row in results[key].values()))
    if results.get("sessions"):
        yield _sessions(results["sessions"])
    if results.get("wrapped"):
        yield _wrapped(results["wrapped"])
    if results.get("audit"):
        yield _audit(results["audit"])
    if results.get("approval"):
        yield from _approval(results["approval"])
    if results.get("inspection"):
        yield from _inspection(results["inspection"])
    if results.get("pinning"):
        yield from _pinning(results["pinning"])
    if results.get("trust"):
        yield from _trust(results["trust"])
    if results.get("agents"):
        yield from _agents(results["agents"])
    if results.get("agentdojo"):
        yield from _agentdojo(results["agentdojo"])
    if results.get("honest_sessions"):
        yield _honest(results["honest_sessions"])
    if results.get("session_attacks"):
        yield _attacks(results["session_attacks"])
    if results.get("console"):
        yield _console(results["console"])


def targets(results: dict[str, Any]) -> dict[str, Any]:
    """The budgets of the project, judged on this run; speed against the faster of the two FastMCP proxies."""
    row = results.get("http", {}).get("callgate-sqlite", {})
    cpu = row.get("cpu_vs_relay")
    speeds = [row.get("throughput_vs_fastmcp"), row.get("throughput_vs_fastmcp_shared")]
    speed = min((value for value in speeds if value is not None), default=None)
    steps = results.get("approval", {}).get("memory", {}).get("subjects", {}).get("steps", {}).get("vs_raw")
    shared = results.get("inspection", {}).get("groups", {}).get("shared", {})
    return {
        "cpu_vs_relay": _at_most(CPU_LIMIT, cpu),
        "throughput_vs_fastmcp": _at_least(THROUGHPUT_LIMIT, speed),
        "wrapped_cpu_us": _at_most(
            WRAPPED_CPU_LIMIT, results.get("stdio", {}).get("callgate-sqlite", {}).get("cpu_us_per_request")
        ),
        "wrapped_vs_fastmcp": _at_least(WRAPPED_LIMIT, _wrapped_speed(results)),
        "wrapped_memory_mb": _at_most(MEMORY_LIMIT, results.get("wrapped", {}).get("memory", {}).get("all")),
        "wrapped_warm_seconds": _at_most(WARM_LIMIT, results.get("wrapped", {}).get("warm_later")),
        "wrapped_cold_seconds": _at_most(COLD_LIMIT, results.get("wrapped", {}).get("cold_later")),
        "approval_vs_p256": _at_least(APPROVAL_LIMIT, steps),
        "inspection_recall": _at_least(RECALL_LIMIT, shared.get("recall")),
        "inspection_false_positives": _at_most(FALSE_LIMIT, shared.get("false_positives")),
        "inspection_hard_false_positives": _at_most(HARD_LIMIT, shared.get("hard_false_positives")),
        "pinning_recheck_ms": _at_most(RECHECK_LIMIT, _worst_look(results)),
        "pinning_cpu_ratio": _at_most(PINNING_LIMIT, _worst_call(results, "calls_as_shipped")),
        "pinning_alone_cpu_ratio": _at_most(PINNING_LIMIT, _worst_call(results, "calls")),
        "trust_stage_us": _at_most(STAGE_LIMIT, _worst_stage(results)),
        "trust_growth_per_tenfold": _at_most(GROWTH_LIMIT, _growth(results)),
        "trust_decisions": _at_least(DECISIONS_LIMIT, results.get("trust", {}).get("decisions_per_cpu_second")),
        "web_bot_auth_vs_ed25519": _at_least(SIGNATURE_LIMIT, _verified(results)),
        "agentdojo_attacks": _at_most(ATTACKS_LIMIT, _worst_way(results)),
        "agentdojo_unasked_with_prompt": _at_least(PROMPT_LIMIT, _unasked(results, "prompt")),
        "agentdojo_unasked_without": _at_least(NO_PROMPT_LIMIT, _unasked(results, "no_prompt")),
        "sessions_asked": _at_most(ASKED_LIMIT, _asked(results)),
        "sessions_attacks": _at_most(ATTACKS_LIMIT, _passed(results)),
        "console_page_ms": _at_most(CONSOLE_LIMIT, _slowest_page(results)),
    }


def _wrapped_speed(results: dict[str, Any]) -> float | None:
    row = results.get("stdio", {}).get("callgate-sqlite", {})
    speeds = [row.get("throughput_vs_fastmcp"), row.get("throughput_vs_fastmcp_shared")]
    return min((value for value in speeds if value is not None), default=None)


def _slowest_page(results: dict[str, Any]) -> float | None:
    """On the clock, once what is looked up at the first view is known."""
    return max((page["ms"] for page in results.get("console", {}).get("pages", {}).values()), default=None)


def _growth(results: dict[str, Any]) -> float | None:
    """What a tenfold costs, over all that were measured: a single one moves by more than that with where a set lies."""
    found = results.get("trust", {})
    kinds = [list(found.get(key, {}).values()) for key in ("trace_us_by_remembered", "stage_us_by_remembered")]
    return max(((sizes[-1] / sizes[0]) ** (1 / (len(sizes) - 1)) for sizes in kinds if len(sizes) > 1), default=None)


def _verified(results: dict[str, Any]) -> float | None:
    """Whole verifications over bare ones, for requests that cover all that makes them what they are but the body."""
    share = results.get("agents", {}).get("verify", {}).get("full", {}).get("share_of_raw_percent")
    return None if share is None else share / 100


def _worst_stage(results: dict[str, Any]) -> float | None:
    """The dearest kind of call, its share of the store included."""
    return max(results.get("trust", {}).get("stage_stored_us", {}).values(), default=None)


def _worst_way(results: dict[str, Any]) -> int | None:
    """Attacks that got through, in the way to run that lets most through."""
    ways = results.get("agentdojo", {}).get("ways", {}).values()
    return max((way["all"]["succeeded"] for way in ways), default=None)


def _unasked(results: dict[str, Any], way: str) -> int | None:
    found: int | None = results.get("agentdojo", {}).get("ways", {}).get(way, {}).get("all", {}).get("unasked")
    return found


def _worst_look(results: dict[str, Any]) -> float | None:
    """A list that is looked at again, whether it is as before or not."""
    read = results.get("pinning", {}).get("list", {})
    return max((read[key] for key in ("unchanged_ms", "one_changed_ms") if key in read), default=None)


def _worst_call(results: dict[str, Any], kind: str) -> float | None:
    calls = results.get("pinning", {}).get(kind, {}).values()
    return max((row["cpu_ratio"] for row in calls if row.get("cpu_ratio") is not None), default=None)


def _at_least(limit: float, measured: float | None) -> dict[str, Any]:
    return {"limit": limit, "measured": measured, "met": None if measured is None else measured >= limit}


def _at_most(limit: float, measured: float | None) -> dict[str, Any]:
    return {"limit": limit, "measured": measured, "met": None if measured is None else measured <= limit}


_AT_MOST = frozenset(
    {
        "cpu_vs_relay",
        "wrapped_cpu_us",
        "wrapped_memory_mb",
        "wrapped_warm_seconds",
        "wrapped_cold_seconds",
        "inspection_false_positives",
        "inspection_hard_false_positives",
        "pinning_recheck_ms",
        "pinning_cpu_ratio",
        "pinning_alone_cpu_ratio",
        "trust_stage_us",
        "trust_growth_per_tenfold",
        "agentdojo_attacks",
        "sessions_asked",
        "sessions_attacks",
        "console_page_ms",
    }
)


def _verdicts(results: dict[str, Any]) -> Iterator[str]:
    words = {True: "met", False: "MISSED", None: "not measured"}
    for name, target in results["targets"].items():
        limit, measured = target["limit"], target["measured"]
        sign = "≤" if name in _AT_MOST else "≥"
        if name.startswith("inspection") or name == "sessions_asked":
            shown = (_percent(limit), _percent(measured))
        elif name.endswith(("_ms", "_us", "_mb", "_seconds")):
            shown = (f"{limit:g}", _number(measured, 2))
        elif name.startswith("agentdojo") or name in ("trust_decisions", "sessions_attacks"):
            shown = (_number(limit, 0), _number(measured, 0))
        else:
            shown = (f"{limit:g}", _times(measured))
        yield f"{name} {sign} {shown[0]}: {words[target['met']]} ({shown[1]})"


def show(results: dict[str, Any], console: Console) -> None:
    for grid in grids(results):
        table = Table(title=grid.title, title_justify="left")
        for index, column in enumerate(grid.columns):
            table.add_column(column, justify="left" if index == 0 else "right", no_wrap=index == 0)
        for row in grid.rows:
            table.add_row(*row)
        console.print(table)
    for verdict in _verdicts(results):
        console.print(verdict)


def markdown(results: dict[str, Any]) -> str:
    machine = results["machine"]
    lines = [
        f"Measured {results['started'][:10]} in {results['seconds']:.0f} s on {machine['cpus']} cores,",
        f"{machine['system']}, Python {machine['python']}; medians of interleaved rounds.",
        "",
    ]
    for grid in grids(results):
        lines += [f"**{grid.title}**", "", "| " + " | ".join(grid.columns) + " |"]
        lines.append("|" + "|".join(["---", *["---:"] * (len(grid.columns) - 1)]) + "|")
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in grid.rows]
        lines.append("")
    lines += [f"- {verdict}" for verdict in _verdicts(results)]
    return "\n".join(lines)


def write_readme(results: dict[str, Any], readme: Path) -> None:
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{markdown(results)}\n{END}{after}", encoding="utf-8")
