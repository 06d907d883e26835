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
from callgate.approval.delegation import LOCAL
from callgate.approval.model import ConsoleSession
from callgate.approval.overview import GrantRow, grant_rows
from callgate.config.agents import agent_name
from callgate.console.context import ConsoleContext, GatewayPage, GatewayParts
from callgate.console.requests import change, signed
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


# 0: until it is revoked.
Days = Annotated[int, Meta(ge=0, le=_DAYS)]
# What the page showed of an agent: what was added meanwhile is not taken away unseen.
Keys = Annotated[tuple[Annotated[str, Meta(max_length=128)], ...], Meta(max_length=1_000)]
Url = Annotated[str, Meta(min_length=1, max_length=2_048)]


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
            grants=await self._grants(agent, now),
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

    async def _grants(self, agent: str, now: int) -> list[GrantRow]:
        """What people have signed beforehand for its calls, and can be used."""
        found = await self._context.approvals.shelf.delegations()
        theirs = [one for one in found if one.terms.agent.source != LOCAL and one.terms.agent.id == agent]
        return [row for row in grant_rows(theirs, now) if row.live]

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

    async def ready_key(self, agent: AgentName, days: Days = 90) -> str:
        if (wrong := agent_name(agent)) is not None:
            raise Refused(Reason.INVALID_PARAMS, f"{wrong[:1].upper()}{wrong[1:]}.", advice="Give it another name.")
        return f"Make an API key for the agent {agent}, {f'for {days} days' if days else 'until it is revoked'}"

    async def make_key(self, session: ConsoleSession, agent: AgentName, days: Days = 90) -> Response:
        now = self._context.now()
        until = now + days * _DAY_MS if days else None
        try:
            made = await ApiKeys(self._gateway.agents, lambda: now).create(agent, by=session.user, expires_at=until)
        except StoreError:
            raise
        except CallgateError as error:
            raise Refused(Reason.INVALID_REQUEST, str(error), advice=error.advice) from error
        detail = {"agent": agent, "by": "api-key", "key": made.key.id, "expires_at": until}
        await self._record("agents.add", session.user, detail)
        return JSONResponse({"agent": agent, "id": made.key.id, "key": made.text})

    async def ready_revoke(self, agent: AgentName, key: KeyId) -> str:
        rows = await self._theirs(agent, key)
        if not rows:
            raise Refused(Reason.PAGE_OUTDATED, "This key does not count any more, or not from here.")
        return f"Take {counted(rows)} from the agent {agent}: {key[:16]}"

    async def revoke(self, session: ConsoleSession, agent: AgentName, key: KeyId) -> Response:
        return await self._take_away(session, agent, key)

    async def ready_remove(self, agent: AgentName, keys: Keys) -> str:
        rows = await self._theirs(agent)
        if not rows or sorted(one.key for one in rows) != sorted(keys):
            raise Refused(Reason.PAGE_OUTDATED)
        return f"Shut out the agent {agent}: {counted(rows)}"

    async def remove(self, session: ConsoleSession, agent: AgentName) -> Response:
        return await self._take_away(session, agent, None)

    async def _theirs(self, agent: str, key: str | None = None) -> list[RecognisedAgent]:
        return added(await everybody(self._config, self._gateway.agents), agent, self._context.now(), key)

    async def _take_away(self, session: ConsoleSession, agent: str, key: str | None) -> Response:
        rows = await self._theirs(agent, key)
        await take_away(self._gateway.agents, rows, self._context.now(), key)
        await self._record("agents.remove", session.user, {"agent": agent, "keys": [one.key for one in rows]})
        return JSONResponse({"left": bool((await self._known()).get(agent))})

    async def refresh(self, url: Url) -> Response:
        """Fetch one of the directories that are named here; no other, whoever asks."""
        if self._fetching.locked():
            raise Refused(Reason.OVERLOADED, "A directory is being fetched already.", advice="Wait for a few seconds.")
        async with self._fetching, directories(self._config, self._gateway.agents) as found:
            if url not in {one.url for one in await found.show()}:
                raise Refused(Reason.PAGE_OUTDATED, "This directory is not named here any more.")
            try:
                async with asyncio.timeout(_FETCH_SECONDS):
                    done = await found.refresh(url)
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
        *signed(context, "agents/key", page.ready_key, page.make_key, role="operator"),
        *signed(context, "agents/revoke", page.ready_revoke, page.revoke, role="operator"),
        *signed(context, "agents/remove", page.ready_remove, page.remove, role="operator"),
        change(context, "/agents/refresh", page.refresh, role="operator"),
        # The last: an agent may be called anything.
        Route("/agents/{agent:path}", page.one),
    ]
