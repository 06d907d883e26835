"""A client of the modern era that opens URLs, and what it can do with a `requestState`."""

from __future__ import annotations

from typing import Any, Final

from support.persons import ApprovalSite
from support.sessions import Guest, events

OPENS_URLS: Final[dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}}


def modern_guest(site: ApprovalSite, server: str = "web") -> Guest:
    return Guest(site.gateway.url(server), OPENS_URLS)


def state_for(client: Guest, tool: str = "wipe", **arguments: Any) -> str:
    """The state that the gateway gives out for a call that has to be approved."""
    result = client.call(tool, **arguments)["result"]
    assert result["resultType"] == "input_required", result
    state: str = result["requestState"]
    return state


def retry(client: Guest, state: object, tool: str = "wipe", **arguments: Any) -> Any:
    """The same call again, with a state and the answer to what was asked."""
    params = {"name": tool, "arguments": arguments, "requestState": state}
    responses = {"inputResponses": {"callgate-approval": {"action": "accept"}}}
    return events(client.request("tools/call", params | responses).body)[-1]


def reason(answer: Any) -> str:
    return str(answer["error"]["data"]["reason"])


def tampered(state: str) -> str:
    """The state with one character of its signature changed."""
    return state[:-9] + ("B" if state[-9] == "A" else "A") + state[-8:]
