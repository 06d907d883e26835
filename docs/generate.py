"""Writes docs/reference/ from the code: configuration, reasons, metrics, inspection, facts, commands, exit codes, API.

`python docs/generate.py` writes what is stale; with `--check` it only names it, and exits with 1 if there is anything.
"""
# ruff: noqa: INP001

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import typer.main

from callgate import config
from callgate.cli import build
from callgate.cli.help_texts import EXAMPLES, EXIT_CODES, SPECIAL
from callgate.config import agents, trust
from callgate.config.approval import ToolDemand
from callgate.config.loading import expected_type, number
from callgate.config.output import descriptions
from callgate.config.rules import Section, peel
from callgate.errors import Reason
from callgate.inspection import ADVISORY, all_rules
from callgate.inspection import family as family_of
from callgate.pipeline.dispatcher import known_clients
from callgate.telemetry.metrics import Metrics
from callgate.trust.policy import TABLE
from callgate.trust.policy.condition import TYPE_NAMES

# `python docs/generate.py` looks for modules beside itself only.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs import python_api

REFERENCE: Final = Path(__file__).resolve().parent / "reference"
VERIFIER: Final = Path(__file__).resolve().parents[1] / "verify" / "page"
MADE: Final = "<!-- Made by docs/generate.py; change the code it is made from. -->\n"

_DYNAMIC: Final = {"store.url": "`callgate.db` in the state directory"}
_LABELS: Final = {
    "server": "a name from the configuration",
    "verdict": "`pass` or `refuse`",
    "reason": "a [reason](reasons.md), or `none`",
    "transport": "`http` or `stdio`",
    "witness": "the name of a witness from the configuration",
    "method": "an HTTP method",
    "status": "an HTTP status",
    "source": "`web-bot-auth`, `oauth`, `api-key` or `none`",
    "what": "`new`, `text`, `beside`, `gone`, `back`, `grown` or `arguments`",
    "version": "of Callgate",
    "python": "its version",
}


_CONFIG: Final = """\
# callgate.toml

Callgate reads the file given by `--config`, else the one named by `CALLGATE_CONFIG`, else `callgate.toml` in the
working directory, else `callgate/callgate.toml` in the user's configuration directory. Every key is optional.
`callgate check` finds mistakes. `callgate config show` prints what is in force. A running gateway uses a changed file
within seconds, if it is valid.

Editors complete and check the file with [its JSON Schema](callgate.schema.json), which `callgate config schema` prints
too.

Where a key says that `${NAME}` is expanded, Callgate puts in the value of the environment variable. `${NAME:-default}`
gives a default for a variable that is unset or empty, and `$${` stands for a plain `${`. Keep secrets in the
environment. Callgate never shows or logs values of `headers` and `env`, or passwords and queries in URLs.
"""
_REASONS: Final = """\
# Reasons

A refusal carries its reason in `error.data.reason` of the JSON-RPC answer, in the audit log and in the metrics.
Where a refused call is answered with a [result](#refusals-as-results), the same error is in
`result._meta["dev.callgate/refusal"]`, and the HTTP status is 200.

| reason | HTTP | JSON-RPC | what it means | what to do |
|---|---|---|---|---|"""
_FORMS: Final = """
## Refusals as results

These clients get a refused `tools/call` as a result with `isError: true`, so that their model reads why and what to
do. All others get a JSON-RPC error. [`gateway.refusals`](config.md) sets one form for all. A client that does SEP-2672
always gets the error, and so do calls in a batch and callers who have to prove first who they are.

| client | `clientInfo.name` | form | how that was found out |
|---|---|---|---|"""
_METRICS: Final = """\
# Metrics

Served at `/metrics` in the Prometheus text format unless `telemetry.metrics` is false. Labels come from the
configuration and from fixed lists only; anything else is counted as `other`.

| metric | type | labels | |
|---|---|---|---|"""
_INSPECTION: Final = """\
# Rules of the inspection

Before a person approves a tool, these rules read its definition: name, title, description, every text and every name
in its schemas, annotations and `_meta`. Nothing is sent anywhere, and the same definition has the same findings every
time. Text is folded first, so that case, width, accents, invisible characters, look-alike letters and markup
make no difference.

A **hard** finding blocks approval unless the reviewer overrules it. A **soft** one informs. A **note** is a soft
finding that describes how a tool is built or what it quotes; many honest tools have some, so it is no reason for
suspicion by itself. `bench/README.md` measures how often the rules are right and how often
they are wrong. They help the reviewer. The reviewer still has to read the text.

| rule | tier | why it matters |
|---|---|---|"""
_FACTS: Final = """\
# Facts for rules

What the conditions of a policy can read. `callgate policy facts` prints the same; how rules are written is in
[Write a policy in ten minutes](../how-to/write-a-policy.md). A name or a word that is not here is an error when the
rules are loaded.

Sets of possible values are lists. If nobody says what a tool does, it is unknown, and the most restrictive value
counts: its arguments may go to the public, its outcome may be irreversible, its result may be anybody's words.

| fact | type | what it says | for example |
|---|---|---|---|"""
_FACTS_MORE: Final = """\

## Words

| fact | words |
|---|---|"""
_FACTS_END: Final = """\

A class of data can also be `regulated:SCOPE`, such as `regulated:HIPAA`, or an organisation's own in reverse-DNS form,
such as `com.example.board-papers`.

## Where a value was found

Each value in `provenance.critical` and `provenance.values` has a `path`, a `kind` and where it was `found`:

| found | |
|---|---|
| `endorsed` | a person approved this value in this session, for this argument of this tool |
| `prompt` | in the user's own words |
| `clean` | among what was sent before anything untrusted had been read |
| `trusted` | in a result whose source is trusted |
| `linked` | the id of a thing that the user named |
| `own` | in a field that the server itself fills in |
| `nowhere` | not met before |
| `untrusted` | only in text that a stranger may have written |
"""
_EXIT_CODES: Final = """\
# Exit codes

What a script can tell from how `callgate` ends. Results go to stdout, everything else to stderr; with `--json`, stdout
is JSON and nothing else.

| code | what it means | what to do |
|---|---|---|"""
_EXIT_CODES_MORE: Final = """\

## What some commands add

| command | |
|---|---|"""
_OVERRIDES: Final = """\
## Environment variables

Each overrides one key of the file. The kill switch is on if either says so: `CALLGATE_BLOCK_ALL=false` leaves what the
file says.

| variable | key |
|---|---|"""


def pages() -> dict[str, str]:
    """Every file of the reference, by name."""
    return {
        "config.md": config_page(),
        "reasons.md": reasons_page(),
        "metrics.md": metrics_page(),
        "inspection.md": inspection_page(),
        "facts.md": facts_page(),
        "cli.md": cli_page(),
        "exit-codes.md": exit_codes_page(),
        "python.md": MADE + python_api.page(),
        "verify.html": verifier_page(),
        "callgate.schema.json": json.dumps(config.schema(), indent=2, ensure_ascii=False) + "\n",
    }


def verifier_page() -> str:
    """The verifier of receipts as one file; a browser runs nothing in it but what it was made with."""
    parts = {name: (VERIFIER / f"verify.{name}").read_text(encoding="utf-8") for name in ("css", "js")}
    digests = {name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for name, text in parts.items()}
    csp = (
        f"default-src 'none'; script-src 'sha256-{digests['js']}'; style-src 'sha256-{digests['css']}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = (VERIFIER / "page.html").read_text(encoding="utf-8")
    for name, text in {"csp": csp, **parts}.items():
        page = page.replace(f"{{{name}}}", text, 1)
    return page


def config_page() -> str:
    """Every key of callgate.toml."""
    lines = [MADE + _CONFIG]
    for title, kind, name in _sections():
        lines += [f"## {title}", "", str(inspect.getdoc(kind)), "", "| key | takes | default | |", "|---|---|---|---|"]
        said = descriptions(kind)
        for field in msgspec.structs.fields(kind):
            takes = expected_type(field.type).replace('"', "`")
            default = _DYNAMIC.get(f"{name}.{field.name}") or _default(field)
            lines.append(_row(f"`{field.name}`", takes, default, said.get(field.name, "")))
        lines.append("")
    lines.append(_OVERRIDES)
    lines += [_row(f"`{name}`", f"`{'.'.join(key)}`") for name, (key, _) in config.OVERRIDES.items()]
    return "\n".join(lines) + "\n"


def reasons_page() -> str:
    """Every reason a call can be refused for."""
    lines = [MADE + _REASONS]
    lines += [
        _row(f"`{reason.value}`", str(reason.status), str(reason.code), reason.meaning, reason.advice)
        for reason in Reason
    ]
    lines += [_FORMS]
    lines += [_row(client.title, f"`{name}`", client.form, client.seen) for name, client in known_clients().items()]
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """Every metric of /metrics."""
    lines = [MADE + _METRICS]
    families = Metrics().families()
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(_row(f"`{family.name}`", family.kind, labels or "-", family.description))
    lines += ["", "| label | values |", "|---|---|"]
    used = dict.fromkeys(label for family in families for label in family.labels)
    lines += [_row(f"`{label}`", _LABELS[label]) for label in used]
    return "\n".join(lines) + "\n"


def inspection_page() -> str:
    """Every rule that tool definitions are inspected by."""
    lines = [MADE + _INSPECTION]
    for rule in all_rules():
        tier = "note" if rule.tier == "soft" and family_of(rule.id) in ADVISORY else rule.tier
        lines.append(_row(f"`{rule.id}`", tier, rule.why))
    return "\n".join(lines) + "\n"


def facts_page() -> str:
    """Every fact that rules of a policy can read."""
    lines = [MADE + _FACTS]
    for fact in TABLE:
        about = f'{fact.about} Rules with `on = "result"` only.' if fact.result else fact.about
        lines.append(_row(f"`{fact.name}`", TYPE_NAMES[fact.kind], about, f"`{fact.example}`"))
    lines.append(_FACTS_MORE)
    lines += [_row(f"`{fact.name}`", ", ".join(f"`{word}`" for word in fact.words)) for fact in TABLE if fact.words]
    return "\n".join([*lines, _FACTS_END])


def cli_page() -> str:
    """Every command."""
    lines = [f"{MADE}# Command line", ""]
    for words, command in _commands("callgate", typer.main.get_command(build([]))):
        lines += [f"## {words}", "", *_command(words, command)]
    return "\n".join(lines).rstrip() + "\n"


def exit_codes_page() -> str:
    """Every exit code."""
    lines = [MADE + _EXIT_CODES, *(_row(f"`{code}`", meaning, then) for code, meaning, then in EXIT_CODES)]
    lines += [_EXIT_CODES_MORE, *(_row(f"`{words}`", text) for words, text in SPECIAL.items())]
    return "\n".join(lines) + "\n"


def _sections() -> Iterator[tuple[str, type[Section], str]]:
    for field in msgspec.structs.fields(config.Config):
        bare = peel(field.type)[0]
        if isinstance(bare, type):
            yield f"[{field.name}]", bare, field.name
    yield "[servers.NAME]", config.ServerSection, "servers"
    yield "[servers.NAME.approval]", config.ServerApproval, "servers.approval"
    yield "[servers.NAME.approval.demands.TOOL]", ToolDemand, "servers.approval.demands"
    yield "[agents.signatures]", agents.Signatures, "agents.signatures"
    yield "[agents.kya]", agents.Kya, "agents.kya"
    yield "[agents.oauth]", config.OAuth, "agents.oauth"
    yield "[agents.api_keys]", agents.ApiKeysSection, "agents.api_keys"
    yield "[agents.default]", config.AgentRules, "agents.default"
    yield "[agents.known.NAME]", config.KnownAgent, "agents.known"
    yield "[trust.defaults]", trust.TrustDefaults, "trust.defaults"
    yield "[servers.NAME.trust]", config.ServerTrust, "servers.trust"
    yield "[servers.NAME.trust.tools.TOOL]", trust.ToolLabels, "servers.trust.tools"
    yield "[[servers.NAME.trust.rules]]", trust.ArgumentLabels, "servers.trust.rules"


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if value is None or isinstance(value, Section):
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"`{number(value)}`"
    return f"`{json.dumps(value)}`"


def _commands(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", {})
    if not children:
        yield words, command
    for name in sorted(children):
        if not children[name].hidden:
            yield from _commands(f"{words} {name}", children[name])


def _command(words: str, command: Any) -> list[str]:
    parameters = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    options = [one for one in parameters if one.param_type_name == "option"]
    usage = " ".join([words, *(["[OPTIONS]"] if options else []), *(_argument(one) for one in arguments)])
    lines = [f"    {usage}", "", inspect.cleandoc(command.help or "").replace("\f", ""), ""]
    rows = [_row(f"`{_argument(one)}`", getattr(one, "help", None) or "") for one in arguments]
    rows += [_row(f"`{_option(one)}`", one.help or "") for one in options]
    lines += ["| | |", "|---|---|", *rows, ""] if rows else []
    examples = EXAMPLES.get(words.removeprefix("callgate "), ()) if command.epilog else ()
    shown = [f"    callgate {example}" for example in examples]
    return [*lines, "For example:", "", *shown, ""] if shown else lines


def _argument(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    name = f"{name}..." if parameter.nargs == -1 and not name.endswith(("...", "…")) else name
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag or parameter.count:
        return names
    return f"{names} {parameter.metavar or parameter.name.upper()}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def stale(folder: Path = REFERENCE) -> dict[str, str]:
    """The pages that are not what the code says now."""
    return {
        name: text
        for name, text in pages().items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text
    }


def main(words: list[str]) -> int:
    old = stale()
    if "--check" in words:
        for name in old:
            sys.stdout.write(f"docs/reference/{name} is stale; run `make docs`\n")
        return 1 if old else 0
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in old.items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote docs/reference/{name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
