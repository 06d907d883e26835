"""Grants, signed on the page of a running gateway as a person signs them, and calls of agents that prove who they are."""

from __future__ import annotations

import asyncio
import html
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from callgate.agents.apikeys import ApiKeys
from callgate.store import SqlAgents
from support.persons import ApprovalSite, Person
from support.raw import Reply, ask
from support.sessions import CONTENT, events, modern_call, modern_headers

UNTIL = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M")


@dataclass
class Signer:
    """A person at the console, in a browser without a window."""

    site: ApprovalSite
    person: Person
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def arrive(cls, site: ApprovalSite, person: Person | None = None) -> Signer:
        person = person or site.person

        async def enter() -> dict[str, str]:
            (held,) = await person.approvals.shelf.credentials(person.name)
            session, secret = await person.approvals.session_for(held)
            cookie = f"callgate_session_{site.gateway.port}={secret}"
            return {"cookie": cookie, "x-callgate-csrf": session.csrf}

        return cls(site, person, asyncio.run(enter()))

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.site.gateway.port}"

    def get(self, path: str) -> Reply:
        return ask(f"{self.origin}{path}", None, self.headers | {"accept": "text/html"}, "GET")

    def post(self, path: str, body: Any = None, origin: str = "") -> tuple[int, Any]:
        sent = self.headers | {"origin": origin or self.origin, "content-type": "application/json"}
        reply = ask(f"{self.origin}{path}", json.dumps(body or {}).encode(), sent)
        return reply.status, json.loads(reply.body)

    def page(self, **fields: str) -> str:
        reply = self.get(f"/grants/new?{urlencode(fields)}")
        assert reply.status == 200, reply.body
        return reply.body.decode()

    def draft(self, **fields: str) -> dict[str, Any]:
        """The terms that the page shows for what was filled in; `server` and `name` choose the tool."""
        fields = {"calls": "1", "until": UNTIL, **fields}
        named = {name: fields.pop(name) for name in ("server", "name", "request") if name in fields}
        first = self.page(**named)
        tool = re.search(r'name="tool" value="([0-9a-f]+)"', first)
        assert tool is not None, first
        agents = {text: key for key, text in re.findall(r'<option value="([0-9a-f]{16})"[^>]*>([^<]*)', first)}
        wanted = fields.pop("agent", "")
        [agent] = [key for text, key in agents.items() if wanted in text]
        page = self.page(tool=tool[1], agent=agent, show="1", **fields)
        shown = re.search(r"data-terms=\'([^\']*)\'", page)
        if shown is None:
            problem = re.search(r'id="draft-problem">([^<]*)', page)
            raise AssertionError(html.unescape(problem[1]) if problem else page)
        terms: dict[str, Any] = json.loads(html.unescape(shown[1]))
        return terms

    def sign(self, terms: dict[str, Any], changed: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Sign the terms; `changed` is what is sent with the signature instead of them."""
        body = {"terms": terms}
        status, issued = self.post("/grants/sign/options", body)
        if status != 200:
            return status, issued
        options = dict(issued["requestOptions"], allowCredentials=[])
        response = self.person.key.get(options, origin=self.origin)
        sent = body if changed is None else {"terms": changed}
        return self.post("/grants/sign", {"body": sent, "challengeId": issued["challengeId"], "response": response})

    def grant(self, **fields: str) -> str:
        """A grant, made from scratch and signed; its number."""
        status, made = self.sign(self.draft(**fields))
        assert status == 200, made
        return str(made["grant"])


def api_key(site: ApprovalSite, agent: str) -> str:
    """A new API key of an agent."""
    return asyncio.run(ApiKeys(SqlAgents(site.store), lambda: 1).create(agent)).text


@dataclass
class KeyedAgent:
    """An agent that calls over HTTP with its key."""

    site: ApprovalSite
    key: str

    def raw(self, body: bytes, tool: str, server: str = "web") -> Any:
        headers = CONTENT | modern_headers(tool) | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        return events(ask(self.site.gateway.url(server), body, headers).body)[-1]

    def call(self, tool: str, server: str = "web", **arguments: Any) -> Any:
        return self.raw(modern_call(tool, **arguments), tool, server)
