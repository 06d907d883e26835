"""What a decision has to be before it is written: explicit, on a known text, by somebody, and not against a finding."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callgate.errors import Reason, Refused
from callgate.inspection import ToolFinding
from callgate.pinning.document import entry_digest
from callgate.pinning.model import Action, Listed, Pin, ServerSeen, ToolSeen

_NOTE: Final = 500
_WHO: Final = 200
_MOST: Final = 10_000
ACTIONS: Final[dict[str, str]] = {
    "approve": "pinning.approved",
    "block": "pinning.blocked",
    "withdraw": "pinning.withdrawn",
}


class Choice(msgspec.Struct, frozen=True):
    """One decision on one tool: there is none on a whole server. An approval names the hash that was reviewed.

    `entry` is the digest of the whole entry that was reviewed, and `shown` the hard findings that were: `override` is
    for those. Who names neither decides on the entry, and overrules the findings, as they are at that moment.
    """

    action: Action
    server_id: str
    tool: str
    approval_hash: str = ""
    note: str = ""
    override: bool = False
    entry: str = ""
    shown: tuple[ToolFinding, ...] | None = None
    # What the tool does, as it was shown and agreed to; the proposal where none is named.
    label: str = ""


class Subject(msgspec.Struct, frozen=True):
    """What a choice is about: what was met of the tool, if anything, and what was decided before."""

    server: ServerSeen | None
    seen: ToolSeen | None
    listed: Listed | None
    pin: Pin | None
    findings: tuple[ToolFinding, ...] = ()
    catch_all: str = ""
    # What is proposed for its label.
    label: str = ""


def check_reviewer(by: str) -> None:
    if not by.strip() or len(by) > _WHO or not by.isprintable():
        raise Refused(Reason.INVALID_PARAMS, "a decision needs the name of whoever makes it", advice="Say who decides.")


def check_request(choices: Sequence[Choice], by: str) -> None:
    """Refuses what no store has to be asked for."""
    check_reviewer(by)
    if not choices or len(choices) > _MOST:
        raise Refused(Reason.INVALID_PARAMS, f"{len(choices)} decisions at once", advice=f"Send 1 to {_MOST:,}.")
    named = set()
    for choice in choices:
        if choice.action not in ACTIONS:
            raise Refused(
                Reason.INVALID_PARAMS, f"there is no decision {choice.action!r}", advice="Approve, block or withdraw."
            )
        if not choice.server_id or not choice.tool:
            raise Refused(
                Reason.INVALID_PARAMS, "a decision names one server and one tool", advice="Name both, tool by tool."
            )
        if (choice.server_id, choice.tool) in named:
            raise Refused(
                Reason.INVALID_PARAMS, f"{choice.tool!r} is decided on twice", advice="Decide on each tool once."
            )
        named.add((choice.server_id, choice.tool))
        _check_words(choice)


def _check_words(choice: Choice) -> None:
    if choice.action == "approve" and not choice.approval_hash:
        raise Refused(
            Reason.INVALID_PARAMS,
            f"the approval of {choice.tool!r} does not say of which text",
            advice="Give the approval_hash of the text that was reviewed.",
        )
    if len(choice.note) > _NOTE:
        raise Refused(Reason.INVALID_PARAMS, "the note is too long", advice=f"{_NOTE} characters are taken.")
    if choice.action == "block" and not choice.note.strip():
        raise Refused(
            Reason.INVALID_PARAMS, f"blocking {choice.tool!r} needs a reason", advice="Say why; others read it later."
        )


def check_choice(choice: Choice, subject: Subject, *, strict_schemas: bool) -> None:
    """Refuses a decision that does not fit what is known of its tool; findings are looked at by `check_findings`."""
    if choice.action == "withdraw":
        if subject.pin is None or subject.pin.action == "withdraw":
            raise _refused(Reason.TOOL_NOT_APPROVED, choice, "there is no decision on it to withdraw")
        return
    if subject.seen is None:
        if choice.action == "block" and subject.pin is not None:
            return
        raise _refused(Reason.TOOL_UNKNOWN, choice, "no tool of this name was met at this server")
    if choice.action == "approve":
        _check_approval(choice, subject, subject.seen, strict_schemas=strict_schemas)


def _check_approval(choice: Choice, subject: Subject, seen: ToolSeen, *, strict_schemas: bool) -> None:
    if seen.gone:
        raise _refused(Reason.TOOL_UNKNOWN, choice, "the server does not list it any more")
    listed = subject.listed
    if listed is None or listed.problem or not listed.approval_hash:
        why = listed.problem if listed is not None and listed.problem else "it has no hash"
        raise _refused(Reason.TOOL_UNFIT, choice, f"nobody can approve it: {why}")
    if not hmac.compare_digest(choice.approval_hash.encode("utf-8", "replace"), listed.approval_hash.encode()):
        detail = "it has another text by now than the one that was reviewed"
        data = {"met": listed.approval_hash, "reviewed": choice.approval_hash}
        raise _refused(Reason.TOOL_CHANGED, choice, detail, data)
    met = entry_digest(listed.approval_hash, listed.beside)
    if choice.entry and not hmac.compare_digest(choice.entry.encode("utf-8", "replace"), met.encode()):
        detail = "what it has beside its text is not what was reviewed"
        raise _refused(Reason.TOOL_CHANGED, choice, detail, {"met": met, "reviewed": choice.entry})
    if strict_schemas and subject.catch_all:
        raise _refused(Reason.SCHEMA_REFUSED, choice, f"pinning.strict_schemas is on, and {subject.catch_all}")


def check_findings(choices: Sequence[Choice], subjects: Sequence[Subject]) -> None:
    """Refuses approvals that would pass over a hard finding without a word; the refusal has all of them."""
    overlooked = [
        (choice, found)
        for choice, subject in zip(choices, subjects, strict=True)
        if choice.action == "approve" and (found := _overlooked(choice, subject))
    ]
    if not overlooked:
        return
    names = ", ".join(dict.fromkeys(repr(choice.tool) for choice, _ in overlooked[:5]))
    more = f" and {len(overlooked) - 5} more" if len(overlooked) > 5 else ""
    raise Refused(
        Reason.FINDINGS_NOT_OVERRIDDEN,
        f"the inspection found something in {names}{more} that approving has to overrule",
        data={
            "findings": [
                {"server_id": choice.server_id, "of": choice.tool} | msgspec.to_builtins(finding)
                for choice, found in overlooked
                for finding in found
            ]
        },
    )


def _overlooked(choice: Choice, subject: Subject) -> list[ToolFinding]:
    """What would have to be overruled and is not: nobody overrules what they were not shown."""
    found = hard(subject.findings)
    if not choice.override:
        return list(found)
    return [] if choice.shown is None else [finding for finding in found if finding not in choice.shown]


def hard(findings: Iterable[ToolFinding]) -> tuple[ToolFinding, ...]:
    return tuple(finding for finding in findings if finding.tier == "hard")


def make_pin(choice: Choice, subject: Subject, *, by: str, at: int, together: Iterable[str]) -> Pin:
    """The decision as it goes into the book. What is approved is what was read and hashed here, not what was sent."""
    server, listed, pin = subject.server, subject.listed, subject.pin
    approving = choice.action == "approve"
    overruled = hard(subject.findings) if approving else ()
    return Pin(
        action=choice.action,
        server_id=choice.server_id,
        lineage=server.lineage if server is not None else pin.lineage if pin is not None else "",
        server=server.name if server is not None else pin.server if pin is not None else "",
        tool=choice.tool,
        approval_hash=listed.approval_hash if listed is not None else pin.approval_hash if pin is not None else "",
        approved_at=at,
        approved_by=by,
        beside=listed.beside if listed is not None else {},
        raw=listed.raw if listed is not None else b"",
        note=choice.note.strip(),
        overrides=tuple(sorted({finding.rule for finding in overruled})),
        overruled=tuple(sorted({spot for finding in overruled if (spot := finding.spot)})),
        together=_together(choice.server_id, together) if approving else (),
        label=(choice.label or subject.label) if approving else "",
    )


def _together(server_id: str, together: Iterable[str]) -> tuple[str, ...]:
    """Which servers were in view with this one: none, where this one was not in view itself, all of it."""
    seen = set(together)
    return tuple(sorted(seen)) if server_id in seen else (server_id,)


def detail(pin: Pin, before: Pin | None, retires: Sequence[str]) -> dict[str, Any]:
    """What the audit log says of a decision; `previous` is the hash that was approved before, if it is another."""
    made: dict[str, Any] = {
        "server": pin.server,
        "server_id": pin.server_id,
        "tool": pin.tool,
        "approval_hash": pin.approval_hash,
        "approved_at": pin.approved_at,
        "approved_by": pin.approved_by,
    }
    if before is not None and (before.approval_hash, before.server_id) != (pin.approval_hash, pin.server_id):
        made["previous"] = before.approval_hash
        if before.server_id != pin.server_id:
            made["previous_server_id"] = before.server_id
    optional: Mapping[str, Any] = {
        "overrides": list(pin.overrides),
        "note": pin.note,
        "together": list(pin.together),
        "retires": list(retires),
        "label": pin.label,
    }
    return made | {name: value for name, value in optional.items() if value}


def _refused(reason: Reason, choice: Choice, why: str, data: Mapping[str, Any] | None = None) -> Refused:
    named = {"server_id": choice.server_id, "tool": choice.tool}
    return Refused(reason, f"{choice.tool!r}: {why}", data={**named, **(data or {})})
