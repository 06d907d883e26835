"""Trust of one gateway process: what a configuration makes of it, and what outlives a configuration."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from callgate.app.observations import ServerObservations
from callgate.audit import ArgumentsPolicy, AuditLog
from callgate.config import Config
from callgate.errors import CallgateError
from callgate.gate import Call, Context
from callgate.inspection.scanner import ResultScanner
from callgate.jsonrpc.reading import result_of
from callgate.keyring import Keyring
from callgate.pipeline.context import RequestContext, own_request
from callgate.store import SqlTrust, Store
from callgate.trust.labels import Labels
from callgate.trust.model import Quarantined, ToolLabel
from callgate.trust.operator import labels as operators_labels
from callgate.trust.policy.engine import Policy
from callgate.trust.policy.predicate import predicate
from callgate.trust.provenance import Fingerprints, Memory, Retention
from callgate.trust.quarantine import Seals
from callgate.trust.resolving import narrowed
from callgate.trust.results import Expectations
from callgate.trust.service import TrustService
from callgate.trust.session_cache import SessionNaming, TrustSessionCache
from callgate.trust.stage import RESOLVE, ResultRecorder, ResultSettings, TrustCheck, TrustStage
from callgate.trust.tool_annotations import AnnotationObserver
from callgate.trust.user_prompts import ReportedPrompts
from callgate.trust.vocabulary import Vocabulary

log = logging.getLogger("callgate.trust")

KEY: Final = "trust"
_PRUNE_SECONDS: Final = 300.0
_RESOLVE_SECONDS: Final = 3.0


def _nobody_approved(_context: Context, _tool: str) -> str | None:
    """Without pinning there is no approval that a label could have come with."""
    return None


class TrustWiring(msgspec.Struct, frozen=True):
    """What one configuration needs."""

    check: TrustCheck
    stage: TrustStage


class TrustRuntime:
    """Made once for a process. Sessions stay when the configuration changes."""

    def __init__(
        self,
        store: Store,
        audit: AuditLog,
        keyring: Keyring,
        *,
        tell: Callable[[str, str, dict[str, Any]], None],
        where: Callable[[str], Awaitable[str]],
        held: Callable[[Quarantined], None],
    ) -> None:
        self.shelf = SqlTrust(store)
        self._audit = audit
        self._keyring = keyring
        self._tell = tell
        # Told of each result that is kept from its agent.
        self._held = held
        self._idle_ms = 0
        self._most = 10_000
        self._expectations = Expectations()
        self._scanner = ResultScanner()
        keyring.make(KEY)
        self._fingerprints = Fingerprints(keyring.versions(KEY)[-1].secret)
        self.service = TrustService(self.shelf, witness=audit.admin, unseal=self._unseal)
        self._retention = Retention()
        self._keeps_texts = True
        self.sessions = TrustSessionCache(self.shelf, self._memory, idle_ms=partial(getattr, self, "_idle_ms"))
        # Where held results are looked at, in words or as an address.
        self._where = where
        self._task: asyncio.Task[None] | None = None
        # The rules of a configuration are read once, however many servers are wrapped under it.
        self._policy: tuple[Config, Policy] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._prune(), name="callgate-trust")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def furnish(
        self,
        config: Config,
        learnt: ServerObservations,
        approved: Callable[[Context, str], str | None] = _nobody_approved,
    ) -> TrustWiring:
        """The check and the stage of a configuration; ConfigError where its policy cannot be read. `approved` knows the
        labels that tools were approved with."""
        trust = config.trust
        labels = make_labels(config)
        if self._policy is None or self._policy[0] is not config:
            self._policy = config, make_policy(config)
        policy = self._policy[1]
        vocabulary = Vocabulary(trust.labels)
        self._idle_ms = round(trust.idle_seconds * 1000)
        self._most = trust.max_sessions
        self._retention = Retention(trust.remember_results, trust.remember_seconds)
        self._keeps_texts = trust.keep_texts
        sections = {name: server.trust for name, server in config.servers.items()}
        learning = learnt.learning = learnt.learning or AnnotationObserver(self._stripped)
        learnt.prompts = learnt.prompts or ReportedPrompts(self._memory)
        learning.teach(labels, vocabulary)
        asking = frozenset(name for name, section in sections.items() if section.resolve == "server")
        check = TrustCheck(
            self.sessions,
            naming=SessionNaming(by_agent=trust.sessions == "agent", origin=learnt.origin),
            labels=labels,
            policy=policy,
            vocabulary=vocabulary,
            enforcing=trust.mode == "enforce",
            secret=self._scanner.secret,
            consent=trust.consent == "required",
            approved=approved,
            resolve=_Resolving(labels, vocabulary).ask if asking else None,
            resolves=asking.__contains__,
            prompts=learnt.prompts if trust.prompt_hooks else None,
        )
        results = ResultRecorder(
            check,
            self.sessions,
            self.shelf,
            keeping=ResultSettings(
                self._retention.kept_steps,
                self._retention.kept_seconds,
                trust.warn,
                trust.elicit_malicious,
            ),
            vocabulary=vocabulary,
            scan=self._scanner if trust.scan else None,
            seals=self._seals,
            where=self._where,
            tell=self._told,
            held=self._held,
            has_schema=learning.has_output_schema,
            hides=ArgumentsPolicy(config.audit.arguments, config.audit.redact).hides,
            expectations=self._expectations,
        )
        shares = {
            name: None if section.propagate is False else (section.share or trust.share)
            for name, section in sections.items()
        }
        stage = TrustStage(
            check,
            results,
            learn=learning.listed,
            share=trust.share,
            shares=shares,
            relays_resolve=asking.__contains__,
        )
        return TrustWiring(check, stage)

    def _memory(self) -> Memory:
        seals = self._seals if self._keeps_texts else None
        return Memory(self._fingerprints, retention=lambda: self._retention, seals=seals)

    def _unseal(self, sealed: bytes, handle: str) -> bytes:
        return self._seals().open(sealed, handle)

    def _seals(self) -> Seals:
        return Seals([key.secret for key in self._keyring.versions(KEY)])

    def _told(self, server: str, what: str, detail: dict[str, Any]) -> None:
        self._tell(server, what, detail)
        log.warning("trust alert", extra={"fields": {"server": server, "what": what, **detail}})
        self._audit.noted(f"trust.{what}", "gateway", {"server": server, **detail})

    def _stripped(self, server: str, tool: str, missing: tuple[str, ...]) -> None:
        self._told(server, "labels_missing", {"tool": tool, "missing": list(missing)})

    async def _prune(self) -> None:
        while True:
            try:
                await self.shelf.prune(_now(), sessions=self._most)
            except CallgateError as error:
                log.warning("sessions not pruned", extra={"fields": {"error": str(error)}})
            await asyncio.sleep(_PRUNE_SECONDS)


class _Resolving:
    """Asks a server what a call would do before it is made."""

    def __init__(self, labels: Labels, vocabulary: Vocabulary) -> None:
        self._labels = labels
        self._vocabulary = vocabulary

    async def ask(self, call: Call, label: ToolLabel) -> ToolLabel:
        """The label as the server's answer leaves it; as it was where there is no answer to read."""
        visit = call.context
        if not isinstance(visit, RequestContext):
            return label
        await visit.line.turn()
        params = {"name": call.tool, "arguments": call.arguments}
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                reply = await visit.line.ask(own_request(RESOLVE, params, call.meta if visit.modern else {}))
            result = result_of(reply)
        except (CallgateError, TimeoutError):
            return label
        tool = result.get("tool") if isinstance(result, Mapping) else None
        if not isinstance(tool, Mapping) or tool.get("name") != call.tool:
            return label
        answer = self._vocabulary.tool(tool)
        return narrowed(label, answer, trusted=self._labels.trusted(call.context.server))


def make_labels(config: Config) -> Labels:
    """The operator's labels, for the gateway and for whoever wants to look at them."""
    return operators_labels(
        msgspec.to_builtins(config.trust, enc_hook=str),
        {name: msgspec.to_builtins(server.trust, enc_hook=str) for name, server in config.servers.items()},
        compile_rule=predicate,
    )


def make_policy(config: Config) -> Policy:
    """The rules in force."""
    paths = () if config.trust.policy is None else (config.trust.policy,)
    return Policy.load(paths, default=config.trust.default_policy)


def _now() -> int:
    return round(time.time() * 1000)
