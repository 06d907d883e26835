"""Who may call: how each agent is recognised, what it may do, what it did today; keys made and taken away."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from typing import Annotated, Final
from urllib.parse import quote, urlencode

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callgate.agents.apikeys import ApiKeys
from callgate.agents.directories import DirectoryShown
from callgate.agents.fetching import FetchFailed
from callgate.app.agent_registry import (
    CallForecast,
    RecognisedAgent,
    added,
    counted,
    directories,
    everybody,
    forecast,
    is_live,
    rules_of,
    take_away,
    ways_in,
)
from callgate.approval.model import ConsoleSession
from callgate.config.agents import agent_name
from callgate.console.context import ConsoleContext, GatewayPage, GatewayParts
from callgate.console.requests import PageBody, signed
from callgate.console.statistics import MOST_CALLS, AgentCalls, DayCounts, daily_counts
from callgate.errors import CallgateError, ConfigError, Reason, Refused, StoreError

_ROWS: Final = 50
_STRANGERS: Final = 20
_DAYS: Final = 3_650
_DAY_MS: Final = 86_400_000
_CHARS: Final = 256
_FETCH_SECONDS: Final = 20.0

AgentName = Annotated[str, Meta(min_length=1, max_length=_CHARS)]
KeyId = Annotated[str, Meta(min_length=1, max_length=128)]


class _NewKey(PageBody, frozen=True):
    agent: AgentName
    # 0: until it is revoked.
    days: Annotated[int, Meta(ge=0, le=_DAYS)] = 90


class _Revoke(PageBody, frozen=True):
    agent: AgentName
    key: KeyId


class _Remove(PageBody, frozen=True):
    agent: AgentName
    # What the page showed of it: what was added meanwhile is not taken away unseen.
    keys: Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=1_000)]


class _Refresh(PageBody, frozen=True):
    url: Annotated[str, Meta(min_length=1, max_length=2_048)]


class AgentsPage(GatewayPage):
    """The functions of `callgate agents`: whoever signs in may read, operators change it with their passkey."""

    def __init__(self, context: ConsoleContext, gateway: GatewayParts) -> None:
        super().__init__(context, gateway)
        self._config = gateway.config
        self._today = daily_counts(gateway.store, context.now)
        self._fetching = asyncio.Lock()

    async def show(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        word = request.query_params.get("q", "").strip()[:_CHARS]
        day, known = await self._today.get(), await self._known()
        rows = [
            {
                "agent": agent,
                "title": next((one.name for one in ways if one.name), ""),
                "ways": ways,
                "seen": day.agents.get(agent),
            }
            for agent, ways in known.items()
            if word.lower() in agent.lower() or any(word.lower() in one.name.lower() for one in ways)
        ]
        page, pages = _page(request.query_params.get("page", ""), len(rows))
        held, trouble = await self._directories()
        return await self._context.show(
            "agents",
            session,
            rows=rows[(page - 1) * _ROWS : page * _ROWS],
            total=len(rows),
            word=word,
            page=page,
            pages=pages,
            address=lambda number: f"/agents?{urlencode({'q': word, 'page': number} if word else {'page': number})}",
            mode=self._config.agents.in_force(self._config.gateway.address),
            ways=ways_in(self._config),
            strangers=[] if word else _strangers(day, known),
            day=day,
            most=MOST_CALLS,
            directories=held,
            trouble=trouble,
            path_of=_path_of,
        )

    async def one(self, request: Request) -> Response:
        session = await self._context.visitor(request)
        agent = request.path_params["agent"]
        now = self._context.now()
        rows = [one for one in await everybody(self._config, self._gateway.agents) if one.agent == agent]
        day = await self._today.get()
        if not rows and agent not in self._config.agents.known and agent not in day.agents:
            raise Refused(Reason.PAGE_UNKNOWN, "No agent is called that here.", advice="Look on /agents.")
        tool, server = (request.query_params.get(name, "").strip()[:_CHARS] for name in ("tool", "server"))
        return await self._context.show(
            "agent",
            session,
            agent=agent,
            rows=[(one, _state(one, now)) for one in rows],
            rules=rules_of(self._config, agent),
            ways=ways_in(self._config),
            seen=day.agents.get(agent),
            day=day,
            most=MOST_CALLS,
            removable=[one.key for one in added(rows, agent, now)],
            tool=tool,
            server=server,
            why=await self._why(agent, tool, server),
            servers=list(self._config.servers),
            path=_path_of(agent),
            nameable=agent_name(agent) is None,
        )

    async def _known(self) -> dict[str, list[RecognisedAgent]]:
        """Every agent by name with what counts of it now; those that only have rules too."""
        now = self._context.now()
        found: dict[str, list[RecognisedAgent]] = {name: [] for name in self._config.agents.known}
        for one in await everybody(self._config, self._gateway.agents):
            if is_live(one, now):
                found.setdefault(one.agent, []).append(one)
        return dict(sorted(found.items()))

    async def _directories(self) -> tuple[Sequence[DirectoryShown], str]:
        try:
            async with directories(self._config, self._gateway.agents) as found:
                return await found.show(), ""
        except (ConfigError, FetchFailed) as error:
            return (), str(error)

    async def _why(self, agent: str, tool: str, server: str) -> CallForecast:
        asked = CallForecast(agent, server, tool)
        return await forecast(self._config, self._gateway.agents, self._gateway.store, asked, fetch=False)

    # ---- changes ----

    async def ready_key(self, _request: Request, session: ConsoleSession, body: _NewKey) -> str:
        self._context.at_least(session, "operator")
        if (wrong := agent_name(body.agent)) is not None:
            raise Refused(Reason.INVALID_PARAMS, f"{wrong[:1].upper()}{wrong[1:]}.", advice="Give it another name.")
        until = f"for {body.days} days" if body.days else "until it is revoked"
        return f"Make an API key for the agent {body.agent}, {until}"

    async def make_key(self, _request: Request, session: ConsoleSession, body: _NewKey) -> Response:
        now = self._context.now()
        until = now + body.days * _DAY_MS if body.days else None
        try:
            made = await ApiKeys(self._gateway.agents, lambda: now).create(
                body.agent, by=session.user, expires_at=until
            )
        except StoreError:
            raise
        except CallgateError as error:
            raise Refused(Reason.INVALID_REQUEST, str(error), advice=error.advice) from error
        detail = {"agent": body.agent, "by": "api-key", "key": made.key.id, "expires_at": until}
        await self._record("agents.add", session.user, detail)
        return JSONResponse({"agent": body.agent, "id": made.key.id, "key": made.text})

    async def ready_revoke(self, _request: Request, session: ConsoleSession, body: _Revoke) -> str:
        self._context.at_least(session, "operator")
        rows = await self._theirs(body.agent, body.key)
        if not rows:
            raise Refused(Reason.PAGE_OUTDATED, "This key does not count any more, or not from here.")
        return f"Take {counted(rows)} from the agent {body.agent}: {body.key[:16]}"

    async def revoke(self, _request: Request, session: ConsoleSession, body: _Revoke) -> Response:
        return await self._take_away(session, body.agent, body.key)

    async def ready_remove(self, _request: Request, session: ConsoleSession, body: _Remove) -> str:
        self._context.at_least(session, "operator")
        rows = await self._theirs(body.agent)
        if not rows or sorted(one.key for one in rows) != sorted(body.keys):
            raise Refused(Reason.PAGE_OUTDATED)
        return f"Shut out the agent {body.agent}: {counted(rows)}"

    async def remove(self, _request: Request, session: ConsoleSession, body: _Remove) -> Response:
        return await self._take_away(session, body.agent, None)

    async def _theirs(self, agent: str, key: str | None = None) -> list[RecognisedAgent]:
        return added(await everybody(self._config, self._gateway.agents), agent, self._context.now(), key)

    async def _take_away(self, session: ConsoleSession, agent: str, key: str | None) -> Response:
        rows = await self._theirs(agent, key)
        await take_away(self._gateway.agents, rows, self._context.now(), key)
        await self._record("agents.remove", session.user, {"agent": agent, "keys": [one.key for one in rows]})
        return JSONResponse({"left": bool((await self._known()).get(agent))})

    async def refresh(self, request: Request) -> Response:
        """Fetch one of the directories that are named here; no other, whoever asks."""
        session, body = await self._context.change(request, _Refresh)
        self._context.at_least(session, "operator")
        if self._fetching.locked():
            raise Refused(Reason.OVERLOADED, "A directory is being fetched already.", advice="Wait for a few seconds.")
        async with self._fetching, directories(self._config, self._gateway.agents) as found:
            if body.url not in {one.url for one in await found.show()}:
                raise Refused(Reason.PAGE_OUTDATED, "This directory is not named here any more.")
            try:
                async with asyncio.timeout(_FETCH_SECONDS):
                    done = await found.refresh(body.url)
            except TimeoutError:
                return JSONResponse({"ok": False, "text": "It did not answer in time; what was held stays."})
        text = f"Not fetched: {done.text or done.failure}; what was held stays."
        if done.ok:
            changes = [*(f"+{name}" for name in done.added), *(f"-{name}" for name in done.removed)]
            text = f"Fetched: {', '.join(changes[:20]) or 'nothing changed'}."
        return JSONResponse({"ok": done.ok, "text": text})


def _strangers(day: DayCounts, known: Container[str]) -> list[tuple[str, AgentCalls]]:
    """Who called today under a name that is not listed here: by a token, or a key that a directory vouches for."""
    found = [(name, seen) for name, seen in day.agents.items() if name not in known]
    return sorted(found, key=lambda one: -one[1].last)[:_STRANGERS]


def _state(one: RecognisedAgent, now: int) -> str:
    return "" if is_live(one, now) else "revoked" if one.revoked_at is not None else "expired"


def _page(text: str, rows: int) -> tuple[int, int]:
    pages = max(1, -(-rows // _ROWS))
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
    return min(max(number, 1), pages), pages


def _path_of(agent: str) -> str:
    return f"/agents/{quote(agent, safe='')}"


def routes(context: ConsoleContext) -> list[Route]:
    if context.gateway is None:
        return []
    page = AgentsPage(context, context.gateway)
    return [
        Route("/agents", page.show),
        *signed(context, "agents/key", _NewKey, page.ready_key, page.make_key),
        *signed(context, "agents/revoke", _Revoke, page.ready_revoke, page.revoke),
        *signed(context, "agents/remove", _Remove, page.ready_remove, page.remove),
        Route("/agents/refresh", page.refresh, methods=["POST"]),
        # The last: an agent may be called anything.
        Route("/agents/{agent:path}", page.one),
    ]
