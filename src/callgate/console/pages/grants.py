"""Grants: what people sign beforehand for an agent's calls. Made here, shown whole before they are signed, revoked with
one click."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.app.agent_registry import everybody, is_live
from callgate.approval.action import to_base64url
from callgate.approval.delegation import (
    LOCAL,
    Delegable,
    Delegation,
    GrantCondition,
    GrantedAgent,
    GrantTerms,
    check_terms,
    lines,
)
from callgate.approval.model import ConsoleSession, reaches
from callgate.approval.overview import grant_row, grant_rows
from callgate.audit.reading import entry
from callgate.audit.records import DecisionRecord
from callgate.console.context import ConsoleContext, GatewayPage
from callgate.console.rendering import EscapedText
from callgate.console.requests import PageBody, SignedBody, change
from callgate.console.statistics import in_log
from callgate.errors import AuditError, Reason, Refused

_MOST_FIELDS: Final = 200
_CHARS: Final = 4_096
_ID: Final = 18
_DAY_MS: Final = 86_400_000
_SOURCES: Final = {"signature": "web-bot-auth", "api-key": "api-key", "oauth": "oauth"}
# What an argument may be, as the form offers it; the first is what is not named.
RULES: Final = {
    "": "must not be there",
    "equals": "exactly",
    "one_of": "one of (a line each)",
    "at_most": "a number, at most",
    "at_least": "a number, at least",
    "starts_with": "a text that starts with",
    "anything": "anything",
}


class _Terms(PageBody, frozen=True):
    """What the page showed, whole: it is checked against what holds now before it can be signed."""

    terms: dict[str, Any]


class _Signed(SignedBody, frozen=True, rename="camel"):
    body: _Terms


class AgentChoice(msgspec.Struct, frozen=True):
    """An agent that a grant can be for, as the form offers it."""

    agent: GrantedAgent
    name: str

    @property
    def key(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self.agent)).hexdigest()[:16]


class Draft(msgspec.Struct, frozen=True):
    """The form as it is filled in."""

    fields: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name, "")

    @property
    def begun(self) -> bool:
        return "show" in self.fields


class GrantsPage(GatewayPage):
    """The functions of `callgate grants`, and the only place where one is signed."""

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        found = await self._context.approvals.shelf.delegations()
        return await self._context.show("grants", session, rows=grant_rows(found, self._context.now()))

    async def one(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        found = await self._found(request)
        now = self._context.now()
        return await self._context.show(
            "grant",
            session,
            row=grant_row(found, now),
            grant=found,
            lines=_shown(found.terms),
            left=found.left,
            may_revoke=self._may_revoke(session, found),
        )

    async def revoke(self, request: Request, session: ConsoleSession) -> Response:
        """One click: taking away needs no passkey."""
        found = await self._found(request)
        if not self._may_revoke(session, found):
            raise Refused(Reason.ROLE_NEEDED, "A grant is revoked by who signed it, or by an operator.")
        await self._context.approvals.revoke_grant(found.terms.id, by=session.user)
        return JSONResponse({"state": "revoked"})

    def _may_revoke(self, session: ConsoleSession, found: Delegation) -> bool:
        return session.user == found.terms.person or reaches(session.role, "operator")

    async def _found(self, request: Request) -> Delegation:
        found = await self._context.approvals.shelf.delegation(request.path_params["id"])
        if found is None:
            raise Refused(Reason.PAGE_UNKNOWN, "There is no such grant.", advice="Look on /grants.")
        return found

    # ---- making one ----

    async def new(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        self._context.at_least(session, "approver")
        tools = await self._tools(session)
        draft = await self._draft(request, session, tools)
        tool = next((one for one in tools if one.key == draft["tool"]), None)
        choices = await self._choices(tool, draft)
        problem, terms = "", None
        if tool is not None and draft.begun:
            try:
                terms = await self._checked(self._terms(draft, tool, choices, session), session)
            except Refused as refused:
                problem = refused.message
        shown = [] if terms is None else _shown(terms)
        return await self._context.show(
            "grant_new",
            session,
            tools=tools,
            tool=tool,
            draft=draft,
            choices=choices,
            rules=RULES,
            arguments=[] if tool is None else _arguments(tool, draft),
            problem=problem,
            lines=shown,
            open=() if terms is None else terms.open,
            terms=None if terms is None else msgspec.to_builtins(terms),
            until=_local(self._context.now() + 7 * _DAY_MS),
        )

    async def options(self, session: ConsoleSession, body: _Terms) -> Response:
        terms, tool = await self._again(body.terms, session)
        return JSONResponse((await self._context.approvals.begin_grant(terms, tool.policy)).result)

    async def sign(self, request: Request) -> Response:
        session, act = await self._context.change(request, _Signed)
        self._context.at_least(session, "approver")
        terms, _ = await self._again(act.body.terms, session)
        made = await self._context.approvals.finish_grant(session.user, act.evidence, terms)
        return JSONResponse({"grant": made.terms.id})

    async def _again(self, shown: dict[str, Any], session: ConsoleSession) -> tuple[GrantTerms, Delegable]:
        """What the page showed, still true."""
        try:
            terms = msgspec.convert(shown, GrantTerms)
        except msgspec.ValidationError as error:
            raise Refused(Reason.GRANT_INVALID, f"The page sent something that is no grant: {error}") from None
        return check_terms(await self._checked(terms, session), self._context.now()), await self._tool(terms, session)

    async def _checked(self, terms: GrantTerms, session: ConsoleSession) -> GrantTerms:
        """Terms that this person may sign now."""
        check_terms(terms, self._context.now())
        if terms.person != session.user:
            raise Refused(Reason.GRANT_INVALID, "Only you can sign for yourself.")
        tool = await self._tool(terms, session)
        missing = [name for name in tool.required if name not in {one.argument for one in terms.arguments}]
        if missing:
            raise Refused(Reason.GRANT_INVALID, f"The tool needs the argument {missing[0]}: say what it may be.")
        await self._context.approvals.approving(session.user, tool.policy)
        return terms

    async def _tools(self, session: ConsoleSession) -> list[Delegable]:
        return [one.for_person(session.user) for one in await self._gateway.delegable()]

    async def _tool(self, terms: GrantTerms, session: ConsoleSession) -> Delegable:
        wanted = (terms.server, terms.server_id, terms.tool, terms.tool_hash, terms.agent.source == LOCAL)
        for one in await self._tools(session):
            if (one.server, one.server_id, one.tool, one.tool_hash, one.local) == wanted:
                if one.problem:
                    raise Refused(Reason.GRANTS_OFF, f"No grant can be signed for {one.tool}: {one.problem}.")
                return one
        raise Refused(Reason.PAGE_OUTDATED, "The tool or its server has changed since this page was made.")

    def _terms(
        self, draft: Draft, tool: Delegable, choices: Sequence[AgentChoice], session: ConsoleSession
    ) -> GrantTerms:
        now = self._context.now()
        chosen = next((one for one in choices if one.key == draft["agent"]), None)
        if chosen is None:
            raise Refused(Reason.GRANT_INVALID, "Choose the agent that it is for.")
        return GrantTerms(
            id=to_base64url(secrets.token_bytes(_ID)),
            person=session.user,
            agent=chosen.agent,
            server=tool.server,
            server_id=tool.server_id,
            tool=tool.tool,
            tool_hash=tool.tool_hash,
            arguments=tuple(_conditions(draft, tool)),
            calls=_count(draft["calls"]),
            begins=_moment(draft["from"], "From") if draft["from"] else now,
            ends=_moment(draft["until"], "Until"),
            sum_of=draft["sum_of"],
            sum_at_most=draft["sum"] if draft["sum_of"] else "",
        )

    async def _draft(self, request: Request, session: ConsoleSession, tools: Sequence[Delegable]) -> Draft:
        query = request.query_params
        if len(query) > _MOST_FIELDS or any(len(value) > _CHARS for value in query.values()):
            raise Refused(Reason.INVALID_PARAMS, "The form holds more than it can.", advice="Fill in less.")
        fields = dict(query.items())
        if "tool" in fields and ("request" not in fields and "call" not in fields):
            return Draft(fields)
        server, name, arguments, agent = "", "", {}, None
        if asked_id := fields.get("request", ""):
            asked = await self._context.approvals.shelf.request(asked_id)
            if asked is not None and await self._context.approvals.is_asked(asked, session.user):
                server, name, arguments = asked.server, asked.tool, json.loads(asked.canonical)
                agent = _agent_in(asked.agent)
        elif call := fields.get("call", ""):
            record = await self._decision(call)
            if record is not None:
                server, name = record.server, record.tool
                whole = record.arguments.mode != "hashed" and record.arguments.hash is None
                value = record.arguments.value if whole else None
                arguments = value if isinstance(value, dict) else {}
                agent = _agent_in({**(record.caller or {}), "transport": record.transport})
        elif fields.get("server") and fields.get("name"):
            server, name = fields["server"], fields["name"]
        local = agent is not None and agent.source == LOCAL
        named = [one for one in tools if (one.server, one.tool) == (server, name)]
        # A server can be both: served at an address, and started by the person's own programs.
        tool = next((one for one in named if one.local == local), next(iter(named), None))
        if tool is None:
            return Draft(fields)
        made = {"tool": tool.key, "calls": "1"}
        if agent is not None:
            made |= {"agent": AgentChoice(agent, "").key, "given": json.dumps(msgspec.to_builtins(agent))}
        for argument, value in arguments.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            made |= {f"rule.{argument}": "equals", f"value.{argument}": text}
        return Draft({**made, **fields})

    async def _decision(self, call: str) -> DecisionRecord | None:
        try:
            return (await in_log(self._gateway.store, lambda tables: entry(tables, call))).decision
        except AuditError:
            return None

    async def _choices(self, tool: Delegable | None, draft: Draft) -> list[AgentChoice]:
        """Whom a grant can be for: everybody who is known by a key, and the agent of the call that it is made from."""
        if tool is None:
            return []
        if tool.local:
            return [AgentChoice(GrantedAgent(LOCAL), "any program of yours on this computer that uses this server")]
        now = self._context.now()
        found = [
            GrantedAgent(_SOURCES[one.by], one.agent, one.key, one.directory if one.by == "signature" else "")  # type: ignore[arg-type]
            for one in await everybody(self._gateway.config, self._gateway.agents)
            if is_live(one, now) and one.key and one.by in _SOURCES
        ]
        given = _agent_in(_json(draft["given"])) if draft["given"] else None
        if given is not None and given.source != LOCAL:
            found.insert(0, given)
        return [AgentChoice(one, one.words) for one in dict.fromkeys(found)]


def _shown(terms: GrantTerms) -> list[tuple[EscapedText, EscapedText]]:
    return [(EscapedText(name), EscapedText(text)) for name, text in lines(terms)]


def _json(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _agent_in(facts: Mapping[str, Any]) -> GrantedAgent | None:
    """The agent of a call that waits, or that is on record; None for who has proved nothing."""
    if "source" in facts:
        known = {name: facts.get(name, "") for name in ("source", "id", "key", "directory")}
    elif facts.get("proved by"):
        names = {"source": "proved by", "id": "agent", "key": "key", "directory": "directory"}
        known = {name: facts.get(where, "") for name, where in names.items()}
    elif facts.get("transport") == "stdio":
        return GrantedAgent(LOCAL)
    else:
        return None
    try:
        return msgspec.convert(known, GrantedAgent)
    except msgspec.ValidationError:
        return None


def _arguments(tool: Delegable, draft: Draft) -> list[dict[str, Any]]:
    """The rows of the form: what the schema names, and what the call had besides."""
    named = [name.removeprefix("rule.") for name in draft.fields if name.startswith("rule.")]
    return [
        {
            "name": name,
            "kind": _kind(tool, name),
            "needed": name in tool.required,
            "rule": draft[f"rule.{name}"],
            "value": draft[f"value.{name}"],
        }
        for name in dict.fromkeys((*tool.properties, *named))
    ]


def _kind(tool: Delegable, name: str) -> str:
    schema = tool.properties.get(name)
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else ""


def _conditions(draft: Draft, tool: Delegable) -> list[GrantCondition]:
    found = []
    for one in _arguments(tool, draft):
        rule, text, kind = one["rule"], one["value"].strip() if one["kind"] != "string" else one["value"], one["kind"]
        if not rule:
            continue
        if rule not in RULES:
            raise Refused(Reason.GRANT_INVALID, f"{one['name']}: choose what it may be.")
        value: Any = None
        if rule == "equals":
            value = _value(text, kind, one["name"])
        elif rule == "one_of":
            value = [_value(line, kind, one["name"]) for line in text.splitlines() if line]
        elif rule != "anything":
            value = text.strip() if rule in ("at_most", "at_least") else text
        found.append(GrantCondition(one["name"], rule, value))
    return found


def _value(text: str, kind: str, name: str) -> Any:
    """What somebody wrote, as the JSON that the tool takes. A text is a text wherever the tool says so."""
    if kind == "string":
        return text
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError:
        if not kind:
            return text
        raise Refused(Reason.GRANT_INVALID, f"{name}: the tool takes {kind} here, and this is none.") from None


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) > 0):
        raise Refused(Reason.GRANT_INVALID, "Say how many calls it is for, in digits.")
    return int(text)


def _moment(text: str, name: str) -> int:
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Refused(Reason.GRANT_INVALID, f"{name}: give a date and a time.") from None


def _local(at: int) -> str:
    """For a field of date and time, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M")


def new_address(**fields: str) -> str:
    return f"/grants/new?{urlencode(fields)}"


def routes(context: ConsoleContext) -> list[Route]:
    if context.gateway is None:
        return []
    page = GrantsPage(context, context.gateway)
    return [
        Route("/grants", page.show),
        Route("/grants/new", page.new),
        change(context, "/grants/sign/options", page.options, role="approver"),
        Route("/grants/sign", page.sign, methods=["POST"]),
        Route("/grants/{id}", page.one),
        change(context, "/grants/{id}/revoke", page.revoke),
    ]
