"""The rules in force, why a call was decided as it was, and other rules: tried on past calls, then put in force."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.approval.model import ConsoleSession
from callgate.audit.reading import CallEntry, entries, entry
from callgate.audit.records import DecisionRecord
from callgate.audit.storage import Filter
from callgate.console.context import ConsoleContext, GatewayPage, GatewayParts
from callgate.console.rendering import EscapedText, statement
from callgate.console.requests import change, signed
from callgate.console.statistics import MOST_CALLS, daily_counts, in_log
from callgate.errors import AuditError, ConfigError, Reason, Refused, Tampered
from callgate.files import settle, write_beside
from callgate.trust.policy import Policy
from callgate.trust.policy.explain import Explanation, explain
from callgate.trust.policy.replaying import Difference, Replayed, recorded_facts, recorded_ruling

_NAME: Final = "rules.toml"
_ID_CHARS: Final = 128
# How many past calls rules are tried on, and for how long at most.
_REPLAYED: Final = 2_000
_SECONDS: Final = 2.0
_SAMPLES: Final = 5
_PROBLEMS: Final = 50

# A text of this size, as JSON with a signature beside it, fits into what the console takes.
MOST_BYTES: Final = 48_000
Text = Annotated[str, Meta(min_length=1, max_length=MOST_BYTES)]
Hash = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
_EXAMPLE: Final = """[[rules]]
name = "large-payment"
effect = "ask"
when = 'tool.server == "bank" && has(args.amount) && args.amount > 1000'
say = "Payments over 1,000 need a second pair of eyes."
"""


class PolicyPage(GatewayPage):
    """Whoever signs in may read; operators try rules, and change them with their passkey."""

    def __init__(self, context: ConsoleContext, gateway: GatewayParts) -> None:
        super().__init__(context, gateway)
        self._trust = gateway.config.trust
        self._today = daily_counts(gateway.store, context.now)
        self._loaded: tuple[str, Policy] | None = None
        self._trying = asyncio.Lock()
        self._saving = asyncio.Lock()

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        held = await self._held()
        policy, wrong = await self._in_force(held)
        asked = request.query_params.get("call", "").strip()[: _ID_CHARS + 1]
        why, problem = (None, None) if not asked or policy is None else await self._explain(policy, asked)
        return await self._context.show(
            "policy",
            session,
            status=200 if problem is None else 404,
            held=held,
            policy=policy,
            wrong=wrong,
            default=self._trust.default_policy,
            mode=self._trust.mode,
            day=await self._today.get(),
            most=MOST_CALLS,
            asked=asked,
            why=why,
            problem=problem,
            unseen=held is not None and held.text is not None and _unseen(held.text),
            config_path=self._gateway.path,
            source=EscapedText(_EXAMPLE if held is None or held.text is None else held.text),
            text_bytes=MOST_BYTES,
            replayed=_REPLAYED,
        )

    # ---- the rules in force ----

    async def _held(self) -> RulesFile | None:
        return None if self._trust.policy is None else await asyncio.to_thread(read_rules, self._trust.policy)

    async def _in_force(self, held: RulesFile | None) -> tuple[Policy | None, list[EscapedText]]:
        """The rules as they are written, or what is wrong with them."""
        key = "" if held is None else held.hash
        if self._loaded is None or self._loaded[0] != key or (held is not None and not key):
            try:
                self._loaded = key, await asyncio.to_thread(self._load, held)
            except ConfigError as error:
                return None, _problem_lines(error)
        return self._loaded[1], []

    def _load(self, held: RulesFile | None) -> Policy:
        default = self._trust.default_policy
        if held is None:
            return Policy.load(default=default)
        if held.large:
            return Policy.load([held.path], default=default)
        if held.text is None:
            raise ConfigError(f"{held.path}: {held.problem}")
        return Policy.load(texts=[(held.path.name, held.text)], default=default)

    def _read(self, text: str) -> Policy:
        if len(text.encode()) > MOST_BYTES:
            raise Refused(
                Reason.MESSAGE_TOO_LARGE,
                f"The console takes rules of at most {MOST_BYTES:,} bytes.",
                advice="Write a larger file with an editor, and check it with `callgate policy check FILE`.",
            )
        name = _NAME if self._trust.policy is None else self._trust.policy.name
        return Policy.load(texts=[(name, text)], default=self._trust.default_policy)

    # ---- why ----

    async def _explain(self, policy: Policy, call: str) -> tuple[dict[str, Any] | None, str | None]:
        """What the rules of now say of a call on record; or why nothing can be said."""
        if len(call) > _ID_CHARS or "\0" in call:
            return None, "That is no call's id."
        try:
            found = await in_log(self._gateway.store, lambda tables: entry(tables, call))
        except Tampered:
            raise
        except AuditError as error:
            return None, f"{str(error)[:1].upper()}{str(error)[1:]}."
        facts = recorded_facts(found.decision)
        if facts is None:
            return None, "The record of this call holds no facts for rules: it was written while [trust] was off."
        explained = await asyncio.to_thread(explain, policy, facts)
        return _why(found, explained), None

    # ---- what if ----

    async def attempt(self, session: ConsoleSession, text: Text) -> Response:
        """Other rules: what is wrong with them, or what they would have decided."""
        if self._trying.locked():
            raise Refused(Reason.OVERLOADED, "Rules are being tried already.", advice="Wait for a few seconds.")
        async with self._trying:
            values = await self._tried(text)
        page = self._context.page("policy_tried", session, **values)
        ok = not values["wrong"]
        return JSONResponse({"ok": ok, "hash": digest(text.encode()), "html": bytes(page.body).decode()})

    async def _tried(self, text: str) -> dict[str, Any]:
        try:
            policy = await asyncio.to_thread(self._read, text)
        except ConfigError as error:
            return {"wrong": _problem_lines(error), "advice": error.advice}
        found = await in_log(self._gateway.store, lambda tables: entries(tables, Filter(), _REPLAYED))
        replayed, done = await asyncio.to_thread(_replay, policy, [one.decision for one in reversed(found)])
        return {
            "wrong": [],
            "rules": sum(not rule.default for rule in policy.rules),
            "sentence": replayed.sentence(),
            "groups": _groups(replayed.differing),
            "done": done,
            "known": len(found),
            "most": _REPLAYED,
        }

    # ---- putting rules in force ----

    async def ready(self, text: Text, before: Hash) -> str:
        """`before` is what the page showed: rules that somebody else has changed meanwhile are not written over."""
        held = await self._held()
        if held is None or held.problem:
            why = "no file is named for rules" if held is None else f"{held.path.name} is not written: {held.problem}"
            raise Refused(
                Reason.INVALID_REQUEST,
                f"The rules were not saved: {why}.",
                advice="Load the page again: it says what to do instead.",
            )
        if held.hash != before:
            raise _page_outdated(held)
        if held.text == text:
            raise Refused(Reason.INVALID_PARAMS, "The file has these rules already.", advice="Change them first.")
        try:
            policy = await asyncio.to_thread(self._read, text)
        except ConfigError as error:
            advice = "Check them on the page first."
            raise Refused(Reason.POLICY_INVALID, str(error), advice=advice, status=400) from None
        own = sum(not rule.default for rule in policy.rules)
        after = digest(text.encode())
        return f"Put {own} {'rule' if own == 1 else 'rules'} in force, as {held.path.name} ({after[:19]})"

    async def save(self, session: ConsoleSession, text: Text, before: Hash) -> Response:
        async with self._saving:
            # Once more, now that nobody else of this console writes.
            await self.ready(text, before)
            held = await self._held()
            assert held is not None
            try:
                staged = await asyncio.to_thread(StagedRules, held, text)
            except OSError as error:
                raise _unwritten(held, error) from error
            await self._put(staged, session.user)
        return JSONResponse({"hash": staged.after, "backup": staged.backup.name})

    async def _put(self, staged: StagedRules, by: str) -> None:
        """On record first: rules that nobody can be asked about never come into force."""
        held = staged.held
        detail = {"file": str(held.path), "before": held.hash, "after": staged.after}
        try:
            await self._record("policy.save", by, detail)
        except BaseException:
            await asyncio.to_thread(staged.discard)
            raise
        try:
            done = await asyncio.to_thread(staged.commit)
        except OSError as error:
            await self._record("policy.save_failed", by, detail)
            raise _unwritten(held, error) from error
        if not done:
            await self._record("policy.save_failed", by, detail)
            raise _page_outdated(held)


def _unseen(text: str) -> bool:
    """Whether a text has something in it that its reader would not see; it has to be edited as it is."""
    plain = text.replace("\t", " ").replace("\r\n", "\n")
    return statement(plain) != plain


def _problem_lines(error: ConfigError) -> list[EscapedText]:
    """Every mistake with its line and caret; the caret stays under what it means."""
    found = [str(problem) for problem in error.problems] or [str(error)]
    shown = [statement(text) for text in found[:_PROBLEMS]]
    return shown if len(found) <= _PROBLEMS else [*shown, EscapedText(f"and {len(found) - _PROBLEMS} more")]


def _why(found: CallEntry, explained: Explanation) -> dict[str, Any]:
    rules = [
        (rule, [(name, json.dumps(value, ensure_ascii=False)) for name, value in rule.facts.items()])
        for rule in explained.told
    ]
    effect, rule = recorded_ruling(found.decision)
    return {
        "call": found.decision,
        "ruling": explained.ruling,
        "holding": [one for one in rules if one[0].state != "does not hold"],
        "others": [one for one in rules if one[0].state == "does not hold"],
        "effect": effect,
        "rule": rule,
    }


def _replay(policy: Policy, decisions: Sequence[DecisionRecord]) -> tuple[Replayed, int]:
    """The newest first, as far as the time goes."""
    replayed, until = Replayed(), time.monotonic() + _SECONDS
    for done, decision in enumerate(decisions):
        if time.monotonic() > until:
            return replayed, done
        replayed.add(policy, decision)
    return replayed, len(decisions)


def _groups(differing: Sequence[Difference]) -> list[dict[str, Any]]:
    """Calls that would be decided otherwise, in the same way and by the same rule; the largest group first."""
    found: dict[tuple[str, str, str], list[Difference]] = {}
    for one in differing:
        found.setdefault((one.before, one.after, one.rule_after or one.rule_before), []).append(one)
    return [
        {"before": before, "after": after, "rule": rule, "calls": calls, "samples": calls[:_SAMPLES]}
        for (before, after, rule), calls in sorted(found.items(), key=lambda group: -len(group[1]))
    ]


def _page_outdated(held: RulesFile) -> Refused:
    return Refused(Reason.PAGE_OUTDATED, f"{held.path.name} was changed meanwhile. Nothing was saved.")


def _unwritten(held: RulesFile, error: OSError) -> Refused:
    return Refused(
        Reason.INVALID_REQUEST,
        f"{held.path.name} could not be written: {error.strerror}.",
        advice="Look at the folder that it is in; nothing was changed.",
    )


def routes(context: ConsoleContext) -> list[Route]:
    if context.gateway is None or context.trust is None:
        return []
    page = PolicyPage(context, context.gateway)
    return [
        Route("/policy", page.show),
        change(context, "/policy/try", page.attempt, role="operator"),
        *signed(context, "policy/save", page.ready, page.save, role="operator"),
    ]


class RulesFile(msgspec.Struct, frozen=True):
    """The file as it was looked at. `problem` says why it cannot be written from here; empty where it can."""

    path: Path
    # None where it cannot be read.
    text: str | None = None
    hash: str = ""
    problem: str = ""
    mode: int = 0o600
    # Whether it is more than this page shows, and a file all the same.
    large: bool = False


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def read_rules(path: Path) -> RulesFile:
    """The file now; nothing about it is an error here."""
    try:
        info = os.lstat(path)
    except OSError as error:
        return RulesFile(path, problem=f"it cannot be looked at ({error.strerror})")
    if not stat.S_ISREG(info.st_mode) and not stat.S_ISLNK(info.st_mode):
        return RulesFile(path, problem="it is no file")
    try:
        data = _read(path)
    except OSError as error:
        return RulesFile(path, problem=f"it cannot be read ({error.strerror})")
    if data is None:
        return RulesFile(path, problem="it is no file")
    if len(data) > MOST_BYTES:
        return RulesFile(path, problem=f"it is larger than {MOST_BYTES:,} bytes", large=True)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return RulesFile(path, problem="it is not UTF-8 text")
    return RulesFile(path, text, digest(data), _unwritable(path, info.st_mode), stat.S_IMODE(info.st_mode))


def _read(path: Path) -> bytes | None:
    # Whatever has taken the file's place since it was looked at cannot make us wait.
    place = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(place, "rb") as file:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            return None
        return file.read(MOST_BYTES + 1)


def _unwritable(path: Path, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "it is a symbolic link, and what it points to is not ours to replace"
    # By its bits as well: whoever runs as root could write it, and was told not to.
    if not mode & 0o222 or not os.access(path, os.W_OK):
        return "it is read-only"
    folder = path.parent
    if not folder.stat().st_mode & 0o222 or not os.access(folder, os.W_OK | os.X_OK):
        return "its folder is read-only"
    return ""


class StagedRules:
    """Another text, written beside the file, and the old one as a backup; `commit` puts it in its place."""

    def __init__(self, held: RulesFile, text: str) -> None:
        data = text.encode()
        self.held = held
        self.after = digest(data)
        self.backup = held.path.with_name(f"{held.path.name}.bak")
        old = write_beside(held.path, (held.text or "").encode(), held.mode)
        try:
            old.replace(self.backup)
            self._new = write_beside(held.path, data, held.mode)
        except OSError:
            old.unlink(missing_ok=True)
            raise

    def commit(self) -> bool:
        """False where the file is no longer what was looked at; then nothing is changed."""
        if read_rules(self.held.path).hash != self.held.hash:
            self.discard()
            return False
        try:
            self._new.replace(self.held.path)
        except OSError:
            self.discard()
            raise
        with contextlib.suppress(OSError):
            settle(self.held.path.parent)
        return True

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            self._new.unlink()
