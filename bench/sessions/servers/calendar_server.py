"""A calendar, with the names and annotations of public calendar servers: `python calendar_server.py STATE.json`."""

from __future__ import annotations

import json
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from sessions.servers import state

mcp = MCPServer("google-calendar", version="2.0.7")

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True)

Calendar = Annotated[str, Field(description="ID of the calendar (use 'primary' for the main calendar)")]
Event = Annotated[str, Field(description="ID of the event")]
Time = Annotated[str, Field(description="ISO 8601 time, for example 2026-11-18T09:00:00")]
Guests = Annotated[list[str] | None, Field(description="Email addresses of the attendees; they are sent an invitation")]


def _find(known: dict[str, Any], event: str) -> dict[str, Any]:
    for one in known["events"]:
        if one["id"] == event:
            found: dict[str, Any] = one
            return found
    raise ValueError(f"Event not found: {event}")


def _shown(found: Any) -> str:
    return json.dumps(found, ensure_ascii=False, indent=2)


@mcp.tool("list-calendars", annotations=READS, structured_output=False)
def list_calendars() -> str:
    """List all available calendars"""
    return _shown(state.read()["calendars"])


@mcp.tool("list-events", annotations=READS, structured_output=False)
def list_events(calendarId: Calendar, timeMin: Time, timeMax: Time) -> str:  # noqa: N803
    """List events from a calendar within a time range"""
    events = [one for one in state.read()["events"] if one["calendar"] == calendarId]
    return _shown([one for one in events if one["start"] < timeMax and one["end"] > timeMin])


@mcp.tool("search-events", annotations=READS, structured_output=False)
def search_events(calendarId: Calendar, query: Annotated[str, Field(description="Free text search")]) -> str:  # noqa: N803
    """Search for events in a calendar by text query"""
    events = [one for one in state.read()["events"] if one["calendar"] == calendarId]
    return _shown([one for one in events if query.lower() in json.dumps(one, ensure_ascii=False).lower()])


@mcp.tool("get-event", annotations=READS, structured_output=False)
def get_event(calendarId: Calendar, eventId: Event) -> str:  # noqa: ARG001, N803
    """Get the details of one event"""
    return _shown(_find(state.read(), eventId))


@mcp.tool("get-freebusy", annotations=READS, structured_output=False)
def get_freebusy(
    calendars: Annotated[list[str], Field(description="Calendars or addresses to look at")],
    timeMin: Time,  # noqa: N803
    timeMax: Time,  # noqa: N803
) -> str:
    """Query free/busy information for calendars"""
    known = state.read()
    busy = {
        name: [
            {"start": one["start"], "end": one["end"]}
            for one in known["events"]
            if (one["calendar"] == name or name in one.get("attendees", []))
            and one["start"] < timeMax
            and one["end"] > timeMin
        ]
        for name in calendars
    }
    return _shown(busy)


@mcp.tool("create-event", annotations=ADDS, structured_output=False)
def create_event(
    calendarId: Calendar,  # noqa: N803
    summary: Annotated[str, Field(description="Title of the event")],
    start: Time,
    end: Time,
    description: Annotated[str, Field(description="Notes of the event")] = "",
    location: Annotated[str, Field(description="Where it takes place")] = "",
    attendees: Guests = None,
) -> str:
    """Create a new calendar event"""
    with state.changing() as known:
        event: dict[str, Any] = {"id": state.new_id(known, "evt7k2"), "calendar": calendarId, "summary": summary}
        event |= {"start": start, "end": end, "description": description, "location": location}
        event |= {"organizer": known["owner"], "attendees": attendees or [], "status": "confirmed"}
        known["events"].append(event)
    return _shown(event)


@mcp.tool("update-event", annotations=CHANGES, structured_output=False)
def update_event(
    calendarId: Calendar,  # noqa: ARG001, N803
    eventId: Event,  # noqa: N803
    summary: Annotated[str | None, Field(description="New title")] = None,
    start: Annotated[str | None, Field(description="New start time")] = None,
    end: Annotated[str | None, Field(description="New end time")] = None,
    description: Annotated[str | None, Field(description="New notes")] = None,
    location: Annotated[str | None, Field(description="New place")] = None,
    attendees: Guests = None,
) -> str:
    """Update an existing calendar event"""
    given: dict[str, Any] = {"summary": summary, "start": start, "end": end, "description": description}
    given |= {"location": location, "attendees": attendees}
    with state.changing() as known:
        event = _find(known, eventId)
        event |= {key: value for key, value in given.items() if value is not None}
    return _shown(event)


@mcp.tool("respond-to-event", annotations=CHANGES, structured_output=False)
def respond_to_event(
    calendarId: Calendar,  # noqa: ARG001, N803
    eventId: Event,  # noqa: N803
    response: Annotated[str, Field(description="accepted, declined or tentative")],
    comment: Annotated[str, Field(description="A note to the organizer")] = "",
) -> str:
    """Accept, decline or tentatively accept an invitation"""
    with state.changing() as known:
        event = _find(known, eventId)
        event |= {"status": response, "comment": comment}
    return _shown(event)


@mcp.tool("delete-event", annotations=CHANGES, structured_output=False)
def delete_event(calendarId: Calendar, eventId: Event) -> str:  # noqa: ARG001, N803
    """Delete a calendar event"""
    with state.changing() as known:
        known["events"].remove(_find(known, eventId))
    return "Event deleted successfully"


if __name__ == "__main__":
    mcp.run("stdio")
