"""Labels and facts for tests of the policy, each with everything harmless unless told otherwise."""

from __future__ import annotations

from typing import Any

from callgate.trust.model import Provenance, SessionLabel, ToolLabel, Traced
from callgate.trust.policy import Facts, Policy


def tool(**changed: Any) -> ToolLabel:
    """A tool of which everything is known and nothing is worrying; sets may be given as lists."""
    label: dict[str, Any] = {
        "server": "files",
        "tool": "read",
        "destinations": ["user"],
        "outcomes": ["benign"],
        "accepts": ["user"],
        "sources": ["user"],
        "returns": ["user"],
        "read_only": True,
        "destructive": False,
        "open_world": False,
        **changed,
    }
    made: Any = {name: frozenset(value) if isinstance(value, list) else value for name, value in label.items()}
    return ToolLabel(**made)


def mail(**changed: Any) -> ToolLabel:
    """A tool that sends something to anybody, for good."""
    sends: dict[str, Any] = {"server": "mail", "tool": "send_email", "destinations": ["public"]}
    return tool(**{**sends, "outcomes": ["irreversible"], "read_only": False, **changed})


def found(**where: str) -> Provenance:
    """Critical arguments by where they were found: `to="untrusted"`; `amount="own:quantity"` says the kind as well."""
    values = []
    for path, told in where.items():
        place, _, kind = told.partition(":")
        values.append(Traced(path, kind or "identity", place, kind != "text", ""))  # type: ignore[arg-type]
    own = any(one.found in {"endorsed", "prompt", "clean", "trusted", "linked"} for one in values)
    return Provenance(tuple(values), (), own, prompt_known=True)


def facts(label: ToolLabel | None = None, **changed: Any) -> Facts:
    return Facts(**{"tool": label or tool(), "args": {"to": "someone"}, **changed})


READ = SessionLabel(open_world=True)


def rules(*texts: str, default: bool = False) -> Policy:
    """A policy of these rules, each the inside of a `[[rules]]` table."""
    return Policy.load(texts=[("rules.toml", "\n".join(f"[[rules]]\n{text}" for text in texts))], default=default)


def rule(name: str, effect: str, when: str, **more: str) -> str:
    """One rule in TOML."""
    lines = [f'name = "{name}"', f'effect = "{effect}"', f"when = '''{when}'''"]
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in more.items())]) + "\n"
