"""The first screen of a review: for whom one approves, which servers are here, what is to be known of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from callgate.cli.pinned import shown
from callgate.cli.tools_lines import Line, blank, heading, said
from callgate.cli.tools_show import finding_lines

if TYPE_CHECKING:
    from callgate.pinning.review.views import Review, ServerView, SetView, ToolView


def overview(review: Review) -> Iterator[Line]:
    """Servers and sets, before the tools."""
    tools = len(review.pending)
    yield said(f"You approve for {shown(review.on_behalf_of)}.", "bold")
    waiting = [f"{tools} tool{'' if tools == 1 else 's'}"] if tools else []
    sets = sum(not one.reviewed for one in review.sets)
    if sets:
        waiting.append("the servers together" if sets == 1 else f"{sets} sets of servers")
    yield said(f"For review: {' and '.join(waiting)}." if waiting else "Nothing waits for review.")
    yield from heading("Servers")
    for server in review.servers:
        yield from _server(server)
    for one in review.sets:
        if not one.reviewed:
            yield from set_lines(one, review)


def _server(view: ServerView) -> Iterator[Line]:
    state = "connected" if view.connected else "not connected now"
    count = f"{len(view.tools)} tool{'' if len(view.tools) == 1 else 's'}, {view.pending} to review"
    yield said(f"{', '.join(map(shown, view.seen.called))}  {state}, {count}", lead="  ", rest="    ")
    yield said(shown(view.seen.server_id), "dim", lead="    ")
    if view.seen.target:
        yield said(shown(view.seen.target), "dim", lead="    ")
    for notice in view.notices:
        yield said(f"! {shown(notice)}", "yellow", lead="    ", rest="      ")
    approved = ", ".join(shown(tool.tool) for tool in view.tools if tool.state == "approved")
    if approved:
        yield said(f"approved: {approved}", lead="    ", rest="      ")
    unfit = [tool for tool in view.tools if tool.state == "unfit"]
    for tool in unfit:
        why = shown(tool.problem or tool.refusal)
        yield said(f"! {shown(tool.tool)} cannot be approved: {why}", "red", lead="    ", rest="      ")


def set_lines(one: SetView, review: Review) -> Iterator[Line]:
    """Servers that meet, and what one of them says of another's tools."""
    where = f"group {shown(one.group)}" if one.group else "outside of groups"
    yield blank()
    yield said(f"Servers that agents see together ({where}): not reviewed together yet", "bold yellow")
    yield said(f"{', '.join(map(shown, one.servers))}; {len(one.servers)} of at most {one.most}", lead="  ")
    for pair in one.open_pairs:
        yield said(f"{' and '.join(map(shown, pair))} were never on one review", lead="  ")
        for name in dict.fromkeys(pair):
            yield from _alike(name, one, review)
    for finding in one.findings:
        yield from finding_lines(finding)


def _alike(name: str, one: SetView, review: Review) -> Iterator[Line]:
    """The identities behind a name that several servers have."""
    found = [server.seen for server in review.servers if (server.seen.name, server.seen.group) == (name, one.group)]
    if len(found) > 1:
        yield said(f"{len(found)} servers have the name {shown(name)}:", lead="    ")
        for seen in found:
            yield said(shown(seen.server_id), lead="      ", rest="        ")


def held_back(review: Review, one: SetView) -> list[ToolView]:
    """Tools that are approved, and wait until the servers of their set were reviewed together."""
    return [tool for server in review.servers if server.seen.name in one.servers for tool in server.tools if tool.held]
